//! Every verb but `nomen serve`: programs that do one thing and end. The server knows nothing of them.

pub mod audited;
pub mod check;
pub mod ctl;
pub mod judge;
pub mod migrate;
pub mod query;
pub mod signing;
pub mod update;
pub mod zone_check;
pub mod zone_compile;
pub mod zone_diff;
pub mod zone_digest;
pub mod zone_dump;

use std::io;
use std::path::Path;

use wire::hash::HashKey;
use zone::Zone;

use crate::cli::{EXIT_FAULTS, EXIT_OUTSIDE, EXIT_USAGE};
use crate::config::zones::{ZoneNameFault, zone_name};
use crate::words::reason;
use crate::zones::differences::DifferenceRule;
use crate::zones::text::{Meter, examine};
use crate::zones::{Origin, TextRules, ZoneSpec, ZoneText};

/// The zone of this name in this file.
pub fn zone_spec(origin: &str, file: &Path) -> Result<ZoneSpec, ZoneNameFault> {
    let name = zone_name(origin)?;
    let (apex, text) = (name.as_name().as_wire().into(), ZoneText::File(file.into()));
    let (origin, differences) = (Origin::Configuration, DifferenceRule::default());
    Ok(ZoneSpec { apex, text, origin, differences, rules: TextRules::default() })
}

/// Reads a zone for a verb that prints it. Faults go to standard error.
///
/// # Errors
/// The exit code.
fn read_zone(origin: &str, file: &Path) -> Result<Zone, u8> {
    let spec = zone_spec(origin, file).map_err(|fault| {
        eprintln!("nomen: {fault}");
        EXIT_USAGE
    })?;
    let mut examined = examine(&spec, &HashKey::random(), 20, &Meter::default());
    examined.zone.take().ok_or_else(|| {
        eprint!("{}", judge::text_of(&spec, &examined));
        if examined.unread() { EXIT_OUTSIDE } else { EXIT_FAULTS }
    })
}

/// The exit code of a verb that has written to standard output, which is `code` if nothing went wrong there.
fn printed(done: io::Result<()>, code: u8) -> u8 {
    match done {
        Ok(()) => code,
        // Whoever reads our output has enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => code,
        Err(e) => {
            eprintln!("nomen: cannot write: {}", reason(&e));
            EXIT_OUTSIDE
        }
    }
}
