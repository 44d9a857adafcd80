//! The layout of a node blob: only this file reads and writes offsets in it.
//!
//! ```text
//!  0  u24  size of the blob in units of eight bytes
//!  3  u8   length of the owner name
//!  4  u16  flags (NodeFlags and the builder's own)
//!  6  u16  number of RRsets
//!  8       owner name: lower case, uncompressed, with its root label
//!          directory: one entry of twelve bytes per RRset
//!          data of the RRsets in the order of the directory, back to back
//!          padding to a multiple of eight
//!          if the owner has upper-case letters (`CASED`): its letter case (`wire::name`), up to the end of the blob
//! ```
//!
//! A directory entry: `u16` type, `u16` number of records, `u16` bytes of records, `u16` bytes of
//! signatures, `u16` number of signatures (twelve bits) with flags above, `u16` number of compression
//! pointers. The data of an RRset: compiled records, compiled signatures, the pointers' offsets (`u16`
//! each), and, if the entry says so, one `u32` node address per record for its target name. All numbers
//! are little-endian except inside the compiled records, which are as on the wire.
//!
//! With an owner of usual length the header, the owner, two directory entries and the first record are in the
//! first 64 bytes: an exact match reads one cache line of the index and one or two of the blob.

use wire::message::{HEADER_LEN, Offset, POINTER_LEN, QUESTION_TAIL, RDLENGTH_AT, RECORD_HEAD, TTL_AT};
use wire::{LowerName, Name, NameBuf, Type};

use super::node::NodeFlags;

use crate::prefetch::{self, Part};

/// Bytes before the owner name.
pub(super) const HEADER: usize = 8;
/// Bytes of one directory entry.
pub(super) const ENTRY: usize = 12;
/// In an entry's signature field: the RRset has a node address per record.
pub(super) const HAS_TARGETS: u16 = 0x8000;
/// In an entry's signature field: a target name has upper-case letters.
pub(super) const CASED_TARGETS: u16 = 0x4000;
/// In an entry's signature field: the number itself. A signature takes at least 31 bytes, so twelve bits
/// suffice.
pub(super) const SIG_COUNT: u16 = 0x0fff;

/// Bytes of a compiled record before its RDATA: its owner is a pointer.
pub const COMPILED_HEAD: usize = POINTER_LEN + RECORD_HEAD;
/// Offset of the TTL in a compiled record.
pub(super) const COMPILED_TTL: usize = POINTER_LEN + TTL_AT;
/// Offset of RDLENGTH in a compiled record.
pub(super) const COMPILED_RDLENGTH: usize = POINTER_LEN + RDLENGTH_AT;

/// Returns the message offset at which an RRset is compiled to start: after a question for its owner, which
/// has `owner_len` bytes.
#[inline]
pub(super) fn compiled_at(owner_len: usize) -> usize {
    HEADER_LEN + owner_len + QUESTION_TAIL
}

/// The target of a compression pointer in a compiled RRset.
///
/// The owner `www.example.` has 13 bytes: it takes 12 to 25 of the message, type and class of the question
/// end at 29, and there the RRset starts. `c010` points at 16, 4 bytes into the owner: `example.`. `c02b`
/// points at 43, 14 bytes into the records.
#[derive(Clone, Copy)]
pub(super) enum Lead {
    /// The owner in the question, from this offset on.
    Owner(usize),
    /// The RRset, from this offset in its records on.
    Records(usize),
}

impl Lead {
    /// Returns the target of `pointer` in an RRset whose owner has `owner_len` bytes; `None` for the header
    /// and for the question's type and class.
    #[inline]
    pub(super) fn of(pointer: [u8; POINTER_LEN], owner_len: usize) -> Option<Lead> {
        let to = Offset::of_pointer(pointer).index();
        match to.checked_sub(HEADER_LEN)? {
            to if to < owner_len => Some(Lead::Owner(to)),
            _ => to.checked_sub(compiled_at(owner_len)).map(Lead::Records),
        }
    }
}

#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
pub(super) fn be16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the size in bytes of the blob at the start of `bytes`.
#[inline]
pub(super) fn size(bytes: &[u8]) -> usize {
    (u32_at(bytes, 0) & 0x00ff_ffff) as usize * super::arena::UNIT
}

