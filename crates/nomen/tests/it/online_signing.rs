//! Zones whose answers are signed when they are asked for (`online` of a policy): other validators accept
//! them, also after changes, restarts and rollovers; and operators see what is signed.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::changes::{OPEN, STATE, add, socket};
use crate::metrics::http;
use crate::support::{Server, eventually, free_address, message, text, written};
use crate::zone_signing::{keys, policy, serial, state, tag};

const ZONE: &str = "\
$TTL 1
@ SOA ns1 admin 1 3600 600 86400 1
@ NS ns1
@ MX 10 mail
ns1 A 192.0.2.1
mail A 192.0.2.2
www A 192.0.2.80
*.wild TXT \"w\"
a.b.c TXT \"below empty non-terminals\"
sec NS ns.elsewhere.
sec DS 12345 13 2 00000000000000000000000000000000000000000000000000000000000000AA
insec NS ns.insec
ns.insec A 192.0.2.11
alias CNAME www
gone CNAME nothing
moved DNAME wild
";

/// Questions of every kind, and whether the answer is negative.
const QUESTIONS: [(&str, &str, bool); 18] = [
    ("example", "SOA", false),
    ("example", "DNSKEY", false),
    ("example", "NS", false),
    ("example", "MX", false),
    ("example", "TXT", true),
    ("www.example", "A", false),
    ("www.example", "AAAA", true),
    ("nothing.example", "A", true),
    ("x.y.nothing.example", "A", true),
    ("b.c.example", "A", true),
    ("x.wild.example", "TXT", false),
    ("x.wild.example", "A", true),
    ("*.wild.example", "TXT", false),
    ("alias.example", "A", false),
    ("x.moved.example", "TXT", false),
    ("sec.example", "DS", false),
    ("insec.example", "DS", true),
    ("www.example", "NSEC", false),
];

fn block(name: &str, policy: &str, keys: &str) -> String {
    format!("[[zone]]\nname = \"{name}\"\nfile = \"example.zone\"\ndnssec-policy = \"{policy}\"\n{keys}")
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), ZONE).expect("written");
    folder
}

/// Starts a server that signs answers of `example.`, with these keys of the policy, of the zone, and more
/// sections.
fn start_in(folder: TempDir, of_policy: &str, keys: &str, more: &str) -> Server {
    let config = format!("{}{}{more}", policy("fast", of_policy), block("example", "fast", keys));
    Server::start_in(folder, STATE, &config)
}

fn start(of_policy: &str, keys: &str) -> Server {
    let server = start_in(folder(), of_policy, keys, "");
    wait_online(&server);
    server
}

/// Waits until the zone is signed while answering.
fn wait_online(server: &Server) {
    eventually("answers are signed", server, || {
        let status = server.ctl_json(&["zone", "status", "example"]);
        let is_online = status["denial"] == "compact" || status["denial"] == "minimal";
        is_online && !status["signing"]["first_expiration"].is_null()
    });
}

/// Asserts that delv validates the answer to a question, if it is installed.
fn delv(server: &Server, name: &str, qtype: &str, is_negative: bool) {
    if !testkit::has_programs(&["delv"]) {
        return;
    }
    let keys = server.query(&["example", "DNSKEY", "+short"]);
    let anchors = keys.lines().filter(|key| key.starts_with("257 ")).map(|key| {
        let fields: Vec<&str> = key.split_whitespace().collect();
        format!("\"example.\" static-key 257 3 {} \"{}\";\n", fields[2], fields[3..].concat())
    });
    let anchors: String = anchors.collect();
    fs::write(server.path("anchors"), format!("trust-anchors {{\n{anchors}}};\n")).expect("written");
    let (at, port) = (format!("@{}", server.address.ip()), server.address.port().to_string());
    let output = Command::new("delv")
        .args([&at, "-p", &port, "-a", "anchors", "+root=example", name, qtype])
        .current_dir(server.folder.path())
        .output()
        .expect("it runs");
    let said = text(&output.stdout) + &text(&output.stderr);
    let wanted = if is_negative { "negative response, fully validated" } else { "; fully validated" };
    assert!(said.contains(wanted), "{name} {qtype}: {said}\n{}", server.query(&[name, qtype, "+dnssec"]));
}

#[test]
fn other_validators_accept_the_answers() {
    for denial in ["compact", "minimal"] {
        for layout in ["", "single-key = false\n"] {
            let server = start(&format!("online = \"{denial}\"\n{layout}"), "");
            for (name, qtype, is_negative) in QUESTIONS {
                delv(&server, name, qtype, is_negative);
            }
        }
    }
}

