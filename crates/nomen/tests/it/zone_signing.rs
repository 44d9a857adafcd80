//! Zones that the server signs (`dnssec-policy`): other verifiers accept what it serves, also after changes,
//! restarts and crashes; keys are rolled as operators ask; and a zone becomes unsigned again.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::changes::{OPEN, STATE, add, answer, record, socket, update_message};
use crate::metrics::http;
use crate::primary::other;
use crate::support::{Server, eventually, free_address, next_second, run, text, written};

/// A zone with every kind of name, and TTLs of a second, so that no cache is waited for.
const ZONE: &str = "\
$TTL 1
@ SOA ns1 admin 1 3600 600 86400 1
@ NS ns1
@ NS ns2
ns1 A 192.0.2.1
ns2 A 192.0.2.2
www A 192.0.2.80
*.wild TXT \"w\"
a.b.c TXT \"below empty non-terminals\"
sec NS ns.elsewhere.
sec DS 12345 13 2 00000000000000000000000000000000000000000000000000000000000000AA
insec NS ns.insec
ns.insec A 192.0.2.11
alias CNAME www
";

/// The keys of policies whose rollovers take seconds.
const FAST: &str = "dnskey-ttl = \"1s\"\npublish-safety = \"0s\"\nretire-safety = \"0s\"\n\
    zone-propagation-delay = \"0s\"\nparent-propagation-delay = \"0s\"\nparent-ds-ttl = \"1s\"\n";

/// A table of a policy with these keys, and those of fast rollovers.
pub(crate) fn policy(name: &str, keys: &str) -> String {
    format!("[dnssec-policy.{name}]\n{FAST}{keys}")
}

/// Returns a folder with the zone.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), ZONE).expect("written");
    folder
}

/// The block of a zone of a file, that is signed under the policy `fast`.
fn block(keys: &str) -> String {
    format!(
        "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\ndnssec-policy = \"fast\"\n\
         allow-transfer = [\"any\"]\n{keys}"
    )
}

/// Starts a server that signs `example.`, with these keys of the policy, and of the zone.
fn start(of_policy: &str, keys: &str) -> Server {
    start_in(folder(), of_policy, keys)
}

fn start_in(folder: TempDir, of_policy: &str, keys: &str) -> Server {
    let more = format!("{}{}", policy("fast", of_policy), block(keys));
    let server = Server::start_in(folder, STATE, &more);
    wait_signed(&server, "example");
    server
}

/// Waits until the zone is served with signatures, and nothing is left to sign.
fn wait_signed(server: &Server, zone: &str) {
    eventually(&format!("{zone} is signed"), server, || {
        // A zone of a database may not be here yet.
        let status = server.ctl(&["zone", "status", zone, "--json"]);
        status.status.success() && {
            let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
            status["signed"] == true && !status["signing"]["first_expiration"].is_null()
        }
    });
}

/// Waits until nothing further happens without the parent: the zone has the CDS records of its key.
pub(crate) fn wait_settled(server: &Server, zone: &str) {
    wait_signed(server, zone);
    eventually(&format!("{zone} has CDS records"), server, || {
        server.query(&[zone, "CDS", "+short"]).contains(" 13 2 ")
    });
}

/// The serial of the version in service.
pub(crate) fn serial(server: &Server, zone: &str) -> u64 {
    let soa = server.query(&[zone, "SOA", "+short"]);
    soa.split(' ').nth(2).and_then(|serial| serial.parse().ok()).unwrap_or(0)
}

/// Runs another program in the server's folder, which must succeed.
fn succeeds(server: &Server, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(server.folder.path())
        .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
        .output()
        .expect("it runs");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}\n{}", server.log());
    said
}

/// Returns a transferred zone as dig prints it.
fn axfr(server: &Server, zone: &str) -> String {
    let (ip, port) = (format!("@{}", server.address.ip()), server.address.port().to_string());
    let words = [&*ip, "-p", &port, zone, "AXFR", "+noall", "+answer", "+onesoa", "+time=30"];
    let zone = succeeds(server, "dig", &words);
    assert!(zone.contains("SOA"), "{zone}");
    zone
}

