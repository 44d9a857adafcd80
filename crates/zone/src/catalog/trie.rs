//! The trie of a catalog: root, pages and shards, how an entry is found, and how the next trie is built.
//! [`super::change`] defines the changes.

use std::sync::Arc;
use std::{array, slice, vec};

use wire::{LowerName, NameHash};

use super::census::Census;
use super::change::CatalogStep;
use super::entry::ZoneEntry;
use crate::prefetch::{self, Part};

/// Nodes of the root, so many that tens of thousands of zones are below it without a page.
pub(super) const ROOT_NODES: usize = 1024;
/// Nodes of a page: few, so that the shards of a new page are not nearly empty.
const PAGE_NODES: usize = 32;
/// Most pages between root and shard. A shard below them grows without limit: then there are a hundred
/// million zones, or a key with colliding hashes.
const MAX_PAGE_LEVELS: u32 = 2;
/// Most zones of a shard that can be split.
pub(super) const MAX_SHARD_ZONES: usize = 128;
/// Zones of a page below which it becomes one shard: fewer than the limit of a shard, so that adding and
/// removing one zone does not split and join each time.
pub(super) const MIN_PAGE_ZONES: usize = MAX_SHARD_ZONES / 2;

/// The path to the shard of a hash: the node of the root and of each page, from the highest bits down.
pub(super) type Way = u32;

/// The bits of a path that root and pages use.
pub(super) const WAY_BITS: u32 = ROOT_NODES.ilog2() + MAX_PAGE_LEVELS * PAGE_NODES.ilog2();

/// Returns the path to the shard of `hash`: its low half, byte by byte from the lowest. Names that differ in
/// a few digits differ most evenly there. The high half selects the place in the shard.
#[inline]
pub(super) fn way(hash: NameHash) -> Way {
    (hash.bits() as Way).swap_bytes()
}

/// Returns the sort key of a hash for the trie: hashes with a common path or start of a path are adjacent.
pub(super) fn order(hash: NameHash) -> u64 {
    hash.bits().swap_bytes()
}

/// Returns which of `N` nodes a path selects.
#[inline]
fn turn<const N: usize>(way: Way) -> usize {
    (way >> (Way::BITS - N.ilog2())) as usize
}

/// Returns the rest of a path below a node of `N`.
#[inline]
fn rest<const N: usize>(way: Way) -> Way {
    way << N.ilog2()
}

/// Returns the selected node of a page that has `level` pages above it.
fn turn_at(level: u32, hash: NameHash) -> usize {
    turn::<PAGE_NODES>(rest::<ROOT_NODES>(way(hash)) << (level * PAGE_NODES.ilog2()))
}

/// A place in a shard; half of them are free.
type ShardSlot = Option<ZoneEntry>;

/// Returns the first place for a hash in a shard of this many places.
#[inline]
fn home(hash: NameHash, places: usize) -> usize {
    ((hash.bits() >> 32).wrapping_mul(places as u64) >> 32) as usize
}

/// Returns the place after `at`.
#[inline]
fn beside(at: usize, places: usize) -> usize {
    if at + 1 == places { 0 } else { at + 1 }
}

/// The trie: its root.
#[derive(Clone)]
pub(super) struct Trie {
    nodes: [TrieNode; ROOT_NODES],
    /// Whether all zones are in one shard: then every node is that one.
    alone: bool,
}

/// A part of the trie, shared by all tries that contain it.
#[derive(Clone)]
enum TrieNode {
    /// A hash table with linear probing.
    Shard(Arc<[ShardSlot]>),
    Page(Arc<Page>),
}

/// Finding a place reads these words alone: the address of the shard, and its number of places.
const _: () = assert!(size_of::<TrieNode>() == 16);

struct Page {
    nodes: [TrieNode; PAGE_NODES],
    /// Number of zones below.
    zones: usize,
}

impl Trie {
    /// Returns a trie of `entries`, in any order.
    pub(super) fn new(mut entries: Vec<ZoneEntry>) -> Trie {
        let alone = entries.len() <= MAX_SHARD_ZONES;
        if alone {
            let shard = TrieNode::new(entries, MAX_PAGE_LEVELS);
            return Trie { nodes: array::from_fn(|_| shard.clone()), alone };
        }
        entries.sort_unstable_by_key(|entry| order(entry.hash));
        let mut entries = entries.into_iter();
        let nodes = array::from_fn(|at| {
            let zones = entries.as_slice().partition_point(|entry| turn::<ROOT_NODES>(way(entry.hash)) <= at);
            TrieNode::of_next(zones, &mut entries, 0)
        });
        Trie { nodes, alone }
    }

