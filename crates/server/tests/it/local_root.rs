//! A copy of the root zone asked in place of the root servers (RFC 8806), in a network namespace:
//!
//! ```text
//! .             the root server, at 10.53.0.1, or nobody there
//!   example.    signed, 10.53.0.2
//! .             where copies are to be had, 10.53.0.9
//! ```

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use recursion::LocalRecord;
use testkit::keys::{SigningKey, Validity};
use testkit::sign::sign_by;
use testkit::{Chain, Record, name};
use wire::{Name, Ttl, Type};
use zone::zonemd::{self, ZonemdHash};

use crate::iterate::{authority, in_a_network, inside, ip};
use crate::support::{Server, eventually, free_address, text};
use crate::validate::{ds, key, says, signed};

/// The root zone in a version, with these records besides, signed by this key; the signatures end so many hours from now.
fn root_by(key: &SigningKey, serial: u32, more: &[&str], hours: i64) -> String {
    let (soa, ds) = (format!(". 3600 SOA a.root. admin. {serial} 3600 600 86400 60"), ds("example."));
    let lines = [&soa, &ds, ". 3600 NS a.root.", "a.root. 3600 A 10.53.0.1", "example. 3600 NS ns.example."];
    let lines = lines.iter().chain(&["ns.example. 3600 A 10.53.0.2"]).chain(more);
    let mut records: Vec<Record> = lines
        .map(|line| {
            let LocalRecord { owner, rtype, ttl, rdata } =
                line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            Record { owner, rtype, ttl, rdata }
        })
        .collect();
    let (apex, ttl) = (name("."), Ttl::from_secs(3600));
    let no_digest = [&serial.to_be_bytes()[..], &[1, 1], &[0; 48]].concat();
    for (rtype, rdata) in [(Type::DNSKEY, key.dnskey.clone()), (Type::ZONEMD, no_digest)] {
        records.push(Record { owner: apex, rtype, ttl, rdata });
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    let at = |hours: i64| u32::try_from(now + 3600 * hours).expect("before 2106");
    let validity = Validity { inception: at(hours - 48), expiration: at(hours) };
    let sign = |owner, rtype, ttl, rdatas: &[Vec<u8>]| {
        vec![key.sign(Name::ROOT, (owner, rtype, ttl), rdatas, validity)]
    };
    let mut records = sign_by(Name::ROOT, &records, &Chain::Nsec, &sign);
    let zone = testkit::build(Name::ROOT, &testkit::key(), &records);
    let digest = zonemd::records(&zone, &[ZonemdHash::Sha384]);
    let over_it = key.sign(Name::ROOT, (apex, Type::ZONEMD, ttl), &digest, validity);
    let mut out = String::new();
    for record in &mut records {
        if record.rtype == Type::ZONEMD {
            record.rdata.clone_from(&digest[0]);
        } else if record.rtype == Type::RRSIG && record.rdata.starts_with(&Type::ZONEMD.0.to_be_bytes()) {
            record.rdata.clone_from(&over_it.rdata);
        }
        let data: String = record.rdata.iter().map(|byte| format!("{byte:02x}")).collect();
        let (owner, ttl, rtype, len) = (record.owner, record.ttl.as_secs(), record.rtype, record.rdata.len());
        writeln!(out, "{owner} {ttl} {rtype} \\# {len} {data}").expect("written");
    }
    out
}

fn root(serial: u32, more: &[&str]) -> String {
    root_by(&key("."), serial, more, 24)
}

/// The server of `example.`.
fn example() -> Server {
    let lines =
        ["example. 3600 NS ns.example.", "ns.example. 3600 A 10.53.0.2", "www.example. 3600 A 192.0.2.1"];
    authority(2, &[("example", &signed("example.", &lines, &Chain::Nsec, 24))])
}

/// A server that gives this version to everybody, and tells whoever is at the address of later ones.
fn source(zone: &str, tells: SocketAddr) -> Server {
    ip("address add 10.53.0.9/32 dev lo");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("root.txt"), zone).expect("written");
    let more = format!(
        "[[zone]]\nname = \".\"\nfile = \"root.txt\"\nallow-transfer = [\"any\"]\nsource = [\"10.53.0.9\"]\n\
         notify = [\"{}@{}\"]\n",
        tells.ip(),
        tells.port()
    );
    Server::start_at(SocketAddr::from(([10, 53, 0, 9], 53)), folder, "", &more)
}

