//! Finds the nodes of the names that records point to, so that answers have their addresses without looking them up.

use wire::hash::{HashKey, HashedName};
use wire::{LowerName, Name, NameHash};

use super::arena::{Arena, NodeAddress};
use super::blob;
use super::index::Index;
use super::memory::Region;
use super::node::{DEAD, Node, TARGETS};
use super::parallel::each;

/// Targets handled together: their buckets of the index are prefetched before the first is read.
const BATCH: usize = 32;
/// Chunks of the arena for each thread whose targets are found before they are written down.
const AT_ONCE: usize = 1;

/// Looks up the target names that lie in the zone and puts the addresses of their nodes into the RRsets.
pub(super) fn resolve(
    arena: &mut Arena<Region>,
    index: &Index<Region>,
    apex: Name<'_>,
    key: &HashKey,
    threads: usize,
) {
    let chunks: Vec<usize> = (0..arena.chunk_count()).collect();
    for chunks in chunks.chunks(AT_ONCE * threads) {
        let search = TargetSearch { arena, index, apex, key };
        for target in each(threads, chunks.to_vec(), |chunk| search.chunk(chunk)).iter().flatten() {
            let slot = &mut arena.blob_mut(target.at)[target.slot..target.slot + 4];
            slot.copy_from_slice(&target.found.stored());
        }
    }
}

/// A target that was found: the address of the node that names it, where in that one's blob the target's own goes.
struct FoundTarget {
    at: NodeAddress,
    slot: usize,
    found: NodeAddress,
}

/// What targets are looked up in.
struct TargetSearch<'a> {
    arena: &'a Arena<Region>,
    index: &'a Index<Region>,
    apex: Name<'a>,
    key: &'a HashKey,
}

impl TargetSearch<'_> {
    /// The targets of a chunk's records.
    fn chunk(&self, chunk: usize) -> Vec<FoundTarget> {
        let mut found = Vec::new();
        let mut batch = TargetBatch::default();
        for (at, blob) in self.arena.walk_chunk(chunk) {
            if blob::flags(blob) & (TARGETS | DEAD) == TARGETS {
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
        found.extend(batch.jobs.iter().filter_map(|&TargetLookup { at, slot, hash, ref name }| {
            let name = LowerName::of_checked(&batch.names[name.clone()]);
            let found = self.index.find(hash, |at| blob::owner(self.arena.from(at)) == name)?;
            Some(FoundTarget { at, slot, found })
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

/// One target to look up: the address of the node that names it, where in its blob the result goes, the name's hash,
/// and where the name lies in [`TargetBatch::names`].
struct TargetLookup {
    at: NodeAddress,
    slot: usize,
    hash: NameHash,
    name: std::ops::Range<usize>,
}

impl TargetBatch {
    /// Takes the target names of a node that lie in the zone.
    fn gather(&mut self, node: Node<'_>, apex: Name<'_>, key: &HashKey) {
        for (set, data) in node.rrsets_at() {
            for (i, rdata) in set.target_slots(data).zip(set.rdatas()) {
                self.rdata.clear();
                rdata.copy_to(&mut self.rdata);
                let target = super::encode::target(node.owner().as_name(), set.rtype(), &self.rdata);
                let Some(target) = target.filter(|name| name.is_at_or_below(apex)) else { continue };
                self.hashed.set(key, target);
                let start = self.names.len();
                self.names.extend_from_slice(self.hashed.as_lower().as_wire());
                let name = start..self.names.len();
                self.jobs.push(TargetLookup { at: node.address(), slot: i, hash: self.hashed.hash(0), name });
            }
        }
    }
}
