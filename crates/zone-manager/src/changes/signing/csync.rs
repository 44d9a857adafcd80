//! The CSYNC record of a zone that is signed here (RFC 7477): the parent is to copy the NS records and the
//! addresses of name servers from the version in which they have changed, or from a later one.

use std::collections::BTreeSet;

use wire::rdata::view::Csync;
use wire::{Name, NameBuf, Serial, Ttl, Type};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecord, ChangedRecords};

use super::rdatas_at_apex;

/// The type bit map: A, NS, AAAA.
const TYPES: &[u8] = &[0, 4, 0x60, 0, 0, 8];
const FLAGS: u16 = Csync::IMMEDIATE | Csync::SOA_MINIMUM;

/// Whether a zone does not have one CSYNC record that is made here.
pub(super) fn lacks_csync(zone: &Zone) -> bool {
    let is_ours =
        |rdata: &Vec<u8>| rdata[..] == csync(Csync::read(rdata).map_or(Serial(0), |csync| csync.serial));
    !matches!(&rdatas_at_apex(zone, Type::CSYNC)[..], [only] if is_ours(only))
}

/// Whether a version has a CSYNC record that the version before it does not have.
pub(in super::super) fn has_new_csync(before: &Zone, after: &Zone) -> bool {
    let after = rdatas_at_apex(after, Type::CSYNC);
    !after.is_empty() && after != rdatas_at_apex(before, Type::CSYNC)
}

/// Returns a change without CSYNC records of the zone's name.
pub(super) fn without_csync(change: &ChangeSet, zone: &Zone) -> ChangeSet {
    let is_csync =
        |record: &ChangedRecord<'_>| record.rtype == Type::CSYNC && record.owner == zone.apex().as_name();
    let kept = |records: &ChangedRecords| {
        let mut kept = ChangedRecords::default();
        for record in records.iter().filter(|record| !is_csync(record)) {
            kept.push(record.owner, record.rtype, record.ttl, record.rdata);
        }
        kept
    };
    ChangeSet { removed: kept(&change.removed), added: kept(&change.added), ..*change }
}

/// Returns a change of a zone's data with that of its CSYNC record, which gets the serial number of the new
/// version if the delegation changes, or if there is no record yet.
pub(super) fn with_csync(zone: &Zone, change: &ChangeSet, ttl: Ttl) -> ChangeSet {
    let mut change = without_csync(change, zone);
    if !lacks_csync(zone) && !changes_delegation(zone, &change) {
        return change;
    }
    let apex = zone.apex_node().written_owner();
    let old = zone.apex_node().rrset(Type::CSYNC).map(|set| set.ttl());
    for rdata in rdatas_at_apex(zone, Type::CSYNC) {
        change.removed.push(apex.as_name(), Type::CSYNC, old.unwrap_or(ttl), &rdata);
    }
    change.added.push(apex.as_name(), Type::CSYNC, ttl, &csync(change.after));
    change
}

/// Whether a change is about NS records of the zone, or about addresses of its name servers.
fn changes_delegation(zone: &Zone, change: &ChangeSet) -> bool {
    let apex = zone.apex().as_name();
    let is_ns = |record: &ChangedRecord<'_>| record.rtype == Type::NS && record.owner == apex;
    let changed = || change.removed.iter().chain(change.added.iter());
    if changed().any(|record| is_ns(&record)) {
        return true;
    }
    let name = |rdata: Vec<u8>| Name::from_wire(&rdata).ok().map(|name| name.to_buf());
    let hosts: BTreeSet<NameBuf> = rdatas_at_apex(zone, Type::NS).into_iter().filter_map(name).collect();
    changed()
        .any(|record| matches!(record.rtype, Type::A | Type::AAAA) && hosts.contains(&record.owner.to_buf()))
}

/// Returns the data of the CSYNC record with this serial number.
fn csync(Serial(serial): Serial) -> Vec<u8> {
    [&serial.to_be_bytes()[..], &FLAGS.to_be_bytes(), TYPES].concat()
}

#[cfg(test)]
mod tests {
    use testkit::{ModelRecord, build, key, name};

    use super::*;

    fn wire(text: &str) -> Vec<u8> {
        name(text).as_name().as_wire().to_vec()
    }

    fn zone(csync: &[Vec<u8>]) -> Zone {
        let record = |owner: &str, rtype, rdata: Vec<u8>| ModelRecord {
            owner: name(owner),
            rtype,
            ttl: Ttl::from_secs(60),
            rdata,
        };
        let mut records = vec![
            record("example", Type::SOA, [wire("ns"), wire("host"), vec![0; 20]].concat()),
            record("example", Type::NS, wire("ns.example")),
            record("ns.example", Type::A, vec![192, 0, 2, 1]),
            record("www.example", Type::A, vec![192, 0, 2, 2]),
        ];
        records.extend(csync.iter().map(|rdata| record("example", Type::CSYNC, rdata.clone())));
        build(name("example").as_name(), &key(), &records)
    }

    /// The change that adds a record, to the version 9.
    fn adding(owner: &str, rtype: Type, rdata: &[u8]) -> ChangeSet {
        let mut change = ChangeSet { before: Serial(0), after: Serial(9), ..ChangeSet::default() };
        change.added.push(name(owner).as_name(), rtype, Ttl::from_secs(60), rdata);
        change
    }

    /// The CSYNC records that are added and removed.
    fn changed(zone: &Zone, change: &ChangeSet) -> [Vec<Vec<u8>>; 2] {
        let change = with_csync(zone, change, Ttl::from_secs(60));
        [&change.added, &change.removed].map(|records| {
            let of = records.iter().filter(|record| record.rtype == Type::CSYNC);
            of.map(|record| record.rdata.to_vec()).collect()
        })
    }

    #[test]
    fn the_record_has_the_version_in_which_the_delegation_has_changed() {
        let with_record = zone(&[csync(Serial(5))]);
        let renewed = [vec![csync(Serial(9))], vec![csync(Serial(5))]];
        let none: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
        let of = |owner: &str, rtype, rdata: &[u8]| changed(&with_record, &adding(owner, rtype, rdata));
        assert_eq!(of("example", Type::NS, &wire("ns2.test")), renewed);
        assert_eq!(of("NS.example", Type::AAAA, &[1; 16]), renewed);
        assert_eq!(of("www.example", Type::AAAA, &[1; 16]), none);
        assert_eq!(of("www.example", Type::NS, &wire("ns2.test")), none);
        assert_eq!(of("example", Type::CSYNC, &csync(Serial(1))), none, "that of others is left out");
    }

    #[test]
    fn a_zone_without_the_record_gets_it() {
        assert!(!lacks_csync(&zone(&[csync(Serial(5))])));
        let other = [&[0, 0, 0, 5, 0, 1][..], TYPES].concat();
        for present in [vec![], vec![other.clone()], vec![csync(Serial(1)), csync(Serial(5))]] {
            let zone = zone(&present);
            assert!(lacks_csync(&zone));
            let [added, mut removed] = changed(&zone, &adding("www.example", Type::AAAA, &[1; 16]));
            removed.sort_unstable();
            assert_eq!((added, removed), (vec![csync(Serial(9))], present));
        }
        let [before, after] = [zone(&[]), zone(&[csync(Serial(5))])];
        assert!(has_new_csync(&before, &after));
        assert!(!has_new_csync(&after, &after) && !has_new_csync(&after, &before));
    }
}
