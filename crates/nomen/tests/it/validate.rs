//! Validated answers, by iteration from the root servers: a small DNS of signed zones, in a network
//! namespace.
//!
//! ```text
//! .             signed, 10.53.0.1
//!   example.    signed with NSEC3, 10.53.0.2
//!   bare.       not signed, 10.53.0.3
//!   broken.     signed, with expired signatures, 10.53.0.4
//! ```

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use recursion::LocalRecord;
use testkit::keys::{SigningKey, Validity};
use testkit::sign::sign_by;
use testkit::{Chain, ModelRecord, name};
use wire::Type;
use wire::rdata::view::{Dnskey, Ds};

use crate::iterate::{authority, in_a_network, inside};
use crate::metrics::http;
use crate::support::{Server, eventually, free_address, text, written};

const SOA: &str = "3600 SOA a.root. admin. 1 3600 600 86400 60";

/// Returns the key of a zone.
pub(crate) fn key(apex: &str) -> SigningKey {
    SigningKey::new(apex.bytes().map(u16::from).sum(), SigningKey::KSK)
}

/// Returns a DS record as a line of text.
pub(crate) fn ds(apex: &str) -> String {
    ds_of(apex, &key(apex))
}

/// Returns a key's DS record as a line of text.
pub(crate) fn ds_of(apex: &str, key: &SigningKey) -> String {
    let ds = key.ds(name(apex).as_name());
    let digest: String = ds[4..].iter().map(|byte| format!("{byte:02X}")).collect();
    format!("{apex} 3600 DS {} {} {} {digest}", u16::from_be_bytes([ds[0], ds[1]]), ds[2], ds[3])
}

/// Returns a zone's text, signed by its key; the signatures expire in `hours` hours.
pub(crate) fn signed(apex: &str, lines: &[&str], chain: &Chain, hours: i64) -> String {
    signed_by(apex, lines, chain, hours, &[key(apex)])
}

/// Like [`signed`], with these keys: all of them sign the keys, the last one signs everything else.
pub(crate) fn signed_by(
    apex: &str,
    lines: &[&str],
    chain: &Chain,
    hours: i64,
    keys: &[SigningKey],
) -> String {
    let record = |line: &str| {
        let LocalRecord { owner, rtype, ttl, rdata } = line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
        ModelRecord { owner, rtype, ttl, rdata }
    };
    let zone = name(apex);
    let mut records: Vec<ModelRecord> = lines.iter().map(|line| record(line)).collect();
    records.push(record(&format!("{apex} {SOA}")));
    let ttl = records[0].ttl;
    let rdatas = keys.iter().map(|key| key.dnskey.clone());
    records.extend(rdatas.map(|rdata| ModelRecord { owner: zone, rtype: Type::DNSKEY, ttl, rdata }));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    let at = |hours: i64| u32::try_from(now + 3600 * hours).expect("before 2106");
    let validity = Validity { inception: at(hours - 48), expiration: at(hours) };
    let sign = |owner, rtype, ttl, rdatas: &[Vec<u8>]| {
        let last = keys.len() - 1;
        let signers = if rtype == Type::DNSKEY { keys } else { &keys[last..] };
        signers.iter().map(|key| key.sign(zone.as_name(), owner, rtype, ttl, rdatas, validity)).collect()
    };
    let mut out = String::new();
    for ModelRecord { owner, rtype, ttl, rdata } in sign_by(zone.as_name(), &records, chain, &sign) {
        let data: String = rdata.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = (owner, ttl.as_secs(), rtype, rdata.len());
        writeln!(out, "{} {} {} \\# {} {data}", line.0, line.1, line.2, line.3).expect("written");
    }
    out
}

