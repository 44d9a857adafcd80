//! The catalog: an immutable set of zones, found by the longest match with a question's name.
//!
//! A change makes a new catalog that shares with the old one all it does not touch. [`crate::store`] says
//! what a zone holds; where zones come from and when they change is not decided here.
//!
//! ```text
//!  hash of a name   ║ high half: which place of the shard
//!                   ║ low half, its bytes from the lowest: 10 + 5 + 5 bits, the way to the shard
//!                                        │   │   │
//!  Catalog: key, census, root  ◀─────────┘   │   │
//!           ┌──┬──┬──┬───┬──┐                │   │
//!     1,024 │  │  │  │ … │  │                │   │
//!           └┬─┴┬─┴┬─┴───┴┬─┘                │   │
//!            ▼  │  ▼      ▼                  │   │
//!         Shard │ Shard  Shard               │   │
//!               ▼                            │   │
//!      Page ┌──┬──┬───┬──┐                   │   │
//!        32 │  │  │ … │  │  ◀────────────────┘   │
//!           └┬─┴┬─┴───┴┬─┘                       │
//!            ▼  ▼      ▼                         │
//!         Shard │     Shard                      │
//!               ▼                                │
//!             Page  ◀────────────────────────────┘
//!
//!  Shard: a hash table, half of it free        Entry: one cache line
//!     ┌──────┬───────┬───────┬──────┬───       ┌──────────┬──────┬───────────┬────────┐
//!     │ free │ entry │ entry │ free │ …        │ snapshot │ hash │ → lasting │  name  │
//!     └──────┴───────┴───────┴──────┴───       └──────────┴──────┴───────────┴────────┘
//! ```
//!
//! The trie is as deep as it must be. Up to 128 zones lie in one shard, which is every node of the root. A
//! shard that would hold more becomes a page of shards, and a page with few zones left becomes a shard again.
//! So nearly all of 100,000 zones lie right behind the root, and 1,000,000 behind one page more. A node says
//! where its shard lies and how many places it has: to find the place of a name, and to prefetch it, no other
//! line of the shard is read.
//!
//! The next catalog copies each shard that a change reaches, the pages on the way there and the root; every
//! other page and shard belongs to both. All changes of a step go down together, sorted by their way, so that
//! nothing is copied twice and a first load of many zones builds every shard once. Readers hold a catalog for
//! as long as they like: nothing in it is ever written but what a zone keeps from catalog to catalog: its
//! counter of queries, and when it expires.
//!
//! | file | holds |
//! |---|---|
//! | `entry.rs` | one zone in one cache line: [`ZoneEntry`] |
//! | `trie.rs` | pages and shards: finding an entry, making the next trie |
//! | `change.rs` | [`Change`], [`WrongKey`], and what the changes of a step come to |
//! | `census.rs` | what is counted of the zones |

mod census;
mod change;
mod entry;
#[cfg(test)]
mod tests;
mod trie;

use std::fmt;

use wire::Name;
use wire::hash::{HashKey, HashedName};
use wire::name::MAX_LABELS;

use crate::store::Zone;
use census::Census;
pub use change::{Change, WrongKey};
pub use entry::ZoneEntry;
use trie::{Entries, Trie, Way};

/// Catalogs of up to this many zones stay in the processor's caches: nothing is prefetched.
const FEW: usize = 16;

/// A zone's place in one catalog.
///
/// One word, so that it goes from [`locate`](Catalog::locate) to its use in a register. In parts that are
/// written one by one and read together it would wait for memory. From the lowest bit: labels below (8 bits),
/// the way (24), the place in the shard (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located(u64);

impl Located {
    #[inline]
    fn new(way: Way, below: usize, place: usize) -> Self {
        const { assert!(trie::WAY_BITS <= 24) };
        Located(u64::from(way & !0xff) | (below as u64 & 0xff) | (place as u64) << 32)
    }

    #[inline]
    fn way(self) -> Way {
        self.0 as Way
    }

    #[inline]
    fn place(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Labels that the name looked up has below the zone's.
    #[inline]
    pub fn below(self) -> usize {
        usize::from(self.0 as u8)
    }
}

/// An immutable set of zones.
pub struct Catalog {
    /// Bit [`MAX_LABELS`] - n is set if some zone has a name of n labels: other suffixes of a question need
    /// no search.
    depths: u128,
    trie: Trie,
    key: HashKey,
    census: Census,
}

impl Catalog {
    /// A catalog without zones. `key` is the one under which names are looked up, and zones are built.
    pub fn new(key: &HashKey) -> Self {
        Catalog { depths: 0, trie: Trie::new(Vec::new()), key: *key, census: Census::new() }
    }

