//! Unusable journals: their zones are not served from older data, until an operator accepts that.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use journal::{RealDisk, StoreFolder};
use nix::unistd::Uid;
use tempfile::TempDir;
use wire::NameBuf;
use wire::hash::HashKey;

use crate::changes::{OPEN, STATE, add, folder, start, zone};
use crate::metrics::http;
use crate::signatures::{now, signed};
use crate::support::{APEX, Server, free_address, text, without_manager, written};

/// Returns a folder with a zone that six updates have changed: serial 7.
fn changed() -> TempDir {
    let nomen = start(folder(APEX), OPEN);
    for n in 0..6 {
        assert_eq!(add(nomen.address, "example", &format!("host-{n}.example")), Some(0));
    }
    nomen.stop()
}

/// Returns the path of the zone's journal in a folder.
fn journal(folder: &Path) -> PathBuf {
    let shards = fs::read_dir(folder.join("state/changes")).expect("a folder");
    let files = shards.flat_map(|shard| fs::read_dir(shard.expect("a shard").path()).into_iter().flatten());
    let mut files = files.map(|file| file.expect("a file").path());
    files.find(|file| file.extension().is_some_and(|end| end == "zone")).expect("the zone's file")
}

/// Returns the offset at which the zeros at the end of a file begin.
fn end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// Checks an operator's view of a zone that is not served, and returns its status.
fn refused(nomen: &Server, what: &str) -> serde_json::Value {
    let answer = nomen.query(&["ns1.example", "A"]);
    assert!(answer.contains("SERVFAIL") && answer.contains("EDE: 24 (Invalid Data)"), "{what}: {answer}");
    assert!(nomen.query(&["host-5.example", "A"]).contains("SERVFAIL"), "{what}");
    assert_eq!(add(nomen.address, "example", "other.example"), Some(2), "{what}");
    let log = nomen.log();
    let errors: Vec<&str> =
        log.lines().filter(|line| line.contains("ERROR") && line.contains("example")).collect();
    assert_eq!(errors.len(), 1, "{what}: {log}");
    assert!(errors[0].contains("`nomen ctl zone accept example. --file`"), "{what}: {}", errors[0]);
    let status = nomen.ctl_json(&["zone", "status", "example"]);
    assert_eq!(status["state"], "failed", "{what}");
    assert!(!status["journal"]["fault"].is_null(), "{what}: {status}");
    assert_eq!(status["journal"]["acknowledged"], 7, "{what}: {status}");
    status
}

fn served_serial(nomen: &Server) -> u64 {
    nomen.ctl_json(&["zone", "status", "example"])["serial"].as_u64().expect("a serial number")
}

