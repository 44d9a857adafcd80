//! Exact lookups: one by one, and in batches of 64 with overlapping cache misses, in a small zone and in one
//! of 4 million records (set `ZONE_BENCH_RECORDS` for another number).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use testkit::tld::Tld;
use wire::hash::{HashKey, HashedName};
use wire::{LowerName, NameBuf, NameHash, Type};
use zone::{Zone, ZoneBuilder};

const BATCH: usize = 64;

fn build(key: &HashKey, apex: NameBuf, records: u64) -> Zone {
    let mut builder = ZoneBuilder::new(apex.as_name(), key);
    for record in Tld::new(apex, records) {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata).expect("a record");
    }
    builder.finish().expect("a zone")
}

/// A name in lower case with its hash, small enough that all questions stay in the cache.
struct Question {
    hash: NameHash,
    len: u8,
    name: [u8; 39],
}

impl Question {
    fn name(&self) -> LowerName<'_> {
        LowerName::of_checked(&self.name[..self.len as usize])
    }
}

/// Names in the zone, in random order.
fn questions(key: &HashKey, apex: NameBuf, delegations: u64) -> Vec<Question> {
    let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % delegations;
    let mut hashed = HashedName::new();
    let question = |i| {
        hashed.set(key, Tld::name(apex, spread(i)).as_name());
        let mut name = [0; 39];
        let lower = hashed.as_lower().as_wire();
        name[..lower.len()].copy_from_slice(lower);
        Question { hash: hashed.hash(0), len: lower.len() as u8, name }
    };
    (0..16_384).map(question).collect()
}

/// Finds the node and copies its NS RRset, as an answer does.
#[inline]
fn answer(zone: &Zone, question: &Question, out: &mut [u8; 512]) -> usize {
    let node = zone.find(question.name(), question.hash);
    let Some(set) = node.and_then(|node| node.rrset(Type::NS)) else { return 0 };
    let records = set.records();
    out[..records.len()].copy_from_slice(records);
    records.len()
}

fn lookups(c: &mut Criterion) {
    let key = HashKey::random();
    let apex: NameBuf = "com.".parse().expect("a name");
    let large = std::env::var("ZONE_BENCH_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000_000);
    for records in [1000, large] {
        let zone = build(&key, apex, records);
        let names = questions(&key, apex, records / 3);
        let mut group = c.benchmark_group(format!("{records} records"));
        group.throughput(Throughput::Elements(BATCH as u64));
        let mut out = [0; 512];
        let mut batches = names.chunks_exact(BATCH).cycle();
        group.bench_function("64 one by one", |b| {
            b.iter(|| {
                let batch = batches.next().expect("a cycle");
                batch.iter().map(|name| answer(&zone, name, &mut out)).sum::<usize>()
            });
        });
        group.bench_function("64 as a batch", |b| {
            b.iter(|| {
                let batch = batches.next().expect("a cycle");
                batch.iter().for_each(|name| zone.prefetch_index(name.hash));
                batch.iter().for_each(|name| _ = zone.prefetch_node(name.hash));
                batch.iter().map(|name| answer(&zone, name, &mut out)).sum::<usize>()
            });
        });
        group.finish();
    }
}

criterion_group!(benches, lookups);
criterion_main!(benches);
