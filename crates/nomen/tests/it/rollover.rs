//! Trust anchors and their changes: anchors that follow their zone (RFC 5011), negative ones, both across
//! restarts; anchors and root hints in files; queries of clients for trust anchors (RFC 8509). The root is at
//! 10.53.0.1, `example.` at 10.53.0.2, in a network namespace.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use testkit::Chain;
use testkit::keys::SigningKey;

use crate::iterate::{authority, in_a_network, inside};
use crate::support::{Server, eventually, free_address, text};
use crate::validate::{ds, ds_of, says, signed, signed_by};

const STATE: &str = "state-dir = \"state\"\n";

fn root_key(number: u16) -> SigningKey {
    SigningKey::new(number, SigningKey::KSK)
}

fn revoked(number: u16) -> SigningKey {
    SigningKey::new(number, SigningKey::KSK | 0x80)
}

/// Returns the root zone's text with these keys.
fn root(keys: &[SigningKey]) -> String {
    let example = ds("example.");
    let lines = [
        ". 3600 NS a.root.",
        "a.root. 3600 A 10.53.0.1",
        "example. 3600 NS ns.example.",
        "ns.example. 3600 A 10.53.0.2",
        &example,
    ];
    signed_by(".", &lines, &Chain::Nsec, 24, keys)
}

/// Starts the servers, with a root of these keys.
fn internet(keys: &[SigningKey]) -> [Server; 2] {
    let example =
        ["example. 3600 NS ns.example.", "ns.example. 3600 A 10.53.0.2", "*.example. 3600 A 192.0.2.1"];
    [
        authority(1, &[(".", &root(keys))]),
        authority(2, &[("example", &signed("example.", &example, &Chain::Nsec, 24))]),
    ]
}

/// `[resolver]`: anchors in a file, which follow the root.
const KEYS: &str = "[resolver]\nroot-hints = \"named.root\"\ntrust-anchor-files = [\"root.key\"]\n\
                    trust-anchor-rollover = \"all\"\n";

fn put_files(folder: &TempDir, anchors: &[u16]) {
    let hints = ". 3600000 NS A.ROOT.\nA.ROOT. 3600000 A 10.53.0.1\n";
    fs::write(folder.path().join("named.root"), hints).expect("written");
    let anchors: Vec<String> = anchors.iter().map(|&number| ds_of(".", &root_key(number)) + "\n").collect();
    fs::write(folder.path().join("root.key"), anchors.concat()).expect("written");
}

/// Whether the key of this number is an anchor, and its state.
fn state(server: &Server, number: u16) -> Option<(bool, String)> {
    let all = server.ctl_json(&["trust-anchors"]);
    let tag = Value::from(root_key(number).tag());
    let of_key = all.as_array().into_iter().flatten().find(|anchor| anchor["tag"] == tag)?;
    Some((of_key["trusted"] == true, of_key["state"].as_str().expect("a word").to_owned()))
}

fn is(server: &Server, number: u16, trusted: bool, word: &str) {
    let what = format!("key {number} is {word}");
    eventually(&what, server, || state(server, number) == Some((trusted, word.to_owned())));
}