/// Has every verifier that is installed read the zone as it is transferred.
pub(crate) fn verify(server: &Server, zone: &str) {
    if !testkit::has_programs(&["dig", "dnssec-verify", "ldns-verify-zone", "kzonecheck"]) {
        return;
    }
    fs::write(server.path("transferred"), axfr(server, zone)).expect("written");
    let checked = run(server.folder.path(), &["zone", "check", "--dnssec", zone, "transferred"]);
    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));
    succeeds(server, "dnssec-verify", &["-z", "-o", zone, "transferred"]);
    succeeds(server, "ldns-verify-zone", &["transferred"]);
    succeeds(server, "kzonecheck", &["-o", zone, "transferred"]);
}

/// The keys of a zone.
pub(crate) fn keys(server: &Server, zone: &str) -> Vec<Value> {
    let list = server.ctl_json(&["key", "list", zone]);
    list["keys"].as_array().cloned().expect("keys")
}

pub(crate) fn tag(key: &Value) -> String {
    key["tag"].to_string()
}

/// The state of a record of a key.
pub(crate) fn state<'k>(key: &'k Value, record: &str) -> &'k str {
    let records = key["records"].as_array().expect("records");
    let row = records.iter().find(|row| row["record"] == record);
    row.and_then(|row| row["state"].as_str()).unwrap_or("none")
}

/// Waits until the record of a key is in this state.
fn wait_for_state(server: &Server, zone: &str, key: &str, record: &str, wanted: &str) {
    eventually(&format!("{record} of key {key} is {wanted}"), server, || {
        let keys = keys(server, zone);
        keys.iter().any(|one| tag(one) == key && state(one, record) == wanted)
    });
}

