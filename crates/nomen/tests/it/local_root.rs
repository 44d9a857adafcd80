//! A copy of the root zone used in place of the root servers (RFC 8806), in a network namespace:
//!
//! ```text
//! .             the root server, at 10.53.0.1, or none at that address
//!   example.    signed, 10.53.0.2
//! .             the source of copies, 10.53.0.9
//! ```

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use recursion::LocalRecord;
use testkit::keys::{SigningKey, Validity};
use testkit::sign::sign_by;
use testkit::{Chain, ModelRecord, name};
use wire::{Name, Ttl, Type};
use zone::zonemd::{self, ZonemdHash};

use crate::iterate::{authority, in_a_network, inside, ip};
use crate::metrics::http;
use crate::support::{Server, eventually, free_address, text, written};
use crate::validate::{ds, ds_of, key, says, signed};

/// A version of the root zone.
struct Version<'v> {
    serial: u32,
    /// Records besides the delegation of `example.`.
    more: &'v [&'v str],
    /// EXPIRE of its SOA record, in seconds.
    expire: u32,
    /// The keys that sign it and its digest.
    keys: [SigningKey; 2],
    /// Seconds until the signatures expire.
    ends: i64,
}

impl Version<'_> {
    /// Creates a valid version.
    fn new<'v>(serial: u32, more: &'v [&'v str]) -> Version<'v> {
        Version { serial, more, expire: 86_400, keys: [key("."), key(".")], ends: 86_400 }
    }

    /// Returns the records without signatures, with an empty digest.
    fn records(&self) -> Vec<ModelRecord> {
        let Version { serial, expire, keys: [key, _], .. } = self;
        let (soa, ds) = (format!(". 3600 SOA a.root. admin. {serial} 3600 600 {expire} 60"), ds("example."));
        let lines =
            [&soa, &ds, ". 3600 NS a.root.", "a.root. 3600 A 10.53.0.1", "example. 3600 NS ns.example."];
        let lines = lines.iter().chain(&["ns.example. 3600 A 10.53.0.2"]).chain(self.more);
        let mut records: Vec<ModelRecord> = lines
            .map(|line| {
                let LocalRecord { owner, rtype, ttl, rdata } =
                    line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
                ModelRecord { owner, rtype, ttl, rdata }
            })
            .collect();
        let (owner, ttl) = (name("."), Ttl::from_secs(3600));
        let no_digest = [&serial.to_be_bytes()[..], &[1, 1], &[0; 48]].concat();
        for (rtype, rdata) in [(Type::DNSKEY, key.dnskey.clone()), (Type::ZONEMD, no_digest)] {
            records.push(ModelRecord { owner, rtype, ttl, rdata });
        }
        records
    }

    /// Returns the signed zone as text.
    fn text(&self) -> String {
        self.text_of(&self.records())
    }

    /// Like `text`, with other records.
    fn text_of(&self, records: &[ModelRecord]) -> String {
        let Version { keys: [key, of_digest], ends, .. } = self;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
        let at = |seconds: i64| u32::try_from(now + seconds).expect("before 2106");
        let validity = Validity { inception: at(ends - 172_800), expiration: at(*ends) };
        let sign = |owner, rtype, ttl, rdatas: &[Vec<u8>]| {
            vec![key.sign(Name::ROOT, owner, rtype, ttl, rdatas, validity)]
        };
        let mut records = sign_by(Name::ROOT, records, &Chain::Nsec, &sign);
        let zone = testkit::build(Name::ROOT, &testkit::key(), &records);
        let digest = zonemd::records(&zone, &[ZonemdHash::Sha384]);
        let ttl = Ttl::from_secs(3600);
        let over_it = of_digest.sign(Name::ROOT, name("."), Type::ZONEMD, ttl, &digest, validity);
        let mut out = String::new();
        for record in &mut records {
            if record.rtype == Type::ZONEMD {
                record.rdata.clone_from(&digest[0]);
            } else if record.rtype == Type::RRSIG && record.rdata.starts_with(&Type::ZONEMD.0.to_be_bytes()) {
                record.rdata.clone_from(&over_it.rdata);
            }
            let data: String = record.rdata.iter().map(|byte| format!("{byte:02x}")).collect();
            let (owner, ttl, rtype, len) =
                (record.owner, record.ttl.as_secs(), record.rtype, record.rdata.len());
            writeln!(out, "{owner} {ttl} {rtype} \\# {len} {data}").expect("written");
        }
        out
    }
}

