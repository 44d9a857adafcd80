//! The zones that pieces ask: a thousand hosts and delegations, unsigned or with a chain of NSEC or NSEC3.
//! Signatures are made up, since no server looks into them; the chains are true.

use std::collections::{BTreeMap, BTreeSet};

use testkit::Record;
use testkit::answers::base32hex;
use testkit::random::soa;
use wire::hash::HashKey;
use wire::{Name, NameBuf, Ttl, Type};
use zone::Zone;

use crate::name;

/// Hosts, aliases and delegations, each so many.
pub(crate) const EACH: usize = 1000;
/// The TTL of what is in the zone.
const HOUR: Ttl = Ttl::from_secs(3600);
/// The TTL of proofs: that of negative answers.
const MINUTES: Ttl = Ttl::from_secs(300);
/// The RFC 9276 parameters: SHA-1, no flags, no iterations, no salt.
const NSEC3PARAM: [u8; 5] = [1, 0, 0, 0, 0];

/// How a zone proves absence.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Chain {
    None,
    Nsec,
    Nsec3,
}

/// The zone `apex`: `hN`, each with two addresses; `cN`, aliases of those; `dN`, delegated to two hosts below it,
/// half of them with DS; the wildcard `*.w`; and names of six labels below `deep`.
pub(crate) fn zone(key: &HashKey, apex: &str, chain: Chain) -> Zone {
    let apex = name(apex);
    let mut records = plain(apex);
    if chain != Chain::None {
        sign(apex, chain, &mut records);
    }
    testkit::build(apex.as_name(), key, &records)
}

fn plain(apex: NameBuf) -> Vec<Record> {
    let below = |text: String| NameBuf::from_text(text.as_bytes(), Some(apex.as_name())).expect("a name");
    let mut records = Vec::new();
    let mut add = |owner: NameBuf, rtype, rdata: &[u8]| {
        records.push(Record { owner, rtype, ttl: HOUR, rdata: rdata.to_vec() });
    };
    add(apex, Type::SOA, &soa(apex.as_name(), 1));
    add(apex, Type::NS, below("ns1".to_owned()).as_name().as_wire());
    add(below("ns1".to_owned()), Type::A, &[192, 0, 2, 53]);
    add(below("*.w".to_owned()), Type::A, &[192, 0, 2, 42]);
    for i in 0..EACH {
        let host = below(format!("h{i}"));
        add(host, Type::A, &[192, 0, 2, i as u8]);
        add(host, Type::A, &[198, 51, 100, i as u8]);
        add(below(format!("c{i}")), Type::CNAME, host.as_name().as_wire());
        add(below(format!("h{i}.e.d.c.b.deep")), Type::A, &[203, 0, 113, i as u8]);
        let cut = below(format!("d{i}"));
        for n in 1..=2 {
            let server = below(format!("ns{n}.d{i}"));
            add(cut, Type::NS, server.as_name().as_wire());
            add(server, Type::A, &[203, 0, 113, n]);
        }
        if i % 2 == 0 {
            add(cut, Type::DS, &[&[1, 2, 13, 2], [i as u8; 32].as_slice()].concat());
        }
    }
    records
}

/// What a name of the zone has: its types, each with the TTL of its RRset.
type Owned = BTreeMap<Type, Ttl>;

/// Adds the chain, and a signature for every RRset that has one in a signed zone (RFC 4035 §2).
fn sign(apex: NameBuf, chain: Chain, records: &mut Vec<Record>) {
    // A zone key of P-256, made up as well.
    let key = [&[1, 0, 3, 13], [0xcd; 64].as_slice()].concat();
    records.push(Record { owner: apex, rtype: Type::DNSKEY, ttl: HOUR, rdata: key });
    if chain == Chain::Nsec3 {
        records.push(Record {
            owner: apex,
            rtype: Type::NSEC3PARAM,
            ttl: Ttl::ZERO,
            rdata: NSEC3PARAM.to_vec(),
        });
    }
    let names = authoritative(apex, records);
    let proofs = match chain {
        Chain::None => Vec::new(),
        Chain::Nsec => nsec(&names),
        Chain::Nsec3 => nsec3(apex, &names),
    };
    for (owner, sets) in &names {
        let signed = |t: Type| t != Type::NS || *owner == apex;
        let covered = sets.iter().filter(|(t, _)| signed(**t));
        records.extend(covered.map(|(t, ttl)| rrsig(apex, *owner, *t, *ttl)));
    }
    records.extend(proofs.iter().map(|proof| rrsig(apex, proof.owner, proof.rtype, proof.ttl)));
    records.extend(proofs);
}