#[test]
fn a_journal_that_cannot_be_used_does_not_bring_the_old_zone_file_back() {
    for what in ["header", "empty", "folder", "fifo", "loop", "missing", "all missing"] {
        let left = changed();
        let path = journal(left.path());
        let whole = fs::read(&path).expect("read");
        fs::remove_file(&path).expect("removed");
        match what {
            "header" => fs::write(&path, [&b"xxxxxxxx"[..], &whole[8..]].concat()).expect("written"),
            "empty" => fs::write(&path, "").expect("written"),
            "folder" => fs::create_dir(&path).expect("made"),
            "fifo" => {
                let made = Command::new("mkfifo").arg(&path).status();
                assert!(made.is_ok_and(|status| status.success()));
            }
            // The system refuses to open it: ELOOP.
            "loop" => std::os::unix::fs::symlink(&path, &path).expect("made"),
            "missing" => {}
            _ => fs::remove_dir_all(left.path().join("state/changes")).expect("removed"),
        }
        let nomen = start(left, OPEN);
        refused(&nomen, what);
        // Neither a reload nor a restart changes that.
        assert!(!nomen.reload_badly()["error"].is_null(), "{what}");
        assert!(nomen.query(&["ns1.example", "A"]).contains("SERVFAIL"), "{what}");
        let nomen = start(nomen.kill(), OPEN);
        refused(&nomen, what);
        let nothing = nomen.ctl(&["zone", "accept", "example", "--journal"]);
        assert_eq!(nothing.status.code(), Some(1), "{what}");
        assert!(
            text(&nothing.stderr).contains("--file accepts the zone's file"),
            "{}",
            text(&nothing.stderr)
        );
        // A file with a fault is not accepted, and nothing is lost.
        nomen.write("example.zone", "@ SOA broken");
        assert_eq!(nomen.ctl(&["zone", "accept", "example", "--file"]).status.code(), Some(1), "{what}");
        assert!(nomen.query(&["ns1.example", "A"]).contains("SERVFAIL"), "{what}");
        nomen.write("example.zone", APEX);
        let accepted = nomen.ctl_json(&["zone", "accept", "example", "--file"]);
        assert_eq!(
            (&accepted["accepted_serial"], &accepted["acknowledged_serial"], &accepted["serial"]),
            (&1.into(), &7.into(), &8.into()),
            "{what}: secondaries have serial 7"
        );
        let old = accepted["old_journal"].as_str().map(PathBuf::from);
        let is_aside = old.is_some_and(|old| fs::symlink_metadata(old).is_ok());
        assert_eq!(is_aside, !what.contains("missing"), "{what}");
        assert!(nomen.query(&["ns1.example", "A"]).contains("192.0.2.1"), "{what}");
        assert_eq!(served_serial(&nomen), 8, "{what}");
        assert_eq!(add(nomen.address, "example", "after.example"), Some(0), "{what}");
        let before = zone(nomen.address);
        let nomen = start(nomen.kill(), OPEN);
        assert_eq!(zone(nomen.address), before, "{what}: after a restart");
    }
}

/// Starts `nomen serve` in a folder with its configuration. File permissions apply, also if the tests run as
/// root.
fn start_bound_by_permissions(address: SocketAddr, folder: TempDir) -> Option<Server> {
    let mut command = Command::new("sh");
    without_manager(&mut command).args(["-c", "exec \"$@\" >log 2>&1", "sh"]);
    if Uid::effective().is_root() {
        let without = "--bounding-set=-dac_override,-dac_read_search";
        if !Command::new("setpriv").args([without, "true"]).status().is_ok_and(|status| status.success()) {
            testkit::left_out("`setpriv` cannot take capabilities from root");
            return None;
        }
        command.args(["setpriv", without]);
    }
    command.args([env!("CARGO_BIN_EXE_nomen"), "serve", "--config", "nomen.toml"]);
    Some(Server::start_by(command, address, folder))
}

#[test]
fn a_journal_that_cannot_be_read_for_a_while_loses_nothing() {
    let nomen = start(changed(), OPEN);
    let (address, before) = (nomen.address, zone(nomen.address));
    let left = nomen.stop();
    let path = journal(left.path());
    fs::set_permissions(&path, Permissions::from_mode(0o000)).expect("set");
    let Some(nomen) = start_bound_by_permissions(address, left) else { return };
    let status = refused(&nomen, "unreadable");
    let fault = status["journal"]["fault"].to_string();
    assert!(fault.contains("cannot open") && fault.contains("Permission denied"), "{fault}");
    assert!(nomen.log().contains("mend that and reload, or accept what is older"), "{}", nomen.log());
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
    nomen.reload();
    assert_eq!((served_serial(&nomen), zone(address)), (7, before));
    assert!(nomen.ctl_json(&["zone", "status", "example"])["journal"].is_null());
    assert_eq!(add(address, "example", "after.example"), Some(0));
}

