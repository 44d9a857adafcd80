//! Transactions: `nomen ctl zone begin` and the commands after it.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{APEX, Server, eventually, run, text};

/// Keys of a zone that accepts changes.
const OPEN: &str = "allow-update = [\"127.0.0.0/8\"]\nallow-transfer = [\"127.0.0.0/8\"]\n";

fn start(folder: TempDir, more: &str) -> Server {
    Server::start_in(folder, "state-dir = \"state\"\n", &format!("{OPEN}{more}"))
}

fn server(more: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), format!("{APEX}www 5 A 192.0.2.80\nwww A 192.0.2.81\n"))
        .expect("written");
    start(folder, more)
}

/// Runs `nomen ctl zone` successfully, and returns its output.
fn zone(server: &Server, arguments: &[&str]) -> String {
    let output = server.ctl(&[&["zone"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs `nomen ctl zone`, which must fail, and returns its output and errors.
fn refused(server: &Server, arguments: &[&str]) -> String {
    let output = server.ctl(&[&["zone"], arguments].concat());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stdout) + &text(&output.stderr)
}

/// Changes the zone by a dynamic update.
fn update(server: &Server, line: &str) {
    let (ip, port) = (server.address.ip(), server.address.port());
    fs::write(server.path("script"), format!("server {ip} {port}\nzone example\n{line}\n")).expect("written");
    let output = run(server.folder.path(), &["update", "script"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn what_is_set_and_unset_changes_the_zone_at_once_when_it_is_committed() {
    let server = server("");
    zone(&server, &["begin", "example"]);
    let added = "+mail.example. 60 IN A 192.0.2.25\n";
    assert_eq!(zone(&server, &["set", "example", "mail", "A", "192.0.2.25"]), added);
    // Without a TTL the record gets that of the RRset; with one the RRset gets it.
    let step = "-www.example. 5 IN A 192.0.2.81\n";
    assert_eq!(zone(&server, &["unset", "example", "www", "A", "192.0.2.81"]), step);
    assert_eq!(
        zone(&server, &["set", "example", "www", "A", "192.0.2.82"]),
        "+www.example. 5 IN A 192.0.2.82\n"
    );
    let step = "-www.example. 5 IN A 192.0.2.80\n-www.example. 5 IN A 192.0.2.82\n\
        +www.example. 9 IN A 192.0.2.80\n+www.example. 9 IN A 192.0.2.82\n+www.example. 9 IN A 192.0.2.83\n";
    assert_eq!(zone(&server, &["set", "example", "www", "9", "A", "192.0.2.83"]), step);
    assert_eq!(zone(&server, &["set", "example", "www", "9", "A", "192.0.2.83"]), "", "it is there");
    // A word with spaces is one string; a single argument is a line.
    zone(&server, &["set", "example", "txt", "TXT", "a; b", "c"]);
    let line = "txt TXT \"d  e\"";
    assert_eq!(zone(&server, &["set", "example", line]), "+txt.example. 60 IN TXT \"d  e\"\n");
    assert!(server.query(&["mail.example", "A"]).contains("NXDOMAIN"), "it is not in service yet");
    let difference = zone(&server, &["diff", "example"]);
    let expected = "+mail.example. 60 IN A 192.0.2.25\n+txt.example. 60 IN TXT \"a; b\" \"c\"\n\
        +txt.example. 60 IN TXT \"d  e\"\n-www.example. 5 IN A 192.0.2.80\n-www.example. 5 IN A 192.0.2.81\n\
        +www.example. 9 IN A 192.0.2.80\n+www.example. 9 IN A 192.0.2.82\n+www.example. 9 IN A 192.0.2.83\n";
    assert_eq!(difference, expected);
    let status = &server.ctl_json(&["zone", "status", "example"])["transaction"];
    assert_eq!((&status["serial"], &status["names"]), (&json!(1), &json!(3)));
    let answer = server.ctl_json(&["zone", "commit", "example"]);
    let numbers = ["changed", "from", "to", "removed", "added"].map(|key| answer[key].clone());
    assert_eq!(numbers, [json!(true), json!(1), json!(2), json!(3), json!(7)]);
    assert!(server.query(&["mail.example", "A"]).contains("192.0.2.25"));
    assert!(server.query(&["example", "IXFR=1"]).contains("mail.example."));
    assert!(refused(&server, &["commit", "example"]).contains("the zone has no transaction"));
    // It is persistent.
    let server = start(server.stop(), "");
    assert!(server.query(&["txt.example", "TXT"]).contains("\"d  e\""));
}

#[test]
fn what_is_wrong_is_shown_where_it_is_and_changes_nothing() {
    let server = server("");
    assert!(
        refused(&server, &["set", "example", "a", "A", "192.0.2.1"]).contains("the zone has no transaction")
    );
    zone(&server, &["begin", "example"]);
    assert!(refused(&server, &["begin", "example"]).contains("the zone already has a transaction"));
    let said = refused(&server, &["set", "example", "a", "300", "A", "192.0.2.300"]);
    let shown = "1 | a 300 A 192.0.2.300\n  |         ^^^^^^^^^^^";
    assert!(said.contains("record:1:9: error: ") && said.contains(shown), "{said}");
    for (arguments, complaint) in [
        (&["set", "example", "www", "CNAME", "ns1"][..], "CNAME and other data"),
        (&["set", "example", "a.elsewhere.", "A", "192.0.2.1"], "not in the zone"),
        (&["set", "example", "@", "NSEC", "a", "A"], "the signer of a zone"),
        (&["unset", "example", "absent"], "there are no records"),
        (&["unset", "example", "www", "MX"], "there is no such record"),
        (&["unset", "example", "www", "A", "192.0.2.99"], "there is no such record"),
        (&["unset", "example", "@"], "name the type"),
        (&["unset", "example", "@", "SOA"], "no SOA"),
        (&["unset", "example", "@", "NS"], "NS"),
        (&["set", "example", "$INCLUDE", "/etc/passwd"], "record:1:"),
        (&["begin", "elsewhere"], "there is no zone elsewhere"),
    ] {
        let said = refused(&server, arguments);
        assert!(said.contains(complaint), "{arguments:?}: {said}");
    }
    assert_eq!(zone(&server, &["diff", "example"]), "");
    assert_eq!(server.ctl_json(&["zone", "commit", "example"])["changed"], false);
    zone(&server, &["begin", "example"]);
    zone(&server, &["set", "example", "a", "A", "192.0.2.1"]);
    zone(&server, &["abort", "example"]);
    assert!(refused(&server, &["diff", "example"]).contains("the zone has no transaction"));
    assert_eq!(server.ctl_json(&["zone", "status", "example"])["serial"], 1);
}

#[test]
fn a_commit_goes_with_changes_elsewhere_and_not_with_changes_of_the_same_names() {
    let server = server("");
    zone(&server, &["begin", "example"]);
    zone(&server, &["set", "example", "www", "A", "192.0.2.90"]);
    zone(&server, &["set", "example", "@", "MX", "10", "www"]);
    update(&server, "add other.example. 5 A 192.0.2.1");
    update(&server, "add www.example. 5 TXT mine");
    let output = server.ctl(&["zone", "commit", "example", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let meanwhile =
        json!([{"change": "added", "name": "www.example.", "ttl": 5, "type": "TXT", "data": "\"mine\""}]);
    assert_eq!(answer["changes"], meanwhile);
    let said = refused(&server, &["commit", "example"]);
    assert!(
        said.contains("+www.example. 5 IN TXT \"mine\"\n") && said.contains("have changed in the zone"),
        "{said}"
    );
    // Once that record is deleted again, there is no conflict.
    update(&server, "delete www.example. TXT");
    let answer = server.ctl_json(&["zone", "commit", "example"]);
    assert_eq!((&answer["from"], &answer["to"]), (&json!(4), &json!(5)));
    assert!(server.query(&["www.example", "A"]).contains("192.0.2.90"));
    assert!(server.query(&["other.example", "A"]).contains("192.0.2.1"));
    // The SOA's serial is used if it is greater.
    zone(&server, &["begin", "example"]);
    zone(&server, &["set", "example", "@ SOA ns1 other 100 3600 600 86400 60"]);
    update(&server, "add more.example. 5 A 192.0.2.1");
    let answer = server.ctl_json(&["zone", "commit", "example"]);
    assert_eq!((&answer["from"], &answer["to"]), (&json!(6), &json!(100)));
    zone(&server, &["begin", "example"]);
    zone(&server, &["set", "example", "a", "A", "192.0.2.1"]);
    server.ctl_json(&["zone", "freeze", "example"]);
    assert!(refused(&server, &["commit", "example"]).contains("the zone is frozen"));
    server.ctl_json(&["zone", "thaw", "example"]);
    assert_eq!(server.ctl_json(&["zone", "commit", "example"])["to"], 101);
}

#[test]
fn a_zone_that_programs_change_takes_transactions_and_no_updates() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let server = Server::start_in(folder, "state-dir = \"state\"\n", "api = true\n");
    zone(&server, &["begin", "example"]);
    zone(&server, &["set", "example", "mail", "A", "192.0.2.25"]);
    assert_eq!(server.ctl_json(&["zone", "commit", "example"])["changed"], true);
    assert!(server.query(&["mail.example", "A"]).contains("192.0.2.25"));
    let (ip, port) = (server.address.ip(), server.address.port());
    let script = format!("server {ip} {port}\nzone example\nupdate add a.example. 5 A 192.0.2.1\nsend\n");
    fs::write(server.path("script"), script).expect("written");
    let output = run(server.folder.path(), &["update", "script"]);
    assert!(text(&output.stderr).contains("REFUSED"), "{}", text(&output.stderr));
    // A zone with neither of the keys takes no transaction.
    server.reconfigure("api = true", "api = false");
    server.reload();
    assert!(
        refused(&server, &["begin", "example"])
            .contains("no `allow-update`, no `update-policy` and no `api`")
    );
    assert!(server.query(&["mail.example", "A"]).contains("192.0.2.25"), "it is still stored");
}

#[test]
fn transactions_are_bounded() {
    let bounds = "[updates]\ntransactions = 1\ntransaction-size = \"1KiB\"\ntransaction-timeout = \"1s\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    fs::write(folder.path().join("second.zone"), APEX).expect("written");
    let server = start(folder, bounds);
    zone(&server, &["begin", "example"]);
    // The timeout is longer than a command takes on any test machine; an idle transaction is dropped.
    eventually("it is dropped", &server, || {
        server.ctl_json(&["zone", "status", "example"])["transaction"].is_null()
    });
    server.wait_for_log("zone example.: its transaction is dropped", 1);
    server.reconfigure("transaction-timeout = \"1s\"", "transaction-timeout = \"1h\"");
    server.reload();
    zone(&server, &["begin", "second"]);
    let said = refused(&server, &["begin", "example"]);
    assert!(said.contains("1 transactions are open"), "{said}");
    let long = "x".repeat(250);
    let record = |n: u8| format!("text-{n} TXT {long} {long}");
    zone(&server, &["set", "second", &record(1)]);
    assert!(refused(&server, &["set", "second", &record(2)]).contains("more than 1024 bytes"));
    assert_eq!(server.ctl_json(&["zone", "commit", "second"])["added"], 2);
    zone(&server, &["begin", "example"]);
}
