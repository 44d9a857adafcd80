//! Every verb but `nomen serve`: programs that do one thing and end. The server knows nothing of them.

pub mod audited;
pub mod check;
pub mod ctl;
pub mod judge;
pub mod query;
pub mod update;
pub mod zone_check;
pub mod zone_compile;
pub mod zone_dump;

use std::path::Path;

use crate::cli::{EXIT_FAULTS, EXIT_OUTSIDE};
use crate::config::report::Diagnostic;
use crate::config::zones::{ZoneNameFault, zone_name};
use crate::zones::{ZoneSpec, ZoneText};

/// The exit code for a configuration that cannot be used: whether its text is to blame, or a file that cannot be opened.
pub fn exit_code(faults: &[Diagnostic]) -> u8 {
    if faults.iter().any(|fault| fault.outside) { EXIT_OUTSIDE } else { EXIT_FAULTS }
}

/// The zone of this name in this file.
pub fn zone_spec(origin: &str, file: &Path) -> Result<ZoneSpec, ZoneNameFault> {
    let name = zone_name(origin)?;
    Ok(ZoneSpec { apex: name.as_name().as_wire().into(), text: ZoneText::File(file.to_owned()) })
}
