//! Access rules for queries: of the server, and of zones, by network, key, transport, opcode and type.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use tempfile::TempDir;

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, message, run, text};

/// The key `k.example`, and its block.
const SECRET: &str = "3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=";
const KEY: &str =
    "[[tsig-key]]\nname = \"k.example\"\nsecret = \"3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=\"\n";

/// Two clients.
const ONE: &str = "127.1.0.1";
const TWO: &str = "127.2.0.1";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("written"));
    folder
}

/// Runs dig from a client's address, signed with the key or not, and returns its output.
fn dig(server: &Server, from: &str, signed: bool, words: &[&str]) -> String {
    let mut command = Command::new("dig");
    command.env("HOME", "/nonexistent").arg(format!("@{}", server.address.ip()));
    let port = server.address.port().to_string();
    command.args(["-p", &port, "-b", from, "+tries=1", "+time=60", "+nocookie", "+ignore"]);
    if signed {
        command.args(["-y", &format!("hmac-sha256:k.example:{SECRET}")]);
    }
    text(&command.args(words).output().expect("dig runs").stdout)
}

/// Returns the status of the reply, and TC if it is set.
fn status(server: &Server, from: &str, signed: bool, words: &[&str]) -> String {
    let reply = dig(server, from, signed, words);
    let word = |after: &str| reply.split_once(after).and_then(|(_, rest)| rest.split([',', ';']).next());
    let truncated = word("flags: ").is_some_and(|flags| flags.split(' ').any(|flag| flag == "tc"));
    format!("{}{}", word("status: ").unwrap_or(&reply), if truncated { " tc" } else { "" })
}

/// Sends messages from one socket and returns the identifier of the first reply. Replies to messages that the server reads
/// together may leave in another order.
fn first_reply(server: &Server, from: &str, messages: &[&[u8]]) -> u16 {
    let socket = UdpSocket::bind((from, 0)).expect("an address");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    for message in messages {
        socket.send_to(message, server.address).expect("sent");
    }
    let mut reply = [0; 1500];
    socket.recv(&mut reply).expect("a reply");
    u16::from_be_bytes([reply[0], reply[1]])
}

fn counted(server: &Server) -> [u64; 3] {
    ["refuse", "drop", "truncate"]
        .map(|action| server.counter(&format!("nomen_access_total{{action=\"{action}\"}}")))
}

#[test]
fn the_first_rule_of_the_server_decides_about_every_message() {
    let block = |action: &str, from: &str, more: &str| {
        format!("[[server.access]]\naction = \"{action}\"\nfrom = [{from}]\n{more}\n")
    };
    let rules = [
        block("allow", "\"key:k.example\"", ""),
        block("drop", "\"any\"", "type = [\"TXT\"]"),
        block("refuse", "\"any\"", "opcode = [\"notify\"]"),
        block("truncate", "\"127.2.0.0/16\"", "type = [\"ANY\"]\nproto = [\"udp\", \"tcp\"]"),
        block("refuse", "\"127.2.0.0/16\"", ""),
    ];
    let server = Server::start(APEX, &(rules.concat() + KEY));
    let of = |from, words: &[&str]| status(&server, from, false, words);
    // By network, with the extended error; a key counts before.
    assert_eq!(of(ONE, &["ns1.example", "A"]), "NOERROR");
    assert_eq!(of(TWO, &["ns1.example", "A"]), "REFUSED");
    assert!(dig(&server, TWO, false, &["ns1.example", "A"]).contains("EDE: 18 (Prohibited)"));
    assert_eq!(status(&server, TWO, true, &["ns1.example", "A"]), "NOERROR");
    assert_eq!(of(TWO, &["ns1.example", "A", "+tcp"]), "REFUSED");
    assert_eq!(counted(&server), [3, 0, 0]);
    // By opcode.
    assert_eq!(of(ONE, &["example", "SOA", "+opcode=notify"]), "REFUSED");
    // By type: truncated over UDP, accepted over TCP.
    assert_eq!(of(TWO, &["ns1.example", "ANY", "+notcp"]), "NOERROR tc");
    assert_eq!(of(TWO, &["ns1.example", "ANY", "+tcp"]), "NOERROR");
    assert_eq!(counted(&server), [4, 0, 1]);
    // A dropped query has no reply: that to the one behind it comes first.
    assert_eq!(
        first_reply(&server, ONE, &[&message(1, "ns1.example", 16), &message(2, "ns1.example", 1)]),
        2
    );
    // A response gets no reply, whatever the rules say, and a malformed query is refused.
    let mut response = message(3, "ns1.example", 1);
    response[2] |= 0x80;
    assert_eq!(first_reply(&server, TWO, &[&response, &message(4, "ns1.example", 1)]), 4);
    let mut malformed = message(5, "ns1.example", 1);
    malformed.push(0);
    assert_eq!(first_reply(&server, TWO, &[&malformed]), 5);
    assert_eq!(counted(&server), [6, 1, 1]);

    // A reload with other networks, and without rules.
    server.reconfigure("127.2.0.0/16", "127.1.0.0/16");
    server.reload();
    assert_eq!([of(ONE, &["ns1.example", "A"]), of(TWO, &["ns1.example", "A"])], ["REFUSED", "NOERROR"]);
    server.reconfigure(&rules.concat().replace("127.2.", "127.1."), "");
    server.reload();
    assert_eq!(of(ONE, &["ns1.example", "A"]), "NOERROR");
    assert_eq!(of(ONE, &["ns1.example", "TXT"]), "NOERROR");
}

