//! The blobs of changed nodes: a persistent vector of slots with one blob each.
//!
//! Clones share all pages; a change copies the pages on the path to its slot. A node keeps its slot while it
//! exists, even if its blob changes. A free slot is reused for the next node that needs one.

use std::sync::Arc;

/// Slots per page, and pages per page of a higher level.
const PAGE_SLOTS: usize = 1 << BITS;
const BITS: u32 = 5;
/// Maximum slots: the number of addresses of one chunk, minus the last address, which means no node.
pub(super) const MAX_SLOTS: u32 = (1 << super::super::arena::CHUNK_BITS) - 1;
/// The end of the list of free slots.
const END: u32 = u32::MAX;

/// The slots.
#[derive(Clone)]
pub(super) struct Slots {
    root: Arc<Page>,
    /// Number of page levels above the pages with slots.
    height: u32,
    /// Number of slots ever used.
    len: u32,
    /// The first slot in the list of free ones.
    free: u32,
    used: u32,
    /// Bytes of all blobs.
    bytes: usize,
}

#[derive(Clone)]
enum Page {
    Slots(Vec<Slot>),
    Pages(Vec<Arc<Page>>),
}

#[derive(Clone)]
enum Slot {
    Node(Arc<[u8]>),
    /// Free, with the next slot in the list.
    Free(u32),
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots { root: Arc::new(Page::Slots(Vec::new())), height: 0, len: 0, free: END, used: 0, bytes: 0 }
    }

    /// Number of slots ever used.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Number of blobs.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Bytes of all blobs.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The blob in a slot; empty if the slot is free.
    pub(super) fn get(&self, slot: u32) -> &[u8] {
        let (mut page, mut shift) = (&*self.root, self.height * BITS);
        loop {
            match page {
                Page::Pages(pages) => page = &pages[(slot >> shift) as usize % PAGE_SLOTS],
                Page::Slots(slots) => {
                    return match &slots[slot as usize % PAGE_SLOTS] {
                        Slot::Node(blob) => blob,
                        Slot::Free(_) => &[],
                    };
                }
            }
            shift -= BITS;
        }
    }

    /// Stores a blob in a free slot. Returns `None` if all slots are in use.
    pub(super) fn add(&mut self, blob: &[u8]) -> Option<u32> {
        let slot = match self.free {
            END if self.len == MAX_SLOTS => return None,
            END => {
                self.grow();
                self.len += 1;
                self.len - 1
            }
            free => free,
        };
        let next = match self.slot(slot) {
            Slot::Free(next) => *next,
            Slot::Node(_) => END,
        };
        self.free = next;
        self.used += 1;
        self.set(slot, blob);
        Some(slot)
    }

    /// Replaces the blob in a slot in use.
    pub(super) fn set(&mut self, slot: u32, blob: &[u8]) {
        self.bytes = self.bytes + blob.len() - self.get(slot).len();
        *self.slot(slot) = Slot::Node(blob.into());
    }

    /// Frees a slot in use.
    pub(super) fn remove(&mut self, slot: u32) {
        self.bytes -= self.get(slot).len();
        *self.slot(slot) = Slot::Free(self.free);
        self.free = slot;
        self.used -= 1;
    }

    /// Appends a free slot that is in no list.
    fn grow(&mut self) {
        if self.len as usize == PAGE_SLOTS << (self.height * BITS) {
            self.root = Arc::new(Page::Pages(vec![Arc::clone(&self.root)]));
            self.height += 1;
        }
        let (len, mut shift) = (self.len, self.height * BITS);
        let mut page = Arc::make_mut(&mut self.root);
        loop {
            match page {
                Page::Slots(slots) => return slots.push(Slot::Free(END)),
                Page::Pages(pages) => {
                    let at = (len >> shift) as usize % PAGE_SLOTS;
                    if at == pages.len() {
                        let leaf = shift == BITS;
                        pages.push(Arc::new(if leaf {
                            Page::Slots(Vec::new())
                        } else {
                            Page::Pages(Vec::new())
                        }));
                    }
                    page = Arc::make_mut(&mut pages[at]);
                }
            }
            shift -= BITS;
        }
    }

    fn slot(&mut self, slot: u32) -> &mut Slot {
        let mut shift = self.height * BITS;
        let mut page = Arc::make_mut(&mut self.root);
        loop {
            match page {
                Page::Slots(slots) => return &mut slots[slot as usize % PAGE_SLOTS],
                Page::Pages(pages) => page = Arc::make_mut(&mut pages[(slot >> shift) as usize % PAGE_SLOTS]),
            }
            shift -= BITS;
        }
    }

    /// Calls `each` with the blobs of every slot that holds another blob in `other`, until it returns
    /// `false`. Returns whether it never did. Pages that both share are skipped.
    pub(super) fn differences(&self, other: &Slots, each: &mut impl FnMut(&[u8]) -> bool) -> bool {
        differences(Some(Level(&self.root, self.height)), Some(Level(&other.root, other.height)), each)
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        // Each page has a parent, except the root; each blob has two counters in front.
        let pages = (self.len as usize).div_ceil(PAGE_SLOTS) * 33 / 32 + 1;
        let counters = 2 * size_of::<usize>();
        let slots = self.len as usize * size_of::<Slot>();
        self.bytes + slots + self.used as usize * counters + pages * (size_of::<Page>() + counters)
    }
}

