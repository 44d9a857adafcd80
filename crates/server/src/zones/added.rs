//! The file of the zones that were added at run time: `added.toml` in the state folder, `[[zone]]` blocks as
//! in the configuration, which is read with it. A file that is damaged is a fault of the configuration.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
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
    replace(&folder.join(FILE), text(zones).as_bytes())
}

/// Writes a file of the state folder beside the old one, and puts it in its place when it is on disk.
///
/// # Errors
/// The system's; then the old one is still there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = zone::regular::open_with(&mut options, Path::new(&beside))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
