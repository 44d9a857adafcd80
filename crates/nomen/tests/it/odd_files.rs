//! Files that are not regular files, in the place of a zone file or a state file.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Output};

use nix::libc;
use tempfile::TempDir;

use crate::changes::{STATE, add, answer, socket};
use crate::support::{
    APEX, Server, TEST_TIMEOUT, eventually, free_address, message, text, without_manager, written,
};

fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success(), "{}", path.display());
}

/// Runs `nomen serve` in a folder, where it must end by itself: after [`TEST_TIMEOUT`] it is stopped, with
/// exit status 124.
fn serve_to_its_end(folder: &TempDir) -> Output {
    let mut command = Command::new("timeout");
    command.arg(TEST_TIMEOUT.as_secs().to_string()).arg(env!("CARGO_BIN_EXE_nomen"));
    command.args(["serve", "--config", "nomen.toml"]).current_dir(folder.path());
    without_manager(&mut command).output().expect("it runs")
}

/// Returns a configuration that listens on a free address and serves `example.`, with more keys for
/// `[server]` and more sections.
fn config(keys: &str, more: &str) -> String {
    format!(
        "[server]\n{keys}[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n[[zone]]\n\
         name = \"example\"\nfile = \"example.zone\"\n{more}",
        written(free_address())
    )
}

/// Returns a folder with the zone and a FIFO of this name.
fn with_fifo(name: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join(name);
    let parent = fifo.parent().expect("a folder");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).expect("made");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    make_fifo(&fifo);
    folder
}

#[test]
fn a_zone_file_that_was_no_file_stopped_all_reloads() {
    let odd = "[[zone]]\nname = \"fifo.test\"\nfile = \"fifo\"\n[[zone]]\nname = \"zero.test\"\n\
               file = \"/dev/zero\"\n[[zone]]\nname = \"sparse.test\"\nfile = \"sparse\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    make_fifo(&folder.path().join("fifo"));
    let sparse = File::create(folder.path().join("sparse")).expect("made");
    sparse.set_len(10 << 30).expect("set");
    let server = Server::start_at(free_address(), folder, "", odd);
    let fault = |zone: &str| server.ctl_json(&["zone", "status", zone])["fault"].to_string();
    assert!(fault("fifo.test").contains("not a regular file: it is a FIFO"), "{}", fault("fifo.test"));
    assert!(fault("zero.test").contains("not a regular file: it is a device"), "{}", fault("zero.test"));
    assert!(fault("sparse.test").contains("no line ends here"), "{}", fault("sparse.test"));
    server.write("example.zone", &APEX.replace(" 1 ", " 2 "));
    let report = server.reload_badly();
    assert_eq!(report["failed"], 3, "{report}");
    let one = server.ctl(&["zone", "reload", "fifo.test"]);
    assert_eq!(one.status.code(), Some(1), "{}", text(&one.stderr));
    // It is read once it is a file.
    fs::remove_file(server.path("fifo")).expect("removed");
    server.write("fifo", APEX);
    assert!(server.ctl(&["zone", "reload", "fifo.test"]).status.success());
}

#[test]
fn a_zone_larger_than_its_limit_is_not_loaded() {
    let limited = "[[zone]]\nname = \"small.test\"\nfile = \"small\"\nfile-max-size = 1024\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    fs::write(folder.path().join("small"), APEX).expect("written");
    let server = Server::start_at(free_address(), folder, "", limited);
    server.write("small", &format!("{APEX}{}", "; a comment\n".repeat(100)));
    let refused = server.ctl(&["zone", "reload", "small.test"]);
    assert!(text(&refused.stderr).contains("the limit is 1024"), "{}", text(&refused.stderr));
    assert_eq!(server.ctl_json(&["zone", "status", "small.test"])["state"], "old");
    server.reconfigure("file-max-size = 1024", "file-max-size = 2048");
    server.reload();
    assert_eq!(server.ctl_json(&["zone", "status", "small.test"])["state"], "ok");
}

#[test]
fn a_fifo_in_the_state_folder_hung_the_start_or_the_stop() {
    let keys = "state-dir = \"state\"\n";
    let cache = "[resolver]\nvalidate = false\ncache-file = \"state/cache\"\n[[resolver.forward]]\n\
                 servers = [\"192.0.2.1\"]\n";
    let locks = ["secondaries/lock", "differences/lock", "catalogs/lock"];
    for name in ["hash-key", "members.json", "cache", "cache.new"].into_iter().chain(locks) {
        let server = Server::start_at(free_address(), with_fifo(&format!("state/{name}")), keys, cache);
        assert!(server.query(&["example", "SOA"]).contains("NOERROR"), "{name}");
        drop(server.stop());
    }
    // Without these files, acknowledged changes or zones would be missing: the server does not start, with an
    // error.
    for name in ["added.toml", "zone-notes", "zone-marks", "changes/lock"] {
        let folder = with_fifo(&format!("state/{name}"));
        fs::write(folder.path().join("nomen.toml"), config(keys, "")).expect("written");
        let output = serve_to_its_end(&folder);
        let said = text(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1..=3)) && said.contains("not a regular file: it is a FIFO"),
            "{name}: {said}"
        );
    }
}

