//! The layout of one node blob: every offset in it is read and written here.
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
//! With an owner of usual length the header, the owner, two directory entries and the first record lie in
//! the first 64 bytes: an exact hit reads one cache line of the index and one or two of the blob.

use wire::message::{HEADER_LEN, Offset, POINTER_LEN, QUESTION_TAIL, RDLENGTH_AT, RECORD_HEAD, TTL_AT};
use wire::{LowerName, Name, NameBuf, Type};

use super::node::NodeFlags;

use crate::prefetch::{self, Part};

/// Bytes in front of the owner name.
pub(super) const HEADER: usize = 8;
/// Bytes of one directory entry.
pub(super) const ENTRY: usize = 12;
/// In an entry's signature field: the RRset carries a node address per record.
pub(super) const HAS_TARGETS: u16 = 0x8000;
/// In an entry's signature field: a target name has upper-case letters.
pub(super) const CASED_TARGETS: u16 = 0x4000;
/// In an entry's signature field: the number itself. A signature takes at least 31 bytes, so twelve bits do.
pub(super) const SIG_COUNT: u16 = 0x0fff;

/// Bytes of a compiled record in front of its RDATA: its owner is a pointer.
pub const COMPILED_HEAD: usize = POINTER_LEN + RECORD_HEAD;
/// Where in a compiled record its TTL stands.
pub(super) const COMPILED_TTL: usize = POINTER_LEN + TTL_AT;
/// Where in a compiled record its RDLENGTH stands.
pub(super) const COMPILED_RDLENGTH: usize = POINTER_LEN + RDLENGTH_AT;

/// The message offset at which an RRset is compiled to start: after a question for its owner, of so many
/// bytes.
#[inline]
pub(super) fn compiled_at(owner_len: usize) -> usize {
    HEADER_LEN + owner_len + QUESTION_TAIL
}

/// What a compression pointer in a compiled RRset leads to.
///
/// The owner `www.example.` has 13 bytes: it takes 12 to 25 of the message, type and class of the question
/// end at 29, and there the RRset starts. `c010` points at 16, 4 bytes into the owner: `example.`. `c02b`
/// points at 43, 14 bytes into the records.
#[derive(Clone, Copy)]
pub(super) enum Lead {
    /// The owner, as it stands in the question, from so many bytes into it.
    Owner(usize),
    /// The RRset, from so many bytes into its records.
    Records(usize),
}

impl Lead {
    /// Where `pointer` leads in an RRset whose owner has so many bytes; `None` for the header and for the
    /// question's type and class.
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

/// Bytes of the blob that starts at the front of `bytes`.
#[inline]
pub(super) fn size(bytes: &[u8]) -> usize {
    (u32_at(bytes, 0) & 0x00ff_ffff) as usize * super::arena::UNIT
}

/// The owner name. The builder has put one there, or verifying has found one.
#[inline]
pub(super) fn owner(blob: &[u8]) -> LowerName<'_> {
    LowerName::of_checked(&blob[HEADER..HEADER + blob[3] as usize])
}

/// The owner name as it is written in the zone's source.
pub(super) fn written_owner(blob: &[u8]) -> NameBuf {
    let owner = owner(blob);
    match flags(blob) & NodeFlags::CASED.0 {
        0 => owner.as_name().to_buf(),
        _ => owner.in_case(&blob[size(blob) - Name::case_len(owner.len())..size(blob)]),
    }
}

/// The raw flags.
#[inline]
pub(super) fn flags(blob: &[u8]) -> u16 {
    u16_at(blob, 4)
}

/// Replaces the raw flags.
pub(super) fn set_flags(blob: &mut [u8], flags: u16) {
    blob[4..6].copy_from_slice(&flags.to_le_bytes());
}

/// Number of RRsets.
#[inline]
pub(super) fn rrsets(blob: &[u8]) -> usize {
    u16_at(blob, 6) as usize
}

/// One entry of the directory, decoded.
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

    /// Where the addresses of the targets begin, from the start of the RRset's data.
    #[inline]
    pub(super) fn targets_at(&self) -> usize {
        self.records_len as usize + self.sigs_len as usize + 2 * self.fixups as usize
    }

    /// Bytes of the RRset's data.
    #[inline]
    pub(super) fn data_len(&self) -> usize {
        self.targets_at() + if self.has_targets() { 4 * self.count as usize } else { 0 }
    }
}

/// The entries of a blob, each with the offset of its data in the blob.
#[inline]
pub(super) fn entries(blob: &[u8]) -> Entries<'_> {
    let next = HEADER + blob[3] as usize;
    let end = next + rrsets(blob) * ENTRY;
    prefetch::read(Part::Node, blob.get(..end).unwrap_or_default());
    Entries { blob, next, end, data: end }
}

/// See [`entries`]. A type of its own, so that its steps become part of the loop: an entry handed over
/// through memory, written field by field and read as a whole, costs the processor a stall.
pub(super) struct Entries<'b> {
    blob: &'b [u8],
    /// Where the next entry stands, and where the directory ends.
    next: usize,
    end: usize,
    /// Where the next entry's data stands.
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

/// Where the target name stands in the RDATA of the types whose targets are resolved when a zone is built: in
/// front of it is nothing but fields of fixed length, so it is known without reading any.
/// [`wire::rdata::embedded_names`] says the same, as a test sees to.
pub(super) fn target_offset(t: Type) -> Option<usize> {
    match t {
        Type::NS | Type::CNAME => Some(0),
        Type::MX | Type::KX | Type::AFSDB | Type::RT | Type::SVCB | Type::HTTPS => Some(2),
        Type::SRV => Some(6),
        _ => None,
    }
}
