//! nomen as a secondary of peers with a world's zones: once with whole zones (AXFR), and once with
//! differences (IXFR) from earlier versions. Its counters must show that the zones were transferred this way;
//! queries show that their contents are right.

use crate::Arguments;
use crate::client;
use crate::fronts;
use crate::name::Name;
use crate::query::{Query, rtype};
use crate::rng::Rng;
use crate::servers::{Duty, Kind, METRICS_OFFSET, Server};
use crate::zones::{World, Zone};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Offset of the first port here from the first port of the run.
const PORT_OFFSET: u16 = 20;
/// Peers that send differences. Those of NSD 4.6 contain records that do not differ, and NSD makes none of
/// zones with NSEC3: it only sends whole zones here.
const WITH_DIFFERENCES: [Kind; 2] = [Kind::Bind, Kind::Knot];
/// Maximum number of records of a zone that differ between two versions.
const MOST_CHANGES: usize = 200;

/// Where nomen's zones come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    /// Zone files.
    File,
    /// Transfers of whole zones.
    Axfr,
    /// Differences from earlier versions.
    Ixfr,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "",
            Self::Axfr => ", zones by AXFR",
            Self::Ixfr => ", zones by IXFR",
        })
    }
}

/// Counts of transfers, in all worlds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// Zones transferred whole.
    pub whole: u64,
    /// Zones of which differences were transferred.
    pub differences: u64,
    /// Records removed or added to make the earlier versions.
    pub changes: usize,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, differences, changes } = self;
        write!(f, "{whole} transfers of whole zones, {differences} of differences with {changes} changes")
    }
}

/// The secondaries of one world; none if nomen only reads files.
#[derive(Debug, Default)]
pub(crate) struct Secondaries {
    /// The secondaries, with the origin of their zones.
    pub list: Vec<(Origin, Server)>,
    /// The primaries, which run as long as the secondaries.
    _primaries: Vec<Server>,
}

impl Secondaries {
    /// Starts primaries with earlier versions of the zones and a secondary of them, and updates both to the
    /// real versions. Then starts another secondary, which transfers some of the zones from NSD.
    pub(crate) fn start(
        programs: &BTreeMap<Kind, PathBuf>,
        world: &World,
        arguments: &Arguments,
        dir: &Path,
        moved: &mut Moved,
    ) -> Result<Self, String> {
        let dir = dir.join(format!("{}-secondaries", world.name));
        // Journals of an earlier run would contain later versions.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let port = |index: u16| arguments.port + PORT_OFFSET + index;
        let peers = WITH_DIFFERENCES.into_iter().filter(|kind| programs.contains_key(kind));
        let peers: Vec<Kind> = peers.collect();
        let mut versions = versions(world, &peers, arguments.seed, &dir)?;
        let mut primaries = Vec::new();
        for (at, kind) in (0..).zip(&peers) {
            let zones: Vec<Zone> = of(&versions, *kind).map(|version| version.zone.clone()).collect();
            primaries.push(Server::start(*kind, &programs[kind], port(at), &zones, &dir, Duty::Primary)?);
        }
        let program = &programs[&Kind::Nomen];
        let mut by_ixfr =
            Server::start_secondary(program, port(3), &taken(&versions, &primaries), &dir.join("ixfr"))?;
        let whole = transfers(&by_ixfr, "axfr")?;
        step(&mut primaries, &versions, &mut by_ixfr)?;
        if let Some(program) = programs.get(&Kind::Nsd) {
            let able = versions.iter_mut().filter(|version| version.zone.is_served_by(Kind::Nsd));
            able.step_by(3).for_each(|version| version.primary = Kind::Nsd);
            let zones: Vec<Zone> = of(&versions, Kind::Nsd).map(|version| version.zone.clone()).collect();
            primaries.push(Server::start(Kind::Nsd, program, port(2), &zones, &dir, Duty::Primary)?);
        }
        let by_axfr =
            Server::start_secondary(program, port(4), &taken(&versions, &primaries), &dir.join("axfr"))?;
        let differences = transfers(&by_ixfr, "ixfr")?;
        let found = [whole, transfers(&by_ixfr, "axfr")?, differences, transfers(&by_axfr, "axfr")?];
        let wanted = taken(&versions, &primaries).len() as u64;
        if found != [wanted; 4] {
            let odd = |line: &&str| line.contains("WARN") || line.contains("asked=\"IXFR\" kind=\"AXFR\"");
            let log = by_ixfr.log();
            let odd = log.lines().filter(odd).collect::<Vec<_>>().join("\n");
            return Err(format!("of {wanted} zones {differences} came by differences, not all\n{odd}"));
        }
        moved.whole += 2 * wanted;
        moved.differences += differences;
        moved.changes += versions.iter().map(|version| version.changes).sum::<usize>();
        Ok(Self { list: vec![(Origin::Ixfr, by_ixfr), (Origin::Axfr, by_axfr)], _primaries: primaries })
    }
}