/// Runs `nomen ctl`, which must be refused; returns the reason.
fn refused(server: &Server, arguments: &[&str]) -> String {
    let output = server.ctl(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn other_verifiers_accept_what_is_served() {
    let denials =
        [("nsec", ""), ("nsec3", "nsec3 = true\n"), ("optout", "nsec3 = true\nnsec3-opt-out = true\n")];
    let layouts = [("csk", ""), ("split", "single-key = false\n")];
    let others = [("rsa", "algorithm = \"rsasha256\"\n"), ("ed25519", "algorithm = \"ed25519\"\n")];
    let crossed = denials.iter().flat_map(|(denial, keys)| {
        layouts.iter().map(move |(layout, more)| (format!("{denial}-{layout}"), format!("{keys}{more}")))
    });
    let others = others.iter().map(|(name, keys)| ((*name).to_owned(), (*keys).to_owned()));
    let all: Vec<(String, String)> =
        crossed.chain(others).chain([("zonemd".into(), "zonemd = true\n".into())]).collect();
    let folder = folder();
    let mut more = String::new();
    for (name, keys) in &all {
        more += &policy(name, keys);
        more += &format!(
            "[[zone]]\nname = \"{name}.test\"\nfile = \"example.zone\"\ndnssec-policy = \"{name}\"\n\
             allow-transfer = [\"any\"]\n"
        );
    }
    let server = Server::start_in(folder, STATE, &more);
    for (name, _) in &all {
        let zone = format!("{name}.test");
        wait_signed(&server, &zone);
        verify(&server, &zone);
        let wanted = if name.contains("split") { 2 } else { 1 };
        assert_eq!(keys(&server, &zone).len(), wanted, "{zone}");
        let denial = if name.starts_with("nsec3") || name.starts_with("opt") { "NSEC3" } else { "NSEC" };
        assert_eq!(server.ctl_json(&["zone", "status", &zone])["denial"], denial, "{zone}");
    }
    assert_eq!(fs::read_to_string(server.path("example.zone")).expect("the file"), ZONE);
}

#[test]
fn an_update_is_signed_and_its_difference_is_small() {
    let server = start("", OPEN);
    let before = serial(&server, "example");
    let www = server.query(&["www.example", "RRSIG", "+short"]);
    assert_eq!(add(server.address, "example", "new.example"), Some(0));
    verify(&server, "example");
    assert!(server.query(&["new.example", "A", "+dnssec"]).contains("RRSIG"));
    assert_eq!(server.query(&["www.example", "RRSIG", "+short"]), www, "other signatures stay");
    if testkit::has_programs(&["kdig"]) {
        let at = format!("@{}", server.address.ip());
        let (port, query) = (server.address.port().to_string(), format!("IXFR={before}"));
        let ixfr = succeeds(&server, "kdig", &[&at, "-p", &port, "example", "-t", &query]);
        assert!(ixfr.contains("new.example.") && ixfr.contains("RRSIG"), "{ixfr}");
        // The SOA, its signature, the new records, and the NSEC before them: nothing else.
        assert!(!ixfr.contains("\nwww.example.") && !ixfr.contains("DNSKEY"), "{ixfr}");
    }
}

#[test]
fn a_transaction_is_signed() {
    let server = start("", OPEN);
    let zone = "example";
    server.ctl_json(&["zone", "begin", zone]);
    server.ctl_json(&["zone", "set", zone, "more 1 TXT hello"]);
    server.ctl_json(&["zone", "unset", zone, "www"]);
    // Renewed signatures are no conflict.
    next_second();
    server.ctl_json(&["zone", "sign", zone]);
    let diff = text(&server.ctl(&["zone", "diff", zone]).stdout);
    assert_eq!(diff, "+more.example. 1 IN TXT \"hello\"\n-www.example. 1 IN A 192.0.2.80\n");
    server.ctl_json(&["zone", "commit", zone]);
    assert!(server.query(&["more.example", "TXT", "+dnssec"]).contains("RRSIG"));
    assert!(server.query(&["www.example", "A"]).contains("NXDOMAIN"));
    verify(&server, zone);
}

#[test]
fn an_update_of_what_the_signer_makes_is_refused() {
    let server = start("", OPEN);
    wait_settled(&server, "example");
    let before = serial(&server, "example");
    let socket = socket(server.address);
    // RRSIG, NSEC and NSEC3PARAM.
    let rdatas: [(u16, Vec<u8>); 3] = [
        (46, [vec![0, 1, 13, 2, 0, 0, 0, 1, 127, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0], vec![7; 64]].concat()),
        (47, vec![0, 0, 1, 64]),
        (51, vec![1, 0, 0, 0, 0]),
    ];
    for (rtype, rdata) in rdatas {
        let owner = if rtype == 51 { "example" } else { "www.example" };
        let message = update_message(9, "example", &[record(owner, rtype, 1, 1, &rdata)]);
        assert_eq!(answer(&socket, &message), Some(5), "type {rtype}");
    }
    assert_eq!(serial(&server, "example"), before);
    verify(&server, "example");
}

/// It made all requests that were signed with it fail, and put off the renewal of signatures.
#[test]
fn a_key_of_an_algorithm_that_does_not_sign_is_refused_and_one_that_does_is_not() {
    let server = start("", OPEN);
    wait_settled(&server, "example");
    let socket = socket(server.address);
    let dnskey = |algorithm| [vec![1, 0, 3, algorithm], vec![7; 64]].concat();
    let add = |algorithm| {
        answer(&socket, &update_message(9, "example", &[record("example", 48, 1, 3600, &dnskey(algorithm))]))
    };
    let before = serial(&server, "example");
    assert_eq!(add(8), Some(5));
    assert_eq!(serial(&server, "example"), before);
    assert_eq!(add(13), Some(0));
    assert_eq!(serial(&server, "example"), before + 1);
}

#[test]
fn an_edit_of_the_file_is_signed_at_a_reload() {
    let server = start("", OPEN);
    let before = serial(&server, "example");
    let edited = ZONE.replace("www A 192.0.2.80", "www A 192.0.2.81\nmore A 192.0.2.82");
    server.write("example.zone", &edited);
    server.reload();
    eventually("the edit is served", &server, || {
        server.query(&["more.example", "A", "+dnssec"]).contains("192.0.2.82")
    });
    assert!(serial(&server, "example") > before);
    verify(&server, "example");
    assert_eq!(fs::read_to_string(server.path("example.zone")).expect("the file"), edited);
    // An update has changed the zone: the next edit waits for the operator.
    assert_eq!(add(server.address, "example", "new.example"), Some(0));
    server.write("example.zone", &edited.replace("192.0.2.82", "192.0.2.83"));
    server.reload();
    assert!(server.query(&["more.example", "A"]).contains("192.0.2.82"));
    server.ctl_json(&["zone", "reload", "example", "--force"]);
    eventually("the edit is served", &server, || server.query(&["more.example", "A"]).contains("192.0.2.83"));
    assert!(!server.query(&["new.example", "A"]).contains("192.0.2."), "the file does not have it");
    verify(&server, "example");
}

#[test]
fn the_zones_own_file_has_its_data_alone_and_a_copy_all_that_is_served() {
    let server = start("csync = true\n", OPEN);
    wait_settled(&server, "example");
    eventually("a CSYNC record", &server, || server.query(&["example", "CSYNC", "+short"]).contains(" NS"));
    assert_eq!(add(server.address, "example", "new.example"), Some(0));
    // A key of another signer is data.
    let other = record("example", 48, 1, 3600, &[vec![1, 0, 3, 13], vec![7; 64]].concat());
    assert_eq!(answer(&socket(server.address), &update_message(9, "example", &[other])), Some(0));
    server.ctl_json(&["zone", "write", "example"]);
    server.ctl_json(&["zone", "write", "example", "--to", "copy"]);
    let types = |file: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(server.path(file)).expect("a file");
        assert!(text.contains("new.example."), "{text}");
        let word = |line: &str| line.split_whitespace().find(|word| MADE.contains(word)).map(str::to_owned);
        text.lines().filter_map(word).collect()
    };
    let all = |types: &[&str]| types.iter().map(|one| (*one).to_owned()).collect::<BTreeSet<_>>();
    const MADE: [&str; 6] = ["RRSIG", "NSEC", "DNSKEY", "CDS", "CDNSKEY", "CSYNC"];
    let keys = |file: &str| {
        let text = fs::read_to_string(server.path(file)).expect("a file");
        let is_key = |line: &&str| line.split_whitespace().nth(3) == Some("DNSKEY");
        text.lines().filter(is_key).count()
    };
    assert_eq!((types("example.zone"), keys("example.zone")), (all(&["CSYNC", "DNSKEY"]), 1));
    assert_eq!((types("copy"), keys("copy")), (all(&MADE), 2));
    // The file is read as the zone that is served.
    let before = serial(&server, "example");
    server.ctl_json(&["zone", "reload", "example", "--force"]);
    assert_eq!(serial(&server, "example"), before);
}

#[test]
fn a_restart_keeps_keys_version_and_signatures() {
    let server = start("single-key = false\n", OPEN);
    wait_settled(&server, "example");
    assert_eq!(add(server.address, "example", "new.example"), Some(0));
    let tags = |server: &Server| keys(server, "example").iter().map(tag).collect::<BTreeSet<_>>();
    let (old, at, keys_of) = (serial(&server, "example"), server.address, tags(&server));
    let signatures = server.query(&["www.example", "RRSIG", "+short"]);
    let folder = server.stop();
    let more = format!("{}{}", policy("fast", "single-key = false\n"), block(OPEN));
    let server = Server::start_at(at, folder, STATE, &more);
    wait_signed(&server, "example");
    assert_eq!(tags(&server), keys_of);
    assert_eq!(serial(&server, "example"), old);
    assert_eq!(server.query(&["www.example", "RRSIG", "+short"]), signatures);
    let made = server.ctl_json(&["zone", "status", "example"])["signing"]["signatures_made"].as_u64();
    assert_eq!(made, Some(0));
    assert!(server.query(&["new.example", "A"]).contains("NOERROR"));
    verify(&server, "example");
}

#[test]
fn acknowledged_updates_survive_a_crash_and_are_signed() {
    let server = start("", OPEN);
    let (at, gone) = (server.address, AtomicBool::new(false));
    let (acknowledged, folder) = thread::scope(|scope| {
        let updates = scope.spawn(|| {
            let mut acknowledged = Vec::new();
            for number in 0.. {
                if gone.load(Ordering::SeqCst) {
                    break;
                }
                let socket = socket(at);
                socket.set_read_timeout(Some(std::time::Duration::from_millis(500))).expect("a timeout");
                let owner = format!("n{number}");
                let name = format!("{owner}.example");
                let rdata = [192, 0, 2, 7];
                let message = update_message(number, "example", &[record(&name, 1, 1, 1, &rdata)]);
                let mut reply = [0; 512];
                // After the crash no answer comes.
                if socket.send(&message).is_ok() && socket.recv(&mut reply).is_ok() && reply[3] & 15 == 0 {
                    acknowledged.push(name);
                }
            }
            acknowledged
        });
        let enough = || serial(&server, "example") > 20;
        eventually("many updates are made", &server, enough);
        let folder = server.kill();
        gone.store(true, Ordering::SeqCst);
        (updates.join().expect("its end"), folder)
    });
    assert!(acknowledged.len() > 10, "{acknowledged:?}");
    next_second();
    let server = start_in(folder, "", OPEN);
    for name in &acknowledged {
        assert!(server.query(&[name, "A", "+dnssec"]).contains("192.0.2.7"), "{name}\n{}", server.log());
    }
    verify(&server, "example");
}

#[test]
fn operators_see_keys_and_roll_them() {
    let server = start("single-key = false\n", "");
    let list = text(&server.ctl(&["key", "list", "example"]).stdout);
    assert!(list.starts_with("zone example.: policy fast, first expiration "), "{list}");
    let all = keys(&server, "example");
    let [ksk, zsk] = ["KSK", "ZSK"].map(|role| {
        tag(all.iter().find(|key| key["role"] == role).unwrap_or_else(|| panic!("no {role}: {list}")))
    });
    assert!(list.contains(&format!("key {zsk}/ECDSAP256SHA256, ZSK, goal omnipresent\n")), "{list}");
    assert!(list.contains("    zone signatures  ") && list.contains("    key signature    "), "{list}");
    wait_for_state(&server, "example", &zsk, "zone signatures", "omnipresent");
    // A name with the algorithm, as a mnemonic or a number.
    for algorithm in ["ECDSAP256SHA256", "ecdsap256sha256", "13"] {
        let key = format!("{zsk}/{algorithm}");
        let reason = refused(&server, &["key", "ds-published", "example", "--key", &key]);
        assert!(reason.contains("the key is a ZSK, which has no DS record"), "{reason}");
    }
    let reason = refused(&server, &["key", "retire", "example", "--key", &format!("{zsk}/15")]);
    assert!(reason.contains("there is no key") && reason.contains(&ksk), "{reason}");
    let reason = refused(&server, &["key", "retire", "example", "--key", &zsk]);
    assert!(reason.contains("no other key can take over; roll the key"), "{reason}");
    let reason = refused(&server, &["key", "roll", "example", "--role", "csk"]);
    assert!(reason.contains("the zone has no such key"), "{reason}");
    assert_eq!(server.ctl(&["key", "roll", "example"]).status.code(), Some(2));
    // A whole rollover of the ZSK.
    let answer = text(&server.ctl(&["key", "roll", "example", "--role", "zsk"]).stdout);
    let wanted = format!("zone example.: the rollover of key {zsk}/ECDSAP256SHA256 begins\n");
    assert_eq!(answer, wanted, "{}", server.log());
    let timeline = text(&server.ctl(&["key", "timeline", "example"]).stdout);
    assert!(timeline.contains(" UTC (") && timeline.contains(": signs the zone"), "{timeline}");
    let reason = refused(&server, &["key", "roll", "example", "--key", &zsk]);
    assert!(reason.contains("the key is being replaced"), "{reason}");
    wait_for_state(&server, "example", &zsk, "dnskey", "hidden");
    verify(&server, "example");
    let keys = server.query(&["example", "DNSKEY"]);
    assert_eq!(keys.matches("\tDNSKEY\t").count(), 2, "{keys}");
}

#[test]
fn a_rollover_too_early_is_refused_with_the_time() {
    let keys_of = "publish-safety = \"1h\"\n";
    let more = format!("{}{}", policy("fast", "").replace("publish-safety = \"0s\"\n", keys_of), block(""));
    let server = Server::start_in(folder(), STATE, &more);
    wait_signed(&server, "example");
    let reason = refused(&server, &["key", "roll", "example", "--role", "csk"]);
    assert!(reason.contains("is still being introduced: "), "{reason}");
    let time = reason.split("; earliest time: ").nth(1).unwrap_or_else(|| panic!("no time: {reason}"));
    assert!(time.starts_with("20") && time.trim_end().ends_with(" UTC"), "{reason}");
    // Nothing for the parent yet.
    assert_eq!(text(&server.ctl(&["key", "export-ds", "example"]).stdout), "");
    let status = text(&server.ctl(&["zone", "status", "example"]).stdout);
    for part in ["policy fast", "next_look 20", "signing_keys    ", "CSK: dnskey rumoured", "until 20"] {
        assert!(status.contains(part), "{part}: {status}");
    }
}

#[test]
fn all_signatures_are_made_again_once() {
    let server = start("signature-jitter = \"0s\"\n", "");
    wait_settled(&server, "example");
    let all = |server: &Server| server.query(&["example", "AXFR"]);
    let before = signatures(&all(&server));
    next_second();
    server.ctl_json(&["zone", "sign", "example"]);
    eventually("all signatures are made again", &server, || {
        signatures(&all(&server)).intersection(&before).count() == 0
    });
    wait_signed(&server, "example");
    let at = serial(&server, "example");
    next_second();
    next_second();
    assert_eq!(serial(&server, "example"), at, "once: {}", server.log());
    verify(&server, "example");
}

/// The signatures in a text.
fn signatures(zone: &str) -> BTreeSet<String> {
    zone.lines().filter(|line| line.contains("\tRRSIG\t")).map(str::to_owned).collect()
}

/// Has a zone from primaries signed, whose primary is changed by `change` to have the name `more`.
fn signed_in_transit(primary: SocketAddr, change: &mut dyn FnMut()) {
    let zone = format!(
        "{}[[zone]]\nname = \"example\"\nprimaries = [{}]\ndnssec-policy = \"fast\"\n\
         allow-transfer = [\"any\"]\n",
        policy("fast", ""),
        written(primary)
    );
    let server = Server::start_in(tempfile::tempdir().expect("a folder"), STATE, &zone);
    wait_signed(&server, "example");
    verify(&server, "example");
    let before = serial(&server, "example");
    change();
    eventually("the change of the primary is served", &server, || {
        server.ctl(&["zone", "refresh", "example"]);
        // A denial has signatures, too.
        let answer = server.query(&["more.example", "A", "+dnssec"]);
        answer.contains("192.0.2.82") && answer.contains("RRSIG")
    });
    assert!(serial(&server, "example") > before);
    verify(&server, "example");
    // A restart goes on with the stored version.
    wait_settled(&server, "example");
    let (at, old) = (server.address, serial(&server, "example"));
    let server = Server::start_at(at, server.stop(), STATE, &zone);
    wait_signed(&server, "example");
    assert_eq!(serial(&server, "example"), old);
    verify(&server, "example");
}

#[test]
fn a_zone_of_a_primary_is_signed_in_transit() {
    let zone = "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\nallow-transfer = [\"any\"]\n\
        ixfr-from-differences = true\n";
    let primary = Server::start_in(folder(), STATE, zone);
    signed_in_transit(primary.address, &mut || {
        let edited = ZONE.replace("admin 1 ", "admin 2 ") + "more A 192.0.2.82\n";
        primary.write("example.zone", &edited);
        primary.reload();
    });
    // The primary's difference was enough.
    let sent = primary.ctl_json(&["stats"]);
    let sent = sent.as_object().expect("an object").iter().filter(|(name, _)| name.contains("ixfr"));
    assert!(sent.clone().any(|(_, count)| count.as_u64() > Some(0)), "{:?}", sent.collect::<Vec<_>>());
}

#[test]
fn a_zone_of_nsd_is_signed_in_transit() {
    let config = |own: SocketAddr, folder: &Path| {
        fs::write(folder.join("example.zone"), ZONE).expect("written");
        let folder = folder.display();
        format!(
            "server:\n  ip-address: {}@{}\n  zonesdir: \"{folder}\"\n  pidfile: \"{folder}/pid\"\n  \
             xfrdfile: \"{folder}/xfrd\"\n  zonelistfile: \"{folder}/list\"\n  database: \"\"\n  \
             username: \"\"\n  xfrdir: \"{folder}\"\nremote-control:\n  control-enable: no\n\
             zone:\n  name: example\n  zonefile: example.zone\n  provide-xfr: 127.0.0.0/8 NOKEY\n",
            own.ip(),
            own.port()
        )
    };
    let Some(nsd) = other("NSD", "nsd", &["-d", "-c"], config) else { return };
    signed_in_transit(nsd.address, &mut || {
        let edited = ZONE.replace("admin 1 ", "admin 2 ") + "more A 192.0.2.82\n";
        fs::write(nsd.folder.path().join("example.zone"), edited).expect("written");
        let hang_up = nix::sys::signal::Signal::SIGHUP;
        let process = nix::unistd::Pid::from_raw(i32::try_from(nsd.child.id()).expect("a process number"));
        nix::sys::signal::kill(process, hang_up).expect("NSD runs");
    });
}

/// A server of the parent zone `test.`.
struct Parent(Server);

impl Parent {
    fn start() -> Parent {
        let folder = tempfile::tempdir().expect("a folder");
        let zone = "$TTL 1\n@ SOA ns admin 1 3600 600 86400 1\n@ NS ns\nns A 192.0.2.1\nchild NS ns.child\n\
            ns.child A 192.0.2.2\n";
        fs::write(folder.path().join("test.zone"), zone).expect("written");
        let more = format!("[[zone]]\nname = \"test\"\nfile = \"test.zone\"\n{OPEN}");
        Parent(Server::start_in(folder, STATE, &more))
    }

    /// Replaces the DS records of the child.
    fn set_ds(&self, records: &str) {
        let server = format!("server {} {}\nzone test\n", self.0.address.ip(), self.0.address.port());
        let adds: String = records
            .lines()
            .map(|line| format!("update add {}\n", line.replace(" IN DS", " 1 IN DS")))
            .collect();
        self.0.write("script", &format!("{server}update delete child.test. DS\n{adds}send\n"));
        let output = run(self.0.folder.path(), &["update", "script"]);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn a_key_comes_and_goes_with_its_ds_record_and_the_zone_becomes_unsigned() {
    let parent = Parent::start();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("child.zone"), ZONE).expect("written");
    let more = format!(
        "{}[[zone]]\nname = \"child.test\"\nfile = \"child.zone\"\ndnssec-policy = \"fast\"\n\
         allow-transfer = [\"any\"]\nparental-servers = [{}]\n",
        policy("fast", ""),
        written(parent.0.address)
    );
    let server = Server::start_in(folder, STATE, &more);
    let zone = "child.test";
    wait_signed(&server, zone);
    let first = tag(&keys(&server, zone)[0]);
    let exported = |server: &Server| text(&server.ctl(&["key", "export-ds", zone]).stdout);
    eventually("the parent may have the DS record", &server, || exported(&server).contains(" IN DS "));
    let ds = exported(&server);
    assert!(ds.starts_with(&format!("child.test. IN DS {first} 13 2 ")), "{ds}");
    eventually("CDS records", &server, || server.query(&[zone, "CDS", "+short"]).contains(&first));
    parent.set_ds(&ds);
    wait_for_state(&server, zone, &first, "ds", "omnipresent");

    // A rollover waits for the parent.
    let rolled = server.ctl(&["key", "roll", zone, "--key", &first]);
    assert!(rolled.status.success(), "{}", text(&rolled.stderr));
    eventually("the DS record of the new key", &server, || {
        let now = exported(&server);
        now != ds && now.contains(" IN DS ")
    });
    let second = exported(&server);
    assert!(!second.contains(&ds), "{second}");
    parent.set_ds(&second);
    wait_for_state(&server, zone, &first, "dnskey", "hidden");
    verify(&server, zone);

    // The zone stays signed until the parent has no DS record.
    server.reconfigure("dnssec-policy = \"fast\"", "dnssec-policy = \"insecure\"");
    server.reload();
    eventually("the record that deletes DS records", &server, || {
        server.query(&[zone, "CDS", "+short"]).contains("0 0 0 00")
    });
    assert_eq!(exported(&server), "");
    assert_eq!(server.ctl_json(&["zone", "status", zone])["signed"], true);
    parent.set_ds("");
    // The policy `insecure` has the delays of `default`: the operator sees how long it waits.
    eventually("the parent is seen without it", &server, || {
        let states = keys(&server, zone);
        let ds: Vec<&str> = states.iter().map(|key| state(key, "ds")).collect();
        ds.iter().all(|state| ["unretentive", "hidden"].contains(state))
    });
    verify(&server, zone);
}

#[test]
fn a_zone_whose_parent_has_no_ds_record_becomes_unsigned() {
    let parent = Parent::start();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("child.zone"), ZONE).expect("written");
    let more = format!(
        "{}[[zone]]\nname = \"child.test\"\nfile = \"child.zone\"\ndnssec-policy = \"fast\"\n\
         parental-servers = [{}]\n",
        policy("fast", ""),
        written(parent.0.address)
    );
    let server = Server::start_in(folder, STATE, &more);
    let zone = "child.test";
    wait_signed(&server, zone);
    server.reconfigure("dnssec-policy = \"fast\"", "dnssec-policy = \"insecure\"");
    server.reload();
    eventually("the zone is unsigned", &server, || {
        server.ctl_json(&["zone", "status", zone])["signed"] == false
    });
    let apex = server.query(&[zone, "ANY", "+tcp", "+dnssec"]);
    for word in ["DNSKEY", "RRSIG", "NSEC", "CDS"] {
        assert!(!apex.contains(&format!("\t{word}\t")), "{word}: {apex}");
    }
    assert!(server.query(&["www.child.test", "A"]).contains("192.0.2.80"));
    // Then the policy can be removed.
    let servers = format!("parental-servers = [{}]\n", written(parent.0.address));
    server.reconfigure("dnssec-policy = \"insecure\"\n", "");
    server.reconfigure(&servers, "");
    server.reload();
    assert!(server.query(&["www.child.test", "A"]).contains("192.0.2.80"));
}

#[test]
fn keys_that_are_there_already_go_on_in_their_roles() {
    for (of_policy, roles) in [("", vec!["csk"]), ("single-key = false\n", vec!["ksk", "zsk"])] {
        let folder = folder();
        fs::create_dir_all(folder.path().join("state/keys")).expect("made");
        for role in &roles {
            let words = ["key", "generate", "example", "--role", role, "-K", "state/keys"];
            assert!(run(folder.path(), &words).status.success());
        }
        let server = start_in(folder, of_policy, "");
        wait_settled(&server, "example");
        let found = keys(&server, "example");
        let purposes: Vec<String> =
            found.iter().map(|key| key["role"].as_str().expect("a role").to_lowercase()).collect();
        assert_eq!(purposes, roles, "{found:?}");
        verify(&server, "example");
    }
}

#[test]
fn figures_count_signing() {
    let figures = free_address();
    let more = format!(
        "{}[metrics]\nlisten = {}\nper-zone = true\n{}",
        policy("fast", ""),
        written(figures),
        block(OPEN)
    );
    let server = Server::start_in(folder(), STATE, &more);
    wait_signed(&server, "example");
    let value = |name: &str| -> f64 {
        let page = http(figures, "GET /metrics");
        let line = page.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(-1.0)
    };
    assert_eq!(value("nomen_signing_zones{state=\"ok\"}"), 1.0);
    assert_eq!(value("nomen_signing_zones{state=\"failed\"}"), 0.0);
    assert_eq!(value("nomen_zone_signing_failed{zone=\"example.\"}"), 0.0);
    assert!(value("nomen_signing_expiry_timestamp_seconds") > 1.7e9);
    let made = value("nomen_signing_signatures_total");
    assert!(made > 10.0, "{made}");
    assert_eq!(add(server.address, "example", "new.example"), Some(0));
    eventually("more signatures", &server, || value("nomen_signing_signatures_total") > made);
    // A key that cannot be read.
    let (at, folder) = (server.address, server.stop());
    let keys = folder.path().join("state/keys");
    let private = find(&keys, ".private").expect("a private key");
    fs::write(&private, "Private-key-format: v1.3\nAlgorithm: 13\n").expect("written");
    let server = Server::start_at(at, folder, STATE, &more);
    eventually("the failure is counted", &server, || value("nomen_signing_zones{state=\"failed\"}") == 1.0);
    let status = server.ctl_json(&["zone", "status", "example"]);
    assert!(status["signing"]["fault"].as_str().is_some_and(|fault| fault.contains(".private")), "{status}");
    let faults = server.ctl_json(&["status"])["signing_faults"].clone();
    assert!(faults[0]["zone"] == "example." && faults[0]["fault"] == status["signing"]["fault"], "{faults}");
    assert!(server.query(&["new.example", "A", "+dnssec"]).contains("RRSIG"), "it is served as it was");
}

/// Returns a file below a folder whose name has this end.
fn find(folder: &Path, end: &str) -> Option<std::path::PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find(&path, end) {
                return Some(found);
            }
        } else if path.to_string_lossy().ends_with(end) {
            return Some(path);
        }
    }
    None
}