/// Starts the servers of the small DNS.
pub(crate) fn internet() -> [Server; 4] {
    let delegation = |zone: &str, last: u8| {
        [format!("{zone} 3600 NS ns.{zone}"), format!("ns.{zone} 3600 A 10.53.0.{last}")]
    };
    let mut root = vec![". 3600 NS a.root.".to_owned(), "a.root. 3600 A 10.53.0.1".into()];
    for (zone, last) in [("example.", 2), ("bare.", 3), ("broken.", 4)] {
        root.extend(delegation(zone, last));
    }
    root.extend([ds("example."), ds("broken.")]);
    let root: Vec<&str> = root.iter().map(String::as_str).collect();
    let example = [
        "example. 3600 NS ns.example.",
        "ns.example. 3600 A 10.53.0.2",
        "www.example. 3600 A 192.0.2.1",
        "*.wild.example. 3600 A 192.0.2.2",
        "far.example. 3600 CNAME www.bare.",
        "bad.example. 3600 CNAME www.broken.",
    ];
    let broken =
        ["broken. 3600 NS ns.broken.", "ns.broken. 3600 A 10.53.0.4", "www.broken. 3600 A 192.0.2.4"];
    let bare = "$TTL 3600\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 10.53.0.3\nwww A 192.0.2.3\n";
    [
        authority(1, &[(".", &signed(".", &root, &Chain::Nsec, 24))]),
        authority(2, &[("example", &signed("example.", &example, &Chain::NSEC3, 24))]),
        authority(3, &[("bare", bare)]),
        authority(4, &[("broken", &signed("broken.", &broken, &Chain::Nsec, -24))]),
    ]
}

/// Starts a resolver that begins there, with this anchor and more keys and sections.
pub(crate) fn resolver(anchor: &str, more: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = format!("root-servers = [\"10.53.0.1\"]\ntrust-anchors = [\"{anchor}\"]\n");
    Server::start_in(folder, "", &format!("[resolver]\n{keys}{more}"))
}

/// Returns the status, AD and the extended error of an answer.
pub(crate) fn says(server: &Server, question: &[&str]) -> String {
    let answer = server.query(question);
    let between = |from: &str, to: &str| {
        let rest = answer.split_once(from).map(|(_, rest)| rest);
        rest.and_then(|rest| rest.split_once(to)).map_or("", |(word, _)| word).to_owned()
    };
    let ad = if between("flags:", ";").contains(" ad") { " ad" } else { "" };
    let error = between("EDE: ", " (");
    let error = if error.is_empty() { error } else { format!(" EDE {error}") };
    between("status: ", ",") + ad + &error
}

/// Returns the DS record of `sha1.`, and the zone's text: signed with RSA and SHA-1, with expired signatures.
fn sha1() -> (String, String) {
    let lines = include_str!("../../../validator/tests/it/sha1.txt").lines();
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    let hex = |at: usize| lines[at].trim();
    let bytes: Vec<u8> = (0..hex(0).len() / 2)
        .map(|n| u8::from_str_radix(&hex(0)[2 * n..2 * n + 2], 16).expect("a byte"))
        .collect();
    let dnskey = Dnskey::read(&bytes).expect("a key");
    let ds = dnssec::key::ds(name("sha1.").as_name(), &dnskey, Ds::SHA256).expect("a digest type");
    let digest: String = ds[4..].iter().map(|byte| format!("{byte:02X}")).collect();
    let tag = u16::from_be_bytes([ds[0], ds[1]]);
    let signed = |owner: &str, rtype: &str, at: usize| {
        format!("{owner} 3600 {rtype} \\# {} {}\n", hex(at).len() / 2, hex(at))
    };
    let zone = format!(
        "sha1. {SOA}\nsha1. 3600 NS ns.sha1.\nns.sha1. 3600 A 10.53.0.5\nwww.sha1. 3600 A 192.0.2.1\n{}{}{}",
        signed("sha1.", "DNSKEY", 0),
        signed("sha1.", "RRSIG", 1),
        signed("www.sha1.", "RRSIG", 2)
    );
    (format!("sha1. 3600 DS {tag} {} {} {digest}", ds[2], ds[3]), zone)
}

