//! Verifies the parts of a snapshot that come from outside: every length, offset and address, so that no
//! lookup can leave its memory, follow an address to a place where no node begins, or loop.
//!
//! This does not prove that the zone has the content of its zone file; checksums do that. Wrong content can
//! do what a wrong zone file could do, too: cause wrong answers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::message::{MAX_MESSAGE, MAX_POINTERS, POINTER, POINTER_LEN, QNAME_POINTER};
use wire::name::MAX_LABEL;
use wire::{Class, LowerName, Name, Type};

use super::arena::{CHUNK, MAX_CHUNKS, NodeAddress, UNIT};
use super::blob::{self, COMPILED_HEAD, COMPILED_RDLENGTH, DirectoryEntry, ENTRY, HEADER, Lead, be16_at};
use super::index::{self, BUCKET};
use super::node::{DEAD, NodeFlags};
use super::parallel::in_parallel;
use super::parts::ZoneParts;
use super::sorted::{self, KEYED_NODE};

/// Why parts do not form a valid snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsound(pub(crate) &'static str);

/// The counts of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneCounts {
    /// Records of the live nodes, including signatures.
    pub(crate) records: u64,
    /// Live nodes.
    pub(crate) nodes: u64,
    /// Whether any node's leftmost label is an asterisk.
    pub(crate) wildcards: bool,
}

/// Bytes of the index that a thread verifies at a time.
const INDEX_PIECE_BYTES: usize = 1 << 20;

/// Maximum pointers in a name of an RRset: the owners of other records may point at it.
const MOST_POINTERS: usize = MAX_POINTERS - 1;

/// Verifies the parts of the zone `apex` on `threads` threads.
pub(super) fn parts(parts: &ZoneParts, apex: LowerName<'_>, threads: usize) -> Result<(), Unsound> {
    if parts.chunks.is_empty() || parts.chunks.len() > MAX_CHUNKS {
        return Err(Unsound("the number of chunks is out of bounds"));
    }
    if parts.chunks.iter().any(|chunk| chunk.len() > CHUNK || !chunk.len().is_multiple_of(UNIT)) {
        return Err(Unsound("a chunk has an impossible length"));
    }
    if parts.index.is_empty()
        || !parts.index.len().is_multiple_of(BUCKET)
        || !parts.nsec.len().is_multiple_of(KEYED_NODE)
    {
        return Err(Unsound("the index or the order of names has an impossible length"));
    }
    let nsec3 = parts.nsec3.as_ref().map_or(&[][..], |chain| &chain.nodes);
    if parts.nsec3.is_some() && nsec3.is_empty() || !nsec3.len().is_multiple_of(KEYED_NODE) {
        return Err(Unsound("the NSEC3 chain has an impossible length"));
    }
    let starts = Bits::for_chunks(parts);
    let wanted = Bits::for_chunks(parts);
    let found = Mutex::new(ZoneCounts::default());
    in_parallel(threads, parts.chunks.len(), |i| {
        let mut checker = Verifier { apex: apex.as_wire(), wanted: &wanted, counts: ZoneCounts::default() };
        checker.chunk(&parts.chunks[i], &starts.0[i])?;
        let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        found.records += checker.counts.records;
        found.nodes += checker.counts.nodes;
        found.wildcards |= checker.counts.wildcards;
        Ok(())
    })?;
    if *found.lock().unwrap_or_else(std::sync::PoisonError::into_inner) != parts.counts {
        return Err(Unsound("the numbers of records and names are not those of the nodes"));
    }
    if !wanted.within(&starts) {
        return Err(Unsound("a record's target is no node"));
    }
    let is_node = |at: NodeAddress| starts.has(at);
    in_parallel(threads, parts.index.len().div_ceil(INDEX_PIECE_BYTES), |i| {
        let piece = &parts.index[i * INDEX_PIECE_BYTES..parts.index.len().min((i + 1) * INDEX_PIECE_BYTES)];
        let sound = index::is_sound(piece, is_node);
        if sound { Ok(()) } else { Err(Unsound("an entry of the index is no node")) }
    })?;
    if !sorted::addresses(&parts.nsec).chain(sorted::addresses(nsec3)).all(is_node) {
        return Err(Unsound("a name of a chain is no node"));
    }
    apex_is(parts, &starts, apex)
}

