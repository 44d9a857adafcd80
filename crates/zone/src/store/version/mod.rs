//! Versions of a zone that share what did not change.
//!
//! A version consists of the base, shared with the version it was made from, and an overlay of the nodes that
//! changed: whole blobs from the same encoder, each in a slot. [`Zone::apply`] makes the next version of a
//! version; [`Zone::folded`] makes a new base from a version; [`Zone::is_worth_folding`] says when that pays.
//!
//! ```text
//!               base                      overlay
//! name       index ─▶ address ─▶ blob     names ────────┐
//!                        │                              ▼
//! target     address ────┴───────────────▶ redirects ─▶ slot ─▶ blob
//!                                                       ▲
//! chain      row of addresses              row ─────────┘   and the positions of the base's row that are gone
//! ```
//!
//! - A blob in a slot stores addresses only for targets that the base has; other targets are found by name.
//!   So no blob contains the address of a slot, and a slot can be reused for another node.
//! - The flags that a node inherits from others (occlusion, wildcard children, empty non-terminals) change
//!   with those nodes: see `settle.rs`.
//! - Without an overlay, a reader tests one field and proceeds as in a base. With an overlay, a filter of
//!   hashes and addresses tells for nearly all unchanged names that they did not change.
//!
//! | file | holds |
//! |---|---|
//! | `change.rs` | the input: [`ChangeSet`], [`ChangeError`] |
//! | `apply.rs` | records → nodes that change |
//! | `settle.rs` | puts a node into the overlay, and updates the nodes that depend on it |
//! | `place.rs` | stores a node: slot, names, redirects, rows, counts |
//! | `update.rs` | all records of the next version → nodes that change: [`ZoneUpdate`] |
//! | `fold.rs` | a new base |
//! | `diff.rs` | the difference between two snapshots |
//! | `owners.rs` | the names at which two versions of one base may differ |
//! | `tree.rs`, `slots.rs`, `row.rs`, `filter.rs` | the persistent parts of an overlay |
//!
//! # When a version is built as a whole
//!
//! If a change touches more than 4096 nodes and more than an eighth of all, or changes the NSEC3 parameters,
//! the next version is built as a whole. The nodes touched include those that inherit from a changed node
//! (below a new zone cut, for example). Once an eighth of the base's nodes has changed, it pays to fold the
//! version into a new base. This runs while the version is served; the folded version is published if that
//! version is still the one in service. An image has no overlay.
//!
//! The canonical order of all nodes, which determines the names below a name, is computed at the first change
//! of a base and costs four bytes per node.
//!
//! # Why not pages
//!
//! Copying pages of the base on change would make the filter unnecessary. But nodes have no fixed size, so
//! everything after a changed node in its page would move; and readers of zones that never change would pay
//! for the pages. Since no blob stores the address of a slot, the records that point to a host need not be
//! known when the host changes.

mod apply;
mod change;
mod diff;
mod filter;
mod fold;
mod owners;
mod place;
mod row;
mod settle;
mod slots;
mod tree;
mod update;

use std::cmp::Ordering;

use wire::hash::{HashKey, HashedName};
use wire::rdata::view::SoaNumbers;
use wire::{LowerName, Name, NameHash, Ttl, Type};

use super::arena::NodeAddress;
use super::node::NodeFlags;
use super::{Node, RrSet, Zone, blob};
pub use change::{ChangeError, ChangeSet, ChangedRecord, ChangedRecords, RecordKey};
pub use diff::{diff, diff_names, diff_within};
use filter::Filter;
pub use owners::changed_owners;
use row::RowChange;
use slots::Slots;
use tree::{Entry, Tree, by_key};
pub use update::{Updated, ZoneUpdate};

/// Value of a redirect if the node is gone.
const GONE: u32 = u32::MAX;

/// The nodes in which a version differs from its base. Clones share all pages.
#[derive(Clone)]
pub(super) struct Overlay {
    key: HashKey,
    apex_len: usize,
    /// Hashes of names and [numbers of addresses](number) whose node may differ from the base.
    touched: Filter,
    slots: Slots,
    /// Addresses of the base → slots, or [`GONE`].
    redirects: Tree,
    /// Hashes of names that are not in the base's index → slots.
    names: Tree,
    /// All nodes in canonical order, the NSEC chain and the NSEC3 chain.
    all: RowChange,
    nsec: RowChange,
    nsec3: RowChange,
    /// Number of wildcards.
    wildcards: u64,
}

/// Approximate bytes per node of an overlay in addition to its blob: slot, counters, tree entries, share of
/// pages.
const BESIDE_BLOB: usize = 160;

