//! The catalog: an immutable set of zones, found by the longest match with QNAME.
//!
//! A change builds a new catalog that shares all unchanged parts with the old one. [`crate::store`] holds the
//! zones' data; this module does not decide where zones come from and when they change.
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
//! The trie is as deep as necessary. Up to 128 zones are in one shard, which is every node of the root. A
//! shard that would hold more becomes a page of shards, and a page with few zones left becomes a shard again.
//! So nearly all of 100,000 zones are directly below the root, and 1,000,000 below one more page. A node
//! holds the address of its shard and its number of places: to find the place of a name, and to prefetch it,
//! no other cache line of the shard is read.
//!
//! The next catalog copies each shard that a change reaches, the pages on the path to it and the root; all
//! other pages and shards belong to both. All changes of a step are applied together, sorted by their path,
//! so that nothing is copied twice and a first load of many zones builds every shard once. Readers may hold a
//! catalog for any time: nothing in it is ever written except the lasting state of a zone: its query counter,
//! its expiry, and what signs its answers.
//!
//! | file | holds |
//! |---|---|
//! | `entry.rs` | one zone in one cache line: [`ZoneEntry`] |
//! | `trie.rs` | pages and shards: finding an entry, building the next trie |
//! | `change.rs` | [`Change`], [`WrongKey`], and the steps that result from changes |
//! | `census.rs` | counts of the zones |
//! | `online.rs` | [`AnswerSigner`], which signs the answers of a zone |

mod census;
mod change;
mod entry;
mod online;
#[cfg(test)]
mod tests;
mod trie;

use std::collections::HashSet;
use std::fmt;

use wire::hash::{HashKey, HashedName};
use wire::name::MAX_LABELS;
use wire::{LowerName, Name};

use crate::store::Zone;
use census::Census;
use change::CatalogStep;
pub use change::{Change, WrongKey};
pub use entry::ZoneEntry;
pub use online::{AnswerSet, AnswerSignatures, AnswerSigner, AnswerUnsigned, OnlineDenial};
use trie::{Entries, Trie, Way};

/// Catalogs of up to this many zones stay in the processor's caches: nothing is prefetched.
const MAX_UNPREFETCHED_ZONES: usize = 16;

/// A zone's place in one catalog.
///
/// One word, so that it passes from [`locate`](Catalog::locate) to its use in a register. Parts that are
/// written one by one and read together would wait for memory. From the lowest bit: labels below (8 bits),
/// the path (24), the place in the shard (32).
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

    /// Returns how many labels the name looked up has below the zone's name.
    #[inline]
    pub fn below(self) -> usize {
        usize::from(self.0 as u8)
    }
}

/// An immutable set of zones.
pub struct Catalog {
    /// Bit [`MAX_LABELS`] - n is set if some zone has a name of n labels: other suffixes of QNAME need no
    /// lookup.
    depths: u128,
    trie: Trie,
    key: HashKey,
    census: Census,
}

impl Catalog {
    /// Returns a catalog without zones. `key` is the hash key of the zones.
    pub fn new(key: &HashKey) -> Self {
        Catalog { depths: 0, trie: Trie::new(Vec::new()), key: *key, census: Census::new() }
    }

    /// Returns a catalog with `changes` made one after the other; this one is unchanged. Unchanged parts are
    /// shared: a change costs the copy of one shard and of the nodes above it, however many zones there are,
    /// and many changes together cost less than one by one.
    ///
    /// # Errors
    /// If a zone to be served was built with another key than the catalog's.
    pub fn with(&self, changes: impl IntoIterator<Item = Change>) -> Result<Catalog, WrongKey> {
        let steps = change::steps(&self.key, changes, false)?;
        let mut census = self.census.clone();
        let trie = self.trie.with(&steps, &mut census).unwrap_or_else(|| self.trie.clone());
        Ok(Catalog { depths: census.depths(), trie, key: self.key, census })
    }

