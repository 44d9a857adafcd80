//! Queries for resolvers: existing and non-existent names, wildcards, CNAMEs from zone to zone, cuts and
//! empty non-terminals, in every zone of the small Internet.

use super::sites::{HOST, Sites};
use crate::name::Name;
use crate::query::{Edns, Query, rtype};
use crate::rng::Rng;
use crate::zones::Zone;

/// QTYPEs for any name, the common ones more often.
const TYPES: [u16; 16] = [1, 1, 1, 28, 28, 16, 15, 2, 6, 43, 48, 33, 65, 257, 5, 39];

/// Makes queries.
#[derive(Debug)]
pub(crate) struct Generator<'a> {
    sites: &'a Sites,
    rng: Rng,
}

impl<'a> Generator<'a> {
    /// Creates a generator; its queries depend only on `seed` and the zones.
    pub(crate) fn new(sites: &'a Sites, seed: u64) -> Self {
        Self { sites, rng: Rng::new(seed ^ 0x9e5_0000) }
    }

    /// Returns the next query.
    pub(crate) fn next_query(&mut self) -> Query {
        let (name, qtype) = self.question();
        let rng = &mut self.rng;
        let edns = Edns { size: 4096, version: 0, dnssec_ok: rng.chance(50), options: Vec::new() };
        Query {
            rd: true,
            cd: rng.chance(10),
            ad: rng.chance(40),
            edns: rng.chance(90).then_some(edns),
            ..Query::plain(name, qtype)
        }
    }

    fn question(&mut self) -> (Name, u16) {
        let zone = self.rng.pick(&self.sites.zones);
        let rng = &mut self.rng;
        let any = *rng.pick(&TYPES);
        match rng.below(100) {
            0..25 => existing(zone, rng),
            25..37 => (existing(zone, rng).0, any),
            37..50 => (existing(zone, rng).0.child(&label(rng)), any),
            50..60 => {
                let star = ["wild", "wild", "walias", "stars.tree"];
                let below = under(zone, one(&star, rng)).child(&label(rng));
                let name = if rng.chance(20) { below.child(&label(rng)) } else { below };
                (name, *rng.pick(&[rtype::A, rtype::A, rtype::TXT, 28, rtype::CNAME]))
            }
            60..72 => {
                let alias = ["alias", "chain", "far", "further", "gone", "loop"];
                (under(zone, one(&alias, rng)), *rng.pick(&[1, 1, 1, 28, 16, 5, 43]))
            }
            72..80 => {
                let moved = ["x.moved", "y.moved", "moved", "nothing.moved", "q.stars.moved", "tree"];
                (under(zone, one(&moved, rng)), *rng.pick(&[1, 1, 16, 28, 39, 5]))
            }
            80..88 => (zone.name.clone(), *rng.pick(&[rtype::DS, rtype::DS, rtype::NS])),
            88..92 => {
                let between = ["ent", "deep.ent", "b", "nic", "_tcp"];
                (under(zone, one(&between, rng)), any)
            }
            92..96 => (zone.name.clone(), *rng.pick(&[48, 6, 2, 51])),
            _ => (Name::root().child(&label(rng)), any),
        }
    }
}

