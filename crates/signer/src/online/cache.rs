//! The signatures of answers that were made lately, within a number of bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::UnixTime;
use zone::catalog::AnswerSignatures;

/// Parts with a lock of their own, for the names of the zone and for other names each.
const SHARDS: usize = 8;
/// Bytes of an entry beside its signatures: key, time, pointers, the share of the table.
const BESIDE_SIGNATURES: usize = 128;
/// The share of the bytes for names that clients choose: one in this number.
const OTHER_NAMES: usize = 4;

/// A digest of what is signed.
type Key = [u8; 16];

/// Signatures by the digest of what they sign.
pub(super) struct SignatureCache {
    of_zone: [Mutex<Shard>; SHARDS],
    of_others: [Mutex<Shard>; SHARDS],
    /// Most bytes in all.
    most: AtomicUsize,
}

struct Cached {
    signatures: AnswerSignatures,
    until: UnixTime,
}

/// Two generations: a full young one becomes the old one, and the old one before it is evicted.
#[derive(Default)]
struct Shard {
    young: HashMap<Key, Cached>,
    old: HashMap<Key, Cached>,
    young_bytes: usize,
    old_bytes: usize,
}

impl Shard {
    /// Adds signatures; returns how many were evicted. `most`: bytes of one generation.
    fn put(&mut self, key: Key, cached: Cached, most: usize) -> u64 {
        let size = size_of_entry(&cached.signatures);
        if size > most {
            return 0;
        }
        let mut evicted = 0;
        if self.young_bytes + size > most {
            evicted = self.old.len() as u64;
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
        }
        if let Some(before) = self.young.insert(key, cached) {
            self.young_bytes -= size_of_entry(&before.signatures);
        }
        self.young_bytes += size;
        evicted
    }

    fn clear(&mut self) -> u64 {
        let before = std::mem::take(self);
        (before.young.len() + before.old.len()) as u64
    }
}

fn size_of_entry(signatures: &AnswerSignatures) -> usize {
    BESIDE_SIGNATURES + signatures.iter().map(|rdata| size_of::<Vec<u8>>() + rdata.len()).sum::<usize>()
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SignatureCache {
    pub(super) fn new() -> SignatureCache {
        SignatureCache {
            of_zone: Default::default(),
            of_others: Default::default(),
            most: AtomicUsize::new(0),
        }
    }

    /// Sets the most bytes; returns how many signatures were evicted.
    pub(super) fn set_bytes(&self, bytes: usize) -> u64 {
        let before = self.most.swap(bytes, Relaxed);
        if bytes < before { self.clear() } else { 0 }
    }

    /// Drops everything; returns how many signatures were evicted.
    pub(super) fn clear(&self) -> u64 {
        self.of_zone.iter().chain(&self.of_others).map(|shard| locked(shard).clear()).sum()
    }

    /// Returns the bytes in use.
    pub(super) fn bytes(&self) -> usize {
        let all = self.of_zone.iter().chain(&self.of_others).map(|shard| locked(shard));
        all.map(|shard| shard.young_bytes + shard.old_bytes).sum()
    }

    fn shard(&self, key: &Key, is_of_zone: bool) -> &Mutex<Shard> {
        let shards = if is_of_zone { &self.of_zone } else { &self.of_others };
        &shards[usize::from(key[0]) % SHARDS]
    }

    /// Returns signatures that are not to be renewed at `now`.
    pub(super) fn get(&self, key: &Key, is_of_zone: bool, now: UnixTime) -> Option<AnswerSignatures> {
        let mut shard = locked(self.shard(key, is_of_zone));
        let is_old = !shard.young.contains_key(key);
        let found = if is_old { shard.old.get(key) } else { shard.young.get(key) };
        let found = found.filter(|cached| now < cached.until)?;
        let (signatures, until) = (AnswerSignatures::clone(&found.signatures), found.until);
        let size = size_of_entry(&signatures);
        // In the young generation it lasts longer. It is not evicted for that.
        if is_old && shard.young_bytes + size <= self.generation(is_of_zone) {
            shard.old.remove(key);
            shard.old_bytes -= size;
            shard.young_bytes += size;
            shard.young.insert(*key, Cached { signatures: AnswerSignatures::clone(&signatures), until });
        }
        Some(signatures)
    }

    /// Adds signatures that are to be renewed at `until`; returns how many others were evicted.
    pub(super) fn put(
        &self,
        key: Key,
        is_of_zone: bool,
        signatures: AnswerSignatures,
        until: UnixTime,
    ) -> u64 {
        let most = self.generation(is_of_zone);
        locked(self.shard(&key, is_of_zone)).put(key, Cached { signatures, until }, most)
    }

    /// Returns the most bytes of one generation of a part.
    fn generation(&self, is_of_zone: bool) -> usize {
        let most = self.most.load(Relaxed);
        let others = most / OTHER_NAMES;
        (if is_of_zone { most - others } else { others }) / SHARDS / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
    const LATER: UnixTime = UnixTime::from_secs(1_800_000_100);

    fn key(number: u32) -> Key {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&number.to_le_bytes());
        key
    }

    fn signature() -> AnswerSignatures {
        vec![vec![7; 100]].into()
    }

    #[test]
    fn the_bytes_are_bounded_and_others_do_not_evict_names_of_the_zone() {
        let cache = SignatureCache::new();
        cache.set_bytes(1 << 16);
        assert_eq!(cache.put(key(1), true, signature(), LATER), 0);
        let evicted: u64 = (0..10_000).map(|number| cache.put(key(number), false, signature(), LATER)).sum();
        assert!(evicted > 9_000, "{evicted}");
        assert!(cache.bytes() <= 1 << 16, "{}", cache.bytes());
        assert!(cache.get(&key(1), true, NOW).is_some());
        assert!(cache.get(&key(9_999), false, NOW).is_some() && cache.get(&key(0), false, NOW).is_none());
    }

    #[test]
    fn what_is_used_outlasts_what_is_not() {
        let cache = SignatureCache::new();
        cache.set_bytes(1 << 16);
        cache.put(key(0), true, signature(), LATER);
        for number in 1..5_000 {
            cache.put(key(number * 8), true, signature(), LATER);
            assert!(cache.get(&key(0), true, NOW).is_some(), "{number}");
        }
        assert!(cache.get(&key(8), true, NOW).is_none());
    }

    #[test]
    fn signatures_that_are_due_are_not_returned() {
        let cache = SignatureCache::new();
        cache.set_bytes(1 << 16);
        cache.put(key(1), true, signature(), LATER);
        assert!(cache.get(&key(1), true, NOW).is_some() && cache.get(&key(1), true, LATER).is_none());
        assert_eq!((cache.clear(), cache.bytes()), (1, 0));
    }

    #[test]
    fn without_memory_nothing_is_cached() {
        let cache = SignatureCache::new();
        assert_eq!(cache.put(key(1), true, signature(), LATER), 0);
        assert!(cache.get(&key(1), true, NOW).is_none());
    }
}
