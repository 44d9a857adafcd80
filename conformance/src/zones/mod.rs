//! The zones of all servers: written to a folder, expanded, some signed. Their files are in `zones/` beside
//! `src/`; the random ones are made in `random`. A `World` is a set of zones that are served together.

pub(crate) mod random;

use crate::name::Name;
use crate::rng::Rng;
use crate::servers::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A zone on disk.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    /// The apex.
    pub name: Name,
    /// The file as an operator would write it; nomen reads this one.
    pub source: PathBuf,
    /// The same zone with one complete record per line; the peers read this one, as not all of them support
    /// `$GENERATE`.
    pub full: PathBuf,
    /// Peers that refuse to load it.
    pub refused_by: Vec<Kind>,
    /// Its names, with their types.
    pub nodes: BTreeMap<Name, BTreeSet<String>>,
    /// Whether it is signed.
    pub signed: bool,
}

impl Zone {
    /// Whether `kind` serves this zone.
    pub(crate) fn is_served_by(&self, kind: Kind) -> bool {
        !self.refused_by.contains(&kind)
    }

    /// Whether `name` (lower case) has a record of `rtype`.
    pub(crate) fn has(&self, name: &Name, rtype: &str) -> bool {
        self.nodes.get(name).is_some_and(|types| types.contains(rtype))
    }
}

/// Zones served together.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Name for printing.
    pub name: &'static str,
    /// The zones.
    pub zones: Vec<Zone>,
    /// Its share of the queries, in percent.
    pub share: usize,
}

impl World {
    /// Returns the zone that contains `name`: the longest match.
    pub(crate) fn zone_of(&self, name: &Name) -> Option<&Zone> {
        self.zones.iter().filter(|z| name.is_under(&z.name)).max_by_key(|z| z.name.0.len())
    }
}

macro_rules! zone_text {
    ($name:literal) => {
        include_str!(concat!("../../zones/", $name, ".zone"))
    };
}

