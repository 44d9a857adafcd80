//! The trie of a catalog: root, pages and shards, how an entry is found in them, and how the next trie is
//! made of one. What a change means is [`super::change`]'s matter.

use std::sync::Arc;
use std::{array, slice, vec};

use wire::{LowerName, NameHash};

use super::census::Census;
use super::change::CatalogStep;
use super::entry::ZoneEntry;
use crate::prefetch::{self, Part};

/// Nodes of the root, so many that tens of thousands of zones lie behind it without a page.
pub(super) const WIDE: usize = 1024;
/// Nodes of a page: few, so that the shards of a page just made are not all but empty.
const NARROW: usize = 32;
/// Pages between root and shard, at the most. A shard behind them grows without limit: there are a hundred
/// million zones by then, or a key under which hashes collide.
const LEVELS: u32 = 2;
/// Zones of a shard, at the most, where it can be split.
pub(super) const MAX_SHARD_ZONES: usize = 128;
/// Zones that are put together in one shard: fewer than were split, so that a zone that comes and goes does
/// not split and join each time.
pub(super) const FEWEST: usize = MAX_SHARD_ZONES / 2;

/// The way to the shard of a hash: which node of the root and of each page, from the highest bits down.
pub(super) type Way = u32;

/// The bits of a way that count: so many that root and pages use.
pub(super) const WAY_BITS: u32 = WIDE.ilog2() + LEVELS * NARROW.ilog2();

/// The way to the shard of `hash` is its low half, byte by byte from the lowest: names that differ in a few
/// digits differ most evenly there. The high half chooses the place in the shard.
#[inline]
pub(super) fn way(hash: NameHash) -> Way {
    (hash.bits() as Way).swap_bytes()
}

/// What hashes are sorted by for the trie: those that go the same way, or begin so, come together.
pub(super) fn order(hash: NameHash) -> u64 {
    hash.bits().swap_bytes()
}

/// Which of `N` nodes a way leads to.
#[inline]
fn turn<const N: usize>(way: Way) -> usize {
    (way >> (Way::BITS - N.ilog2())) as usize
}

/// What is left of a way behind a node of `N`.
#[inline]
fn rest<const N: usize>(way: Way) -> Way {
    way << N.ilog2()
}

/// Which node of a page that has `level` pages above it.
fn turn_at(level: u32, hash: NameHash) -> usize {
    turn::<NARROW>(rest::<WIDE>(way(hash)) << (level * NARROW.ilog2()))
}

/// A place of a shard; half of them are free.
type ShardSlot = Option<ZoneEntry>;

/// Where in a shard of so many places a hash belongs.
#[inline]
fn home(hash: NameHash, places: usize) -> usize {
    ((hash.bits() >> 32).wrapping_mul(places as u64) >> 32) as usize
}

/// The place after `at`.
#[inline]
fn beside(at: usize, places: usize) -> usize {
    if at + 1 == places { 0 } else { at + 1 }
}

/// The trie: its root.
#[derive(Clone)]
pub(super) struct Trie {
    nodes: [TrieNode; WIDE],
    /// Whether all zones lie in one shard: then every node is that one.
    alone: bool,
}

/// A part of the trie, shared by all tries in which it is the same.
#[derive(Clone)]
enum TrieNode {
    /// A hash table: who finds his place taken takes the next free one.
    Shard(Arc<[ShardSlot]>),
    Page(Arc<Page>),
}

/// The way to a place reads these words alone: where the shard is, and how many places it has.
const _: () = assert!(size_of::<TrieNode>() == 16);

struct Page {
    nodes: [TrieNode; NARROW],
    /// How many there are below.
    zones: usize,
}

impl Trie {
    /// A trie of `entries`, which come in any order.
    pub(super) fn new(mut entries: Vec<ZoneEntry>) -> Trie {
        let alone = entries.len() <= MAX_SHARD_ZONES;
        if alone {
            let shard = TrieNode::new(entries, LEVELS);
            return Trie { nodes: array::from_fn(|_| shard.clone()), alone };
        }
        entries.sort_unstable_by_key(|entry| order(entry.hash));
        let mut entries = entries.into_iter();
        let nodes = array::from_fn(|at| {
            let zones = entries.as_slice().partition_point(|entry| turn::<WIDE>(way(entry.hash)) <= at);
            TrieNode::of_next(zones, &mut entries, 0)
        });
        Trie { nodes, alone }
    }

    /// The places of the shard that a way leads to.
    #[inline]
    fn places(&self, way: Way) -> &[ShardSlot] {
        let (mut node, mut way) = (&self.nodes[turn::<WIDE>(way)], rest::<WIDE>(way));
        loop {
            match node {
                TrieNode::Shard(places) => return places,
                TrieNode::Page(page) => node = &page.nodes[turn::<NARROW>(way)],
            }
            way = rest::<NARROW>(way);
        }
    }