/// A page, and the number of page levels below it.
#[derive(Clone, Copy)]
struct Level<'p>(&'p Arc<Page>, u32);

impl<'p> Level<'p> {
    /// Returns page `at` of those that are below a page of height `height`. The slots of a vector that is
    /// lower are the first of such a page.
    fn below(self, height: u32, at: usize) -> Option<Level<'p>> {
        match &**self.0 {
            Page::Pages(pages) if self.1 == height => pages.get(at).map(|page| Level(page, height - 1)),
            _ => (at == 0).then_some(self),
        }
    }

    fn slots(self) -> &'p [Slot] {
        match &**self.0 {
            Page::Slots(slots) => slots,
            Page::Pages(_) => &[],
        }
    }
}

/// Compares the pages that have the same slots of two vectors; see [`Slots::differences`].
fn differences(a: Option<Level<'_>>, b: Option<Level<'_>>, each: &mut impl FnMut(&[u8]) -> bool) -> bool {
    match (a, b) {
        (None, None) => return true,
        (Some(a), Some(b)) if Arc::ptr_eq(a.0, b.0) => return true,
        _ => {}
    }
    let height = [a, b].into_iter().flatten().map(|level| level.1).max().unwrap_or_default();
    if height > 0 {
        return (0..PAGE_SLOTS).all(|at| {
            let [a, b] = [a, b].map(|level| level.and_then(|level| level.below(height, at)));
            differences(a, b, each)
        });
    }
    let [a, b] = [a, b].map(|level| level.map_or(&[][..], Level::slots));
    (0..a.len().max(b.len())).all(|at| {
        let blob = |slots: &'_ [Slot]| match slots.get(at) {
            Some(Slot::Node(blob)) => Some(Arc::clone(blob)),
            _ => None,
        };
        let [a, b] = [blob(a), blob(b)];
        let is_same = match (&a, &b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        is_same || a.iter().chain(&b).all(|blob| each(blob))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_hold_what_was_put_in_and_clones_stay(
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0u8..6, any::<u8>()), 0..2500),
        ) {
            let (mut slots, mut plain) = (Slots::new(), Vec::<Option<Vec<u8>>>::new());
            let mut kept = Vec::new();
            for (i, (index, what, byte)) in steps.into_iter().enumerate() {
                let blob = vec![byte; 8 + usize::from(byte % 3)];
                let there: Vec<usize> = (0..plain.len()).filter(|at| plain[*at].is_some()).collect();
                let chosen = (!there.is_empty()).then(|| there[index.index(there.len())]);
                match (what, chosen) {
                    (0, Some(slot)) => {
                        slots.remove(slot as u32);
                        plain[slot] = None;
                    }
                    (1, Some(slot)) => {
                        slots.set(slot as u32, &blob);
                        plain[slot] = Some(blob);
                    }
                    _ => {
                        let slot = slots.add(&blob).expect("room") as usize;
                        prop_assert!(plain.get(slot).is_none_or(Option::is_none));
                        prop_assert!(slot <= plain.len(), "free slots are used first");
                        plain.resize(plain.len().max(slot + 1), None);
                        plain[slot] = Some(blob);
                    }
                }
                if i % 400 == 0 {
                    kept.push((slots.clone(), plain.clone()));
                }
            }
            kept.push((slots, plain));
            for ((old, was), (new, is)) in kept.iter().zip(kept.iter().skip(1)).chain([(&kept[0], &kept[kept.len() - 1])]) {
                let (mut found, mut wanted) = (Vec::new(), Vec::new());
                let is_all = old.differences(new, &mut |blob| {
                    found.push(blob.to_vec());
                    true
                });
                prop_assert!(is_all);
                for at in 0..was.len().max(is.len()) {
                    let [was, is] = [was, is].map(|plain| plain.get(at).cloned().flatten());
                    if was != is {
                        wanted.extend(was.into_iter().chain(is));
                    }
                }
                // A slot may have got equal bytes again.
                prop_assert!(wanted.iter().all(|blob| found.contains(blob)));
                let mut some = 0;
                let is_all = old.differences(new, &mut |_| {
                    some += 1;
                    some <= found.len() / 2
                });
                prop_assert_eq!(is_all, found.is_empty());
            }
            prop_assert!(kept[0].0.differences(&kept[0].0.clone(), &mut |_| false));
            for (slots, plain) in kept {
                let blobs = plain.iter().flatten();
                prop_assert_eq!(slots.used() as usize, blobs.clone().count());
                prop_assert_eq!(slots.bytes, blobs.map(Vec::len).sum::<usize>());
                for (slot, blob) in plain.iter().enumerate() {
                    prop_assert_eq!(slots.get(slot as u32), blob.as_deref().unwrap_or_default());
                }
            }
        }
    }
}
