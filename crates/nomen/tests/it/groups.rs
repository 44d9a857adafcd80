//! Groups of clients: which lists and policy zones count for whom, and pauses.

use std::fs;
use std::io::{Read, Write};
use std::net::UdpSocket;

use crate::connections::connect;
use crate::metrics::http;
use crate::proxies::header_to;
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message, text, written};

const UPSTREAM: &str = "ads A 192.0.2.1\nadult A 192.0.2.2\nwww A 192.0.2.3\n";

/// A forwarder with two lists and a policy zone. Clients at 127.0.0.8 and 127.0.0.9 are children.
fn server(more: &str) -> (Server, Server) {
    server_with("", more)
}

/// The same with keys of `[server]`.
fn server_with(keys: &str, more: &str) -> (Server, Server) {
    let upstream = Server::start(&format!("{APEX}{UPSTREAM}"), "");
    let folder = tempfile::tempdir().expect("a folder");
    let rpz = "$TTL 60\n@ SOA . . 1 3600 600 86400 60\n@ NS invalid.\nwww.example CNAME *.\n";
    for (name, contents) in [("ads", "ads.example\n"), ("adult", "adult.example\n"), ("rpz", rpz)] {
        fs::write(folder.path().join(name), contents).expect("written");
    }
    let config = format!(
        "[resolver]\nvalidate = false\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\nmax-timeout = \"60s\"\n\
         client-timeout = \"60s\"\n[[resolver.forward]]\nservers = [{}]\n\
         [[resolver.access]]\nfrom = [\"loopback\"]\n\
         [[zone]]\nname = \"rpz.test\"\nfile = \"rpz\"\n[[policy.zone]]\nname = \"rpz.test\"\n\
         [[policy.list]]\nname = \"ads\"\nfile = \"ads\"\n[[policy.list]]\nname = \"adult\"\nfile = \"adult\"\n\
         [policy]\nlists = [\"ads\"]\nzones = []\n\
         [[policy.group]]\nname = \"children\"\nfrom = [\"127.0.0.8/31\"]\nlists = [\"ads\", \"adult\"]\n\
         safe-search = true\n{more}",
        written(upstream.address)
    );
    (Server::start_in(folder, keys, &config), upstream)
}

/// Which of these names the server answers with an address for a client.
fn answered(server: &Server, client: &str) -> Vec<&'static str> {
    let answer = |name: &str| server.query(&[name, "+short", "-b", client]);
    ["ads.example", "adult.example", "www.example"]
        .into_iter()
        .filter(|name| !answer(name).is_empty())
        .collect()
}

#[test]
fn each_group_has_its_lists_and_zones_from_the_cache_too() {
    let (server, _upstream) = server("");
    for _ in 0..2 {
        assert_eq!(answered(&server, "127.0.0.1"), ["adult.example", "www.example"]);
        assert_eq!(answered(&server, "127.0.0.8"), [""; 0], "all zones count");
    }
    let test = |client: &str, name: &str| {
        server.ctl_json(&["policy", "test", name, "--client", client])["result"].clone()
    };
    assert_eq!(test("127.0.0.9", "adult.example"), "blocked");
    assert_eq!(test("127.0.0.10", "adult.example"), "no-rule");
    assert_eq!(test("127.0.0.9", "www.example"), "nodata");
    server.reconfigure("lists = [\"ads\", \"adult\"]", "lists = []\nzones = []");
    server.reload();
    assert_eq!(answered(&server, "127.0.0.8").len(), 3);
}

#[test]
fn search_engines_leave_adult_content_out_for_the_group_alone() {
    let (server, _upstream) = server("");
    let asked = |client: &str, qtype: &str| {
        let says = server.query(&["www.bing.com", qtype, "-b", client]);
        says.contains("CNAME\tstrict.bing.com.")
    };
    assert!(asked("127.0.0.8", "CNAME"));
    assert!(!asked("127.0.0.8", "MX"), "mail is not rewritten");
    assert!(!asked("127.0.0.1", "CNAME"));
    let status = server.ctl_json(&["policy", "status"]);
    assert_eq!(
        (&status[1]["name"], &status[1]["queries"]["local-data"]),
        (&"safe-search.".into(), &1.into()),
        "{status}"
    );
}

#[test]
fn a_pause_suspends_the_rules_of_one_group_and_ends() {
    let (server, _upstream) = server("");
    assert!(server.ctl(&["policy", "pause", "children", "1h"]).status.success());
    assert_eq!(answered(&server, "127.0.0.8").len(), 3);
    assert_eq!(answered(&server, "127.0.0.1"), ["adult.example", "www.example"]);
    let said = text(&server.ctl(&["policy", "status"]).stdout);
    assert!(said.contains("group children: paused until 20"), "{said}");
    assert!(server.ctl(&["policy", "resume", "children"]).status.success());
    assert_eq!(answered(&server, "127.0.0.8"), [""; 0]);
    assert!(server.ctl(&["policy", "pause", "default", "1s"]).status.success());
    eventually("the pause has ended", &server, || answered(&server, "127.0.0.1").len() == 2);
    let fault = text(&server.ctl(&["policy", "pause", "adults", "1h"]).stderr);
    assert!(fault.contains("there is no group adults"), "{fault}");
    let fault = text(&server.ctl(&["policy", "pause", "children", "8d"]).stderr);
    assert!(fault.contains("7d"), "{fault}");
}

