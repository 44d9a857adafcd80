//! Zones that make resolvers attack others with queries, or waste their own CPU on signatures and hashes.

use super::relay::{RELAY, SILENT};
use crate::internet::links::Links;
use crate::internet::sites::{self, Sites};
use crate::rng::Rng;
use crate::servers::Kind;
use crate::zones::{self, Zone};
use domain::utils::base64;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Number of the victim's names that clients ask for.
pub(crate) const HOSTS: usize = 100;
/// Number of keys with the same tag, and of signatures with that tag.
const TRAPS: usize = 50;
/// The key tag.
const TAG: u16 = 4711;

/// Writes and signs the zones. `vic.` is the victim's; all others are the attacker's.
pub(crate) fn make(dir: &Path, rng: &mut Rng) -> Result<Sites, String> {
    let apex = "@ 3600 SOA ns.vic. hostmaster.vic. 1 3600 600 86400 300\n@ NS ns.vic.\n";
    let mut root = format!("$TTL 3600\n{apex}ns.vic. A {RELAY}\n");
    let mut all = Vec::new();
    for (name, text) in [("vic.", victim()), ("evil.", evil())] {
        let _ = writeln!(root, "{name} NS ns.vic.");
        let mut zone = zones::plain(dir, name, &format!("$TTL 3600\n{apex}{text}"))?;
        zone.source = zone.full.clone();
        all.push(zone);
    }
    for (name, text, more) in [
        ("trap.", "*.trap. A 192.0.2.1\n".to_owned() + &keys(rng), &[][..]),
        (
            "hash.",
            "www A 192.0.2.1\n".to_owned(),
            &["-3", "0123456789abcdef0123456789abcdef", "-H", "50"][..],
        ),
    ] {
        let (zone, ds) = signed(dir, name, &format!("$TTL 3600\n{apex}{text}"), more)?;
        let _ = writeln!(root, "{name} NS ns.vic.\n{name} DS {ds}");
        if name == "trap." {
            spring(&zone, rng)?;
        }
        all.push(zone);
    }
    let (zone, anchor) = signed(dir, ".", &root, &[])?;
    all.insert(0, zone);
    for zone in &mut all {
        zone.refused_by = sites::HOSTS.into_iter().filter(|kind| *kind != Kind::Nsd).collect();
    }
    Ok(Sites {
        zones: all,
        conditions: BTreeMap::new(),
        links: Links::default(),
        alone: BTreeMap::new(),
        anchor,
        root: vec![RELAY.into()],
    })
}

fn victim() -> String {
    let mut out = format!("ns A {RELAY}\nwww A 192.0.2.1\n");
    for n in 0..HOSTS {
        let _ = writeln!(out, "h{n} A 192.0.2.{n}");
    }
    for n in 1..=40 {
        // CNAME chains that alternate between two zones.
        let _ = writeln!(out, "*.c{n} CNAME x.c{}.evil.", n + 1);
    }
    let _ = writeln!(out, "y NS ns.x.evil.");
    out
}

fn evil() -> String {
    let mut out = format!("away A {SILENT}\ndead NS away\n");
    for n in 1..=100 {
        // NXNSAttack: non-existent servers in the victim's zone.
        let _ = writeln!(out, "nxns NS fake{n}.vic.");
        // NRDelegationAttack: servers in zones whose server does not answer.
        let _ = writeln!(out, "nrd NS ns.d{n}\nd{n} NS away");
    }
    // TsuNAME.
    let _ = writeln!(out, "x NS ns.y.vic.");
    for n in 1..=40 {
        let _ = writeln!(out, "*.c{n} CNAME x.c{}.vic.", n + 1);
        // CAMP: CNAMEs to names with many labels below cuts to non-existent servers.
        let _ = writeln!(out, "*.p{n} CNAME a.b.c.d.e.f.g.s{n}");
        for server in 1..=13 {
            let _ = writeln!(out, "s{n} NS camp{n}-{server}.vic.");
        }
    }
    // A name of many labels, with empty non-terminals above it.
    let _ = writeln!(out, "*.{} A 192.0.2.1", labels(60));
    out
}