/// Returns the owner name. The builder has written a valid one, or verifying has found one.
#[inline]
pub(super) fn owner(blob: &[u8]) -> LowerName<'_> {
    LowerName::of_checked(&blob[HEADER..HEADER + blob[3] as usize])
}

/// Returns the owner name in the letter case of the zone's source.
pub(super) fn written_owner(blob: &[u8]) -> NameBuf {
    let owner = owner(blob);
    match flags(blob) & NodeFlags::CASED.0 {
        0 => owner.as_name().to_buf(),
        _ => owner.in_case(&blob[size(blob) - Name::case_len(owner.len())..size(blob)]),
    }
}

/// Returns the raw flags.
#[inline]
pub(super) fn flags(blob: &[u8]) -> u16 {
    u16_at(blob, 4)
}

/// Replaces the raw flags.
pub(super) fn set_flags(blob: &mut [u8], flags: u16) {
    blob[4..6].copy_from_slice(&flags.to_le_bytes());
}

/// Returns the number of RRsets.
#[inline]
pub(super) fn rrsets(blob: &[u8]) -> usize {
    u16_at(blob, 6) as usize
}

/// A decoded entry of the directory.
#[derive(Clone, Copy)]
pub(super) struct DirectoryEntry {
    pub(super) rtype: Type,
    pub(super) count: u16,
    pub(super) records_len: u16,
    pub(super) sigs_len: u16,
    pub(super) sigs: u16,
    pub(super) fixups: u16,
}

impl DirectoryEntry {
    #[inline]
    pub(super) fn read(blob: &[u8], at: usize) -> Self {
        let e: &[u8] = &blob[at..at + ENTRY];
        DirectoryEntry {
            rtype: Type(u16_at(e, 0)),
            count: u16_at(e, 2),
            records_len: u16_at(e, 4),
            sigs_len: u16_at(e, 6),
            sigs: u16_at(e, 8),
            fixups: u16_at(e, 10),
        }
    }

    pub(super) fn write(&self, to: &mut [u8]) {
        let fields = [self.rtype.0, self.count, self.records_len, self.sigs_len, self.sigs, self.fixups];
        for (place, field) in to.chunks_exact_mut(2).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
    }

    #[inline]
    pub(super) fn has_targets(&self) -> bool {
        self.sigs & HAS_TARGETS != 0
    }

    /// Returns the offset of the targets' addresses from the start of the RRset's data.
    #[inline]
    pub(super) fn targets_at(&self) -> usize {
        self.records_len as usize + self.sigs_len as usize + 2 * self.fixups as usize
    }

    /// Returns the length of the RRset's data in bytes.
    #[inline]
    pub(super) fn data_len(&self) -> usize {
        self.targets_at() + if self.has_targets() { 4 * self.count as usize } else { 0 }
    }
}

/// Returns the entries of a blob, each with the offset of its data in the blob.
#[inline]
pub(super) fn entries(blob: &[u8]) -> Entries<'_> {
    let next = HEADER + blob[3] as usize;
    let end = next + rrsets(blob) * ENTRY;
    prefetch::read(Part::Node, blob.get(..end).unwrap_or_default());
    Entries { blob, next, end, data: end }
}

/// See [`entries`]. A type of its own, so that its steps are inlined into the loop: an entry passed through
/// memory, written field by field and read as a whole, stalls the processor.
pub(super) struct Entries<'b> {
    blob: &'b [u8],
    /// Offsets of the next entry, and of the end of the directory.
    next: usize,
    end: usize,
    /// Offset of the next entry's data.
    data: usize,
}

impl Iterator for Entries<'_> {
    type Item = (DirectoryEntry, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let (entry, at) = (DirectoryEntry::read(self.blob, self.next), self.data);
        (self.next, self.data) = (self.next + ENTRY, at + entry.data_len());
        Some((entry, at))
    }
}

/// Returns the offset of the target name in the RDATA of the types whose targets are resolved when a zone is
/// built: only fields of fixed length precede it, so it is known without reading any. A test checks that
/// [`wire::rdata::embedded_names`] returns the same.
pub(super) fn target_offset(t: Type) -> Option<usize> {
    match t {
        Type::NS | Type::CNAME => Some(0),
        Type::MX | Type::KX | Type::AFSDB | Type::RT | Type::SVCB | Type::HTTPS => Some(2),
        Type::SRV => Some(6),
        _ => None,
    }
}
