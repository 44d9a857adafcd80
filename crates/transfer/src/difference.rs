//! What changed from one version of a zone to the next: what IXFR carries (RFC 1995), and what a journal keeps.

use wire::message::{Malformed, RDLENGTH_AT, RECORD_HEAD, TTL_AT, rdlength};
use wire::rdata::MAX_RDATA;
use wire::rdata::view::Soa;
use wire::{Class, Name, Serial, Ttl, Type};

/// Records of class IN, one after the other: each as it stands in a message, its names uncompressed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RecordList {
    bytes: Vec<u8>,
    count: usize,
}

/// A record of a [`RecordList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedRecord<'a> {
    /// Owner, in the letter case it came in.
    pub owner: Name<'a>,
    /// Type.
    pub rtype: Type,
    /// TTL.
    pub ttl: Ttl,
    /// Data, uncompressed.
    pub rdata: &'a [u8],
}

impl RecordList {
    /// No records.
    pub const fn new() -> RecordList {
        RecordList { bytes: Vec::new(), count: 0 }
    }

    /// Adds a record; [`Malformed`] if its data has more than 65,535 bytes.
    pub fn push(&mut self, owner: Name<'_>, t: Type, ttl: Ttl, rdata: &[u8]) -> Result<(), Malformed> {
        if rdata.len() > MAX_RDATA {
            return Err(Malformed);
        }
        self.bytes.extend_from_slice(owner.as_wire());
        self.bytes.extend_from_slice(&t.0.to_be_bytes());
        self.bytes.extend_from_slice(&Class::IN.0.to_be_bytes());
        self.bytes.extend_from_slice(&ttl.to_be_bytes());
        self.bytes.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(rdata);
        self.count += 1;
        Ok(())
    }

    /// The records of these bytes, which [`as_bytes`](Self::as_bytes) had; [`Malformed`] if they are no such.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<RecordList, Malformed> {
        let mut list = RecordList { bytes, count: 0 };
        let mut at = 0;
        while at < list.bytes.len() {
            at = list.record_at(at).ok_or(Malformed)?.1;
            list.count += 1;
        }
        Ok(list)
    }

    /// The records, one after the other.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The records in their order.
    pub fn iter(&self) -> impl Iterator<Item = ListedRecord<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (record, next) = self.record_at(at)?;
            at = next;
            Some(record)
        })
    }

    /// The record that starts at byte `at`, and where the next one does.
    pub(crate) fn record_at(&self, at: usize) -> Option<(ListedRecord<'_>, usize)> {
        let owner = Name::parse(self.bytes.get(at..)?).ok()?;
        let head_at = at + owner.len();
        let head: &[u8; RECORD_HEAD] = self.bytes.get(head_at..)?.first_chunk()?;
        let (start, len) = (head_at + RECORD_HEAD, rdlength(head));
        let rdata = self.bytes.get(start..start + len)?;
        let rtype = Type(u16::from_be_bytes([head[0], head[1]]));
        let ttl: [u8; 4] = *head[TTL_AT..RDLENGTH_AT].first_chunk()?;
        Some((ListedRecord { owner, rtype, ttl: Ttl::from_be_bytes(ttl), rdata }, start + len))
    }

    /// The serial of the SOA that the list begins with.
    pub(crate) fn serial(&self) -> Option<Serial> {
        let first = self.iter().next().filter(|first| first.rtype == Type::SOA)?;
        Soa::read(first.rdata).ok().map(|soa| soa.numbers.serial)
    }
}

impl std::fmt::Debug for RecordList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What changed from one version to a later one. Each list begins with the SOA of its version (RFC 1995 §4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    from: Serial,
    to: Serial,
    removed: RecordList,
    added: RecordList,
}

impl Difference {
    /// The difference between the version whose SOA begins `removed` and the one whose SOA begins `added`; [`Malformed`]
    /// if one has none.
    pub fn new(removed: RecordList, added: RecordList) -> Result<Difference, Malformed> {
        let (from, to) = (removed.serial().ok_or(Malformed)?, added.serial().ok_or(Malformed)?);
        Ok(Difference { from, to, removed, added })
    }

    /// The version that is changed.
    pub fn from(&self) -> Serial {
        self.from
    }

    /// The version that it becomes.
    pub fn to(&self) -> Serial {
        self.to
    }

    /// The old SOA, and what is no longer there.
    pub fn removed(&self) -> &RecordList {
        &self.removed
    }

    /// The new SOA, and what is new.
    pub fn added(&self) -> &RecordList {
        &self.added
    }
}
