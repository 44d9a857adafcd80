//! A persistent ordered set: clones share all pages, and a change copies the pages on the path to its entry.
//!
//! It is a B+ tree. Each entry has a key of eight bytes and a value of four. The caller of a search passes
//! the order, because the order of entries with equal keys may depend on the nodes that their values refer
//! to.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::slice;
use std::sync::Arc;

/// Maximum entries per page; a page with more is split.
const MAX_PAGE_ENTRIES: usize = 32;
/// A page with fewer entries is merged with a neighbour, if the entries of both fit into one page.
const MIN_PAGE_ENTRIES: usize = MAX_PAGE_ENTRIES / 4;

/// An entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The first sort key.
    pub(super) key: u64,
    /// The value of the key, for example a slot.
    pub(super) value: u32,
}

/// Compares an entry with `key` by its key alone.
pub(super) fn by_key(key: u64) -> impl Fn(Entry) -> Ordering {
    move |entry| entry.key.cmp(&key)
}

/// A persistent ordered set of entries.
#[derive(Clone, Default)]
pub(super) struct Tree {
    root: Option<Arc<Page>>,
    len: usize,
}

/// A page: entries, or child pages with the first entry of each.
enum Page {
    Leaf(Vec<Entry>),
    Inner(Vec<(Entry, Arc<Page>)>),
}

impl Clone for Page {
    /// Returns a copy with capacity for one more entry: pages are copied in order to change them.
    fn clone(&self) -> Page {
        fn roomy<T: Clone>(items: &[T]) -> Vec<T> {
            let mut copy = Vec::with_capacity(MAX_PAGE_ENTRIES + 1);
            copy.extend_from_slice(items);
            copy
        }
        match self {
            Page::Leaf(entries) => Page::Leaf(roomy(entries)),
            Page::Inner(pages) => Page::Inner(roomy(pages)),
        }
    }
}

impl Tree {
    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The last entry that is not above the wanted one; `order` compares an entry with the wanted one.
    pub(super) fn floor(&self, order: impl Fn(Entry) -> Ordering) -> Option<Entry> {
        let mut page = self.root.as_deref()?;
        loop {
            match page {
                Page::Leaf(entries) => {
                    let after = entries.partition_point(|entry| order(*entry).is_le());
                    return after.checked_sub(1).map(|at| entries[at]);
                }
                Page::Inner(pages) => {
                    let after = pages.partition_point(|(first, _)| order(*first).is_le());
                    page = &pages[after.checked_sub(1)?].1;
                }
            }
        }
    }

    /// The wanted entry.
    pub(super) fn get(&self, order: impl Fn(Entry) -> Ordering) -> Option<Entry> {
        self.floor(&order).filter(|entry| order(*entry).is_eq())
    }

    /// The first entry above the wanted one.
    pub(super) fn above(&self, order: impl Fn(Entry) -> Ordering) -> Option<Entry> {
        let (mut page, mut next) = (self.root.as_deref()?, None);
        loop {
            match page {
                Page::Leaf(entries) => {
                    let after = entries.partition_point(|entry| order(*entry).is_le());
                    return entries.get(after).copied().or(next);
                }
                Page::Inner(pages) => {
                    let after = pages.partition_point(|(first, _)| order(*first).is_le());
                    next = pages.get(after).map(|(first, _)| *first).or(next);
                    match after.checked_sub(1) {
                        Some(at) => page = &pages[at].1,
                        None => return next,
                    }
                }
            }
        }
    }

    /// Inserts an entry, replacing the one that `order` finds equal.
    pub(super) fn insert(&mut self, entry: Entry, order: impl Fn(Entry) -> Ordering) {
        self.len += usize::from(self.get(&order).is_none());
        let Some(root) = &mut self.root else {
            self.root = Some(Arc::new(Page::Leaf(vec![entry])));
            return;
        };
        if let Some(more) = Page::insert(root, entry, &order) {
            let pages = [Arc::clone(root), more].map(|page| (page.first(), page));
            let pages = pages.into_iter().filter_map(|(first, page)| Some((first?, page)));
            self.root = Some(Arc::new(Page::Inner(pages.collect())));
        }
    }