#[test]
fn signatures_over_sha1_count_where_the_operator_wants_it() {
    in_a_network("validate::inside_signatures_over_sha1_count_where_the_operator_wants_it");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_signatures_over_sha1_count_where_the_operator_wants_it() {
    inside();
    let (ds_of_zone, zone) = sha1();
    let root = [
        ". 3600 NS a.root.",
        "a.root. 3600 A 10.53.0.1",
        "sha1. 3600 NS ns.sha1.",
        "ns.sha1. 3600 A 10.53.0.5",
        &ds_of_zone,
    ];
    let _root = authority(1, &[(".", &signed(".", &root, &Chain::Nsec, 24))]);
    let _zone = authority(5, &[("sha1", &zone)]);
    // By default it counts as unsigned; with the key, its signatures are expired.
    for (key, wanted) in [("", "NOERROR EDE 1"), ("sha1-signatures = true\n", "SERVFAIL EDE 7")] {
        let server = resolver(&ds("."), key);
        assert_eq!(says(&server, &["www.sha1", "+dnssec"]), wanted, "{key}{}", server.query(&["www.sha1"]));
    }
}

#[test]
fn answers_are_validated_from_the_root_down() {
    in_a_network("validate::inside_answers_are_validated_from_the_root_down");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_answers_are_validated_from_the_root_down() {
    inside();
    let _servers = internet();
    let at = free_address();
    let server = resolver(&ds("."), &format!("[metrics]\nlisten = {}\n", written(at)));
    for (question, wanted) in [
        (&["www.example", "+dnssec"][..], "NOERROR ad"),
        (&["www.example"], "NOERROR"),
        (&["www.example", "+adflag"], "NOERROR ad"),
        (&["www.example", "AAAA", "+dnssec"], "NOERROR ad"),
        (&["nosuch.example", "+dnssec"], "NXDOMAIN ad"),
        (&["nosuch", "+dnssec"], "NXDOMAIN ad"),
        (&["a.wild.example", "+dnssec"], "NOERROR ad"),
        (&["www.bare", "+dnssec"], "NOERROR"),
        (&["nosuch.bare", "+dnssec"], "NXDOMAIN"),
        (&["far.example", "+dnssec"], "NOERROR"),
        (&["www.broken", "+dnssec"], "SERVFAIL EDE 7"),
        (&["www.broken"], "SERVFAIL EDE 7"),
        (&["bad.example"], "SERVFAIL EDE 7"),
        (&["www.broken", "+dnssec", "+cd"], "NOERROR"),
        (&["www.broken", "+cd"], "NOERROR"),
        (&["example", "DNSKEY", "+dnssec"], "NOERROR ad"),
        (&["bare", "DS", "+dnssec"], "NOERROR ad"),
    ] {
        // From the servers, and from the cache.
        for _ in 0..2 {
            assert_eq!(says(&server, question), wanted, "{question:?}\n{}", server.query(question));
        }
    }
    let plain = server.query(&["www.example"]);
    assert!(!plain.contains("RRSIG"), "{plain}");
    assert!(server.query(&["www.example", "+dnssec"]).contains("RRSIG"));
    let figures = http(at, "GET /metrics");
    let count = |name: &str| {
        let line = figures.lines().find_map(|line| line.strip_prefix(&format!("nomen_validation_{name} ")));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {figures}"))
    };
    for name in [
        "secure_total",
        "insecure_total",
        "bogus_total",
        "signatures_total",
        "fetches_total",
        "referrals_total",
    ] {
        assert!(count(name) > 0.0, "{name}");
    }
    assert_eq!((count("waiting"), count("shed_total")), (0.0, 0.0));
}

#[test]
fn one_server_with_an_old_copy_does_not_make_a_zone_bogus() {
    in_a_network("validate::inside_one_server_with_an_old_copy_does_not_make_a_zone_bogus");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_one_server_with_an_old_copy_does_not_make_a_zone_bogus() {
    inside();
    let ds = ds("torn.");
    let root = [
        ". 3600 NS a.root.",
        "a.root. 3600 A 10.53.0.1",
        "torn. 3600 NS ns5.torn.",
        "torn. 3600 NS ns6.torn.",
        "ns5.torn. 3600 A 10.53.0.5",
        "ns6.torn. 3600 A 10.53.0.6",
        &ds,
    ];
    let mut torn = vec![
        "torn. 3600 NS ns5.torn.".to_owned(),
        "torn. 3600 NS ns6.torn.".into(),
        "ns5.torn. 3600 A 10.53.0.5".into(),
        "ns6.torn. 3600 A 10.53.0.6".into(),
    ];
    torn.extend((0..20).map(|n| format!("n{n}.torn. 3600 A 192.0.2.{n}")));
    let torn: Vec<&str> = torn.iter().map(String::as_str).collect();
    let _servers = [
        authority(1, &[(".", &signed(".", &root, &Chain::Nsec, 24))]),
        authority(5, &[("torn", &signed("torn.", &torn, &Chain::Nsec, 24))]),
        authority(6, &[("torn", &signed("torn.", &torn, &Chain::Nsec, -24))]),
    ];
    let server = resolver(&self::ds("."), "explore = 2\naggressive-nsec = false\n");
    for n in 0..20 {
        assert_eq!(says(&server, &[&format!("n{n}.torn"), "+dnssec"]), "NOERROR ad", "n{n}");
        assert_eq!(says(&server, &[&format!("x{n}.torn"), "+dnssec"]), "NXDOMAIN ad", "x{n}");
    }
    assert_eq!(server.counter("validation.bogus"), 0);
    assert!(server.counter("validation.again") > 0, "both servers were asked");
    // With aggressive use of NSEC, one proof is enough for all non-existent names.
    server.reconfigure("aggressive-nsec = false", "aggressive-nsec = true");
    server.reload();
    let asked = std::cell::Cell::new(0);
    eventually("it is in force", &server, || {
        asked.set(asked.get() + 1);
        assert_eq!(says(&server, &[&format!("y{}.torn", asked.get()), "+dnssec"]), "NXDOMAIN ad");
        server.counter("cache.denied") > 0
    });
    let counts = || ["forward.lookups", "cache.denied"].map(|name| server.counter(name));
    let [lookups, denied] = counts();
    for n in 0..20 {
        assert_eq!(says(&server, &[&format!("z{n}.torn"), "+dnssec"]), "NXDOMAIN ad", "z{n}");
    }
    assert_eq!(counts(), [lookups, denied + 20]);
}

#[test]
fn operators_see_why_and_may_look_away() {
    in_a_network("validate::inside_operators_see_why_and_may_look_away");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_operators_see_why_and_may_look_away() {
    inside();
    let _servers = internet();
    let server = resolver(&ds("."), "");
    let explained = |name: &str| text(&server.ctl(&["explain", name]).stdout);
    for (name, words) in [
        ("www.example", "it is secure"),
        ("www.bare", "it is insecure at www.bare.: the zone, or one above it, is not signed"),
        ("www.broken", "it is bogus at"),
    ] {
        let said = explained(name);
        assert!(said.contains(words), "{name}: {said}");
    }
    assert!(explained("www.example").contains("it was found secure"));
    assert!(explained("www.broken").contains("clients get SERVFAIL with extended error 7"));
    // For a limited time nothing is validated there.
    let added = server.ctl(&["nta", "add", "broken", "--for", "1h"]);
    assert!(added.status.success(), "{}", text(&added.stderr));
    assert_eq!(says(&server, &["www.broken", "+dnssec"]), "NOERROR");
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    let list = server.ctl_json(&["nta", "list"]);
    assert_eq!(list[0]["domain"], "broken.", "{list}");
    assert!(list[0]["seconds_left"].as_u64().is_some_and(|left| left > 3000), "{list}");
    // It survives a reload, but not its time.
    server.reload();
    assert_eq!(says(&server, &["www.broken", "+dnssec"]), "NOERROR");
    assert!(server.ctl(&["nta", "add", "broken", "--for", "1s"]).status.success());
    eventually("it is over", &server, || says(&server, &["www.broken", "+dnssec"]) == "SERVFAIL EDE 7");
    assert!(server.ctl(&["nta", "add", "broken"]).status.success());
    assert!(server.ctl(&["nta", "remove", "broken"]).status.success());
    assert_eq!(says(&server, &["www.broken", "+dnssec"]), "SERVFAIL EDE 7");
    for (arguments, words) in [
        (&["nta", "remove", "broken"][..], "no negative trust anchor was added for broken"),
        (&["nta", "add", "broken", "--for", "8d"], "the time is out of range: 1s to 7d"),
        (&["nta", "add", "a..b"], "a..b"),
    ] {
        let output = server.ctl(arguments);
        assert!(!output.status.success() && text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    // The configuration has the negative anchor, and then another key as the root's anchor.
    server.reconfigure("[resolver]\n", "[resolver]\nnegative-trust-anchors = [\"broken\"]\n");
    server.reload();
    eventually("it is in force", &server, || says(&server, &["www.broken", "+dnssec"]) == "NOERROR");
    server.reconfigure(&ds("."), &ds("example.").replacen("example.", ".", 1));
    server.reload();
    eventually("it is in force", &server, || says(&server, &["www.example", "+dnssec"]) == "SERVFAIL EDE 9");
    server.reconfigure("[resolver]\n", "[resolver]\nvalidate = false\n");
    server.reload();
    eventually("it is in force", &server, || says(&server, &["www.example", "+dnssec"]) == "NOERROR");
}
