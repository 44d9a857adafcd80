//! Encodes the records of one name as a node blob: groups them into RRsets, drops duplicates, compresses
//! names and lists the compression pointers.

use std::collections::HashSet;

use wire::message::{MAX_MESSAGE, MAX_POINTERS, Offset, POINTER_LEN, QNAME_POINTER};
use wire::rdata::view::Rrsig;
use wire::rdata::{self, NameRule};
use wire::{Class, LowerName, Name, Ttl, Type};

use super::arena::{CHUNK, NodeAddress, UNIT};
use super::blob::{self, DirectoryEntry, ENTRY, HEADER};
use super::node::{INHERITED, Node, NodeFlags, Rdata, RrSet, SETTLED, TARGETS};
use super::nsec3;
use super::pending::{NoteKind, Notes, Pending, PendingRecord};

/// Maximum names that later names in the same RRset may point at. More would cost time and save little.
const DICTIONARY: usize = 64;
/// Up to this many records of one RRset are compared pair by pair to find duplicates.
const PAIRWISE: usize = 16;

/// Encodes the records of a name as a blob. It is reused for every name to keep its vectors.
pub(super) struct Encoder {
    blob: Vec<u8>,
    entries: Vec<DirectoryEntry>,
    fixups: Vec<u16>,
    types: Vec<Type>,
    dictionary: Vec<Known>,
    /// Whether a target name of the current RRset has upper-case letters.
    cased_targets: bool,
    /// Bit L is set if the last L bytes of the owner are a name that a pointer may refer to: bits 13 and 9
    /// for `www.example.`.
    suffixes: [u64; 4],
}

/// A name, or suffix of a name, already written into the current RRset.
#[derive(Clone, Copy)]
struct Known {
    /// Start of its uncompressed form in [`Pending::bytes`].
    start: u32,
    len: u8,
    /// Its offset from the start of the RRset's records.
    at: u16,
    /// Number of pointers that a reader of it follows.
    pointers: u8,
}

/// Maximum pointers in a suffix that a name may point at: that name has one more, and the owner of another
/// record may be a pointer to that name.
const MAX_TARGET_POINTERS: u8 = MAX_POINTERS as u8 - 2;

/// Rank of an RRset within its node: the types that are queried most come first.
fn rank(t: Type) -> u32 {
    const FIRST: [Type; 14] = [
        Type::CNAME,
        Type::A,
        Type::AAAA,
        Type::NS,
        Type::DS,
        Type::MX,
        Type::TXT,
        Type::HTTPS,
        Type::SRV,
        Type::SVCB,
        Type::PTR,
        Type::SOA,
        Type::DNSKEY,
        Type::CAA,
    ];
    const LAST: [Type; 4] = [Type::NSEC, Type::NSEC3, Type::NSEC3PARAM, Type::RRSIG];
    if let Some(i) = FIRST.iter().position(|&f| f == t) {
        return i as u32;
    }
    let last = LAST.iter().position(|&l| l == t).map_or(0, |i| i as u32 + 1);
    0x100 + last * 0x1_0000 + t.0 as u32
}

impl Encoder {
    pub(super) fn new() -> Self {
        Encoder {
            blob: Vec::new(),
            entries: Vec::new(),
            fixups: Vec::new(),
            types: Vec::new(),
            dictionary: Vec::new(),
            cased_targets: false,
            suffixes: [0; 4],
        }
    }

