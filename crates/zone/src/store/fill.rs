//! Fills the index with the names of an arena, on several threads if they are many.
//!
//! Each thread fills a range of the buckets, so that none waits for another. Names are hashed before, by whoever has time,
//! some chunks of the arena at once. What would spill out of a range is added at the end.

use wire::NameHash;
use wire::hash::{HashKey, HashedName};

use super::arena::{Arena, NodeAddress};
use super::blob;
use super::finish::indexed;
use super::index::{Added, Index, IndexPart};
use super::memory::Region;
use super::parallel::each;

/// Names handled together: their buckets of the index are prefetched before the first is read.
const BATCH: usize = 32;
/// Chunks of the arena for each thread that are hashed before their names are added: they bound the memory for hashes.
const AT_ONCE: usize = 1;

/// A name of the arena: its hash, and where its blob is.
pub(super) type Hashed = (NameHash, NodeAddress);

/// The index of all names of an arena, with room for `room` of them. A name that came twice is in it once; `repeated` gets
/// hash and address of all blobs of such names.
pub(super) fn fill(
    arena: &Arena<Region>,
    key: &HashKey,
    room: usize,
    threads: usize,
    repeated: &mut Vec<Hashed>,
) -> Index<Region> {
    let mut index = Index::for_entries(room);
    let chunks: Vec<usize> = (0..arena.chunk_count()).collect();
    let mut beyond = Vec::new();
    for chunks in chunks.chunks(AT_ONCE * threads) {
        let hashed = each(threads, chunks.to_vec(), |chunk| hash_chunk(arena, key, chunk, threads, &index));
        let mut shares: Vec<Share<'_>> = index.parts(threads).into_iter().map(Share::new).collect();
        for names in hashed {
            shares.iter_mut().zip(names).for_each(|(share, names)| share.names.push(names));
        }
        for (again, over) in each(threads, shares, |share| share.fill(arena)) {
            repeated.extend(again);
            beyond.extend(over);
        }
    }
    for (hash, at) in beyond {
        let owner = blob::owner(arena.from(at));
        match index.find(hash, |other| blob::owner(arena.from(other)) == owner) {
            None => index.insert(hash, at),
            Some(first) => repeated.extend([(hash, first), (hash, at)]),
        }
    }
    index
}

/// The names of a chunk, by the part of the index to which they belong.
fn hash_chunk(
    arena: &Arena<Region>,
    key: &HashKey,
    chunk: usize,
    parts: usize,
    index: &Index<Region>,
) -> Vec<Vec<Hashed>> {
    let mut names = vec![Vec::new(); parts];
    let mut hashed = HashedName::new();
    for (at, blob) in arena.walk_chunk(chunk).filter(|(_, blob)| indexed(blob)) {
        hashed.set(key, blob::owner(blob).as_name());
        let hash = hashed.hash(0);
        names[index.part_of(hash, parts)].push((hash, at));
    }
    names
}

/// A part of the index, and the names to be added to it.
struct Share<'i> {
    part: IndexPart<'i>,
    names: Vec<Vec<Hashed>>,
}

impl<'i> Share<'i> {
    fn new(part: IndexPart<'i>) -> Self {
        Share { part, names: Vec::new() }
    }

    /// Adds the names. Returns those that came twice, and those for which the part had no room.
    fn fill(mut self, arena: &Arena<Region>) -> (Vec<Hashed>, Vec<Hashed>) {
        let (mut repeated, mut beyond) = (Vec::new(), Vec::new());
        for batch in self.names.iter().flat_map(|names| names.chunks(BATCH)) {
            batch.iter().for_each(|&(hash, _)| self.part.prefetch(hash));
            for &(hash, at) in batch {
                let owner = blob::owner(arena.from(at));
                match self.part.add(hash, at, |other| blob::owner(arena.from(other)) == owner) {
                    Added::New => {}
                    Added::Again(first) => repeated.extend([(hash, first), (hash, at)]),
                    Added::Beyond => beyond.push((hash, at)),
                }
            }
        }
        (repeated, beyond)
    }
}
