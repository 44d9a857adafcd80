//! Reads a snapshot: [`Node`], [`RrSet`], [`Rdata`], [`Fixup`] and [`Target`]. Nothing here writes.

use std::ops::BitOr;

use wire::message::{HEADER_LEN, Offset, POINTER, POINTER_LEN};
use wire::name::MAX_NAME;
use wire::{LowerName, Name, NameBuf, Ttl, Type};

use super::arena::{Arena, NodeAddress};
use super::blob::{
    self, COMPILED_HEAD, COMPILED_RDLENGTH, COMPILED_TTL, DirectoryEntry, Entries, be16_at, u16_at,
};
use crate::prefetch::{self, Part};

/// Properties of a name in its zone: a set of the constants below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFlags(pub(super) u16);

impl NodeFlags {
    /// The zone's own name.
    pub const APEX: NodeFlags = NodeFlags(1);
    /// Has NS and is not the apex: a zone cut. Set even if the name is [`OCCLUDED`](Self::OCCLUDED).
    pub const CUT: NodeFlags = NodeFlags(1 << 1);
    /// Has DNAME (the apex may, too).
    pub const DNAME: NodeFlags = NodeFlags(1 << 2);
    /// Below a zone cut or a DNAME: glue, or data that cannot be reached (RFC 2136 §7.18).
    pub const OCCLUDED: NodeFlags = NodeFlags(1 << 3);
    /// `*.this` is in the zone (a wildcard with records, or one that only exists as a parent of another
    /// name).
    pub const WILDCARD_CHILD: NodeFlags = NodeFlags(1 << 4);
    /// No records: an empty non-terminal (RFC 8020).
    pub const EMPTY: NodeFlags = NodeFlags(1 << 5);
    /// The leftmost label is `*` (RFC 4592 §2.1.1).
    pub const WILDCARD: NodeFlags = NodeFlags(1 << 6);
    /// Holds NSEC3 and its signatures only. Not part of the name space: [`Zone::find`](super::Zone::find)
    /// never returns it (RFC 5155 §7.2.8); [`Zone::iter`](super::Zone::iter) and
    /// [`Nsec3Chain`](super::Nsec3Chain) do.
    pub const NSEC3_ONLY: NodeFlags = NodeFlags(1 << 7);
    /// The owner has upper-case letters: see [`Node::written_owner`].
    pub const CASED: NodeFlags = NodeFlags(1 << 8);

    /// Whether all of `other` are set.
    #[inline]
    pub fn contains(self, other: NodeFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    #[inline]
    pub fn intersects(self, other: NodeFlags) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for NodeFlags {
    type Output = NodeFlags;
    fn bitor(self, other: NodeFlags) -> NodeFlags {
        NodeFlags(self.0 | other.0)
    }
}

/// Builder's flag: parents and flags of the node are settled.
pub(super) const SETTLED: u16 = 1 << 12;
/// Builder's flag: some RRset has target addresses to be filled in.
pub(super) const TARGETS: u16 = 1 << 13;
/// Builder's flag: replaced by a later blob.
pub(super) const DEAD: u16 = 1 << 14;
/// Flags that a node gets from its parents and its children.
pub(super) const INHERITED: u16 = NodeFlags::OCCLUDED.0 | NodeFlags::WILDCARD_CHILD.0;
/// The flags that readers see.
pub(super) const PUBLIC: u16 = 0x1ff;

/// A name of the zone with its RRsets: a reference into the snapshot.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    arena: &'a Arena,
    at: NodeAddress,
    blob: &'a [u8],
}

impl<'a> Node<'a> {
    #[inline]
    pub(super) fn new(arena: &'a Arena, at: NodeAddress) -> Self {
        Node { arena, at, blob: arena.blob(at) }
    }

    /// Returns a node of an arena under construction: its [`targets`](RrSet::targets) cannot be followed.
    pub(super) fn alone<M: AsRef<[u8]>>(arena: &'a Arena<M>, at: NodeAddress) -> Self {
        Node { at, ..Node::of_blob(arena.blob(at)) }
    }

    /// Returns the node of a blob without an address: its [`targets`](RrSet::targets) cannot be followed.
    pub(super) fn of_blob(blob: &'a [u8]) -> Self {
        static NONE: Arena = Arena::EMPTY;
        Node { arena: &NONE, at: NodeAddress::default(), blob }
    }