    /// Encodes the pending name as a blob. Returns `None`, and adds a note, if the name has to be left out.
    pub(super) fn encode(
        &mut self,
        pending: &mut Pending,
        apex: Name<'_>,
        notes: &mut Notes,
    ) -> Option<&[u8]> {
        self.group(pending);
        let pending = &*pending;
        let owner = pending.owner.as_name();
        self.note_suffixes(owner);
        self.entries.clear();
        // The length of the directory is known only after all RRsets are written, so the data is written
        // first and then moved back.
        self.blob.clear();
        let mut rest = &pending.records[..];
        while let Some(first) = rest.first() {
            let end = rest.iter().position(|r| r.covered != first.covered).unwrap_or(rest.len());
            let (group, later) = rest.split_at(end);
            rest = later;
            self.rrset(pending, group, apex, notes);
        }
        let mut flags = self.flags(pending, apex);
        if self.entries.iter().any(DirectoryEntry::has_targets) {
            flags |= TARGETS;
        }
        self.check(pending, apex, notes);
        let written = pending.written_owner();
        let case = written.has_upper_case().then_some(written);
        let front = HEADER + owner.len() + self.entries.len() * ENTRY;
        let case_len = case.map_or(0, |_| Name::case_len(owner.len()));
        let size = (front + self.blob.len() + case_len).next_multiple_of(UNIT);
        if size > CHUNK {
            notes.add(NoteKind::NameTooLarge, owner, Type::ANY, 0);
            return None;
        }
        self.put_front(owner, front, size, flags);
        if let Some(written) = case {
            blob::set_flags(&mut self.blob, flags | NodeFlags::CASED.0);
            written.write_case(&mut self.blob[size - case_len..]);
        }
        Some(&self.blob)
    }

    /// Encodes a blob without records: an empty non-terminal.
    pub(super) fn empty(&mut self, owner: LowerName<'_>) -> &[u8] {
        let owner = owner.as_name();
        self.entries.clear();
        self.blob.clear();
        let flags = NodeFlags::EMPTY.0 | if owner.is_wildcard() { NodeFlags::WILDCARD.0 } else { 0 };
        let front = HEADER + owner.len();
        self.put_front(owner, front, front.next_multiple_of(UNIT), flags);
        &self.blob
    }

    /// Puts the header, the owner and the directory in front of the data.
    fn put_front(&mut self, owner: Name<'_>, front: usize, size: usize, flags: u16) {
        let data = self.blob.len();
        self.blob.resize(size, 0);
        self.blob.copy_within(..data, front);
        self.blob[front + data..].fill(0);
        let blob = &mut self.blob[..];
        blob[..4].copy_from_slice(&((size / UNIT) as u32).to_le_bytes());
        blob[3] = owner.len() as u8;
        blob::set_flags(blob, flags);
        blob[6..8].copy_from_slice(&(self.entries.len() as u16).to_le_bytes());
        blob[HEADER..HEADER + owner.len()].copy_from_slice(owner.as_wire());
        let directory = blob[HEADER + owner.len()..front].chunks_exact_mut(ENTRY);
        self.entries.iter().zip(directory).for_each(|(entry, to)| entry.write(to));
    }

    /// Groups the records into RRsets, each followed by its signatures. Within each, the order of the source
    /// is kept.
    fn group(&mut self, pending: &mut Pending) {
        if pending.records.len() < 2 && pending.records.iter().all(|r| r.rtype != Type::RRSIG) {
            return;
        }
        self.types.clear();
        self.types.extend(pending.records.iter().map(|r| r.rtype).filter(|&t| t != Type::RRSIG));
        self.types.sort_unstable();
        self.types.dedup();
        for record in &mut pending.records {
            // A signature over a type that the name does not have is kept in an RRset of type RRSIG.
            if record.rtype == Type::RRSIG && self.types.binary_search(&record.covered).is_err() {
                record.covered = Type::RRSIG;
            }
        }
        pending.records.sort_by_key(|r| {
            (rank(r.covered), r.covered, r.rtype == Type::RRSIG && r.covered != Type::RRSIG)
        });
    }

    /// Records which suffixes of the owner a pointer may refer to: not the root, and for a wildcard only the
    /// part after the asterisk, because the query name has other labels there.
    fn note_suffixes(&mut self, owner: Name<'_>) {
        self.suffixes = [0; 4];
        for name in owner.ancestors().skip(owner.is_wildcard() as usize) {
            if !name.is_root() {
                self.suffixes[name.len() / 64] |= 1 << (name.len() % 64);
            }
        }
    }

