//! The serial number of the version that a change makes.

use std::cmp::Ordering;

use update::SerialPolicy;
use wire::rdata::view::Soa;
use wire::{Serial, Type, UnixTime};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecords};

use super::rrsets::{RecordData, records};

/// Returns `change` with the SOA change from `old` to the SOA of `new`. The new serial number is `wanted` if
/// that is later than the one of `old`, else the next one by `policy`. Returns an empty change if nothing
/// else changes and `wanted` is not later.
pub(super) fn with_serial(
    change: ChangeSet,
    old: &Zone,
    new: &Zone,
    wanted: Serial,
    policy: SerialPolicy,
    now: UnixTime,
) -> ChangeSet {
    match soa_of(new) {
        Some(soa) => with_soa(change, old, soa, wanted, policy, now),
        None => change,
    }
}

/// As [`with_serial`], with this SOA.
pub(super) fn with_soa(
    change: ChangeSet,
    old: &Zone,
    (ttl, mut soa): RecordData,
    wanted: Serial,
    policy: SerialPolicy,
    now: UnixTime,
) -> ChangeSet {
    let before = old.serial();
    let own = Some(wanted).filter(|wanted| before.compare(*wanted) == Some(Ordering::Less));
    let others = |records: &ChangedRecords| records.iter().any(|record| record.rtype != Type::SOA);
    let Some((old_ttl, old_soa)) = soa_of(old) else { return change };
    let same_soa = Soa::read(&old_soa).ok().zip(Soa::read(&soa).ok()).is_some_and(|(old, new)| {
        let numbers =
            |soa: &Soa<'_>| (soa.numbers.refresh, soa.numbers.retry, soa.numbers.expire, soa.numbers.minimum);
        numbers(&old) == numbers(&new) && old.mname == new.mname && old.rname == new.rname
    });
    let same = same_soa && old_ttl == ttl && !others(&change.removed) && !others(&change.added);
    if same && own.is_none() {
        return ChangeSet::default();
    }
    let next = own.unwrap_or_else(|| policy.next(before, now));
    if let Some(field) = soa.len().checked_sub(20).and_then(|at| soa[at..].first_chunk_mut()) {
        *field = next.0.to_be_bytes();
    }
    let mut made = ChangeSet { before, after: next, ..ChangeSet::default() };
    made.removed.push(old.apex().as_name(), Type::SOA, old_ttl, &old_soa);
    made.added.push(old.apex().as_name(), Type::SOA, ttl, &soa);
    for (from, to) in [(&change.removed, &mut made.removed), (&change.added, &mut made.added)] {
        for record in from.iter().filter(|record| record.rtype != Type::SOA) {
            to.push(record.owner, record.rtype, record.ttl, record.rdata);
        }
    }
    made
}

/// Returns the SOA record of a version.
pub(super) fn soa_of(zone: &Zone) -> Option<RecordData> {
    records(zone, zone.apex().as_name(), Type::SOA).pop()
}
