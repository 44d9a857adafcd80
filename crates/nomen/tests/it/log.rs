//! The log while the server runs: its file, its level, its queries.

use std::fs;

use serde_json::json;

use crate::changes;
use crate::metrics::http;
use crate::support::{APEX, Server, eventually, free_address, text, written};

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
    wait_for(&server, "nomen.log.1", "the log file is not reopened: cannot open the log file");
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
    // The reload reverts both settings; the end of the log was written before it.
    server.reload();
    server.query(&["ns2.example", "AAAA"]);
    let stopped = server.stop();
    let log = fs::read_to_string(stopped.path().join("log")).expect("the log");
    assert!(!log.contains("name=ns2.example.") && !log.contains("INFO stopped"), "{log}");
}

#[test]
fn explained_queries_are_no_queries_of_clients() {
    let more = "[log]\nqueries = true\n[rate-limits]\nexempt = []\nanswers-per-second = 1\nburst = \"1s\"\n\
                [[zone]]\nname = \"example\"\nfile = \"example.zone\"\n\
                [[zone]]\nname = \"broken\"\nprimaries = [\"127.0.0.1@1\"]\n\
                [resolver]\nvalidate = false\niterate = false\n[[resolver.access]]\nfrom = [\"any\"]\n\
                [[resolver.forward]]\ndomain = \"other\"\nservers = [\"127.0.0.1@1\"]\n";
    let server = Server::start(&format!("{APEX}alias CNAME www.other.\n"), more);
    let expected = [
        ("ns1.example", "status: NOERROR"),
        ("www.broken", "status: SERVFAIL"),
        ("alias.example", "status: SERVFAIL"),
        ("www.other", "no answer"),
    ];
    for (name, said) in expected {
        for _ in 0..5 {
            let output = text(&server.ctl(&["explain", name, "A", "--proto", "udp"]).stdout);
            assert!(output.contains(said), "{name}: {output}");
        }
    }
    server.query(&["ns2.example", "A", "+tcp"]);
    server.wait_for_log("name=ns2.example.", 1);
    let log = server.log();
    // The failed lookups of other servers have lines, which name no client.
    for (name, _) in expected {
        let logged = log.lines().find(|line| line.contains(name) && !line.contains("type=A reason="));
        assert_eq!(logged, None, "{name}");
    }
    assert!(!log.contains("name=www.broken.") && !log.contains("client=127.0.0.1:0"), "{log}");
    assert_eq!(server.counter("nomen_queries_total{transport=\"udp\",type=\"A\"}"), 0);
    assert_eq!(server.counter("nomen_queries_total{transport=\"tcp\",type=\"A\"}"), 1);
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

#[test]
fn a_share_of_queries_could_not_be_logged_by_a_command() {
    let server = Server::start(APEX, "");
    let said = |share: &str| server.ctl_json(&["log", "queries", share])["queries"].clone();
    assert_eq!([said("0.5"), said("on"), said("off")], [json!(0.5), json!(true), json!(false)]);
    assert_eq!(server.ctl(&["log", "queries", "1.5"]).status.code(), Some(2));
}

#[test]
fn what_changes_or_copies_a_zone_left_no_trace_at_info() {
    let server = changes::start(changes::folder(APEX), "allow-update = [\"127.0.0.1\"]\n");
    assert_eq!(changes::add(server.address, "example", "new.example"), Some(0));
    let accepted = "zone example.: update accepted client=127.0.0.1 key=none removed=1 added=2 serial 1 -> 2";
    wait_for(&server, "log", accepted);
    // A prerequisite that does not hold: a name that must be in use (RFC 2136 §2.4.4).
    let socket = changes::socket(server.address);
    let mut unfit =
        changes::update_message(7, "example", &[changes::record("nosuch.example", 255, 255, 0, b"")]);
    unfit.swap(7, 9);
    assert_eq!(changes::answer(&socket, &unfit), Some(3));
    wait_for(
        &server,
        "log",
        "zone example.: update refused client=127.0.0.1 key=none rcode=NXDOMAIN reason=",
    );
    assert_eq!(changes::add(server.address, "other", "new.other"), Some(9));
    let elsewhere =
        "update refused zone=other. client=127.0.0.1 key=\"none\" reason=\"the zone is not served here\"";
    wait_for(&server, "log", elsewhere);
    // A NOTIFY for a zone without primaries, and a transfer that is not allowed any more.
    let notify = [b"\0\x01\x24\0\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01".as_slice()].concat();
    assert_eq!(changes::answer(&socket, &notify), Some(5));
    wait_for(
        &server,
        "log",
        "NOTIFY refused zone=example. client=127.0.0.1 key=\"none\" reason=\"the zone has no `primaries`\"",
    );
    server.reconfigure("allow-transfer = [\"any\"]", "allow-transfer = [\"192.0.2.1\"]");
    server.reload();
    server.query(&["example", "AXFR"]);
    wait_for(&server, "log", "transfer refused zone=example. client=127.0.0.1");
}

#[test]
fn what_gets_servfail_left_no_trace_at_info() {
    // A zone that cannot be loaded, a server that does not answer, and an unknown key.
    let (at, silent) = (free_address(), free_address());
    let more = format!(
        "[metrics]\nlisten = {}\n[[zone]]\nname = \"broken.test\"\nfile = \"broken.zone\"\n\
         [resolver]\nvalidate = false\n[[resolver.forward]]\nservers = [{}]\n",
        written(at),
        written(silent)
    );
    let folder = changes::folder(APEX);
    fs::write(folder.path().join("broken.zone"), "@ A x\n").expect("written");
    let server = Server::start_in(folder, "", &more);
    assert!(server.query(&["www.broken.test", "A"]).contains("status: SERVFAIL"));
    wait_for(&server, "log", "SERVFAIL name=www.broken.test. type=\"A\"");
    assert!(server.query(&["elsewhere.org", "A"]).contains("status: SERVFAIL"));
    let refused =
        "SERVFAIL name=elsewhere.org. type=A reason=no server of the zone can be reached: connection refused";
    wait_for(&server, "log", refused);
    let signed =
        server.query(&["ns1.example", "A", "-y", "hmac-sha256:nosuch.:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"]);
    assert!(signed.contains("status: NOTAUTH"), "{signed}");
    wait_for(&server, "log", "signature refused opcode=QUERY name=ns1.example.");
    wait_for(&server, "log", "reason=BADKEY for key nosuch.");
    let figures = http(at, "GET /metrics");
    assert!(figures.contains("nomen_servfail_total{extended_error=\"24\"} 1\n"), "{figures}");
    assert!(figures.contains("nomen_recursion_failures_total{cause=\"network\"} 1\n"), "{figures}");
}

#[test]
fn the_query_log_had_neither_key_nor_time_nor_upstream() {
    let upstream = Server::start(APEX, "");
    let more = format!(
        "[log]\nqueries = true\nformat = \"json\"\n\
         [[tsig-key]]\nname = \"k\"\nsecret = \"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\"\n\
         [resolver]\nvalidate = false\n[[resolver.forward]]\nservers = [{}]\n",
        written(upstream.address)
    );
    let server = Server::start_in(tempfile::tempdir().expect("a folder"), "", &more);
    let entry = |name: &str| {
        let line = || server.log().lines().find(|line| line.contains(name)).map(str::to_owned);
        eventually("the query is logged", &server, || line().is_some());
        serde_json::from_str::<serde_json::Value>(&line().expect("a line")).expect("JSON")
    };
    let key = "hmac-sha256:k.:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    server.query(&["ns1.example", "A", "-y", key, "+bufsize=1400", "+dnssec"]);
    let first = entry("\"name\":\"ns1.example.\"");
    assert_eq!(
        (&first["key"], &first["upstream"]),
        (&json!("k."), &json!(upstream.address.to_string())),
        "{first}"
    );
    assert_eq!((&first["edns_size"], &first["dnssec_ok"]), (&json!(1400), &json!(true)), "{first}");
    assert_eq!(first["recursion_desired"], true, "{first}");
    assert!(first["microseconds"].as_u64().is_some_and(|time| time > 0), "{first}");
    // From the cache, without OPT, RD and key.
    server.query(&["ns2.example", "A"]);
    server.query(&["NS2.example", "A", "+noedns", "+norecurse"]);
    let second = entry("\"name\":\"NS2.example.\"");
    let absent = ["key", "upstream", "edns_size"].map(|field| second[field].is_null());
    assert_eq!((absent, &second["recursion_desired"]), ([true; 3], &json!(false)), "{second}");
}

#[test]
fn the_audit_trail_has_a_file_of_its_own_with_every_update() {
    let folder = changes::folder(APEX);
    let log = "state-dir = \"state\"\n[log]\nlevel = \"error\"\naudit-file = \"audit.log\"\n";
    let server =
        Server::start_in(folder, log, "allow-update = [\"127.0.0.1\"]\nallow-transfer = [\"any\"]\n");
    for name in ["a.example", "b.example", "c.example"] {
        assert_eq!(changes::add(server.address, "example", name), Some(0));
    }
    assert_eq!(changes::add(server.address, "other", "new.other"), Some(9));
    wait_for(&server, "audit.log", "update refused zone=other. client=127.0.0.1 key=\"none\"");
    let read = || fs::read_to_string(server.path("audit.log")).unwrap_or_default();
    eventually("each update has a line", &server, || read().matches("update accepted").count() == 3);
    let second = "update accepted zone=example. client=127.0.0.1 key=\"none\" removed=1 added=2 \
                  serial_before=2 serial=3";
    assert!(read().contains(second), "{}", read());
    fs::rename(server.path("audit.log"), server.path("audit.log.1")).expect("moved");
    server.hang_up();
    eventually("the file is opened anew", &server, || server.path("audit.log").exists());
    server.query(&["example", "AXFR"]);
    wait_for(&server, "audit.log", "transfer sent zone=");
    assert!(!fs::read_to_string(server.path("log")).unwrap_or_default().contains("update accepted"));
}

#[test]
fn the_interval_of_lines_that_repeat_is_a_key() {
    let log = "state-dir = \"state\"\n[log]\nrepeat-interval = \"0s\"\n";
    let server = Server::start_in(changes::folder(APEX), log, "allow-update = [\"127.0.0.1\"]\n");
    for name in ["a.example", "b.example", "c.example"] {
        assert_eq!(changes::add(server.address, "example", name), Some(0));
    }
    let lines = || server.log().matches("zone example.: update accepted").count();
    eventually("each line is logged", &server, || lines() == 3);
}
