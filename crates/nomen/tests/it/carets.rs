//! Each finding of `nomen zone check` about the whole zone is shown at its word, like faults of single
//! records.

use std::fs;

use tempfile::TempDir;

use crate::support::{APEX, Server, eventually, run, text};

/// Number of lines before the records of a test.
const LINES: usize = 6;

/// Returns the findings of `nomen zone check` in zone `example.` with these records after APEX.
fn found(records: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("z"), format!("{APEX}{records}")).expect("written");
    checked(&folder, &[])
}

fn checked(folder: &TempDir, more: &[&str]) -> String {
    text(&run(folder.path(), &[&["zone", "check", "example", "z"], more].concat()).stderr)
}

/// Asserts that a record has a finding with these words, with carets under this word of the record's line.
fn assert_shown(records: &str, words: &str, under: &str) {
    let said = found(records);
    let last = records.lines().next().expect("a record");
    let column = last.find(under).expect("a word of the record") + 1;
    let line = LINES + 1;
    let head = format!("z:{line}:{column}: ");
    let shown =
        format!("{words}\n  |\n{line} | {last}\n  | {:1$}{2}\n", "", column - 1, "^".repeat(under.len()));
    assert!(said.contains(&head), "no {head}in\n{said}");
    assert!(said.contains(&shown), "not shown:\n{shown}in\n{said}");
}

#[test]
fn a_name_server_without_address() {
    assert_shown("@ NS gone", "NS: gone.example. has no address records in this zone", "gone");
}

#[test]
fn missing_glue() {
    assert_shown(
        "sub NS ns.sub",
        "NS: ns.sub.example. lies below the cut and has no glue (A or AAAA)",
        "ns.sub",
    );
}

#[test]
fn a_host_without_address() {
    assert_shown("mx MX 10 gone", "MX: gone.example. has no address records in this zone", "gone");
}

#[test]
fn a_host_that_is_an_alias() {
    assert_shown("mx MX 10 www\nwww CNAME ns1", "MX: www.example. is a CNAME, it must be a host", "www");
}

#[test]
fn ds_without_ns() {
    let digest = "00".repeat(32);
    assert_shown(&format!("s DS 1 8 2 {digest}"), "there is no NS, so this is no zone cut", "DS");
}

#[test]
fn ds_at_the_zones_own_name() {
    let digest = "00".repeat(32);
    assert_shown(&format!("@ DS 1 8 2 {digest}"), "the zone's own DS belongs to the parent zone", "DS");
}

#[test]
fn data_below_a_cut() {
    assert_shown(
        "txt.sub TXT x\nsub NS ns1",
        "cannot be seen, it lies below sub.example., a zone cut or DNAME",
        "txt.sub",
    );
}

#[test]
fn data_below_a_dname() {
    assert_shown(
        "x.d A 192.0.2.9\nd DNAME elsewhere.test.",
        "cannot be seen, it lies below d.example., a zone cut or DNAME",
        "x.d",
    );
}

#[test]
fn ns_at_a_wildcard() {
    assert_shown("*.w NS ns1", "NS at a wildcard delegates nothing", "*.w");
}

#[test]
fn dname_at_a_wildcard() {
    assert_shown("*.w DNAME elsewhere.test.", "DNAME at a wildcard is not defined", "*.w");
}

#[test]
fn a_type_that_nobody_reads() {
    assert_shown("t SPF \"v=spf1 -all\"", "this type is obsolete, use TXT", "SPF");
}

#[test]
fn a_target_with_the_origin_twice() {
    assert_shown(
        "w CNAME host.example",
        "ends in the zone's name twice, its final dot is missing",
        "host.example",
    );
}

#[test]
fn a_loop_of_aliases() {
    assert_shown(
        "a CNAME b\nb CNAME a",
        "a.example. CNAME: the chain through b.example. comes back here",
        "b",
    );
}

