//! The output of `nomen query`.

use crate::support::{APEX, Server, run, text};

/// Returns the output without the parts that differ between runs.
fn stable(output: &str) -> String {
    let mut out = String::new();
    for line in output.lines() {
        let line = match line.split_once("id: ") {
            Some((before, _)) => format!("{before}id: N"),
            None if line.starts_with(";; Query time:") => ";; Query time: N msec".into(),
            None if line.starts_with(";; SERVER:") => ";; SERVER: 127.0.0.1#N(127.0.0.1) (UDP)".into(),
            None => line.to_owned(),
        };
        out += &line;
        out.push('\n');
    }
    out
}

#[test]
fn full_form_is_that_of_dig() {
    let server =
        Server::start(&format!("{APEX}@ MX 10 mail\nmail A 192.0.2.25\nmail AAAA 2001:db8::25\n"), "");
    insta::assert_snapshot!(stable(&server.query(&["example", "MX", "+dnssec"])));
}

#[test]
fn nsid_and_chaos() {
    let server = Server::start(APEX, "");
    server.reconfigure("workers = 2", "workers = 2\nnsid = \"ams1\"\nid = \"here\"");
    server.reload();
    assert!(server.query(&["example", "SOA", "+nsid"]).contains("; NSID: 616d7331 (\"ams1\")"));
    assert_eq!(server.query(&["id.server", "CH", "TXT", "+short"]), "\"here\"\n");
    assert!(server.query(&["version.bind", "CH", "TXT", "+short"]).starts_with("\"nomen "));
    assert!(server.query(&["version.nowhere", "CH", "TXT"]).contains("status: REFUSED"));
}

