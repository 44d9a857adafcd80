//! The unsigned part of a step: the change of the zone's data, with the apex sets that keys and policy want.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Name, NameBuf, Serial, Ttl, Type};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecord, ChangedRecords, Node, NodeFlags, RrSet};

use super::Signing;
use crate::zone::{SignFault, SigningPolicy, apex_records, is_data, is_made, is_renewed, set_serial};

/// Bytes of ZONEMD RDATA before the digest: serial, scheme, hash algorithm (RFC 8976 §2.2).
const DIGEST_HEAD: usize = 6;

/// Returns the change without the records that signing makes.
pub(super) fn cleaned(change: &ChangeSet, apex: Name<'_>, policy: &SigningPolicy) -> ChangeSet {
    let is_ignored = |record: &ChangedRecord<'_>| {
        is_made(record.rtype) || record.owner == apex && is_renewed(policy, record.rtype)
    };
    let kept = |records: &ChangedRecords| filtered(records, |record| !is_ignored(record));
    ChangeSet { removed: kept(&change.removed), added: kept(&change.added), ..*change }
}

/// Returns the records that `is_kept` accepts.
pub(super) fn filtered(
    records: &ChangedRecords,
    is_kept: impl Fn(&ChangedRecord<'_>) -> bool,
) -> ChangedRecords {
    let mut kept = ChangedRecords::default();
    for record in records.iter().filter(|record| is_kept(record)) {
        kept.push(record.owner, record.rtype, record.ttl, record.rdata);
    }
    kept
}

/// Returns the change that sets the serial and nothing else.
pub(super) fn serial_change(zone: &Zone, after: Serial) -> Result<ChangeSet, SignFault> {
    let apex = zone.apex_node();
    let owner = apex.written_owner();
    let soa = apex.rrset(Type::SOA).ok_or(SignFault::BadSoa)?;
    let mut change = ChangeSet { before: zone.serial(), after, ..ChangeSet::default() };
    let mut rdata = Vec::new();
    soa.rdatas().next().ok_or(SignFault::BadSoa)?.copy_to(&mut rdata);
    change.removed.push(owner.as_name(), Type::SOA, soa.ttl(), &rdata);
    set_serial(&mut rdata, after)?;
    change.added.push(owner.as_name(), Type::SOA, soa.ttl(), &rdata);
    Ok(change)
}

/// Adds to a change what makes the apex sets those that keys and policy want. ZONEMD records are replaced by
/// ones without a digest.
pub(super) fn add_apex_sets(zone: &Zone, signing: &Signing<'_>, change: &mut ChangeSet) {
    let apex = zone.apex_node();
    let owner = apex.written_owner();
    let of_zone = || apex.rrset(Type::SOA).map(|soa| soa.ttl());
    let of_change = change.added.iter().find(|record| record.rtype == Type::SOA).map(|soa| soa.ttl);
    let soa_ttl = of_change.or_else(of_zone).unwrap_or_default();
    let mut wanted = apex_records(zone, soa_ttl, signing.keys, signing.policy);
    wanted.retain(|(rtype, ..)| is_renewed(signing.policy, *rtype));
    wanted.dedup();
    for set in apex.rrsets().filter(|set| is_renewed(signing.policy, set.rtype())) {
        for record in set.rdatas() {
            let mut rdata = Vec::new();
            record.copy_to(&mut rdata);
            let present = (set.rtype(), record.ttl(), rdata);
            match wanted.iter().position(|record| *record == present) {
                Some(at) if set.rtype() != Type::ZONEMD => _ = wanted.remove(at),
                _ => change.removed.push(owner.as_name(), present.0, present.1, &present.2),
            }
        }
    }
    for (rtype, ttl, rdata) in &wanted {
        change.added.push(owner.as_name(), *rtype, *ttl, rdata);
    }
}

/// Whether the apex sets are those that keys and policy want; of ZONEMD, the digests are not computed.
pub(super) fn has_apex_sets(zone: &Zone, signing: &Signing<'_>) -> bool {
    let mut change = ChangeSet::default();
    add_apex_sets(zone, signing, &mut change);
    let mut records = change.removed.iter().chain(change.added.iter());
    records.all(|record| record.rtype == Type::ZONEMD) && has_digests(zone, signing.policy)
}

/// Whether the zone has ZONEMD records for its serial with exactly the hashes of the policy.
fn has_digests(zone: &Zone, policy: &SigningPolicy) -> bool {
    let serial = zone.serial().0.to_be_bytes();
    let head = |code: u8| [&serial[..], &[1, code]].concat();
    let wanted: BTreeSet<Vec<u8>> = policy.zonemd.iter().map(|hash| head(hash.code())).collect();
    let set = zone.apex_node().rrset(Type::ZONEMD);
    let heads = set.into_iter().flat_map(|set| set.rdatas());
    let heads: Vec<Vec<u8>> =
        heads.map(|record| record.compiled().iter().take(DIGEST_HEAD).copied().collect()).collect();
    heads.len() == wanted.len() && heads.into_iter().collect::<BTreeSet<_>>() == wanted
}

/// Adds to a change the removal of signatures and NSEC records of names all of whose data it removes: without
/// it, these names would stay, or keep the letter case of their owner. Returns the owners of the change, and
/// how many records were added.
pub(super) fn drop_emptied(zone: &Zone, change: &mut ChangeSet) -> (BTreeSet<NameBuf>, u64) {
    let mut removed = BTreeMap::<NameBuf, u64>::new();
    for record in change.removed.iter() {
        *removed.entry(record.owner.to_buf()).or_default() += 1;
    }
    // The first owner of each name.
    let mut added = BTreeMap::<NameBuf, NameBuf>::new();
    for record in change.added.iter() {
        added.entry(record.owner.to_buf()).or_insert(record.owner.to_buf());
    }
    let mut dropped = 0;
    for (owner, count) in &removed {
        // The apex never is without data.
        let node = zone.find_name(owner.as_name()).filter(|node| !node.flags().contains(NodeFlags::APEX));
        let Some(node) = node else { continue };
        let written = node.written_owner();
        let same_case = |owner: Name<'_>| owner.as_wire() == written.as_name().as_wire();
        let is_emptied = data_of(node).map(|set| u64::from(set.count())).sum::<u64>() == *count;
        if !is_emptied || added.get(owner).is_some_and(|first| same_case(first.as_name())) {
            continue;
        }
        for set in node.rrsets().filter(|set| set.rtype() != Type::NSEC3) {
            let goes = !is_data(set.rtype());
            let records = set.rdatas().filter(|_| goes).map(|record| (set.rtype(), record));
            for (rtype, record) in records.chain(set.sig_rdatas().map(|sig| (Type::RRSIG, sig))) {
                let mut rdata = Vec::new();
                record.copy_to(&mut rdata);
                change.removed.push(owner.as_name(), rtype, record.ttl(), &rdata);
                dropped += 1;
            }
        }
    }
    (removed.into_keys().chain(added.into_keys()).collect(), dropped)
}

/// Returns the RRsets of a name that are data.
pub(super) fn data_of(node: Node<'_>) -> impl Iterator<Item = RrSet<'_>> {
    node.rrsets().filter(|set| is_data(set.rtype()))
}

/// Joins two changes of which the second one changes no record of the first. The SOA comes first.
pub(super) fn joined(first: &ChangeSet, second: &ChangeSet) -> ChangeSet {
    let join = |first: &ChangedRecords, second: &ChangedRecords| {
        let is_soa = |record: &ChangedRecord<'_>| record.rtype == Type::SOA;
        let mut all = filtered(first, is_soa);
        all.append(&filtered(first, |record| !is_soa(record)));
        all.append(second);
        all
    };
    ChangeSet {
        removed: join(&first.removed, &second.removed),
        added: join(&first.added, &second.added),
        ..*first
    }
}

/// The TTL of SOA in a zone.
pub(super) fn soa_ttl(zone: &Zone) -> Ttl {
    zone.apex_node().rrset(Type::SOA).map_or(Ttl::ZERO, |soa| soa.ttl())
}