/// The whole day is in one of two schedules, so that the test does not depend on the time.
#[test]
fn a_schedule_replaces_what_counts() {
    let half = |start: &str, end: &str| {
        format!(
            "[[policy.schedule]]\ngroup = \"children\"\nstart = \"{start}\"\nend = \"{end}\"\n\
             time-zone = \"UTC\"\nlists = [\"adult\"]\nzones = []\n"
        )
    };
    let (server, _upstream) = server(&(half("00:00", "12:00") + &half("12:00", "00:00")));
    assert_eq!(answered(&server, "127.0.0.8"), ["ads.example", "www.example"]);
}

#[test]
fn queries_that_a_key_signs_are_those_of_its_group() {
    let key = "[[tsig-key]]\nname = \"phone\"\nsecret = \"c2VjcmV0\"\n";
    let (server, _upstream) = server(key);
    server.reconfigure("from = [\"127.0.0.8/31\"]", "from = [\"127.0.0.8/31\", \"key:Phone\"]");
    server.reload();
    let signed = |name: &str| server.query(&["-y", "hmac-sha256:phone:c2VjcmV0", name, "+short"]);
    for _ in 0..2 {
        assert_eq!(
            (server.query(&["adult.example", "+short"]).as_str(), signed("adult.example").as_str()),
            ("192.0.2.2\n", "")
        );
    }
    server.reconfigure("key:Phone", "key:phones");
    let said = text(&server.ctl(&["reload"]).stderr);
    assert!(said.contains("there is no key phones."), "{said}");
}

#[test]
fn options_of_a_trusted_forwarder_select_the_group() {
    let (server, _upstream) = server("");
    let from = "from = [\"mac:02:00:5e:10:00:ff\", \"client-id:tablet\", \"edns-tag:100\"]";
    let test = |words: &[&str]| server.ctl(&[&["policy", "test", "adult.example"], words].concat());
    server.reconfigure("from = [\"127.0.0.8/31\"]", from);
    let said = text(&server.ctl(&["reload"]).stderr);
    assert!(said.contains("no forwarder is trusted to send one"), "{said}");
    server.reconfigure("zones = []\n", "zones = []\nclient-ids-from = [\"127.0.0.5\"]\n");
    server.reload();
    let adult = |client: &str, option: &str| {
        let answer = server.query(&["adult.example", "+short", "-b", client, &format!("+ednsopt={option}")]);
        !answer.is_empty()
    };
    // Cached from the second round on.
    for _ in 0..2 {
        for option in ["65001:02005e1000ff", "65073:416742654541442f", "65074:7461626c6574", "16:0064"] {
            assert!(!adult("127.0.0.5", option), "{option} of the forwarder");
            assert!(adult("127.0.0.6", option), "{option} of another client");
        }
        assert!(adult("127.0.0.5", "16:0065") && adult("127.0.0.5", "65001:02005e1000fe"));
    }
    for option in [["--mac", "02-00-5E-10-00-FF"], ["--client-id", "tablet"], ["--edns-tag", "100"]] {
        let said = text(&test(&[&["--client", "127.0.0.5"], &option[..]].concat()).stdout);
        assert!(said.contains("blocks it") && said.contains("(group `children`)"), "{option:?}: {said}");
        let fault = text(&test(&[&["--client", "127.0.0.6"], &option[..]].concat()).stderr);
        assert!(fault.contains("127.0.0.6: it is not in `client-ids-from`"), "{option:?}: {fault}");
    }
    let said = server.ctl(&["explain", "adult.example", "--client", "127.0.0.5", "--client-id", "tablet"]);
    let said = text(&said.stdout);
    assert!(said.contains("the client 127.0.0.5 is in group `children`"), "{said}");
    assert!(said.contains("status: NXDOMAIN"), "{said}");
    let said = text(&server.ctl(&["explain", "adult.example", "--client", "127.0.0.5"]).stdout);
    assert!(said.contains("127.0.0.5 is in no group") && said.contains("192.0.2.2"), "{said}");
}

/// A query for the address of `adult.example` with RD.
fn recursive(id: u16) -> Vec<u8> {
    let mut query = message(id, "adult.example", 1);
    query[2] |= 1;
    query
}

