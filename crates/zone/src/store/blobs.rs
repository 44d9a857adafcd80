//! The blobs of a zone under construction, and what can be computed for each as it arrives, so that little is
//! left to do at the end: its hash, its parent, its targets' nodes, and counts.
//!
//! In most zones a name is directly below the apex, or follows its parent or one of its parent's children,
//! and the hosts of a delegation follow it. Then both are resolved without the index, which is filled at the
//! end. Other names and targets are left to `finish`. It computes everything again if a name occurred in
//! several places, since blobs are merged then.

use std::ops::Range;

use wire::hash::{HashKey, HashedName};
use wire::{LowerName, LowerNameBuf, Name, NameHash, Type};

use super::arena::{Arena, NodeAddress};
use super::blob::{self, entries};
use super::memory::Region;
use super::names::HashedNames;
use super::node::{DEAD, Node, NodeFlags, SETTLED, TARGETS};
use super::targets::each_target;

/// The blobs of a zone under construction; see the module.
pub(super) struct Blobs {
    pub(super) arena: Arena<Region>,
    /// The names in the name space, with their hashes.
    pub(super) names: HashedNames,
    /// Number of blobs of the NSEC3 chain only.
    pub(super) hashed: usize,
    /// Counts over all of them.
    pub(super) census: Census,
    /// Names whose parent is not found yet, in their order.
    pub(super) unsettled: Vec<NodeAddress>,
    /// Nodes with targets that are not found yet, in their order.
    pub(super) unresolved: Vec<NodeAddress>,
    /// The arena is full.
    pub(super) full: bool,
    key: HashKey,
    apex: LowerNameBuf,
    apex_hash: NameHash,
    apex_at: Option<NodeAddress>,
    /// The name settled last, and its ancestors below the apex before it: one of them may be the parent of
    /// the next name.
    path: Vec<(NodeAddress, NameHash)>,
    awaited: Awaited,
    hash: HashedName,
}

/// Counts over the nodes of a zone.
#[derive(Clone, Copy, Default)]
pub(super) struct Census {
    pub(super) nodes: u64,
    pub(super) records: u64,
    pub(super) wildcards: bool,
    /// There are NSEC or NSEC3 records.
    pub(super) denial: bool,
}

impl Census {
    /// Counts a node.
    #[inline]
    pub(super) fn add(&mut self, blob: &[u8]) {
        self.nodes += 1;
        self.wildcards |= blob::flags(blob) & NodeFlags::WILDCARD.0 != 0;
        for (entry, _) in entries(blob) {
            self.records += entry.count as u64 + (entry.sigs & blob::SIG_COUNT) as u64;
            self.denial |= matches!(entry.rtype, Type::NSEC | Type::NSEC3);
        }
    }
}

/// Whether a blob is not dead.
pub(super) fn live(blob: &[u8]) -> bool {
    blob::flags(blob) & DEAD == 0
}

/// Whether a blob is in the index: neither dead, nor of the NSEC3 chain only.
#[inline]
pub(super) fn indexed(blob: &[u8]) -> bool {
    blob::flags(blob) & (DEAD | NodeFlags::NSEC3_ONLY.0) == 0
}

impl Blobs {
    pub(super) fn new(apex: &LowerNameBuf, key: &HashKey) -> Self {
        Blobs {
            arena: Arena::building(),
            names: HashedNames::new(),
            hashed: 0,
            census: Census::default(),
            unsettled: Vec::new(),
            unresolved: Vec::new(),
            full: false,
            key: *key,
            apex: *apex,
            apex_hash: key.name(apex.as_lower()),
            apex_at: None,
            path: Vec::new(),
            awaited: Awaited::default(),
            hash: HashedName::new(),
        }
    }

    /// Adds a blob from the encoder.
    pub(super) fn push(&mut self, blob: &[u8]) {
        let Ok(at) = self.arena.push(blob) else {
            self.full = true;
            return;
        };
        self.census.add(blob);
        if !indexed(blob) {
            self.hashed += 1;
            return;
        }
        let (owner, flags) = (blob::owner(blob), blob::flags(blob));
        self.awaited.look(&mut self.arena, owner, at);
        let hash = self.place(owner, flags, at);
        self.names.push(hash, at);
        if flags & TARGETS != 0 {
            self.unresolved.extend(self.awaited.end());
            self.awaited.begin(at, blob, self.apex.as_name());
        }
    }

    /// Returns the bytes of memory that they take.
    pub(super) fn memory(&self) -> usize {
        let lists = self.unsettled.capacity() + self.unresolved.capacity();
        self.arena.len() + self.names.memory() + lists * size_of::<NodeAddress>()
    }

    /// Ends the input: no blob follows.
    pub(super) fn end(&mut self) {
        self.unresolved.extend(self.awaited.end());
    }