    /// Writes one RRset with its signatures and its directory entry.
    fn rrset(&mut self, pending: &Pending, group: &[PendingRecord], apex: Name<'_>, notes: &mut Notes) {
        let owner = pending.owner.as_name();
        let t = group[0].covered;
        let start = self.blob.len();
        self.fixups.clear();
        self.dictionary.clear();
        self.cased_targets = false;
        let signatures = group.iter().position(|r| r.rtype != t).unwrap_or(group.len());
        let (records, signatures) = group.split_at(signatures);
        let (count, has_targets) = self.records(pending, records, start, apex, notes);
        let records_len = self.blob.len() - start;
        let (sig_count, _) = self.records(pending, signatures, start, apex, notes);
        let total = self.blob.len() - start;
        if blob::compiled_at(owner.len()) + total > MAX_MESSAGE || sig_count > blob::SIG_COUNT as usize {
            self.blob.truncate(start);
            notes.add(NoteKind::RrsetTooLarge, owner, t, group[0].source);
            return;
        }
        for at in &self.fixups {
            self.blob.extend_from_slice(&at.to_le_bytes());
        }
        let mut flags = if has_targets { blob::HAS_TARGETS } else { 0 };
        flags |= if self.cased_targets { blob::CASED_TARGETS } else { 0 };
        if has_targets {
            (0..count).for_each(|_| self.blob.extend_from_slice(&NodeAddress::NOWHERE));
        }
        self.entries.push(DirectoryEntry {
            rtype: t,
            count: count as u16,
            records_len: records_len as u16,
            sigs_len: (total - records_len) as u16,
            sigs: sig_count as u16 | flags,
            fixups: self.fixups.len() as u16,
        });
    }

    /// Writes the records of one type without duplicates. Returns their number, and whether any has a target
    /// in the zone.
    fn records(
        &mut self,
        pending: &Pending,
        records: &[PendingRecord],
        start: usize,
        apex: Name<'_>,
        notes: &mut Notes,
    ) -> (usize, bool) {
        let owner = pending.owner.as_name();
        let mut seen = HashSet::new();
        let (mut count, mut has_targets) = (0, false);
        for (i, record) in records.iter().enumerate() {
            let duplicate = if records.len() <= PAIRWISE {
                records[..i].iter().any(|r| rdata::is_same(r.rtype, pending.rdata(r), pending.rdata(record)))
            } else {
                !seen.insert(canonical(record.rtype, pending.rdata(record)))
            };
            if duplicate {
                notes.add(NoteKind::Duplicate, owner, record.rtype, record.source);
                continue;
            }
            // Signatures over different types belong to different RRsets (RFC 4034 §3), even if they are
            // stored together.
            let covers = |r: &PendingRecord| {
                (r.rtype == Type::RRSIG).then(|| Rrsig::read_type_covered(pending.rdata(r)))
            };
            let first = records.iter().find(|r| covers(r) == covers(record)).unwrap_or(record);
            if record.ttl != first.ttl {
                notes.add(NoteKind::TtlMismatch, owner, record.rtype, record.source);
            }
            let target = target(owner, record.rtype, pending.rdata(record));
            self.cased_targets |= target.is_some_and(Name::has_upper_case);
            has_targets |= target.is_some_and(|name| name.is_at_or_below(apex));
            // The caller drops an RRset that is too large for a message, so the rest of it is not written.
            if self.blob.len() - start <= u16::MAX as usize {
                self.record(pending, record, first.ttl, start);
            }
            count += 1;
        }
        (count, has_targets)
    }