#[test]
fn anchors_follow_the_root_and_outlive_a_kill() {
    in_a_network("rollover::inside_anchors_follow_the_root_and_outlive_a_kill");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_anchors_follow_the_root_and_outlive_a_kill() {
    inside();
    let servers = internet(&[root_key(1), root_key(2)]);
    let folder = tempfile::tempdir().expect("a folder");
    put_files(&folder, &[1]);
    let address = free_address();
    let server = Server::start_at(address, folder, STATE, KEYS);
    is(&server, 1, true, "valid");
    is(&server, 2, false, "pending");
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    server.wait_for_log("it is new, and will be an anchor if it stays for the hold-down time, 30 days", 1);
    let shown = text(&server.ctl(&["trust-anchors"]).stdout);
    assert!(
        shown.contains("pending for 0m") && shown.contains("trusted in 30d") || shown.contains("29d23h"),
        "{shown}"
    );
    // The state survives a kill.
    let server = Server::start_at(address, server.kill(), STATE, KEYS);
    assert_eq!(state(&server, 2), Some((false, "pending".into())));
    // The files name both, and the first is revoked.
    put_files(&server.folder, &[1, 2]);
    servers[0].write("_.txt", &root(&[revoked(1), root_key(2)]));
    servers[0].reload();
    server.reload();
    is(&server, 1, false, "revoked");
    server.wait_for_log("it was revoked, and is an anchor no more", 1);
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    // Permanently, even if a file names it: its signatures do not count.
    servers[0].write("_.txt", &root(&[root_key(1)]));
    servers[0].reload();
    let server = Server::start_at(address, server.kill(), STATE, KEYS);
    assert_eq!(state(&server, 1), Some((false, "revoked".into())));
    assert!(says(&server, &["www.example", "+dnssec"]).starts_with("SERVFAIL"));
    // Without the stored state only the files count, which is logged.
    let folder = server.kill();
    let kept = folder.path().join("state/trust-anchors");
    let damaged = fs::read_to_string(&kept).expect("kept").replace("revoked", "valid");
    fs::write(&kept, damaged).expect("written");
    let server = Server::start_at(address, folder, STATE, KEYS);
    server.wait_for_log("the configured trust anchors apply", 1);
    is(&server, 1, true, "valid");
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
}

#[test]
fn negative_anchors_outlive_a_kill_and_not_their_time() {
    in_a_network("rollover::inside_negative_anchors_outlive_a_kill_and_not_their_time");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_negative_anchors_outlive_a_kill_and_not_their_time() {
    inside();
    let _servers = internet(&[root_key(1)]);
    let folder = tempfile::tempdir().expect("a folder");
    // The wrong anchor, so that everything is bogus.
    put_files(&folder, &[2]);
    let address = free_address();
    let server = Server::start_at(address, folder, STATE, KEYS);
    assert_eq!(says(&server, &["www.example"]), "SERVFAIL EDE 9");
    for (domain, time) in [("example", "1h"), ("gone.example", "1h"), ("short.example", "2s")] {
        assert!(server.ctl(&["nta", "add", domain, "--for", time]).status.success());
    }
    assert!(server.ctl(&["nta", "remove", "gone.example"]).status.success());
    let server = Server::start_at(address, server.kill(), STATE, KEYS);
    assert_eq!(says(&server, &["www.example"]), "NOERROR");
    let domains = |server: &Server| -> Vec<String> {
        let all = server.ctl_json(&["nta", "list"]);
        let all = all.as_array().expect("a list").iter();
        all.map(|anchor| anchor["domain"].as_str().expect("a name").to_owned()).collect()
    };
    eventually("the short one is over", &server, || domains(&server) == ["example."]);
    let left = server.ctl_json(&["nta", "list"])[0]["seconds_left"].as_u64().expect("a number");
    assert!((3000..=3600).contains(&left), "{left}");
    let server = Server::start_at(address, server.stop(), STATE, KEYS);
    assert_eq!(domains(&server), ["example."]);
    assert!(server.ctl(&["nta", "remove", "example"]).status.success());
    let server = Server::start_at(address, server.stop(), STATE, KEYS);
    assert_eq!(domains(&server), [""; 0]);
}

#[test]
fn hints_are_read_again_and_clients_learn_which_keys_are_anchors() {
    in_a_network("rollover::inside_hints_are_read_again_and_clients_learn_which_keys_are_anchors");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_hints_are_read_again_and_clients_learn_which_keys_are_anchors() {
    inside();
    let _servers = internet(&[root_key(1)]);
    let folder = tempfile::tempdir().expect("a folder");
    put_files(&folder, &[1]);
    let server = Server::start_in(folder, "", KEYS);
    // Without a state folder anchors do not follow their zone.
    server.wait_for_log("trust anchors do not follow key rollovers", 1);
    assert_eq!(state(&server, 1), Some((true, "configured".into())));
    let [own, other] = [root_key(1).tag(), root_key(1).tag() ^ 1];
    for (name, said) in [
        (format!("root-key-sentinel-is-ta-{own:05}.example"), "NOERROR ad"),
        (format!("root-key-sentinel-not-ta-{own:05}.example"), "SERVFAIL EDE 0"),
        (format!("root-key-sentinel-is-ta-{other:05}.example"), "SERVFAIL EDE 0"),
        (format!("root-key-sentinel-not-ta-{other:05}.example"), "NOERROR ad"),
    ] {
        assert_eq!(says(&server, &[&name, "+dnssec"]), said, "{name}");
    }
    // Unusable hints change nothing, and the error has a position.
    server.write("named.root", ". 3600000 NS a.root.\na.root. A 10.53.0\n");
    let output = server.ctl(&["reload"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("named.root:2:11:"), "{}", text(&output.stderr));
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    // A start with hints that lead to no server, and a reload that fixes it.
    let folder = server.stop();
    fs::write(folder.path().join("named.root"), ". 3600000 NS a.root.\na.root. A 10.53.0.9\n")
        .expect("written");
    let server = Server::start_in(folder, "", &format!("{KEYS}budget-time = \"1s\"\n"));
    assert!(says(&server, &["www.example"]).starts_with("SERVFAIL"));
    put_files(&server.folder, &[1]);
    server.reload();
    eventually("others are asked", &server, || says(&server, &["www.example", "+dnssec"]) == "NOERROR ad");
}
