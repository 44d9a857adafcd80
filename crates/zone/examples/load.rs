//! Builds a zone and reports time, memory and bytes per record.
//!
//! `load RECORDS` generates a zone like that of a top-level domain in memory, `load RECORDS FILE` writes it
//! to a zone file instead, `load FILE APEX` reads a zone file, and `load FILE APEX NEXT` also reads its next
//! version.

use std::error::Error;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use testkit::tld::Tld;
use wire::NameBuf;
use wire::hash::HashKey;
use zone::load::reload;
use zone::scan::TextSource;
use zone::{LoadConfig, Zone, ZoneBuilder, load_file};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [records] => generated(records.parse()?),
        [records, file] if records.parse::<u64>().is_ok() => written(records.parse()?, file),
        [file, apex] => read(file, apex),
        [file, apex, next] => read_again(file, apex, next),
        _ => Err("usage: load RECORDS | load RECORDS FILE | load FILE APEX [NEXT]".into()),
    }
}

fn generated(records: u64) -> Result<(), Box<dyn Error>> {
    let apex: NameBuf = "com.".parse()?;
    let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::random());
    let mut adding = Duration::ZERO;
    let mut tld = Tld::new(apex, records);
    let mut bytes = 0;
    loop {
        let batch: Vec<_> = tld.by_ref().take(4096).collect();
        if batch.is_empty() {
            break;
        }
        let start = Instant::now();
        for record in &batch {
            builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata)?;
            bytes += record.rdata.len();
        }
        adding += start.elapsed();
    }
    let start = Instant::now();
    let zone = builder.finish()?;
    println!("add {:.3} s, finish {:.3} s", adding.as_secs_f64(), start.elapsed().as_secs_f64());
    report(&zone, bytes);
    Ok(())
}

/// Writes the generated zone with the apex `com.`.
fn written(records: u64, file: &str) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    writeln!(out, "$ORIGIN com.\n$TTL 86400")?;
    let mut text = String::new();
    for record in Tld::new("com.".parse()?, records) {
        text.clear();
        wire::rdata::write_text(record.rtype, &record.rdata, &mut text)?;
        writeln!(out, "{} IN {} {}", record.owner, record.rtype, text)?;
    }
    Ok(out.flush()?)
}

fn read(file: &str, apex: &str) -> Result<(), Box<dyn Error>> {
    let (apex, start): (NameBuf, _) = (apex.parse()?, Instant::now());
    let loaded = load_file(Path::new(file), apex.as_name(), &HashKey::random(), &LoadConfig::default())?;
    println!("peak while loading {} kB", peak());
    println!("load {:.3} s, {} warnings", start.elapsed().as_secs_f64(), loaded.warnings.len());
    let mut rdata = Vec::new();
    let mut bytes = 0;
    for set in loaded.zone.iter().flat_map(|node| node.rrsets()) {
        for record in set.rdatas().chain(set.sig_rdatas()) {
            rdata.clear();
            record.copy_to(&mut rdata);
            bytes += rdata.len();
        }
    }
    report(&loaded.zone, bytes);
    Ok(())
}

/// Reads a zone file, and then its next version as a change of the first.
fn read_again(file: &str, apex: &str, next: &str) -> Result<(), Box<dyn Error>> {
    let (apex, start, config): (NameBuf, _, _) = (apex.parse()?, Instant::now(), LoadConfig::default());
    let served = load_file(Path::new(file), apex.as_name(), &HashKey::random(), &config)?.zone;
    println!("load {:.3} s, peak {} kB", start.elapsed().as_secs_f64(), peak());
    let start = Instant::now();
    let nodes = served.iter().len();
    println!("order of {nodes} nodes {:.3} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let loaded =
        reload(TextSource::file(next), apex.as_name(), &served, &config, |_| ControlFlow::Continue(()))?;
    let step = loaded.step.map(|step| step.removed.len() + step.added.len());
    println!("reload {:.3} s, records that go and come: {step:?}", start.elapsed().as_secs_f64());
    println!("{:?}, peak {} kB", loaded.zone.overlay_size(), peak());
    Ok(())
}

fn report(zone: &Zone, bytes: usize) {
    let records = zone.record_count() as usize;
    println!("{zone:?}");
    println!(
        "{:.1} MB, {:.1} bytes per record",
        zone.memory() as f64 / 1e6,
        zone.memory() as f64 / records as f64
    );
    println!("{:.1} of them beyond RDATA", (zone.memory() - bytes) as f64 / records as f64);
    println!("peak {} kB", peak());
}

/// Peak memory of the process in kB.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("?").trim().trim_end_matches(" kB").to_owned()
}