/// Returns the zones that nomen transfers, with the addresses of their primaries.
fn taken(versions: &[Version], primaries: &[Server]) -> Vec<(Zone, SocketAddr)> {
    let address = |kind| primaries.iter().find(|server| server.kind == kind).map(|server| server.address);
    let served = versions.iter().filter(|version| version.zone.is_served_by(Kind::Nomen));
    served.filter_map(|version| Some((version.zone.clone(), address(version.primary)?))).collect()
}

/// A zone at its primary.
#[derive(Debug)]
struct Version {
    /// The zone, with a file of its own.
    zone: Zone,
    /// The kind of its primary.
    primary: Kind,
    /// The real serial and the real text.
    serial: u32,
    text: String,
    /// Number of records that are changed, missing or added in the earlier version.
    changes: usize,
}

/// Returns the zones of one peer.
fn of(versions: &[Version], kind: Kind) -> impl Iterator<Item = &Version> {
    versions.iter().filter(move |version| version.primary == kind)
}

/// Assigns each zone to a peer that serves it, in turn, and writes the earlier versions to files.
fn versions(world: &World, peers: &[Kind], seed: u64, dir: &Path) -> Result<Vec<Version>, String> {
    let mut rng = Rng::new(seed ^ 0x1995);
    let mut versions = Vec::new();
    for (at, zone) in world.zones.iter().enumerate() {
        let able: Vec<Kind> = peers.iter().copied().filter(|kind| zone.is_served_by(*kind)).collect();
        let Some(primary) = able.get(at % able.len().max(1)).copied() else {
            return Err(format!("no peer is left that serves {}", zone.name));
        };
        let text = fs::read_to_string(&zone.full).map_err(|e| format!("{}: {e}", zone.full.display()))?;
        let before = Before::make(&text, &zone.name, &mut rng)
            .ok_or_else(|| format!("{}: no SOA in one line", zone.full.display()))?;
        let name = zone.full.file_name().ok_or("a zone without a file")?;
        let zone = Zone { full: dir.join(name), ..zone.clone() };
        write(&zone.full, &before.text)?;
        let Before { serial, changes, .. } = before;
        versions.push(Version { zone, primary, serial, text, changes });
    }
    Ok(versions)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// An earlier version of a zone.
#[derive(Debug)]
struct Before {
    text: String,
    /// The serial of the real version.
    serial: u32,
    changes: usize,
}

impl Before {
    /// Changes some records of `text`, one per line, that are not at the apex: changes addresses, removes
    /// other records, and adds names that no query asks for.
    fn make(text: &str, apex: &Name, rng: &mut Rng) -> Option<Self> {
        let mut before = Self { text: String::new(), serial: 0, changes: 0 };
        let mut has_soa = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if let Some(soa) = words.iter().position(|word| *word == "SOA").filter(|_| !has_soa) {
                has_soa = true;
                before.serial = words.get(soa + 3)?.parse().ok()?;
                let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
                words[soa + 3] = before.serial.wrapping_sub(1).to_string();
                before.text += &(words.join(" ") + "\n");
                continue;
            }
            // The digest is that of the real version; nomen refuses another version with it.
            if words.contains(&"ZONEMD") && has_soa {
                before.changes += 1;
                continue;
            }
            let owner = line.split([' ', '\t']).next().unwrap_or_default();
            let is_apex = owner == "@" || Name::from_text(owner).is_some_and(|name| name == *apex);
            let is_record = has_soa && !is_apex && !owner.is_empty() && !owner.starts_with([';', '$']);
            if !is_record || before.changes >= MOST_CHANGES || !rng.chance(12) {
                before.text += &format!("{line}\n");
                continue;
            }
            // Addresses are changed, not removed: BIND refuses zones whose name servers have no address.
            before.changes += 1;
            if let [kept @ .., "A", host] = words.as_slice()
                && host.parse::<Ipv4Addr>().is_ok()
            {
                before.text += &format!("{} A {}\n", kept.join(" "), address(before.changes));
            } else if words.contains(&"AAAA") {
                before.text += &format!("{line}\n");
            }
        }
        for _ in 0..1 + rng.below(3) {
            before.changes += 1;
            let name = apex.child(format!("before-{}", before.changes).as_bytes());
            before.text += &format!("{name} 300 IN A {}\n", address(before.changes));
        }
        has_soa.then_some(before)
    }
}