/// A public zone whose aliases lead into a private one, and the private one.
const PUBLIC: &str = "www A 192.0.2.1\nalias CNAME host.private\ninside DNAME private\nmx MX 1 host.private\n\
                      private-sub NS host.private\n";
const PRIVATE: &str = "host A 192.0.2.99\nback CNAME www.example.\n";

fn zones(allow_query: &str) -> String {
    format!(
        "[[zone]]\nname = \"example\"\nfile = \"public\"\n\
         [[zone]]\nname = \"private\"\nfile = \"private\"\nallow-query = [{allow_query}]\n"
    )
}

fn start(allow_query: &str, more: &str) -> Server {
    let public = format!("{}{PUBLIC}", APEX.replace("host.private", "host.private."));
    let public = public.replace("private\n", "private.\n");
    let files = folder(&[("public", &public), ("private", &format!("{APEX}{PRIVATE}"))]);
    Server::start_in(files, "", &(zones(allow_query) + KEY + more))
}

#[test]
fn only_the_clients_of_a_zone_query_it() {
    let server = start("\"!127.1.0.9\", \"127.1.0.0/16\", \"key:k.example\", \"127.3.0.0/16 proto:tcp\"", "");
    let of = |from, words: &[&str]| status(&server, from, false, words);
    let host: &[&str] = &["host.private", "A"];
    for (from, expected) in
        [(ONE, "NOERROR"), (TWO, "REFUSED"), ("127.1.0.9", "REFUSED"), ("127.3.0.1", "REFUSED")]
    {
        assert_eq!(of(from, host), expected, "{from}");
    }
    assert_eq!(of("127.3.0.1", &["host.private", "A", "+tcp"]), "NOERROR");
    assert_eq!(of(TWO, &["www.example", "A"]), "NOERROR", "another zone is not concerned");
    assert_eq!(status(&server, TWO, true, host), "NOERROR");
    // Nothing of the zone is in the refusal: neither its names nor its serial.
    let refused = dig(&server, TWO, false, &["private", "SOA", "+expire", "+ednsopt=19"]);
    assert!(refused.contains("REFUSED") && refused.contains("EDE: 18 (Prohibited)"), "{refused}");
    assert!(
        !refused.contains("EXPIRE") && !refused.contains("ZONEVERSION") && refused.contains("AUTHORITY: 0")
    );
    let allowed = dig(&server, ONE, false, &["private", "SOA", "+expire", "+ednsopt=19"]);
    assert!(allowed.contains("EXPIRE"), "{allowed}");
    assert_eq!(of(TWO, &["none.private", "A"]), "REFUSED", "whether a name exists is not shown");
    assert!(server.counter("nomen_zone_refused_total") >= 5);
}

