//! The zones of the pieces: a thousand hosts and delegations, unsigned or with a chain of NSEC or NSEC3. The
//! signatures are placeholders, as no server verifies them; the chains are complete.

use testkit::random::soa;
use testkit::{Chain, ModelRecord, sign};
use wire::hash::HashKey;
use wire::{NameBuf, Serial, Ttl, Type};
use zone::Zone;
use zone::store::ChangeSet;

use crate::name;

/// Number of hosts, of CNAMEs and of delegations.
pub(crate) const EACH: usize = 1000;
/// Number of pending changes in a zone.
const CHANGES: usize = 10_000;
/// The TTL of all records.
const HOUR: Ttl = Ttl::from_secs(3600);

/// Builds the zone `apex`: `hN`, each with two addresses; `cN`, CNAMEs to those; `dN`, delegated to two hosts
/// below it, half of them with DS; the wildcard `*.w`; and names of six labels below `deep`.
pub(crate) fn zone(key: &HashKey, apex: &str, chain: Option<Chain>) -> Zone {
    let apex = name(apex);
    let mut records = plain(apex);
    if let Some(chain) = chain {
        // A placeholder zone key of P-256.
        let rdata = [&[1, 0, 3, 13], [0xcd; 64].as_slice()].concat();
        records.push(ModelRecord { owner: apex, rtype: Type::DNSKEY, ttl: HOUR, rdata });
        records = sign(apex.as_name(), &records, &chain);
    }
    testkit::build(apex.as_name(), key, &records)
}

/// Builds the same zone with ten hosts `fN` per change, and a version of it with [`CHANGES`] pending changes,
/// each of one of those hosts: nearly the maximum before a new base is built. Nothing else changes.
pub(crate) fn changed(key: &HashKey, apex: &str) -> Zone {
    let apex = name(apex);
    let host =
        |i: usize| NameBuf::from_text(format!("f{i}").as_bytes(), Some(apex.as_name())).expect("a name");
    let mut records = plain(apex);
    let filler =
        |i: usize| ModelRecord { owner: host(i), rtype: Type::A, ttl: HOUR, rdata: vec![192, 0, 2, 1] };
    records.extend((0..10 * CHANGES).map(filler));
    let zone = testkit::build(apex.as_name(), key, &records);
    let mut change = ChangeSet { before: zone.serial(), after: Serial(2), ..ChangeSet::default() };
    change.removed.push(apex.as_name(), Type::SOA, HOUR, &soa(apex.as_name(), 1));
    change.added.push(apex.as_name(), Type::SOA, HOUR, &soa(apex.as_name(), 2));
    for i in 0..CHANGES {
        change.added.push(host(10 * i).as_name(), Type::A, HOUR, &[192, 0, 2, 2]);
    }
    let version = zone.apply(&change).expect("a change");
    assert_eq!(version.overlay_size().nodes, CHANGES + 1);
    version
}

fn plain(apex: NameBuf) -> Vec<ModelRecord> {
    let below = |text: String| NameBuf::from_text(text.as_bytes(), Some(apex.as_name())).expect("a name");
    let mut records = Vec::new();
    let mut add = |owner: NameBuf, rtype, rdata: &[u8]| {
        records.push(ModelRecord { owner, rtype, ttl: HOUR, rdata: rdata.to_vec() });
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

#[cfg(test)]
mod tests {
    use authority::audit::{FindingKind, audit};

    use super::*;

    #[test]
    fn signed_zones_have_every_signature_and_a_true_chain() {
        for chain in [Chain::Nsec, Chain::NSEC3] {
            let nsec3 = chain == Chain::NSEC3;
            let zone = zone(&crate::key(), "signed.", Some(chain));
            audit(&zone, Serial(0x6800_0000), &mut |finding| match finding.kind {
                FindingKind::BadSignature(_) | FindingKind::NoSepSignature => {}
                _ => panic!("{finding}"),
            });
            assert_eq!(zone.nsec3().is_some(), nsec3);
        }
    }
}
