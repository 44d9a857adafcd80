//! The served zones: generated from a seed, written as text in one pass whatever their size, and kept in the
//! work folder under their parameters. The queries are in `queries.rs`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wire::Type;

use crate::failure::{Context, Failure, Result};
use crate::message::Edns;
use crate::provider::RECORDS;
use crate::queries::{MISSING, validated};
use crate::random::{Random, label, mix};
use crate::resolvers::Anchor;

/// One zone and its file.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    /// Apex without the final dot; empty for the root.
    pub(crate) name: String,
    /// Zone file.
    pub(crate) file: PathBuf,
}

/// Zones served together.
#[derive(Clone, Debug)]
pub(crate) struct ZoneSet {
    /// Kind and parameters; also the name of their folder.
    pub(crate) key: String,
    /// The zones, at least one.
    pub(crate) zones: Vec<Zone>,
    /// Number of records of all zones.
    pub(crate) records: u64,
    /// How non-existence is proved, if they are signed (PowerDNS must be configured for it).
    pub(crate) denial: Option<Denial>,
}

/// How non-existence is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// With NSEC records.
    Nsec,
    /// With NSEC3 records, no salt, no extra iterations (RFC 9276).
    Nsec3,
}

/// Makes zone sets, or finds existing ones.
pub(crate) struct Maker {
    root: PathBuf,
    seed: u64,
}

/// The zone of delegations.
pub(crate) const DELEGATIONS: &str = "test";
/// The zone that resolvers validate.
pub(crate) const SIGNED: &str = "example.net";
/// Serial of every unsigned zone.
pub(crate) const SERIAL: u32 = 2_026_010_101;

const COMPLETE: &str = "complete";

impl Maker {
    /// Creates a maker that keeps everything under `root`.
    pub(crate) fn new(root: &Path, seed: u64) -> Maker {
        Maker { root: root.to_path_buf(), seed }
    }

    /// Finds the folder for `key`, or creates it with `fill` and marks it complete with the number of
    /// records.
    fn cached(&self, key: &str, fill: impl FnOnce(&Path) -> Result<u64>) -> Result<(PathBuf, u64)> {
        let folder = self.root.join(format!("{key}-s{}", self.seed));
        let marker = folder.join(COMPLETE);
        if let Some(records) = fs::read_to_string(&marker).ok().and_then(|text| text.trim().parse().ok()) {
            return Ok((folder, records));
        }
        eprintln!("making zones {key}");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
        let records = fill(&folder)?;
        fs::write(&marker, records.to_string())?;
        Ok((folder, records))
    }

    fn single(
        &self,
        key: String,
        name: &str,
        denial: Option<Denial>,
        fill: impl FnOnce(&Path) -> Result<u64>,
    ) -> Result<ZoneSet> {
        let (folder, records) = self.cached(&key, fill)?;
        let zone = Zone { name: name.to_string(), file: folder.join("zone") };
        Ok(ZoneSet { key, zones: vec![zone], records, denial })
    }

    /// Makes `example.com` with little more than `www.example.com`.
    pub(crate) fn one_name(&self) -> Result<ZoneSet> {
        self.single("one-name".to_string(), "example.com", None, |folder| {
            let mut out = Writer::create(&folder.join("zone"))?;
            out.apex("example.com")?;
            out.line("www 3600 IN A 192.0.2.80")?;
            out.line("www 3600 IN AAAA 2001:db8::80")?;
            out.line("@ 3600 IN MX 10 mail")?;
            out.line("mail 3600 IN A 192.0.2.25")?;
            out.finish()
        })
    }

    /// Makes a zone `test` with `count` delegations, four records each: two NS; for two in five both servers
    /// below the cut with an A record each, for one in five one server below it with A and AAAA, and for two
    /// in five servers elsewhere and two DS records. If `sorted`, they are in canonical order (RFC 4034
    /// §6.1), as in registries' zone files.
    pub(crate) fn delegations(&self, count: u64, sorted: bool) -> Result<ZoneSet> {
        let seed = self.seed;
        let key = format!("delegations-{count}{}", if sorted { "-sorted" } else { "" });
        self.single(key, DELEGATIONS, None, |folder| {
            let mut out = Writer::create(&folder.join("zone"))?;
            out.apex(DELEGATIONS)?;
            let mut order: Vec<u64> = (0..count).collect();
            if sorted {
                order.sort_by_cached_key(|index| label(seed, *index));
            }
            for index in order {
                out.delegation(seed, index)?;
            }
            out.finish()
        })
    }

