//! `nomen check`, `nomen zone check` and `nomen zone dump`: everything that can be found out about a configuration
//! and its zones without serving them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use wire::hash::HashKey;

use crate::cli::{Check, EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, ZoneCheck, ZoneDump};
use crate::config::pattern::zone_name;
use crate::config::{self, reference};
use crate::zones::judge;
use crate::zones::load::{self, Examined, Finding, Meter};
use crate::zones::{Origin, ZoneSpec, resolve};

/// Runs `nomen check`; returns the exit code.
pub fn run(args: &Check) -> u8 {
    if args.defaults {
        print!("{}", reference::defaults());
        return EXIT_OK;
    }
    if args.print_reference {
        print!("{}", reference::markdown());
        return EXIT_OK;
    }
    let loaded = match config::load(&args.file) {
        Ok(loaded) => loaded,
        Err(rejected) => {
            eprint!("{rejected}");
            return EXIT_FAULTS;
        }
    };
    eprint!("{}", loaded.sources.render(&loaded.warnings));
    let specs = match resolve(&loaded.config) {
        Ok(specs) => specs,
        Err(faults) => {
            eprint!("{}", loaded.sources.render(&faults));
            return EXIT_FAULTS;
        }
    };
    if args.no_zones {
        println!("{}: the configuration is good ({} zones not checked)", args.file.display(), specs.len());
        return EXIT_OK;
    }
    let bad = check_zones(specs, args);
    match bad {
        (total, 0) => {
            let zones = if total == 1 { "its zone".into() } else { format!("{total} zones") };
            println!("{}: the configuration and {zones} are good", args.file.display());
            EXIT_OK
        }
        (total, bad) => {
            eprintln!("{}: {bad} of {total} zones are bad", args.file.display());
            EXIT_FAULTS
        }
    }
}

/// Checks zones over all CPUs; returns how many there are and how many are bad.
fn check_zones(mut specs: Vec<ZoneSpec>, args: &Check) -> (usize, usize) {
    specs.sort_by(|a, b| a.name().cmp(&b.name()));
    let key = HashKey::random();
    let (next, bad) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(specs.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(spec) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let examined = judge::judge(spec, &key, args.errors, args.dnssec.then(now));
                    if examined.errors() > 0 {
                        bad.fetch_add(1, Ordering::Relaxed);
                    }
                    // One write, so that the lines of two zones do not mix.
                    let _ = io::stderr().lock().write_all(text_of(spec, &examined).as_bytes());
                }
            });
        }
    });
    (specs.len(), bad.into_inner())
}

/// The findings of one zone for people: nothing if there are none.
fn text_of(spec: &ZoneSpec, examined: &Examined) -> String {
    let mut out = String::new();
    for finding in &examined.findings {
        out += &finding.pretty;
        out.push('\n');
    }
    if examined.hidden > 0 {
        out += &format!("zone {}: {} more not shown (--errors)\n", spec.name(), examined.hidden);
    }
    out
}

/// Seconds since 1970 modulo 2^32, as signatures count them.
fn now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as u32)
}

fn spec_of(origin: &str, file: &std::path::Path) -> Result<ZoneSpec, String> {
    let name = zone_name(origin)?;
    Ok(ZoneSpec { apex: name.as_name().as_wire().into(), origin: Origin::File(file.to_owned()) })
}

/// Runs `nomen zone check`; returns the exit code.
pub fn zone_check(args: &ZoneCheck) -> u8 {
    let spec = match spec_of(&args.origin, &args.file) {
        Ok(spec) => spec,
        Err(message) => {
            eprintln!("nomen: {message}");
            return EXIT_FAULTS;
        }
    };
    let audit_at = args.dnssec.then(|| args.at.unwrap_or_else(now));
    let examined = judge::judge(&spec, &HashKey::random(), args.errors, audit_at);
    if args.json {
        println!("{:#}", json_of(&spec, &examined));
    } else {
        eprint!("{}", text_of(&spec, &examined));
        match examined.zone.as_ref().filter(|_| examined.errors() == 0) {
            Some(zone) => println!(
                "zone {}: good, serial {}, {} records, {} warnings",
                spec.name(),
                zone.serial(),
                zone.record_count(),
                examined.warnings()
            ),
            None => eprintln!(
                "zone {}: bad, {} errors, {} warnings{}",
                spec.name(),
                examined.errors(),
                examined.warnings(),
                if examined.hidden > 0 {
                    format!(", {} more of either", examined.hidden)
                } else {
                    String::new()
                }
            ),
        }
    }
    if examined.errors() > 0 { EXIT_FAULTS } else { EXIT_OK }
}

fn json_of(spec: &ZoneSpec, examined: &Examined) -> serde_json::Value {
    let finding = |f: &Finding| {
        json!({
            "severity": if f.error { "error" } else { "warning" },
            "file": &*f.file,
            "line": (f.line > 0).then_some(f.line),
            "column": (f.column > 0).then_some(f.column),
            "message": f.message,
        })
    };
    json!({
        "zone": spec.name().to_string(),
        "good": examined.errors() == 0,
        "serial": examined.zone.as_ref().map(|z| z.serial().0),
        "records": examined.zone.as_ref().map(|z| z.record_count()),
        "signed": examined.zone.as_ref().map(|z| z.is_signed()),
        "errors": examined.errors(),
        "warnings": examined.warnings(),
        "findings": examined.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// Runs `nomen zone dump`; returns the exit code.
pub fn zone_dump(args: &ZoneDump) -> u8 {
    let spec = match spec_of(&args.origin, &args.file) {
        Ok(spec) => spec,
        Err(message) => {
            eprintln!("nomen: {message}");
            return EXIT_FAULTS;
        }
    };
    let examined = load::examine(&spec, &HashKey::random(), 20, &Meter::default());
    let Some(zone) = &examined.zone else {
        eprint!("{}", text_of(&spec, &examined));
        return EXIT_FAULTS;
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut fault = None;
    load::dump(zone, &mut |line| match writeln!(out, "{line}") {
        Ok(()) => true,
        Err(e) => {
            fault = Some(e);
            false
        }
    });
    match fault.map_or_else(|| out.flush(), Err) {
        Ok(()) => EXIT_OK,
        // Whoever reads our output has enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => EXIT_OK,
        Err(e) => {
            eprintln!("nomen: cannot write: {}", config::reason(&e));
            EXIT_OUTSIDE
        }
    }
}
