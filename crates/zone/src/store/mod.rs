//! The zone snapshot: an immutable [`Zone`] in which the stored RRset *is* the compiled answer.
//!
//! A query for an exact name costs two dependent cache misses (a bucket of the index, the start of the node)
//! and one copy. `authority` decides the answer, [`crate::scan`] reads zone files, [`crate::catalog`] finds
//! the zone for a name.
//!
//! | file | holds |
//! |---|---|
//! | `blob.rs` | the layout of a node, byte by byte |
//! | `arena.rs` | the memory of blobs, and their addresses |
//! | `memory.rs` | allocation of arena, index and orders |
//! | `index.rs` | hash → address |
//! | `node.rs` | reading a snapshot: [`Node`], [`RrSet`], [`Rdata`], [`Fixup`], [`Target`] |
//! | `order.rs` | canonical order: [`Zone::iter`]; the order of memory: [`Zone::stored_from`] |
//! | `sorted.rs` | nodes sorted by a key, and the search for one: [`Search`] |
//! | `nsec.rs` | the NSEC chain: [`NsecChain`] |
//! | `nsec3.rs` | the NSEC3 chain: [`Nsec3Chain`] |
//! | `chains.rs` | both chains of a base |
//! | `pending.rs` | the records of the name being read, and their faults: [`Note`] |
//! | `encode.rs` | records → blob: compression, fix-ups |
//! | `build.rs` | [`ZoneBuilder`] |
//! | `blobs.rs` | the blobs as they arrive, and the results computed on arrival |
//! | `names.rs` | their hashes, in the order of the index |
//! | `finish.rs` | builds the zone: repeated names, empty non-terminals, occlusion |
//! | `room.rs` | for that: the memory limit |
//! | `fill.rs`, `targets.rs` | for that: the index of all names; the node of each target |
//! | `parallel.rs` | the same work on several threads |
//! | `version/` | versions that share unchanged parts: [`Zone::apply`], [`Zone::folded`], [`diff`](fn@diff) |
//! | `parts.rs`, `verify.rs` | a snapshot split into parts and rebuilt from them; verification of parts |
//!
//! # The compiled answer
//!
//! A stored RRset is the answer to a query for its owner, as `authority` copies it into the message. The
//! owner is `c00c`, names in RDATA are compressed against the question and against each other where the
//! letter case agrees, and the signatures follow. Where the owner is a suffix of QNAME, the RRset is copied
//! and its pointers are shifted by a constant: a list has their offsets. Elsewhere the RRset is written
//! record by record, through the builder's compression table.
//!
//! An owner is stored in lower case, for lookups, and with it, if it has upper-case letters, a bit for each
//! byte that marks them. An owner with upper-case letters appears as in the zone's text, and is written out
//! where the question differs. Any other owner takes the letter case of the question, since it is written as
//! a pointer to the question. Names in RDATA keep their letter case: they are compressed only where it
//! agrees.

mod arena;
mod blob;
mod blobs;
mod build;
mod chains;
mod encode;
mod fill;
mod finish;
mod index;
mod memory;
mod names;
mod node;
mod nsec;
mod nsec3;
mod order;
mod parallel;
mod parts;
mod pending;
mod room;
mod sorted;
mod targets;
#[cfg(test)]
mod tests;
mod verify;
mod version;

use std::sync::{Arc, OnceLock};

use wire::hash::HashKey;
use wire::rdata::view::SoaNumbers;
use wire::{LowerName, Name, NameHash, Serial, Ttl};

pub use arena::NodeAddress;
pub use blob::COMPILED_HEAD;
pub use build::{AddError, BuildError, ZoneBuilder};
use index::Index;
pub(crate) use memory::Region;
pub use node::{Fixup, Node, NodeFlags, Rdata, RrSet, Target};
pub use nsec::NsecChain;
pub use nsec3::Nsec3Chain;
pub use order::{Iter, StoredNodes};
pub(crate) use parallel::in_parallel;
pub(crate) use parts::{LAYOUT, Nsec3Parts, ZoneParts};
pub use pending::{Note, NoteKind};
pub use sorted::Search;
pub(crate) use verify::{Unsound, ZoneCounts};