#[test]
fn no_alias_leads_into_a_zone_that_the_client_may_not_query() {
    let server = start("\"127.1.0.0/16\"", "");
    let short = |from, name: &str, qtype: &str| {
        let answer = dig(&server, from, false, &["+short", name, qtype]);
        answer.trim().replace('\n', " ")
    };
    assert_eq!(short(ONE, "alias.example", "A"), "host.private. 192.0.2.99");
    assert_eq!(short(TWO, "alias.example", "A"), "host.private.");
    assert_eq!(short(ONE, "host.inside.example", "A"), "private. host.private. 192.0.2.99");
    assert_eq!(short(TWO, "host.inside.example", "A"), "private. host.private.");
    // The end of the chain is not shown: there is no NXDOMAIN of the private zone.
    let none = |from| status(&server, from, false, &["none.inside.example", "A"]);
    assert_eq!([none(ONE), none(TWO)], ["NXDOMAIN", "NOERROR"]);
    // Additional records are of the zone itself alone.
    for (name, qtype) in [("mx.example", "MX"), ("x.private-sub.example", "A")] {
        assert!(!dig(&server, TWO, false, &[name, qtype]).contains("192.0.2.99"), "{name}");
    }
    // From the private zone into the public one, the zone of the query name decides.
    assert_eq!(short(ONE, "back.private", "A"), "www.example. 192.0.2.1");
    assert_eq!(status(&server, TWO, false, &["back.private", "A"]), "REFUSED");
    assert_eq!(server.counter("nomen_zone_chains_cut_total"), 3);
    // The explanation is that of the client.
    let explain =
        |client: &str| text(&server.ctl(&["explain", "alias.example", "A", "--client", client]).stdout);
    assert!(
        explain(TWO).contains("`allow-query` of zone private. does not allow the query"),
        "{}",
        explain(TWO)
    );
    assert!(explain(ONE).contains("192.0.2.99"), "{}", explain(ONE));
}

#[test]
fn recursion_is_no_way_around_the_rules_of_a_zone() {
    // The resolver would forward the names to this server itself.
    let more = "[resolver]\nvalidate = false\n[[resolver.forward]]\nservers = [\"127.0.0.1@1\"]\n\
                [[resolver.access]]\nfrom = [\"any\"]\n";
    let server = start("\"127.1.0.0/16\"", more);
    assert_eq!(status(&server, TWO, false, &["host.private", "A", "+recurse"]), "REFUSED");
    let alias = dig(&server, TWO, false, &["alias.example", "A", "+recurse"]);
    assert!(alias.contains("NOERROR") && alias.contains("ANSWER: 1"), "{alias}");
    assert_eq!(status(&server, ONE, false, &["host.private", "A", "+recurse"]), "NOERROR");
}

#[test]
fn a_reload_changes_who_may_query_a_zone() {
    let server = start("\"127.1.0.0/16\"", "");
    let of = |from| status(&server, from, false, &["host.private", "A"]);
    let reload = |from: &str, to: &str| {
        server.reconfigure(from, to);
        server.reload();
        [of(ONE), of(TWO)]
    };
    assert_eq!([of(ONE), of(TWO)], ["NOERROR", "REFUSED"]);
    assert_eq!(reload("allow-query = [\"127.1.0.0/16\"]\n", ""), ["NOERROR", "NOERROR"]);
    let private = "file = \"private\"\n";
    let with = |clients: &str| format!("{private}allow-query = [{clients}]\n");
    assert_eq!(reload(private, &with("\"127.2.0.0/16\"")), ["REFUSED", "NOERROR"]);
    assert_eq!(reload(&with("\"127.2.0.0/16\""), &with("\"!any\"")), ["REFUSED", "REFUSED"]);
}

#[test]
fn a_zone_that_leaves_and_comes_back_has_its_rules() {
    let server = start("\"!any\"", "");
    let of = |from| status(&server, from, false, &["host.private", "A"]);
    let reload = |from: &str, to: &str| {
        server.reconfigure(from, to);
        server.reload();
        [of(ONE), of(TWO)]
    };
    let private = "file = \"private\"\n";
    let with = |clients: &str| format!("{private}allow-query = [{clients}]\n");
    let zone = format!("[[zone]]\nname = \"private\"\n{}", with("\"!any\""));
    assert_eq!(reload(&zone, ""), ["REFUSED", "REFUSED"]);
    assert_eq!(reload(KEY, &format!("{zone}{KEY}")), ["REFUSED", "REFUSED"]);
    assert_eq!(reload(&with("\"!any\""), private), ["NOERROR", "NOERROR"]);
    // A faulty list changes nothing.
    server.reconfigure(private, &with("\"10.0.0.0/33\""));
    server.reload_badly();
    assert_eq!([of(ONE), of(TWO)], ["NOERROR", "NOERROR"]);
}

