//! RRsets of a version, and what transactions and edits make of them.

use std::collections::BTreeSet;

use wire::{Name, NameBuf, Ttl, Type, rdata};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecords};

/// A record's TTL and RDATA.
pub(super) type RecordData = (Ttl, Vec<u8>);

/// Returns the records of one type at a name.
pub(super) fn records(zone: &Zone, owner: Name<'_>, rtype: Type) -> Vec<RecordData> {
    let set = zone.find_name(owner).and_then(|node| node.rrset(rtype));
    let copied = |record: zone::store::Rdata<'_>| {
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        (record.ttl(), rdata)
    };
    set.iter().flat_map(|set| set.rdatas()).map(copied).collect()
}

/// Returns the TTL of records that come without one: that of their RRset, or else that of the SOA.
pub(super) fn ttl_beside(zone: &Zone, old: &[RecordData]) -> Ttl {
    let of_soa = || zone.apex_node().rrset(Type::SOA).map(|soa| soa.ttl());
    old.first().map(|record| record.0).or_else(of_soa).unwrap_or(Ttl::ZERO)
}

/// Returns the RRset with these records as well; of a type that has one record per name, with the last of
/// them instead. An equal record stays as it is, and the whole RRset gets the TTL (RFC 2181 §5.2).
pub(super) fn extended<'r>(
    rtype: Type,
    old: &[RecordData],
    ttl: Ttl,
    added: impl IntoIterator<Item = &'r Vec<u8>>,
) -> Vec<RecordData> {
    let added: Vec<&Vec<u8>> = added.into_iter().collect();
    if matches!(rtype, Type::CNAME | Type::DNAME | Type::SOA) {
        let there = |new: &&Vec<u8>| old.iter().find(|(_, old)| rdata::is_same(rtype, old, new));
        let last = added.last().map(|new| there(new).map_or(*new, |(_, old)| old));
        return match last {
            Some(last) => vec![(ttl, last.clone())],
            None => old.iter().map(|(_, rdata)| (ttl, rdata.clone())).collect(),
        };
    }
    distinct(rtype, ttl, old.iter().map(|(_, rdata)| rdata).chain(added))
}

/// Returns an RRset of these records, each once.
pub(super) fn distinct<'r>(
    rtype: Type,
    ttl: Ttl,
    rdatas: impl IntoIterator<Item = &'r Vec<u8>>,
) -> Vec<RecordData> {
    let mut seen = BTreeSet::new();
    let first = rdatas.into_iter().filter(|rdata| seen.insert(canonical(rtype, rdata)));
    first.map(|rdata| (ttl, rdata.clone())).collect()
}

/// Returns the RRset without these records.
pub(super) fn without(rtype: Type, old: &[RecordData], removed: &[Vec<u8>]) -> Vec<RecordData> {
    let removed: BTreeSet<Vec<u8>> = removed.iter().map(|rdata| canonical(rtype, rdata)).collect();
    old.iter().filter(|(_, rdata)| !removed.contains(&canonical(rtype, rdata))).cloned().collect()
}

/// Adds the difference of two states of an RRset to a change.
pub(super) fn put_difference(
    change: &mut ChangeSet,
    owner: &NameBuf,
    rtype: Type,
    old: &[RecordData],
    new: &[RecordData],
) {
    put(&mut change.removed, owner, rtype, old, new);
    put(&mut change.added, owner, rtype, new, old);
}

/// Adds the records that are not among `others`.
fn put(to: &mut ChangedRecords, owner: &NameBuf, rtype: Type, records: &[RecordData], others: &[RecordData]) {
    let others: BTreeSet<&RecordData> = others.iter().collect();
    let only = records.iter().filter(|record| !others.contains(record));
    only.for_each(|(ttl, rdata)| to.push(owner.as_name(), rtype, *ttl, rdata));
}

fn canonical(rtype: Type, data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    rdata::canonical(rtype, &mut data);
    data
}
