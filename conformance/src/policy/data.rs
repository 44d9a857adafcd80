//! The data zones: a root, two top-level domains, and zones with hosts, aliases, DNAMEs and wildcards below
//! them, signed and unsigned; and what a resolver finds in them.

use crate::attacks::signed_zone;
use crate::internet::links::Links;
use crate::internet::sites::{self, HOSTS, Sites};
use crate::name::Name;
use crate::query::rtype;
use crate::rng::Rng;
use crate::servers::Kind;
use crate::zones;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Name of the root server.
const ROOT_SERVER: &str = "a.root-servers.one.";
/// Number of hosts of each zone.
const HOSTS_PER_ZONE: usize = 10;
/// Number of aliases of each zone, for each number of steps up to [`STEPS`].
const ALIASES: usize = 3;
/// Number of steps of the longest chain of aliases.
const STEPS: usize = 4;

/// RDATA of the types that zones have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(Name),
    Mx(u16, Name),
    Txt(String),
    Dname(Name),
}

impl Data {
    /// Returns the TYPE.
    pub(crate) fn rtype(&self) -> u16 {
        match self {
            Self::A(_) => rtype::A,
            Self::Aaaa(_) => rtype::AAAA,
            Self::Cname(_) => rtype::CNAME,
            Self::Mx(..) => rtype::MX,
            Self::Txt(_) => rtype::TXT,
            Self::Dname(_) => rtype::DNAME,
        }
    }

    /// Returns the wire format, names in lower case.
    pub(crate) fn to_wire(&self) -> Vec<u8> {
        match self {
            Self::A(ip) => ip.octets().to_vec(),
            Self::Aaaa(ip) => ip.octets().to_vec(),
            Self::Cname(name) | Self::Dname(name) => name.lower().to_wire(),
            Self::Mx(preference, name) => [&preference.to_be_bytes()[..], &name.lower().to_wire()].concat(),
            Self::Txt(text) => [&[text.len() as u8], text.as_bytes()].concat(),
        }
    }

    /// Returns the address of an A or AAAA record.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::A(ip) => Some((*ip).into()),
            Self::Aaaa(ip) => Some((*ip).into()),
            _ => None,
        }
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::A(ip) => write!(f, "A {ip}"),
            Self::Aaaa(ip) => write!(f, "AAAA {ip}"),
            Self::Cname(name) => write!(f, "CNAME {name}"),
            Self::Mx(preference, name) => write!(f, "MX {preference} {name}"),
            Self::Txt(text) => write!(f, "TXT \"{text}\""),
            Self::Dname(name) => write!(f, "DNAME {name}"),
        }
    }
}

/// A name server of a zone.
#[derive(Clone, Debug)]
pub(crate) struct NameServer {
    /// Its name.
    pub name: Name,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// A data zone.
#[derive(Clone, Debug)]
pub(crate) struct DataZone {
    /// The apex.
    pub apex: Name,
    /// Whether it and all zones above it are signed.
    pub signed: bool,
    /// The program that serves it.
    host: Kind,
    /// Its name servers.
    pub servers: Vec<NameServer>,
    /// Its records, without NS and SOA.
    records: BTreeMap<Name, Vec<Data>>,
}

/// What is found at one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Records of the type.
    Records(Vec<Data>),
    /// A CNAME, or a DNAME above the name, with the target.
    Alias { dname: Option<(Name, Name)>, target: Name },
    /// A DNAME whose substitution is too long.
    TooLong,
    /// The name exists without records of the type.
    NoData,
    /// The name does not exist.
    NxDomain,
}

/// All data zones.
#[derive(Clone, Debug)]
pub(crate) struct DataZones {
    /// The zones, parents first.
    pub zones: Vec<DataZone>,
}

/// Returns a name given in text that is part of this program.
pub(crate) fn name(text: &str) -> Name {
    Name::from_text(text).unwrap_or_default()
}