/// Whether the stored address of the apex is that of the apex node.
fn apex_is(parts: &ZoneParts, starts: &Bits, apex: LowerName<'_>) -> Result<(), Unsound> {
    let there = starts.has(parts.apex).then(|| {
        let chunk = &parts.chunks[parts.apex.chunk()];
        &chunk[parts.apex.start()..]
    });
    match there {
        Some(node) if blob::owner(node) == apex && blob::flags(node) & DEAD == 0 => Ok(()),
        _ => Err(Unsound("the apex is not where it should be")),
    }
}

/// One bit for each address of an arena.
struct Bits(Vec<Box<[AtomicU64]>>);

impl Bits {
    fn for_chunks(parts: &ZoneParts) -> Bits {
        let words = |bytes: usize| (bytes / UNIT).div_ceil(64);
        let zeros = |n| (0..n).map(|_| AtomicU64::new(0)).collect();
        Bits(parts.chunks.iter().map(|chunk| zeros(words(chunk.len()))).collect())
    }

    /// The word and the bit of an address, if the address is within the arena.
    #[inline]
    fn place(&self, at: NodeAddress) -> Option<(&AtomicU64, u64)> {
        let word = self.0.get(at.chunk())?.get(at.unit() / 64)?;
        Some((word, 1 << (at.unit() % 64)))
    }

    #[inline]
    fn has(&self, at: NodeAddress) -> bool {
        self.place(at).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Sets a bit. Returns `false` if the address is outside the arena.
    #[inline]
    fn set(&self, at: NodeAddress) -> bool {
        let Some((word, bit)) = self.place(at) else { return false };
        // Many records may point to the same host: reading its bit is cheaper than writing it again.
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
        true
    }

    /// Whether every bit is also set in `other`, which must have the same size.
    fn within(&self, other: &Bits) -> bool {
        let words = self.0.iter().flatten().zip(other.0.iter().flatten());
        words.into_iter().all(|(mine, theirs)| mine.load(Relaxed) & !theirs.load(Relaxed) == 0)
    }
}

/// Verifies blobs.
struct Verifier<'a> {
    apex: &'a [u8],
    wanted: &'a Bits,
    counts: ZoneCounts,
}

type Verified = Result<(), Unsound>;

