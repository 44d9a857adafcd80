//! Records that a response policy zone has in place of those of a name. Equal data are stored once: many
//! rules of a zone lead to the same host.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use wire::{Rcode, Ttl, Type};

/// A record of a response policy zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyRecord<'z> {
    /// The type.
    pub rtype: Type,
    /// The TTL.
    pub ttl: Ttl,
    /// The data; names in it are not compressed.
    pub rdata: &'z [u8],
}

/// Number of local data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataId(pub(crate) u32);

/// What a rule of a list answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rewriting {
    /// A response code.
    Code(Rcode),
    /// A record.
    Record(DataId),
}

/// The records of one owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalData {
    records: Box<[OwnRecord]>,
}

#[derive(Clone, Debug)]
struct OwnRecord {
    rtype: Type,
    ttl: Ttl,
    rdata: Box<[u8]>,
}

impl LocalData {
    pub(crate) fn records(&self) -> impl Iterator<Item = PolicyRecord<'_>> {
        self.records.iter().map(|OwnRecord { rtype, ttl, rdata }| PolicyRecord {
            rtype: *rtype,
            ttl: *ttl,
            rdata,
        })
    }

    fn bytes(&self) -> usize {
        let rdata: usize = self.records.iter().map(|record| record.rdata.len()).sum();
        size_of_val(&*self.records) + rdata
    }
}

/// The local data of a snapshot, or those that it has besides another table.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalDataTable {
    /// Number of the first data; those before are in the other table.
    first: u32,
    all: Vec<LocalData>,
    /// The encoded records, until the table is sealed.
    numbers: HashMap<Box<[u8]>, DataId>,
}

impl LocalDataTable {
    /// Returns an empty table whose numbers follow those of another.
    pub(crate) fn after(other: &LocalDataTable) -> Self {
        LocalDataTable { first: other.end(), ..LocalDataTable::default() }
    }

    /// Returns a sealed table whose data can be numbered again. Those here have the same numbers.
    pub(crate) fn reopened(&self) -> Self {
        let mut table = LocalDataTable { first: self.first, ..LocalDataTable::default() };
        for data in &self.all {
            table.number(&data.records().collect::<Vec<_>>());
        }
        table
    }

    /// The number after the last one.
    fn end(&self) -> u32 {
        // Data take more bytes than their number counts: memory ends before the numbers do.
        self.first.saturating_add(u32::try_from(self.all.len()).unwrap_or(u32::MAX))
    }

    /// Returns the number of these records.
    pub(crate) fn number(&mut self, records: &[PolicyRecord<'_>]) -> DataId {
        let mut encoded = Vec::new();
        for PolicyRecord { rtype, ttl, rdata } in records {
            encoded.extend(rtype.0.to_be_bytes());
            encoded.extend(ttl.as_secs().to_be_bytes());
            // RDATA has 65,535 bytes at most.
            encoded.extend((rdata.len() as u16).to_be_bytes());
            encoded.extend_from_slice(rdata);
        }
        let end = self.end();
        match self.numbers.entry(encoded.into()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let number = *new.insert(DataId(end));
                let own = |record: &PolicyRecord<'_>| {
                    let PolicyRecord { rtype, ttl, rdata } = *record;
                    OwnRecord { rtype, ttl, rdata: rdata.into() }
                };
                self.all.push(LocalData { records: records.iter().map(own).collect() });
                number
            }
        }
    }

    /// Returns the records with a number.
    pub(crate) fn get(&self, DataId(number): DataId) -> Option<&LocalData> {
        self.all.get(number.checked_sub(self.first)? as usize)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.all.iter().map(|data| size_of::<LocalData>() + data.bytes()).sum()
    }

    /// Drops what only building needs.
    pub(crate) fn seal(&mut self) {
        self.numbers = HashMap::default();
        self.all.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_data_have_one_number() {
        let record = |ttl, rdata| PolicyRecord { rtype: Type::A, ttl: Ttl::from_secs(ttl), rdata };
        let (a, b) = (record(60, &[192, 0, 2, 1]), record(60, &[192, 0, 2, 2]));
        let mut table = LocalDataTable::default();
        let both = table.number(&[a, b]);
        let one = table.number(&[a]);
        assert_ne!(both, one);
        assert_eq!(table.number(&[a, b]), both);
        assert_ne!(table.number(&[record(61, &[192, 0, 2, 1])]), one, "another TTL");
        table.seal();
        let records = |of| table.get(of).map(|data| data.records().collect::<Vec<_>>());
        assert_eq!(records(both), Some(vec![a, b]));
        assert_eq!(records(one), Some(vec![a]));
        let mut more = LocalDataTable::after(&table);
        let other = more.number(&[b]);
        assert!(![one, both].contains(&other));
        assert!(more.get(one).is_none() && table.get(other).is_none());
        assert_eq!(more.get(other).map(|data| data.records().collect()), Some(vec![b]));
    }
}