    /// Makes `count` small zones `NAME.test` of about nine records.
    pub(crate) fn many(&self, count: u64) -> Result<ZoneSet> {
        let seed = self.seed;
        let key = format!("zones-{count}");
        let file =
            |folder: &Path, index: u64| folder.join(format!("{:03}", index / 1000)).join(label(seed, index));
        let (folder, records) = self.cached(&key, |folder| {
            let mut records = 0;
            for index in 0..count {
                if index % 1000 == 0 {
                    fs::create_dir_all(folder.join(format!("{:03}", index / 1000)))?;
                }
                let mut out = Writer::create(&file(folder, index))?;
                out.small_zone(&small_zone_name(seed, index), mix(seed ^ index))?;
                records += out.finish()?;
            }
            Ok(records)
        })?;
        let zones = (0..count)
            .map(|index| Zone { name: small_zone_name(seed, index), file: file(&folder, index) })
            .collect();
        Ok(ZoneSet { key, zones, records, denial: None })
    }

    /// Returns the same zones for a primary that generates them: there are no files.
    pub(crate) fn taken(&self, count: u64) -> ZoneSet {
        let zone = |index| Zone { name: small_zone_name(self.seed, index), file: PathBuf::new() };
        let zones = (0..count).map(zone).collect();
        ZoneSet { key: format!("taken-{count}"), zones, records: count * RECORDS, denial: None }
    }

    /// Makes a signed zone `signed.test` with `count` names below it; one in ten is an unsigned delegation.
    pub(crate) fn signed(&self, count: u64, denial: Denial) -> Result<ZoneSet> {
        let seed = self.seed;
        let kind = if denial == Denial::Nsec { "nsec" } else { "nsec3" };
        self.single(format!("signed-{kind}-{count}"), "signed.test", Some(denial), |folder| {
            let mut out = Writer::create(&folder.join("plain"))?;
            out.apex("signed.test")?;
            for index in 0..count {
                out.signed_name(seed, index)?;
            }
            out.finish()?;
            sign(folder, "signed.test", "ECDSAP256SHA256", denial)
        })
    }

    /// Makes the signed zone with the answers to `count` repeated questions.
    pub(crate) fn validated(&self, count: u64) -> Result<ZoneSet> {
        let seed = self.seed;
        self.single(format!("validated-{count}"), SIGNED, Some(Denial::Nsec), |folder| {
            let mut out = Writer::create(&folder.join("plain"))?;
            out.apex(SIGNED)?;
            for number in 0..count {
                out.answer(&validated(seed, number), mix(seed ^ mix(number)))?;
            }
            out.finish()?;
            sign(folder, SIGNED, "ECDSAP256SHA256", Denial::Nsec)
        })
    }

    /// Returns the root zone from a file (plain or gzip), or makes a similar one: 1,400 delegations with DS
    /// and glue, signed with RSA and NSEC.
    pub(crate) fn root(&self, file: Option<&Path>) -> Result<ZoneSet> {
        let Some(file) = file else {
            return self.single("root-like".to_string(), "", Some(Denial::Nsec), |folder| {
                let mut out = Writer::create(&folder.join("plain"))?;
                out.root_like(self.seed)?;
                out.finish()?;
                sign(folder, ".", "RSASHA256", Denial::Nsec)
            });
        };
        self.single(format!("root-{:x}", mix(fs::metadata(file)?.len())), "", Some(Denial::Nsec), |folder| {
            let text = if file.extension().is_some_and(|extension| extension == "gz") {
                let out =
                    Command::new("gzip").arg("-dc").arg(file).output().context(|| "gzip".to_string())?;
                out.stdout
            } else {
                fs::read(file)?
            };
            fs::write(folder.join("zone"), &text)?;
            Ok(text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b';').count()
                as u64)
        })
    }
}

