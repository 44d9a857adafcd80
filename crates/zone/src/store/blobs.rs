//! The blobs of a zone that is being built, and what is found out about each while it is at hand, so that
//! little is left to do when the last one is in: its hash, its parent, who names it, and what is counted.
//!
//! In most zones a name is right below the apex, or follows its parent or one of its parent's children, and
//! the hosts of a delegation follow it. Then neither needs the index, which is filled at the end. Names and
//! targets of which that is not so are kept for `finish`. It does everything anew where a name came in
//! several places, for then blobs are merged.

use std::ops::Range;

use wire::hash::{HashKey, HashedName};
use wire::{LowerName, LowerNameBuf, Name, NameHash, Type};

use super::arena::{Arena, NodeAddress};
use super::blob::{self, entries};
use super::memory::Region;
use super::names::HashedNames;
use super::node::{DEAD, Node, NodeFlags, SETTLED, TARGETS};
use super::targets::each_target;

/// The blobs; see the module.
pub(super) struct Blobs {
    pub(super) arena: Arena<Region>,
    /// Those of the name space.
    pub(super) names: HashedNames,
    /// How many are of the NSEC3 chain only.
    pub(super) hashed: usize,
    /// What is counted of all of them.
    pub(super) census: Census,
    /// Names whose parent is still to be found, in their order.
    pub(super) unsettled: Vec<NodeAddress>,
    /// Nodes with targets that are still to be found, in their order.
    pub(super) unresolved: Vec<NodeAddress>,
    /// The arena could take no more.
    pub(super) full: bool,
    key: HashKey,
    apex: LowerNameBuf,
    apex_hash: NameHash,
    apex_at: Option<NodeAddress>,
    /// The name settled last, and its ancestors below the apex before it: one of them may be the parent of
    /// the next.
    path: Vec<(NodeAddress, NameHash)>,
    awaited: Awaited,
    hash: HashedName,
}

/// What is counted of the nodes of a zone.
#[derive(Clone, Copy, Default)]
pub(super) struct Census {
    pub(super) nodes: u64,
    pub(super) records: u64,
    pub(super) wildcards: bool,
    /// There is NSEC or NSEC3.
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

/// Whether a blob is in the index: not dead, and not only of the NSEC3 chain.
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

    /// Adds a blob as the encoder made it.
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

    /// Bytes of memory that they take.
    pub(super) fn memory(&self) -> usize {
        let lists = self.unsettled.capacity() + self.unresolved.capacity();
        self.arena.len() + self.names.memory() + lists * size_of::<NodeAddress>()
    }

    /// No blob follows.
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

    /// The node of the parent of a name below the apex, and its hash, if it is at hand. What is no ancestor
    /// of the name is no longer in the path then.
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

/// Settles one node whose parent is settled; `inherited` has the flags that it has from there.
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

/// The flags that names below one with `flags` inherit.
#[inline]
pub(super) fn below(flags: u16) -> u16 {
    let hides = NodeFlags::CUT.0 | NodeFlags::DNAME.0 | NodeFlags::OCCLUDED.0;
    if flags & hides != 0 { NodeFlags::OCCLUDED.0 } else { 0 }
}

/// Targets of one node that are waited for, and how many nodes may follow it until they are waited for no
/// longer: of a node with more they are looked up.
const AWAITED: usize = 16;

/// The targets in the zone of the last node that had any: their nodes may follow.
#[derive(Default)]
struct Awaited {
    node: NodeAddress,
    targets: Vec<AwaitedTarget>,
    /// There are more than are waited for.
    more: bool,
    /// Nodes that may still follow.
    patience: usize,
    /// Their names in lower case, one behind the other.
    names: Vec<u8>,
    rdata: Vec<u8>,
}

/// A target: where in the blob of its node the address goes, and where its name lies in [`Awaited::names`].
struct AwaitedTarget {
    slot: usize,
    name: Range<usize>,
}

impl Awaited {
    /// Waits for the targets of a node.
    fn begin(&mut self, at: NodeAddress, blob: &[u8], apex: Name<'_>) {
        (self.node, self.patience, self.more) = (at, AWAITED, false);
        let Awaited { targets, more, names, rdata, .. } = self;
        each_target(Node::of_blob(blob), apex, rdata, |slot, target| {
            if targets.len() == AWAITED {
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

    /// Puts the address of a node where its name is the target that was waited for.
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

    /// Waits no longer. Returns the node if the nodes of some targets have not come.
    fn end(&mut self) -> Option<NodeAddress> {
        let node = (self.more || !self.targets.is_empty()).then_some(self.node);
        self.more = false;
        self.targets.clear();
        self.names.clear();
        node
    }
}