#[test]
fn a_signed_file_cannot_be_led_beyond_what_was_acknowledged() {
    let left = changed();
    fs::remove_file(journal(left.path())).expect("removed");
    let nomen = start(left, OPEN);
    refused(&nomen, "missing");
    let file = signed(now() + 20 * 86_400);
    nomen.write("example.zone", &file);
    let output = nomen.ctl(&["zone", "accept", "example", "--file"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let reason = "serial 1 cannot be led beyond serial 7, which was acknowledged";
    assert!(said.contains(reason) && said.contains("sign it again"), "{said}");
    assert!(nomen.query(&["ns1.example", "A"]).contains("SERVFAIL"));
    assert_eq!(nomen.ctl_json(&["zone", "status", "example"])["journal"]["acknowledged"], 7);
    // A file with a later serial keeps that serial.
    nomen.write("example.zone", &file.replace("admin 1 ", "admin 8 "));
    let accepted = nomen.ctl_json(&["zone", "accept", "example", "--file"]);
    assert_eq!((&accepted["accepted_serial"], &accepted["serial"]), (&8.into(), &8.into()));
    assert!(nomen.query(&["ns1.example", "A"]).contains("192.0.2.1"));
}

#[test]
fn a_journal_that_was_cut_in_its_middle_is_no_torn_end() {
    let left = changed();
    let path = journal(left.path());
    let whole = fs::read(&path).expect("read");
    let mut cuts = 0;
    // The same folder is used for one cut after the other.
    let (mut left, mut len) = (left, end(&whole));
    while len > 1000 {
        len -= 100;
        fs::write(journal(left.path()), &whole[..len]).expect("written");
        let nomen = start(left, OPEN);
        let status = refused(&nomen, &format!("{len} of {} bytes", end(&whole)));
        if let Some(usable) = status["journal"]["usable"].as_u64() {
            assert!(usable < 7, "{status}");
            cuts += 1;
        }
        left = nomen.kill();
    }
    assert!(cuts > 1, "{cuts}");
    let nomen = start(left, OPEN);
    let usable = nomen.ctl_json(&["zone", "status", "example"])["journal"]["usable"].as_u64().expect("some");
    let accepted = nomen.ctl_json(&["zone", "accept", "example", "--journal"]);
    assert_eq!((&accepted["accepted_serial"], &accepted["serial"]), (&usable.into(), &8.into()));
    assert!(accepted["old_journal"].as_str().is_some_and(|old| Path::new(old).exists()));
    assert_eq!(served_serial(&nomen), 8);
    assert_eq!(
        nomen.ctl(&["zone", "accept", "example", "--journal"]).status.code(),
        Some(1),
        "it is whole now"
    );
    // A torn end, as after a crash, is cut, and everything acknowledged is in the zone.
    assert_eq!(add(nomen.address, "example", "after.example"), Some(0));
    let before = zone(nomen.address);
    let left = nomen.kill();
    let path = journal(left.path());
    let mut torn = fs::read(&path).expect("read");
    let at = end(&torn);
    torn.truncate(at);
    torn.extend([0x64, 0x69, 0x66, 0x66, 1, 2, 3]);
    fs::write(&path, torn).expect("written");
    let nomen = start(left, OPEN);
    assert_eq!(zone(nomen.address), before);
    nomen.wait_for_log("bytes of an incomplete write", 1);
}

#[test]
fn a_file_with_a_later_serial_is_served_again_in_place_of_its_journal() {
    let left = changed();
    fs::remove_file(journal(left.path())).expect("removed");
    let nomen = start(left, OPEN);
    refused(&nomen, "missing");
    nomen.write("example.zone", &APEX.replace("admin 1 ", "admin 100 "));
    let accepted = nomen.ctl_json(&["zone", "accept", "example", "--file"]);
    assert_eq!((&accepted["serial"], &accepted["old_journal"]), (&100.into(), &serde_json::Value::Null));
    // The zone is read from its file, as before its first update.
    nomen.write("example.zone", &APEX.replace("admin 1 ", "admin 101 "));
    nomen.reload();
    assert_eq!(served_serial(&nomen), 101);
    let nomen = start(nomen.stop(), OPEN);
    assert_eq!(served_serial(&nomen), 101);
}

#[test]
fn a_journal_that_is_lost_while_its_zone_is_served_is_stored_anew() {
    let nomen = start(changed(), OPEN);
    fs::remove_file(journal(nomen.folder.path())).expect("removed");
    assert_eq!(add(nomen.address, "example", "after.example"), Some(0), "{}", nomen.log());
    fs::remove_file(journal(nomen.folder.path())).expect("removed");
    let refused = add(nomen.address, "example", "refused.example");
    assert_eq!(
        (refused, add(nomen.address, "example", "again.example")),
        (Some(2), Some(0)),
        "{}",
        nomen.log()
    );
    let before = zone(nomen.address);
    let nomen = start(nomen.kill(), OPEN);
    assert_eq!(zone(nomen.address), before);
    assert!(nomen.query(&["again.example", "A"]).contains("192.0.2.80"));
}

#[test]
fn a_journal_from_before_there_were_marks_is_taken_as_it_is() {
    let left = changed();
    fs::remove_file(left.path().join("state/zone-marks")).expect("removed");
    {
        // A journal of that time: without a mark.
        let folder = left.path().join("state/changes");
        let folder = StoreFolder::open(Arc::new(RealDisk), &folder).expect("a folder");
        let apex: NameBuf = "example.".parse().expect("a name");
        let (mut store, stored) = folder.zone(apex.as_name()).expect("a store");
        let zone = stored.expect("a zone").load(&HashKey::new([1, 2, 3])).expect("a zone");
        store.replace(&zone).expect("stored");
    }
    let nomen = start(left, OPEN);
    assert_eq!(served_serial(&nomen), 7);
    let left = nomen.stop();
    fs::remove_file(journal(left.path())).expect("removed");
    let nomen = Server::start_in(left, STATE, OPEN);
    refused(&nomen, "its mark was made at the start");
}

#[test]
fn a_journal_whose_mark_is_gone_or_damaged_was_served_as_it_is() {
    let at = free_address();
    let sections = format!("{OPEN}[metrics]\nlisten = {}\n", written(at));
    let damaged = |nomen: &Server, count: u32| {
        let figures = http(at, "GET /metrics");
        assert!(
            figures.contains(&format!("\nnomen_journal_damaged {count}\n")),
            "{figures}\n{}",
            nomen.log()
        );
    };
    for what in ["gone", "damaged", "cut"] {
        let left = changed();
        let marks = left.path().join("state/zone-marks");
        let mut bytes = fs::read(&marks).expect("read");
        match what {
            "gone" => fs::remove_file(&marks).expect("removed"),
            "damaged" => {
                bytes[20] ^= 1;
                fs::write(&marks, bytes).expect("written");
            }
            _ => fs::write(&marks, &bytes[..100]).expect("written"),
        }
        let nomen = Server::start_in(left, STATE, &sections);
        // A restart does not repair it.
        let nomen = Server::start_in(nomen.kill(), STATE, &sections);
        let answer = nomen.query(&["ns1.example", "A"]);
        assert!(answer.contains("SERVFAIL") && answer.contains("EDE"), "{what}: {answer}");
        assert_eq!(add(nomen.address, "example", "other.example"), Some(2), "{what}");
        damaged(&nomen, 1);
        nomen.wait_for_log("`nomen ctl zone accept example. --journal`", 1);
        let log = nomen.log();
        let said = |line: &&str| line.contains("ERROR") && line.contains("zone example.");
        let errors: Vec<&str> = log.lines().filter(said).collect();
        assert_eq!(errors.len(), 1, "{what}: {log}");
        let command = "`nomen ctl zone accept example. --journal` serves the stored versions up to serial 7";
        assert!(errors[0].contains(command) && errors[0].contains("zone-marks"), "{what}: {}", errors[0]);
        let journal = nomen.ctl_json(&["zone", "status", "example"])["journal"].clone();
        assert_eq!((&journal["usable"], journal["acknowledged"].is_null()), (&7.into(), true), "{what}");
        let accepted = nomen.ctl_json(&["zone", "accept", "example", "--journal"]);
        assert_eq!((&accepted["accepted_serial"], &accepted["serial"]), (&7.into(), &7.into()), "{what}");
        assert!(nomen.query(&["host-5.example", "A"]).contains("192.0.2.80"), "{what}");
        damaged(&nomen, 0);
        assert_eq!(add(nomen.address, "example", "after.example"), Some(0), "{what}");
        let nomen = Server::start_in(nomen.kill(), STATE, &sections);
        assert_eq!(served_serial(&nomen), 8, "{what}: after a restart");
    }
}
