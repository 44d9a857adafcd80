//! File of the zones added at run time: `added.toml` in the state folder, with `[[zone]]` blocks as in the
//! configuration, with which it is read. A damaged file is a configuration fault.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, absolute};

use config::table::Keys;
use config::zones::ConfiguredZone;

/// Name of the file.
pub const FILE: &str = "added.toml";

const HEAD: &str = "# Zones that were added while nomen ran, by `nomen ctl zone add` or by a program; nomen \
                    writes this file anew with each such zone.\n";

/// Returns the text of the file with these zones, in this folder.
fn text<'a>(folder: &Path, zones: impl IntoIterator<Item = &'a ConfiguredZone>) -> String {
    let folder = absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut text = HEAD.to_owned();
    zones.into_iter().for_each(|zone| text += &block(&folder, zone));
    text
}

/// Returns the `[[zone]]` block of a zone. The path of a file in the folder begins there, so that the folder
/// can be moved.
fn block(folder: &Path, zone: &ConfiguredZone) -> String {
    let within = |file: &Path| Some(absolute(file).ok()?.strip_prefix(folder).ok()?.to_owned());
    let within = zone.file.value.as_deref().and_then(within);
    let mut moved = zone.clone();
    moved.file.value = within.or(moved.file.value);
    let zone = &moved;
    let mut text = "\n[[zone]]\n".to_owned();
    for value in zone.values() {
        if let Some(set) = value.value {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} = {set}", value.key);
        }
    }
    text
}

/// Writes the file with these zones. When this returns, the file has them, even after a crash.
///
/// # Errors
/// Those of the system; then the file has the zones that it had.
pub fn save<'a>(folder: &Path, zones: impl IntoIterator<Item = &'a ConfiguredZone>) -> io::Result<()> {
    zone::regular::replace(&folder.join(FILE), text(folder, zones).as_bytes())
}
