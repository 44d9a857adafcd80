//! Zone files of zones that updates change: written back, and edited while a zone is frozen.

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{APEX, Server, eventually, run, text};

/// Keys of a zone that accepts updates.
const OPEN: &str = "allow-update = [\"127.0.0.0/8\"]\nallow-transfer = [\"127.0.0.0/8\"]\n";

/// Returns a folder with the zone.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), format!("; by hand\n{APEX}")).expect("written");
    folder
}

fn start(folder: TempDir, keys: &str) -> Server {
    Server::start_in(folder, "state-dir = \"state\"\n", &format!("{OPEN}{keys}"))
}

/// Runs a line of `nomen update`; returns whether the server accepted it.
fn update(server: &Server, line: &str) -> bool {
    let (ip, port) = (server.address.ip(), server.address.port());
    fs::write(server.path("script"), format!("server {ip} {port}\nzone example\n{line}\n")).expect("written");
    run(server.folder.path(), &["update", "script"]).status.success()
}

/// Returns the contents of the zone's file.
fn file(server: &Server) -> String {
    fs::read_to_string(server.path("example.zone")).expect("the file")
}

/// Whether the zone's file has the served version.
fn is_current(server: &Server) -> bool {
    let arguments = ["zone", "diff", "example", "example.zone", "@served", "--socket", "ctl.sock"];
    run(server.folder.path(), &arguments).status.code() == Some(0)
}

