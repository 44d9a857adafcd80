//! The hashes of all names of a zone under construction, with the addresses of their blobs, in the order of
//! the index.
//!
//! An index filled in the order of the names is written at random, one cache line for each. So names are
//! sorted into piles by the upper eight bits of their hashes, each a range of the index that fits into the
//! cache. A pile need not store these bits again: of a hash there remain the 24 bits below, which with the
//! eight above select the bucket, and the lowest eight, which are the tag, and with the address of the blob
//! that is one word. A name of pile 0x12:
//!
//! ```text
//! hash     12 34 56 78 .. .. .. 9a          address  de ad be ef
//! word        34 56 78 9a de ad be ef
//! ```
//!
//! Few names are all in one list.

use wire::NameHash;

use super::arena::NodeAddress;
use super::index::IndexRoom;

/// Number of piles: the number of values of eight bits.
pub(super) const PILES: usize = 256;
/// Largest number of names in one list.
const MAX_LIST_NAMES: usize = 4096;
/// Names in one allocation of a pile.
const BLOCK: usize = 512;
/// Number of names after which the index is prepared for more, each time.
const INDEX_STEP_NAMES: usize = 1 << 16;

/// A name: the bits of its hash that the index uses, and the address of its blob.
pub(super) type Hashed = (NameHash, NodeAddress);

/// The names of one pile, as words.
#[derive(Default)]
pub(super) struct Pile {
    full: Vec<Vec<u64>>,
    last: Vec<u64>,
}

impl Pile {
    #[inline]
    fn push(&mut self, hash: NameHash, at: NodeAddress) {
        if self.last.len() == self.last.capacity() {
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(BLOCK));
            self.full.extend(Some(full).filter(|full| !full.is_empty()));
        }
        self.last.push((hash.bits() & 0xff) << 32 | (hash.bits() >> 32) << 40 | u64::from(at.0));
    }

    /// Returns the blocks of words.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[u64]> {
        self.full.iter().chain([&self.last]).map(Vec::as_slice)
    }
}

/// Returns the name of a word in a pile.
#[inline]
pub(super) fn of_word(pile: usize, word: u64) -> Hashed {
    let upper = (pile as u64) << 24 | word >> 40;
    (NameHash::of_bits(upper << 32 | (word >> 32 & 0xff)), NodeAddress(word as u32))
}

/// All names; see the module.
pub(super) enum HashedNames {
    /// In order of arrival.
    Few(Vec<Hashed>),
    /// In [`PILES`] piles.
    Many(ManyNames),
}

/// Names in piles.
pub(super) struct ManyNames {
    pub(super) piles: Vec<Pile>,
    count: usize,
    /// Memory for their index.
    room: IndexRoom,
}

impl HashedNames {
    pub(super) const fn new() -> Self {
        HashedNames::Few(Vec::new())
    }

    /// Returns the number of names.
    pub(super) fn len(&self) -> usize {
        match self {
            HashedNames::Few(names) => names.len(),
            HashedNames::Many(names) => names.count,
        }
    }

    /// Returns the bytes of memory that they take.
    pub(super) fn memory(&self) -> usize {
        match self {
            HashedNames::Few(names) => names.capacity() * size_of::<Hashed>(),
            // Each pile has a block that is not full.
            HashedNames::Many(names) => (names.count + PILES * BLOCK) * size_of::<u64>() + names.room.ready(),
        }
    }

    /// Returns memory for the index of these names.
    pub(super) fn take_room(&mut self) -> IndexRoom {
        match self {
            HashedNames::Few(_) => IndexRoom::NONE,
            HashedNames::Many(names) => std::mem::replace(&mut names.room, IndexRoom::NONE),
        }
    }

    /// Adds a name.
    #[inline]
    pub(super) fn push(&mut self, hash: NameHash, at: NodeAddress) {
        match self {
            HashedNames::Many(names) => {
                names.piles[pile_of(hash)].push(hash, at);
                names.count += 1;
                if names.count.is_multiple_of(INDEX_STEP_NAMES) {
                    names.room.expect(names.count);
                }
            }
            HashedNames::Few(names) => {
                names.push((hash, at));
                if names.len() > MAX_LIST_NAMES {
                    self.divide();
                }
            }
        }
    }

    /// Adds names.
    pub(super) fn extend(&mut self, names: impl IntoIterator<Item = Hashed>) {
        names.into_iter().for_each(|(hash, at)| self.push(hash, at));
    }

    /// Sorts the names of the list into piles.
    #[cold]
    fn divide(&mut self) {
        let piles = (0..PILES).map(|_| Pile::default()).collect();
        let many = ManyNames { piles, count: 0, room: IndexRoom::NONE };
        if let HashedNames::Few(names) = std::mem::replace(self, HashedNames::Many(many)) {
            self.extend(names);
        }
    }
}

/// Returns the pile of a hash.
#[inline]
fn pile_of(hash: NameHash) -> usize {
    (hash.bits() >> 56) as usize
}

#[cfg(test)]
mod tests {
    use wire::hash::HashKey;

    use super::*;

    #[test]
    fn all_that_the_index_looks_at_comes_back_of_few_names_and_of_many() {
        let key = HashKey::new([11, 22, 33]);
        for count in [1, MAX_LIST_NAMES, MAX_LIST_NAMES + 1, 2 * BLOCK * PILES] {
            let hash = |i: usize| key.child(key.root(), &(i as u64).to_le_bytes());
            let mut names = HashedNames::new();
            names.extend((0..count).map(|i| (hash(i), NodeAddress(u32::MAX - i as u32))));
            assert_eq!(names.len(), count);
            let mut found: Vec<Hashed> = match &names {
                HashedNames::Few(names) => names.clone(),
                HashedNames::Many(ManyNames { piles, .. }) => {
                    let words = |(i, pile): (usize, &Pile)| {
                        pile.blocks().flatten().map(move |&word| of_word(i, word)).collect::<Vec<_>>()
                    };
                    piles.iter().enumerate().flat_map(words).collect()
                }
            };
            found.sort_by_key(|(_, at)| std::cmp::Reverse(at.0));
            assert_eq!(found.len(), count);
            for (i, (found, at)) in found.into_iter().enumerate() {
                let seen = |hash: NameHash| (hash.bits() >> 32, hash.bits() & 0xff);
                assert_eq!((seen(found), at.0), (seen(hash(i)), u32::MAX - i as u32));
            }
        }
    }
}