#[test]
fn a_zone_says_how_long_it_is_good_and_which_version_it_is_where_that_is_asked_for() {
    // APEX has serial 1 and expires after a day.
    let server = Server::start(&format!("{APEX}sub NS ns.elsewhere.test.\n"), "");
    let lines = |words: &[&str]| {
        let printed = server.query(words);
        printed
            .lines()
            .filter(|line| line.contains("EXPIRE") || line.contains("ZONEVERSION"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let expire = "; EXPIRE: 86400 (1 day)".to_owned();
    let version = "; ZONEVERSION: SOA-SERIAL: 1 (zone example.)".to_owned();
    assert_eq!(lines(&["example", "SOA", "+expire"]), std::slice::from_ref(&expire));
    assert_eq!(lines(&["example", "SOA", "+expire", "+zoneversion", "+dnssec"]), [expire, version.clone()]);
    // Only answers to SOA queries for the zone have its expire time (RFC 7314 §3).
    assert!(lines(&["ns1.example", "A", "+expire"]).is_empty());
    assert!(lines(&["ns1.example", "SOA", "+expire"]).is_empty());
    // Every answer from the zone has its version, including negative answers and referrals; a refusal has
    // none.
    for name in ["ns1.example", "nosuch.example", "www.sub.example"] {
        assert_eq!(lines(&[name, "A", "+zoneversion"]), std::slice::from_ref(&version), "{name}");
    }
    assert!(lines(&["elsewhere.test", "A", "+zoneversion"]).is_empty());
    assert!(lines(&["example", "SOA"]).is_empty());
}

#[test]
fn json_form() {
    let server = Server::start(APEX, "");
    let json: serde_json::Value =
        serde_json::from_str(&server.query(&["ns1.example", "A", "+json"])).expect("JSON");
    assert_eq!(json["RCODEname"], "NOERROR");
    assert_eq!(json["answerRRs"][0]["rdataA"], "192.0.2.1");
}

#[test]
fn large_answers_come_over_tcp() {
    let text: String = (0..40).map(|i| format!("big TXT \"{i:0100}\"\n")).collect();
    let server = Server::start(&format!("{APEX}{text}"), "");
    let answer = server.query(&["big.example", "TXT"]);
    assert!(
        answer.contains(";; Truncated, asking again over TCP") && answer.contains("ANSWER: 40"),
        "{answer}"
    );
    assert!(answer.contains("(TCP)"));
    let kept = server.query(&["big.example", "TXT", "+ignore"]);
    assert!(kept.contains(" tc") && kept.contains("(UDP)"), "{kept}");
}

#[test]
fn exit_codes() {
    let folder = tempfile::tempdir().expect("a folder");
    let closed = crate::support::free_address();
    let closed = format!("@{}@{}", closed.ip(), closed.port());
    let output = run(folder.path(), &["query", "example", &closed, "+time=1", "+tries=1"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("connection refused"), "{}", text(&output.stderr));
    let output = run(folder.path(), &["query", "example", "+shrot"]);
    assert_eq!(output.status.code(), Some(2));
    let server = Server::start(APEX, "");
    let at = format!("@{}@{}", server.address.ip(), server.address.port());
    assert_eq!(run(folder.path(), &["query", "nosuch.example", &at]).status.code(), Some(0));
    assert_eq!(run(folder.path(), &["query", "elsewhere.test", &at]).status.code(), Some(1));
}

#[test]
fn servers_have_names_and_parts_of_the_output_can_be_chosen() {
    let server = Server::start(APEX, "");
    let at = format!("@{}#{}", server.address.ip(), server.address.port());
    let folder = tempfile::tempdir().expect("a folder");
    let asked = |words: &[&str]| text(&run(folder.path(), &[&["query", &at], words].concat()).stdout);
    assert_eq!(
        asked(&["-t", "A", "ns1.example", "+noall", "+answer"]),
        "ns1.example.\t60\tIN\tA\t192.0.2.1\n"
    );
    assert!(!asked(&["ns1.example", "+nostats"]).contains("MSG SIZE"));
    assert!(!asked(&["ns1.example", "+nocomments"]).contains("HEADER"));
    // Looked up in /etc/hosts; no server listens there, so only the error shows it.
    let output = run(folder.path(), &["query", "@localhost#1", "-4", "+timeout=1", "+retry=0", "example"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("127.0.0.1:1"), "{}", text(&output.stderr));
}

#[test]
fn several_queries_and_a_file_of_them_are_asked_one_after_the_other() {
    let server = Server::start(&format!("{APEX}@ MX 10 mail\nmail A 192.0.2.25\n"), "");
    let at = format!("@{}#{}", server.address.ip(), server.address.port());
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &["query", &at, "+short", "example", "MX", "mail.example"]);
    assert_eq!(text(&output.stdout), "10 mail.example.\n192.0.2.25\n");
    std::fs::write(folder.path().join("all"), "# mine\nmail.example\nexample MX\nelsewhere.test\n")
        .expect("written");
    let output = run(folder.path(), &["query", &at, "+short", "-f", "all"]);
    assert_eq!(text(&output.stdout), "192.0.2.25\n10 mail.example.\n");
    assert_eq!(output.status.code(), Some(1), "that of the query that went worst");
    std::fs::write(folder.path().join("all"), "mail.example\na..b\n").expect("written");
    let output = run(folder.path(), &["query", &at, "+short", "-f", "all"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "none is asked");
    assert!(text(&output.stderr).contains("all:2: `a..b`"), "{}", text(&output.stderr));
    assert_eq!(run(folder.path(), &["query", &at, "-f", "gone"]).status.code(), Some(3));
}

#[test]
fn long_records_go_over_several_lines() {
    let server = Server::start(APEX, "");
    let at = format!("@{}#{}", server.address.ip(), server.address.port());
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &["query", &at, "example", "SOA", "+multiline", "+noall", "+answer"]);
    insta::assert_snapshot!(text(&output.stdout));
}

#[test]
fn a_datagram_that_fits_no_query_was_dropped_unseen() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("bound");
    let peer = std::thread::spawn(move || {
        let mut query = [0; 512];
        let (size, from) = socket.recv_from(&mut query).expect("a query");
        query[2] |= 0x80;
        let mut forged = query;
        forged[0] ^= 1;
        socket.send_to(&forged[..size], from).expect("sent");
        socket.send_to(&query[..size], from).expect("sent");
    });
    let folder = tempfile::tempdir().expect("a folder");
    let at = format!("@{}#{}", address.ip(), address.port());
    let time = format!("+time={}", crate::support::TEST_TIMEOUT.as_secs());
    let output = run(folder.path(), &["query", &at, &time, "+tries=1", "example"]);
    peer.join().expect("asked");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(";; Ignored a datagram of "), "{}", text(&output.stderr));
}