fn root(serial: u32, more: &[&str]) -> String {
    Version::new(serial, more).text()
}

/// Returns the key of a forged root.
fn forger() -> SigningKey {
    SigningKey::new(999, SigningKey::KSK)
}

/// Whether a line of a zone's text is a signature over its digest.
fn is_over_digest(line: &&str) -> bool {
    let covers = format!(" {:04x}", Type::ZONEMD.0);
    line.contains(" RRSIG ") && line.contains(&covers)
}

/// Starts the server of `example.`.
fn example() -> Server {
    let lines =
        ["example. 3600 NS ns.example.", "ns.example. 3600 A 10.53.0.2", "www.example. 3600 A 192.0.2.1"];
    authority(2, &[("example", &signed("example.", &lines, &Chain::Nsec, 24))])
}

/// Starts a server that sends this version to every client, and NOTIFY for later ones to the address.
fn source(zone: &str, tells: SocketAddr) -> Server {
    ip("address add 10.53.0.9/32 dev lo");
    source_in(folder(), zone, tells)
}

/// Like `source`, in a folder, at an address that already exists.
fn source_in(folder: tempfile::TempDir, zone: &str, tells: SocketAddr) -> Server {
    std::fs::write(folder.path().join("root.txt"), zone).expect("written");
    let more = format!(
        "[[zone]]\nname = \".\"\nfile = \"root.txt\"\nallow-transfer = [\"any\"]\nsource = [\"10.53.0.9\"]\n\
         notify = [\"{}@{}\"]\n",
        tells.ip(),
        tells.port()
    );
    Server::start_at(SocketAddr::from(([10, 53, 0, 9], 53)), folder, "", &more)
}

/// Starts a resolver with these keys, whose root server is at 10.53.0.1.
fn resolver(address: SocketAddr, folder: tempfile::TempDir, keys: &str) -> Server {
    let anchor = ds(".");
    let more = format!("[resolver]\nroot-servers = [\"10.53.0.1\"]\ntrust-anchors = [\"{anchor}\"]\n{keys}");
    Server::start_at(address, folder, "state-dir = \"state\"\n", &more)
}

const FROM_SERVER: &str = "local-root = true\nlocal-root-primaries = [\"10.53.0.9\"]\n";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns the copy's state and serial from `nomen ctl status`.
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
    // No server is at the address of the root server.
    let server = resolver(own, folder(), FROM_SERVER);
    until(&server, "ok", 1);
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    assert_eq!(says(&server, &["nosuch", "+dnssec"]), "NXDOMAIN ad");
    assert_eq!(says(&server, &["www.own", "+dnssec"]), "NOERROR ad");
    assert!(server.counter("forward.local.root") >= 3);
    // Clients get a resolver's answer, not the zone.
    let soa = server.query(&[".", "SOA"]);
    assert!(soa.contains("status: NOERROR") && soa.contains("flags: qr rd ra;"), "{soa}");
    assert!(server.query(&["nosuch2", "+norec"]).contains("status: REFUSED"));
    let transfer = server.query(&[".", "AXFR"]);
    assert!(!transfer.contains("ZONEMD"), "{transfer}");
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    let walk = text(&server.ctl(&["explain", "www.own"]).stdout);
    assert!(walk.contains("the copy of . on this machine says NOERROR: this is the answer"), "{walk}");
    // A damaged version, announced by NOTIFY, is refused; the previous one stays.
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
    // It is stored for the next start, which needs no transfer.
    drop(source);
    let server = resolver(own, server.stop(), FROM_SERVER);
    assert_eq!(standing(&server), ("ok".to_owned(), 3));
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    // Without the copy there is no server to query.
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
    // Its digest is right, but its signatures are by keys without a trust anchor: it is a forged root.
    let keys = [forger(), forger()];
    let other = Version { keys, ..Version::new(1, &["www.own. 60 A 192.0.2.66"]) };
    let source = source(&other.text(), own);
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
    // A version with expired signatures; then one without a digest, which is refused at once.
    source.write("root.txt", &Version { ends: -86_400, ..Version::new(2, &[]) }.text());
    source.ctl(&["reload"]);
    until(&server, "refused", 2);
    assert_eq!(says(&server, &["nosuch", "+dnssec"]), "NXDOMAIN ad");
    let plain = "$TTL 3600\n@ SOA a.root. admin. 3 3600 600 86400 60\n@ NS a.root.\na.root. A 10.53.0.1\n";
    source.write("root.txt", plain);
    source.ctl(&["reload"]);
    server.wait_for_log("is refused: the zone has no ZONEMD", 1);
    assert_eq!(standing(&server), ("refused".to_owned(), 2));
    // Finally a valid one; from then on the root server is not queried any more.
    source.write("root.txt", &root(4, &["www.own. 60 A 192.0.2.9"]));
    source.ctl(&["reload"]);
    until(&server, "ok", 4);
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    let asked = root_server.counter("udp.queries");
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n");
    assert_eq!(root_server.counter("udp.queries"), asked);
}

