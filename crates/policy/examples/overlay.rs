//! Times of lookups and of changes, with overlays of several sizes over a million names.

use std::hint::black_box;
use std::time::Instant;

use policy::{
    ChangedOwner, NameKeys, PolicyQuery, PolicyRecord, RpzReport, RuleBuilder, RuleChanges, Rules, SourceId,
    SourceMask,
};
use wire::hash::{HashKey, HashedName};
use wire::{LowerNameBuf, NameBuf, Ttl, Type};

fn lower(text: &str) -> LowerNameBuf {
    text.parse::<NameBuf>().expect("a name").as_name().to_lower()
}

fn main() {
    let key = HashKey::new([1, 2, 3]);
    let keys = NameKeys::new(key);
    let apex = lower("rpz.test.");
    let nxdomain = [PolicyRecord { rtype: Type::CNAME, ttl: Ttl::from_secs(60), rdata: &[0] }];
    let mut report = RpzReport::default();
    let began = Instant::now();
    let mut builder = RuleBuilder::new(keys);
    for n in 0..1_000_000 {
        let owner = lower(&format!("d{n:x}.z{}.example.net.rpz.test.", n % 5000));
        builder.rpz(SourceId(0), apex.as_lower(), owner.as_lower(), &nxdomain, &mut report);
    }
    let mut rules = builder.build();
    println!("whole: {:?}", began.elapsed());
    let asked: Vec<HashedName> = (0..100)
        .map(|n| {
            let mut hashed = HashedName::new();
            hashed.set(&key, lower(&format!("n{n}.warm.example.")).as_name());
            hashed
        })
        .collect();
    let mut size = 0;
    for wanted in [0, 1, 10, 100, 1000, 10_000, 30_000] {
        let mut step = |rules: &Rules, from: usize, to: usize| {
            let began = Instant::now();
            let mut changes = RuleChanges::new(rules);
            for n in from..to {
                let owner = lower(&format!("c{n:x}.z{}.example.net.rpz.test.", n % 5000));
                let owner = ChangedOwner { owner: owner.as_lower(), before: &[], after: &nxdomain };
                changes.rpz(SourceId(0), apex.as_lower(), owner, &mut report).expect("changed");
            }
            let rules = changes.finish().expect("room");
            (rules, began.elapsed())
        };
        let mut took = Default::default();
        if wanted > size {
            rules = step(&rules, size, wanted).0;
            (_, took) = step(&rules, wanted, wanted + 10);
            size = wanted;
        }
        let best = (0..15)
            .map(|_| {
                let began = Instant::now();
                for _ in 0..10_000 {
                    for name in &asked {
                        let query = PolicyQuery { name, qtype: Type::A, client: None, group: None };
                        black_box(rules.of_query(black_box(&query), &SourceMask::ALL));
                    }
                }
                began.elapsed().as_secs_f64() * 1e3
            })
            .fold(f64::MAX, f64::min);
        println!("overlay {size}: {best:.1} ns a lookup; ten more names: {took:?}");
    }
}
