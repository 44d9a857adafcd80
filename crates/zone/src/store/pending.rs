//! The records of one name while it is being read, and the problems they can have: [`Note`].

use std::fmt;

use wire::rdata::view::Rrsig;
use wire::{LowerNameBuf, Name, NameBuf, Ttl, Type};

/// One record whose name is not complete yet; its RDATA is in [`Pending::bytes`].
#[derive(Clone, Copy)]
pub(super) struct PendingRecord {
    pub(super) rtype: Type,
    /// The type that an RRSIG covers; the record's own type for all others.
    pub(super) covered: Type,
    pub(super) ttl: Ttl,
    pub(super) start: u32,
    pub(super) len: u16,
    /// The source of the record; see [`Note::source`].
    pub(super) source: u64,
}

/// All records read so far of the current name. It is reused from name to name.
pub(super) struct Pending {
    pub(super) owner: LowerNameBuf,
    /// The owner as written in its first record, if that has upper-case letters.
    cased: Option<NameBuf>,
    pub(super) records: Vec<PendingRecord>,
    pub(super) bytes: Vec<u8>,
}

impl Pending {
    pub(super) fn new() -> Self {
        Pending { owner: LowerNameBuf::ROOT, cased: None, records: Vec::new(), bytes: Vec::new() }
    }

    /// Removes all records and begins a name.
    pub(super) fn begin(&mut self, owner: Name<'_>) {
        self.owner.set(owner);
        self.cased = owner.has_upper_case().then(|| owner.to_buf());
        self.records.clear();
        self.bytes.clear();
    }

    /// The owner as written in its first record.
    pub(super) fn written_owner(&self) -> Name<'_> {
        self.cased.as_ref().map_or(self.owner.as_name(), NameBuf::as_name)
    }

    /// Adds a record; its RDATA is at most 65,535 bytes.
    pub(super) fn push(&mut self, rtype: Type, ttl: Ttl, rdata: &[u8], source: u64) {
        let covered = match rtype {
            Type::RRSIG => Rrsig::read_type_covered(rdata).unwrap_or(rtype),
            _ => rtype,
        };
        let (start, len) = (self.bytes.len() as u32, rdata.len() as u16);
        self.bytes.extend_from_slice(rdata);
        self.records.push(PendingRecord { rtype, covered, ttl, start, len, source });
    }

    /// Bytes of memory allocated.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<PendingRecord>()
    }

    pub(super) fn rdata(&self, record: &PendingRecord) -> &[u8] {
        &self.bytes[record.start as usize..][..record.len as usize]
    }
}

/// A problem in the zone's data that the operator should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The kind of problem.
    pub kind: NoteKind,
    /// Owner of the record.
    pub owner: NameBuf,
    /// Type of the record.
    pub rtype: Type,
    /// The `source` passed to [`ZoneBuilder::add_from`](super::ZoneBuilder::add_from) with the record; 0 if
    /// none was passed, or if the records of a name that occurs in several places were merged.
    pub source: u64,
}

/// Kinds of [`Note`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// The owner is not at or below the apex; the record was left out.
    OutOfZone,
    /// The same record twice (equal in canonical form); it is stored once.
    Duplicate,
    /// The records of one RRset have different TTLs (RFC 2181 §5.2); all got the TTL of the first.
    TtlMismatch,
    /// CNAME and records of other types at one name (RFC 1034 §3.6.2).
    CnameAndOther,
    /// More than one CNAME at one name (RFC 2181 §10.1).
    MultipleCname,
    /// More than one DNAME at one name (RFC 6672 §2.4).
    MultipleDname,
    /// More than one SOA (RFC 1035 §5.2); the first is used.
    MultipleSoa,
    /// SOA at a name that is not the apex.
    SoaBelowApex,
    /// No NS at the apex (RFC 1035 §5.2).
    NoApexNs,
    /// The RRset and its signatures do not fit into one message; it was left out.
    RrsetTooLarge,
    /// The name has more bytes of records than a node can hold (16 MiB); it was left out.
    NameTooLarge,
}

impl NoteKind {
    /// Whether a zone with this problem should not be served; other servers reject it, too.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::OutOfZone | Self::Duplicate | Self::TtlMismatch)
    }
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfZone => "not in the zone, left out",
            Self::Duplicate => "the same record twice",
            Self::TtlMismatch => "TTLs of the RRset differ, using the first",
            Self::CnameAndOther => "CNAME and other data",
            Self::MultipleCname => "more than one CNAME",
            Self::MultipleDname => "more than one DNAME",
            Self::MultipleSoa => "more than one SOA",
            Self::SoaBelowApex => "SOA at a name that is not the zone's",
            Self::NoApexNs => "no NS at the zone's name",
            Self::RrsetTooLarge => "the RRset does not fit into a message of 64 KiB",
            Self::NameTooLarge => "more than 16 MiB of records at one name",
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.owner, self.rtype, self.kind)
    }
}

/// Notes up to a limit; those beyond it are only counted.
pub(super) struct Notes {
    pub(super) kept: Vec<Note>,
    pub(super) left_out: u64,
    /// The first note, kept or not, that [`is_error`](NoteKind::is_error).
    pub(super) error: Option<Note>,
    pub(super) most: usize,
}

impl Notes {
    pub(super) fn new(most: usize) -> Self {
        Notes { kept: Vec::new(), left_out: 0, error: None, most }
    }

    pub(super) fn add(&mut self, kind: NoteKind, owner: Name<'_>, rtype: Type, source: u64) {
        let note = || Note { kind, owner: owner.to_buf(), rtype, source };
        if kind.is_error() && self.error.is_none() {
            self.error = Some(note());
        }
        if self.kept.len() >= self.most {
            self.left_out += 1;
            return;
        }
        // Merging the blobs of a name may find a problem again that was noted for one of them.
        let known = |n: &Note| n.kind == kind && n.rtype == rtype && n.owner.as_name() == owner;
        if source == 0 && self.kept.iter().any(known) {
            return;
        }
        self.kept.push(note());
    }
}