    /// Returns the next catalog of a view: the zones outside views, with those of the view in place of those
    /// of the same name. `self` is the present one; a view without zones has the catalog of the zones outside
    /// views itself. That catalog goes from `before` to `after` by changes of the zones `outside`; `own` are
    /// changes of the view's zones.
    ///
    /// A view shares all parts with `after` that contain none of its zones, so it takes the memory of its own
    /// zones and of a shard for each of them, and a change costs a shard for each view that shares none.
    ///
    /// # Errors
    /// If a zone to be served was built with another key than the catalog's.
    pub fn over<'n>(
        &self,
        before: &Catalog,
        after: &Catalog,
        outside: impl IntoIterator<Item = LowerName<'n>>,
        own: impl IntoIterator<Item = Change>,
    ) -> Result<Catalog, WrongKey> {
        let of_after = |name: LowerName<'_>, hash| after.trie.entry(name, hash).cloned();
        let mut steps = change::steps(&self.key, own, true)?;
        // Where the view's zone is removed, the one outside views is seen again.
        for step in steps.iter_mut().filter(|step| step.removes()) {
            *step = CatalogStep::like(step.name(), step.hash, of_after);
        }
        let own: HashSet<Box<[u8]>> = steps.iter().map(|step| step.name().as_wire().into()).collect();
        let is_own = |name: LowerName<'_>, hash| {
            own.contains(name.as_wire()) || self.trie.entry(name, hash).is_some_and(ZoneEntry::is_in_view)
        };
        for name in outside {
            let hash = self.key.name(name);
            if !is_own(name, hash) {
                steps.push(CatalogStep::like(name, hash, of_after));
            }
        }
        Ok(self.over_by(before, after, steps))
    }

    /// The same, by steps in any order.
    fn over_by(&self, before: &Catalog, after: &Catalog, mut steps: Vec<CatalogStep>) -> Catalog {
        let made = |trie: &Trie, census: &Census, steps: Vec<CatalogStep>| {
            let (mut census, steps) = (census.clone(), change::in_order(steps));
            let trie = trie.with(&steps, &mut census).unwrap_or_else(|| trie.clone());
            Catalog { depths: census.depths(), trie, key: self.key, census }
        };
        let (few_before, few_after) = (before.trie.is_alone(), after.trie.is_alone());
        if std::ptr::eq(before, after) || (few_before && few_after && !self.trie.is_alone()) {
            return made(&self.trie, &self.census, steps);
        }
        if self.trie.is_alone() || few_before != few_after {
            // The view shares nothing with `before`, and its zones are few, or this is rare.
            let mine = self.iter().filter(|entry| entry.is_in_view());
            let like =
                |entry: &ZoneEntry| CatalogStep::like(entry.name(), entry.hash, |_, _| Some(entry.clone()));
            // A zone keeps its lasting state, which the entries of `after` do not have.
            let settled = steps.iter().map(|step| {
                let old = self.trie.entry(step.name(), step.hash);
                let new = step.result(old).unwrap_or_else(|| old.cloned());
                CatalogStep::like(step.name(), step.hash, |_, _| new)
            });
            // Of two steps of one name the later one counts.
            let steps = mine.map(like).chain(settled).collect();
            return made(&after.trie, &after.census, steps);
        }
        steps = change::in_order(steps);
        let mut census = self.census.clone();
        for step in &steps {
            let old = self.trie.entry(step.name(), step.hash);
            let Some(new) = step.result(old) else { continue };
            old.into_iter().for_each(|old| census.remove(old));
            new.iter().for_each(|new| census.add(new));
        }
        let trie = self.trie.over(&before.trie, &after.trie, &steps);
        Catalog { depths: census.depths(), trie, key: self.key, census }
    }

    /// Returns which suffixes of `name`, without its `skip` leftmost labels, may be zones' names: bit n for
    /// the suffix with n labels less.
    #[inline]
    fn likely(&self, name: &HashedName, skip: usize) -> Option<u128> {
        let labels = name.label_count().checked_sub(skip)?;
        Some(self.depths.wrapping_shr((MAX_LABELS - labels) as u32))
    }

    /// Whether there are so many zones that [`prefetch`](Self::prefetch) and
    /// [`prefetch_located`](Self::prefetch_located) are worthwhile.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.len() > MAX_UNPREFETCHED_ZONES
    }

    /// Prefetches what [`locate`](Self::locate) will most likely read.
    #[inline]
    pub fn prefetch(&self, name: &HashedName) {
        if let Some(likely) = self.likely(name, 0).filter(|&likely| likely != 0) {
            self.trie.prefetch(name.hash(likely.trailing_zeros() as usize));
        }
    }

    /// Returns the zone with the longest name that `name` is at or below, and how many more labels `name`
    /// has.
    #[inline]
    pub fn find(&self, name: &HashedName) -> Option<(&ZoneEntry, usize)> {
        self.find_skipping(name, 0)
    }

    /// Returns the same for `name` without its `skip` leftmost labels; the number of labels still counts from
    /// the whole name. With the number that [`find`](Self::find) returned plus one it finds the next zone
    /// above, which answers for DS at a zone's apex (RFC 4035 §3.1.4.1).
    pub fn find_skipping(&self, name: &HashedName, skip: usize) -> Option<(&ZoneEntry, usize)> {
        let found = self.locate(name, skip)?;
        Some((self.entry(found)?, found.below()))
    }

    /// Returns the result of [`find_skipping`](Self::find_skipping) in a form that borrows nothing, to be
    /// kept between the passes over a batch. Valid for this catalog only.
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

    /// Returns the located zone; `None` only if it was located in another catalog.
    #[inline]
    pub fn entry(&self, located: Located) -> Option<&ZoneEntry> {
        self.trie.get(located.way(), located.place())
    }

    /// Returns the snapshot of the located zone; `None` if it is not loaded.
    #[inline]
    pub fn zone(&self, located: Located) -> Option<&Zone> {
        self.entry(located)?.zone().map(AsRef::as_ref)
    }

    /// Prefetches the located zone.
    #[inline]
    pub fn prefetch_located(&self, located: Located) {
        if let Some(zone) = self.zone(located) {
            zone.prefetch_self();
        }
    }

    /// Returns the zone of exactly this name.
    pub fn get(&self, name: Name<'_>) -> Option<&ZoneEntry> {
        let lower = name.to_lower();
        let (_, entry) = self.trie.find(lower.as_lower(), self.key.name(lower.as_lower()))?;
        Some(entry)
    }

    /// Returns all zones, in no particular order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { entries: self.trie.entries(), left: self.len() }
    }

    /// Returns the number of zones.
    #[inline]
    pub fn len(&self) -> usize {
        self.census.zones()
    }

    /// Whether there are no zones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the hash key of the zones.
    pub fn key(&self) -> &HashKey {
        &self.key
    }

    /// Returns the bytes of memory of the catalog, including parts shared with other catalogs, but without
    /// the zones: see [`Zone::memory`].
    pub fn memory(&self) -> usize {
        size_of::<Catalog>() + self.trie.memory() + self.census.memory()
    }

    /// Returns the bytes of memory of the catalog of a view beside `outside`, the catalog of the zones
    /// outside views: without the parts that they share.
    pub fn memory_beside(&self, outside: &Catalog) -> usize {
        size_of::<Catalog>() + self.trie.memory_beside(&outside.trie)
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