/// Returns a relative name of `count` labels.
pub(crate) fn labels(count: usize) -> String {
    vec!["a"; count].join(".")
}

/// Makes DNSKEY records of RSA keys that have the same tag. There are no private keys.
fn keys(rng: &mut Rng) -> String {
    let mut out = String::new();
    for _ in 0..TRAPS {
        let mut key = vec![1, 0, 3, 8, 3, 1, 0, 1];
        key.extend((0..256).map(|_| rng.byte()));
        key[8] |= 0x80;
        let last = key.len() - 1;
        key[last] |= 1;
        // RFC 4034, appendix B: the tag is a sum of 16-bit words; one of them can be chosen freely.
        let free = 100;
        (key[free], key[free + 1]) = (0, 0);
        for word in 0..=u16::MAX {
            [key[free], key[free + 1]] = word.to_be_bytes();
            if tag(&key) == TAG {
                break;
            }
        }
        let _ = writeln!(out, "@ DNSKEY 256 3 8 {}", base64::encode_string(&key[4..]));
    }
    out
}

fn tag(rdata: &[u8]) -> u16 {
    let sum: u32 =
        rdata.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b))).sum();
    ((sum + (sum >> 16)) & 0xffff) as u16
}

/// KeyTrap (CVE-2023-50387): replaces the wildcard's signature by many that any of the keys might have made.
fn spring(zone: &Zone, rng: &mut Rng) -> Result<(), String> {
    let text = fs::read_to_string(&zone.full).map_err(|e| e.to_string())?;
    let honest = |line: &&str| {
        let words: Vec<_> = line.split_ascii_whitespace().take(5).collect();
        words.first() == Some(&"*.trap.") && words.get(3..5) == Some(&["RRSIG", "A"])
    };
    let mut out: String =
        text.lines().filter(|line| !honest(line)).map(|line| line.to_owned() + "\n").collect();
    for _ in 0..TRAPS {
        let signature: Vec<u8> = (0..256).map(|_| rng.byte() & 0x7f).collect();
        let _ = writeln!(
            out,
            "*.trap. 3600 IN RRSIG A 8 1 3600 20380101000000 20260101000000 {TAG} trap. {}",
            base64::encode_string(&signature)
        );
    }
    fs::write(&zone.full, out).map_err(|e| e.to_string())
}

/// Signs a zone with one key, and returns it with its DS.
pub(crate) fn signed(dir: &Path, name: &str, text: &str, more: &[&str]) -> Result<(Zone, String), String> {
    let mut zone = zones::plain(dir, name, text)?;
    let keys = dir.join(format!("{}.keys", zones::file_stem(name)));
    fs::create_dir_all(&keys).map_err(|e| format!("{}: {e}", keys.display()))?;
    let mut keygen = Command::new("dnssec-keygen");
    keygen.args(["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "-K"]).arg(&keys);
    let key = zones::output(keygen.arg(name))?;
    let key = keys.join(key.trim());
    let of_key =
        zones::output(Command::new("dnssec-dsfromkey").arg("-2").arg(key.with_added_extension("key")))?;
    let ds = of_key.split_once(" DS ").map(|(_, ds)| ds.trim().to_owned()).unwrap_or_default();
    let public = fs::read_to_string(key.with_added_extension("key")).map_err(|e| e.to_string())?;
    let mut whole = fs::read_to_string(&zone.full).map_err(|e| e.to_string())?;
    whole += &public;
    fs::write(&zone.full, whole).map_err(|e| e.to_string())?;
    let out = zone.full.with_extension("signed");
    let mut signzone = Command::new("dnssec-signzone");
    signzone.args(["-q", "-P", "-z", "-s", "20260101000000", "-e", "20380101000000", "-o", name, "-d"]);
    signzone.arg(&keys).arg("-f").arg(&out).args(more).arg(&zone.full).arg(&key);
    zones::run(&mut signzone)?;
    zones::expand(name, &out, &zone.full)?;
    zone.source = zone.full.clone();
    zone.signed = true;
    Ok((zone, ds))
}