#[test]
fn an_alias_that_leads_nowhere() {
    assert_shown("a CNAME gone", "a.example. CNAME: gone.example. is not in this zone", "gone");
}

#[test]
fn a_host_with_an_underscore() {
    assert_shown(
        "mx MX 10 a_b\na_b A 192.0.2.9",
        "a_b.example. is not a host name, it has an underscore",
        "a_b",
    );
}

#[test]
fn a_digest_of_the_wrong_length() {
    let (good, bad) = ("00".repeat(32), "00".repeat(20));
    // The wrong one of two.
    let records = format!("s DS 1 8 2 {bad}\ns DS 2 8 2 {good}\ns NS ns1");
    assert_shown(&records, "the digest has another length than its type makes", &bad);
    let said = found(&format!("s DS 2 8 2 {good}\ns DS 1 8 2 {bad}\ns NS ns1"));
    assert!(said.contains("z:8:12: warning: s.example. DS: the digest"), "{said}");
}

#[test]
fn an_owner_that_is_no_host_name() {
    assert_shown("a+b A 192.0.2.9", "not a host name (letters, digits and hyphens)", "a+b");
}

#[test]
fn findings_of_the_soa_are_shown_at_its_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = "$TTL 60\n@ SOA ns1 admin@example. (\n  1 3600 600\n  4000 ; expire\n  60 )\n NS ns1\n\
                ns1 A 192.0.2.1\n";
    fs::write(folder.path().join("z"), zone).expect("written");
    let said = checked(&folder, &["--zonemd"]);
    for shown in [
        "z:2:3: error: a digest is required: the zone has no ZONEMD\n",
        "2 | @ SOA ns1 admin@example. (\n  |           ^^^^^^^^^^^^^^\n",
        "z:4:3: warning: example. SOA: expire should be larger than refresh and retry together\n  |\n\
         4 |   4000 ; expire\n  |   ^^^^\n",
        // The line has no owner, so the carets are under the type.
        "z:6:2: warning: example. NS: only one name server, there should be two\n  |\n6 |  NS ns1\n  |  ^^\n",
    ] {
        assert!(said.contains(shown), "{shown}\n{said}");
    }
}

#[test]
fn what_comes_to_light_when_records_are_put_together_had_no_place() {
    for (records, words, under) in [
        ("w A 192.0.2.9\nw CNAME ns1", "w.example. A: CNAME and other data", "A"),
        ("x.elsewhere. A 192.0.2.9", "x.elsewhere. A: not in the zone, left out", "A"),
        ("ns1 A 192.0.2.1", "ns1.example. A: the same record twice", "A"),
    ] {
        let said = found(records);
        let column =
            records.lines().next().and_then(|line| line.find(&format!("{under} 1"))).expect("a type");
        let carets = format!("| {:column$}{}", "", "^".repeat(under.len()));
        assert!(said.contains(words) && said.contains(&carets), "{records}\n{said}");
    }
    // The missing NS record has no position.
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("z"), "@ 60 SOA ns1 admin 1 3600 600 86400 60\n").expect("written");
    let said = checked(&folder, &[]);
    assert!(said.contains("z:1:6: error: example. NS: no NS at the zone's name\n"), "{said}");
}

