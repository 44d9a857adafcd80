//! Fingerprints of entries that were evicted before a second use.

use crate::index::PAIR_SLOTS;

/// Fingerprints per set, newest first.
const SET: usize = 8;

/// Fingerprints of evicted entries, as many as the index has slots. A fingerprint has 16 bits besides its
/// set; one in ten thousand new entries matches by chance, which does no harm.
pub(crate) struct Ghost {
    sets: Box<[[u16; SET]]>,
}

impl Ghost {
    /// Bytes for each pair of buckets in the index.
    pub(crate) const PAIR_BYTES: usize = PAIR_SLOTS * size_of::<u16>();

    /// An empty table for an index of `pairs` pairs of buckets.
    pub(crate) fn new(pairs: usize) -> Self {
        Ghost { sets: vec![[0; SET]; pairs * PAIR_SLOTS / SET].into() }
    }

    /// Returns the bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    fn set(&mut self, hash: u64) -> (&mut [u16; SET], u16) {
        let set = ((hash >> 32) * self.sets.len() as u64) >> 32;
        // 0 marks an empty place.
        (&mut self.sets[set as usize], (hash as u16).max(1))
    }

    /// Adds an entry; the oldest of its set is forgotten.
    pub(crate) fn remember(&mut self, hash: u64) {
        let (set, fingerprint) = self.set(hash);
        set.rotate_right(1);
        set[0] = fingerprint;
    }

    /// Removes an entry, and returns whether it was there.
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
