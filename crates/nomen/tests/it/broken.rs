//! Errors of a broken configuration or zone: every fault, each with its position.

use std::fs;

use crate::support::{APEX, run, text};

fn check_config(files: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).expect("written");
    }
    let output = run(folder.path(), &["check", "nomen.toml"]);
    let code = output.status.code();
    format!("exit {code:?}\n{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_fault_of_a_configuration_is_reported_at_once() {
    let config = r#"
include = ["more.toml"]

[server]
threds = 4
workers = 0
max-udp-size = "1232"
tcp-idle-timeout = "10 minutes"

[[listen]]
addr = ["0.0.0.0@53", "192.0.2.1:53", "127.0.0.1@0"]
proto = ["udp", "dot"]

[[listen]]
addr = ["127.0.0.1@53"]

[[zone]]
name = "example.com"
file = "example.com.zone"

[[zone]]
name = "a..b"
file = "x"

[[zone]]
name = "example.org"
template = "singed"

[template.signed]
file = "zones/all.zone"

[metrix]
listen = "127.0.0.1@9153"
"#;
    let more = "[[zone]]\nname = \"EXAMPLE.com.\"\nfile = \"y\"\n[log]\nlevel = \"inof\"\n";
    insta::assert_snapshot!(check_config(&[("nomen.toml", config), ("more.toml", more)]));
}

#[test]
fn syntax_faults_are_reported_with_their_place() {
    insta::assert_snapshot!(check_config(&[("nomen.toml", "[server\nworkers = 2\n[log]\nlevel = info\n")]));
}

#[test]
fn a_missing_file_is_reported() {
    insta::assert_snapshot!(check_config(&[]));
}

#[test]
fn serving_a_missing_file_ended_as_a_bad_one_does() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(run(folder.path(), &["serve", "--config", "gone.toml"]).status.code(), Some(3));
    fs::write(folder.path().join("bad.toml"), "[sever]\n").expect("written");
    assert_eq!(run(folder.path(), &["serve", "--config", "bad.toml"]).status.code(), Some(1));
}

#[test]
fn a_bad_zone_is_reported_by_check() {
    let config = "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n[[zone]]\nname = \"gone\"\n\
                  file = \"gone.zone\"\n";
    let zone = format!("{APEX}www A 192.0.2.300\nwww CNAME ns1\nmail MX ten ns1\n");
    insta::assert_snapshot!(check_config(&[("nomen.toml", config), ("example.zone", &zone)]));
}