    /// Returns the blob.
    pub(super) fn blob(self) -> &'a [u8] {
        self.blob
    }

    /// Returns its address in the snapshot, which is unique there.
    #[inline]
    pub fn address(self) -> NodeAddress {
        self.at
    }

    /// Returns the owner name, in the letter case of its first record in the zone's source.
    pub fn written_owner(self) -> NameBuf {
        blob::written_owner(self.blob)
    }

    /// Returns the owner name in lower case.
    #[inline]
    pub fn owner(self) -> LowerName<'a> {
        blob::owner(self.blob)
    }

    /// Returns the properties of the name in its zone.
    #[inline]
    pub fn flags(self) -> NodeFlags {
        NodeFlags(blob::flags(self.blob) & PUBLIC)
    }

    /// Returns the RRset of one type. That of `RRSIG` has only the signatures over types that the name does
    /// not have; the others are the [`sigs`](RrSet::sigs) of the RRsets that they cover.
    #[inline]
    pub fn rrset(self, t: Type) -> Option<RrSet<'a>> {
        let found = blob::entries(self.blob).find(|(entry, _)| entry.rtype == t);
        found.map(|(entry, at)| self.at_entry(entry, at))
    }

    /// Returns all RRsets, those most queried first; signatures are part of the RRset that they cover.
    #[inline]
    pub fn rrsets(self) -> impl Iterator<Item = RrSet<'a>> {
        RrSets { node: self, entries: blob::entries(self.blob) }
    }

    /// Returns all RRsets with the offset of their data in the blob.
    pub(super) fn rrsets_at(self) -> impl Iterator<Item = (RrSet<'a>, usize)> {
        blob::entries(self.blob).map(move |(entry, at)| (self.at_entry(entry, at), at))
    }

    /// Returns the number of RRsets, signatures not counted.
    #[inline]
    pub fn rrset_count(self) -> usize {
        blob::rrsets(self.blob)
    }

    #[inline]
    fn at_entry(self, entry: DirectoryEntry, at: usize) -> RrSet<'a> {
        let data = &self.blob[at..at + entry.data_len()];
        RrSet { node: self, entry, data }
    }
}

impl PartialEq for Node<'_> {
    /// Whether both are the same node of the same snapshot.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.arena, other.arena) && self.at == other.at
    }
}
impl Eq for Node<'_> {}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({} {:?}", self.owner(), self.flags())?;
        self.rrsets().try_for_each(|set| write!(f, " {}×{}", set.rtype(), set.count()))?;
        f.write_str(")")
    }
}

/// See [`Node::rrsets`].
struct RrSets<'a> {
    node: Node<'a>,
    entries: Entries<'a>,
}

impl<'a> Iterator for RrSets<'a> {
    type Item = RrSet<'a>;

    #[inline]
    fn next(&mut self) -> Option<RrSet<'a>> {
        self.entries.next().map(|(entry, at)| self.node.at_entry(entry, at))
    }
}

/// One RRset, compiled for the answer to a query for exactly its owner.
///
/// Records are in the order of the zone's source. Equal records are merged and have the same TTL.
#[derive(Clone, Copy)]
pub struct RrSet<'a> {
    node: Node<'a>,
    entry: DirectoryEntry,
    data: &'a [u8],
}

impl<'a> RrSet<'a> {
    /// How far into the RRset its own compression pointers reach: they point at less than this many bytes
    /// after the start of [`records`](Self::records). So a copy that starts at a message offset of at most
    /// `Offset::REACH - POINTER_REACH` never makes a pointer overflow its 14 bits; beyond it use
    /// [`rdatas`](Self::rdatas).
    pub const POINTER_REACH: usize = 0x2000;