pub use version::{ChangeError, ChangeSet, ChangedRecord, ChangedRecords, OverlaySize, RecordKey};
pub use version::{Updated, ZoneUpdate, changed_owners, diff, diff_names, diff_within};

use crate::prefetch;
use arena::Arena;
use chains::Chains;
use order::Order;
use version::Overlay;

/// Number of cache lines of a zone that a lookup reads; [`Zone`]'s fields are in this order.
const HOT_LINES: usize = 3;
const _: () = assert!(std::mem::offset_of!(Zone, soa) <= 64 * HOT_LINES);
/// Number of cache lines of a node that are prefetched.
const NODE_LINES: usize = 3;
/// Number of hosts of a delegation whose nodes are prefetched.
const GLUE_HOSTS: usize = 4;

/// An immutable snapshot of one zone. [`ZoneBuilder`] builds it, or [`Zone::apply`] from another one; threads
/// share it by reference.
///
/// The fields that a lookup reads come first and are in a few cache lines (`HOT_LINES`): with many small
/// zones none of them is in the cache.
#[repr(C, align(64))]
pub struct Zone {
    index: Index,
    arena: Arena,
    apex: NodeAddress,
    wildcards: bool,
    /// Whether the SOA is signed and there is a chain: see [`Zone::is_signed`].
    signed: bool,
    /// Whether the SOA is signed and there is no chain: see [`Zone::is_chainless`].
    chainless: bool,
    negative_ttl: Ttl,
    soa: SoaNumbers,
    key: HashKey,
    records: u64,
    nodes: u64,
    /// The base's chains and its order, which an overlay changes.
    chains: Arc<Chains>,
    all: OnceLock<Arc<Order>>,
}

/// There may be very many zones, so the size is checked.
const _: () = assert!(size_of::<Zone>() == 256);

/// A prefetched node: very likely, but not certainly, the one that [`Zone::find`] will return.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchedNode(NodeAddress);

