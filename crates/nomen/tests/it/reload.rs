//! Reloads: nothing is lost, nothing is served in part, and errors change nothing.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, message, text};

/// Returns a zone whose serial and two addresses are derived from one number.
fn version(n: u8) -> String {
    let n1 = u32::from(n) + 1;
    APEX.replace("admin 1 ", &format!("admin {n1} ")) + &format!("www A 192.0.2.{n}\nwww A 198.51.100.{n}\n")
}

#[test]
fn sighup_under_load_loses_no_query_and_mixes_no_versions() {
    let server = Server::start(&version(0), "");
    let (stop, asked) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                socket.connect(server.address).expect("connected");
                socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
                let mut buf = [0; 512];
                let mut id = 0u16;
                while !stop.load(Ordering::Relaxed) {
                    id = id.wrapping_add(1);
                    socket.send(&message(id, "www.example", 1)).expect("sent");
                    let n = socket.recv(&mut buf).expect("every query is answered");
                    assert_eq!(buf[..2], id.to_be_bytes());
                    assert_eq!((buf[3] & 15, buf[7]), (0, 2), "NOERROR with two records");
                    // Both addresses end in the number of their version: the last byte of each record.
                    assert_eq!(buf[n - 1], buf[n - 17], "two versions in one answer");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for n in 1..=20 {
            let before = asked.load(Ordering::Relaxed);
            server.write("example.zone", &version(n));
            server.hang_up();
            // One query of each thread may have been in flight before the reload.
            eventually("there are queries", &server, || asked.load(Ordering::Relaxed) > before + 2);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(server.query(&["www.example", "+short"]).contains("192.0.2.20\n"));
}

#[test]
fn a_bad_zone_keeps_its_last_good_version() {
    let server = Server::start(&version(1), "");
    server.write("example.zone", &(version(2) + "www A nonsense\n"));
    server.reload_badly();
    assert!(server.query(&["www.example", "+short"]).contains("192.0.2.1\n"));
    let status = text(&server.ctl(&["zone", "status", "example"]).stdout);
    assert!(status.contains("old") && status.contains("example.zone:9:7"), "{status}");
    server.write("example.zone", &version(3));
    server.reload();
    assert!(server.query(&["www.example", "+short"]).contains("192.0.2.3\n"));
    let status = text(&server.ctl(&["zone", "status", "example"]).stdout);
    assert!(!status.contains("fault"), "{status}");
}

#[test]
fn a_bad_configuration_changes_nothing() {
    let server = Server::start(&version(1), "");
    let good = std::fs::read_to_string(server.path("nomen.toml")).expect("the configuration");
    server.write("example.zone", &version(2));
    server.write("nomen.toml", &good.replace("workers", "wrokers"));
    let output = server.ctl(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("nomen.toml:2:1") && said.contains("did you mean `workers`?"), "{said}");
    assert!(server.query(&["www.example", "+short"]).contains("192.0.2.1\n"));
    server.write("nomen.toml", &good);
    server.reload();
    assert!(server.query(&["www.example", "+short"]).contains("192.0.2.2\n"));
}

#[test]
fn an_emptied_configuration_removed_every_zone() {
    let server = Server::start(&version(1), "");
    server.write("other.zone", APEX);
    server.reload();
    let good = std::fs::read_to_string(server.path("nomen.toml")).expect("the configuration");
    let is_served = || {
        let other = server.query(&["other", "SOA"]).contains("status: NOERROR");
        (server.query(&["www.example", "+short"]).contains("192.0.2.1\n"), other)
    };
    server.write("nomen.toml", "");
    let message = "the configuration would remove 2 of 2 zones, and leave none: nothing was changed, all \
                   zones stay in service; `nomen ctl reload --force` removes them";
    let output = server.ctl(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    server.hang_up();
    server.wait_for_log(message, 2);
    assert_eq!(server.ctl_json(&["status"])["last_reload"]["error"], message);
    let status = text(&server.ctl(&["status"]).stdout);
    assert!(status.lines().any(|line| line.starts_with("last_reload") && line.contains(message)), "{status}");
    assert_eq!(is_served(), (true, true));
    server.ctl_json(&["reload", "--force"]);
    assert_eq!(is_served(), (false, false));
    assert_eq!(server.ctl_json(&["status"])["zones"]["ok"], 0);
    server.write("nomen.toml", &good);
    server.reload();
    assert_eq!(is_served(), (true, true));
}

#[test]
fn zones_come_and_go_with_their_files() {
    let server = Server::start(APEX, "");
    assert!(server.query(&["other", "SOA"]).contains("status: REFUSED"));
    server.write("other.zone", APEX);
    server.reload();
    assert!(server.query(&["other", "SOA"]).contains("status: NOERROR"));
    std::fs::remove_file(server.path("other.zone")).expect("removed");
    server.reload();
    assert!(server.query(&["other", "SOA"]).contains("status: REFUSED"));
    assert!(server.query(&["example", "SOA"]).contains("status: NOERROR"));
}

#[test]
fn only_changed_zones_are_read_and_included_files_count() {
    let server = Server::start(&format!("{APEX}$INCLUDE part.inc\n"), "");
    // The zone was bad because the included file was missing.
    server.write("part.inc", "www A 192.0.2.7\n");
    let first = server.reload();
    assert_eq!((&first["loaded"], &first["unchanged"]), (&1.into(), &0.into()), "{first}");
    let second = server.reload();
    assert_eq!((&second["loaded"], &second["unchanged"]), (&0.into(), &1.into()), "{second}");
    server.write("part.inc", "www A 192.0.2.8\n");
    let third = server.reload();
    assert_eq!(third["loaded"], 1, "{third}");
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.8\n");
}

#[test]
fn keys_that_need_a_start_are_reported_until_they_are_put_back() {
    let server = Server::start(APEX, "");
    let pending = || server.ctl_json(&["status"])["pending_keys"].clone();
    assert_eq!(pending(), serde_json::json!([]));
    server.reconfigure("workers = 2", "workers = 4\nmax-chain = 3");
    let words = "`workers` of [server] changed from 2 to 4; this takes effect at the next start";
    for reloads in 1..=2 {
        server.reload();
        server.wait_for_log(words, reloads);
        let key =
            serde_json::json!({"section": "[server]", "key": "workers", "running": "2", "configured": "4"});
        assert_eq!(pending(), serde_json::json!([key]));
    }
    let status = text(&server.ctl(&["status"]).stdout);
    assert!(status.lines().any(|l| l.starts_with("pending_keys") && l.ends_with(words)), "{status}");
    assert_eq!(server.ctl_json(&["status"])["workers"], 2, "those that run");
    // A configuration with an error changes nothing here either.
    server.reconfigure("workers = 4", "wrokers = 4");
    assert_eq!(server.ctl(&["reload"]).status.code(), Some(1));
    assert_eq!(pending().as_array().map(Vec::len), Some(1));
    server.reconfigure("wrokers = 4", "workers = 2");
    let reloads = server.log().matches(" reloaded ").count();
    server.reload();
    assert_eq!(pending(), serde_json::json!([]));
    // The running values are configured again: nothing to report.
    server.wait_for_log(" reloaded ", reloads + 1);
    assert_eq!(server.log().matches("this takes effect at the next start").count(), 2);
}

#[test]
fn the_idle_time_that_tcp_uses_is_announced() {
    let server = Server::start(APEX, "");
    let announced = || server.query(&["example", "SOA", "+tcp", "+keepalive"]);
    assert!(announced().contains("; TCP KEEPALIVE: 10.0 secs"), "{}", announced());
    server.reconfigure("workers = 2", "workers = 2\ntcp-idle-timeout = \"30s\"");
    server.reload();
    assert!(announced().contains("; TCP KEEPALIVE: 30.0 secs"), "{}", announced());
    assert_eq!(server.ctl_json(&["status"])["pending_keys"], serde_json::json!([]));
}

#[test]
fn a_reload_with_a_bad_zone_succeeded_and_named_none() {
    let server = Server::start(&version(1), "");
    server.write("other.zone", APEX);
    server.write("example.zone", &(version(2) + "www A nonsense\n"));
    let output = server.ctl(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("./example.zone:9:7: zone example.: "), "{said}");
    assert!(said.contains("zone other.: new, serial 1, 5 records, "), "{said}");
    assert_eq!(complaint, "nomen: 1 of 2 zones are bad\n");
    // The same as long as the zone is bad.
    let report = server.reload_badly();
    let fault = &report["faults"][0];
    assert_eq!(
        (&fault["zone"], &fault["line"], &fault["column"]),
        (&"example.".into(), &9.into(), &7.into())
    );
    assert_eq!(report["error"], "1 of 2 zones are bad");
    server.write("example.zone", &version(3));
    let report = server.reload();
    let changed = &report["changed"][0];
    assert_eq!(report["changed"].as_array().map(Vec::len), Some(1), "{report}");
    let numbers = ["from", "to", "records"].map(|key| changed[key].as_u64());
    assert_eq!((&changed["zone"], numbers), (&"example.".into(), [Some(2), Some(4), Some(7)]), "{report}");
    server.wait_for_log("zone example.: serial 2 -> 4", 1);
}

#[test]
fn a_serial_that_went_back_or_stayed_was_not_noticed() {
    let server = Server::start(&version(5), "");
    server.write("example.zone", &version(1));
    server.reload();
    server.wait_for_log("WARN zone example.: the serial went back from 6 to 2", 1);
    server.write("example.zone", &(version(1) + "more A 192.0.2.9\n"));
    server.reload();
    server.wait_for_log("WARN zone example.: the records changed, the serial is still 2", 1);
    // The same records in another order are no change.
    server.write("example.zone", &("more.example. 60 A 192.0.2.9\n".to_owned() + &version(1)));
    let report = server.reload();
    assert_eq!((&report["loaded"], &report["changed"]), (&1.into(), &serde_json::json!([])), "{report}");
    server.wait_for_log(" reloaded ", 3);
    assert_eq!(server.log().matches("secondaries will not transfer this version").count(), 2);
}
