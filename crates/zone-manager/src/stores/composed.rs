//! One change made of several that follow each other.

use std::collections::BTreeMap;

use wire::{NameBuf, Serial, Ttl, Type, rdata};
use zone::store::{ChangeSet, ChangedRecord, ChangedRecords};

/// Most records of the changes that are made one.
const MAX_COMPOSED_RECORDS: u64 = 500_000;

/// A record: those that differ only in the letter case of names are one. The SOA comes first.
type RecordId = (NameBuf, bool, Type, Vec<u8>);

/// A record as it is written.
#[derive(Clone, PartialEq, Eq)]
struct Written {
    owner: NameBuf,
    ttl: Ttl,
    rdata: Vec<u8>,
}

/// A record before all changes, and after them.
#[derive(Default)]
struct Net {
    before: Option<Written>,
    after: Option<Written>,
}

/// Makes one change of several.
#[derive(Default)]
pub struct Composition {
    serials: Option<(Serial, Serial)>,
    records: BTreeMap<RecordId, Net>,
    count: u64,
}

impl Composition {
    /// Returns a composition of no changes, from a version on.
    pub fn from_version(serial: Serial) -> Self {
        Composition { serials: Some((serial, serial)), ..Composition::default() }
    }

    /// Adds the change that follows. Returns false if there are too many records.
    pub fn push(&mut self, change: &ChangeSet) -> bool {
        self.count += change.record_count();
        let first = self.serials.map_or(change.before, |(first, _)| first);
        self.serials = Some((first, change.after));
        for record in change.removed.iter() {
            let (id, written) = parts(record);
            let net = self.records.entry(id).or_default();
            if net.after.take().is_none() && net.before.is_none() {
                net.before = Some(written);
            }
        }
        for record in change.added.iter() {
            let (id, written) = parts(record);
            self.records.entry(id).or_default().after = Some(written);
        }
        self.count <= MAX_COMPOSED_RECORDS
    }

    /// Returns the change from the version before the first change to the one after the last. Its records are
    /// in the order of [`diff`](zone::store::diff()).
    pub fn finish(self) -> ChangeSet {
        let (before, after) = self.serials.unwrap_or_default();
        let mut change = ChangeSet { before, after, ..ChangeSet::default() };
        let mut put = |soa: bool, ((_, other, rtype, _), net): (&RecordId, &Net)| {
            if *other == soa || net.before == net.after {
                return;
            }
            let push = |to: &mut ChangedRecords, written: &Option<Written>| {
                let Some(Written { owner, ttl, rdata }) = written else { return };
                to.push(owner.as_name(), *rtype, *ttl, rdata);
            };
            push(&mut change.removed, &net.before);
            push(&mut change.added, &net.after);
        };
        self.records.iter().for_each(|entry| put(true, entry));
        self.records.iter().for_each(|entry| put(false, entry));
        change
    }
}

/// Returns the change back.
pub fn reversed(change: ChangeSet) -> ChangeSet {
    let ChangeSet { before, after, removed, added } = change;
    ChangeSet { before: after, after: before, removed: added, added: removed }
}

fn parts(record: ChangedRecord<'_>) -> (RecordId, Written) {
    let ChangedRecord { owner, rtype, ttl, rdata: data } = record;
    let mut id = data.to_vec();
    rdata::canonical(rtype, &mut id);
    let owner = owner.to_buf();
    ((owner, rtype != Type::SOA, rtype, id), Written { owner, ttl, rdata: data.to_vec() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::hash::HashKey;
    use zone::store::diff;
    use zone::{Zone, ZoneBuilder};

    use super::*;

    /// A version: its serial, and the addresses of three hosts, each with its TTL.
    fn zone(serial: u32, hosts: &[(usize, u8, u32)]) -> Zone {
        let name = |text: &str| text.parse::<NameBuf>().expect("a name");
        let apex = name("example.");
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("added");
        builder.add(apex.as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("added");
        for (host, address, ttl) in hosts {
            let owner = name(["a.example.", "b.a.example.", "c.example."][*host]);
            // An RRset has one TTL.
            let ttl = Ttl::from_secs(ttl + 10 * *host as u32);
            let _ = builder.add(owner.as_name(), Type::A, ttl, &[192, 0, 2, *address]);
        }
        builder.finish().expect("a zone")
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]
        #[test]
        fn composed_changes_are_the_difference_of_the_first_and_the_last_version(
            all in prop::collection::vec(
                (prop::collection::btree_set((0..3_usize, 0..3_u8), 0..5), 0..2_u32), 2..8),
        ) {
            let versions: Vec<Zone> = (1..).zip(&all).map(|(serial, (hosts, ttl))| {
                let hosts: Vec<_> = hosts.iter().map(|(host, address)| (*host, *address, *ttl)).collect();
                zone(serial, &hosts)
            }).collect();
            let mut composed = Composition::from_version(versions[0].serial());
            for pair in versions.windows(2) {
                prop_assert!(composed.push(&diff(&pair[0], &pair[1])));
            }
            let (first, last) = (&versions[0], &versions[versions.len() - 1]);
            let change = composed.finish();
            prop_assert_eq!(&change, &diff(first, last));
            prop_assert!(change.is_difference_sequence());
            prop_assert!(diff(&last.apply(&reversed(change)).expect("a version"), first).is_empty());
        }
    }

    #[test]
    fn no_change_leads_to_the_same_version_and_too_many_records_are_reported() {
        let nothing = Composition::from_version(Serial(7)).finish();
        assert_eq!(nothing, ChangeSet { before: Serial(7), after: Serial(7), ..ChangeSet::default() });
        let mut composed = Composition { count: MAX_COMPOSED_RECORDS - 3, ..Composition::default() };
        let change = diff(&zone(1, &[]), &zone(2, &[(0, 1, 5)]));
        assert!(composed.push(&change), "three records more");
        assert!(!composed.push(&diff(&zone(2, &[]), &zone(3, &[]))));
    }
}
