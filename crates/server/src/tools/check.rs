//! `nomen check`: everything that can be found out about a configuration and its zones without serving them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use wire::hash::HashKey;

use super::judge::{judge, now, text_of};
use crate::cli::{CheckArgs, EXIT_FAULTS, EXIT_OK};
use crate::config::{self, reference};
use crate::serve::trial;
use crate::zones::ZoneSpec;
use crate::zones::resolve::resolve;

/// Runs `nomen check`; returns the exit code.
pub fn run(args: &CheckArgs) -> u8 {
    if args.defaults {
        print!("{}", reference::defaults());
        return EXIT_OK;
    }
    if args.print_reference {
        print!("{}", reference::markdown());
        return EXIT_OK;
    }
    let accepted = match config::read_files(&args.file) {
        Ok(accepted) => accepted,
        Err(rejected) => {
            eprint!("{rejected}");
            return EXIT_FAULTS;
        }
    };
    if args.system {
        let faults = trial::check(&accepted.config.settings);
        if !faults.is_empty() {
            eprint!("{}", accepted.sources.render(&faults));
            return EXIT_FAULTS;
        }
    }
    let wanted = match resolve(&accepted.config) {
        Ok(wanted) => wanted,
        Err(faults) => {
            eprint!("{}", accepted.sources.render(&faults));
            return EXIT_FAULTS;
        }
    };
    wanted.refused.iter().for_each(|refused| eprintln!("error: {refused}"));
    for (spec, doubt) in wanted.doubtful() {
        let name = spec.name();
        eprintln!("warning: zone {name} comes from the file {}, and {doubt}: is it meant?", spec.text);
    }
    let refused = wanted.refused.len();
    if args.no_zones {
        let zones = wanted.specs.len();
        println!("{}: the configuration is good ({zones} zones not checked)", args.file.display());
        return if refused == 0 { EXIT_OK } else { EXIT_FAULTS };
    }
    let bad = check_zones(wanted.specs, args);
    match bad {
        (_, 0) if refused > 0 => {
            eprintln!("{}: {refused} files have names that are no zone names", args.file.display());
            EXIT_FAULTS
        }
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

/// Checks zones over all CPUs and prints what is wrong with them in the order of their names; returns how many there are
/// and how many are bad.
fn check_zones(mut specs: Vec<ZoneSpec>, args: &CheckArgs) -> (usize, usize) {
    specs.sort_by(|a, b| a.name().cmp(&b.name()));
    let (key, specs, next) = (HashKey::random(), &specs, &AtomicUsize::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(specs.len().max(1));
    let (done, results) = channel();
    let mut bad = 0;
    std::thread::scope(|scope| {
        for done in vec![done; workers] {
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = specs.get(at) else { return };
                    let examined = judge(spec, &key, args.errors, args.dnssec.then(now));
                    // Whoever prints is there as long as there are zones.
                    let _ = done.send((at, text_of(spec, &examined), examined.errors() > 0));
                }
            });
        }
        let (mut early, mut printed) = (HashMap::new(), 0);
        for (at, text, is_bad) in results {
            bad += usize::from(is_bad);
            early.insert(at, text);
            while let Some(text) = early.remove(&printed) {
                eprint!("{text}");
                printed += 1;
            }
        }
    });
    (specs.len(), bad)
}