#[test]
fn a_fifo_as_an_image_or_as_the_state_of_trust_anchors_hung_the_start() {
    let keys = "state-dir = \"state\"\nimage-min-records = 1\n";
    let server = Server::start_in(with_fifo("state/images/example.image"), keys, "");
    assert!(server.query(&["example", "SOA"]).contains("NOERROR"));
    server.wait_for_log("not a regular file: it is a FIFO", 1);
    let image = server.path("state/images/example.image");
    eventually("an image takes its place", &server, || {
        fs::metadata(&image).is_ok_and(|about| about.is_file())
    });
    for name in ["trust-anchors", "negative-trust-anchors"] {
        // The forwarder's upstream does not run: the root's keys cannot be fetched, and are not needed.
        let forward = format!("[resolver]\n[[resolver.forward]]\nservers = [{}]\n", written(free_address()));
        let folder = with_fifo(&format!("state/{name}"));
        let server = Server::start_in(folder, "state-dir = \"state\"\n", &forward);
        assert!(server.query(&["example", "SOA"]).contains("NOERROR"), "{name}");
        server.wait_for_log("cannot be used: not a regular file: it is a FIFO", 1);
        let aside = server.path(&format!("state/{name}.bad"));
        assert!(aside.exists(), "{name}");
    }
}

#[test]
fn a_log_file_that_is_a_fifo_without_a_reader_hung_the_start() {
    for key in ["target", "queries-file", "audit-file"] {
        let folder = with_fifo("fifo");
        let log = format!("[log]\nqueries = true\n{key} = \"fifo\"\n");
        fs::write(folder.path().join("nomen.toml"), config("", &log)).expect("written");
        let output = serve_to_its_end(&folder);
        let said = text(&output.stderr);
        let expected = "cannot open the log file fifo: it is a FIFO that no process reads";
        assert!(
            output.status.code() == Some(3) && said.contains(expected),
            "{key}: {:?} {said}",
            output.status
        );
    }
}

#[test]
fn a_log_file_that_became_a_fifo_without_a_reader_hung_the_reload() {
    for (key, file) in [("target", "nomen.log"), ("queries-file", "queries.log"), ("audit-file", "audit.log")]
    {
        let server = Server::start(APEX, &format!("[log]\nqueries = true\n{key} = \"{file}\"\n"));
        fs::rename(server.path(file), server.path("old.log")).expect("moved");
        make_fifo(&server.path(file));
        let output = server.ctl(&["log", "reopen"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{key}: {said}");
        assert!(said.contains("it is a FIFO that no process reads"), "{key}: {said}");
        server.hang_up();
        assert!(server.query(&["example", "SOA"]).contains("NOERROR"), "{key}");
        drop(server.stop());
    }
}

/// Opens a FIFO for reading and writing, without blocking.
fn other_end(fifo: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(fifo).expect("opened")
}

#[test]
fn log_files_may_be_fifos_and_readers_that_do_not_read_hold_nothing_up() {
    for key in ["target", "queries-file", "audit-file"] {
        let folder = with_fifo("fifo");
        let mut reader = other_end(&folder.path().join("fifo"));
        let zone = "allow-update = [\"any\"]\n[log]\nqueries = true\n";
        let more = format!("{zone}{key} = \"fifo\"\n");
        let server = Server::start_in(folder, STATE, &more);
        let mut seen = Vec::new();
        let mut change = 0;
        let mut acts = || {
            change += 1;
            let owner = format!("host-{change}.example");
            assert_eq!(add(server.address, "example", &owner), Some(0), "{key}");
            assert_eq!(answer(&socket(server.address), &message(change, &owner, 1)), Some(0), "{key}");
        };
        // A line of each: of the log, of queries, and of the audit trail.
        acts();
        eventually("lines come to the reader", &server, || {
            let mut some = [0; 4096];
            if let Ok(len) = reader.read(&mut some) {
                seen.extend_from_slice(&some[..len]);
            }
            text(&seen).contains("example.")
        });
        // The FIFO is full, and the next lines wait.
        let mut bytes = 0;
        let filled = loop {
            match reader.write(&[b'x'; 512]) {
                Ok(len) => bytes += len,
                Err(e) => break e,
            }
        };
        assert_eq!((filled.kind(), bytes > 0), (ErrorKind::WouldBlock, true));
        (0..3).for_each(|_| acts());
        fs::rename(server.path("fifo"), server.path("old")).expect("moved");
        assert!(server.ctl(&["log", "reopen"]).status.success(), "{key}");
        server.hang_up();
        // Once the reader has closed the FIFO, lines go to the file in its place.
        drop(reader);
        eventually("lines go to the file", &server, || {
            acts();
            fs::read_to_string(server.path("fifo")).is_ok_and(|lines| lines.contains("example."))
        });
        drop(server.stop());
    }
}