    fn record(&mut self, pending: &Pending, record: &PendingRecord, ttl: Ttl, start: usize) {
        self.blob.extend_from_slice(&QNAME_POINTER);
        self.blob.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.blob.extend_from_slice(&Class::IN.0.to_be_bytes());
        self.blob.extend_from_slice(&ttl.to_be_bytes());
        self.blob.extend_from_slice(&[0, 0]);
        let rdata_at = self.blob.len();
        let rdata = pending.rdata(record);
        let mut done = 0;
        for name in rdata::embedded_names(record.rtype, rdata) {
            if name.rule == NameRule::Compress {
                self.blob.extend_from_slice(&rdata[done..name.start]);
                self.name(pending, record.start as usize + name.start, name.len, start);
                done = name.start + name.len;
            }
        }
        self.blob.extend_from_slice(&rdata[done..]);
        let len = (self.blob.len() - rdata_at) as u16;
        self.blob[rdata_at - 2..rdata_at].copy_from_slice(&len.to_be_bytes());
    }

    /// Writes the name of `len` bytes that starts at `from` in [`Pending::bytes`], compressed.
    fn name(&mut self, pending: &Pending, from: usize, len: usize, start: usize) {
        let owner = pending.written_owner().as_wire();
        let (mut at, own, mut deepest) = (0, self.dictionary.len(), MAX_TARGET_POINTERS);
        while at < len {
            let suffix = &pending.bytes[from + at..from + len];
            let here = self.blob.len() - start;
            let label = suffix[0] as usize;
            if label == 0 {
                self.blob.push(0);
                return;
            }
            if let Some((pointer, pointers)) = self.known(pending, owner, suffix, &mut deepest) {
                // In an RRset that is too long for a message this offset is wrong; the RRset is dropped
                // later.
                self.fixups.push(here as u16);
                self.blob.extend_from_slice(&pointer);
                self.dictionary[own..].iter_mut().for_each(|suffix| suffix.pointers = pointers);
                return;
            }
            if self.dictionary.len() < DICTIONARY && here < RrSet::POINTER_REACH {
                self.dictionary.push(Known {
                    start: (from + at) as u32,
                    len: suffix.len() as u8,
                    at: here as u16,
                    pointers: 0,
                });
            }
            self.blob.extend_from_slice(&suffix[..=label]);
            at += label + 1;
        }
    }

    /// Returns a pointer to an occurrence of `suffix` in the question or the RRset, and the number of
    /// pointers of a name that ends with it. The occurrence follows at most `deepest` pointers. If all
    /// occurrences follow more, `deepest` becomes 0, so that later names can point at the name that is
    /// written now.
    fn known(
        &self,
        pending: &Pending,
        owner: &[u8],
        suffix: &[u8],
        deepest: &mut u8,
    ) -> Option<([u8; POINTER_LEN], u8)> {
        let len = suffix.len();
        if self.suffixes[len / 64] & 1 << (len % 64) != 0 && &owner[owner.len() - len..] == suffix {
            return Some((Offset::QNAME.plus(owner.len() - len)?.pointer()?, 1));
        }
        let same = |k: &&Known| k.len as usize == len && &pending.bytes[k.start as usize..][..len] == suffix;
        let mut known = self.dictionary.iter().filter(same).peekable();
        known.peek()?;
        let Some(known) = known.find(|k| k.pointers <= *deepest) else {
            *deepest = 0;
            return None;
        };
        let at = Offset::new(blob::compiled_at(owner.len()) + known.at as usize)?;
        Some((at.pointer()?, known.pointers + 1))
    }

