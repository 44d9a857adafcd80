//! Signs zones with made-up signatures: every RRset that has to have one, and a true NSEC or NSEC3 chain
//! (RFC 4035 §2, RFC 5155 §7.1). Slow and plain.

use testkit::Record;
use testkit::answers::base32hex;
use testkit::model::ModelZone;
use wire::{LowerName, Name, NameBuf, Ttl, Type};

/// How absence is to be proved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chain {
    Nsec,
    Nsec3 { opt_out: bool, iterations: u16, salt: Vec<u8> },
}

pub(crate) fn hash(name: LowerName<'_>, salt: &[u8], iterations: u16) -> [u8; 20] {
    dnssec::nsec3::hash(name, salt, iterations)
}

/// The records and all that signing adds. DNSSEC records that were there are left out, DS excepted.
pub(crate) fn sign(apex: Name<'_>, records: &[Record], chain: &Chain) -> Vec<Record> {
    let made = [Type::RRSIG, Type::NSEC, Type::NSEC3, Type::NSEC3PARAM];
    let mut records: Vec<Record> = records.iter().filter(|r| !made.contains(&r.rtype)).cloned().collect();
    if let Chain::Nsec3 { iterations, salt, .. } = chain {
        let mut rdata = vec![1, 0];
        rdata.extend_from_slice(&iterations.to_be_bytes());
        rdata.push(salt.len() as u8);
        rdata.extend_from_slice(salt);
        records.push(Record { owner: apex.to_buf(), rtype: Type::NSEC3PARAM, ttl: Ttl::ZERO, rdata });
    }
    let zone = ModelZone::new(apex, &records);
    let soa = &zone.sets(apex)[&Type::SOA];
    // RFC 9077: proofs live as long as negative answers.
    let minimum = soa.rdatas[0].last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let ttl = Ttl::from_secs(minimum.min(soa.ttl.as_secs()));
    let proofs = match chain {
        Chain::Nsec => nsec(&zone, ttl),
        Chain::Nsec3 { opt_out, iterations, salt } => nsec3(&zone, ttl, *opt_out, *iterations, salt),
    };
    let mut sigs = Vec::new();
    for name in names(&zone) {
        let cut = zone.flags(name.as_name()).cut;
        for (t, set) in zone.sets(name.as_name()).iter().filter(|(t, _)| !cut || **t == Type::DS) {
            sigs.push(rrsig(apex, name, *t, set.ttl));
        }
    }
    sigs.extend(proofs.iter().map(|proof| rrsig(apex, proof.owner, proof.rtype, ttl)));
    records.extend(proofs);
    records.extend(sigs);
    records
}

/// The names that the zone answers for, empty ones among them.
fn names(zone: &ModelZone) -> Vec<NameBuf> {
    zone.all().into_iter().filter(|name| !zone.flags(name.as_name()).occluded).collect()
}

fn rrsig(apex: Name<'_>, owner: NameBuf, covered: Type, ttl: Ttl) -> Record {
    let labels = owner.as_name().label_count() - owner.as_name().is_wildcard() as usize;
    let mut rdata = covered.0.to_be_bytes().to_vec();
    rdata.extend_from_slice(&[13, labels as u8]);
    rdata.extend_from_slice(&ttl.to_be_bytes());
    rdata.extend_from_slice(&[0x70, 0, 0, 0, 0x60, 0, 0, 0, 0, 1]);
    rdata.extend_from_slice(apex.as_wire());
    rdata.extend_from_slice(&[0xab; 4]);
    Record { owner, rtype: Type::RRSIG, ttl, rdata }
}

/// The types that a chain of denial has to list for a name.
fn types(zone: &ModelZone, name: Name<'_>, own: Option<Type>) -> Vec<Type> {
    let cut = zone.flags(name).cut;
    let sets = zone.sets(name);
    let mut types: Vec<Type> =
        sets.keys().copied().filter(|t| !cut || matches!(*t, Type::NS | Type::DS)).collect();
    if own.is_some() || types.iter().any(|t| !cut || *t == Type::DS) {
        types.push(Type::RRSIG);
    }
    types.extend(own);
    types.sort();
    types
}

/// A type bitmap (RFC 4034 §4.1.2).
fn bitmap(types: &[Type]) -> Vec<u8> {
    let mut out = Vec::new();
    for window in 0..=255u8 {
        let mut bytes = [0u8; 32];
        for t in types.iter().filter(|t| (t.0 >> 8) as u8 == window) {
            bytes[(t.0 & 0xff) as usize / 8] |= 0x80 >> (t.0 % 8);
        }
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used > 0 {
            out.extend_from_slice(&[window, used as u8]);
            out.extend_from_slice(&bytes[..used]);
        }
    }
    out
}

fn nsec(zone: &ModelZone, ttl: Ttl) -> Vec<Record> {
    let names: Vec<NameBuf> =
        names(zone).into_iter().filter(|name| !zone.sets(name.as_name()).is_empty()).collect();
    let nexts = names.iter().cycle().skip(1);
    let make = |(owner, next): (&NameBuf, &NameBuf)| {
        let mut rdata = next.as_name().as_wire().to_vec();
        rdata.extend(bitmap(&types(zone, owner.as_name(), Some(Type::NSEC))));
        Record { owner: *owner, rtype: Type::NSEC, ttl, rdata }
    };
    names.iter().zip(nexts).map(make).collect()
}

fn nsec3(zone: &ModelZone, ttl: Ttl, opt_out: bool, iterations: u16, salt: &[u8]) -> Vec<Record> {
    let insecure = |name: &NameBuf| {
        let sets = zone.sets(name.as_name());
        zone.flags(name.as_name()).cut && !sets.contains_key(&Type::DS)
    };
    let kept: Vec<NameBuf> = names(zone)
        .into_iter()
        .filter(|name| {
            let below = names(zone).into_iter().filter(|n| n.as_name().is_at_or_below(name.as_name()));
            // An empty name over nothing but what opt-out leaves out is left out, too (RFC 5155 §7.1).
            let left_out = below.filter(|n| !zone.sets(n.as_name()).is_empty()).all(|n| insecure(&n));
            !(opt_out && left_out)
        })
        .collect();
    let mut hashes: Vec<([u8; 20], NameBuf)> = kept
        .into_iter()
        .map(|name| (hash(name.as_name().to_lower().as_lower(), salt, iterations), name))
        .collect();
    hashes.sort();
    let make = |i: usize| {
        let ((own, name), (next, _)) = (&hashes[i], &hashes[(i + 1) % hashes.len()]);
        let mut rdata = vec![1, opt_out as u8];
        rdata.extend_from_slice(&iterations.to_be_bytes());
        rdata.push(salt.len() as u8);
        rdata.extend_from_slice(salt);
        rdata.push(20);
        rdata.extend_from_slice(next);
        rdata.extend(bitmap(&types(zone, name.as_name(), None)));
        let owner = NameBuf::prepend(&base32hex(own), zone.apex()).expect("a name");
        Record { owner, rtype: Type::NSEC3, ttl, rdata }
    };
    (0..hashes.len()).map(make).collect()
}