/// Returns the states for which `nomen_local_root` is 1.
fn measured(metrics: SocketAddr) -> Vec<String> {
    let figures = http(metrics, "GET /metrics");
    let of_state = figures.lines().filter_map(|line| line.strip_prefix("nomen_local_root{state=\""));
    of_state.filter_map(|line| line.strip_suffix("\"} 1")).map(str::to_owned).collect()
}

#[test]
fn a_copy_that_has_expired_is_not_asked_and_comes_back() {
    in_a_network("local_root::inside_a_copy_that_has_expired_is_not_asked_and_comes_back");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_copy_that_has_expired_is_not_asked_and_comes_back() {
    inside();
    let (own, metrics, _example) = (free_address(), free_address(), example());
    let root_server = authority(1, &[(".", &root(9, &["www.own. 60 A 192.0.2.9"]))]);
    // The copy is out of date: an address has changed, and one name has been removed.
    let old = ["www.own. 60 A 192.0.2.66", "www.gone. 60 A 192.0.2.66"];
    let source = source(&root(1, &old), own);
    let keys = format!("{FROM_SERVER}[metrics]\nlisten = {}\n", written(metrics));
    let server = resolver(own, folder(), &keys);
    until(&server, "ok", 1);
    assert_eq!(server.query(&["www.gone", "+short"]), "192.0.2.66\n");
    assert_eq!((measured(metrics), server.counter("local.root.fallbacks")), (vec!["ok".to_owned()], 0));
    // The next version expires after two seconds, and then its source stops.
    source.write("root.txt", &Version { expire: 2, ..Version::new(2, &old) }.text());
    source.ctl(&["reload"]);
    server.wait_for_log("transfer received", 2);
    let of_source = source.stop();
    let has_expired = |server: &Server| {
        until(server, "missing", 0);
        assert_eq!(measured(metrics), ["missing"]);
        assert_eq!(server.ctl_json(&["zone", "status", "."])["state"], "expired");
        let fault = server.ctl_json(&["status"])["local_root"]["fault"].to_string();
        assert!(fault.contains("nomen ctl zone status ."), "{fault}");
        // Cached answers may be used until their TTL ends.
        server.ctl_json(&["cache", "flush", ".", "--tree"]);
        let (asked, copied) = (root_server.counter("udp.queries"), server.counter("forward.local.root"));
        assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n");
        assert_eq!(says(server, &["www.gone", "+dnssec"]), "NXDOMAIN ad");
        assert_eq!(says(server, &["www.example", "+dnssec"]), "NOERROR ad");
        assert!(root_server.counter("udp.queries") > asked, "the root servers are asked");
        assert_eq!(server.counter("forward.local.root"), copied, "and not the copy");
        assert!(server.counter("local.root.fallbacks") > 0);
    };
    has_expired(&server);
    server.wait_for_log("local root: no usable copy, the root servers are asked", 1);
    // The stored copy is just as old after a restart.
    let server = resolver(own, server.stop(), &keys);
    has_expired(&server);
    let _source = source_in(of_source, &root(3, &["www.own. 60 A 192.0.2.10"]), own);
    server.ctl_json(&["zone", "refresh", "."]);
    until(&server, "ok", 3);
    assert_eq!(measured(metrics), ["ok"]);
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.10\n");
}

#[test]
fn signatures_of_a_copy_end_while_it_is_in_use() {
    in_a_network("local_root::inside_signatures_of_a_copy_end_while_it_is_in_use");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_signatures_of_a_copy_end_while_it_is_in_use() {
    inside();
    let (own, metrics, _example) = (free_address(), free_address(), example());
    let _root_server = authority(1, &[(".", &root(9, &["www.own. 60 A 192.0.2.9"]))]);
    let short = Version { ends: 3, ..Version::new(1, &["www.own. 60 A 192.0.2.66"]) };
    let folder = folder();
    std::fs::write(folder.path().join("copy.txt"), short.text()).expect("written");
    let keys = format!(
        "signature-skew = \"0s\"\nlocal-root = true\nlocal-root-file = \"copy.txt\"\n[metrics]\n\
         listen = {}\n",
        written(metrics)
    );
    let server = resolver(own, folder, &keys);
    // There was no query; the state is detected nevertheless.
    until(&server, "refused", 1);
    server.wait_for_log("local root: the copy is not used, the root servers are asked: serial 1:", 1);
    assert_eq!(measured(metrics), ["refused"]);
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n");
    assert_eq!(server.counter("forward.local.root"), 0);
}

#[test]
fn a_bogus_copy_is_never_asked_and_the_operator_is_told() {
    in_a_network("local_root::inside_a_bogus_copy_is_never_asked_and_the_operator_is_told");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_bogus_copy_is_never_asked_and_the_operator_is_told() {
    inside();
    let _example = example();
    let root_server = authority(1, &[(".", &root(9, &["www.own. 60 A 192.0.2.9"]))]);
    let more = ["www.own. 60 A 192.0.2.66"];
    let good = root(1, &more);
    let without = |unwanted: &dyn Fn(&&str) -> bool| {
        good.lines().filter(|line| !unwanted(line)).flat_map(|line| [line, "\n"]).collect::<String>()
    };
    // The delegation of `example.` leads to 10.53.0.2, and to another address.
    let (right, wrong) = ("0a350002", "0a350042");
    // The forger has computed the digest again, but only has the signature over the previous one.
    let altered = {
        let version = Version::new(1, &more);
        let mut records = version.records();
        let glue = records.iter_mut().filter(|record| record.owner == name("ns.example."));
        glue.for_each(|record| record.rdata = vec![10, 53, 0, 66]);
        let text = version.text_of(&records);
        let old = good.lines().find(is_over_digest).expect("signed");
        let line = |line| if is_over_digest(&line) { old } else { line };
        text.lines().flat_map(|own| [line(own), "\n"]).collect::<String>()
    };
    assert!(good.contains(right) && altered.contains(wrong) && !altered.contains(right), "{altered}");
    let by_another = Version { keys: [key("."), forger()], ..Version::new(1, &more) };
    let of_forger = Version { keys: [forger(), forger()], ..Version::new(1, &more) };
    let ended = Version { ends: -3600, ..Version::new(1, &more) };
    let bogus = "its ZONEMD is bogus: ";
    for (what, zone, state, why) in [
        (
            "a delegation was altered",
            good.replace(right, wrong),
            "missing",
            "the digest in ZONEMD is not that of the zone",
        ),
        ("a delegation was altered, and the digest computed again", altered, "refused", bogus),
        ("the digest is not signed", without(&is_over_digest), "refused", bogus),
        ("the digest is signed by another key", by_another.text(), "refused", bogus),
        ("all is signed by another key", of_forger.text(), "refused", bogus),
        ("the signatures have ended", ended.text(), "refused", "expired"),
        (
            "there is no digest",
            without(&|line| line.contains(" ZONEMD ")),
            "missing",
            "the zone has no ZONEMD",
        ),
    ] {
        let (metrics, folder) = (free_address(), folder());
        std::fs::write(folder.path().join("copy.txt"), zone).expect("written");
        let keys = format!(
            "local-root = true\nlocal-root-file = \"copy.txt\"\n[metrics]\nlisten = {}\n",
            written(metrics)
        );
        let server = resolver(free_address(), folder, &keys);
        until(&server, state, if state == "refused" { 1 } else { 0 });
        let asked = root_server.counter("udp.queries");
        assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n", "{what}");
        assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad", "{what}");
        assert_eq!(says(&server, &["nosuch", "+dnssec"]), "NXDOMAIN ad", "{what}");
        assert_eq!(server.counter("forward.local.root"), 0, "{what}");
        assert!(server.counter("local.root.fallbacks") > 0, "{what}");
        assert!(root_server.counter("udp.queries") > asked, "{what}");
        assert_eq!(measured(metrics), [state], "{what}");
        let status = server.ctl_json(&["status"])["local_root"]["fault"].to_string();
        let of_zone = text(&server.ctl(&["zone", "status", "."]).stdout);
        let said = if state == "refused" { &status } else { &of_zone };
        assert!(said.contains(why), "{what}: {status} {of_zone}");
        server.wait_for_log(why, 1);
    }
}

/// A version with its own keys, a correct digest and a high serial permanently replaced the valid one: the
/// primary's later versions were older.
#[test]
fn a_bogus_copy_replaced_the_good_one_for_good() {
    in_a_network("local_root::inside_a_bogus_copy_replaced_the_good_one_for_good");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_bogus_copy_replaced_the_good_one_for_good() {
    inside();
    let (own, _example) = (free_address(), example());
    let _root_server = authority(1, &[(".", &root(7, &["www.own. 60 A 192.0.2.9"]))]);
    let source = source(&root(2, &["www.own. 60 A 192.0.2.9"]), own);
    let server = resolver(own, folder(), FROM_SERVER);
    until(&server, "ok", 2);
    let keys = [forger(), forger()];
    let forged = Version { keys, ..Version::new(1000, &["www.own. 60 A 192.0.2.66"]) };
    source.write("root.txt", &forged.text());
    source.ctl(&["reload"]);
    server.wait_for_log("local root: a version is refused, serial 2 stays in use: serial 1000:", 1);
    assert_eq!(standing(&server), ("ok".to_owned(), 2));
    let of_zone = server.ctl_json(&["zone", "status", "."]);
    assert_eq!((of_zone["state"].as_str(), of_zone["serial"].as_u64()), (Some("ok"), Some(2)));
    assert!(of_zone["fault"].to_string().contains("serial 1000: its ZONEMD is bogus"), "{of_zone}");
    let of_primary = of_zone["transfers"]["fault"].to_string();
    assert!(of_primary.contains("its version is refused: serial 1000"), "{of_zone}");
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n");
    // Its serial does not count.
    source.write("root.txt", &root(3, &["www.own. 60 A 192.0.2.10"]));
    source.ctl(&["reload"]);
    server.ctl_json(&["zone", "refresh", "."]);
    until(&server, "ok", 3);
    assert_eq!(server.ctl_json(&["zone", "status", "."])["fault"], serde_json::Value::Null);
    // A folder with the bogus version, which was valid while its keys were trusted.
    let folder = server.stop();
    source.write("root.txt", &forged.text());
    source.ctl(&["reload"]);
    let anchor = ds_of(".", &forger());
    let more =
        format!("[resolver]\nroot-servers = [\"10.53.0.1\"]\ntrust-anchors = [\"{anchor}\"]\n{FROM_SERVER}");
    let server = Server::start_at(own, folder, "state-dir = \"state\"\n", &more);
    until(&server, "ok", 1000);
    let folder = server.stop();
    source.write("root.txt", &root(4, &["www.own. 60 A 192.0.2.11"]));
    source.ctl(&["reload"]);
    let server = resolver(own, folder, FROM_SERVER);
    until(&server, "ok", 4);
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.11\n");
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
    // The root zone is served instead, and then is a copy again.
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