impl Zone {
    /// Returns the zone's name.
    pub fn apex(&self) -> LowerName<'_> {
        self.apex_node().owner()
    }

    /// Returns the apex node: SOA, NS, DNSKEY and other records.
    #[inline]
    pub fn apex_node(&self) -> Node<'_> {
        Node::new(&self.arena, self.apex)
    }

    /// Returns the numbers of the SOA record.
    #[inline]
    pub fn soa(&self) -> SoaNumbers {
        self.soa
    }

    /// Returns the SOA's serial.
    #[inline]
    pub fn serial(&self) -> Serial {
        self.soa.serial
    }

    /// Returns the TTL of negative answers: the lesser of the SOA's TTL and its MINIMUM (RFC 2308 §5).
    #[inline]
    pub fn negative_ttl(&self) -> Ttl {
        self.negative_ttl
    }

    /// Returns the number of records, including signatures; merged duplicates count once.
    pub fn record_count(&self) -> u64 {
        self.records
    }

    /// Returns the number of nodes: names with records, empty non-terminals and NSEC3 owners.
    pub fn node_count(&self) -> u64 {
        self.nodes
    }

    /// Returns the bytes of memory of the snapshot, everything included.
    pub fn memory(&self) -> usize {
        size_of::<Zone>()
            + self.arena.memory()
            + self.index.memory()
            + self.chains.memory()
            + self.all.get().map_or(0, |order| order.memory())
            + self.overlay_size().bytes
    }

    /// Whether any name of the zone is a wildcard.
    #[inline]
    pub fn has_wildcards(&self) -> bool {
        self.wildcards
    }

    /// Whether answers can carry proofs: the SOA is signed and there is an NSEC or NSEC3 chain.
    #[inline]
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// Whether the SOA is signed, and there is neither an NSEC nor an NSEC3 chain: so is a zone that is
    /// signed while answering.
    #[inline]
    pub fn is_chainless(&self) -> bool {
        self.chainless
    }

    /// Returns the zone with the fields of [`is_signed`](Self::is_signed) and
    /// [`is_chainless`](Self::is_chainless) set.
    fn knowing_if_signed(mut self) -> Zone {
        let soa_signed = self.apex_node().rrset(wire::Type::SOA).is_some_and(|soa| soa.sig_count() > 0);
        let has_chain = self.nsec().is_some() || self.chains.nsec3.is_some();
        (self.signed, self.chainless) = (soa_signed && has_chain, soa_signed && !has_chain);
        self
    }

    /// Returns the node of the name `lower`, whose hash with the zone's [`key`](Self::key) is `hash`. Empty
    /// non-terminals are found, NSEC3 owners are not.
    #[inline]
    pub fn find(&self, lower: LowerName<'_>, hash: NameHash) -> Option<Node<'_>> {
        if let Some(overlay) = self.overlay()
            && overlay.touches(hash)
        {
            return self.find_touched(overlay, lower, hash);
        }
        let at = self.find_base(lower, hash)?;
        Some(Node::new(&self.arena, at))
    }

    /// Returns the address of a name in the base.
    #[inline]
    fn find_base(&self, lower: LowerName<'_>, hash: NameHash) -> Option<NodeAddress> {
        self.index.find(hash, |at| blob::owner(self.arena.from(at)) == lower)
    }

    /// Returns the result of [`find`](Self::find) for a name without its hash, in any letter case.
    pub fn find_name(&self, name: Name<'_>) -> Option<Node<'_>> {
        let lower = name.to_lower();
        self.find(lower.as_lower(), self.key.name(lower.as_lower()))
    }

    /// Prefetches the fields of the zone itself that every lookup reads.
    #[inline]
    pub(crate) fn prefetch_self(&self) {
        prefetch::lines(self, HOT_LINES);
    }

    /// Prefetches the bucket of the index that [`find`](Self::find) will read for this hash.
    #[inline]
    pub fn prefetch_index(&self, hash: NameHash) {
        self.index.prefetch(hash);
    }

    /// Prefetches the node that [`find`](Self::find) will most likely return for this hash, and returns it
    /// for [`prefetch_glue`](Self::prefetch_glue). Reads the index, so call
    /// [`prefetch_index`](Self::prefetch_index) for the whole batch first.
    #[inline]
    pub fn prefetch_node(&self, hash: NameHash) -> Option<PrefetchedNode> {
        let at = self.index.candidate(hash)?;
        self.prefetch_at(at);
        Some(PrefetchedNode(at))
    }

    /// Prefetches the apex node, which negative answers need.
    #[inline]
    pub fn prefetch_apex(&self) {
        self.prefetch_at(self.apex);
    }

    #[inline]
    fn prefetch_at(&self, at: NodeAddress) {
        // Blobs begin at any multiple of eight, so most nodes extend over two or three lines.
        let rest = self.arena.from(at);
        for line in 0..NODE_LINES {
            prefetch::line(rest, line * 64);
        }
    }

    /// Returns the flags of [`candidate`](Self::candidate).
    #[inline]
    pub fn candidate_flags(&self, PrefetchedNode(at): PrefetchedNode) -> NodeFlags {
        NodeFlags(blob::flags(self.arena.from(at)) & node::PUBLIC)
    }

    /// Returns the prefetched node, most likely that of the name looked up.
    #[inline]
    pub fn candidate(&self, PrefetchedNode(at): PrefetchedNode) -> Node<'_> {
        self.node(at)
    }

    /// Prefetches the nodes of the hosts that a zone cut delegates to: their addresses are glue. Reads the
    /// node, so call [`prefetch_node`](Self::prefetch_node) for the whole batch first.
    #[inline]
    pub fn prefetch_glue(&self, cut: Node<'_>) {
        let Some(ns) = cut.rrset(wire::Type::NS) else { return };
        for host in ns.target_addresses().take(GLUE_HOSTS) {
            prefetch::line(self.arena.from(host), 0);
        }
    }

    /// Returns the NSEC chain, if the zone has NSEC records.
    #[inline]
    pub fn nsec(&self) -> Option<NsecChain<'_>> {
        let row = &self.chains.nsec;
        let is_empty = match self.overlay() {
            None => row.is_empty(),
            Some(overlay) => overlay.nsec_len(row.nodes().len()) == 0,
        };
        (!is_empty).then(|| NsecChain::new(self, row))
    }

    /// Returns the NSEC3 chain with the parameters of the apex' NSEC3PARAM (RFC 5155 §4), if its hash
    /// algorithm is SHA-1, the only one defined.
    pub fn nsec3(&self) -> Option<Nsec3Chain<'_>> {
        Some(Nsec3Chain::new(self, self.chains.nsec3.as_ref()?))
    }

    /// Returns all nodes in canonical order, the apex first, including empty non-terminals and NSEC3 owners.
    ///
    /// The first call sorts; the order is stored (four bytes per node), except for small zones, of which
    /// there may be very many.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self)
    }

    /// Returns the nodes of [`iter`](Self::iter) from the one of `name` on, or from the first after it.
    pub fn iter_from<'a>(&'a self, name: Name<'_>) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let mut nodes = Iter::starting(self, name);
        std::iter::from_fn(move || nodes.next())
    }

    /// Returns the order of the base's nodes.
    fn order(&self) -> &Order {
        if let Some(order) = self.all.get() {
            return order;
        }
        // Two threads that need it at the same time both compute it. One of them may get little CPU time, and
        // the other must not wait for it.
        let order = Arc::new(order::all(self));
        self.all.get_or_init(|| order)
    }

    /// Returns how many nodes of the base, in canonical order, are not after `name`.
    fn base_not_after(&self, name: Name<'_>) -> usize {
        self.order()
            .nodes()
            .partition_point(|&at| self.node(at).owner().as_name().canonical_cmp(name).is_le())
    }

    /// Returns the position of a name among all nodes of the base.
    fn base_position(&self, name: LowerName<'_>) -> Option<usize> {
        let position = self.base_not_after(name.as_name()).checked_sub(1)?;
        (self.node(*self.order().nodes().get(position)?).owner() == name).then_some(position)
    }

    /// Returns the address of a name in the base, whether it is in the name space or not.
    fn base_at(&self, name: LowerName<'_>) -> Option<NodeAddress> {
        self.order().nodes().get(self.base_position(name)?).copied()
    }

    /// Returns the overlay with the differences from the base, if there are any.
    #[inline]
    fn overlay(&self) -> Option<&Overlay> {
        self.arena.overlay()
    }

    /// Returns the same base with another overlay. Everything else is as in this version.
    fn sharing(&self, overlay: Arc<Overlay>) -> Zone {
        Zone { arena: self.arena.under(overlay), ..self.shared() }
    }

    /// Returns a copy of this version that shares everything.
    fn shared(&self) -> Zone {
        Zone {
            index: self.index.clone(),
            arena: self.arena.clone(),
            chains: Arc::clone(&self.chains),
            all: self.all.clone(),
            ..*self
        }
    }

    /// Returns all nodes in the order in which they are stored, from the one at `from` on, or from the first:
    /// mostly that of the zone's source. Nothing is sorted or stored for it, and memory is read in one
    /// direction. To continue later, pass a node's [`address`](Node::address).
    pub fn stored_from(&self, from: Option<NodeAddress>) -> StoredNodes<'_> {
        StoredNodes::new(self, from)
    }

    /// Returns the hash key of names: hashes for [`find`](Self::find) are computed with it.
    pub fn key(&self) -> &HashKey {
        &self.key
    }

    #[inline]
    fn node(&self, at: NodeAddress) -> Node<'_> {
        Node::new(&self.arena, at)
    }
}

impl<'a> IntoIterator for &'a Zone {
    type Item = Node<'a>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (apex, serial) = (self.apex(), self.serial());
        write!(f, "Zone({apex} serial {serial}, {} records at {} names)", self.records, self.nodes)
    }
}