/// The names that the zone answers for, in canonical order, empty ones among them.
fn authoritative(apex: NameBuf, records: &[Record]) -> BTreeMap<NameBuf, Owned> {
    let is_cut = |r: &&Record| r.rtype == Type::NS && r.owner != apex;
    let cuts: BTreeSet<NameBuf> = records.iter().filter(is_cut).map(|r| r.owner).collect();
    let mut names: BTreeMap<NameBuf, Owned> = BTreeMap::new();
    for record in records {
        let inside = |name: &Name<'_>| name.is_at_or_below(apex.as_name());
        let mut above =
            record.owner.as_name().ancestors().take_while(inside).filter(|n| *n != record.owner.as_name());
        if above.any(|name| cuts.contains(&name.to_buf())) {
            continue;
        }
        for name in record.owner.as_name().ancestors().take_while(inside) {
            names.entry(name.to_buf()).or_default();
        }
        names.entry(record.owner).or_default().insert(record.rtype, record.ttl);
    }
    names
}

fn rrsig(apex: NameBuf, owner: NameBuf, covered: Type, ttl: Ttl) -> Record {
    let labels = owner.as_name().label_count() - owner.as_name().is_wildcard() as usize;
    let mut rdata = covered.0.to_be_bytes().to_vec();
    rdata.extend_from_slice(&[13, labels as u8]);
    rdata.extend_from_slice(&ttl.to_be_bytes());
    rdata.extend_from_slice(&[0x70, 0, 0, 0, 0x60, 0, 0, 0, 0, 1]);
    rdata.extend_from_slice(apex.as_name().as_wire());
    // As long as a signature of P-256 (RFC 6605 §4).
    rdata.extend_from_slice(&[0xab; 64]);
    Record { owner, rtype: Type::RRSIG, ttl, rdata }
}

/// A bitmap of types below 256 (RFC 4034 §4.1.2).
fn bitmap(sets: &Owned, own: Option<Type>) -> Vec<u8> {
    let mut octets = [0u8; 32];
    let signed = own.is_some() || sets.keys().any(|t| *t != Type::NS);
    for t in sets.keys().copied().chain(own).chain(signed.then_some(Type::RRSIG)) {
        octets[t.0 as usize / 8] |= 0x80 >> (t.0 % 8);
    }
    match octets.iter().rposition(|octet| *octet != 0) {
        Some(last) => [&[0, last as u8 + 1], &octets[..=last]].concat(),
        None => Vec::new(),
    }
}

fn nsec(names: &BTreeMap<NameBuf, Owned>) -> Vec<Record> {
    let full: Vec<_> = names.iter().filter(|(_, sets)| !sets.is_empty()).collect();
    let nexts = full.iter().cycle().skip(1);
    let make = |((owner, sets), (next, _)): (&(&NameBuf, &Owned), &(&NameBuf, &Owned))| {
        let rdata = [next.as_name().as_wire(), &bitmap(sets, Some(Type::NSEC))].concat();
        Record { owner: **owner, rtype: Type::NSEC, ttl: MINUTES, rdata }
    };
    full.iter().zip(nexts).map(make).collect()
}

fn nsec3(apex: NameBuf, names: &BTreeMap<NameBuf, Owned>) -> Vec<Record> {
    let hash = |name: &NameBuf| dnssec::nsec3::hash(name.as_name().to_lower().as_lower(), &[], 0);
    let hashed: BTreeMap<_, _> = names.iter().map(|(name, sets)| (hash(name), sets)).collect();
    let nexts = hashed.keys().cycle().skip(1);
    let make = |((own, sets), next): ((&[u8; 20], &&Owned), &[u8; 20])| {
        let rdata = [&NSEC3PARAM, [20].as_slice(), next, &bitmap(sets, None)].concat();
        let owner = NameBuf::prepend(&base32hex(own), apex.as_name()).expect("a name");
        Record { owner, rtype: Type::NSEC3, ttl: MINUTES, rdata }
    };
    hashed.iter().zip(nexts).map(make).collect()
}

#[cfg(test)]
mod tests {
    use authority::audit::{FindingKind, audit};

    use super::*;

    #[test]
    fn signed_zones_have_every_signature_and_a_true_chain() {
        for chain in [Chain::Nsec, Chain::Nsec3] {
            let zone = zone(&crate::key(), "signed.", chain);
            audit(&zone, wire::Serial(0x6800_0000), &mut |finding| match finding.kind {
                FindingKind::BadSignature(_) | FindingKind::NoSepSignature => {}
                _ => panic!("{finding}"),
            });
            assert_eq!(zone.nsec3().is_some(), chain == Chain::Nsec3);
        }
    }
}