    /// The place in its shard of the entry with the name `lower`, and the entry.
    #[inline]
    pub(super) fn find(&self, lower: LowerName<'_>, hash: NameHash) -> Option<(usize, &ZoneEntry)> {
        find(self.places(way(hash)), lower, hash)
    }

    /// The entry at a place that [`find`](Self::find) found.
    #[inline]
    pub(super) fn get(&self, way: Way, place: usize) -> Option<&ZoneEntry> {
        self.places(way).get(place)?.as_ref()
    }

    /// Prefetches the place that [`find`](Self::find) reads first.
    #[inline]
    pub(super) fn prefetch(&self, hash: NameHash) {
        let places = self.places(way(hash));
        if let Some(place) = places.get(home(hash, places.len())) {
            prefetch::value(place);
        }
    }

    /// The trie that `steps` make of this one; `None` if they change nothing. They are sorted by [`order`],
    /// one for each name. What they do not reach is shared.
    pub(super) fn with(&self, steps: &[CatalogStep], census: &mut Census) -> Option<Trie> {
        if let (true, TrieNode::Shard(places)) = (self.alone, &self.nodes[0]) {
            return entries_with(places, steps, census).map(Trie::new);
        }
        let turn = |step: &CatalogStep| turn::<WIDE>(way(step.hash));
        let nodes = nodes_with(&self.nodes, steps, turn, 0, census)?;
        if census.zones() <= FEWEST {
            return Some(Trie::new(entries(&nodes).cloned().collect()));
        }
        Some(Trie { nodes, alone: false })
    }

    /// All entries.
    pub(super) fn entries(&self) -> Entries<'_> {
        entries(self.distinct())
    }

    /// Bytes of memory of pages and shards.
    pub(super) fn memory(&self) -> usize {
        self.distinct().iter().map(TrieNode::memory).sum()
    }

    /// The nodes, each once.
    fn distinct(&self) -> &[TrieNode] {
        if self.alone { slice::from_ref(&self.nodes[0]) } else { &self.nodes }
    }
}

impl TrieNode {
    /// A node with `level` pages above it, of `entries` in any order.
    fn new(mut entries: Vec<ZoneEntry>, level: u32) -> TrieNode {
        let zones = entries.len();
        if zones > MAX_SHARD_ZONES {
            entries.sort_unstable_by_key(|entry| order(entry.hash));
        }
        TrieNode::of_next(zones, &mut entries.into_iter(), level)
    }

    /// A node with `level` pages above it, of the next `zones` of `entries`. More than a shard holds are
    /// sorted by [`order`].
    fn of_next(zones: usize, entries: &mut vec::IntoIter<ZoneEntry>, level: u32) -> TrieNode {
        if zones <= MAX_SHARD_ZONES || level == LEVELS {
            return TrieNode::Shard(shard(zones, entries));
        }
        let mut left = zones;
        let nodes = array::from_fn(|at| {
            let mine = entries.as_slice().get(..left).unwrap_or_default();
            let here = mine.partition_point(|entry| turn_at(level, entry.hash) <= at);
            left -= here;
            TrieNode::of_next(here, entries, level + 1)
        });
        TrieNode::Page(Arc::new(Page { nodes, zones }))
    }

    /// What `steps`, which all lead here, make of this node with `level` pages above it; `None` if it stays
    /// as it is.
    fn with(&self, steps: &[CatalogStep], level: u32, census: &mut Census) -> Option<TrieNode> {
        let page = match self {
            TrieNode::Shard(places) => {
                return entries_with(places, steps, census).map(|entries| TrieNode::new(entries, level));
            }
            TrieNode::Page(page) => page,
        };
        let before = census.zones();
        let nodes = nodes_with(&page.nodes, steps, |step| turn_at(level, step.hash), level + 1, census)?;
        let zones = page.zones + census.zones() - before;
        if zones <= FEWEST {
            return Some(TrieNode::new(entries(&nodes).cloned().collect(), level));
        }
        Some(TrieNode::Page(Arc::new(Page { nodes, zones })))
    }

    /// Bytes of memory of this node and those below.
    fn memory(&self) -> usize {
        match self {
            TrieNode::Shard(places) => {
                COUNTS.next_multiple_of(align_of::<ShardSlot>()) + size_of_val::<[ShardSlot]>(places)
            }
            TrieNode::Page(page) => {
                COUNTS + size_of::<Page>() + page.nodes.iter().map(TrieNode::memory).sum::<usize>()
            }
        }
    }
}

