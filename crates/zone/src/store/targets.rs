//! Finds the nodes of the names that records point to, so that answers get the addresses of these nodes
//! without lookups.

use wire::hash::{HashKey, HashedName};
use wire::{LowerName, Name, NameHash};

use super::arena::{Arena, NodeAddress};
use super::blob;
use super::index::Index;
use super::memory::Region;
use super::node::{DEAD, Node, TARGETS};
use super::parallel::each;

/// Targets looked up together: their buckets of the index are prefetched before the first is read.
const BATCH: usize = 32;
/// Nodes per thread whose targets are found before the results are stored.
const NODES_PER_ROUND: usize = 1 << 16;

/// Looks up the targets of these nodes in the zone and stores the addresses of the target nodes in the
/// RRsets.
pub(super) fn resolve(
    arena: &mut Arena<Region>,
    index: &Index<Region>,
    apex: Name<'_>,
    key: &HashKey,
    threads: usize,
    nodes: &[NodeAddress],
) {
    for nodes in nodes.chunks(NODES_PER_ROUND * threads) {
        let search = TargetSearch { arena, index, apex, key };
        let parts = nodes.chunks(NODES_PER_ROUND).collect();
        for target in each(threads, parts, |part| search.part(part)).iter().flatten() {
            arena.blob_mut(target.at)[target.slot..target.slot + 4].copy_from_slice(&target.found);
        }
    }
}

/// Calls `f` with each target name of a node that is in the zone, and with the offset in the node's blob
/// where the target node's address is stored.
pub(super) fn each_target(
    node: Node<'_>,
    apex: Name<'_>,
    rdata: &mut Vec<u8>,
    mut f: impl FnMut(usize, Name<'_>),
) {
    for (set, data) in node.rrsets_at() {
        for (slot, record) in set.target_slots(data).zip(set.rdatas()) {
            rdata.clear();
            record.copy_to(rdata);
            let target = super::encode::target(node.owner().as_name(), set.rtype(), rdata);
            if let Some(target) = target.filter(|name| name.is_at_or_below(apex)) {
                f(slot, target);
            }
        }
    }
}

/// The result for one target: the node with the record, the offset in its blob, and the address to store
/// there.
struct FoundTarget {
    at: NodeAddress,
    slot: usize,
    found: [u8; 4],
}

/// The data for looking up targets.
struct TargetSearch<'a> {
    arena: &'a Arena<Region>,
    index: &'a Index<Region>,
    apex: Name<'a>,
    key: &'a HashKey,
}

impl TargetSearch<'_> {
    /// Looks up the targets of these nodes' records.
    fn part(&self, nodes: &[NodeAddress]) -> Vec<FoundTarget> {
        let mut found = Vec::new();
        let mut batch = TargetBatch::default();
        for &at in nodes {
            if blob::flags(self.arena.from(at)) & (TARGETS | DEAD) == TARGETS {
                batch.gather(Node::alone(self.arena, at), self.apex, self.key);
            }
            if batch.jobs.len() >= BATCH {
                self.look_up(&mut batch, &mut found);
            }
        }
        self.look_up(&mut batch, &mut found);
        found
    }

    fn look_up(&self, batch: &mut TargetBatch, found: &mut Vec<FoundTarget>) {
        batch.jobs.iter().for_each(|job| self.index.prefetch(job.hash));
        found.extend(batch.jobs.iter().map(|&TargetLookup { at, slot, hash, ref name }| {
            let name = LowerName::of_checked(&batch.names[name.clone()]);
            let found = self.index.find(hash, |at| blob::owner(self.arena.from(at)) == name);
            FoundTarget { at, slot, found: found.map_or(NodeAddress::NOWHERE, NodeAddress::stored) }
        }));
        batch.jobs.clear();
        batch.names.clear();
    }
}

/// Target names that are looked up together.
#[derive(Default)]
struct TargetBatch {
    jobs: Vec<TargetLookup>,
    names: Vec<u8>,
    rdata: Vec<u8>,
    hashed: HashedName,
}

/// One target to look up: the address of the node with the record, the offset in its blob for the result, the
/// name's hash, and the name's range in [`TargetBatch::names`].
struct TargetLookup {
    at: NodeAddress,
    slot: usize,
    hash: NameHash,
    name: std::ops::Range<usize>,
}

impl TargetBatch {
    /// Adds the targets of a node that are in the zone.
    fn gather(&mut self, node: Node<'_>, apex: Name<'_>, key: &HashKey) {
        let TargetBatch { jobs, names, rdata, hashed } = self;
        each_target(node, apex, rdata, |slot, target| {
            hashed.set(key, target);
            let start = names.len();
            names.extend_from_slice(hashed.as_lower().as_wire());
            let name = start..names.len();
            jobs.push(TargetLookup { at: node.address(), slot, hash: hashed.hash(0), name });
        });
    }
}
