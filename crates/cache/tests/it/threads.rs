//! Concurrent readers and writers; every copy is checked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use cache::{Answer, Cache, CacheConfig, Credibility, Lookup};
use wire::message::Section;
use wire::{Rcode, Type};

use crate::support::*;

const NAMES: u64 = 400;

/// Pseudorandom numbers (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 8
}

/// A TXT record whose length and bytes follow from name and version.
fn text(name: u64, version: u64) -> Vec<u8> {
    let mut state = name << 32 | version;
    let len = (next(&mut state) % 230) as u8;
    let mut rdata = vec![len + 16];
    rdata.extend(name.to_be_bytes());
    rdata.extend(version.to_be_bytes());
    rdata.extend((0..len).map(|_| next(&mut state) as u8));
    rdata
}

fn write(cache: &Cache, name: u64, version: u64) {
    let owner = format!("n{name}.example.");
    let record = Record(Section::Answer, &owner, Type::TXT, 3600, text(name, version));
    let message = response(&owner, Type::TXT, Rcode::NOERROR, &[record]);
    cache
        .insert(Answer::of(&message, &terms(Credibility::Answer, None)).expect("an answer"), at(0))
        .expect("kept");
}

/// Checks that a body is exactly that of one version of `name`.
fn check(name: u64, body: &[u8]) {
    // Owner, type, class, TTL and length take 12 bytes.
    let number = |at: usize| u64::from_be_bytes(body[at..at + 8].try_into().expect("eight bytes"));
    assert_eq!(number(13), name, "the answer for another name");
    assert_eq!(body[12..], text(name, number(21)), "a mixture of two answers");
    assert_eq!(body[..12], [0xc0, 12, 0, 16, 0, 1, 0, 0, 14, 16, 0, (body.len() - 12) as u8]);
}

#[test]
fn no_copy_is_a_mixture() {
    let cache = Cache::new(&CacheConfig { bytes: 64 << 10, shards: 1, ..CacheConfig::default() }, hash_key())
        .expect("a cache");
    let (done, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|threads| {
        for reader in 0..3u64 {
            let (cache, done, hits) = (&cache, &done, &hits);
            threads.spawn(move || {
                let names: Vec<_> = (0..NAMES).map(|name| hashed(&format!("n{name}.example."))).collect();
                let (mut state, mut room, mut found) = (reader, [0; 512], 0);
                while !done.load(Ordering::Relaxed) {
                    let name = next(&mut state) % NAMES;
                    let key = key(&names[name as usize], Type::TXT);
                    if let Lookup::Hit(hit) = cache.lookup(&key, at(0), &mut room) {
                        check(name, &room[..hit.len]);
                        found += 1;
                    }
                }
                hits.fetch_add(found, Ordering::Relaxed);
            });
        }
        // Preallocation runs meanwhile and must not change any entry.
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                cache.preallocate();
            }
        });
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let cache = &cache;
                threads.spawn(move || {
                    let mut state = writer + 100;
                    (0..40_000).for_each(|version| write(cache, next(&mut state) % NAMES, version));
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("the writer ends");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(hits.into_inner() > 0);
    let stats = cache.stats();
    assert_eq!(stats.inserts, 80_000);
    assert!(stats.evictions > 0, "the logs went round");
}

#[test]
fn a_prefetch_is_reported_to_one_thread() {
    let cache = cache_of(1 << 20);
    insert(&cache, address("www.example.", 100, 1, Credibility::Answer), 0).expect("kept");
    (0..5).for_each(|_| assert!(freshness(&cache, "www.example.", 0).is_some()));
    let reported: u32 = thread::scope(|threads| {
        let ask = || {
            let name = hashed("www.example.");
            let mut room = [0; 512];
            let lookups = (0..10_000).map(|_| cache.lookup(&key(&name, Type::A), at(95), &mut room));
            lookups.filter(|lookup| lookup.hit().is_some_and(|hit| hit.prefetch)).count() as u32
        };
        let readers: Vec<_> = (0..4).map(|_| threads.spawn(ask)).collect();
        readers.into_iter().map(|reader| reader.join().expect("the reader ends")).sum()
    });
    assert_eq!(reported, 1);
}