/// Zones below the top-level domains: apex, and the name servers with the indices of their IPv4 and IPv6
/// addresses; 0 for none. A server of `host.bare.` has its addresses there, without glue.
type Plan = (&'static str, &'static [(&'static str, u8, u8)]);

const PLANS: [Plan; 9] = [
    ("host.bare.", &[("ns0.host.bare.", 1, 1)]),
    ("garden.bare.", &[("ns0.garden.bare.", 1, 0)]),
    ("a.sig.", &[("ns0.a.sig.", 1, 0), ("ns1.a.sig.", 2, 2)]),
    ("b.sig.", &[("ns1.host.bare.", 2, 0)]),
    ("c.sig.", &[("ns0.c.sig.", 3, 0), ("ns2.host.bare.", 4, 4)]),
    ("d.bare.", &[("ns0.d.bare.", 3, 3)]),
    ("e.bare.", &[("ns2.host.bare.", 4, 4)]),
    ("f.bare.", &[("ns0.f.bare.", 0, 4), ("ns1.f.bare.", 4, 0)]),
    ("g.bare.", &[("ns0.g.bare.", 2, 0), ("ns1.host.bare.", 2, 0)]),
];
/// Zones that are delegated from those, with servers of the top-level domains' program.
const BELOW: [Plan; 2] =
    [("sub.a.sig.", &[("ns0.sub.a.sig.", 3, 0)]), ("sub.d.bare.", &[("ns3.host.bare.", 4, 0)])];

impl DataZones {
    /// Plans the zones.
    pub(crate) fn plan(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0900_0000);
        let root = NameServer { name: name(ROOT_SERVER), addresses: address(Kind::Nsd, 1, 1) };
        let mut zones = vec![zone(Name::root(), Kind::Nsd, vec![root])];
        for (at, tld) in ["sig.", "bare."].into_iter().enumerate() {
            let at = at as u8 + 1;
            let server = name(&format!("ns.nic.{tld}"));
            let addresses = address(Kind::Knot, at, at);
            zones.push(zone(name(tld), Kind::Knot, vec![NameServer { name: server, addresses }]));
        }
        for (plans, host) in [(&PLANS[..], Kind::Bind), (&BELOW[..], Kind::Knot)] {
            for (apex, servers) in plans {
                let server = |(server, v4, v6): &(&str, u8, u8)| NameServer {
                    name: name(server),
                    addresses: address(host, *v4, *v6),
                };
                zones.push(zone(name(apex), host, servers.iter().map(server).collect()));
            }
        }
        let mut all = Self { zones };
        let apexes: Vec<Name> = all.zones[3..].iter().map(|zone| zone.apex.clone()).collect();
        for apex in &apexes {
            all.fill(apex, &mut rng);
        }
        for apex in &apexes {
            all.link(apex, &apexes, &mut rng);
        }
        all.add_server_addresses();
        all
    }

    /// Writes and signs all zones.
    pub(crate) fn make(&self, dir: &Path) -> Result<Sites, String> {
        let mut texts: Vec<String> = self.zones.iter().map(|zone| self.text(zone)).collect();
        let mut written = Vec::new();
        let mut anchor = String::new();
        // Children first: the DS of each is added to its parent zone.
        for (at, zone) in self.zones.iter().enumerate().rev() {
            let apex = zone.apex.to_string();
            let mut file = if zone.signed {
                let (file, ds) = signed_zone(dir, &apex, &texts[at], &[])?;
                match self.parent(&zone.apex) {
                    Some(parent) => drop(writeln!(texts[parent], "{apex} DS {ds}")),
                    None => anchor = ds,
                }
                file
            } else {
                zones::plain(dir, &apex, &texts[at])?
            };
            file.source = file.full.clone();
            file.refused_by = HOSTS.into_iter().filter(|kind| *kind != zone.host).collect();
            written.push(file);
        }
        written.reverse();
        Ok(Sites {
            zones: written,
            conditions: BTreeMap::new(),
            links: Links::default(),
            alone: BTreeMap::new(),
            anchor,
            root: address(Kind::Nsd, 1, 1),
        })
    }

    /// Returns the zone that contains a name.
    pub(crate) fn zone_of(&self, name: &Name) -> &DataZone {
        let holds = |zone: &&DataZone| name.is_under(&zone.apex);
        let deepest = self.zones.iter().filter(holds).max_by_key(|zone| zone.apex.0.len());
        deepest.unwrap_or(&self.zones[0])
    }

    /// Returns all names with records, without those of the root.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.zones[1..].iter().flat_map(|zone| zone.records.keys().cloned()).collect()
    }

    /// Returns the addresses of hosts.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let all = self.zones[3..].iter().flat_map(|zone| zone.records.values().flatten());
        all.filter_map(Data::address).collect()
    }

    /// Looks one name up, without following aliases.
    pub(crate) fn find(&self, name: &Name, qtype: u16) -> Found {
        let zone = self.zone_of(name);
        let name = name.lower();
        if let Some(records) = zone.records.get(&name) {
            return of_type(records, qtype);
        }
        if name == zone.apex {
            return Found::NoData;
        }
        let exists = |name: &Name| zone.records.keys().any(|owner| owner.is_under(name));
        let mut encloser = name.parent();
        loop {
            let records = zone.records.get(&encloser).map_or(&[][..], Vec::as_slice);
            if let Some(target) = records.iter().find_map(|data| match data {
                Data::Dname(target) => Some(target.clone()),
                _ => None,
            }) {
                let kept = name.0.len() - encloser.0.len();
                let labels = name.0[..kept].iter().chain(&target.0).cloned().collect();
                let dname = (encloser, target);
                let target = Name(labels);
                return match target.is_legal() {
                    true => Found::Alias { dname: Some(dname), target },
                    false => Found::TooLong,
                };
            }
            if encloser == zone.apex {
                break;
            }
            encloser = encloser.parent();
        }
        if exists(&name) {
            return Found::NoData;
        }
        let mut encloser = name.parent();
        while encloser != zone.apex && !exists(&encloser) {
            encloser = encloser.parent();
        }
        zone.records.get(&encloser.child(b"*")).map_or(Found::NxDomain, |records| of_type(records, qtype))
    }

    fn parent(&self, apex: &Name) -> Option<usize> {
        let above = |zone: &DataZone| *apex != zone.apex && apex.is_under(&zone.apex);
        (0..self.zones.len())
            .filter(|at| above(&self.zones[*at]))
            .max_by_key(|at| self.zones[*at].apex.0.len())
    }

    fn zone_mut(&mut self, apex: &Name) -> Option<&mut DataZone> {
        self.zones.iter_mut().find(|zone| zone.apex == *apex)
    }

    fn add(&mut self, apex: &Name, label: &str, data: Data) {
        let owner = under(apex, label);
        if let Some(zone) = self.zone_mut(apex) {
            let records = zone.records.entry(owner).or_default();
            if !records.contains(&data) {
                records.push(data);
            }
        }
    }

    /// Adds hosts, wildcards and a tree that DNAMEs lead to.
    fn fill(&mut self, apex: &Name, rng: &mut Rng) {
        let mut hosts: Vec<String> = (0..HOSTS_PER_ZONE).map(|n| format!("h{n}")).collect();
        hosts.extend(["@", "*.w", "*.deep.w", "x.tree", "y.tree", "*.stars.tree"].map(str::to_owned));
        for host in &hosts {
            for _ in 0..1 + rng.below(3) {
                self.add(apex, host, Data::A(v4(rng)));
            }
            for _ in 0..rng.below(3) {
                self.add(apex, host, Data::Aaaa(v6(rng)));
            }
            if rng.chance(40) {
                self.add(apex, host, Data::Mx(10, under(apex, "h1")));
            }
            if rng.chance(40) {
                self.add(apex, host, Data::Txt(format!("{host} {}", rng.below(100))));
            }
        }
        self.add(apex, "text.only", Data::Txt("text".to_owned()));
        self.add(apex, "six", Data::Aaaa(v6(rng)));
    }

    /// Adds aliases and DNAMEs into all zones.
    fn link(&mut self, apex: &Name, apexes: &[Name], rng: &mut Rng) {
        for steps in 1..=STEPS {
            for n in 0..ALIASES {
                let target = if steps == 1 {
                    let host = ["h0", "h1", "h2", "h3", "six", "a.w", "x.moved", "gone", "text.only"];
                    under(rng.pick(apexes), rng.pick::<&str>(&host))
                } else {
                    under(rng.pick(apexes), &format!("k{}x{}", steps - 1, rng.below(ALIASES)))
                };
                self.add(apex, &format!("k{steps}x{n}"), Data::Cname(target));
            }
        }
        self.add(apex, "*.walias", Data::Cname(under(rng.pick(apexes), "h4")));
        self.add(apex, "moved", Data::Dname(under(rng.pick(apexes), "tree")));
    }

    fn add_server_addresses(&mut self) {
        let servers: Vec<NameServer> =
            self.zones[1..].iter().flat_map(|zone| zone.servers.iter().cloned()).collect();
        for server in servers {
            let apex = self.zone_of(&server.name).apex.clone();
            if let Some(zone) = self.zone_mut(&apex) {
                let records = zone.records.entry(server.name).or_default();
                for ip in server.addresses {
                    let data = match ip {
                        IpAddr::V4(ip) => Data::A(ip),
                        IpAddr::V6(ip) => Data::Aaaa(ip),
                    };
                    if !records.contains(&data) {
                        records.push(data);
                    }
                }
            }
        }
    }

    fn text(&self, zone: &DataZone) -> String {
        let mut out = String::from("$TTL 3600\n");
        let first = &zone.servers[0].name;
        let _ = writeln!(out, "@ SOA {first} hostmaster.host.bare. 1 3600 600 86400 300");
        out += &servers(zone, zone.apex.0.is_empty());
        for (owner, records) in &zone.records {
            for data in records {
                let _ = writeln!(out, "{owner} {data}");
            }
        }
        for (at, below) in self.zones.iter().enumerate() {
            if self.parent(&below.apex).is_some_and(|parent| self.zones[parent].apex == zone.apex) && at > 0 {
                out += &servers(below, true);
            }
        }
        out
    }
}