/// Runs a command that must fail, and returns its error.
fn refused(server: &Server, arguments: &[&str]) -> String {
    let output = server.ctl(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn a_file_that_was_written_is_in_conflict_with_nothing() {
    let server = start(folder(), "");
    let answer = server.ctl_json(&["zone", "write", "example"]);
    assert_eq!(
        (&answer["written"], &answer["serial"]),
        (&false.into(), &1.into()),
        "updates changed nothing"
    );
    assert!(file(&server).starts_with("; by hand"));
    assert!(update(&server, "add new.example. 5 A 192.0.2.9"));
    assert!(!is_current(&server));
    let answer = server.ctl_json(&["zone", "write", "example"]);
    assert_eq!((&answer["written"], &answer["serial"]), (&true.into(), &2.into()));
    assert!(is_current(&server), "{}", file(&server));
    assert!(file(&server).starts_with("; zone example., serial 2, written by nomen\nexample. 60 IN SOA "));
    assert_eq!(server.ctl_json(&["zone", "write", "example"])["written"], false);
    assert_eq!(server.ctl_json(&["zone", "status", "example"])["file_serial"], 2);
    // Updates continue, and the file keeps its version.
    assert!(update(&server, "add newer.example. 5 A 192.0.2.9"));
    server.reload();
    assert_eq!(server.ctl_json(&["zone", "status", "example"])["file_serial"], 2);
    let log = server.log();
    assert!(!log.contains("is not taken"), "{log}");
    let server = start(server.stop(), "");
    server.reload();
    assert_eq!(server.ctl_json(&["zone", "status", "example"])["serial"], 3);
    let log = server.log();
    assert!(!log.contains("is not taken") && !log.contains("was changed"), "{log}");
    assert_eq!(server.ctl_json(&["zone", "write", "example"])["written"], true);
    assert!(is_current(&server));
}

#[test]
fn an_edited_file_is_written_over_only_when_told() {
    let server = start(folder(), "");
    assert!(update(&server, "add new.example. 5 A 192.0.2.9"));
    server.write("example.zone", &format!("{APEX}mine A 192.0.2.1\n"));
    let said = refused(&server, &["zone", "write", "example"]);
    assert!(said.contains("was changed since nomen read or wrote it"), "{said}");
    assert!(refused(&server, &["zone", "freeze", "example"]).contains("the zone is not frozen"));
    assert!(update(&server, "add other.example. 5 A 192.0.2.9"), "it is not frozen");
    assert!(file(&server).contains("mine"));
    let status = server.ctl_json(&["zone", "status", "example"]);
    assert_eq!(status["file_edited"], true);
    assert!(status["updates"]["file_fault"].is_string());
    server.wait_for_log("was changed since nomen read or wrote it", 1);
    // The same after a restart.
    let server = start(server.stop(), "");
    server.wait_for_log("was changed since nomen read or wrote it, and is not read", 1);
    refused(&server, &["zone", "write", "example"]);
    server.ctl_json(&["zone", "write", "example", "--force"]);
    assert!(is_current(&server));
    let status = server.ctl_json(&["zone", "status", "example"]);
    assert!(status["file_edited"].is_null() && status["updates"]["file_fault"].is_null(), "{status}");
}

#[test]
fn a_zone_is_frozen_edited_and_thawed() {
    let server = start(folder(), "");
    assert!(update(&server, "add new.example. 5 A 192.0.2.9"));
    let answer = server.ctl_json(&["zone", "freeze", "example"]);
    assert_eq!(
        (&answer["frozen"], &answer["was"], &answer["written"]),
        (&true.into(), &false.into(), &true.into())
    );
    assert!(is_current(&server));
    assert!(!update(&server, "add no.example. 5 A 192.0.2.9"));
    assert_eq!(server.ctl_json(&["zone", "freeze", "example"])["was"], true);
    // Also after a restart, which does not read the edited file.
    let edited = file(&server).replace("192.0.2.9", "192.0.2.10") + "hand.example. 7 TXT \"made\"\n";
    server.write("example.zone", &edited);
    let server = start(server.stop(), "");
    assert_eq!(server.ctl_json(&["zone", "status", "example"])["frozen"], true);
    assert!(!update(&server, "add no.example. 5 A 192.0.2.9"));
    assert!(server.query(&["new.example", "A"]).contains("192.0.2.9"));
    // Faults in the file are shown, and nothing changes.
    server.write("example.zone", &format!("{edited}bad A 192.0.2.300\n"));
    let said = refused(&server, &["zone", "thaw", "example"]);
    assert!(said.contains("the zone stays frozen") && said.contains("example.zone:9:7: error"), "{said}");
    assert!(!update(&server, "add no.example. 5 A 192.0.2.9"));
    server.write("example.zone", &edited);
    let answer = server.ctl_json(&["zone", "thaw", "example"]);
    let numbers = ["was", "from", "to", "removed", "added"].map(|key| answer[key].clone());
    assert_eq!(numbers, [json!(true), json!(2), json!(3), json!(2), json!(3)], "{answer}");
    assert!(server.query(&["new.example", "A"]).contains("192.0.2.10"));
    let ixfr = server.query(&["example", "IXFR=2"]);
    let gone = ixfr.find("192.0.2.9\n").expect("what went");
    assert!(gone < ixfr.find("\"made\"").expect("what came"), "{ixfr}");
    assert!(update(&server, "add yes.example. 5 A 192.0.2.9"));
    assert_eq!(server.ctl_json(&["zone", "thaw", "example"])["was"], false);
}

#[test]
fn a_zone_that_no_update_has_changed_is_thawed_by_a_change_too() {
    let server = start(folder(), "");
    let answer = server.ctl_json(&["zone", "freeze", "example"]);
    assert_eq!((&answer["frozen"], &answer["written"]), (&true.into(), &false.into()));
    assert!(file(&server).starts_with("; by hand"), "there is nothing to write");
    // The serial is unchanged: the next one is used.
    server.write("example.zone", &format!("{APEX}hand TXT made\n"));
    let answer = server.ctl_json(&["zone", "thaw", "example"]);
    assert_eq!((&answer["from"], &answer["to"]), (&1.into(), &2.into()), "{answer}");
    assert!(server.query(&["example", "IXFR=1"]).contains("\"made\""));
    // Thawing with an unchanged file changes nothing.
    server.ctl_json(&["zone", "freeze", "example"]);
    let answer = server.ctl_json(&["zone", "thaw", "example"]);
    assert!(answer["was"] == true && answer["to"].is_null(), "{answer}");
}

#[test]
fn a_zone_is_written_to_another_file() {
    let server = start(folder(), "");
    assert!(update(&server, "add new.example. 5 A 192.0.2.9"));
    let answer = server.ctl_json(&["zone", "write", "example", "--to", "copy"]);
    assert!(
        answer["written"] == true
            && answer["file"].as_str().is_some_and(|file| Path::new(file).is_absolute())
    );
    let same = ["zone", "diff", "example", "copy", "@served", "--socket", "ctl.sock"];
    assert_eq!(run(server.folder.path(), &same).status.code(), Some(0));
    assert!(refused(&server, &["zone", "write", "example", "--to", "copy"]).contains("is there already"));
    assert!(server.ctl(&["zone", "write", "example", "--to", "copy", "--force"]).status.success());
    assert!(
        refused(&server, &["zone", "write", "example", "--to", "nosuch/copy"])
            .contains("there is no such file")
    );
    assert!(refused(&server, &["zone", "write", "example", "--to", "state"]).contains("is no ordinary file"));
    assert!(refused(&server, &["zone", "write", "elsewhere"]).contains("there is no zone elsewhere"));
    // A link to the zone's own file is the zone's own file.
    fs::write(server.path("link"), "").expect("written");
    fs::remove_file(server.path("link")).expect("removed");
    std::os::unix::fs::symlink("example.zone", server.path("link")).expect("a link");
    server.ctl_json(&["zone", "write", "example", "--to", "link"]);
    assert!(is_current(&server));
    assert_eq!(server.ctl_json(&["zone", "status", "example"])["file_serial"], 2);
}

#[test]
fn files_are_written_a_while_after_a_change() {
    let server = start(folder(), "write-file-every = \"1s\"\n");
    assert!(update(&server, "add new.example. 5 A 192.0.2.9"));
    eventually("the file is written", &server, || is_current(&server));
    server.ctl_json(&["zone", "freeze", "example"]);
    server.write("example.zone", &(file(&server) + "mine.example. 5 A 192.0.2.1\n"));
    server.ctl_json(&["zone", "thaw", "example"]);
    eventually("it is written with the serial number of the change", &server, || is_current(&server));
    assert!(file(&server).contains("mine.example."));
    // An edited file is not overwritten, which is logged.
    server.write("example.zone", &(file(&server) + "more.example. 5 A 192.0.2.1\n"));
    assert!(update(&server, "add newer.example. 5 A 192.0.2.9"));
    server.wait_for_log("was changed since nomen read or wrote it", 1);
    assert!(file(&server).contains("more.example."));
}