    fn flags(&self, pending: &Pending, apex: Name<'_>) -> u16 {
        let owner = pending.owner.as_lower();
        let at_apex = owner.len() == apex.len();
        let has = |t: Type| self.entries.iter().any(|e| e.rtype == t);
        let hash_owner = is_child(owner, apex.len()) && nsec3::hash_of(owner).is_some();
        let nsec3_only = hash_owner && pending.records.iter().all(|r| of_nsec3(pending, r));
        let flags = [
            (at_apex, NodeFlags::APEX),
            (!at_apex && has(Type::NS), NodeFlags::CUT),
            (has(Type::DNAME), NodeFlags::DNAME),
            (self.entries.is_empty(), NodeFlags::EMPTY),
            (owner.as_name().is_wildcard(), NodeFlags::WILDCARD),
            (nsec3_only, NodeFlags::NSEC3_ONLY),
        ];
        flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag.0)
    }

    /// Adds notes for combinations of RRsets that are not allowed at one name.
    fn check(&self, pending: &Pending, apex: Name<'_>, notes: &mut Notes) {
        let owner = pending.owner.as_name();
        let has_cname = self.entries.iter().any(|e| e.rtype == Type::CNAME);
        for entry in &self.entries {
            let t = entry.rtype;
            let several = entry.count > 1;
            let kind = match t {
                Type::CNAME if several => NoteKind::MultipleCname,
                Type::DNAME if several => NoteKind::MultipleDname,
                Type::SOA if owner.len() != apex.len() => NoteKind::SoaBelowApex,
                Type::SOA if several => NoteKind::MultipleSoa,
                _ if has_cname && t != Type::CNAME && !t.may_be_beside_cname() => NoteKind::CnameAndOther,
                _ => continue,
            };
            let source = pending.records.iter().rev().find(|r| r.rtype == t).map_or(0, |r| r.source);
            notes.add(kind, owner, t, source);
        }
    }
}

/// Whether the record is an NSEC3 or a signature over one.
fn of_nsec3(pending: &Pending, record: &PendingRecord) -> bool {
    let signed = || Rrsig::read_type_covered(pending.rdata(record)) == Ok(Type::NSEC3);
    record.rtype == Type::NSEC3 || record.rtype == Type::RRSIG && signed()
}

/// Whether a name at or below the apex, whose length is `apex_len` bytes, is a direct child of the apex.
pub(super) fn is_child(owner: LowerName<'_>, apex_len: usize) -> bool {
    owner.parent().is_some_and(|parent| parent.len() == apex_len)
}

/// The target name of a record whose type has one.
pub(super) fn target<'a>(owner: Name<'a>, t: Type, rdata: &'a [u8]) -> Option<Name<'a>> {
    let at = blob::target_offset(t)?;
    let name = Name::parse(rdata.get(at..)?).ok()?;
    let service = matches!(t, Type::SVCB | Type::HTTPS) && rdata[..2] != [0, 0];
    // RFC 9460 §2.5.2: `.` in service mode means the owner.
    Some(if service && name.is_root() { owner } else { name })
}

fn canonical(t: Type, rdata: &[u8]) -> Vec<u8> {
    let mut rdata = rdata.to_vec();
    rdata::canonical(t, &mut rdata);
    rdata
}

/// Whether a blob holds only NSEC3 records and their signatures, at an owner that encodes a hash.
pub(super) fn is_nsec3_only(blob: &[u8], apex_len: usize) -> bool {
    let owner = blob::owner(blob);
    let signs_nsec3 = |rdata: Rdata<'_>| Rrsig::read_type_covered(rdata.compiled()) == Ok(Type::NSEC3);
    let of_nsec3 = |set: RrSet<'_>| match set.rtype() {
        Type::NSEC3 => true,
        Type::RRSIG => set.rdatas().all(signs_nsec3),
        _ => false,
    };
    is_child(owner, apex_len) && nsec3::hash_of(owner).is_some() && Node::of_blob(blob).rrsets().all(of_nsec3)
}

/// Restores a blob to what the encoder produced: removes what was derived from other names.
pub(super) fn set_apart(blob: &mut [u8], apex_len: usize) {
    let only = if is_nsec3_only(blob, apex_len) { NodeFlags::NSEC3_ONLY.0 } else { 0 };
    let flags = blob::flags(blob) & !(INHERITED | SETTLED | NodeFlags::NSEC3_ONLY.0);
    blob::set_flags(blob, flags | only);
    let sets = Node::of_blob(blob).rrsets_at();
    let slots: Vec<usize> = sets.flat_map(|(set, data)| set.target_slots(data)).collect();
    slots.into_iter().for_each(|slot| blob[slot..slot + 4].copy_from_slice(&NodeAddress::NOWHERE));
}
