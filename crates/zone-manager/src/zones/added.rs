//! The file of the zones that were added at run time: `added.toml` in the state folder, `[[zone]]` blocks as
//! in the configuration, which is read with it. A file that is damaged is a fault of the configuration.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use config::table::Keys;
use config::zones::ConfiguredZone;

/// Its name.
pub const FILE: &str = "added.toml";

const HEAD: &str = "# Zones that were added while nomen ran, by `nomen ctl zone add`; nomen writes this file anew with each such zone.\n";

/// What the file says of these zones.
fn text<'a>(zones: impl IntoIterator<Item = &'a ConfiguredZone>) -> String {
    let mut text = HEAD.to_owned();
    zones.into_iter().for_each(|zone| text += &block(zone));
    text
}

/// A zone as the configuration has it.
fn block(zone: &ConfiguredZone) -> String {
    let mut text = "\n[[zone]]\n".to_owned();
    for value in zone.values() {
        if let Some(set) = value.value {
            // Writing to text does not fail.
            let _ = writeln!(text, "{} = {set}", value.key);
        }
    }
    text
}

/// Writes the file anew: it has these zones once this returns, whatever happens afterwards.
///
/// # Errors
/// The system's; then it has those that it had.
pub fn save<'a>(folder: &Path, zones: impl IntoIterator<Item = &'a ConfiguredZone>) -> io::Result<()> {
    zone::regular::replace(&folder.join(FILE), text(zones).as_bytes())
}
