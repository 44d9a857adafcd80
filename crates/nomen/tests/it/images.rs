//! Starts from images: written by the server or beforehand, used only while the zone file is unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::metrics::http;
use crate::support::{APEX, Server, eventually, free_address, run, text, written};

/// Returns a zone with more records than `image-min-records` of these tests.
fn zone(address: &str) -> String {
    let hosts: String = (0..50).map(|i| format!("host{i} A 192.0.2.{i}\n")).collect();
    format!("{APEX}{hosts}www A {address}\n")
}

/// Starts a server with images of every zone of 20 records or more.
fn start(folder: TempDir) -> Server {
    start_with(folder, "")
}

/// Like `start`, with more sections.
fn start_with(folder: TempDir, more: &str) -> Server {
    Server::start_in(folder, "state-dir = \"state\"\nimage-min-records = 20\n", more)
}

fn folder(zone: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), zone).expect("written");
    folder
}

fn image(folder: &Path) -> PathBuf {
    folder.join("state/images/example.image")
}

/// Waits until the server has written its first image, which it does after it is ready.
fn wait_for_image(server: &Server) {
    eventually("an image is written", server, || server.counter("images.write.written") == 1);
}

/// Returns how many zones were loaded from their image, and how many had no usable one.
fn loads(server: &Server) -> (u64, u64) {
    let count = |word: &str| server.counter(&format!("images.load.{word}"));
    (count("used"), count("missing") + count("stale") + count("damaged"))
}

fn address(server: &Server) -> String {
    server.query(&["www.example", "+short"]).trim().to_owned()
}

#[test]
fn an_image_appears_is_used_and_made_anew_when_the_text_changes() {
    let server = start(folder(&zone("192.0.2.77")));
    wait_for_image(&server);
    assert!(image(server.folder.path()).exists());
    let server = start(server.stop());
    assert_eq!(loads(&server), (1, 0));
    assert_eq!(address(&server), "192.0.2.77");
    // While the server runs, a change takes effect as without images, and the image follows.
    server.write("example.zone", &zone("192.0.2.78"));
    server.reload();
    assert_eq!(address(&server), "192.0.2.78");
    wait_for_image(&server);
    let stopped = server.stop();
    // The same for a change while the server is down.
    fs::write(stopped.path().join("example.zone"), zone("192.0.2.79")).expect("written");
    let server = start(stopped);
    assert_eq!(loads(&server), (0, 1));
    assert_eq!(address(&server), "192.0.2.79");
    server.wait_for_log("has changed since", 1);
    wait_for_image(&server);
    let server = start(server.stop());
    assert_eq!(loads(&server), (1, 0));
    assert_eq!(address(&server), "192.0.2.79");
    // A zone from an image is reported as unchanged or stale like any other.
    assert_eq!(server.reload()["unchanged"], 1);
    server.write("example.zone", &zone("192.0.2.80"));
    assert_eq!(server.reload()["loaded"], 1);
    assert_eq!(address(&server), "192.0.2.80");
}

#[test]
fn damaged_images_are_reported_and_made_anew() {
    let server = start(folder(&zone("192.0.2.77")));
    wait_for_image(&server);
    let stopped = server.stop();
    let mut bytes = fs::read(image(stopped.path())).expect("an image");
    // The header takes less than a page; the nodes begin in the next one.
    bytes[4096 + 100] ^= 1;
    fs::write(image(stopped.path()), &bytes).expect("written");
    let figures_at = free_address();
    let server = start_with(stopped, &format!("[metrics]\nlisten = {}\n", written(figures_at)));
    assert_eq!(address(&server), "192.0.2.77");
    server.wait_for_log("is not used: it is damaged: the checksum of part", 1);
    wait_for_image(&server);
    let figures = http(figures_at, "GET /metrics");
    for line in [
        "nomen_image_loads_total{image=\"damaged\"} 1",
        "nomen_image_loads_total{image=\"used\"} 0",
        "nomen_image_writes_total{result=\"written\"} 1",
    ] {
        assert!(figures.lines().any(|l| l == line), "{line} is missing:\n{figures}");
    }
    let stopped = server.stop();
    // With another hash key everything is rebuilt.
    fs::remove_file(stopped.path().join("state/hash-key")).expect("removed");
    let server = start(stopped);
    assert_eq!(loads(&server), (0, 1));
    server.wait_for_log("another hash key", 1);
    assert_eq!(address(&server), "192.0.2.77");
}

#[test]
fn zones_are_compiled_beforehand() {
    let prepared = folder(&zone("192.0.2.77"));
    fs::write(prepared.path().join("small.zone"), APEX).expect("written");
    let config = "[server]\nstate-dir = \"state\"\nimage-min-records = 20\n\
                  [template.folder]\ndirectory = \".\"\n";
    fs::write(prepared.path().join("nomen.toml"), config).expect("written");
    let compile = |names: &[&str]| {
        let output = run(prepared.path(), &[&["zone", "compile"], names].concat());
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = compile(&[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("state/images/example.image: zone example., 5") && said.contains("1 zones have fewer")
    );
    let small = prepared.path().join("state/images/small.image");
    assert!(!small.exists());
    assert_eq!(compile(&["small"]).0, Some(0));
    assert!(small.exists());
    let (code, said) = compile(&["elsewhere"]);
    assert!(code == Some(1) && said.contains("no zone elsewhere.\n"), "{said}");
    let (code, said) = compile(&["smal"]);
    assert!(code == Some(1) && said.contains("no zone smal.; did you mean \"small.\"?"), "{said}");
    fs::write(prepared.path().join("small.zone"), "nonsense").expect("written");
    let (code, said) = compile(&["small"]);
    assert!(code == Some(1) && said.contains("zone small.: bad"), "{said}");
    fs::write(prepared.path().join("small.zone"), APEX).expect("written");
    let server = start(prepared);
    // The image of the other zone was made from the text before the last change.
    assert_eq!(loads(&server), (1, 1));
    assert_eq!(address(&server), "192.0.2.77");
}

#[test]
fn without_a_place_that_can_be_used_everything_is_read_from_text() {
    use std::os::unix::fs::PermissionsExt;
    let prepared = folder(&zone("192.0.2.77"));
    let state = prepared.path().join("state");
    fs::create_dir(&state).expect("created");
    fs::write(state.join("hash-key"), [7; 24]).expect("written");
    fs::set_permissions(state.join("hash-key"), fs::Permissions::from_mode(0o644)).expect("set");
    let server = start(prepared);
    assert_eq!(address(&server), "192.0.2.77");
    server.wait_for_log("others than its owner may read", 1);
    assert!(!image(server.folder.path()).exists());
    let without = run(server.folder.path(), &["zone", "compile", "--config", "missing.toml"]);
    assert_eq!(without.status.code(), Some(3));
}
