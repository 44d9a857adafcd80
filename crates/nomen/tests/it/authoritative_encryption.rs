//! A resolver that asks an authoritative server over TLS once a probe has found it, in a network namespace
//! where that server has an address of its own and port 853. Needs root, and is skipped without it. Nothing
//! outside the new namespace changes.

use std::fs;
use std::process::Command;

use crate::encrypted::{CERTIFICATE, write_certificate};
use crate::support::text;

/// Starts a name server of a root and of example., with TLS, and the resolver. Prints the answers before and
/// after the probe, what is found, and a live lookup. The servers end with the script.
const SCRIPT: &str = r#"
set -e
ip link set lo up
ip addr add 10.77.0.1/32 dev lo
N= R=
trap 'kill $N $R' EXIT
$NOMEN serve -c authoritative.toml > authoritative.log 2>&1 & N=$!
$NOMEN serve -c resolver.toml > resolver.log 2>&1 & R=$!
up() { i=0; until $NOMEN ctl --socket $1.sock status > nothing 2>&1; do i=$((i+1)); [ $i -lt 1200 ]; sleep 0.05; done; }
up authoritative
up resolver
ask() { dig +noall +answer +tries=1 +time=60 @127.0.0.1 -p 5300 $1 A; }
found() { $NOMEN ctl --socket resolver.sock encryption; }
ask first.example
i=0; until found | grep -q ' works'; do i=$((i+1)); [ $i -lt 1200 ]; sleep 0.05; done
ask second.example
found
$NOMEN ctl --socket resolver.sock explain third.example A
"#;

#[test]
fn a_name_server_with_tls_is_asked_over_tls_after_a_probe() {
    let can = Command::new("unshare").args(["-n", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: network namespaces need root and the program `unshare`");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    write_certificate(folder.path(), "unknown.example");
    let zones = "[[zone]]\nname = \".\"\nfile = \"root.zone\"\n\
                 [[zone]]\nname = \"example\"\nfile = \"example.zone\"\n";
    let authoritative = format!(
        "[[listen]]\naddr = [\"10.77.0.1@53\"]\n[[listen]]\naddr = [\"10.77.0.1@853\"]\nproto = [\"tls\"]\n\
         {CERTIFICATE}[control]\nsocket = \"authoritative.sock\"\n{zones}"
    );
    let resolver = "[[listen]]\naddr = [\"127.0.0.1@5300\"]\n[control]\nsocket = \"resolver.sock\"\n\
                    [resolver]\nroot-servers = [\"10.77.0.1\"]\nvalidate = false\n\
                    encrypt-to-authoritative = [\"dot\"]\n";
    let root = "$TTL 3600\n. SOA ns.example. a.example. 1 3600 600 86400 300\n. NS ns.example.\n\
                example. NS ns.example.\nns.example. A 10.77.0.1\n";
    let example = "$TTL 3600\nexample. SOA ns.example. a.example. 1 3600 600 86400 300\n\
                   example. NS ns.example.\nns.example. A 10.77.0.1\nfirst.example. A 192.0.2.1\n\
                   second.example. A 192.0.2.2\nthird.example. A 192.0.2.3\n";
    for (name, contents) in [
        ("authoritative.toml", authoritative.as_str()),
        ("resolver.toml", resolver),
        ("root.zone", root),
        ("example.zone", example),
    ] {
        fs::write(folder.path().join(name), contents).expect("written");
    }
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", SCRIPT])
        .current_dir(folder.path())
        .env("NOMEN", env!("CARGO_BIN_EXE_nomen"))
        .output()
        .expect("the script runs");
    let (said, fault) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{fault}");
    let has = |words: &str| said.contains(words);
    assert!(has("first.example.") && has("192.0.2.1\n") && has("192.0.2.2\n"), "{said}");
    assert!(has("10.77.0.1@853  tls  works, probed "), "{said}");
    assert!(has("asked 10.77.0.1:853 by tls") && has("10.77.0.1:853 replied NOERROR by tls"), "{said}");
    assert!(!has("by udp") && has("192.0.2.3"), "the lookup after the probe is encrypted: {said}");
}
