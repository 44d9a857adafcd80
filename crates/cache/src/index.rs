//! The index of a shard: the positions of entries.
//!
//! A bucket is a cache line of eight slots. Each hash has two adjacent buckets, which are fetched together.
//! All entries of a name in a view share them, so that one probe finds the answer for the type, the NXDOMAIN
//! for all types, and the failure.

use crate::atomic::{AtomicU64, Ordering};
use crate::lines::{LINE, Lines, Start, WORDS};
use crate::log::{POSITION_BITS, Position};

/// Slots in a pair of buckets.
pub(crate) const PAIR_SLOTS: usize = 2 * WORDS;

/// Content of a slot: position, use count and hash tag of an entry. 0 is empty.
///
/// ```text
/// 63        50  49    48 47      46      45       0
/// [ tag 14   ][log][ uses 2 ][announced][ position ]
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

/// A log of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The log for new entries.
    Small,
    /// The log for entries that were used again.
    Main,
}

const ANNOUNCED: u64 = 1 << POSITION_BITS;
const USE: u64 = ANNOUNCED << 1;
const USES: u64 = 3 * USE;
const MAIN: u64 = USE << 2;
const TAG_AT: u32 = POSITION_BITS + 4;

impl Slot {
    /// No entry.
    pub(crate) const EMPTY: Slot = Slot(0);

    /// The highest use count.
    pub(crate) const MOST_USES: u64 = 3;