#[test]
fn zones_are_reported_in_the_order_of_their_names() {
    // The first zones take longer than the later ones, so that threads finish in another order.
    let names: Vec<String> = (0..20).map(|i| format!("z{i:02}")).collect();
    let lines = |count: usize| "h A 192.0.2.1\n".repeat(count * 500);
    let zones: Vec<(String, String)> = (names.iter().enumerate())
        .map(|(i, name)| (format!("{name}.zone"), format!("{APEX}{}h A x\n", lines(names.len() - i))))
        .collect();
    let mut files = vec![("nomen.toml", "[template.t]\ndirectory = \".\"\n")];
    files.extend(zones.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    let said = check_config(&files);
    let named = |line| str::strip_prefix(line, "./").and_then(|line| line.split_once(".zone:"));
    let reported: Vec<&str> = said.lines().filter_map(named).map(|(name, _)| name).collect();
    assert_eq!(reported, names, "{said}");
}

#[test]
fn a_zone_is_checked_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = format!("{APEX}a CNAME b\na TXT \"beside\"\nelsewhere.org. A 192.0.2.1\nns1 61 A 192.0.2.9\n");
    fs::write(folder.path().join("example.zone"), zone).expect("written");
    let output = run(folder.path(), &["zone", "check", "example", "example.zone"]);
    insta::assert_snapshot!(format!("exit {:?}\n{}", output.status.code(), text(&output.stderr)));
    let output = run(folder.path(), &["zone", "check", "example", "example.zone", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["good"], false);
    assert_eq!(json["findings"][0]["file"], "example.zone");
    assert!(json["findings"].as_array().is_some_and(|f| f.len() >= 3), "{json}");
}

#[test]
fn good_configurations_and_zones_are_said_to_be_good() {
    let config = "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n";
    let said = check_config(&[("nomen.toml", config), ("example.zone", APEX)]);
    assert_eq!(said, "exit Some(0)\nnomen.toml: the configuration and its zone are good\n");
}

#[test]
fn a_configuration_without_zone_files_said_that_0_zones_are_good() {
    let config = "[[zone]]\nname = \"example\"\nprimaries = [\"192.0.2.1\"]\n";
    let said = check_config(&[("nomen.toml", config)]);
    let wanted = "nomen.toml: the configuration is good; it names no zone that is read from a file here\n";
    assert_eq!(said, format!("exit Some(0)\n{wanted}"));
}

#[test]
fn many_warnings_hide_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let warnings: String = (0..50).map(|i| format!("h{i} MX 10 nowhere{i}\n")).collect();
    fs::write(folder.path().join("example.zone"), format!("{APEX}{warnings}sub NS alias\nalias CNAME ns1\n"))
        .expect("written");
    let output = run(folder.path(), &["zone", "check", "example", "example.zone", "--errors", "5"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("example.zone:57:8: error: sub.example. NS: alias.example. is a CNAME"), "{said}");
    assert!(said.contains("zone example.: 45 more not shown"), "{said}");
    assert!(
        said.contains("zone example.: served all the same: 1 errors, 5 warnings, 45 more of either"),
        "{said}"
    );
}

#[test]
fn a_file_that_cannot_be_opened_was_a_fault_of_the_zone() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("nomen.toml"), "[[zone]]\nname = \"example\"\nfile = \"gone.zone\"\n")
        .expect("written");
    for (words, code) in [
        (&["zone", "check", "example", "gone.zone"][..], 3),
        (&["zone", "dump", "example", "gone.zone"], 3),
        (&["zone", "check", "a..b", "gone.zone"], 2),
        (&["check", "nomen.toml"], 3),
        (&["check", "gone.toml"], 3),
        (&["zone", "compile", "--config", "gone.toml"], 3),
    ] {
        assert_eq!(run(folder.path(), words).status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn what_is_refused_and_what_is_served_all_the_same_were_both_bad() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, records) in
        [("warned", "sub NS ns.sub\n"), ("faulty", "a CNAME ns1\nm MX 1 a\n"), ("refused", "a A x\n")]
    {
        fs::write(folder.path().join(name), format!("{APEX}{records}")).expect("written");
    }
    for (file, on_warning, on_error, on_refused, verdict) in [
        ("warned", 1, 0, 0, "good, serial 1"),
        ("faulty", 1, 1, 0, "served all the same: 1 errors"),
        ("refused", 1, 1, 1, "bad, a server refuses it: 1 errors"),
    ] {
        for (fail_on, code) in [("warning", on_warning), ("error", on_error), ("refused", on_refused)] {
            let output = run(folder.path(), &["zone", "check", "example", file, "--fail-on", fail_on]);
            let said = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{file}, {fail_on}: {said}");
            assert!(said.contains(verdict), "{said}");
        }
    }
    let zones = ["warned", "faulty", "refused"]
        .map(|file| format!("[[zone]]\nname = \"{file}\"\nfile = \"{file}\"\n"));
    fs::write(folder.path().join("nomen.toml"), zones.concat()).expect("written");
    let said = text(&run(folder.path(), &["check"]).stderr);
    let sum = "of 3 zones: 1 bad, a server refuses them; 1 served all the same, with errors; 1 served, with \
               warnings";
    assert!(said.contains(sum), "{said}");
}

#[test]
fn zones_that_are_not_signed_lacked_their_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let output = run(folder.path(), &["zone", "check", "example", "example.zone", "--dnssec"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("not signed, so there is no DNSSEC to check"));
}

#[test]
fn a_text_that_is_too_long_is_served_in_parts_where_the_zone_says_so() {
    let text = "x".repeat(300);
    let zone = format!("{APEX}long TXT \"{text}\"\n");
    let block = |more: &str| format!("[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n{more}");
    let said = check_config(&[("nomen.toml", &block("")), ("example.zone", &zone)]);
    assert!(said.contains("error: TXT record") && said.contains("write it as several strings"), "{said}");
    let said = check_config(&[("nomen.toml", &block("split-strings = true\n")), ("example.zone", &zone)]);
    assert!(said.starts_with("exit Some(0)"), "{said}");
    assert!(said.contains("warning: a string of more than 255 bytes is taken as several"), "{said}");
}
