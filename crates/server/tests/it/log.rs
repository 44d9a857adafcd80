//! The log while the server runs: its file, its level, its queries.

use std::fs;

use crate::support::{APEX, Server, eventually, text};

const FILE: &str = "[log]\ntarget = \"nomen.log\"\n";

fn wait_for(server: &Server, file: &str, words: &str) {
    let read = || fs::read_to_string(server.path(file)).unwrap_or_default();
    eventually(&format!("{file} has: {words}"), server, || read().contains(words));
}

#[test]
fn a_log_file_that_was_moved_away_went_on_being_written() {
    let server = Server::start(APEX, FILE);
    wait_for(&server, "nomen.log", "serving");
    fs::rename(server.path("nomen.log"), server.path("nomen.log.1")).expect("moved");
    server.hang_up();
    wait_for(&server, "nomen.log", "reloaded");
    fs::rename(server.path("nomen.log"), server.path("nomen.log.2")).expect("moved");
    assert!(server.ctl(&["log", "reopen"]).status.success());
    server.reload();
    wait_for(&server, "nomen.log", "reloaded");
    assert_eq!(server.ctl_json(&["status"])["log"], "nomen.log");
}

#[test]
fn a_log_file_that_cannot_be_opened_is_reported_and_the_old_one_stays() {
    let server = Server::start(APEX, FILE);
    wait_for(&server, "nomen.log", "serving");
    fs::rename(server.path("nomen.log"), server.path("nomen.log.1")).expect("moved");
    fs::create_dir(server.path("nomen.log")).expect("made");
    let output = server.ctl(&["log", "reopen"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot open the log file"), "{}", text(&output.stderr));
    server.hang_up();
    wait_for(&server, "nomen.log.1", "the old log file stays: cannot open the log file");
    wait_for(&server, "nomen.log.1", "reloaded");
}

#[test]
fn the_level_and_the_log_of_queries_change_until_a_reload() {
    let server = Server::start(APEX, "[log]\nlevel = \"warn\"\n");
    let unknown = server.ctl(&["log", "level", "loud"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("there are error, warn, info, debug, trace"));
    assert!(server.ctl(&["log", "level", "info"]).status.success());
    assert!(server.ctl(&["log", "queries", "on"]).status.success());
    server.query(&["ns1.example", "A"]);
    server.wait_for_log("name=ns1.example.", 1);
    assert!(server.ctl(&["log", "queries", "off"]).status.success());
    server.query(&["ns2.example", "A"]);
    assert!(server.ctl(&["log", "queries", "on"]).status.success());
    server.query(&["ns1.example", "AAAA"]);
    server.wait_for_log("type=\"AAAA\"", 1);
    // The reload puts both back: what the log has behind its end was written before it.
    server.reload();
    server.query(&["ns2.example", "AAAA"]);
    let stopped = server.stop();
    let log = fs::read_to_string(stopped.path().join("log")).expect("the log");
    assert!(!log.contains("name=ns2.example.") && !log.contains("INFO stopped"), "{log}");
}

#[test]
fn queries_have_a_file_of_their_own_whatever_the_level() {
    let server =
        Server::start(APEX, "[log]\nlevel = \"error\"\nqueries = true\nqueries-file = \"queries.log\"\n");
    server.query(&["ns1.example", "A"]);
    wait_for(&server, "queries.log", "name=ns1.example.");
    fs::rename(server.path("queries.log"), server.path("queries.log.1")).expect("moved");
    assert_eq!(server.ctl_json(&["log", "reopen"])["queries"], "queries.log");
    server.query(&["ns2.example", "A"]);
    wait_for(&server, "queries.log", "name=ns2.example.");
    fs::rename(server.path("queries.log"), server.path("queries.log.2")).expect("moved");
    server.hang_up();
    server.query(&["www.example", "A"]);
    let stopped = server.stop();
    let read = |name| fs::read_to_string(stopped.path().join(name)).unwrap_or_default();
    let names = |name| read(name).lines().map(|line| line.matches("name=").count()).collect::<Vec<_>>();
    assert_eq!([names("queries.log.1"), names("queries.log.2"), names("queries.log")], [[1], [1], [1]]);
    assert!(read("queries.log").contains("name=www.example."), "also what was asked last");
    assert!(!read("log").contains("name="), "{}", read("log"));
}