    /// The slot of an entry with this [`full_hash`](crate::key::Subject::full_hash).
    pub(crate) fn new(full_hash: u64, which: Which, at: Position, uses: u64) -> Slot {
        let main = if which == Which::Main { MAIN } else { 0 };
        let uses = USE * uses.min(Self::MOST_USES);
        Slot(full_hash >> TAG_AT << TAG_AT | main | uses | at.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    #[inline]
    pub(crate) fn at(self) -> Position {
        Position(self.0 & (ANNOUNCED - 1))
    }

    #[inline]
    pub(crate) fn which(self) -> Which {
        if self.0 & MAIN != 0 { Which::Main } else { Which::Small }
    }

    /// Reads since it was inserted or moved to `main`, 3 at most, less one for each time it was spared there.
    #[inline]
    pub(crate) fn uses(self) -> u64 {
        (self.0 & USES) / USE
    }

    /// Whether a caller was already requested to prefetch it.
    #[inline]
    pub(crate) fn is_announced(self) -> bool {
        self.0 & ANNOUNCED != 0
    }

    /// Whether the tag matches this [`full_hash`](crate::key::Subject::full_hash).
    #[inline]
    pub(crate) fn may_be(self, full_hash: u64) -> bool {
        (self.0 ^ full_hash) >> TAG_AT == 0
    }

    /// The slot with one more use.
    #[inline]
    pub(crate) fn used(self) -> Slot {
        if self.uses() < Self::MOST_USES { Slot(self.0 + USE) } else { self }
    }

    /// The slot after a prefetch was requested.
    #[inline]
    pub(crate) fn announced(self) -> Slot {
        Slot(self.0 | ANNOUNCED)
    }

    /// The slot after the entry moved.
    pub(crate) fn moved(self, which: Which, at: Position, uses: u64) -> Slot {
        let kept = self.0 >> TAG_AT << TAG_AT | self.0 & ANNOUNCED;
        Slot(kept | Slot::new(0, which, at, uses).0)
    }
}

/// The slots of a shard, in a part of its lines. The lines are passed to each function.
pub(crate) struct Index {
    start: Start,
    pairs: usize,
}

impl Index {
    /// Lines and bytes of a pair of buckets.
    pub(crate) const PAIR_LINES: usize = 2;
    pub(crate) const PAIR_BYTES: usize = Self::PAIR_LINES * LINE;

    /// An index of `pairs` pairs of buckets from `start` on.
    pub(crate) fn new(start: Start, pairs: usize) -> Self {
        Index { start, pairs }
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.pairs * PAIR_SLOTS
    }

    /// Returns the first slot of the pair for this hash, and the value that is XORed to slot numbers, so that
    /// the preferred bucket comes first. The highest bits of the hash are not used: they select the shard.
    #[inline]
    fn pair(&self, hash: u64) -> (usize, usize) {
        let pair = ((hash & 0xffff_ffff) * self.pairs as u64) >> 32;
        (pair as usize * PAIR_SLOTS, (hash >> 32) as usize & WORDS)
    }

    /// Returns the slot numbers for this hash, in probe order.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = usize> {
        let (first, turn) = self.pair(hash);
        (0..PAIR_SLOTS).map(move |i| first + (i ^ turn))
    }

    #[inline]
    fn word<'l>(&self, lines: &'l Lines, slot: usize) -> Option<&'l AtomicU64> {
        lines.from(self.start, 0).get(slot)
    }

    /// Loads a slot: step R1 of [`log`](crate::log).
    #[inline]
    pub(crate) fn load(&self, lines: &Lines, slot: usize) -> Slot {
        Slot(self.word(lines, slot).map_or(0, |word| word.load(Ordering::Acquire)))
    }

    /// Stores a slot: step W4 of [`log`](crate::log).
    pub(crate) fn store(&self, lines: &Lines, slot: usize, content: Slot) {
        if let Some(word) = self.word(lines, slot) {
            word.store(content.0, Ordering::Release);
        }
    }

    /// Replaces `from` by `to`, and returns whether the slot held `from`.
    #[inline]
    pub(crate) fn exchange(&self, lines: &Lines, slot: usize, from: Slot, to: Slot) -> bool {
        // Relaxed suffices: it publishes nothing new, and an exchange continues a release sequence.
        let done = |word: &AtomicU64| {
            word.compare_exchange(from.0, to.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        self.word(lines, slot).is_some_and(done)
    }

    /// Prefetches both buckets for this hash.
    #[inline]
    pub(crate) fn prefetch(&self, lines: &Lines, hash: u64) {
        let (first, _) = self.pair(hash);
        let line = first / WORDS;
        lines.prefetch(self.start, line);
        lines.prefetch(self.start, line + 1);
    }

    /// Returns the nonempty slots for this hash: step R1 of [`log`](crate::log) for each.
    #[inline]
    pub(crate) fn held<'l>(
        &self,
        lines: &'l Lines,
        hash: u64,
    ) -> impl Iterator<Item = (usize, Slot)> + use<'l> {
        let (first, turn) = self.pair(hash);
        let words = lines.from(self.start, first / WORDS).first_chunk::<PAIR_SLOTS>();
        (0..PAIR_SLOTS).filter_map(move |i| {
            let slot = (i ^ turn) % PAIR_SLOTS;
            let held = Slot(words?[slot].load(Ordering::Acquire));
            (!held.is_empty()).then_some((first + slot, held))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_what_was_put_in() {
        let full_hash = 0xdead_beef_0123_4567;
        let at = Position((1 << POSITION_BITS) - 1);
        for (which, uses) in [(Which::Small, 0), (Which::Main, 3), (Which::Small, 2)] {
            let slot = Slot::new(full_hash, which, at, uses);
            assert_eq!((slot.which(), slot.uses(), slot.at()), (which, uses, at));
            assert!(slot.may_be(full_hash) && !slot.may_be(!full_hash) && !slot.is_announced());
            let read = slot.used().announced();
            assert_eq!((read.uses(), read.at(), read.which()), ((uses + 1).min(3), at, which));
            let moved = read.moved(Which::Main, Position(7), 1);
            assert_eq!((moved.uses(), moved.at(), moved.which()), (1, Position(7), Which::Main));
            assert!(moved.is_announced() && moved.may_be(full_hash));
        }
    }

    #[test]
    fn both_buckets_of_a_hash_are_neighbours_in_the_index() {
        let index = Index::new(Lines::new(1).first(), 5);
        for hash in (0..1000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let slots: Vec<usize> = index.candidates(hash).collect();
            let mut sorted = slots.clone();
            sorted.sort_unstable();
            let first = sorted[0];
            assert_eq!(sorted, (first..first + PAIR_SLOTS).collect::<Vec<_>>());
            assert_eq!(first % PAIR_SLOTS, 0);
            assert!(first < index.slots());
            assert!(slots[0].is_multiple_of(WORDS), "a search begins at the start of a bucket");
        }
    }
}
