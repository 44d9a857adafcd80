//! The cost of the next catalog: one change and ten thousand changes to a catalog of 1,000, 10,000, 100,000
//! and 1,000,000 small zones, and a first load of them all (set `CATALOG_BENCH_ZONES` for other numbers, as
//! in `1000,5000`). Prints the bytes per zone of the catalog.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use testkit::ModelRecord;
use wire::hash::HashKey;
use wire::{NameBuf, Ttl, Type};
use zone::{Catalog, Change, Zone};

/// Number of changes in a large step.
const MANY: usize = 10_000;

/// A typical zone: SOA, name server, mail host and web server.
fn small(key: &HashKey, number: usize) -> Arc<Zone> {
    let name = |text: String| -> NameBuf { text.parse().expect("a name") };
    let apex = name(format!("z{number:07}.example."));
    let host = |host: &str| name(format!("{host}.{apex}"));
    let wire = |name: NameBuf| name.as_name().as_wire().to_vec();
    let record = |owner, rtype, rdata| ModelRecord { owner, rtype, ttl: Ttl::from_secs(3600), rdata };
    let records = [
        record(apex, Type::SOA, testkit::random::soa(apex.as_name(), 1)),
        record(apex, Type::NS, wire(host("ns1"))),
        record(apex, Type::MX, [&[0, 10], wire(host("mail")).as_slice()].concat()),
        record(host("ns1"), Type::A, vec![192, 0, 2, 1]),
        record(host("mail"), Type::A, vec![192, 0, 2, 25]),
        record(host("www"), Type::A, vec![192, 0, 2, 80]),
    ];
    Arc::new(testkit::build(apex.as_name(), key, &records))
}

fn next(catalog: &Catalog, changes: impl IntoIterator<Item = Change>) -> Catalog {
    catalog.with(changes).expect("zones of one key")
}

fn steps(c: &mut Criterion) {
    let key = HashKey::random();
    let numbers =
        std::env::var("CATALOG_BENCH_ZONES").unwrap_or_else(|_| "1000,10000,100000,1000000".to_owned());
    for zones in numbers.split(',').map(|number| number.parse::<usize>().expect("a number")) {
        let all: Vec<Arc<Zone>> = (0..zones).map(|i| small(&key, i)).collect();
        let serve = |zone: &Arc<Zone>| Change::Serve(Arc::clone(zone));
        let catalog = next(&Catalog::new(&key), all.iter().map(serve));
        let of_zones: usize = all.iter().map(|zone| zone.memory()).sum();
        println!(
            "{zones} zones of {} bytes, in the catalog {} each",
            of_zones / zones,
            catalog.memory() / zones
        );
        // Visits the zones in an order that hardware cannot prefetch.
        let pick = |i: usize| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % zones;
        let mut at = 0;
        let mut fresh = |first: usize| {
            at += 1;
            small(&key, first + pick(at))
        };
        let mut group = c.benchmark_group("catalog");
        let mut one = |kind: &str, changes: &mut dyn FnMut() -> Vec<Change>| {
            group.bench_function(BenchmarkId::new(kind, zones), |b| {
                b.iter_batched(
                    &mut *changes,
                    |change| black_box(next(&catalog, change)),
                    BatchSize::LargeInput,
                );
            });
        };
        one("replace-one", &mut || vec![Change::Serve(fresh(0))]);
        one("add-one", &mut || vec![Change::Serve(fresh(zones))]);
        let mut at = 0;
        one("remove-one", &mut || {
            at += 1;
            vec![Change::Remove(Box::new(all[pick(at)].apex().as_name().to_buf()))]
        });
        group.sample_size(10);
        let many: Vec<_> = (0..MANY.min(zones)).map(|i| small(&key, pick(i))).collect();
        group.bench_function(BenchmarkId::new(format!("replace-{}", many.len()), zones), |b| {
            b.iter_with_large_drop(|| next(&catalog, many.iter().map(serve)));
        });
        group.bench_function(BenchmarkId::new("serve-all", zones), |b| {
            b.iter_with_large_drop(|| next(&Catalog::new(&key), all.iter().map(serve)));
        });
        group.finish();
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
