//! A change of a zone: records removed and added ([`ChangeSet`]), and why it cannot be applied
//! ([`ChangeError`]).

use std::fmt;

use wire::rdata::view::Soa;
use wire::{Name, NameBuf, Serial, Ttl, Type};

use crate::store::{AddError, Note};

/// One record of class IN that is removed or added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedRecord<'a> {
    /// The owner. Its letter case matters only if the name has no other records.
    pub owner: Name<'a>,
    /// The type.
    pub rtype: Type,
    /// The TTL. It is ignored for a removed record (RFC 2136 §3.4.2.4).
    pub ttl: Ttl,
    /// The RDATA, uncompressed.
    pub rdata: &'a [u8],
}

/// A list of records in insertion order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ChangedRecords {
    /// Each record: length of its owner, owner, type, TTL, RDATA.
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<usize>,
}

impl ChangedRecords {
    /// Appends a record, an RRSIG like any other. See [`ChangedRecord`] for the fields.
    pub fn push(&mut self, owner: Name<'_>, rtype: Type, ttl: Ttl, rdata: &[u8]) {
        self.bytes.push(owner.len() as u8);
        self.bytes.extend_from_slice(owner.as_wire());
        self.bytes.extend_from_slice(&rtype.0.to_be_bytes());
        self.bytes.extend_from_slice(&ttl.to_be_bytes());
        self.bytes.extend_from_slice(rdata);
        self.ends.push(self.bytes.len());
    }

    /// Appends all records of `others`.
    pub fn append(&mut self, others: &ChangedRecords) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&others.bytes);
        self.ends.extend(others.ends.iter().map(|end| start + end));
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The record at index `at`, counted from 0; `None` if there are fewer.
    pub fn get(&self, at: usize) -> Option<ChangedRecord<'_>> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let (len, rest) = self.bytes[start..end].split_first()?;
        let (owner, rest) = rest.split_at(*len as usize);
        let (rtype, rest) = rest.split_first_chunk()?;
        let (ttl, rdata) = rest.split_first_chunk()?;
        let rtype = Type(u16::from_be_bytes(*rtype));
        Some(ChangedRecord { owner: Name::of_checked(owner), rtype, ttl: Ttl::from_be_bytes(*ttl), rdata })
    }

    /// All records.
    pub fn iter(&self) -> impl Iterator<Item = ChangedRecord<'_>> {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

impl fmt::Debug for ChangedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The step from one version of a zone to the next, like a difference sequence of IXFR (RFC 1995 §4): first
/// the removed records, then the added ones. The SOA is in both if it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// The serial of the version to change.
    pub before: Serial,
    /// The serial of the resulting version.
    pub after: Serial,
    /// The removed records.
    pub removed: ChangedRecords,
    /// The added records.
    pub added: ChangedRecords,
}

impl ChangeSet {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// Number of removed and added records.
    pub fn record_count(&self) -> u64 {
        (self.removed.len() + self.added.len()) as u64
    }

    /// Whether this can be sent unchanged in IXFR: the removed records begin with the SOA of the old version,
    /// and the added ones with the SOA of the new version (RFC 1995 §4). This holds for the result of
    /// [`diff`](super::diff()) between versions with different serials.
    pub fn is_difference_sequence(&self) -> bool {
        let begins = |records: &ChangedRecords, serial| {
            let first = records.get(0).filter(|first| first.rtype == Type::SOA);
            first.and_then(|soa| Soa::read(soa.rdata).ok()).is_some_and(|soa| soa.numbers.serial == serial)
        };
        begins(&self.removed, self.before) && begins(&self.added, self.after)
    }
}

/// Why a change cannot be applied. The zone is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The change is for another version: the zone has this serial.
    OtherVersion(Serial),
    /// The resulting version has this serial, which is not the one in the change.
    OtherResult(Serial),
    /// A record to remove is not in the zone.
    NotThere(Box<RecordKey>),
    /// A record to add is in the zone already.
    AlreadyThere(Box<RecordKey>),
    /// The owner of a record is not at or below the zone's name.
    OutOfZone(Box<RecordKey>),
    /// A record is not allowed in any zone.
    Unfit(AddError, Box<RecordKey>),
    /// The zone would have no SOA at the apex, or one that cannot be read.
    NoSoa,
    /// The zone would have records that are not allowed.
    Fault(Box<Note>),
    /// There would be more than 32 GiB of records.
    TooBig,
    /// The version needs more memory than allowed; see [`Zone::apply_within`](crate::Zone::apply_within).
    OutOfMemory,
}

/// The name and type of a record that causes an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKey {
    /// The owner.
    pub owner: NameBuf,
    /// The type.
    pub rtype: Type,
}

impl From<ChangedRecord<'_>> for Box<RecordKey> {
    fn from(record: ChangedRecord<'_>) -> Self {
        Box::new(RecordKey { owner: record.owner.to_buf(), rtype: record.rtype })
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.owner, self.rtype)
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherVersion(serial) => write!(f, "the zone has serial {serial}"),
            Self::OtherResult(serial) => write!(f, "the change leads to serial {serial}"),
            Self::NotThere(record) => write!(f, "{record}: the record that is to go is not there"),
            Self::AlreadyThere(record) => write!(f, "{record}: the record that is to come is there already"),
            Self::OutOfZone(record) => write!(f, "{record}: not in the zone"),
            Self::Unfit(error, record) => write!(f, "{record}: {error}"),
            Self::NoSoa => f.write_str("no SOA record at the zone's name"),
            Self::Fault(note) => write!(f, "{note}"),
            Self::TooBig => f.write_str("more than 32 GiB of records"),
            Self::OutOfMemory => f.write_str("more memory is needed than there may be"),
        }
    }
}

impl std::error::Error for ChangeError {}