impl Verifier<'_> {
    /// Verifies every blob of a chunk and marks the address where each starts.
    fn chunk(&mut self, chunk: &[u8], starts: &[AtomicU64]) -> Verified {
        let (mut at, mut word, mut bits) = (0, 0, 0u64);
        while at < chunk.len() {
            // Lengths are multiples of eight, the length of a header, so a whole header is left.
            let size = blob::size(&chunk[at..]);
            let Some(blob) = chunk.get(at..at + size).filter(|_| size > 0) else {
                return Err(Unsound("a node is longer than its chunk"));
            };
            self.blob(blob)?;
            let unit = at / UNIT;
            if unit / 64 != word {
                starts[word].store(bits, Relaxed);
                (word, bits) = (unit / 64, 0);
            }
            bits |= 1 << (unit % 64);
            at += size;
        }
        if let Some(last) = starts.get(word) {
            last.store(bits, Relaxed);
        }
        Ok(())
    }

    fn blob(&mut self, blob: &[u8]) -> Verified {
        let directory = HEADER + blob[3] as usize;
        let count = blob::rrsets(blob);
        let mut data = directory + count * ENTRY;
        if data > blob.len() {
            return Err(Unsound("a node is shorter than its directory"));
        }
        let owner = OwnerName::read(&blob[HEADER..directory], self.apex)?;
        let (mut records, mut has) = (0, 0);
        for i in 0..count {
            let entry = DirectoryEntry::read(blob, directory + i * ENTRY);
            let Some(bytes) = blob.get(data..data + entry.data_len()) else {
                return Err(Unsound("a node is shorter than its records"));
            };
            data += bytes.len();
            self.rrset(bytes, &entry, &owner)?;
            records += entry.count as u64 + (entry.sigs & blob::SIG_COUNT) as u64;
            has |= match entry.rtype {
                Type::NS if owner.wire.len() != self.apex.len() => NodeFlags::CUT.0,
                Type::DNAME => NodeFlags::DNAME.0,
                _ => 0,
            };
        }
        if blob::flags(blob) & NodeFlags::CASED.0 != 0 && data + Name::case_len(owner.wire.len()) > blob.len()
        {
            return Err(Unsound("a node is shorter than the letter case of its owner"));
        }
        let at_apex = owner.wire.len() == self.apex.len();
        let wildcard = owner.wire.starts_with(b"\x01*");
        has |= if at_apex { NodeFlags::APEX.0 } else { 0 };
        has |= if wildcard { NodeFlags::WILDCARD.0 } else { 0 };
        has |= if count == 0 { NodeFlags::EMPTY.0 } else { 0 };
        let flags = blob::flags(blob);
        let checked = NodeFlags::CUT.0
            | NodeFlags::DNAME.0
            | NodeFlags::APEX.0
            | NodeFlags::WILDCARD.0
            | NodeFlags::EMPTY.0;
        if flags & checked != has {
            return Err(Unsound("a node's flags do not fit its records"));
        }
        if flags & DEAD == 0 {
            self.counts.nodes += 1;
            self.counts.records += records;
            self.counts.wildcards |= wildcard;
        }
        Ok(())
    }

    fn rrset(&self, bytes: &[u8], entry: &DirectoryEntry, owner: &OwnerName<'_>) -> Verified {
        let (records, sigs) = (entry.records_len as usize, entry.sigs_len as usize);
        if blob::compiled_at(owner.wire.len()) + records + sigs > MAX_MESSAGE || entry.count == 0 {
            return Err(Unsound("an RRset has an impossible size"));
        }
        let (compiled, rest) = bytes.split_at(records);
        let (signatures, rest) = rest.split_at(sigs);
        let (fixups, targets) = rest.split_at(2 * entry.fixups as usize);
        let fixups = fixups.as_chunks::<2>().0;
        let offset = blob::target_offset(entry.rtype);
        let targets = match (targets.is_empty(), offset) {
            (false, Some(offset)) => Some((targets.as_chunks::<4>().0, offset)),
            (true, _) => None,
            (false, None) => return Err(Unsound("a type without targets has targets")),
        };
        let mut walk = RecordWalk { left: compiled, at: 0, head: head(entry.rtype) };
        let (mut count, mut next) = (0usize, 0usize);
        while let Some((start, end)) = walk.step()? {
            // Pointers must not overlap: RDATA is copied piece by piece between them.
            let mut free = start;
            while let Some(&fixup) = fixups.get(next) {
                let at = u16::from_le_bytes(fixup) as usize;
                if at < free {
                    return Err(Unsound("a compression pointer is not in RDATA, or in another one"));
                }
                if at + POINTER_LEN > end {
                    break;
                }
                name(compiled, at, owner)?;
                (next, free) = (next + 1, at + POINTER_LEN);
            }
            if let Some((targets, offset)) = targets {
                let target = targets.get(count).and_then(|&at| NodeAddress::somewhere(at));
                if target.is_some_and(|target| start + offset >= end || !self.wanted.set(target)) {
                    return Err(Unsound("a record's target is no node"));
                }
            }
            count += 1;
        }
        if count != entry.count as usize || next != fixups.len() {
            return Err(Unsound("an RRset has other records or pointers than it says"));
        }
        let mut walk = RecordWalk { left: signatures, at: 0, head: head(Type::RRSIG) };
        let mut count = 0;
        while walk.step()?.is_some() {
            count += 1;
        }
        match count == (entry.sigs & blob::SIG_COUNT) as usize {
            true => Ok(()),
            false => Err(Unsound("an RRset has other signatures than it says")),
        }
    }
}

/// The first six bytes of every compiled record of one type (owner, type, class) as a number, for one
/// comparison: A has `c0 0c 00 01 00 01`, so 0x0100_0100_0cc0.
fn head(t: Type) -> u64 {
    let ([to, at], [high, low], [class, in_]) = (QNAME_POINTER, t.0.to_be_bytes(), Class::IN.0.to_be_bytes());
    u64::from_le_bytes([to, at, high, low, class, in_, 0, 0])
}

/// Mask of the bytes that the [`head`] uses: six of eight.
const HEAD: u64 = (1 << 48) - 1;

/// Iterates over the records of one type.
struct RecordWalk<'a> {
    left: &'a [u8],
    at: usize,
    head: u64,
}

impl RecordWalk<'_> {
    /// Returns the range of the next record's RDATA; `None` at the end.
    #[inline]
    fn step(&mut self) -> Result<Option<(usize, usize)>, Unsound> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let Some((front, rest)) = self.left.split_first_chunk::<COMPILED_HEAD>() else {
            return Err(Unsound("a record is cut short"));
        };
        let len = be16_at(front, COMPILED_RDLENGTH) as usize;
        let checked = front.first_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes));
        if checked & HEAD != self.head || len > rest.len() {
            return Err(Unsound("a record is not of its RRset, or longer than it"));
        }
        let start = self.at + COMPILED_HEAD;
        self.left = &rest[len..];
        self.at = start + len;
        Ok(Some((start, start + len)))
    }
}

