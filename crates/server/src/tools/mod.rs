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

use std::path::Path;

use crate::config::zones::{ZoneNameFault, zone_name};
use crate::zones::differences::DifferenceRule;
use crate::zones::{Origin, ZoneSpec, ZoneText};

/// The zone of this name in this file.
pub fn zone_spec(origin: &str, file: &Path) -> Result<ZoneSpec, ZoneNameFault> {
    let name = zone_name(origin)?;
    let (apex, text) = (name.as_name().as_wire().into(), ZoneText::File(file.to_owned()));
    Ok(ZoneSpec { apex, text, origin: Origin::Configuration, differences: DifferenceRule::default() })
}