    /// Returns the places of the shard at the end of a path.
    #[inline]
    fn places(&self, way: Way) -> &[ShardSlot] {
        let (mut node, mut way) = (&self.nodes[turn::<ROOT_NODES>(way)], rest::<ROOT_NODES>(way));
        loop {
            match node {
                TrieNode::Shard(places) => return places,
                TrieNode::Page(page) => node = &page.nodes[turn::<PAGE_NODES>(way)],
            }
            way = rest::<PAGE_NODES>(way);
        }
    }

    /// Returns the place in its shard of the entry with the name `lower`, and the entry.
    #[inline]
    pub(super) fn find(&self, lower: LowerName<'_>, hash: NameHash) -> Option<(usize, &ZoneEntry)> {
        find(self.places(way(hash)), lower, hash)
    }

    /// Returns the entry with the name `lower`. Not inlined, so that it does not affect how lookups are.
    #[cold]
    #[inline(never)]
    pub(super) fn entry(&self, lower: LowerName<'_>, hash: NameHash) -> Option<&ZoneEntry> {
        self.find(lower, hash).map(|(_, entry)| entry)
    }

    /// Returns the entry at a place that [`find`](Self::find) returned.
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

    /// Returns the trie after `steps`; `None` if they change nothing. The steps are sorted by [`order`], one
    /// for each name. Unchanged parts are shared.
    pub(super) fn with(&self, steps: &[CatalogStep], census: &mut Census) -> Option<Trie> {
        if let (true, TrieNode::Shard(places)) = (self.alone, &self.nodes[0]) {
            return entries_with(places, steps, census).map(Trie::new);
        }
        let turn = |step: &CatalogStep| turn::<ROOT_NODES>(way(step.hash));
        let nodes = nodes_with(&self.nodes, steps, turn, 0, census)?;
        if census.zones() <= MIN_PAGE_ZONES {
            return Some(Trie::new(entries(&nodes).cloned().collect()));
        }
        Some(Trie { nodes, alone: false })
    }

    /// Returns the trie of a view after `steps`, given that the trie of the zones outside views went from
    /// `before` to `after`, and that the steps have all that changed in it and that is not the view's own.
    /// What the view shared with `before` it shares with `after`. All three have more zones than one shard.
    pub(super) fn over(&self, before: &Trie, after: &Trie, steps: &[CatalogStep]) -> Trie {
        let turn = |step: &CatalogStep| turn::<ROOT_NODES>(way(step.hash));
        let nodes = followed(&self.nodes, &before.nodes, &after.nodes);
        // The steps about zones in shared parts change nothing there.
        let mut census = Census::of_differences();
        let nodes = nodes_with(&nodes, steps, turn, 0, &mut census).unwrap_or(nodes);
        Trie { nodes, alone: false }
    }

    /// Whether all zones are in one shard.
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Returns all entries.
    pub(super) fn entries(&self) -> Entries<'_> {
        entries(self.distinct())
    }

    /// Returns the bytes of memory of pages and shards.
    pub(super) fn memory(&self) -> usize {
        self.distinct().iter().map(TrieNode::memory).sum()
    }

    /// Returns the bytes of memory of pages and shards that `other` does not share, and of the zones of a
    /// view in them.
    pub(super) fn memory_beside(&self, other: &Trie) -> usize {
        let pairs = self.distinct().iter().zip(&other.nodes);
        pairs.map(|(own, other)| own.memory_beside(other)).sum()
    }

    /// Returns the nodes, each once.
    fn distinct(&self) -> &[TrieNode] {
        if self.alone { slice::from_ref(&self.nodes[0]) } else { &self.nodes }
    }
}

impl TrieNode {
    /// Returns a node with `level` pages above it, of `entries` in any order.
    fn new(mut entries: Vec<ZoneEntry>, level: u32) -> TrieNode {
        let zones = entries.len();
        if zones > MAX_SHARD_ZONES {
            entries.sort_unstable_by_key(|entry| order(entry.hash));
        }
        TrieNode::of_next(zones, &mut entries.into_iter(), level)
    }

