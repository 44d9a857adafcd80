//! `nomen update`, with BIND as the server.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use tempfile::TempDir;

use crate::primary::{KEY_FILE, OtherServer, other, records};
use crate::support::{APEX, TEST_TIMEOUT, free_address, run, text};

/// Starts a BIND that is the primary of `example.`, which clients with the key may update, and of `open.`,
/// which every client may update. The SOA names its address.
fn bind() -> Option<OtherServer> {
    let config = |own: SocketAddr, folder: &Path| {
        ["example", "open"]
            .iter()
            .for_each(|zone| fs::write(folder.join(format!("{zone}.zone")), APEX).expect("written"));
        let folder = folder.display();
        format!(
            "{KEY_FILE}options {{ directory \"{folder}\"; pid-file none; session-keyfile none; \
             lock-file none;\n\
             listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; recursion no; notify no;\n\
             allow-transfer {{ any; }}; }};\ncontrols {{ }};\n\
             zone \"example\" {{ type primary; file \"example.zone\"; \
             allow-update {{ key transfer.example; }}; }};\n\
             zone \"open\" {{ type primary; file \"open.zone\"; allow-update {{ any; }}; }};\n",
            own.port(),
            own.ip(),
        )
    };
    let bind = other("BIND", "named", &["-g", "-c"], config)?;
    let until = Instant::now() + TEST_TIMEOUT;
    while zone(&bind, "open").is_none() || zone(&bind, "example").is_none() {
        assert!(Instant::now() < until, "BIND does not start");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Some(bind)
}

/// Returns the records that BIND has in a zone.
fn zone(bind: &OtherServer, name: &str) -> Option<BTreeSet<String>> {
    bind.zone(name).map(|zone| records(&zone))
}

/// Returns a folder with the key and a script that begins with the server.
fn folder(bind: SocketAddr, script: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    let script = format!("server {} {}\n{script}", bind.ip(), bind.port());
    fs::write(folder.path().join("script"), script).expect("written");
    folder
}

/// Runs `nomen update` with a script for BIND.
fn update(bind: SocketAddr, script: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let folder = folder(bind, script);
    said(&run(folder.path(), &[&["update", "script", "--timeout", "60"], arguments].concat()))
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// A script that nsupdate and nomen must interpret alike.
const SCRIPT: &str = "\
; a comment
ttl 300
update add www.example. 60 A 192.0.2.80
update add www.example. IN AAAA 2001:db8::80
add txt.example TXT \"a; b\" c ; and why
add _sip._udp.example. 7 SRV 1 2 5060 www.example.
add odd.example. 5 TYPE65280 \\# 3 010203
add alias.example. CNAME Www.Example.
send
prereq yxdomain www.example.
prereq yxrrset www.example. A 192.0.2.80
prereq nxrrset www.example. MX
nxdomain absent.example.
update delete www.example. AAAA
update add www.example. 61 A 192.0.2.81
del alias.example.

prereq nxdomain www.example.
add nothing.example. A 192.0.2.1

del ns2.example. A 192.0.2.2
del txt.example. TXT other
add mail.example. 9 MX 10 mail.example.
";

#[test]
fn bind_has_the_records_that_nsupdate_makes() {
    if !testkit::has_programs(&["nsupdate"]) {
        return;
    }
    let (Some(ours), Some(theirs)) = (bind(), bind()) else { return };
    let (code, printed) = update(ours.address, SCRIPT, &["--key-file", "transfer.key"]);
    assert_eq!(code, Some(1), "one prerequisite does not hold: {printed}");
    assert!(printed.contains("update of example. at ") && printed.contains(": YXDOMAIN"), "{printed}");
    let folder = folder(theirs.address, SCRIPT);
    let nsupdate = Command::new("nsupdate")
        .args(["-k", "transfer.key", "script"])
        .current_dir(folder.path())
        .output()
        .expect("nsupdate comes with BIND's tools");
    let (_, printed) = said(&nsupdate);
    assert!(printed.contains("YXDOMAIN"), "{printed}");
    let (ours, theirs) = (zone(&ours, "example"), zone(&theirs, "example"));
    assert_eq!(ours.as_ref().map(BTreeSet::len), Some(10), "{ours:#?}");
    assert_eq!(ours, theirs);
}

#[test]
fn an_update_without_a_key_goes_where_everybody_may() {
    let Some(bind) = bind() else { return };
    let (code, printed) = update(bind.address, "add a.open. 60 A 192.0.2.9\nsend\nanswer\n", &["--tcp"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("opcode: UPDATE, status: NOERROR"), "{printed}");
    let there = zone(&bind, "open").expect("the zone");
    assert!(there.iter().any(|record| record.starts_with("a.open. 60 A")), "{there:?}");
    // Where the key is required.
    let (code, printed) = update(bind.address, "add a.example. 60 A 192.0.2.9\n", &[]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("REFUSED"), "{printed}");
}

#[test]
fn a_signature_that_is_not_good_is_reported_as_what_it_is() {
    let Some(bind) = bind() else { return };
    let script = "add a.example. 60 A 192.0.2.9\n";
    let (code, printed) = update(bind.address, script, &["--key", "transfer.example:c2VjcmV0"]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("refuses the signature of the update: BADSIG"), "{printed}");
    let (code, printed) = update(bind.address, &format!("key other.example c2VjcmV0\n{script}"), &[]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("BADKEY"), "{printed}");
}

#[test]
fn what_does_not_fit_into_a_datagram_goes_over_tcp() {
    let Some(bind) = bind() else { return };
    let adds: String = (0..200).map(|n| format!("add host-{n}.open. 60 A 192.0.2.{n}\n")).collect();
    let (code, printed) = update(bind.address, &adds, &["--json"]);
    assert_eq!(code, Some(0), "{printed}");
    let answer: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((&answer["transport"], &answer["RCODEname"]), (&"tcp".into(), &"NOERROR".into()));
    assert_eq!(zone(&bind, "open").map(|records| records.len()), Some(205));
}

#[test]
fn of_a_script_with_a_fault_nothing_is_sent() {
    // No server runs there, which does not matter.
    let script = "add a.open. 60 A 192.0.2.9\nsend\nadd b.open. 60 A 192.0.2.300\n";
    let (code, printed) = update(free_address(), script, &[]);
    assert_eq!(code, Some(1), "{printed}");
    let shown = "--> script:4:18\n  |\n4 | add b.open. 60 A 192.0.2.300\n  |                  ^^^^^^^^^^^\n";
    assert!(printed.contains(shown), "{printed}");
}

#[test]
fn where_nobody_answers_the_exit_code_says_so() {
    let (code, printed) = update(free_address(), "zone open\nadd a.open. 60 A 192.0.2.9\n", &["--tcp"]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("connection refused"), "{printed}");
}