#[test]
fn all_findings_stand_in_the_order_of_the_text_in_included_files_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = format!("{APEX}z CNAME gone\n$INCLUDE more\na CNAME gone\n$GENERATE 1-2 g$ CNAME gone\n");
    fs::write(folder.path().join("z"), zone).expect("written");
    fs::write(folder.path().join("more"), "m 60 CNAME gone\nn CNAME ( gone\n )\n").expect("written");
    let said = checked(&folder, &[]);
    let heads: Vec<&str> =
        said.lines().filter_map(|line| line.split_once(": warning: ").map(|(place, _)| place)).collect();
    assert_eq!(heads, ["z:7:9", "z:9:9", "z:10:24", "z:10:24", "more:1:12", "more:2:11"], "{said}");
    assert!(said.contains("= included from z:8"), "{said}");
    // As JSON.
    let output = run(folder.path(), &["zone", "check", "example", "z", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let first = &json["findings"][0];
    assert_eq!(
        (&first["file"], &first["line"], &first["column"]),
        (&"z".into(), &7.into(), &9.into()),
        "{json}"
    );
    let last = &json["findings"][5];
    assert_eq!(
        (&last["file"], &last["line"], &last["column"]),
        (&"more".into(), &2.into(), &11.into()),
        "{json}"
    );
}

#[test]
fn what_an_audit_finds_is_shown_at_a_record_of_the_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = format!("{APEX}@ DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=\n");
    fs::write(folder.path().join("z"), zone).expect("written");
    let said = checked(&folder, &["--dnssec"]);
    // There is no NSEC, so any record of the name is shown.
    for shown in [
        "z:3:1: error: example. NSEC: the zone has neither NSEC nor NSEC3\n  |\n3 | @ NS ns1\n  | ^\n",
        "and others\n  |\n3 | @ NS ns1\n  |   ^^\n",
        "z:7:3: warning: example. DNSKEY: not signed by a key with the SEP bit\n",
    ] {
        assert!(said.contains(shown), "{shown}\n{said}");
    }
}

/// Returns the output of `nomen ctl zone status` for a zone once it was checked, and its findings as JSON.
fn status(server: &Server) -> (String, serde_json::Value) {
    let findings = || server.ctl_json(&["zone", "status", "example"])["findings"].clone();
    eventually("it is looked at", server, || findings().as_array().is_some_and(|all| !all.is_empty()));
    (text(&server.ctl(&["zone", "status", "example"]).stdout), findings())
}

#[test]
fn what_a_running_server_finds_stands_at_its_word_too() {
    let zone = format!("{APEX}a 60 A 192.0.2.9\nmx MX 10 gone\n");
    let server = Server::start(&zone, "");
    let (shown, json) = status(&server);
    let said = "8:10: warning: mx.example. MX: gone.example. has no address records in this zone";
    let lines: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("findings")).collect();
    assert!(lines[0].ends_with(&format!("example.zone:{said}")), "{shown}");
    let column = lines[0].find("example.zone:").map(|at| lines[0][..at].rfind(' ').map_or(0, |at| at + 1));
    let below: Vec<&str> = lines[1..4].iter().map(|line| &line[column.expect("a file")..]).collect();
    assert_eq!(below, ["  |", "8 | mx MX 10 gone", "  |          ^^^^"], "{shown}");
    let place = [&json[0]["line"], &json[0]["column"], &json[0]["severity"]];
    assert_eq!(serde_json::json!(place), serde_json::json!([8, 10, "warning"]), "{json}");
    // The file now has another version than the served one: its lines do not apply.
    server.write("example.zone", &zone.replace("admin 1 ", "admin 2 ").replace("a 60", "\na 60"));
    let (shown, json) = status(&server);
    assert!(
        shown.contains("example.zone: warning: mx.example. MX: gone.") && !shown.contains('^'),
        "{shown}"
    );
    assert_eq!(json[0]["line"], serde_json::Value::Null, "{json}");
    server.reload();
    eventually("it is looked at", &server, || status(&server).1[0]["line"] == 9);
}

#[test]
fn a_reload_says_where_records_clash() {
    let server = Server::start(APEX, "");
    server.write("example.zone", &format!("{APEX}w A 192.0.2.9\nw CNAME ns1\n"));
    let reloaded = server.ctl(&["reload"]);
    let said = text(&reloaded.stdout);
    assert!(said.contains("example.zone:7:3: zone example.: w.example. A: CNAME and other data"), "{said}");
    let shown = text(&server.ctl(&["zone", "status", "example"]).stdout);
    assert!(shown.contains("7 | w A 192.0.2.9") && shown.contains("|   ^\n"), "{shown}");
}