    /// Returns a node with `level` pages above it, of the next `zones` of `entries`. If they are more than a
    /// shard holds, they are sorted by [`order`].
    fn of_next(zones: usize, entries: &mut vec::IntoIter<ZoneEntry>, level: u32) -> TrieNode {
        if zones <= MAX_SHARD_ZONES || level == MAX_PAGE_LEVELS {
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

    /// Returns this node after `steps`, which all lead to it; it has `level` pages above it. `None` if it is
    /// unchanged.
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
        if zones <= MIN_PAGE_ZONES {
            return Some(TrieNode::new(entries(&nodes).cloned().collect(), level));
        }
        Some(TrieNode::Page(Arc::new(Page { nodes, zones })))
    }

    /// Whether both are the same part in memory.
    fn is(&self, other: &TrieNode) -> bool {
        match (self, other) {
            (TrieNode::Shard(one), TrieNode::Shard(other)) => Arc::ptr_eq(one, other),
            (TrieNode::Page(one), TrieNode::Page(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns the node of a view, with `after` for each part that is shared with `before`.
    fn followed(&self, before: &TrieNode, after: &TrieNode) -> TrieNode {
        match (self, before, after) {
            _ if self.is(before) => after.clone(),
            _ if before.is(after) => self.clone(),
            (TrieNode::Page(page), TrieNode::Page(before), TrieNode::Page(after)) => {
                let nodes = followed(&page.nodes, &before.nodes, &after.nodes);
                let zones = nodes.iter().map(TrieNode::zones).sum();
                TrieNode::Page(Arc::new(Page { nodes, zones }))
            }
            _ => self.clone(),
        }
    }

    /// Number of zones at or below the node.
    fn zones(&self) -> usize {
        match self {
            // See `shard`: half of the places are free.
            TrieNode::Shard(places) => places.len() / 2,
            TrieNode::Page(page) => page.zones,
        }
    }

    /// Returns the bytes of memory of this node and those below that `other` does not share, and of the zones
    /// of a view in them.
    fn memory_beside(&self, other: &TrieNode) -> usize {
        match (self, other) {
            (TrieNode::Shard(own), TrieNode::Shard(other)) if Arc::ptr_eq(own, other) => 0,
            (TrieNode::Page(own), TrieNode::Page(other)) if Arc::ptr_eq(own, other) => 0,
            (TrieNode::Page(own), TrieNode::Page(other)) => {
                let pairs = own.nodes.iter().zip(&other.nodes);
                COUNTS + size_of::<Page>() + pairs.map(|(own, other)| own.memory_beside(other)).sum::<usize>()
            }
            _ => {
                let of_view = entries(slice::from_ref(self)).filter(|entry| entry.is_in_view());
                self.memory() + of_view.map(ZoneEntry::memory).sum::<usize>()
            }
        }
    }

    /// Returns the bytes of memory of this node and those below.
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

/// Bytes of the reference counts in an `Arc`, before its content.
pub(super) const COUNTS: usize = 2 * size_of::<usize>();

/// Returns a shard of the next `zones` of `entries`.
fn shard(zones: usize, entries: &mut vec::IntoIter<ZoneEntry>) -> Arc<[ShardSlot]> {
    let len = if zones == 0 { 0 } else { 2 * zones + 1 };
    let mut shard: Arc<[ShardSlot]> = (0..len).map(|_| None).collect();
    // No other reference to it exists yet.
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

/// Returns `nodes` after `steps`, which are sorted by the node that `turn` returns for each; the nodes have
/// `level` pages above them. `None` if all are unchanged.
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

/// Returns the nodes of a view, with those of `after` where they are shared with `before`.
fn followed<const N: usize>(
    nodes: &[TrieNode; N],
    before: &[TrieNode; N],
    after: &[TrieNode; N],
) -> [TrieNode; N] {
    array::from_fn(|at| nodes[at].followed(&before[at], &after[at]))
}

/// Returns the entries of a shard after `steps`, in any order; `None` if they change nothing.
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
    /// The nodes still to come, one iterator per level.
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

/// Addresses of the pages and shards of a trie, for tests of what two tries share.
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
