//! Measures the cost of one change in a zone of RECORDS records, like that of a top-level domain:
//! `change RECORDS`.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use testkit::random::soa;
use testkit::tld::Tld;
use wire::hash::HashKey;
use wire::{NameBuf, Serial, Ttl, Type};
use zone::store::{ChangeSet, diff};
use zone::{Zone, ZoneBuilder};

/// Number of changes made in sequence.
const CHANGES: u32 = 10_000;
const DAY: Ttl = Ttl::from_secs(86_400);

fn main() -> Result<(), Box<dyn Error>> {
    let records = std::env::args().nth(1).ok_or("usage: change RECORDS")?.parse()?;
    let apex: NameBuf = "com.".parse()?;
    let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::random());
    for record in Tld::new(apex, records) {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata)?;
    }
    let start = Instant::now();
    let base = builder.finish()?;
    println!("{base:?}: finished in {:?}, {} MiB", start.elapsed(), base.memory() >> 20);
    let start = Instant::now();
    let mut zone = base.apply(&delegation(1, apex)?)?;
    println!("first change: {:?}, {} bytes", start.elapsed(), zone.overlay_size().bytes);
    let mut times = Vec::new();
    let mut old = 0;
    for serial in 2..=CHANGES {
        let change = delegation(serial, apex)?;
        let start = Instant::now();
        let next = zone.apply(&change)?;
        times.push(start.elapsed());
        drop(std::mem::replace(&mut zone, next));
        old = serial;
    }
    times.sort_unstable();
    let of = |share: usize| times[(times.len() - 1) * share / 100];
    println!("{old} changes: median {:?}, 99 of 100 {:?}, longest {:?}", of(50), of(99), of(100));
    println!("all of them: {:?}", zone.overlay_size());
    report_lookups(&base, &zone, apex)?;
    let start = Instant::now();
    let change = diff(&base, &zone);
    println!("diff: {:?}, {} records go, {} come", start.elapsed(), change.removed.len(), change.added.len());
    let start = Instant::now();
    let folded = zone.folded()?;
    println!("fold: {:?}, {} MiB", start.elapsed(), folded.memory() >> 20);
    Ok(())
}

/// Adds a delegation with glue, and increments the serial.
fn delegation(serial: u32, apex: NameBuf) -> Result<ChangeSet, Box<dyn Error>> {
    let mut change = ChangeSet { before: Serial(serial), after: Serial(serial + 1), ..ChangeSet::default() };
    change.removed.push(apex.as_name(), Type::SOA, DAY, &soa(apex.as_name(), serial));
    change.added.push(apex.as_name(), Type::SOA, DAY, &soa(apex.as_name(), serial + 1));
    let label = format!("new-{}", u64::from(serial).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let cut = NameBuf::from_text(label.as_bytes(), Some(apex.as_name()))?;
    let host = NameBuf::from_text(b"ns", Some(cut.as_name()))?;
    change.added.push(cut.as_name(), Type::NS, DAY, host.as_name().as_wire());
    change.added.push(host.as_name(), Type::A, DAY, &[192, 0, 2, 1]);
    Ok(change)
}

/// Prints the nanoseconds of a lookup in the base and in the version, for names that did not change.
fn report_lookups(base: &Zone, version: &Zone, apex: NameBuf) -> Result<(), Box<dyn Error>> {
    let names: Vec<_> = (0..100_000)
        .map(|i| {
            let lower = Tld::name(apex, i * 7 % 1_000_000).as_name().to_lower();
            (lower, base.key().name(lower.as_lower()))
        })
        .collect();
    for round in 0..2 {
        for (zone, which) in [(base, "base"), (version, "version")] {
            let start = Instant::now();
            let found =
                names.iter().filter(|(name, hash)| black_box(zone).find(name.as_lower(), *hash).is_some());
            let found = found.count();
            let each = start.elapsed() / names.len() as u32;
            if round > 0 {
                println!("find in the {which}: {each:?} each, {found} found");
            }
        }
    }
    Ok(())
}
