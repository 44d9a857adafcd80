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

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        // Each page has a parent, except the root; each blob has two counters in front.
        let pages = (self.len as usize).div_ceil(PAGE_SLOTS) * 33 / 32 + 1;
        let counters = 2 * size_of::<usize>();
        let slots = self.len as usize * size_of::<Slot>();
        self.bytes + slots + self.used as usize * counters + pages * (size_of::<Page>() + counters)
    }
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