/// Bytes of the counts that an `Arc` has before what it holds.
pub(super) const COUNTS: usize = 2 * size_of::<usize>();

/// A shard of the next `zones` of `entries`.
fn shard(zones: usize, entries: &mut vec::IntoIter<ZoneEntry>) -> Arc<[ShardSlot]> {
    let len = if zones == 0 { 0 } else { 2 * zones + 1 };
    let mut shard: Arc<[ShardSlot]> = (0..len).map(|_| None).collect();
    // Nothing else refers to it yet.
    if let Some(places) = Arc::get_mut(&mut shard) {
        for entry in entries.take(zones) {
            let mut at = home(entry.hash, len);
            while places[at].is_some() {
                at = beside(at, len);
            }
            places[at] = Some(entry);
        }
    }
    shard
}

#[inline]
fn find<'p>(places: &'p [ShardSlot], lower: LowerName<'_>, hash: NameHash) -> Option<(usize, &'p ZoneEntry)> {
    let mut at = home(hash, places.len());
    // Half the places are free, so this ends.
    loop {
        let place = places.get(at)?;
        prefetch::read(Part::Catalog, slice::from_ref(place));
        let entry = place.as_ref()?;
        if entry.hash == hash && entry.name() == lower {
            return Some((at, entry));
        }
        at = beside(at, places.len());
    }
}

/// What `steps`, which are sorted by the node that `turn` returns for each, make of `nodes` with `level`
/// pages above them; `None` if all stay as they are.
fn nodes_with<const N: usize>(
    nodes: &[TrieNode; N],
    steps: &[CatalogStep],
    turn: impl Fn(&CatalogStep) -> usize,
    level: u32,
    census: &mut Census,
) -> Option<[TrieNode; N]> {
    let mut new = None;
    for steps in steps.chunk_by(|a, b| turn(a) == turn(b)) {
        let Some(at) = steps.first().map(&turn) else { continue };
        if let Some(node) = nodes[at].with(steps, level, census) {
            new.get_or_insert_with(|| nodes.clone())[at] = node;
        }
    }
    new
}

/// The entries that `steps` make of those of a shard, in any order; `None` if they change nothing.
fn entries_with(places: &[ShardSlot], steps: &[CatalogStep], census: &mut Census) -> Option<Vec<ZoneEntry>> {
    let mut gone = vec![false; places.len()];
    let mut entries = Vec::with_capacity(steps.len());
    let mut same = true;
    for step in steps {
        let old = find(places, step.name(), step.hash);
        let Some(new) = step.result(old.map(|(_, entry)| entry)) else { continue };
        same = false;
        if let Some((at, entry)) = old {
            gone[at] = true;
            census.remove(entry);
        }
        if let Some(entry) = new {
            census.add(&entry);
            entries.push(entry);
        }
    }
    if same {
        return None;
    }
    let stay = places.iter().zip(gone).filter(|(_, gone)| !gone);
    entries.extend(stay.filter_map(|(place, _)| place.clone()));
    Some(entries)
}

fn entries(nodes: &[TrieNode]) -> Entries<'_> {
    Entries { nodes: vec![nodes.iter()], places: [].iter() }
}

/// The entries of some nodes and those below.
pub(super) struct Entries<'t> {
    /// The nodes still to come, page below page.
    nodes: Vec<slice::Iter<'t, TrieNode>>,
    places: slice::Iter<'t, ShardSlot>,
}

impl<'t> Iterator for Entries<'t> {
    type Item = &'t ZoneEntry;

    fn next(&mut self) -> Option<&'t ZoneEntry> {
        loop {
            if let Some(entry) = self.places.by_ref().flatten().next() {
                return Some(entry);
            }
            match self.nodes.last_mut()?.next() {
                Some(TrieNode::Shard(places)) => self.places = places.iter(),
                Some(TrieNode::Page(page)) => self.nodes.push(page.nodes.iter()),
                None => _ = self.nodes.pop(),
            }
        }
    }
}

/// Where the pages and shards of a trie lie, for tests that look at what two tries share.
#[cfg(test)]
impl Trie {
    pub(super) fn parts(&self) -> std::collections::BTreeSet<*const ()> {
        fn note(nodes: &[TrieNode], parts: &mut std::collections::BTreeSet<*const ()>) {
            for node in nodes {
                match node {
                    TrieNode::Shard(places) => _ = parts.insert(places.as_ptr().cast()),
                    TrieNode::Page(page) => {
                        parts.insert(Arc::as_ptr(page).cast());
                        note(&page.nodes, parts);
                    }
                }
            }
        }
        let mut parts = std::collections::BTreeSet::new();
        note(self.distinct(), &mut parts);
        parts
    }
}