/// A resolver with these keys, whose root server is at 10.53.0.1.
fn resolver(address: SocketAddr, folder: tempfile::TempDir, keys: &str) -> Server {
    let anchor = ds(".");
    let more = format!("[resolver]\nroot-servers = [\"10.53.0.1\"]\ntrust-anchors = [\"{anchor}\"]\n{keys}");
    Server::start_at(address, folder, "state-dir = \"state\"\n", &more)
}

const FROM_SERVER: &str = "local-root = true\nlocal-root-primaries = [\"10.53.0.9\"]\n";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// What `nomen ctl status` says of the copy: its state and serial number.
fn standing(server: &Server) -> (String, u64) {
    let status = &server.ctl_json(&["status"])["local_root"];
    (status["state"].as_str().unwrap_or_default().to_owned(), status["serial"].as_u64().unwrap_or(0))
}

fn until(server: &Server, state: &str, serial: u64) {
    let wanted = (state.to_owned(), serial);
    eventually(&format!("the copy is {state}, {serial}"), server, || standing(server) == wanted);
}

#[test]
fn a_copy_of_the_root_is_taken_and_asked_in_place_of_its_servers() {
    in_a_network("local_root::inside_a_copy_of_the_root_is_taken_and_asked_in_place_of_its_servers");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_copy_of_the_root_is_taken_and_asked_in_place_of_its_servers() {
    inside();
    let (own, _example) = (free_address(), example());
    let source = source(&root(1, &["www.own. 60 A 192.0.2.9"]), own);
    // Nobody is at the address of the root server.
    let server = resolver(own, folder(), FROM_SERVER);
    until(&server, "ok", 1);
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    assert_eq!(says(&server, &["nosuch", "+dnssec"]), "NXDOMAIN ad");
    assert_eq!(says(&server, &["www.own", "+dnssec"]), "NOERROR ad");
    assert!(server.counter("forward.local.root") >= 3);
    // Clients get what a resolver says, and not the zone.
    let soa = server.query(&[".", "SOA"]);
    assert!(soa.contains("status: NOERROR") && soa.contains("flags: qr rd ra;"), "{soa}");
    assert!(server.query(&["nosuch2", "+norec"]).contains("status: REFUSED"));
    let transfer = server.query(&[".", "AXFR"]);
    assert!(!transfer.contains("ZONEMD"), "{transfer}");
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    let walk = text(&server.ctl(&["explain", "www.own"]).stdout);
    assert!(walk.contains("the copy of . on this machine says NOERROR: this is the answer"), "{walk}");
    // A version that was damaged, of which NOTIFY tells, is not taken; the one before stays.
    let damaged = root(2, &["www.own. 60 A 192.0.2.9"]).replace("c0000209", "c000020a");
    source.write("root.txt", &damaged);
    source.ctl(&["reload"]);
    server.wait_for_log("is refused: the digest in ZONEMD is not that of the zone", 1);
    assert_eq!(standing(&server), ("ok".to_owned(), 1));
    source.write("root.txt", &root(3, &["www.new. 60 A 192.0.2.10"]));
    source.ctl(&["reload"]);
    until(&server, "ok", 3);
    assert_eq!(server.query(&["www.new", "+short"]), "192.0.2.10\n");
    assert_eq!(server.counter("local.root.fallbacks"), 0);
    // It is kept for the next start, without anybody to ask.
    drop(source);
    let server = resolver(own, server.stop(), FROM_SERVER);
    assert_eq!(standing(&server), ("ok".to_owned(), 3));
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    // Without it there is nobody to be asked.
    server.reconfigure(FROM_SERVER, "");
    server.reload();
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    assert_eq!(server.ctl_json(&["status"])["local_root"], serde_json::Value::Null);
    assert!(says(&server, &["www.new"]).starts_with("SERVFAIL"));
}

#[test]
fn without_a_copy_that_is_right_the_root_servers_are_asked() {
    in_a_network("local_root::inside_without_a_copy_that_is_right_the_root_servers_are_asked");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_without_a_copy_that_is_right_the_root_servers_are_asked() {
    inside();
    let (own, _example) = (free_address(), example());
    let root_server = authority(1, &[(".", &root(7, &["www.own. 60 A 192.0.2.9"]))]);
    // Its digest is right, and its signatures are of keys that no anchor leads to: somebody has made another root.
    let forger = SigningKey::new(999, SigningKey::KSK);
    let source = source(&root_by(&forger, 1, &["www.own. 60 A 192.0.2.66"], 24), own);
    let server = resolver(own, folder(), FROM_SERVER);
    until(&server, "refused", 1);
    server.wait_for_log("the copy is not used, the root servers are asked: serial 1: its ZONEMD is bogus", 1);
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n");
    assert!(root_server.counter("udp.queries") > 0);
    assert!(server.counter("local.root.fallbacks") > 0);
    assert_eq!(server.counter("forward.local.root"), 0);
    let why = server.ctl_json(&["status"])["local_root"]["fault"].to_string();
    assert!(why.contains("its ZONEMD is bogus"), "{why}");
    // One that is signed, but whose signatures have ended; then one without a digest, which is not taken at all.
    source.write("root.txt", &root_by(&key("."), 2, &[], -24));
    source.ctl(&["reload"]);
    until(&server, "refused", 2);
    assert_eq!(says(&server, &["nosuch", "+dnssec"]), "NXDOMAIN ad");
    let plain = "$TTL 3600\n@ SOA a.root. admin. 3 3600 600 86400 60\n@ NS a.root.\na.root. A 10.53.0.1\n";
    source.write("root.txt", plain);
    source.ctl(&["reload"]);
    server.wait_for_log("is refused: the zone has no ZONEMD", 1);
    assert_eq!(standing(&server), ("refused".to_owned(), 2));
    // At last a good one; from then on the root server is not asked any more.
    source.write("root.txt", &root(4, &["www.own. 60 A 192.0.2.9"]));
    source.ctl(&["reload"]);
    until(&server, "ok", 4);
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    let asked = root_server.counter("udp.queries");
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n");
    assert_eq!(root_server.counter("udp.queries"), asked);
}

#[test]
fn a_copy_from_a_file_is_read_again_at_a_reload() {
    in_a_network("local_root::inside_a_copy_from_a_file_is_read_again_at_a_reload");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_copy_from_a_file_is_read_again_at_a_reload() {
    inside();
    let _example = example();
    let folder = folder();
    std::fs::write(folder.path().join("copy.txt"), root(1, &["www.own. 60 A 192.0.2.9"])).expect("written");
    let server = resolver(free_address(), folder, "local-root = true\nlocal-root-file = \"copy.txt\"\n");
    assert_eq!(standing(&server), ("ok".to_owned(), 1));
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n");
    server.write("copy.txt", &root(2, &["www.own. 60 A 192.0.2.9"]).replace("c0000209", "c000020a"));
    server.reload_badly();
    assert_eq!(standing(&server), ("ok".to_owned(), 1), "the version before stays");
    server.write("copy.txt", &root(3, &["www.new. 60 A 192.0.2.10"]));
    server.reload();
    until(&server, "ok", 3);
    assert_eq!(server.query(&["www.new", "+short"]), "192.0.2.10\n");
    // The root zone is served instead, then it is a copy again.
    server.write(
        "served.txt",
        "$TTL 60\n@ SOA a.root. admin. 1 3600 600 86400 60\n@ NS a.root.\nown TXT served\n",
    );
    server.reconfigure(
        "local-root = true\nlocal-root-file = \"copy.txt\"\n",
        "[[zone]]\nname = \".\"\nfile = \"served.txt\"\n",
    );
    server.reload();
    let answer = server.query(&["own", "TXT"]);
    assert!(answer.contains("flags: qr aa rd") && answer.contains("served"), "{answer}");
    server.reconfigure(
        "[[zone]]\nname = \".\"\nfile = \"served.txt\"\n",
        "local-root = true\nlocal-root-file = \"copy.txt\"\n",
    );
    server.reload();
    until(&server, "ok", 3);
    let answer = server.query(&["own", "TXT"]);
    assert!(!answer.contains(" aa ") && !answer.contains("served"), "{answer}");
}