/// Returns an address that no zone contains.
fn address(number: usize) -> String {
    format!("198.18.{}.{}", number / 256, number % 256)
}

/// Updates the primaries to the real versions, and then the secondary.
fn step(primaries: &mut [Server], versions: &[Version], secondary: &mut Server) -> Result<(), String> {
    versions.iter().try_for_each(|version| write(&version.zone.full, &version.text))?;
    let serials: BTreeMap<&Name, u32> =
        versions.iter().map(|version| (&version.zone.name, version.serial)).collect();
    let is_real = |zone: &Zone, serial| serials.get(&zone.name) == Some(&serial);
    for primary in primaries {
        primary.signal(Signal::SIGHUP)?;
        let zones = of(versions, primary.kind).map(|version| &version.zone).collect();
        primary.wait_until(zones, is_real, |_| Ok(()))?;
    }
    let address = secondary.address;
    let zones = versions.iter().map(|version| &version.zone);
    let served = zones.filter(|zone| zone.is_served_by(Kind::Nomen)).collect();
    secondary.wait_until(served, is_real, |missing| notify(address, missing))
}

/// Sends a NOTIFY (RFC 1996) for each of `zones`, in place of their primaries.
fn notify(address: SocketAddr, zones: &[&Zone]) -> Result<(), String> {
    let message = |(id, zone): (usize, &&Zone)| {
        Query { opcode: 4, ..Query::plain(zone.name.clone(), rtype::SOA) }.to_wire(id as u16)
    };
    let messages: Vec<_> = zones.iter().enumerate().map(message).collect();
    client::udp(address, &messages, Duration::from_millis(300)).map(drop).map_err(|e| e.to_string())
}

/// Returns the number of transfers that the server has received in this form.
fn transfers(server: &Server, form: &str) -> Result<u64, String> {
    let figures = fronts::metrics((Ipv4Addr::LOCALHOST, server.address.port() + METRICS_OFFSET).into())?;
    fronts::figure(&figures, "nomen_transfers_received_total", &[format!("result=\"{form}\"")])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "test. 60 IN SOA ns.test. host.test. 7 1 2 3 4\ntest. 60 IN NS ns.test.\n";

    fn before(seed: u64, text: &str) -> Before {
        Before::make(text, &Name::from_text("test.").unwrap(), &mut Rng::new(seed)).unwrap()
    }

    #[test]
    fn the_version_before_differs_and_has_the_serial_before() {
        let records: String = (0..100).map(|n| format!("n{n}.test. 60 IN A 192.0.2.{n}\n")).collect();
        let text = format!("{TEXT}{records}");
        for seed in 0..50 {
            let before = before(seed, &text);
            assert_eq!(before.serial, 7);
            let lines: Vec<&str> = before.text.lines().collect();
            assert_eq!(lines[0], "test. 60 IN SOA ns.test. host.test. 6 1 2 3 4");
            assert_eq!(lines[1], "test. 60 IN NS ns.test.", "the apex stays");
            let same = lines.iter().filter(|line| text.contains(*line)).count();
            assert!(same < 102 && same > 50, "{same} lines are the same with seed {seed}");
        }
        assert_eq!(before(1, &text).text, before(1, &text).text);
        assert!(Before::make("test. 60 IN NS a.\n", &Name::root(), &mut Rng::new(1)).is_none());
    }

    #[test]
    fn serial_numbers_go_round() {
        let before = before(1, &TEXT.replace(" 7 ", " 0 "));
        assert!(before.text.contains(" 4294967295 1 2 3 4"), "{}", before.text);
        assert!(before.changes > 0, "a zone of an apex alone changes, too");
    }
}
