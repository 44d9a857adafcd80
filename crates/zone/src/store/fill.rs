//! Fills the index with the names of an arena, on several threads if there are many names.
//!
//! Each thread fills a range of the buckets, so that no thread waits for another. Entries that would spill
//! out of a range are added at the end.

use wire::hash::{HashKey, HashedName};

use super::arena::{Arena, NodeAddress};
use super::blob;
use super::blobs::indexed;
use super::index::{Added, Index, IndexPart};
use super::memory::Region;
use super::names::{Hashed, HashedNames, ManyNames, Pile, of_word};
use super::parallel::each;

/// Names handled together: their buckets of the index are prefetched before the first is read.
const BATCH: usize = 32;

/// Returns the index of these names of an arena, with room for `more`. A name that occurs twice is in it
/// once; `repeated` receives the addresses of all blobs of such names.
pub(super) fn fill(
    arena: &Arena<Region>,
    mut names: HashedNames,
    more: usize,
    threads: usize,
    repeated: &mut Vec<NodeAddress>,
) -> Index<Region> {
    let mut index = Index::in_room(names.len() + more, names.take_room());
    let shares = shares(&mut index, names, threads);
    let mut beyond = Vec::new();
    for filled in each(threads, shares, |share| share.fill(arena)) {
        repeated.extend(filled.repeated);
        beyond.extend(filled.beyond);
    }
    for (hash, at) in beyond {
        let owner = blob::owner(arena.from(at));
        match index.find(hash, |other| blob::owner(arena.from(other)) == owner) {
            None => index.insert(hash, at),
            Some(first) => repeated.extend([first, at]),
        }
    }
    index
}

/// Returns all names of an arena, with their hashes computed again.
pub(super) fn hashed_names(arena: &Arena<Region>, key: &HashKey, threads: usize) -> HashedNames {
    let mut names = HashedNames::new();
    let chunks: Vec<usize> = (0..arena.chunk_count()).collect();
    // Some chunks at a time, which bounds the memory for hashes that are not in their piles yet.
    for chunks in chunks.chunks(threads) {
        let hashed = each(threads, chunks.to_vec(), |chunk| {
            let mut hashed = HashedName::new();
            let blobs = arena.walk_chunk(chunk).filter(|(_, blob)| indexed(blob));
            let hash = |(at, blob)| {
                hashed.set(key, blob::owner(blob).as_name());
                (hashed.hash(0), at)
            };
            blobs.map(hash).collect::<Vec<Hashed>>()
        });
        hashed.into_iter().for_each(|hashed| names.extend(hashed));
    }
    names
}

/// Returns up to `threads` parts of the index, each with the names that belong there.
fn shares(index: &mut Index<Region>, names: HashedNames, threads: usize) -> Vec<Share<'_>> {
    let mut shares: Vec<Names> = (0..threads).map(|_| Names::default()).collect();
    match names {
        HashedNames::Few(names) => {
            names.into_iter().for_each(|name| shares[index.part_of(name.0, threads)].apart.push(name));
        }
        HashedNames::Many(ManyNames { piles, .. }) => {
            for (number, pile) in piles.into_iter().enumerate() {
                let part = |word| index.part_of(of_word(number, word).0, threads);
                match part(0) {
                    first if first == part(u64::MAX) => shares[first].piles.push((number, pile)),
                    _ => pile.blocks().flatten().for_each(|&word| {
                        shares[part(word)].apart.push(of_word(number, word));
                    }),
                }
            }
        }
    }
    index.parts(threads).into_iter().zip(shares).map(|(part, names)| Share { part, names }).collect()
}

/// Names that belong to a part of the index.
#[derive(Default)]
struct Names {
    /// Piles that belong there as a whole, with their numbers.
    piles: Vec<(usize, Pile)>,
    /// Names of other piles.
    apart: Vec<Hashed>,
}

/// A part of the index, and the names to be added to it.
struct Share<'i> {
    part: IndexPart<'i>,
    names: Names,
}

/// The result of adding names to a part.
#[derive(Default)]
struct Filled {
    /// Blobs of names that occur twice.
    repeated: Vec<NodeAddress>,
    /// Names for which the part had no room.
    beyond: Vec<Hashed>,
}

impl Share<'_> {
    /// Adds the names; each pile is freed when it is done.
    fn fill(mut self, arena: &Arena<Region>) -> Filled {
        let mut filled = Filled::default();
        for (number, pile) in std::mem::take(&mut self.names.piles) {
            for batch in pile.blocks().flat_map(|block| block.chunks(BATCH)) {
                self.add(arena, batch.iter().map(|&word| of_word(number, word)), &mut filled);
            }
        }
        for batch in std::mem::take(&mut self.names.apart).chunks(BATCH) {
            self.add(arena, batch.iter().copied(), &mut filled);
        }
        filled
    }

    #[inline]
    fn add(
        &mut self,
        arena: &Arena<Region>,
        batch: impl Iterator<Item = Hashed> + Clone,
        filled: &mut Filled,
    ) {
        batch.clone().for_each(|(hash, _)| self.part.prefetch(hash));
        for (hash, at) in batch {
            let same = |other| blob::owner(arena.from(other)) == blob::owner(arena.from(at));
            match self.part.add(hash, at, same) {
                Added::New => {}
                Added::Again(first) => filled.repeated.extend([first, at]),
                Added::Beyond => filled.beyond.push((hash, at)),
            }
        }
    }
}