/// Returns the trust anchor of a signed zone in its own folder: the DS record that the signer left beside it.
pub(crate) fn anchor(zone: &Zone) -> Result<Anchor> {
    let file = zone.file.with_file_name(format!("dsset-{}.", zone.name));
    let text = fs::read_to_string(&file).context(|| format!("cannot read {}", file.display()))?;
    let data = text.lines().next().and_then(|line| line.split_once(" DS ")).map(|(_, data)| data);
    let words: Vec<&str> = data.unwrap_or_default().split_ascii_whitespace().collect();
    let [tag, algorithm, digest_type, digest @ ..] = &words[..] else {
        return Err(Failure::new(format!("no DS record in {}", file.display())));
    };
    if digest.is_empty() {
        return Err(Failure::new(format!("a DS record without a digest in {}", file.display())));
    }
    let ds = format!("{tag} {algorithm} {digest_type} {}", digest.concat());
    Ok(Anchor { zone: format!("{}.", zone.name), ds })
}

/// Returns the delegations of a root zone file, from its NS records.
pub(crate) fn top_level_names(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).context(|| format!("cannot read {}", file.display()))?;
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let owner = fields.next()?.trim_end_matches('.').to_ascii_lowercase();
            (fields.any(|field| field == "NS") && !owner.is_empty() && !line.contains("RRSIG"))
                .then_some(owner)
        })
        .filter(|owner| owner.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the apex of the small zone with this index.
pub(crate) fn small_zone_name(seed: u64, index: u64) -> String {
    format!("{}.test", label(seed, index))
}

/// Signs `folder/plain` into `folder/zone` with dnssec-signzone and returns the number of records.
fn sign(folder: &Path, origin: &str, algorithm: &str, denial: Denial) -> Result<u64> {
    let run = |command: &mut Command| -> Result<()> {
        let output = command.current_dir(folder).stdin(Stdio::null()).output().context(|| {
            "signing needs dnssec-keygen and dnssec-signzone (Debian: bind9-utils)".to_string()
        })?;
        if !output.status.success() {
            return Err(Failure::new(format!("signing failed: {}", String::from_utf8_lossy(&output.stderr))));
        }
        Ok(())
    };
    let bits: &[&str] = if algorithm.starts_with("RSA") { &["-b", "2048"] } else { &[] };
    for flags in [&["-f", "KSK"][..], &[]] {
        run(Command::new("dnssec-keygen").args(["-q", "-a", algorithm]).args(bits).args(flags).arg(origin))?;
    }
    // Signed for ten years: the folder is kept, and its zone must not expire.
    let mut command = Command::new("dnssec-signzone");
    command.args(["-S", "-q", "-x", "-P", "-e", "+315360000", "-O", "full", "-o", origin, "-f", "zone"]);
    if denial == Denial::Nsec3 {
        command.args(["-3", "-", "-H", "0"]);
    }
    run(command.arg("plain"))?;
    let text = fs::read(folder.join("zone"))?;
    Ok(text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b';').count() as u64)
}

/// Writes lines of a zone file and counts them.
struct Writer {
    out: BufWriter<File>,
    records: u64,
}

impl Writer {
    fn create(path: &Path) -> Result<Writer> {
        let file = File::create(path).context(|| format!("cannot write {}", path.display()))?;
        Ok(Writer { out: BufWriter::with_capacity(1 << 16, file), records: 0 })
    }

