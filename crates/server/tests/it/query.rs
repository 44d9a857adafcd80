//! What `nomen query` prints.

use crate::support::{APEX, Server, run, text};

/// The output without what differs from run to run.
fn stable(output: &str) -> String {
    let mut out = String::new();
    for line in output.lines() {
        let line = match line.split_once("id: ") {
            Some((before, _)) => format!("{before}id: N"),
            None if line.starts_with(";; Query time:") => ";; Query time: N msec".into(),
            None if line.starts_with(";; SERVER:") => ";; SERVER: 127.0.0.1#N (UDP)".into(),
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
    let nobody = crate::support::free_address();
    let nobody = format!("@{}@{}", nobody.ip(), nobody.port());
    let output = run(folder.path(), &["query", "example", &nobody, "+time=1", "+tries=1"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("nobody listens there"), "{}", text(&output.stderr));
    let output = run(folder.path(), &["query", "example", "+shrot"]);
    assert_eq!(output.status.code(), Some(2));
    let server = Server::start(APEX, "");
    let at = format!("@{}@{}", server.address.ip(), server.address.port());
    assert_eq!(run(folder.path(), &["query", "nosuch.example", &at]).status.code(), Some(0));
    assert_eq!(run(folder.path(), &["query", "elsewhere.test", &at]).status.code(), Some(1));
}