    /// Returns the node it belongs to.
    #[inline]
    pub fn node(&self) -> Node<'a> {
        self.node
    }

    /// Returns the type.
    #[inline]
    pub fn rtype(&self) -> Type {
        self.entry.rtype
    }

    /// Returns the TTL of every record; of the first one for an RRset of type RRSIG, whose records may cover
    /// different types.
    #[inline]
    pub fn ttl(&self) -> Ttl {
        ttl_at(self.data, COMPILED_TTL)
    }

    /// Returns the number of records, at least 1, signatures not counted.
    #[inline]
    pub fn count(&self) -> u16 {
        self.entry.count
    }

    /// Returns the number of signatures that cover the RRset.
    #[inline]
    pub fn sig_count(&self) -> u16 {
        self.entry.sigs & blob::SIG_COUNT
    }

    /// Returns **the compiled answer**: all records as in a message whose question is exactly the owner.
    ///
    /// Owner `c00c`, type, class IN, TTL, RDLENGTH, RDATA. Names in the RDATA of RFC 1035's types are
    /// compressed against the question (for a wildcard: only the labels right of the `*`) and against names
    /// earlier in the RRset, where letter case agrees with that of the [owner](Node::written_owner). Pointers
    /// are message offsets for a question name of the owner's length with the RRset directly after the
    /// question; [`fixups`](Self::fixups) lists those to change elsewhere.
    #[inline]
    pub fn records(&self) -> &'a [u8] {
        self.read(0, self.entry.records_len as usize)
    }

    /// Returns the RRSIG records covering the RRset, in the form of [`records`](Self::records); the owner is
    /// the only pointer (RFC 4034 §3.1.7).
    #[inline]
    pub fn sigs(&self) -> &'a [u8] {
        self.read(self.entry.records_len as usize, self.entry.sigs_len as usize)
    }

    /// Returns [`records`](Self::records) followed by [`sigs`](Self::sigs), in one slice.
    #[inline]
    pub fn records_and_sigs(&self) -> &'a [u8] {
        self.read(0, self.entry.records_len as usize + self.entry.sigs_len as usize)
    }

    /// Returns `len` bytes of the data from `start` on, about to be read.
    #[inline]
    fn read(&self, start: usize, len: usize) -> &'a [u8] {
        let part = &self.data[start..][..len];
        prefetch::read(Part::RrSet, part);
        part
    }

    /// Returns the message offset at which [`records`](Self::records) was compiled to start: after a question
    /// for the owner.
    #[inline]
    pub fn compiled_at(&self) -> usize {
        blob::compiled_at(self.node.blob[3] as usize)
    }

    /// Whether RDATA holds any compression pointers.
    #[inline]
    pub fn has_fixups(&self) -> bool {
        self.entry.fixups != 0
    }

    /// Whether a [target](Self::targets) has upper-case letters, which its node's owner may not have.
    #[inline]
    pub fn has_cased_targets(&self) -> bool {
        self.entry.sigs & blob::CASED_TARGETS != 0
    }

    /// Returns every compression pointer inside RDATA, in ascending order. Owner pointers are not listed:
    /// there is one at the start of each record.
    #[inline]
    pub fn fixups(&self) -> impl Iterator<Item = Fixup> + use<'a> {
        let start = self.entry.records_len as usize + self.entry.sigs_len as usize;
        let (data, question_end) = (self.data, HEADER_LEN + self.node.blob[3] as usize);
        data[start..start + 2 * self.entry.fixups as usize].chunks_exact(2).map(move |bytes| {
            let at = u16_at(bytes, 0);
            let to = Offset::of_pointer(pointer_at(data, at as usize));
            Fixup { at, to_question: to.index() < question_end }
        })
    }

    /// Returns the target name of each record and its node in this zone, for the types with a host or alias
    /// as target: NS, CNAME, MX, SRV, SVCB, HTTPS, KX, AFSDB, RT. Empty for others.
    ///
    /// The target `.` of a service-mode SVCB or HTTPS record is the owner's own node (RFC 9460 §2.5.2).
    pub fn targets(&self) -> impl Iterator<Item = Target<'a>> + use<'a> {
        let (set, mut number) = (*self, 0);
        let offset = blob::target_offset(self.rtype());
        offset.into_iter().flat_map(move |offset| {
            RdataIter { set, at: 0, end: set.entry.records_len as usize }.map(move |rdata| {
                let i = number;
                number += 1;
                let name_at = rdata.start + offset;
                Target { name_at, node: set.target_node(i, name_at) }
            })
        })
    }

    /// Returns the [`targets`](Self::targets) that have a node, with the node.
    #[inline]
    pub fn hosts(&self) -> Hosts<'a> {
        let left = if self.entry.has_targets() { self.count() as usize } else { 0 };
        let offset = blob::target_offset(self.rtype()).unwrap_or(0);
        Hosts { set: *self, offset, at: 0, slot: self.entry.targets_at(), left }
    }

    /// Returns the offsets of the targets' addresses in the blob, if the data starts at `data`.
    pub(super) fn target_slots(&self, data: usize) -> impl Iterator<Item = usize> + use<'a> {
        let count = if self.entry.has_targets() { self.count() as usize } else { 0 };
        let start = data + self.entry.targets_at();
        (0..count).map(move |i| start + 4 * i)
    }

    /// Returns the addresses of the targets' nodes in the arena, as in the base.
    #[inline]
    pub(super) fn target_addresses(&self) -> impl Iterator<Item = NodeAddress> + use<'a> {
        self.target_nodes().flatten()
    }

    /// Returns for each record the address that its target's node had when the zone's base was built, if it
    /// had one; empty if no record has such a target. If the zone has a node at that address, it has the
    /// target's name.
    #[inline]
    pub fn target_nodes(&self) -> impl Iterator<Item = Option<NodeAddress>> + use<'a> {
        let count = if self.entry.has_targets() { self.count() as usize } else { 0 };
        let slots = self.read(self.entry.targets_at(), 4 * count);
        slots.as_chunks().0.iter().map(|slot| NodeAddress::somewhere(*slot))
    }

    #[inline]
    fn target_node(&self, i: usize, name_at: usize) -> Option<Node<'a>> {
        if !self.entry.has_targets() {
            return None;
        }
        self.node_at(self.entry.targets_at() + 4 * i, name_at)
    }

    /// Returns the node of the target whose address is stored at `slot` and whose name is at `name_at`.
    #[inline]
    fn node_at(&self, slot: usize, name_at: usize) -> Option<Node<'a>> {
        let (arena, stored) = (self.node.arena, NodeAddress::somewhere(slot_at(self.data, slot)));
        let at = match arena.overlay() {
            None => stored?,
            Some(overlay) => match stored {
                Some(base) => overlay.target(base)?,
                None => overlay.new_target(self, name_at)?,
            },
        };
        Some(Node::new(arena, at))
    }

    /// Returns the name `name_at` bytes into [`records`](Self::records), uncompressed, as [`Rdata::copy_to`]
    /// writes it; `None` if there is none. [`Target::name_at`] is such an offset.
    pub fn name_at(&self, name_at: usize) -> Option<NameBuf> {
        let (mut wire, mut len) = ([0; MAX_NAME], 0);
        self.for_each_piece(name_at, |piece| {
            if let Some(to) = wire.get_mut(len..len + piece.len()) {
                to.copy_from_slice(piece);
            }
            len += piece.len();
        });
        Name::from_wire(wire.get(..len)?).ok().map(Name::to_buf)
    }

    /// Calls `f` with the pieces of the name at `at`, in order: each is a label, or a suffix of the owner
    /// with all its labels.
    fn for_each_piece(&self, mut at: usize, mut f: impl FnMut(&[u8])) {
        let data = self.data;
        while let Some(&len) = data.get(at) {
            match len {
                POINTER.. => match blob::Lead::of(pointer_at(data, at), self.node.owner().len()) {
                    // The builder only points backwards, so this ends.
                    Some(blob::Lead::Records(to)) => at = to,
                    Some(blob::Lead::Owner(to)) if self.node.flags().contains(NodeFlags::CASED) => {
                        return f(&self.node.written_owner().as_name().as_wire()[to..]);
                    }
                    Some(blob::Lead::Owner(to)) => return f(&self.node.owner().as_wire()[to..]),
                    None => return,
                },
                _ => {
                    let label = &data[at..=at + len as usize];
                    f(label);
                    at += label.len();
                    if len == 0 {
                        return;
                    }
                }
            }
        }
    }

    /// Returns each record's RDATA, in the order of [`records`](Self::records).
    pub fn rdatas(&self) -> impl Iterator<Item = Rdata<'a>> + use<'a> {
        RdataIter { set: *self, at: 0, end: self.entry.records_len as usize }
    }

    /// Returns each covering signature's RDATA, in the order of [`sigs`](Self::sigs).
    pub fn sig_rdatas(&self) -> impl Iterator<Item = Rdata<'a>> + use<'a> {
        let start = self.entry.records_len as usize;
        RdataIter { set: *self, at: start, end: start + self.entry.sigs_len as usize }
    }
}