/// The numbers of an SOA record, and the TTL of negative answers.
type SoaAndTtl = (SoaNumbers, Ttl);

/// How much a version differs from its base; see [`Zone::overlay_size`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverlaySize {
    /// Nodes that changed, are new or are gone.
    pub nodes: usize,
    /// Bytes of memory, some of them shared with other versions.
    pub bytes: usize,
}

/// Converts an address to an evenly spread number for the filter and the redirects.
#[inline]
fn number(at: NodeAddress) -> u64 {
    (at.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Compares an entry whose value is a slot with the name `name`, whose key is `key`.
fn by_name<'a>(slots: &'a Slots, key: u64, name: Name<'a>) -> impl Fn(Entry) -> Ordering + 'a {
    move |entry| {
        entry.key.cmp(&key).then_with(|| blob::owner(slots.get(entry.value)).as_name().canonical_cmp(name))
    }
}

impl Overlay {
    /// The blob in a slot.
    pub(super) fn blob(&self, slot: usize) -> &[u8] {
        self.slots.get(slot as u32)
    }

    /// Number of slots, including free ones.
    #[inline]
    pub(super) fn slots(&self) -> u32 {
        self.slots.len()
    }

    /// Whether the node of this name may differ from the base.
    #[inline]
    pub(super) fn touches(&self, hash: NameHash) -> bool {
        self.touched.has(hash.bits())
    }

    /// The current address of a node of the base; `None` if the node is gone.
    #[inline]
    pub(super) fn redirect(&self, base: NodeAddress) -> Option<NodeAddress> {
        if !self.touched.has(number(base)) {
            return Some(base);
        }
        match self.redirects.get(by_key(number(base))) {
            None => Some(base),
            Some(entry) => (entry.value != GONE).then(|| NodeAddress::of_slot(entry.value)),
        }
    }

    /// As [`redirect`](Self::redirect), but `None` if the node is no longer part of the name space.
    #[inline]
    pub(super) fn target(&self, base: NodeAddress) -> Option<NodeAddress> {
        let at = self.redirect(base)?;
        match at.slot() {
            Some(slot) if blob::flags(self.slots.get(slot)) & NodeFlags::NSEC3_ONLY.0 != 0 => None,
            _ => Some(at),
        }
    }

    /// The address of the node of a name that is not in the base's index.
    pub(super) fn find_new(&self, lower: LowerName<'_>, hash: NameHash) -> Option<NodeAddress> {
        let entry = self.names.get(by_name(&self.slots, hash.bits(), lower.as_name()))?;
        Some(NodeAddress::of_slot(entry.value))
    }

    /// The address of the node whose name is at `name_at` bytes in the records of `set`, if the name is not
    /// in the base's index.
    pub(super) fn new_target(&self, set: &RrSet<'_>, name_at: usize) -> Option<NodeAddress> {
        if self.names.is_empty() {
            return None;
        }
        let (owner, name) = (set.node().owner(), set.name_at(name_at)?);
        let service = matches!(set.rtype(), Type::SVCB | Type::HTTPS)
            && set.records().get(name_at.checked_sub(2)?..name_at)? != [0, 0];
        if service && name.as_name().is_root() {
            // RFC 9460 §2.5.2: the owner itself.
            return Some(set.node().address());
        }
        let apex = &owner.as_wire()[owner.len() - self.apex_len..];
        if !name.as_name().is_at_or_below(Name::of_checked(apex)) {
            return None;
        }
        let mut hashed = HashedName::new();
        hashed.set(&self.key, name.as_name());
        if !self.touches(hashed.hash(0)) {
            return None;
        }
        self.find_new(hashed.as_lower(), hashed.hash(0))
    }

    /// Number of nodes in the NSEC chain; the base's chain has `base` nodes.
    pub(super) fn nsec_len(&self, base: usize) -> usize {
        self.nsec.len(base)
    }

    /// The first added node after `name`, whose key is `key`, in the order of all nodes.
    fn came_after(&self, key: u64, name: Name<'_>) -> Option<NodeAddress> {
        self.all.came.above(by_name(&self.slots, key, name)).map(|entry| NodeAddress::of_slot(entry.value))
    }

    /// The last node of the overlay in the NSEC chain that is not after `name`, whose key is `key`.
    pub(super) fn new_nsec(&self, key: u64, name: Name<'_>) -> Option<NodeAddress> {
        self.nsec.came.floor(by_name(&self.slots, key, name)).map(|entry| NodeAddress::of_slot(entry.value))
    }

    /// The last remaining position of the base's NSEC chain before `end`.
    pub(super) fn old_nsec(&self, end: usize) -> Option<usize> {
        self.nsec.last_before(end)
    }

    /// The last node of the overlay in the NSEC3 chain that is not above the wanted one; `order` compares a
    /// key and a blob with the wanted node.
    pub(super) fn new_nsec3(&self, order: impl Fn(u64, &[u8]) -> Ordering) -> Option<NodeAddress> {
        let found = self.nsec3.came.floor(|entry| order(entry.key, self.slots.get(entry.value)));
        found.map(|entry| NodeAddress::of_slot(entry.value))
    }

    /// The last remaining position of the base's NSEC3 chain before `end`.
    pub(super) fn old_nsec3(&self, end: usize) -> Option<usize> {
        self.nsec3.last_before(end)
    }

    /// Approximate bytes of memory, computed without a visit of the parts.
    fn estimate(&self) -> usize {
        self.slots.bytes() + self.slots.len() as usize * BESIDE_BLOB
    }

    fn size(&self) -> OverlaySize {
        let trees = self.redirects.memory() + self.names.memory();
        let rows = self.all.memory() + self.nsec.memory() + self.nsec3.memory();
        OverlaySize {
            nodes: self.slots.used() as usize + self.all.gone_count(),
            bytes: size_of::<Overlay>() + self.touched.memory() + self.slots.memory() + trees + rows,
        }
    }
}

/// Iterates over the nodes of a changed zone in canonical order: the remaining nodes of the base merged with
/// the added nodes.
#[derive(Clone)]
pub(super) struct Merge<'a> {
    overlay: &'a Overlay,
    came: std::iter::Peekable<tree::Entries<'a>>,
    /// The next node of the base, and its current address.
    next: Option<(NodeAddress, NodeAddress)>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(overlay: &'a Overlay) -> Self {
        Merge { overlay, came: overlay.all.came.iter().peekable(), next: None }
    }

    /// As [`new`](Self::new), without the added nodes before `name`, whose key is `key`.
    pub(super) fn starting(overlay: &'a Overlay, key: u64, name: Name<'_>) -> Self {
        let came = overlay.all.came.iter_from(by_name(&overlay.slots, key, name));
        Merge { overlay, came: came.peekable(), next: None }
    }

    /// Returns the next node; `base` yields the remaining nodes of the base.
    pub(super) fn next(
        &mut self,
        zone: &'a Zone,
        base: &mut impl Iterator<Item = NodeAddress>,
    ) -> Option<Node<'a>> {
        while self.next.is_none() {
            let Some(at) = base.next() else { break };
            self.next = self.overlay.redirect(at).map(|now| (at, now));
        }
        let came = self.came.peek().map(|entry| zone.node(NodeAddress::of_slot(entry.value)));
        match (self.next, came) {
            (Some((base, now)), came) => {
                if let Some(came) =
                    came.filter(|came| came.owner().as_name() < zone.node(base).owner().as_name())
                {
                    self.came.next();
                    return Some(came);
                }
                self.next = None;
                Some(zone.node(now))
            }
            (None, came) => {
                self.came.next();
                came
            }
        }
    }
}

