//! Encoding of stored records and changes.
//!
//! A record consists of owner length, owner, type, TTL, RDATA length and RDATA; numbers are big-endian as on
//! the wire. An owner length of 0 means the owner of the preceding record. Names are uncompressed, in the
//! letter case of the zone.

use wire::{Name, Serial, Ttl, Type};
use zone::store::{ChangeSet, ChangedRecord, ChangedRecords};

/// Bytes of type, TTL and RDATA length.
const FIXED: usize = 8;
/// Bytes of the counts before a change's records: records removed, records added.
const COUNTS: usize = 8;

/// The stored bytes are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// Appends a record. Omits the owner if `same_owner` says that the preceding record has it.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    owner: Name<'_>,
    same_owner: bool,
    rtype: Type,
    ttl: Ttl,
    rdata: &[u8],
) {
    match same_owner {
        true => out.push(0),
        false => {
            out.push(owner.len() as u8);
            out.extend_from_slice(owner.as_wire());
        }
    }
    out.extend_from_slice(&rtype.0.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    out.extend_from_slice(rdata);
}

/// Reads records; the first must have an owner of its own.
pub(crate) struct RecordReader<'b> {
    rest: &'b [u8],
    owner: Option<Name<'b>>,
}

impl<'b> RecordReader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        RecordReader { rest: bytes, owner: None }
    }

    /// Whether all records have been read.
    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn next(&mut self) -> Result<ChangedRecord<'b>, Unreadable> {
        let (&len, rest) = self.rest.split_first().ok_or(Unreadable)?;
        let (owner, rest) = match len {
            0 => (self.owner.ok_or(Unreadable)?, rest),
            len => {
                let (owner, rest) = rest.split_at_checked(len.into()).ok_or(Unreadable)?;
                (Name::from_wire(owner).map_err(|_| Unreadable)?, rest)
            }
        };
        let (head, rest) = rest.split_first_chunk::<FIXED>().ok_or(Unreadable)?;
        let [t0, t1, l0, l1, l2, l3, d0, d1] = *head;
        let (rdata, rest) = rest.split_at_checked(u16::from_be_bytes([d0, d1]).into()).ok_or(Unreadable)?;
        (self.rest, self.owner) = (rest, Some(owner));
        let ttl = Ttl::from_be_bytes([l0, l1, l2, l3]);
        Ok(ChangedRecord { owner, rtype: Type(u16::from_be_bytes([t0, t1])), ttl, rdata })
    }
}

/// Appends a change, without its serials.
pub(crate) fn put_change(out: &mut Vec<u8>, change: &ChangeSet) {
    for records in [&change.removed, &change.added] {
        out.extend_from_slice(&(records.len() as u32).to_be_bytes());
    }
    let mut owner: Option<Name<'_>> = None;
    for record in change.removed.iter().chain(change.added.iter()) {
        let same = owner.is_some_and(|owner| owner.as_wire() == record.owner.as_wire());
        put_record(out, record.owner, same, record.rtype, record.ttl, record.rdata);
        owner = Some(record.owner);
    }
}

/// Parses a change between two versions.
pub(crate) fn read_change(bytes: &[u8], before: Serial, after: Serial) -> Result<ChangeSet, Unreadable> {
    let (counts, records) = bytes.split_first_chunk::<COUNTS>().ok_or(Unreadable)?;
    let [a, b, c, d, e, f, g, h] = *counts;
    let mut records = RecordReader::new(records);
    let mut some = |count: u32| {
        let mut some = ChangedRecords::default();
        for _ in 0..count {
            let ChangedRecord { owner, rtype, ttl, rdata } = records.next()?;
            some.push(owner, rtype, ttl, rdata);
        }
        Ok(some)
    };
    let removed = some(u32::from_be_bytes([a, b, c, d]))?;
    let added = some(u32::from_be_bytes([e, f, g, h]))?;
    match records.is_over() {
        true => Ok(ChangeSet { before, after, removed, added }),
        false => Err(Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn changes_are_read_as_they_were_written(
            records in prop::collection::vec((0..3u8, any::<bool>(), any::<u16>(), any::<u32>(),
                prop::collection::vec(any::<u8>(), 0..20)), 0..20),
        ) {
            let mut change = ChangeSet { before: Serial(3), after: Serial(9), ..ChangeSet::default() };
            for (owner, comes, rtype, ttl, rdata) in &records {
                let owner = [&b"\x01A\0"[..], b"\x01a\0", b"\0"][*owner as usize];
                let list = if *comes { &mut change.added } else { &mut change.removed };
                list.push(Name::of_checked(owner), Type(*rtype), Ttl::from_secs(*ttl), rdata);
            }
            let mut bytes = Vec::new();
            put_change(&mut bytes, &change);
            prop_assert_eq!(read_change(&bytes, Serial(3), Serial(9)), Ok(change));
            for len in 0..bytes.len() {
                prop_assert_eq!(read_change(&bytes[..len], Serial(3), Serial(9)), Err(Unreadable));
            }
            bytes.push(0);
            prop_assert_eq!(read_change(&bytes, Serial(3), Serial(9)), Err(Unreadable));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_change(&bytes, Serial(0), Serial(1));
        }
    }
}
