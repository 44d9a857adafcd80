//! Measures the zone file scanner: `scan make RECORDS FILE` writes a zone like that of a top-level domain,
//! `scan read FILE [ORIGIN] [--pipelined]` scans a file and discards the records, `scan print FILE ORIGIN`
//! prints them, one per line, for comparison with the output of other parsers.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::time::Instant;
use wire::NameBuf;
use zone::scan::{self, Record, Rejection, ScanConfig, ScanProgress, Sink, TextSource};

/// Counts records and reads each one, so that the compiler cannot skip it.
#[derive(Default)]
struct Count {
    bytes: u64,
    owners: u64,
    blocks: u64,
}

impl Sink for Count {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        self.bytes += record.rdata.len() as u64;
        self.owners += u64::from(!record.same_owner);
        Ok(())
    }

    fn progress(&mut self, _: ScanProgress) -> ControlFlow<()> {
        self.blocks += 1;
        ControlFlow::Continue(())
    }
}

/// Writes each record as one line of a zone file.
struct Print<W>(W);

impl<W: std::io::Write> Sink for Print<W> {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        let mut data = String::new();
        let Record { owner, ttl, class, rtype, rdata, .. } = *record;
        wire::rdata::write_text(rtype, rdata, &mut data).map_err(|e| Rejection::error(e.to_string()))?;
        writeln!(self.0, "{owner} {ttl} {class} {rtype} {data}").map_err(|e| Rejection::stop(e.to_string()))
    }
}

fn print(path: &str, origin: &str) -> Result<(), Box<dyn std::error::Error>> {
    let config = ScanConfig::new(origin.parse::<NameBuf>()?.as_name());
    let mut to = Print(BufWriter::new(std::io::stdout().lock()));
    let report = scan::read(TextSource::file(path), &config, &mut to);
    for fault in &report.faults {
        eprintln!("{}", fault.pretty());
    }
    Ok(to.0.flush()?)
}

fn make(records: u64, path: &str) -> std::io::Result<()> {
    let mut to = BufWriter::with_capacity(1 << 20, File::create(path)?);
    writeln!(to, "$ORIGIN example.\n$TTL 86400")?;
    writeln!(
        to,
        "@ IN SOA ns1.nic hostmaster.nic 1 1800 900 604800 86400\n@ IN NS ns1.nic\nns1.nic IN A 192.0.2.1"
    )?;
    let (mut made, mut n) = (3, 0u64);
    while made < records {
        n += 1;
        // A cheap hash, so that consecutive records differ.
        let mix = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let host = mix % 50_000;
        writeln!(to, "domain-{mix:x}\t3600\tIN\tNS\tns1.hoster{host}.net.")?;
        writeln!(to, "domain-{mix:x}\t3600\tIN\tNS\tns2.hoster{host}.net.")?;
        made += 2;
        if mix.is_multiple_of(2) {
            let (tag, digest) = (mix % 65_536, format!("{mix:016X}").repeat(4));
            writeln!(to, "domain-{mix:x}\t3600\tIN\tDS\t{tag} 13 2 {digest}")?;
            made += 1;
        }
        if mix % 4 < 2 {
            writeln!(to, "ns1.domain-{mix:x}\t3600\tIN\tA\t198.51.100.{}", mix % 256)?;
            writeln!(
                to,
                "ns1.domain-{mix:x}\t3600\tIN\tAAAA\t2001:db8::{:x}:{:x}",
                mix >> 16 & 0xffff,
                mix & 0xffff
            )?;
            made += 2;
        }
    }
    to.flush()
}

fn read(path: &str, origin: &str, pipelined: bool) -> Result<(), Box<dyn std::error::Error>> {
    let config = ScanConfig::new(origin.parse::<NameBuf>()?.as_name());
    let mut count = Count::default();
    let start = Instant::now();
    let source = TextSource::file(path);
    let report = if pipelined {
        scan::read_pipelined(source, &config, &mut count)
    } else {
        scan::read(source, &config, &mut count)
    };
    let seconds = start.elapsed().as_secs_f64();
    for fault in &report.faults {
        println!("{}", fault.pretty());
    }
    println!(
        "{} records ({} owners, {} bytes of data), {} errors, {} warnings, {:.3} s: {:.2} M records/s, {:.0} MB/s",
        report.records,
        count.owners,
        count.bytes,
        report.errors,
        report.warnings,
        seconds,
        report.records as f64 / seconds / 1e6,
        report.bytes as f64 / seconds / 1e6,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let pipelined = words.last() == Some(&"--pipelined");
    words.truncate(words.len() - usize::from(pipelined));
    match words[..] {
        ["make", records, path] => Ok(make(records.parse()?, path)?),
        ["read", path] => read(path, "example.", pipelined),
        ["read", path, origin] => read(path, origin, pipelined),
        ["print", path, origin] => print(path, origin),
        _ => {
            Err("usage: scan make RECORDS FILE | read FILE [ORIGIN] [--pipelined] | print FILE ORIGIN".into())
        }
    }
}