#[test]
fn names_cannot_be_listed_and_nothing_but_the_apex_is_signed_before() {
    let server = start("online = \"compact\"\n", "");
    let nothing = server.query(&["nothing.example", "A", "+dnssec"]);
    assert!(nothing.contains("NOERROR") && nothing.contains("NXNAME"), "{nothing}");
    assert!(nothing.contains("\\000.nothing.example."), "{nothing}");
    let plain = server.query(&["nothing.example", "A"]);
    assert!(plain.contains("NXDOMAIN") && !plain.contains("NSEC"), "{plain}");
    let referral = server.query(&["x.insec.example", "A", "+dnssec", "+norecurse"]);
    assert!(referral.contains("192.0.2.11") && referral.contains("\\000.insec.example."), "{referral}");
    let meta = server.query(&["www.example", "TYPE128"]);
    assert!(meta.contains("FORMERR") && meta.contains("Invalid Query Type"), "{meta}");
}

/// Sends a query with the flags DO and CO; returns the response code and the flags of OPT.
fn with_compact_ok(server: SocketAddr, name: &str) -> (u8, u8) {
    let mut query = message(7, name, 1);
    query[11] = 1;
    query.extend([0, 0, 41, 0x10, 0, 0, 0, 0xc0, 0, 0, 0]);
    let socket = socket(server);
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    socket.send(&query).expect("sent");
    let mut buf = [0; 4096];
    let len = socket.recv(&mut buf).expect("a reply");
    // OPT comes last, and has no options.
    (buf[3] & 15, buf[len - 4])
}

#[test]
fn a_client_that_knows_compact_denials_gets_nxdomain() {
    let server = start("online = \"compact\"\n", "");
    assert_eq!(with_compact_ok(server.address, "nothing.example"), (3, 0x80));
    assert_eq!(with_compact_ok(server.address, "b.c.example"), (0, 0x80));
    assert_eq!(with_compact_ok(server.address, "www.example"), (0, 0x80));
    let minimal = server.query(&["nothing.example", "A", "+dnssec"]);
    assert!(minimal.contains("NOERROR"), "{minimal}");
}

#[test]
fn a_change_is_signed_at_once_and_a_restart_leaves_no_answer_unsigned() {
    let server = start("online = \"minimal\"\n", OPEN);
    assert!(server.query(&["new.example", "A", "+dnssec"]).contains("NXDOMAIN"));
    let before = serial(&server, "example");
    assert_eq!(add(server.address, "example", "new.example"), Some(0));
    assert_ne!(serial(&server, "example"), before);
    assert!(server.query(&["new.example", "A", "+dnssec"]).contains("RRSIG"));
    delv(&server, "new.example", "A", false);
    delv(&server, "new.example", "TXT", true);
    let folder = server.stop();
    let server = start_in(folder, "online = \"minimal\"\n", OPEN, "");
    eventually("answers are signed", &server, || {
        let answer = server.query(&["new.example", "A", "+dnssec"]);
        assert!(answer.contains("RRSIG") || answer.contains("SERVFAIL"), "{answer}\n{}", server.log());
        answer.contains("RRSIG")
    });
    delv(&server, "new.example", "A", false);
}

#[test]
fn a_policy_can_be_changed_in_both_directions() {
    let server = start_in(folder(), "signature-jitter = \"0s\"\n", "", "");
    let denial = |wanted: &str| {
        eventually(&format!("denial {wanted}"), &server, || {
            server.ctl_json(&["zone", "status", "example"])["denial"] == wanted
        });
        // Names have no NSEC records with NSEC3.
        for (name, qtype, is_negative) in QUESTIONS.iter().filter(|(_, qtype, _)| *qtype != "NSEC") {
            delv(&server, name, qtype, *is_negative);
        }
    };
    denial("NSEC");
    server.reconfigure("signature-jitter = \"0s\"\n", "online = \"compact\"\n");
    server.reload();
    denial("compact");
    server.reconfigure("online = \"compact\"\n", "online = \"minimal\"\n");
    server.reload();
    denial("minimal");
    server.reconfigure("online = \"minimal\"\n", "nsec3 = true\n");
    server.reload();
    denial("NSEC3");
}

/// The tags of the keys that have signed an answer.
fn signers(answer: &str) -> BTreeSet<String> {
    // Type covered, algorithm, labels, TTL and two times come before the tag.
    let after = answer.lines().filter_map(|line| line.split_once("RRSIG")).map(|(_, after)| after);
    after.filter_map(|after| after.split_whitespace().nth(6)).map(str::to_owned).collect()
}

