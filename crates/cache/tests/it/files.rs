//! Saving and loading, damaged files included.

use std::time::Duration;

use cache::{Cache, CacheConfig, Credibility, Freshness, LoadFault, Lookup, Restored};
use proptest::prelude::*;
use wire::hash::HashKey;
use wire::{Type, UnixTime};

use crate::support::*;

const WALL: UnixTime = UnixTime::from_secs(1_800_000_000);

fn filled() -> Cache {
    let cache = cache_of(1 << 20);
    for n in 0..100 {
        insert(&cache, address(&format!("n{n}.example."), 100 + n, n, Credibility::Authoritative), 10)
            .expect("kept");
    }
    insert(&cache, nxdomain("no.example.", Type::TXT, 500, Credibility::Validated), 20).expect("kept");
    insert(&cache, failure("failing.example.", Some(200)), 20).expect("kept");
    cache
}

fn saved(cache: &Cache, now: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    cache.save(&mut bytes, at(now), WALL).expect("memory takes everything");
    bytes
}

fn load(cache: &Cache, bytes: &[u8], passed: u64) -> Result<Restored, LoadFault> {
    cache.load(&mut &*bytes, at(3), WALL.saturating_add(Duration::from_secs(passed)))
}

#[test]
fn what_was_saved_is_there_and_has_aged() {
    let bytes = saved(&filled(), 30);
    // Another key, another size, another clock.
    let config = CacheConfig { bytes: 4 << 20, shards: 2, ..CacheConfig::default() };
    let cache = Cache::new(&config, HashKey::new([9, 8, 7])).expect("a cache");
    assert_eq!(load(&cache, &bytes, 50).expect("a file"), Restored { kept: 102, left_out: 0 });
    let get = |text: &str, qtype| {
        let mut hashed = wire::hash::HashedName::new();
        hashed.set(cache.key(), name(text).as_name());
        get_key(&cache, &key(&hashed, qtype), 3)
    };
    let (hit, body) = get("n7.example.", Type::A).expect("a hit");
    // Stored at 10, saved at 30, 50 seconds in the file.
    assert_eq!((hit.freshness, hit.rank), (Freshness::Fresh(37), Credibility::Authoritative));
    assert_eq!(addresses("n7.example.", &hit, &body), [(7, 37)]);
    assert_eq!(get("no.example.", Type::MX).map(|(hit, _)| hit.freshness), Some(Freshness::Fresh(440)));
    let mut failing = wire::hash::HashedName::new();
    failing.set(cache.key(), name("failing.example.").as_name());
    let failure = cache.failure(&key(&failing, Type::A), at(3), &mut [0; 512]);
    assert_eq!(failure.hit().map(|hit| hit.freshness), Some(Freshness::Fresh(140)));
}

#[test]
fn stale_entries_are_saved_and_those_that_ended_are_left_out() {
    let bytes = saved(&filled(), 30);
    let cache = cache_of(1 << 20);
    let restored = load(&cache, &bytes, 120).expect("a file");
    assert_eq!(restored.kept, 102);
    assert_eq!(freshness(&cache, "n0.example.", 3), Some(Freshness::Stale(40)));
    let cache = cache_of(1 << 20);
    assert_eq!(
        load(&cache, &bytes, 86_400 + 80).expect("a file").left_out,
        2,
        "n0, which ends at 110, and the failure"
    );
    let cache = cache_of(1 << 20);
    assert_eq!(load(&cache, &bytes, u64::MAX).expect("a file"), Restored { kept: 0, left_out: 102 });
}

#[test]
fn a_wall_clock_that_went_back_ages_nothing() {
    let bytes = saved(&filled(), 30);
    let cache = cache_of(1 << 20);
    cache.load(&mut &*bytes, at(3), WALL.saturating_sub(Duration::from_secs(1000))).expect("a file");
    assert_eq!(freshness(&cache, "n0.example.", 3), Some(Freshness::Fresh(80)));
}

#[test]
fn saving_what_was_loaded_makes_the_same_entries() {
    let bytes = saved(&filled(), 30);
    let cache = cache_of(1 << 20);
    cache.load(&mut &*bytes, at(30), WALL).expect("a file");
    let sorted = |cache: &Cache| {
        let mut entries = Vec::new();
        cache.for_each(at(30), |held| {
            entries.push((held.message(), held.freshness, held.age, held.rank(), held.kind()))
        });
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries
    };
    assert_eq!(sorted(&cache), sorted(&filled()));
}

#[test]
fn faults_are_named() {
    let bytes = saved(&filled(), 30);
    let fault = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        load(&cache_of(1 << 20), &bytes, 0).expect_err("a fault")
    };
    assert!(matches!(fault(&|b| b.clear()), LoadFault::Foreign));
    assert!(matches!(fault(&|b| *b = b"[server]".to_vec()), LoadFault::Foreign));
    assert!(matches!(fault(&|b| *b = vec![b'x'; 1000]), LoadFault::Foreign));
    assert!(matches!(fault(&|b| b.truncate(9)), LoadFault::Short));
    assert!(matches!(fault(&|b| b.truncate(b.len() - 1)), LoadFault::Short));
    assert!(matches!(fault(&|b| b.push(0)), LoadFault::Damaged));
    assert!(matches!(fault(&|b| b[100] ^= 1), LoadFault::Damaged));
    assert!(matches!(fault(&|b| b[28..32].fill(0xff)), LoadFault::Damaged), "a length beyond every message");
    assert!(matches!(fault(&|b| b[0] ^= 1), LoadFault::Foreign));
}

#[test]
fn a_damaged_file_keeps_what_stood_in_front() {
    let mut bytes = saved(&filled(), 30);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let cache = cache_of(1 << 20);
    assert!(matches!(load(&cache, &bytes, 0), Err(LoadFault::Damaged)));
    let entries = cache.stats().entries;
    assert!((40..60).contains(&entries), "{entries}");
}

proptest! {
    /// After loading any file, all entries of the cache can be looked up and parsed.
    #[test]
    fn no_file_breaks_the_cache(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..10),
        mend: bool,
    ) {
        let mut bytes = saved(&filled(), 30);
        for (at, bits) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
            if mend {
                mend_sums(&mut bytes);
            }
        }
        let cache = cache_of(1 << 20);
        let _ = load(&cache, &bytes, 0);
        cache.for_each(at(3), |held| {
            seen(&held.message());
            let mut hashed = wire::hash::HashedName::new();
            hashed.set(cache.key(), held.name().as_name());
            let key = cache::Key {
                name: &hashed, qtype: held.asked(), qclass: held.qclass(), view: held.view(),
                dnssec_ok: held.dnssec_ok(), checking_disabled: held.checking_disabled(),
            };
            let mut room = vec![0; 65_535];
            let found = match held.kind() {
                cache::AnswerKind::Failure => cache.failure(&key, at(3), &mut room),
                _ => cache.lookup(&key, at(3), &mut room),
            };
            assert_ne!(found, Lookup::Miss);
        });
    }
}

/// Corrects every checksum that the lengths lead to.
fn mend_sums(bytes: &mut [u8]) {
    let (mut at, mut len) = (0, 20);
    while let Some(frame) = bytes.get_mut(at..at + len + 8) {
        let sum = checksum(&frame[..len]);
        frame[len..].copy_from_slice(&sum.to_le_bytes());
        at += len + 8;
        let Some(next) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) else { return };
        len = 20 + u32::from_le_bytes(*next) as usize;
    }
}

/// The checksum as described in the file format, implemented a second time.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^ sum >> 32
    })
}
