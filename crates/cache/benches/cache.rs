//! The cost of lookups and inserts. `cargo bench -p cache`; one iteration is a batch of 64 lookups, or one
//! insert.
//!
//! `warm` looks up 100 names, which fit the processor's caches; `cold` 200,000 with frequencies like 1 /
//! rank^0.9, most of which do not. Each both in passes and one after the other. Prints the bytes per entry.

use std::hint::black_box;

use cache::{Answer, Cache, CacheConfig, Credibility, Key, Lookup, Now, Terms};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Compressor, Owner, Section};
use wire::{Class, Header, NameBuf, Ttl, Type};

/// Queries in a batch.
const BATCH: usize = 64;

/// Names in the large cache.
const NAMES: u32 = 200_000;

/// Bytes for a reply behind its question.
const ROOM: usize = 1232;

fn hash_key() -> HashKey {
    HashKey::new([0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211, 42])
}

fn name(n: u32) -> NameBuf {
    format!("host{n}.domain{}.example.", n % 5000).parse().expect("a name")
}

/// An answer of one to four addresses.
fn message(n: u32) -> Vec<u8> {
    let (mut buffer, mut names) = (vec![0; 512], Compressor::small());
    let owner = name(n);
    let mut b = Builder::new(&mut buffer, 512, Header::query(1).reply(), &mut names);
    b.question(owner.as_name(), Type::A, Class::IN).expect("room");
    b.learn(owner.as_name(), wire::message::Offset::QNAME);
    for i in 0..=n % 4 {
        let (rdata, ttl) = ((n + i).to_be_bytes(), Ttl::from_secs(3600));
        b.record(Section::Answer, Owner::Name(owner.as_name()), Type::A, Class::IN, ttl, &rdata)
            .expect("room");
    }
    let len = b.finish();
    buffer.truncate(len);
    buffer
}

fn answer(message: &[u8]) -> Answer {
    let terms =
        Terms { view: 0, dnssec_ok: false, checking_disabled: false, rank: Credibility::Answer, ttl: None };
    Answer::of(message, &terms).expect("an answer")
}

fn filled(names: u32) -> Cache {
    let cache =
        Cache::new(&CacheConfig { bytes: 128 << 20, ..CacheConfig::default() }, hash_key()).expect("a cache");
    for n in 0..names {
        cache.insert(answer(&message(n)), Now::since_start(0)).expect("kept");
    }
    cache
}

fn key(name: &HashedName) -> Key<'_> {
    Key { name, qtype: Type::A, qclass: Class::IN, view: 0, dnssec_ok: false, checking_disabled: false }
}

/// Pseudorandom numbers (splitmix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ mixed >> 31
}

/// Batches of names to look up, with frequencies like 1 / rank^0.9.
fn questions(names: u32) -> Vec<[u32; BATCH]> {
    let mut sums = Vec::new();
    for rank in 1..=names {
        sums.push(sums.last().unwrap_or(&0.0) + (rank as f64).powf(-0.9));
    }
    let (all, mut state) = (sums[names as usize - 1], 7);
    let mut draw = || {
        let at = (random(&mut state) >> 11) as f64 / (1u64 << 53) as f64 * all;
        sums.partition_point(|sum| *sum < at) as u32
    };
    (0..2000).map(|_| std::array::from_fn(|_| draw())).collect()
}

fn lookups(c: &mut Criterion, what: &str, names: u32) {
    let (cache, batches) = (filled(names), questions(names));
    let names: Vec<NameBuf> = (0..names).map(name).collect();
    let mut hashed: Vec<HashedName> = (0..BATCH).map(|_| HashedName::new()).collect();
    let mut room = vec![[0; ROOM]; BATCH];
    let now = Now::since_start(1);
    let mut group = c.benchmark_group(what);
    group.throughput(Throughput::Elements(BATCH as u64));
    // The server has hashed the names by then.
    let hash = |hashed: &mut [HashedName], batch: &[u32; BATCH]| {
        for (hashed, n) in hashed.iter_mut().zip(batch) {
            hashed.set(cache.key(), names[*n as usize].as_name());
        }
    };
    let mut next = batches.iter().cycle();
    group.bench_function("hashing alone", |b| {
        b.iter(|| hash(&mut hashed, next.next().expect("it is endless")));
    });
    group.bench_function("one after the other", |b| {
        b.iter(|| {
            hash(&mut hashed, next.next().expect("it is endless"));
            for (name, room) in hashed.iter().zip(&mut room) {
                let found = cache.lookup(&key(name), now, room);
                assert!(matches!(found, Lookup::Hit(_)));
            }
        });
    });
    group.bench_function("in passes", |b| {
        let mut leads = Vec::with_capacity(BATCH);
        b.iter(|| {
            hash(&mut hashed, next.next().expect("it is endless"));
            hashed.iter().for_each(|name| cache.prefetch_find(&key(name)));
            leads.clear();
            leads.extend(hashed.iter().map(|name| cache.find(&key(name))));
            leads.iter().flatten().for_each(|lead| cache.prefetch(lead));
            for ((name, lead), room) in hashed.iter().zip(&leads).zip(&mut room) {
                let found = lead.as_ref().map(|lead| cache.copy(lead, &key(name), now, room));
                assert!(matches!(found, Some(Lookup::Hit(_))));
            }
        });
    });
    group.finish();
}

fn hits(c: &mut Criterion) {
    lookups(c, "warm", 100);
    lookups(c, "cold", NAMES);
}

fn misses(c: &mut Criterion) {
    let cache = filled(NAMES);
    let mut n = NAMES;
    c.bench_function("miss", |b| {
        b.iter_batched_ref(
            || {
                n += 1;
                let mut hashed = HashedName::new();
                hashed.set(cache.key(), name(n).as_name());
                hashed
            },
            |hashed| black_box(cache.lookup(&key(hashed), Now::since_start(1), &mut [0; ROOM])),
            BatchSize::SmallInput,
        );
    });
}

fn inserts(c: &mut Criterion) {
    let messages: Vec<Vec<u8>> = (0..NAMES).map(message).collect();
    let now = Now::since_start(1);
    c.bench_function("answer made ready", |b| {
        let mut next = messages.iter().cycle();
        b.iter(|| answer(next.next().expect("it is endless")));
    });
    for (what, bytes) in [("insert", 64 << 20), ("insert that evicts", 4 << 20)] {
        let cache =
            Cache::new(&CacheConfig { bytes, ..CacheConfig::default() }, hash_key()).expect("a cache");
        let mut next = messages.iter().cycle();
        for message in &messages {
            cache.insert(answer(message), now).expect("kept");
        }
        c.bench_function(what, |b| {
            b.iter_batched(
                || answer(next.next().expect("it is endless")),
                |answer| cache.insert(answer, now),
                BatchSize::LargeInput,
            );
        });
        let stats = cache.stats();
        println!("{what}: {stats:?}");
        println!(
            "an entry takes {} bytes in its log; with index, fingerprints and what is free, \
             {} of {} bytes each",
            stats.bytes / stats.entries,
            cache.reserved() as u64 / stats.entries,
            cache.reserved()
        );
    }
}

criterion_group!(benches, hits, misses, inserts);
criterion_main!(benches);