    /// Removes the entry that `order` finds equal; `false` if there is none.
    pub(super) fn remove(&mut self, order: impl Fn(Entry) -> Ordering) -> bool {
        if self.get(&order).is_none() {
            return false;
        }
        let Some(root) = &mut self.root else { return false };
        Page::remove(root, &order);
        self.len -= 1;
        match &**root {
            Page::Leaf(entries) if entries.is_empty() => self.root = None,
            Page::Inner(pages) if pages.len() == 1 => self.root = Some(Arc::clone(&pages[0].1)),
            _ => {}
        }
        true
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> Entries<'_> {
        let mut entries = Entries { leaf: [].iter(), above: Vec::new() };
        self.root.iter().for_each(|root| entries.enter(root));
        entries
    }

    /// The entries in order, from the wanted one or the first above it on.
    pub(super) fn iter_from(&self, order: impl Fn(Entry) -> Ordering) -> Entries<'_> {
        let mut entries = Entries { leaf: [].iter(), above: Vec::new() };
        let mut page = self.root.as_deref();
        while let Some(here) = page {
            page = match here {
                Page::Leaf(leaf) => {
                    entries.leaf = leaf[leaf.partition_point(|entry| order(*entry).is_lt())..].iter();
                    None
                }
                Page::Inner(pages) => {
                    let at = pages.partition_point(|(first, _)| order(*first).is_le()).saturating_sub(1);
                    let mut rest = pages[at..].iter();
                    let child = rest.next().map(|(_, page)| &**page);
                    entries.above.push(rest);
                    child
                }
            };
        }
        entries
    }

    /// Calls `each` with the entries of this tree in pages that `other` does not share: those that only this
    /// one has, and others beside them.
    pub(super) fn beyond(&self, other: &Tree, each: &mut impl FnMut(Entry)) {
        let mut shared = HashSet::new();
        other.root.iter().for_each(|root| Page::list(root, &mut shared));
        self.root.iter().for_each(|root| Page::beyond(root, &shared, each));
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.root.as_deref().map_or(0, Page::memory)
    }
}

impl Page {
    fn first(&self) -> Option<Entry> {
        match self {
            Page::Leaf(entries) => entries.first().copied(),
            Page::Inner(pages) => pages.first().map(|(first, _)| *first),
        }
    }

    fn len(&self) -> usize {
        match self {
            Page::Leaf(entries) => entries.len(),
            Page::Inner(pages) => pages.len(),
        }
    }

    /// Inserts an entry. Returns the page that was split off, if this one became too long.
    fn insert(page: &mut Arc<Page>, entry: Entry, order: &impl Fn(Entry) -> Ordering) -> Option<Arc<Page>> {
        match Arc::make_mut(page) {
            Page::Leaf(entries) => {
                let at = entries.partition_point(|other| order(*other).is_lt());
                match entries.get_mut(at).filter(|other| order(**other).is_eq()) {
                    Some(same) => *same = entry,
                    None => entries.insert(at, entry),
                }
                (entries.len() > MAX_PAGE_ENTRIES)
                    .then(|| Arc::new(Page::Leaf(entries.split_off(MAX_PAGE_ENTRIES / 2))))
            }
            Page::Inner(pages) => {
                let at = pages.partition_point(|(first, _)| order(*first).is_le()).saturating_sub(1);
                let (first, child) = &mut pages[at];
                let more = Page::insert(child, entry, order);
                *first = child.first().unwrap_or(entry);
                if let Some((first, more)) = more.and_then(|more| Some((more.first()?, more))) {
                    pages.insert(at + 1, (first, more));
                }
                (pages.len() > MAX_PAGE_ENTRIES)
                    .then(|| Arc::new(Page::Inner(pages.split_off(MAX_PAGE_ENTRIES / 2))))
            }
        }
    }

    /// Removes the entry that `order` finds equal, which must exist.
    fn remove(page: &mut Arc<Page>, order: &impl Fn(Entry) -> Ordering) {
        match Arc::make_mut(page) {
            Page::Leaf(entries) => entries.retain(|entry| order(*entry).is_ne()),
            Page::Inner(pages) => {
                let at = pages.partition_point(|(first, _)| order(*first).is_le()).saturating_sub(1);
                let (first, child) = &mut pages[at];
                Page::remove(child, order);
                match child.first() {
                    Some(entry) => *first = entry,
                    None => {
                        pages.remove(at);
                        return;
                    }
                }
                if child.len() < MIN_PAGE_ENTRIES && pages.len() > 1 {
                    Page::join(pages, at.min(pages.len() - 2));
                }
            }
        }
    }