impl std::fmt::Debug for RrSet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RrSet({} {}×{})", self.node.owner(), self.rtype(), self.count())
    }
}

/// A compression pointer inside the RDATA of [`RrSet::records`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixup {
    /// Offset of its two bytes from the start of `records`.
    pub at: u16,
    /// `true`: points into the question; with a longer question name add the difference in length.
    /// `false`: points into the RRset itself; add the difference between where the copy starts and
    /// [`RrSet::compiled_at`].
    pub to_question: bool,
}

/// The offset of a record's target name, and its node.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Offset of the target name (it may be compressed) from the start of [`RrSet::records`].
    pub name_at: usize,
    /// The node of that name in this zone, including occluded ones; `None` if the zone has no such name (a
    /// wildcard may still match it).
    pub node: Option<Node<'a>>,
}

/// The hosts in the zone that an RRset names; see [`RrSet::hosts`].
pub struct Hosts<'a> {
    set: RrSet<'a>,
    /// Offset of a record's target in its RDATA.
    offset: usize,
    /// Start of the next record, of its target's address, and the number of records left.
    at: usize,
    slot: usize,
    left: usize,
}

impl<'a> Iterator for Hosts<'a> {
    type Item = (usize, Node<'a>);
    /// Returns the offset of the target name from the start of [`RrSet::records`], and its node.
    #[inline]
    fn next(&mut self) -> Option<(usize, Node<'a>)> {
        let data = self.set.data;
        while self.left > 0 {
            let rdata = self.at + COMPILED_HEAD;
            let node = self.set.node_at(self.slot, rdata + self.offset);
            self.at = rdata + be16_at(data, self.at + COMPILED_RDLENGTH) as usize;
            self.slot += 4;
            self.left -= 1;
            if let Some(node) = node {
                return Some((rdata + self.offset, node));
            }
        }
        None
    }
}

/// Returns the four bytes of the node address stored at `at`.
#[inline]
fn slot_at(data: &[u8], at: usize) -> [u8; 4] {
    [data[at], data[at + 1], data[at + 2], data[at + 3]]
}

/// Returns the TTL at `at` of a compiled record.
#[inline]
fn ttl_at(data: &[u8], at: usize) -> Ttl {
    Ttl::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

/// Returns the two bytes of the compression pointer at `at`.
#[inline]
fn pointer_at(data: &[u8], at: usize) -> [u8; POINTER_LEN] {
    [data[at], data[at + 1]]
}

/// Iterates over the records of an RRset, or its signatures.
struct RdataIter<'a> {
    set: RrSet<'a>,
    at: usize,
    end: usize,
}

impl<'a> Iterator for RdataIter<'a> {
    type Item = Rdata<'a>;
    #[inline]
    fn next(&mut self) -> Option<Rdata<'a>> {
        if self.at + COMPILED_HEAD > self.end {
            return None;
        }
        let (start, data) = (self.at + COMPILED_HEAD, self.set.data);
        let ttl = ttl_at(data, self.at + COMPILED_TTL);
        let end = start + be16_at(data, self.at + COMPILED_RDLENGTH) as usize;
        self.at = end;
        Some(Rdata { set: self.set, ttl, start, end })
    }
}

