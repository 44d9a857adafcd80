//! The catalog: an immutable set of zones, found by the longest match with a question's name.
//!
//! A change makes a new catalog that shares the zones with the old one. What a zone holds is told in
//! [`crate::store`]; where zones come from and when they change is not decided here.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::hash::{HashKey, HashedName};
use wire::name::MAX_LABELS;
use wire::{LowerName, Name, NameBuf, NameHash};

use crate::prefetch::{self, Part};
use crate::store::Zone;

/// One zone of a catalog. Cloning shares the zone.
#[derive(Clone)]
pub struct ZoneEntry {
    name: Arc<[u8]>,
    zone: Option<Arc<Zone>>,
    /// Shared by all snapshots of the zone while it stays in the catalog.
    queries: Arc<AtomicU64>,
}

impl ZoneEntry {
    /// The zone's name.
    pub fn name(&self) -> LowerName<'_> {
        LowerName::of_checked(&self.name)
    }

    /// The snapshot; `None` if the zone is configured but not loaded, which is answered with SERVFAIL.
    #[inline]
    pub fn zone(&self) -> Option<&Arc<Zone>> {
        self.zone.as_ref()
    }

    /// Counts one query. All workers write to the same place, so this is for those who ask for it.
    #[inline]
    pub fn count_query(&self) {
        self.queries.fetch_add(1, Relaxed);
    }

    /// Queries counted since the zone came into the catalog.
    pub fn queries(&self) -> u64 {
        self.queries.load(Relaxed)
    }
}

impl fmt::Debug for ZoneEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), if self.zone.is_some() { "loaded" } else { "not loaded" })
    }
}

/// One step from a catalog to the next.
#[derive(Clone, Debug)]
pub enum Change {
    /// Serve this snapshot, in place of what was there under its name.
    Serve(Arc<Zone>),
    /// The zone is ours but cannot be served (yet): it gets a snapshot later.
    Unload(NameBuf),
    /// The zone is no longer ours.
    Remove(NameBuf),
}

/// A zone's place in one catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    head: u32,
    /// Labels that the name looked up has below the zone's.
    pub below: u8,
}

/// A place of the hash table that zones are found through, in one cache line: with many zones none is at hand.
#[derive(Default)]
#[repr(C, align(64))]
struct Head {
    zone: Option<Arc<Zone>>,
    hash: NameHash,
    /// Which of the entries it stands for.
    entry: u32,
    /// Octets of the name; 0 in a free place.
    len: u8,
    /// The name, as far as it goes in.
    name: HeadName,
}

/// Octets of a name in its [`Head`].
const HEAD_NAME: usize = 43;

struct HeadName([u8; HEAD_NAME]);

impl Default for HeadName {
    fn default() -> Self {
        HeadName([0; HEAD_NAME])
    }
}
const _: () = assert!(size_of::<Head>() == 64);
/// Catalogs of up to this many zones are at hand anyhow: nothing is asked for ahead.
const FEW: usize = 16;

impl Head {
    fn new(entry: u32, of: &ZoneEntry, hash: NameHash) -> Self {
        let mut head =
            Head { zone: of.zone.clone(), hash, entry, len: of.name.len() as u8, ..Head::default() };
        let shown = of.name.len().min(HEAD_NAME);
        head.name.0[..shown].copy_from_slice(&of.name[..shown]);
        head
    }
}

/// An immutable set of zones.
pub struct Catalog {
    key: HashKey,
    /// Half of them free; who does not find his place free takes the next free one.
    heads: Box<[Head]>,
    entries: Vec<ZoneEntry>,
    /// Bit n is set if some zone has a name of n labels: other suffixes of a question need no search.
    depths: u128,
}

impl Catalog {
    /// A catalog without zones. `key` is the one under which names are looked up.
    pub fn new(key: &HashKey) -> Self {
        Self::of(*key, Vec::new())
    }

    /// `entries` have different names.
    fn of(key: HashKey, entries: Vec<ZoneEntry>) -> Self {
        let heads = (0..2 * entries.len() + 1).map(|_| Head::default()).collect();
        let mut new = Catalog { key, heads, entries: Vec::new(), depths: 0 };
        for (number, entry) in entries.iter().enumerate() {
            let hash = key.name(entry.name());
            let mut at = new.home(hash);
            while new.heads[at].len != 0 {
                at = new.after(at);
            }
            new.heads[at] = Head::new(number as u32, entry, hash);
            new.depths |= 1 << entry.name().label_count();
        }
        Catalog { entries, ..new }
    }