    /// Merges the pages `at` and `at + 1`, if their entries fit into one.
    fn join(pages: &mut Vec<(Entry, Arc<Page>)>, at: usize) {
        if pages[at].1.len() + pages[at + 1].1.len() > MAX_PAGE_ENTRIES {
            return;
        }
        let (_, right) = pages.remove(at + 1);
        match (Arc::make_mut(&mut pages[at].1), &*right) {
            (Page::Leaf(left), Page::Leaf(right)) => left.extend_from_slice(right),
            (Page::Inner(left), Page::Inner(right)) => left.extend_from_slice(right),
            // All pages of one level are of one kind.
            _ => {}
        }
    }

    /// Adds a page and all pages below it.
    fn list(page: &Arc<Page>, to: &mut HashSet<*const Page>) {
        to.insert(Arc::as_ptr(page));
        if let Page::Inner(pages) = &**page {
            pages.iter().for_each(|(_, page)| Page::list(page, to));
        }
    }

    /// Calls `each` with the entries in pages that are not `shared`.
    fn beyond(page: &Arc<Page>, shared: &HashSet<*const Page>, each: &mut impl FnMut(Entry)) {
        match &**page {
            _ if shared.contains(&Arc::as_ptr(page)) => {}
            Page::Leaf(entries) => entries.iter().for_each(|entry| each(*entry)),
            Page::Inner(pages) => pages.iter().for_each(|(_, page)| Page::beyond(page, shared, each)),
        }
    }

    fn memory(&self) -> usize {
        size_of::<Page>()
            + match self {
                Page::Leaf(entries) => entries.capacity() * size_of::<Entry>(),
                Page::Inner(pages) => {
                    let below = pages.iter().map(|(_, page)| page.memory()).sum::<usize>();
                    below + pages.capacity() * size_of::<(Entry, Arc<Page>)>()
                }
            }
    }
}

/// The entries of a tree in order.
#[derive(Clone)]
pub(super) struct Entries<'t> {
    leaf: slice::Iter<'t, Entry>,
    above: Vec<slice::Iter<'t, (Entry, Arc<Page>)>>,
}

impl<'t> Entries<'t> {
    fn enter(&mut self, page: &'t Page) {
        match page {
            Page::Leaf(entries) => self.leaf = entries.iter(),
            Page::Inner(pages) => self.above.push(pages.iter()),
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;
    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.leaf.next() {
                return Some(*entry);
            }
            match self.above.last_mut()?.next() {
                Some((_, page)) => self.enter(page),
                None => {
                    self.above.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn whole(wanted: Entry) -> impl Fn(Entry) -> Ordering {
        move |entry| (entry.key, entry.value).cmp(&(wanted.key, wanted.value))
    }

    proptest! {
        /// Keys are few, so that many are equal and the order decides by the value.
        #[test]
        fn a_tree_holds_what_a_set_holds_and_its_clones_stay(
            steps in prop::collection::vec((0u64..40, 0u32..60, 0u8..5), 0..1500),
            asked in prop::collection::vec((0u64..41, 0u32..61), 20),
        ) {
            let (mut tree, mut set) = (Tree::default(), BTreeSet::new());
            let mut kept = Vec::new();
            for (i, (key, value, what)) in steps.into_iter().enumerate() {
                let entry = Entry { key, value };
                // At first there are more insertions than removals, later the other way round.
                if usize::from(what) >= i / 300 {
                    tree.insert(entry, whole(entry));
                    set.insert((key, value));
                } else {
                    prop_assert_eq!(tree.remove(whole(entry)), set.remove(&(key, value)));
                }
                if i % 250 == 0 {
                    kept.push((tree.clone(), set.clone()));
                }
            }
            kept.push((tree, set));
            for (tree, set) in kept {
                let all: Vec<_> = tree.iter().map(|entry| (entry.key, entry.value)).collect();
                prop_assert_eq!(&all, &set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(tree.len(), set.len());
                for &(key, value) in &asked {
                    let order = || whole(Entry { key, value });
                    let plain = |entry: Option<Entry>| entry.map(|entry| (entry.key, entry.value));
                    prop_assert_eq!(plain(tree.get(order())), set.get(&(key, value)).copied());
                    let floor = set.range(..=(key, value)).next_back().copied();
                    prop_assert_eq!(plain(tree.floor(order())), floor);
                    let above = set.range((key, value + 1)..).next().copied();
                    prop_assert_eq!(plain(tree.above(order())), above);
                    let from: Vec<_> = tree.iter_from(order()).map(|entry| (entry.key, entry.value)).collect();
                    prop_assert_eq!(from, set.range((key, value)..).copied().collect::<Vec<_>>());
                }
            }
        }
    }
}
