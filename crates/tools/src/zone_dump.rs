//! `nomen zone dump`: prints one zone's file as a server would load it.

use std::io::{self, Write};

use super::{printed, read_zone};
use crate::args::ZoneDumpArgs;
use config::exit_status::EXIT_OK;
use zone_manager::dump::dump_lines;

/// Runs the verb; returns the exit code.
pub fn run(args: &ZoneDumpArgs) -> u8 {
    let zone = match read_zone(&args.origin, &args.file) {
        Ok(zone) => zone,
        Err(code) => return code,
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut fault = None;
    dump_lines(&zone, &mut |line| match writeln!(out, "{line}") {
        Ok(()) => true,
        Err(e) => {
            fault = Some(e);
            false
        }
    });
    printed(fault.map_or_else(|| out.flush(), Err), EXIT_OK)
}