    #[inline]
    fn home(&self, hash: NameHash) -> usize {
        (((hash.bits() >> 32) * self.heads.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.heads.len() { 0 } else { at + 1 }
    }

    /// A catalog with `changes` made one after the other; this one stays as it is.
    pub fn with(&self, changes: impl IntoIterator<Item = Change>) -> Catalog {
        let mut new: Vec<Option<ZoneEntry>> = self.entries.iter().cloned().map(Some).collect();
        let mut added = std::collections::HashMap::new();
        for change in changes {
            let (name, zone, keep) = match change {
                Change::Serve(zone) => (zone.apex().as_name().to_buf(), Some(zone), true),
                Change::Unload(name) => (name, None, true),
                Change::Remove(name) => (name, None, false),
            };
            let lower = name.as_name().to_lower();
            let slot = self.number(lower.as_lower()).or_else(|| added.get(&name).copied());
            let before = slot.and_then(|slot| new[slot].as_ref());
            let queries = before.map_or_else(Arc::default, |entry| Arc::clone(&entry.queries));
            let entry = keep.then(|| ZoneEntry { name: lower.as_name().as_wire().into(), zone, queries });
            match slot {
                Some(slot) => new[slot] = entry,
                None => {
                    added.insert(name, new.len());
                    new.push(entry);
                }
            }
        }
        Self::of(self.key, new.into_iter().flatten().collect())
    }

    /// Which head has the name `lower`.
    #[inline]
    fn head(&self, lower: LowerName<'_>, hash: NameHash) -> Option<usize> {
        let mut at = self.home(hash);
        // Half the heads are free, so this ends.
        loop {
            let head = &self.heads[at];
            prefetch::read(Part::Catalog, std::slice::from_ref(head));
            if head.len == 0 {
                return None;
            }
            if head.hash == hash && self.is_named(head, lower) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    #[inline]
    fn is_named(&self, head: &Head, lower: LowerName<'_>) -> bool {
        match head.name.0.get(..head.len as usize) {
            Some(name) => LowerName::of_checked(name) == lower,
            None => self.entries[head.entry as usize].name() == lower,
        }
    }

    /// Which entry has the name `lower`.
    fn number(&self, lower: LowerName<'_>) -> Option<usize> {
        let at = self.head(lower, self.key.name(lower))?;
        Some(self.heads[at].entry as usize)
    }

    /// The depths at which zones may be that `name`, without its `skip` leftmost labels, is at or below: bit n for
    /// names of n labels.
    #[inline]
    fn depths_above(&self, name: &HashedName, skip: usize) -> Option<u128> {
        let most = name.label_count().checked_sub(skip)?;
        let below = if most >= MAX_LABELS { u128::MAX } else { (1 << (most + 1)) - 1 };
        Some(self.depths & below)
    }

    /// Whether the zones are so many that it pays to ask for memory with [`ahead`](Self::ahead) and
    /// [`ahead_located`](Self::ahead_located).
    #[inline]
    pub fn is_large(&self) -> bool {
        self.entries.len() > FEW
    }

    /// Asks for what [`locate`](Self::locate) will most likely read.
    #[inline]
    pub fn ahead(&self, name: &HashedName) {
        if let Some(hash) = self.likely(name) {
            prefetch::value(&self.heads[self.home(hash)]);
        }
    }

    /// The hash of the longest suffix of `name` that a zone may have.
    #[inline]
    fn likely(&self, name: &HashedName) -> Option<NameHash> {
        let depths = self.depths_above(name, 0).filter(|&depths| depths != 0)?;
        Some(name.hash(name.label_count() - depths.ilog2() as usize))
    }

    /// The zone with the longest name that `name` is at or below, and how many labels `name` has more.
    #[inline]
    pub fn find(&self, name: &HashedName) -> Option<(&ZoneEntry, usize)> {
        self.find_skipping(name, 0)
    }

    /// The same for `name` without its `skip` leftmost labels; the number of labels still counts from the
    /// whole name. With the number that [`find`](Self::find) gave and one more it finds the next zone above,
    /// which answers for DS at a zone's name (RFC 4035 §3.1.4.1).
    pub fn find_skipping(&self, name: &HashedName, skip: usize) -> Option<(&ZoneEntry, usize)> {
        let found = self.locate(name, skip)?;
        Some((self.entry(found), found.below as usize))
    }

    /// What [`find_skipping`](Self::find_skipping) finds, in a form that borrows nothing, to be kept between
    /// the steps of a batch. Good for this catalog only.
    pub fn locate(&self, name: &HashedName, skip: usize) -> Option<Located> {
        let labels = name.label_count();
        let mut depths = self.depths_above(name, skip)?;
        while depths != 0 {
            let depth = depths.ilog2() as usize;
            depths ^= 1 << depth;
            let skip = labels - depth;
            if let Some(head) = self.head(name.suffix(skip), name.hash(skip)) {
                return Some(Located { head: head as u32, below: skip as u8 });
            }
        }
        None
    }

    /// The zone located before.
    #[inline]
    pub fn entry(&self, located: Located) -> &ZoneEntry {
        &self.entries[self.heads[located.head as usize].entry as usize]
    }

    /// The snapshot of the zone located before; `None` if it is not loaded.
    #[inline]
    pub fn zone(&self, located: Located) -> Option<&Zone> {
        self.heads[located.head as usize].zone.as_deref()
    }

    /// Asks for the zone located before.
    #[inline]
    pub fn ahead_located(&self, located: Located) {
        if let Some(zone) = self.zone(located) {
            zone.prefetch_self();
        }
    }

    /// The zone of exactly this name.
    pub fn get(&self, name: Name<'_>) -> Option<&ZoneEntry> {
        Some(&self.entries[self.number(name.to_lower().as_lower())?])
    }

    /// All zones, in no particular order.
    pub fn iter(&self) -> std::slice::Iter<'_, ZoneEntry> {
        self.entries.iter()
    }

    /// Number of zones.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no zones.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The key under which the zones are looked up.
    pub fn key(&self) -> &HashKey {
        &self.key
    }
}

impl<'a> IntoIterator for &'a Catalog {
    type Item = &'a ZoneEntry;
    type IntoIter = std::slice::Iter<'a, ZoneEntry>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.entries).finish()
    }
}