#[test]
fn templates_catalog_zones_and_zones_added_at_run_time_have_the_rules_too() {
    let files = folder(&[]);
    fs::create_dir(files.path().join("some")).expect("made");
    fs::create_dir(files.path().join("members")).expect("made");
    for name in ["some/one.zone", "some/two.zone", "members/m.zone"] {
        fs::write(files.path().join(name), format!("{APEX}www A 192.0.2.1\n")).expect("written");
    }
    let catalog = "@ 60 SOA . . 1 60 60 60 60\n@ NS invalid.\nversion TXT 2\na.zones PTR m.\n";
    fs::write(files.path().join("cat"), catalog).expect("written");
    let more = "[template.some]\ndirectory = \"some\"\nallow-query = [\"127.1.0.0/16\"]\n\
                [template.members]\nfile = \"members/{zone}.zone\"\nallow-query = [\"127.2.0.0/16\"]\n\
                [[zone]]\nname = \"two\"\ntemplate = \"some\"\nfile = \"some/two.zone\"\nallow-query = [\"any\"]\n\
                [[zone]]\nname = \"cat\"\nfile = \"cat\"\ncatalog-template = \"members\"\n";
    let server = Server::start_in(files, "state-dir = \"state\"\n", more);
    let of = |name: &str| [ONE, TWO].map(|from| status(&server, from, false, &[name, "A"]));
    assert_eq!(of("www.one"), ["NOERROR", "REFUSED"]);
    assert_eq!(of("www.two"), ["NOERROR", "NOERROR"], "the zone's own list counts");
    eventually("the member is there", &server, || of("www.m")[1] == "NOERROR");
    assert_eq!(of("www.m"), ["REFUSED", "NOERROR"]);
    // A zone added at run time, and another member.
    server.write("members/new.zone", &format!("{APEX}www A 192.0.2.1\n"));
    server.ctl_json(&["zone", "add", "new", "--template", "members"]);
    assert_eq!(of("www.new"), ["REFUSED", "NOERROR"]);
    server.write("members/n.zone", &format!("{APEX}www A 192.0.2.1\n"));
    server.write("cat", &(catalog.replace(" 1 60", " 2 60") + "b.zones PTR n.\n"));
    server.reload();
    eventually("the other member is there", &server, || of("www.n")[1] == "NOERROR");
    assert_eq!(of("www.n"), ["REFUSED", "NOERROR"]);
    server.ctl_json(&["zone", "remove", "new"]);
    assert_eq!(of("www.new"), ["REFUSED", "REFUSED"], "it is gone");
}

#[test]
fn check_reports_what_is_wrong_with_rules() {
    let folder = folder(&[("z", APEX)]);
    let check = |config: &str| {
        fs::write(folder.path().join("c.toml"), config).expect("written");
        let output = run(folder.path(), &["check", "c.toml"]);
        (output.status.success(), text(&output.stderr) + &text(&output.stdout))
    };
    let zone =
        "[[zone]]\nname = \"example\"\nfile = \"z\"\nallow-query = [\"key:k.example\", \"10.0.0.0/8\"]\n";
    let rule = "[[server.access]]\naction = \"refuse\"\nfrom = [\"key:k.example\", \"10.0.0.0/8\"]\n";
    let good = format!("{zone}{rule}{KEY}");
    let (success, said) = check(&good);
    assert!(success, "{said}");
    for (from, to, words) in [
        ("[\"key:k.example\", \"10.0.0.0/8\"]\n[[", "[\"key:l.example\"]\n[[", "c.toml:4:16"),
        ("from = [\"key:k", "from = [\"key:j", "there is no key j.example."),
        ("allow-query = [\"key:k.example\", \"10", "allow-query = [\"key:k.example\", \"300", "c.toml:4:33"),
        ("\"refuse\"", "\"allow\"", "[[server.access]] has no effect"),
    ] {
        let (success, said) = check(&good.replace(from, to));
        assert!(!success && said.contains(words), "{words}: {said}");
    }
}
