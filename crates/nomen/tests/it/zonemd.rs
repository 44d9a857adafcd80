//! Digests of zones (ZONEMD, RFC 8976): created, checked, and verified in transfers.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::primary::other;
use crate::secondary::{peer, primary, secondary, secondary_at, server};
use crate::support::{APEX, Server, eventually, free_address, run, text};

/// Returns exit code, output and errors of `nomen` with these arguments in a folder.
fn nomen(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(folder, arguments);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns a zone with its digest.
fn digested(zone: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plain"), zone).expect("written");
    let (code, printed, said) = nomen(folder.path(), &["zone", "digest", "example", "plain"]);
    assert_eq!(code, Some(0), "{said}");
    printed
}

#[test]
fn a_digest_is_added_and_renewed() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = format!("{APEX}Host TXT \"a b\"\nmail MX 10 NS1\nsub NS ns.sub\nns.sub A 192.0.2.3\n");
    fs::write(folder.path().join("plain"), zone).expect("written");
    let check = |file: &str| nomen(folder.path(), &["zone", "check", "example", file, "--zonemd"]);
    let (code, _, said) = check("plain");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a digest is required: the zone has no ZONEMD"), "{said}");
    let hashes = ["zone", "digest", "example", "plain", "--hash", "sha384", "--hash", "sha512"];
    let (code, printed, said) = nomen(folder.path(), &hashes);
    assert_eq!((code, printed.matches(" ZONEMD 1 1 ").count()), (Some(0), 2), "{said}");
    fs::write(folder.path().join("digested"), &printed).expect("written");
    let (code, _, said) = check("digested");
    assert_eq!(code, Some(0), "{said}");
    // Changed without a new digest; then renewed.
    fs::write(folder.path().join("changed"), printed.replace("192.0.2.3", "192.0.2.4")).expect("written");
    let (code, _, said) = nomen(folder.path(), &["zone", "check", "example", "changed"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ZONEMD: the digest in ZONEMD is not that of the zone"), "{said}");
    let (_, renewed, _) = nomen(folder.path(), &["zone", "digest", "example", "changed"]);
    fs::write(folder.path().join("renewed"), &renewed).expect("written");
    assert_eq!((check("renewed").0, renewed.matches(" ZONEMD ").count()), (Some(0), 1));
}

/// Returns a Knot configuration that verifies two zones of ours, of which one was changed, and creates the
/// digest of a third.
fn knot(own: SocketAddr, folder: &Path) -> String {
    let good = digested(&version(1, "good"));
    fs::write(folder.join("example.zone"), &good).expect("written");
    fs::write(folder.join("other.zone"), good.replace("example.", "other.")).expect("written");
    fs::write(folder.join("made.zone"), version(1, "made")).expect("written");
    let (folder, ip, port) = (folder.display(), own.ip(), own.port());
    let zone = |name: &str, key: &str| {
        format!(
            "  - domain: {name}\n    storage: \"{folder}\"\n    acl: all\n    zonefile-sync: -1\n    {key}\n"
        )
    };
    format!(
        "server:\n  rundir: \"{folder}\"\n  listen: {ip}@{port}\ndatabase:\n  storage: \"{folder}\"\n\
         acl:\n  - id: all\n    address: 127.0.0.0/8\n    action: transfer\nzone:\n{}{}{}",
        zone("example", "zonemd-verify: on"),
        zone("other", "zonemd-verify: on"),
        zone("made", "zonemd-generate: zonemd-sha512"),
    )
}

#[test]
fn knot_verifies_our_digests_and_we_verify_its() {
    let Some(knot) = other("Knot", "knotd", &["-c"], knot) else { return };
    let at = peer(knot.address, false);
    let zone =
        |name: &str| format!("[[zone]]\nname = \"{name}\"\nprimaries = [{at}]\nzonemd = \"require\"\n");
    let sections = zone("example") + &zone("made") + &zone("other");
    let server = server(free_address(), "", &sections);
    for (name, words) in [("host.example", "\"good\"\n"), ("host.made", "\"made\"\n")] {
        eventually(name, &server, || server.query(&[name, "TXT", "+short"]) == words);
    }
    // Knot does not serve a zone that does not match its digest.
    let output = run(
        knot.folder.path(),
        &["query", "other", "SOA", &format!("@{}@{}", knot.address.ip(), knot.address.port())],
    );
    assert!(text(&output.stdout).contains("SERVFAIL"), "{}", text(&output.stdout));
}

/// Returns the zone in another version, with other words at `host`.
fn version(serial: u32, words: &str) -> String {
    format!("{}host TXT {words}\n", APEX.replace("admin 1 ", &format!("admin {serial} ")))
}

fn words(server: &Server) -> String {
    server.query(&["host.example", "TXT", "+short"])
}

#[test]
fn a_version_that_its_digest_speaks_against_does_not_go_into_service() {
    let address = free_address();
    let own = free_address();
    let primary = primary(address, &digested(&version(1, "first")), &peer(own, true));
    let at = peer(address, true);
    let secondary = secondary_at(own, &at, "min-retry = \"1s\"\nmax-retry = \"1s\"\n");
    eventually("the zone is there", &secondary, || words(&secondary) == "\"first\"\n");
    // The digest is unchanged; then it is for this version, but not for its records.
    primary.write(
        "example.zone",
        &digested(&version(1, "first"))
            .replace("first", "second")
            .replace("admin.example. 1 ", "admin.example. 2 "),
    );
    primary.ctl(&["reload"]);
    secondary.wait_for_log("is refused: ZONEMD is of another serial number than the SOA", 1);
    primary.write("example.zone", &digested(&version(3, "third")).replace("third", "forged"));
    primary.ctl(&["reload"]);
    secondary.wait_for_log("is refused: the digest in ZONEMD is not that of the zone", 1);
    assert_eq!(words(&secondary), "\"first\"\n");
    primary.write("example.zone", &digested(&version(4, "fourth")));
    primary.ctl(&["reload"]);
    eventually("a version with its own digest is there", &secondary, || words(&secondary) == "\"fourth\"\n");
}

#[test]
fn a_file_that_its_digest_speaks_against_does_not_go_into_service_where_the_operator_says_so() {
    let good = digested(&version(1, "first"));
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), &good).expect("written");
    let server = Server::start_in(folder, "state-dir = \"state\"\n", "zonemd = \"require\"\n");
    assert_eq!(words(&server), "\"first\"\n");
    for (text, why) in [
        (good.replace("first", "forged"), "the digest in ZONEMD is not that of the zone"),
        (version(2, "plain"), "the zone has no ZONEMD"),
    ] {
        server.write("example.zone", &text);
        server.reload_badly();
        assert_eq!(words(&server), "\"first\"\n", "what is in service stays");
        server.wait_for_log(&format!("refused, as `zonemd` says: {why}"), 1);
    }
    let (_, printed, said) = nomen(server.folder.path(), &["check", "nomen.toml"]);
    assert!((printed.clone() + &said).contains("a digest is required"), "{printed}{said}");
    // Another rule makes a reload check an unchanged file again.
    server.reconfigure("\"require\"", "\"verify\"");
    server.reload();
    assert_eq!(words(&server), "\"plain\"\n");
    server.reconfigure("\"verify\"", "\"require\"");
    server.reload_badly();
    assert_eq!(words(&server), "\"plain\"\n");
    // At a start there is no earlier version to keep.
    let (address, folder) = (server.address, server.stop());
    let server = Server::start_at(address, folder, "state-dir = \"state\"\n", "zonemd = \"require\"\n");
    assert!(server.query(&["host.example", "TXT"]).contains("SERVFAIL"), "{}", server.log());
    server.write("example.zone", &digested(&version(3, "third")));
    server.reload();
    assert_eq!(words(&server), "\"third\"\n");
}

#[test]
fn whether_a_digest_is_verified_is_the_operators_choice() {
    let address = free_address();
    let forged = digested(&version(1, "first")).replace("first", "forged");
    let _primary = primary(address, &forged, "");
    let off = secondary(&peer(address, true), "zonemd = \"off\"\n");
    eventually("the zone is there", &off, || words(&off) == "\"forged\"\n");
    let address = free_address();
    let _primary = primary(address, &version(1, "plain"), "");
    let verify = secondary(&peer(address, true), "");
    eventually("the zone is there", &verify, || words(&verify) == "\"plain\"\n");
    let require = secondary(&peer(address, true), "zonemd = \"require\"\n");
    require.wait_for_log("is refused: the zone has no ZONEMD", 1);
    assert!(require.query(&["host.example", "TXT"]).contains("SERVFAIL"));
}