    fn line(&mut self, record: &str) -> Result<()> {
        self.records += 1;
        self.out.write_all(record.as_bytes())?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    fn finish(mut self) -> Result<u64> {
        self.out.flush()?;
        Ok(self.records)
    }

    fn apex(&mut self, origin: &str) -> Result<()> {
        write!(self.out, "$ORIGIN {origin}.\n$TTL 86400\n")?;
        self.line(&format!("@ 86400 IN SOA ns1 hostmaster {SERIAL} 7200 3600 1209600 900"))?;
        self.line("@ 86400 IN NS ns1")?;
        self.line("@ 86400 IN NS ns2")?;
        self.line("ns1 86400 IN A 192.0.2.1")?;
        self.line("ns2 86400 IN A 192.0.2.2")
    }

    fn delegation(&mut self, seed: u64, index: u64) -> Result<()> {
        let name = label(seed, index);
        let hash = mix(seed ^ mix(index));
        let first = Ipv4Addr::from(0x0a00_0000 | (hash as u32 & 0x00ff_ffff));
        let second = Ipv4Addr::from(0x0a00_0000 | ((hash >> 24) as u32 & 0x00ff_ffff));
        match index % 5 {
            0 | 1 => {
                self.line(&format!("{name} 86400 IN NS ns1.{name}"))?;
                self.line(&format!("{name} 86400 IN NS ns2.{name}"))?;
                self.line(&format!("ns1.{name} 86400 IN A {first}"))?;
                self.line(&format!("ns2.{name} 86400 IN A {second}"))
            }
            2 => {
                let host = label(seed ^ 1, hash % 2000);
                self.line(&format!("{name} 86400 IN NS ns.{name}"))?;
                self.line(&format!("{name} 86400 IN NS ns1.{host}.example."))?;
                self.line(&format!("ns.{name} 86400 IN A {first}"))?;
                self.line(&format!("ns.{name} 86400 IN AAAA 2001:db8::{:x}:{:x}", hash & 0xffff, hash >> 48))
            }
            _ => {
                let host = label(seed ^ 1, hash % 2000);
                let tag = hash % 65536;
                self.line(&format!("{name} 86400 IN NS ns1.{host}.example."))?;
                self.line(&format!("{name} 86400 IN NS ns2.{host}.example."))?;
                self.line(&format!("{name} 86400 IN DS {tag} 13 2 {}", digest(hash, 4)))?;
                self.line(&format!("{name} 86400 IN DS {tag} 13 4 {}", digest(!hash, 6)))
            }
        }
    }

    fn small_zone(&mut self, name: &str, hash: u64) -> Result<()> {
        self.apex(name)?;
        let address = Ipv4Addr::from(0x0a00_0000 | (hash as u32 & 0x00ff_ffff));
        self.line(&format!("@ 3600 IN A {address}"))?;
        self.line(&format!("www 3600 IN A {address}"))?;
        self.line(&format!("www 3600 IN AAAA 2001:db8::{:x}", hash & 0xffff))?;
        self.line("@ 3600 IN MX 10 www")
    }

    fn signed_name(&mut self, seed: u64, index: u64) -> Result<()> {
        let name = label(seed, index);
        let hash = mix(seed ^ mix(index));
        let address = Ipv4Addr::from(0x0a00_0000 | (hash as u32 & 0x00ff_ffff));
        if index % 10 == 9 {
            self.line(&format!("{name} 86400 IN NS ns1.{name}"))?;
            return self.line(&format!("ns1.{name} 86400 IN A {address}"));
        }
        self.line(&format!("{name} 3600 IN A {address}"))?;
        if index.is_multiple_of(2) {
            self.line(&format!("{name} 3600 IN AAAA 2001:db8::{:x}", hash & 0xffff))?;
        }
        Ok(())
    }

    /// Writes the record that answers a question, unless its name must not exist.
    fn answer(&mut self, (name, qtype, _): &(String, Type, Edns), hash: u64) -> Result<()> {
        if name.starts_with(MISSING) {
            return Ok(());
        }
        let address = Ipv4Addr::from(0x0a00_0000 | (hash as u32 & 0x00ff_ffff));
        let data = match *qtype {
            Type::AAAA => format!("AAAA 2001:db8::{:x}:{:x}", hash & 0xffff, hash >> 48),
            Type::MX => format!("MX 10 mail.{name}."),
            Type::TXT => "TXT \"v=spf1 mx ip4:192.0.2.0/24 -all\"".to_string(),
            _ => format!("A {address}"),
        };
        self.line(&format!("{name}. 3600 IN {data}"))
    }

    fn root_like(&mut self, seed: u64) -> Result<()> {
        writeln!(self.out, "$ORIGIN .\n$TTL 86400")?;
        self.line(". 86400 IN SOA a.root-servers.net. nstld.example. 2026010101 1800 900 604800 86400")?;
        for letter in 'a'..='m' {
            self.line(&format!(". 518400 IN NS {letter}.root-servers.net."))?;
            let host = u32::from(letter);
            self.line(&format!("{letter}.root-servers.net. 518400 IN A 198.51.100.{host}"))?;
            self.line(&format!("{letter}.root-servers.net. 518400 IN AAAA 2001:db8:100::{host:x}"))?;
        }
        let mut random = Random::new(seed);
        let common = ["com", "net", "org", "arpa", "de", "uk", "cn", "io", "info"].map(String::from);
        let made = (0..1391).map(|index| label(seed, index)[..4 + (index % 5) as usize].to_string());
        let mut names: Vec<String> = common.into_iter().chain(made).collect();
        names.sort();
        names.dedup();
        for name in names {
            for server in 0..4 + random.below(3) {
                let host = random.next();
                self.line(&format!("{name}. 172800 IN NS ns{server}.nic.{name}."))?;
                let address = Ipv4Addr::from(0x0a00_0000 | (host as u32 & 0x00ff_ffff));
                self.line(&format!("ns{server}.nic.{name}. 172800 IN A {address}"))?;
                self.line(&format!("ns{server}.nic.{name}. 172800 IN AAAA 2001:db8::{:x}", host & 0xffff))?;
            }
            if random.percent(90) {
                let hash = random.next();
                self.line(&format!("{name}. 86400 IN DS {} 8 2 {}", hash % 65536, digest(hash, 4)))?;
            }
        }
        Ok(())
    }
}

/// Returns `words` × 8 bytes in hexadecimal.
fn digest(seed: u64, words: u64) -> String {
    (0..words).map(|word| format!("{:016x}", mix(seed.wrapping_add(word)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delegations_have_four_records_each_and_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let maker = Maker::new(folder.path(), 3);
        let set = maker.delegations(50, false).unwrap();
        assert_eq!(set.records, 5 + 200);
        let text = fs::read_to_string(&set.zones[0].file).unwrap();
        assert_eq!(text.lines().filter(|line| !line.starts_with('$')).count(), 205);
        assert_eq!(text.matches(" NS ").count(), 2 + 100);
        fs::write(&set.zones[0].file, "changed").unwrap();
        assert_eq!(maker.delegations(50, false).unwrap().records, 205);
        assert_eq!(fs::read_to_string(&set.zones[0].file).unwrap(), "changed", "made again");
    }

    #[test]
    fn sorted_delegations_are_the_same_in_canonical_order() {
        let folder = tempfile::tempdir().unwrap();
        let maker = Maker::new(folder.path(), 3);
        let [made, sorted] = [false, true].map(|sorted| {
            let set = maker.delegations(300, sorted).unwrap();
            fs::read_to_string(&set.zones[0].file).unwrap()
        });
        let cuts = |text: &str| -> Vec<String> {
            let delegated = text.lines().filter(|line| line.contains(" NS ") && !line.starts_with('@'));
            let mut names: Vec<String> =
                delegated.filter_map(|line| Some(line.split(' ').next()?.to_string())).collect();
            names.dedup();
            names
        };
        let (made_cuts, sorted_cuts) = (cuts(&made), cuts(&sorted));
        assert!(sorted_cuts.is_sorted() && !made_cuts.is_sorted() && sorted_cuts.len() == 300);
        let lines = |text: &str| text.lines().map(String::from).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(lines(&made), lines(&sorted));
    }

    #[test]
    fn many_zones_have_distinct_names_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let set = Maker::new(folder.path(), 3).many(1200).unwrap();
        assert_eq!(set.zones.len(), 1200);
        assert!(set.zones.iter().all(|zone| zone.file.is_file()));
    }

    #[test]
    fn trust_begins_at_the_record_that_signing_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let zone = Zone { name: "example.net".to_string(), file: folder.path().join("zone") };
        assert!(anchor(&zone).is_err());
        let file = folder.path().join("dsset-example.net.");
        fs::write(&file, "example.net.\t\tIN DS 40984 13 2 A629DA4B F03AA830\n").unwrap();
        let found = anchor(&zone).unwrap();
        assert_eq!((found.zone.as_str(), found.ds.as_str()), ("example.net.", "40984 13 2 A629DA4BF03AA830"));
        fs::write(&file, "example.net. IN DS 40984 13 2\n").unwrap();
        assert!(anchor(&zone).is_err());
    }

    #[test]
    fn top_level_names_come_from_ns_records() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("root");
        let text = ".\t1\tIN\tNS\ta.\ncom.\t1\tIN\tNS\ta.\ncom.\t1\tIN\tRRSIG\tNS 8\nDE. 1 IN NS b.\n\
                    net. 1 IN DS 1\n";
        fs::write(&file, text).unwrap();
        assert_eq!(top_level_names(&file).unwrap(), ["com", "de"]);
    }
}