/// How non-existence is proved.
#[derive(Clone, Copy, Debug)]
enum Chain {
    Nsec,
    Nsec3 { salt: &'static str, iterations: u16, opt_out: bool },
}

/// Creates all worlds under `dir`.
pub(crate) fn make(dir: &Path, seed: u64, root_zone: Option<&Path>) -> Result<Vec<World>, String> {
    let mut worlds = vec![plain_world(dir, seed)?, signed_world(dir, seed)?];
    match root_zone {
        Some(path) => worlds.push(root_world(dir, path)?),
        None => println!("no signed root zone given or found: its part is skipped (--root-zone PATH)"),
    }
    Ok(worlds)
}

fn plain_world(dir: &Path, seed: u64) -> Result<World, String> {
    let dir = dir.join("plain");
    let mut zones = Vec::new();
    for (name, text) in [
        ("hard.test.", zone_text!("hard")),
        ("child.hard.test.", zone_text!("child")),
        ("grand.middle.hard.test.", zone_text!("grand")),
        ("wild.test.", zone_text!("wild")),
        ("dname.test.", zone_text!("dname")),
        ("apexdname.test.", zone_text!("apexdname")),
        ("chain-a.test.", zone_text!("chain-a")),
        ("chain-b.test.", zone_text!("chain-b")),
        ("odd.test.", zone_text!("odd")),
        ("cuts.test.", zone_text!("cuts")),
        ("big.test.", zone_text!("big")),
    ] {
        zones.push(plain(&dir, name, text)?);
    }
    let mut occluded = plain(&dir, "occluded.test.", zone_text!("occluded"))?;
    occluded.refused_by = vec![Kind::Nsd];
    zones.push(occluded);
    // BIND's tool would write mnemonics of types that the others read as numbers only.
    let mut types = plain(&dir, "types.test.", zone_text!("types"))?;
    types.full = types.source.clone();
    zones.push(types);
    let text = zone_text!("wildns");
    let mut wildns = write_source(&dir, "wildns.test.", text)?;
    wildns.full = wildns.source.clone();
    wildns.refused_by = vec![Kind::Bind];
    read_nodes(&mut wildns, text)?;
    zones.push(wildns);
    let mut rng = Rng::new(seed);
    for (name, text) in random::zones(&mut rng, 24, "rnd") {
        zones.push(plain(&dir, &name, &text)?);
    }
    Ok(World { name: "plain", zones, share: 45 })
}

fn signed_world(dir: &Path, seed: u64) -> Result<World, String> {
    let dir = dir.join("signed");
    let mut zones = Vec::new();
    let plain3 = Chain::Nsec3 { salt: "-", iterations: 0, opt_out: false };
    let salted = Chain::Nsec3 { salt: "5a17", iterations: 10, opt_out: false };
    let opt_out = Chain::Nsec3 { salt: "-", iterations: 0, opt_out: true };
    let main = [("nsec.", Chain::Nsec), ("nsec3.", plain3), ("salt.", salted), ("optout.", opt_out)];
    for (name, chain) in main {
        zones.push(signed(&dir, name, zone_text!("signed"), chain)?);
        zones.push(signed(&dir, &format!("child.{name}"), zone_text!("signed-child"), chain)?);
        zones.push(plain(&dir, &format!("plain.{name}"), zone_text!("signed-child"))?);
        zones.push(signed(&dir, &format!("stars.{name}"), zone_text!("wild"), chain)?);
        zones.push(signed(&dir, &format!("cutzone.{name}"), zone_text!("cuts"), chain)?);
        zones.push(signed(&dir, &format!("redirect.{name}"), zone_text!("dname"), chain)?);
    }
    zones.push(signed(&dir, "odd.nsec.", zone_text!("odd"), Chain::Nsec)?);
    zones.push(signed(&dir, "odd.nsec3.", zone_text!("odd"), plain3)?);
    // For a server, a DNSKEY below the apex or a DS without a cut is ordinary data, but the signer refuses
    // it; the signer also writes mnemonics that NSD and Knot do not read.
    let keep = |line: &&str| {
        let by_number = line.contains("\tTYPE") && !["TYPE65", "TYPE1234"].iter().any(|t| line.contains(t));
        !by_number && !line.contains("\tDNSKEY\t") && !line.contains("\tDS\t")
    };
    let types: Vec<_> = zone_text!("types").lines().filter(keep).collect();
    zones.push(signed(&dir, "types.nsec.", &(types.join("\n") + "\n"), Chain::Nsec)?);
    let rfc = Chain::Nsec3 { salt: "aabbccdd", iterations: 12, opt_out: true };
    zones.push(signed(&dir, "example.", zone_text!("rfc5155"), rfc)?);
    let mut rng = Rng::new(seed ^ 0x5151);
    for (i, (name, text)) in random::zones(&mut rng, 8, "srnd").into_iter().enumerate() {
        let chain = [Chain::Nsec, plain3, opt_out, salted][i % 4];
        zones.push(signed(&dir, &name, &text, chain)?);
    }
    Ok(World { name: "signed", zones, share: 40 })
}

fn root_world(dir: &Path, root_zone: &Path) -> Result<World, String> {
    let dir = dir.join("root");
    let text = Command::new("gzip").arg("-dc").arg(root_zone).output().map_err(|e| format!("gzip: {e}"))?;
    if !text.status.success() {
        return Err(format!("{}: {}", root_zone.display(), String::from_utf8_lossy(&text.stderr)));
    }
    let text = String::from_utf8(text.stdout).map_err(|e| format!("{}: {e}", root_zone.display()))?;
    let mut root = plain(&dir, ".", &text)?;
    root.signed = true;
    let zones = vec![
        root,
        // RFC 5155's example zone has the same name, so this one is in another world.
        signed(&dir, "example.", zone_text!("rfc4035"), Chain::Nsec)?,
        plain(&dir, "hard.test.", zone_text!("hard"))?,
        plain(&dir, "chain-b.test.", zone_text!("chain-b"))?,
        plain(&dir, "com.", zone_text!("chain-a"))?,
    ];
    Ok(World { name: "root", zones, share: 15 })
}

/// Returns the base name of a zone's files.
pub(crate) fn file_stem(name: &str) -> String {
    if name == "." { "root".to_owned() } else { name.trim_end_matches('.').to_owned() }
}

fn write_source(dir: &Path, name: &str, text: &str) -> Result<Zone, String> {
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let source = dir.join(format!("{}.zone", file_stem(name)));
    fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
    let apex = Name::from_text(name).ok_or_else(|| format!("{name}: not a name"))?;
    let full = dir.join(format!("{}.full", file_stem(name)));
    Ok(Zone { name: apex, source, full, refused_by: vec![], nodes: BTreeMap::new(), signed: false })
}

/// Writes a zone's text and its expanded form.
pub(crate) fn plain(dir: &Path, name: &str, text: &str) -> Result<Zone, String> {
    let mut zone = write_source(dir, name, text)?;
    expand(name, &zone.source, &zone.full)?;
    let full = fs::read_to_string(&zone.full).map_err(|e| e.to_string())?;
    read_nodes(&mut zone, &full)?;
    Ok(zone)
}

/// Expands `source` with BIND's tool, without checks: the zones contain errors on purpose.
pub(crate) fn expand(name: &str, source: &Path, full: &Path) -> Result<(), String> {
    let mut command = Command::new("named-compilezone");
    command.args(
        "-F text -s full -i none -k ignore -n ignore -m ignore -M ignore -S ignore -r ignore -j".split(' '),
    );
    command.arg("-o").arg(full).arg(name).arg(source);
    run(&mut command)?;
    let text = fs::read_to_string(full).map_err(|e| e.to_string())?;
    let lines: Vec<_> = text.lines().filter(|l| !l.starts_with(';')).map(escape_names).collect();
    fs::write(full, lines.join("\n") + "\n").map_err(|e| e.to_string())
}

/// Escapes every unusual byte of the owner and of NSEC's next name as `\DDD`: BIND's tool leaves some bare
/// that Knot refuses.
fn escape_names(line: &str) -> String {
    let mut words: Vec<String> = line.split_ascii_whitespace().take(5).map(str::to_owned).collect();
    let is_nsec = words.get(3).is_some_and(|t| t == "NSEC");
    let end = if is_nsec { 5 } else { 1 };
    let Some(mut rest) = words.first().map(|_| line) else { return String::new() };
    for _ in 0..end {
        rest = rest.trim_start().split_once([' ', '\t']).map_or("", |(_, rest)| rest);
    }
    words.truncate(end);
    for at in [0, 4] {
        if let Some(word) = words.get_mut(at)
            && let Some(name) = Name::from_text(word)
        {
            *word = name.to_string();
        }
    }
    format!("{} {}", words.join(" "), rest.trim_start())
}

fn signed(dir: &Path, name: &str, text: &str, chain: Chain) -> Result<Zone, String> {
    let mut zone = plain(dir, name, text)?;
    let keys = dir.join(format!("{}.keys", file_stem(name)));
    fs::create_dir_all(&keys).map_err(|e| e.to_string())?;
    for flags in [&["-f", "KSK"][..], &[]] {
        let mut keygen = Command::new("dnssec-keygen");
        run(keygen.args(["-q", "-a", "ECDSAP256SHA256"]).args(flags).arg("-K").arg(&keys).arg(name))?;
    }
    let out = dir.join(format!("{}.signed", file_stem(name)));
    let mut signzone = Command::new("dnssec-signzone");
    signzone.args(["-q", "-P", "-S", "-x", "-e", "20380101000000", "-s", "20260101000000"]);
    signzone.args(["-d"]).arg(&keys).arg("-K").arg(&keys).arg("-o").arg(name).arg("-f").arg(&out);
    if let Chain::Nsec3 { salt, iterations, opt_out } = chain {
        signzone.args(["-3", salt, "-H", &iterations.to_string()]);
        if opt_out {
            signzone.arg("-A");
        }
    }
    run(signzone.arg(&zone.full))?;
    expand(name, &out, &zone.full)?;
    zone.source = out;
    zone.signed = true;
    let full = fs::read_to_string(&zone.full).map_err(|e| e.to_string())?;
    zone.nodes.clear();
    read_nodes(&mut zone, &full)?;
    Ok(zone)
}

/// Runs a program; fails if it does.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    output(command).map(drop)
}

/// Runs a program and returns its output; fails if it does.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", command.get_program().to_string_lossy()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!(
        "{:?}: {}\n{}{}",
        command,
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Reads owners and types from the expanded form: `owner TTL IN TYPE RDATA`, one per line.
pub(crate) fn read_nodes(zone: &mut Zone, text: &str) -> Result<(), String> {
    for line in text.lines().filter(|l| !l.starts_with(';') && !l.trim().is_empty()) {
        let mut words = line.split_ascii_whitespace();
        let (Some(owner), Some(_ttl), Some("IN"), Some(rtype)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("{}: cannot read: {line}", zone.name));
        };
        let owner = Name::from_text(owner).ok_or_else(|| format!("{}: bad owner: {line}", zone.name))?;
        zone.nodes.entry(owner.lower()).or_default().insert(rtype.to_owned());
    }
    Ok(())
}