impl Zone {
    /// How much this version differs from its base; zero if the zone was built, loaded or
    /// [folded](Self::folded).
    ///
    /// Counting the bytes visits the whole overlay, but not its nodes.
    pub fn overlay_size(&self) -> OverlaySize {
        self.overlay().map(Overlay::size).unwrap_or_default()
    }

    /// Approximate bytes of memory of its overlay; 0 if it has a base of its own. Takes constant time.
    pub fn overlay_estimate(&self) -> usize {
        self.overlay().map_or(0, Overlay::estimate)
    }

    /// Whether it pays to [fold](Self::folded): an eighth of the base's nodes changed. A fold takes about as
    /// long as that many changes, and frees memory that the base uses for outdated nodes.
    pub fn is_worth_folding(&self) -> bool {
        let changed = |overlay: &Overlay| overlay.slots.used() as usize + overlay.all.gone_count();
        self.overlay().is_some_and(|overlay| changed(overlay) > self.order().nodes().len() / 8)
    }

    /// Finds a name that may have changed, in a zone with an overlay.
    #[cold]
    pub(super) fn find_touched(
        &self,
        overlay: &Overlay,
        lower: LowerName<'_>,
        hash: NameHash,
    ) -> Option<Node<'_>> {
        let at = match self.find_base(lower, hash) {
            Some(base) => overlay.target(base)?,
            None => overlay.find_new(lower, hash)?,
        };
        Some(self.node(at))
    }
}