    /// A catalog with `changes` made one after the other; this one stays as it is. What no change reaches is
    /// shared: a change costs the copy of one shard and of what lies above it, however many zones there are,
    /// and many changes together cost less than one by one.
    ///
    /// # Errors
    /// If a zone to be served was built under another key than the catalog's.
    pub fn with(&self, changes: impl IntoIterator<Item = Change>) -> Result<Catalog, WrongKey> {
        let steps = change::steps(&self.key, changes)?;
        let mut census = self.census.clone();
        let trie = self.trie.with(&steps, &mut census).unwrap_or_else(|| self.trie.clone());
        Ok(Catalog { depths: census.depths(), trie, key: self.key, census })
    }

    /// Which suffixes of `name`, without its `skip` leftmost labels, may be zones' names: bit n if that of n
    /// labels less may.
    #[inline]
    fn likely(&self, name: &HashedName, skip: usize) -> Option<u128> {
        let labels = name.label_count().checked_sub(skip)?;
        Some(self.depths.wrapping_shr((MAX_LABELS - labels) as u32))
    }

    /// Whether the zones are so many that it pays to call [`prefetch`](Self::prefetch) and
    /// [`prefetch_located`](Self::prefetch_located).
    #[inline]
    pub fn is_large(&self) -> bool {
        self.len() > FEW
    }

    /// Prefetches what [`locate`](Self::locate) will most likely read.
    #[inline]
    pub fn prefetch(&self, name: &HashedName) {
        if let Some(likely) = self.likely(name, 0).filter(|&likely| likely != 0) {
            self.trie.prefetch(name.hash(likely.trailing_zeros() as usize));
        }
    }

    /// The zone with the longest name that `name` is at or below, and how many labels `name` has more.
    #[inline]
    pub fn find(&self, name: &HashedName) -> Option<(&ZoneEntry, usize)> {
        self.find_skipping(name, 0)
    }

    /// The same for `name` without its `skip` leftmost labels; the number of labels still counts from the
    /// whole name. With the number that [`find`](Self::find) returned and one more it finds the next zone
    /// above, which answers for DS at a zone's name (RFC 4035 §3.1.4.1).
    pub fn find_skipping(&self, name: &HashedName, skip: usize) -> Option<(&ZoneEntry, usize)> {
        let found = self.locate(name, skip)?;
        Some((self.entry(found)?, found.below()))
    }

    /// What [`find_skipping`](Self::find_skipping) finds, in a form that borrows nothing, to be kept between
    /// the steps of a batch. Good for this catalog only.
    pub fn locate(&self, name: &HashedName, skip: usize) -> Option<Located> {
        let mut likely = self.likely(name, skip)?;
        while likely != 0 {
            let skip = skip + likely.trailing_zeros() as usize;
            likely &= likely - 1;
            let hash = name.hash(skip);
            if let Some((place, _)) = self.trie.find(name.suffix(skip), hash) {
                return Some(Located::new(trie::way(hash), skip, place));
            }
        }
        None
    }

    /// The zone located before; `None` only if that was in another catalog.
    #[inline]
    pub fn entry(&self, located: Located) -> Option<&ZoneEntry> {
        self.trie.get(located.way(), located.place())
    }

    /// The snapshot of the zone located before; `None` if it is not loaded.
    #[inline]
    pub fn zone(&self, located: Located) -> Option<&Zone> {
        self.entry(located)?.zone().map(AsRef::as_ref)
    }

    /// Prefetches the zone located before.
    #[inline]
    pub fn prefetch_located(&self, located: Located) {
        if let Some(zone) = self.zone(located) {
            zone.prefetch_self();
        }
    }

    /// The zone of exactly this name.
    pub fn get(&self, name: Name<'_>) -> Option<&ZoneEntry> {
        let lower = name.to_lower();
        let (_, entry) = self.trie.find(lower.as_lower(), self.key.name(lower.as_lower()))?;
        Some(entry)
    }

    /// All zones, in no particular order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { entries: self.trie.entries(), left: self.len() }
    }

    /// Number of zones.
    #[inline]
    pub fn len(&self) -> usize {
        self.census.zones()
    }

    /// Whether there are no zones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key under which the zones are looked up.
    pub fn key(&self) -> &HashKey {
        &self.key
    }

    /// Bytes of memory the catalog holds, what it shares with other catalogs included, the zones not:
    /// [`Zone::memory`] has those.
    pub fn memory(&self) -> usize {
        size_of::<Catalog>() + self.trie.memory() + self.census.memory()
    }
}

/// The zones of a catalog.
pub struct Iter<'a> {
    entries: Entries<'a>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a ZoneEntry;

    fn next(&mut self) -> Option<&'a ZoneEntry> {
        let entry = self.entries.next()?;
        self.left -= 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Catalog {
    type Item = &'a ZoneEntry;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