/// Makes `count` queries, each for another name in these zones: most for existing hosts, a tenth of those for
/// addresses that they do not have, the others for non-existent names between the hosts and for names that
/// match a wildcard. Half of them set DO.
pub(crate) fn different(zones: &[&Zone], count: usize, seed: u64) -> Vec<Query> {
    let mut rng = Rng::new(seed ^ 0xd1f_0000);
    let is_host = |name: &&Name| name.0.first().is_some_and(|label| label.starts_with(HOST.as_bytes()));
    let mut hosts: Vec<&Name> = zones.iter().flat_map(|zone| zone.nodes.keys().filter(is_host)).collect();
    for last in (1..hosts.len()).rev() {
        hosts.swap(last, rng.below(last + 1));
    }
    let question = |number: usize| {
        let zone = rng.pick(zones);
        let share = rng.below(100);
        let host = if share < 78 { hosts.pop() } else { None };
        let between = format!("{HOST}{}-{number:x}", rng.below(1000));
        let (name, qtype) = match (share, host) {
            (0..70, Some(host)) => (host.clone(), rtype::A),
            (_, Some(host)) => (host.clone(), rtype::AAAA),
            (0..90, None) => (under(zone, "wild").child(between.as_bytes()), rtype::A),
            _ => (zone.name.child(between.as_bytes()), rtype::A),
        };
        let edns = Edns { size: 1232, version: 0, dnssec_ok: rng.chance(50), options: Vec::new() };
        Query { rd: true, edns: Some(edns), ..Query::plain(name, qtype) }
    };
    (0..count).map(question).collect()
}

/// Picks an existing name, with a type that it has.
fn existing(zone: &Zone, rng: &mut Rng) -> (Name, u16) {
    let named = |types: &std::collections::BTreeSet<String>| !types.contains("NSEC3");
    let nodes: Vec<_> = zone.nodes.iter().filter(|(_, types)| named(types)).collect();
    let (name, types) = rng.pick(&nodes);
    let types: Vec<u16> = types.iter().filter_map(|text| of_text(text)).collect();
    let qtype = if types.is_empty() { rtype::A } else { *rng.pick(&types) };
    ((*name).clone(), qtype)
}

fn of_text(text: &str) -> Option<u16> {
    Some(match text {
        "A" => 1,
        "NS" => 2,
        "CNAME" => 5,
        "SOA" => 6,
        "MX" => 15,
        "TXT" => 16,
        "AAAA" => 28,
        "SRV" => 33,
        "DNAME" => 39,
        "DS" => 43,
        "DNSKEY" => 48,
        "HTTPS" => 65,
        "CAA" => 257,
        _ => return None,
    })
}

fn one<'w>(words: &[&'w str], rng: &mut Rng) -> &'w str {
    rng.pick::<&str>(words)
}

fn under(zone: &Zone, text: &str) -> Name {
    text.split('.').rev().fold(zone.name.clone(), |name, label| name.child(label.as_bytes()))
}

/// Makes a label that occurs in no zone.
fn label(rng: &mut Rng) -> Vec<u8> {
    format!("q{:x}", rng.next() & 0xff_ffff).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn zone(name: &str, hosts: usize) -> Zone {
        let name = Name::from_text(name).unwrap();
        let node = |label: String| (name.child(label.as_bytes()), BTreeSet::from(["A".to_owned()]));
        let mut nodes: BTreeMap<_, _> = (0..hosts).map(|n| node(format!("{HOST}{n}"))).collect();
        nodes.extend([node("www".to_owned())]);
        let (source, full) = Default::default();
        Zone { name, source, full, refused_by: Vec::new(), nodes, signed: false }
    }

    #[test]
    fn every_name_is_another_and_most_are_hosts() {
        let zones = [zone("a.one.", 500), zone("b.two.", 500)];
        let zones: Vec<&Zone> = zones.iter().collect();
        let queries = different(&zones, 1200, 7);
        let names: BTreeSet<_> = queries.iter().map(|query| query.name.lower()).collect();
        assert_eq!((queries.len(), names.len()), (1200, 1200));
        let there = |query: &&Query| zones.iter().any(|zone| zone.nodes.contains_key(&query.name));
        let hosts = queries.iter().filter(there).count();
        assert!((880..=1000).contains(&hosts), "{hosts}");
        assert!(queries.iter().all(|query| query.rd && !query.cd && query.name.is_legal()));
        let with_do = queries.iter().filter(|q| q.edns.as_ref().is_some_and(|edns| edns.dnssec_ok)).count();
        assert!((500..700).contains(&with_do), "{with_do}");
        assert_eq!(different(&zones, 1200, 7), queries);
        assert_ne!(different(&zones, 1200, 8), queries);
    }
}