    /// Settles a name, if its parent is known. Returns its hash.
    #[inline]
    fn place(&mut self, owner: LowerName<'_>, flags: u16, at: NodeAddress) -> NameHash {
        if flags & NodeFlags::APEX.0 != 0 {
            self.apex_at = self.apex_at.or(Some(at));
            return self.apex_hash;
        }
        if let Some((parent, suffix)) = self.parent(owner) {
            let inherited = below(blob::flags(self.arena.from(parent)));
            settle_one(&mut self.arena, at, parent, inherited);
            let label = owner.as_wire();
            let hash = self.key.child(suffix, &label[1..1 + label[0] as usize]);
            self.path.push((at, hash));
            return hash;
        }
        self.unsettled.push(at);
        self.hash.set(&self.key, owner.as_name());
        self.hash.hash(0)
    }

    /// Returns the node of the parent of a name below the apex, and its hash, if it is in the path. Removes
    /// nodes that are no ancestors of the name from the path.
    #[inline]
    fn parent(&mut self, owner: LowerName<'_>) -> Option<(NodeAddress, NameHash)> {
        let parent = owner.parent()?;
        if parent.len() == self.apex.as_name().len() {
            self.path.clear();
            return self.apex_at.map(|apex| (apex, self.apex_hash));
        }
        let is_parent = |&(at, _): &(NodeAddress, NameHash)| blob::owner(self.arena.from(at)) == parent;
        let place = self.path.iter().rposition(is_parent)?;
        self.path.truncate(place + 1);
        self.path.last().copied()
    }
}

/// Settles one node whose parent is settled; `inherited` has the flags that it inherits.
pub(super) fn settle_one(arena: &mut Arena<Region>, at: NodeAddress, parent: NodeAddress, inherited: u16) {
    let blob = arena.blob_mut(at);
    let flags = blob::flags(blob) | inherited | SETTLED;
    blob::set_flags(blob, flags);
    if flags & NodeFlags::WILDCARD.0 != 0 {
        let parent = arena.blob_mut(parent);
        let flags = blob::flags(parent) | NodeFlags::WILDCARD_CHILD.0;
        blob::set_flags(parent, flags);
    }
}

/// Returns the flags that names below one with `flags` inherit.
#[inline]
pub(super) fn below(flags: u16) -> u16 {
    let hides = NodeFlags::CUT.0 | NodeFlags::DNAME.0 | NodeFlags::OCCLUDED.0;
    if flags & hides != 0 { NodeFlags::OCCLUDED.0 } else { 0 }
}

/// Most targets of one node that are awaited, and most nodes that may follow it before the rest is looked up.
const MAX_AWAITED: usize = 16;

/// The targets in the zone of the last node that has any: their nodes may follow.
#[derive(Default)]
struct Awaited {
    node: NodeAddress,
    targets: Vec<AwaitedTarget>,
    /// There are more targets than are awaited.
    more: bool,
    /// Number of nodes that may still follow.
    patience: usize,
    /// The targets' names in lower case, one after the other.
    names: Vec<u8>,
    rdata: Vec<u8>,
}

/// A target: the offset of its address in the blob of its node, and its name's range in [`Awaited::names`].
struct AwaitedTarget {
    slot: usize,
    name: Range<usize>,
}

impl Awaited {
    /// Awaits the targets of a node.
    fn begin(&mut self, at: NodeAddress, blob: &[u8], apex: Name<'_>) {
        (self.node, self.patience, self.more) = (at, MAX_AWAITED, false);
        let Awaited { targets, more, names, rdata, .. } = self;
        each_target(Node::of_blob(blob), apex, rdata, |slot, target| {
            if targets.len() == MAX_AWAITED {
                *more = true;
                return;
            }
            let start = names.len();
            names.extend_from_slice(target.as_wire());
            // Lengths of labels are below `A`.
            names[start..].make_ascii_lowercase();
            targets.push(AwaitedTarget { slot, name: start..names.len() });
        });
    }

    /// Stores the address of a node if its name is an awaited target.
    #[inline]
    fn look(&mut self, arena: &mut Arena<Region>, owner: LowerName<'_>, at: NodeAddress) {
        if self.targets.is_empty() || self.patience == 0 {
            return;
        }
        self.patience -= 1;
        let (node, names) = (self.node, &self.names);
        self.targets.retain(|target| {
            let is_other = names[target.name.clone()] != *owner.as_wire();
            if !is_other {
                arena.blob_mut(node)[target.slot..target.slot + 4].copy_from_slice(&at.stored());
            }
            is_other
        });
    }

    /// Stops awaiting targets. Returns the node if some targets have not been found.
    fn end(&mut self) -> Option<NodeAddress> {
        let node = (self.more || !self.targets.is_empty()).then_some(self.node);
        self.more = false;
        self.targets.clear();
        self.names.clear();
        node
    }
}