/// Returns a zone's NS records; with `glue`, also the addresses of servers inside it.
fn servers(zone: &DataZone, glue: bool) -> String {
    let mut out = String::new();
    for server in &zone.servers {
        let _ = writeln!(out, "{} NS {}", zone.apex, server.name);
        if glue && server.name.is_under(&zone.apex) {
            for ip in &server.addresses {
                let of = if ip.is_ipv4() { "A" } else { "AAAA" };
                let _ = writeln!(out, "{} {of} {ip}", server.name);
            }
        }
    }
    out
}

fn of_type(records: &[Data], qtype: u16) -> Found {
    let wanted: Vec<Data> = records.iter().filter(|data| data.rtype() == qtype).cloned().collect();
    let alias = records.iter().find_map(|data| match data {
        Data::Cname(target) => Some(target.clone()),
        _ => None,
    });
    match alias {
        _ if !wanted.is_empty() => Found::Records(wanted),
        Some(target) => Found::Alias { dname: None, target },
        None => Found::NoData,
    }
}

fn zone(apex: Name, host: Kind, servers: Vec<NameServer>) -> DataZone {
    let signed = !apex.is_under(&name("bare."));
    DataZone { apex, signed, host, servers, records: BTreeMap::new() }
}

/// Returns the addresses of a program with these indices, without those with index 0.
fn address(kind: Kind, v4: u8, v6: u8) -> Vec<IpAddr> {
    let all = sites::addresses(kind);
    let one = |n: u8, is_v6: bool| {
        let mut of_family = all.iter().map(|at| at.ip()).filter(move |ip| ip.is_ipv6() == is_v6);
        usize::from(n).checked_sub(1).and_then(|at| of_family.nth(at))
    };
    [one(v4, false), one(v6, true)].into_iter().flatten().collect()
}

fn v4(rng: &mut Rng) -> Ipv4Addr {
    let [a, b, c] = *rng.pick(&[[192, 0, 2], [198, 51, 100], [203, 0, 113]]);
    Ipv4Addr::new(a, b, c, rng.below(64) as u8)
}

fn v6(rng: &mut Rng) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, rng.below(3) as u16, 0, 0, 0, 0, rng.below(32) as u16)
}

/// Returns a name below `apex`, from labels in text; `@` is the apex.
pub(crate) fn under(apex: &Name, text: &str) -> Name {
    if text == "@" {
        return apex.clone();
    }
    text.split('.').rev().fold(apex.clone(), |name, label| name.child(label.as_bytes()))
}