/// The RDATA of one record in a snapshot.
#[derive(Clone, Copy)]
pub struct Rdata<'a> {
    set: RrSet<'a>,
    ttl: Ttl,
    start: usize,
    end: usize,
}

impl<'a> Rdata<'a> {
    /// Returns the record's TTL.
    pub fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// Returns the RDATA as compiled: names may be compressed.
    pub fn compiled(&self) -> &'a [u8] {
        &self.set.data[self.start..self.end]
    }

    /// Appends the uncompressed RDATA to `out`, as in the zone's source.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        let mut done = self.start;
        if self.set.entry.fixups != 0 && self.end <= self.set.entry.records_len as usize {
            for fixup in self.set.fixups().skip_while(|f| (f.at as usize) < self.start) {
                let at = fixup.at as usize;
                if at >= self.end {
                    break;
                }
                out.extend_from_slice(&self.set.data[done..at]);
                self.set.for_each_piece(at, |piece| out.extend_from_slice(piece));
                done = at + POINTER_LEN;
            }
        }
        out.extend_from_slice(&self.set.data[done..self.end]);
    }

    /// Returns the name that the RDATA begins with, uncompressed as [`copy_to`](Self::copy_to) writes it: for
    /// the types whose data is a name, such as CNAME and DNAME.
    pub fn name(&self) -> Option<NameBuf> {
        self.set.name_at(self.start)
    }
}
