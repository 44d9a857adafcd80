//! Builds a zone and tells the time, the memory and the octets per record.
//!
//! `load RECORDS` makes a zone like that of a top-level domain in memory; `load FILE APEX` reads a master file.

use std::error::Error;
use std::time::{Duration, Instant};

use testkit::tld::Tld;
use wire::NameBuf;
use wire::hash::HashKey;
use zone::{Zone, ZoneBuilder};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [records] => generated(records.parse()?),
        _ => Err("use: load RECORDS".into()),
    }
}

fn generated(records: u64) -> Result<(), Box<dyn Error>> {
    let apex: NameBuf = "com.".parse()?;
    let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::random());
    let mut adding = Duration::ZERO;
    let mut tld = Tld::new(apex, records);
    let mut octets = 0;
    loop {
        let batch: Vec<_> = tld.by_ref().take(4096).collect();
        if batch.is_empty() {
            break;
        }
        let start = Instant::now();
        for record in &batch {
            builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata)?;
            octets += record.rdata.len();
        }
        adding += start.elapsed();
    }
    let start = Instant::now();
    let zone = builder.finish()?;
    println!("add {:.3} s, finish {:.3} s", adding.as_secs_f64(), start.elapsed().as_secs_f64());
    report(&zone, octets);
    Ok(())
}

fn report(zone: &Zone, octets: usize) {
    let records = zone.record_count() as usize;
    println!("{zone:?}");
    println!(
        "{:.1} MB, {:.1} octets per record",
        zone.memory() as f64 / 1e6,
        zone.memory() as f64 / records as f64
    );
    println!("{:.1} of them beyond RDATA", (zone.memory() - octets) as f64 / records as f64);
    println!("peak {} kB", peak());
}

/// Most memory the process has had, in kB.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("?").trim().trim_end_matches(" kB").to_owned()
}
