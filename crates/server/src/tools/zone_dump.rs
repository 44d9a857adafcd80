//! `nomen zone dump`: one zone's file as a server would see it.

use std::io::{self, Write};

use wire::hash::HashKey;

use super::judge::text_of;
use super::zone_spec;
use crate::cli::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE, ZoneDumpArgs};
use crate::words::reason;
use crate::zones::dump::dump_lines;
use crate::zones::text::{Meter, examine};

/// Runs the verb; returns the exit code.
pub fn run(args: &ZoneDumpArgs) -> u8 {
    let spec = match zone_spec(&args.origin, &args.file) {
        Ok(spec) => spec,
        Err(message) => {
            eprintln!("nomen: {message}");
            return EXIT_USAGE;
        }
    };
    let examined = examine(&spec, &HashKey::random(), 20, &Meter::default());
    let Some(zone) = &examined.zone else {
        eprint!("{}", text_of(&spec, &examined));
        return if examined.unread() { EXIT_OUTSIDE } else { EXIT_FAULTS };
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut fault = None;
    dump_lines(zone, &mut |line| match writeln!(out, "{line}") {
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
            eprintln!("nomen: cannot write: {}", reason(&e));
            EXIT_OUTSIDE
        }
    }
}