/// An owner name of the zone.
struct OwnerName<'a> {
    wire: &'a [u8],
}

impl<'a> OwnerName<'a> {
    fn read(wire: &'a [u8], apex: &[u8]) -> Result<Self, Unsound> {
        // The apex is a valid name, so only the labels before it have to be verified.
        let Some(below) = wire.len().checked_sub(apex.len()).filter(|&below| wire[below..] == *apex) else {
            return Err(Unsound("an owner is no name of the zone"));
        };
        let mut at = 0;
        while at < below {
            let len = wire[at] as usize;
            let label = wire.get(at + 1..at + 1 + len).unwrap_or_default();
            if len == 0 || len > MAX_LABEL || label.iter().any(u8::is_ascii_uppercase) {
                return Err(Unsound("an owner is no name in lower case"));
            }
            at += len + 1;
        }
        if at == below { Ok(OwnerName { wire }) } else { Err(Unsound("an owner is no name of the zone")) }
    }

    fn has_label_at(&self, to: usize) -> bool {
        let mut at = 0;
        while at < to && at < self.wire.len() {
            at += self.wire[at] as usize + 1;
        }
        at == to
    }
}

/// [`MAX_LABEL`] in the type of a length byte.
const LABEL: u8 = MAX_LABEL as u8;

/// Verifies the pointer at `at` and the name it refers to: the name ends, its pointers only refer backwards,
/// and there are not too many.
fn name(records: &[u8], at: usize, owner: &OwnerName<'_>) -> Verified {
    const BAD: Unsound = Unsound("a compression pointer leads nowhere");
    let (mut at, mut before, mut pointers) = (at, at, 0);
    loop {
        let Some(&len) = records.get(at) else { return Err(BAD) };
        match len {
            0 => return Ok(()),
            1..=LABEL => at += len as usize + 1,
            POINTER.. => {
                let Some(&low) = records.get(at + 1) else { return Err(BAD) };
                pointers += 1;
                if pointers > MOST_POINTERS {
                    return Err(Unsound("a name has more compression pointers than readers follow"));
                }
                match Lead::of([len, low], owner.wire.len()) {
                    Some(Lead::Owner(to)) => return if owner.has_label_at(to) { Ok(()) } else { Err(BAD) },
                    Some(Lead::Records(to)) if to < before => (at, before) = (to, to),
                    _ => return Err(BAD),
                }
            }
            _ => return Err(BAD),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_and_never_run_in_circles() {
        let owner = OwnerName::read(b"\x03www\x07example\0", b"\x07example\0").expect("a name");
        let here = blob::compiled_at(owner.wire.len()) as u16;
        let pointer = |to: u16| (0xc000 | to).to_be_bytes();
        let check = |bytes: &[u8], at| name(bytes, at, &owner).is_ok();
        assert!(check(&pointer(16), 0), "example in the owner");
        assert!(check(&pointer(12), 0), "the owner itself");
        assert!(!check(&pointer(13), 0), "inside a label");
        assert!(!check(&pointer(11), 0), "in the header");
        assert!(!check(&pointer(here - 1), 0), "in the question's type");
        assert!(!check(&pointer(here), 0), "at itself");
        let long = [&b"\x01a\0\x02bc"[..], &pointer(here), &b"\x01d"[..], &pointer(here + 3)].concat();
        assert!(check(&long, 10), "{long:?}");
        // Names in sequence, each pointing at the one before: `a`, then `b` and a pointer, and so on.
        let ladder = |rungs: u16| -> Vec<u8> {
            let rung =
                |i: u16| [&b"\x01b"[..], &pointer(here + if i == 0 { 0 } else { 3 + 4 * (i - 1) })].concat();
            [b"\x01a\0".to_vec()].into_iter().chain((0..rungs).map(rung)).collect::<Vec<_>>().concat()
        };
        for (rungs, good) in [(MOST_POINTERS, true), (MOST_POINTERS + 1, false)] {
            let bytes = ladder(rungs as u16);
            assert_eq!(check(&bytes, bytes.len() - 2), good, "{rungs}");
        }
        let circle = [&b"\x01a"[..], &pointer(here + 4), &pointer(here)].concat();
        assert!(!check(&circle, 4), "one points at the other");
        assert!(!check(b"\x3fabc", 0), "cut short");
        assert!(!check(b"\x41abc", 0), "neither label nor pointer");
    }
}