#[test]
fn clients_of_a_group_have_a_limit_over_each_transport() {
    let at = free_address();
    let (server, _upstream) =
        server(&format!("queries-per-second = 1\n[metrics]\nlisten = {}\n", written(at)));
    assert_eq!(answered(&server, "127.0.0.1").len(), 2, "the answers are cached");
    const QUERIES: u16 = 40;
    // A client in no group has no limit.
    let rcodes = |client: &str| -> Vec<u8> {
        let mut stream = connect(client, server.address);
        let query = |id| {
            let query = recursive(id);
            [&(query.len() as u16).to_be_bytes()[..], &query].concat()
        };
        let all: Vec<u8> = (0..QUERIES).flat_map(query).collect();
        stream.write_all(&all).expect("sent");
        let one = |_| {
            let mut len = [0; 2];
            stream.read_exact(&mut len).expect("a reply to each query");
            let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
            stream.read_exact(&mut reply).expect("a reply");
            reply[3] & 15
        };
        (0..QUERIES).map(one).collect()
    };
    assert_eq!(rcodes("127.0.0.1"), [0; QUERIES as usize]);
    let rcodes = rcodes("127.0.0.8");
    assert_eq!(rcodes[..2], [3, 3], "blocked, as of the children's list");
    assert!(rcodes.contains(&5), "REFUSED: {rcodes:?}");
    let refused = rcodes.iter().filter(|rcode| **rcode == 5).count();
    let line = format!("nomen_policy_group_limited_total{{group=\"children\"}} {refused}");
    let figures = http(at, "GET /metrics");
    assert!(figures.lines().any(|own| own == line), "{line}:\n{figures}");
    let blocked = format!(
        "nomen_policy_group_queries_total{{group=\"children\",action=\"nxdomain\"}} {}",
        40 - refused
    );
    assert!(figures.lines().any(|own| own == blocked), "{blocked}:\n{figures}");
    // A query that an operator asks about is not refused.
    let explained = text(&server.ctl(&["explain", "adult.example", "--client", "127.0.0.8"]).stdout);
    assert!(explained.contains("status: NXDOMAIN"), "{explained}");
    // Over UDP, queries beyond the limit get no reply.
    let socket = UdpSocket::bind("127.0.0.9:0").expect("a socket");
    socket.connect(server.address).expect("connected");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let over = || {
        let all = server.ctl_json(&["policy", "status"]);
        let all = all.as_array().expect("a list").clone();
        let group = all.into_iter().find(|one| one["name"] == "children").expect("the group");
        group["over_limit"].as_u64().expect("a number")
    };
    for id in 0..QUERIES {
        socket.send(&recursive(id)).expect("sent");
    }
    let mut buf = [0; 512];
    for _ in 0..2 {
        let len = socket.recv(&mut buf).expect("a reply");
        assert_eq!((buf[3] & 15, len > 12), (3, true));
    }
    eventually("queries are dropped", &server, || over() > refused as u64);
    let status = text(&server.ctl(&["policy", "status"]).stdout);
    assert!(status.contains("queries over the limit"), "{status}");
}

#[test]
fn a_group_has_the_queries_to_an_address_of_the_server() {
    let (server, _upstream) = server_with("proxy-protocol-from = [\"127.9.0.1\"]\n", "");
    let (ip, port) = (server.address.ip(), server.address.port());
    let asked = |words: &[&str]| server.query(&[&["adult.example", "+short"], words].concat());
    // By a proxy that names the destination 192.0.2.53, port 53.
    let behind_proxy = || {
        let socket = UdpSocket::bind("127.9.0.1:0").expect("an address");
        socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let header = header_to([127, 0, 0, 3], [192, 0, 2, 53], 2);
        let mut query = message(7, "adult.example", 1);
        query[2] |= 1; // RD
        socket.send_to(&[header, query].concat(), server.address).expect("sent");
        let mut reply = [0; 512];
        socket.recv(&mut reply).expect("a reply");
        reply[3] & 15
    };
    let mut from = "from = [\"127.0.0.8/31\"]".to_owned();
    for (member, is_here, is_there) in [
        (format!("any on:{ip}"), true, false),
        (format!("127.0.0.0/8 on:{ip}@{port}"), true, false),
        (format!("any on:{ip}@1"), false, false),
        (format!("127.0.0.8/31 on:{ip}"), false, false),
        ("any on:192.0.2.53@53".to_owned(), false, true),
    ] {
        let next = format!("from = [\"192.0.2.0/24\", \"{member}\"]");
        server.reconfigure(&from, &next);
        from = next;
        server.reload();
        assert_eq!([asked(&[]).is_empty(), asked(&["+tcp"]).is_empty()], [is_here; 2], "{member}");
        assert_eq!(behind_proxy() == 3, is_there, "{member}: behind the proxy");
    }
    let test = |on: &str| text(&server.ctl(&["policy", "test", "adult.example", "--on", on]).stdout);
    assert!(test("192.0.2.53@53").contains("(group `children`)"), "{}", test("192.0.2.53@53"));
    assert_eq!(test("192.0.2.53@853"), "no policy zone and no list has a rule for it\n");
}
