//! What was dropped before anybody asked for it again.

use crate::index::PAIR_SLOTS;

/// Fingerprints in a set, the newest first.
const SET: usize = 8;

/// Fingerprints of entries that were dropped, as many as the index has slots. They are distinguished by 16
/// bits beside their set; one of ten thousand that come in is taken for one that was here before, and does no
/// harm.
pub(crate) struct Ghost {
    sets: Box<[[u16; SET]]>,
}

impl Ghost {
    /// Bytes for each pair of buckets in the index.
    pub(crate) const PAIR_BYTES: usize = PAIR_SLOTS * size_of::<u16>();

    /// An empty table for an index of so many pairs of buckets.
    pub(crate) fn new(pairs: usize) -> Self {
        Ghost { sets: vec![[0; SET]; pairs * PAIR_SLOTS / SET].into() }
    }

    /// Bytes that the table takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    fn set(&mut self, hash: u64) -> (&mut [u16; SET], u16) {
        let set = ((hash >> 32) * self.sets.len() as u64) >> 32;
        // 0 is an empty place.
        (&mut self.sets[set as usize], (hash as u16).max(1))
    }

    /// Remembers an entry; the oldest of its set is forgotten.
    pub(crate) fn remember(&mut self, hash: u64) {
        let (set, fingerprint) = self.set(hash);
        set.rotate_right(1);
        set[0] = fingerprint;
    }

    /// Whether an entry was remembered; it is forgotten.
    pub(crate) fn recall(&mut self, hash: u64) -> bool {
        let (set, fingerprint) = self.set(hash);
        let found = set.iter_mut().find(|held| **held == fingerprint);
        found.map(|held| *held = 0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_set_are_remembered_once() {
        let mut ghost = Ghost::new(1);
        let hash = |n: u64| n + 1;
        (0..9).for_each(|n| ghost.remember(hash(n)));
        assert!(!ghost.recall(hash(0)), "the ninth has pushed out the first");
        for n in 1..9 {
            assert!(ghost.recall(hash(n)));
            assert!(!ghost.recall(hash(n)));
        }
    }
}