#[test]
fn keys_are_rolled_and_answers_are_valid_all_the_time() {
    let server = start("online = \"compact\"\nsingle-key = false\n", "");
    let zsk_of = |server: &Server| {
        let all = keys(server, "example");
        let zsks: Vec<String> = all.iter().filter(|key| key["role"] == "ZSK").map(tag).collect();
        zsks
    };
    let [old] = &zsk_of(&server)[..] else { panic!("{:?}", zsk_of(&server)) };
    eventually("the key is in all caches", &server, || {
        let all = keys(&server, "example");
        all.iter().any(|key| tag(key) == *old && state(key, "zone signatures") == "omnipresent")
    });
    assert_eq!(signers(&server.query(&["www.example", "A", "+dnssec"])), BTreeSet::from([old.clone()]));
    let said = text(&server.ctl(&["key", "roll", "example", "--role", "zsk"]).stdout);
    assert!(said.contains("begins"), "{said}");
    eventually("another key signs", &server, || {
        delv(&server, "www.example", "A", false);
        delv(&server, "nothing.example", "A", true);
        !signers(&server.query(&["www.example", "A", "+dnssec"])).contains(old)
    });
    delv(&server, "www.example", "A", false);
}

#[test]
fn operators_see_that_answers_are_signed() {
    let at = free_address();
    let metrics = format!("[metrics]\nlisten = {}\n", written(at));
    let server = start_in(folder(), "online = \"compact\"\n", "", &metrics);
    wait_online(&server);
    let status = server.ctl_json(&["zone", "status", "example"]);
    assert_eq!((&status["signed"], &status["signing"]["online"]), (&true.into(), &"compact".into()));
    assert_eq!(server.ctl_json(&["zone", "list"])[0]["signed"], true);
    let words = "answers are signed when they are asked for, with compact denial\n";
    for command in ["list", "timeline"] {
        let said = text(&server.ctl(&["key", command, "example"]).stdout);
        assert!(said.contains(words), "{said}");
    }
    let explained = text(&server.ctl(&["explain", "www.example", "A"]).stdout);
    assert!(explained.contains("signed while answering (compact denial)"), "{explained}");
    for _ in 0..3 {
        assert!(server.query(&["www.example", "A", "+dnssec"]).contains("RRSIG"));
    }
    let figures = http(at, "GET /metrics");
    for line in [
        "nomen_signing_answers_total{result=\"made\"} 1\n",
        "nomen_signing_answers_total{result=\"cached\"} 2\n",
        "nomen_signing_answers_total{result=\"refused\"} 0\n",
        "nomen_signing_answers_evicted_total 0\n",
    ] {
        assert!(figures.contains(line), "{line}: {figures}");
    }
    // Unsigned answers and those of the apex cost nothing.
    server.query(&["www.example", "A"]);
    server.query(&["example", "SOA", "+dnssec"]);
    assert!(http(at, "GET /metrics").contains("nomen_signing_answers_total{result=\"made\"} 1\n"));
}

#[test]
fn names_that_clients_choose_are_limited() {
    let at = free_address();
    let metrics = format!("[metrics]\nlisten = {}\n", written(at));
    let keys = "online = \"compact\"\nonline-signatures-per-second = 1\n";
    let server = start_in(folder(), keys, "", &metrics);
    wait_online(&server);
    let mut number = 0;
    eventually("a query is refused", &server, || {
        number += 1;
        let answer = server.query(&[&format!("n{number}.example"), "A", "+dnssec"]);
        assert!(answer.contains("NXNAME") || answer.contains("SERVFAIL"), "{answer}");
        answer.contains("SERVFAIL")
    });
    assert!(!http(at, "GET /metrics").contains("nomen_signing_answers_total{result=\"refused\"} 0\n"));
    // Without DNSSEC records, and with those of the apex, there is no limit.
    assert!(server.query(&["n0.example", "A"]).contains("NXDOMAIN"));
    assert!(server.query(&["example", "SOA", "+dnssec"]).contains("RRSIG"));
}

#[test]
fn such_a_zone_is_not_transferred() {
    let server = start_in(folder(), "signature-jitter = \"0s\"\n", "", "");
    eventually("it is signed", &server, || {
        server.ctl_json(&["zone", "status", "example"])["denial"] == "NSEC"
    });
    server.reconfigure("signature-jitter = \"0s\"\n", "online = \"compact\"\n");
    server.reconfigure("file = \"example.zone\"\n", "file = \"example.zone\"\nallow-transfer = [\"any\"]\n");
    let refused = text(&server.ctl(&["reload"]).stderr);
    assert!(refused.contains("`allow-transfer` is not possible with `online`"), "{refused}");
    server.reconfigure("allow-transfer = [\"any\"]\n", "");
    server.reload();
    wait_online(&server);
    assert!(server.query(&["example", "AXFR"]).contains("REFUSED"));
}
