//! How far a node is: which changes of which database it has handed on. A file keeps it from one run to the
//! next, so that a start finds out that the database has lost changes since.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::connect::Timeline;
use crate::interface::ZoneId;

/// Name of the file.
const FILE: &str = "database-position";
/// Most bytes of it.
const MAX_FILE: u64 = 4096;

/// A place in the changes of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Which database it is; empty before the first connection.
    pub(crate) cluster: String,
    /// The number of the last change that was handed on.
    pub(crate) number: i64,
    /// Its tag, if it was seen.
    pub(crate) tag: Option<i64>,
    /// The newest timeline of its server.
    #[serde(default)]
    pub(crate) timeline: Option<Timeline>,
}

/// How far this node is, kept from one connection to the next.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) at: Position,
    /// Zones of the database.
    pub(crate) zones: HashSet<ZoneId>,
    /// Those that cannot be served.
    pub(crate) unfit: HashSet<ZoneId>,
    file: Option<PathBuf>,
    /// What the file has.
    saved: Position,
}

impl Progress {
    /// Reads the file in this folder. Without one, or with one that is damaged, which is logged, nothing is
    /// known of earlier runs.
    pub(crate) fn open(folder: Option<&Path>) -> Progress {
        let file = folder.map(|folder| folder.join(FILE));
        let saved = file.as_deref().map_or_else(Position::default, |file| {
            read(file).unwrap_or_else(|fault| {
                if fault.kind() != io::ErrorKind::NotFound {
                    let (file, why) = (file.display(), wording::reason(&fault));
                    warn!(
                        "cannot read {file}: {why}; changes that the database has lost since the last run are not \
                         found, and all zones are read again"
                    );
                }
                Position::default()
            })
        });
        Progress { at: saved.clone(), file, saved, ..Progress::default() }
    }

    /// Writes the file, if there is something new.
    pub(crate) fn save(&mut self) {
        let Some(file) = self.file.as_deref().filter(|_| self.saved != self.at) else { return };
        // Text and numbers are always written.
        let text = serde_json::to_vec(&self.at).unwrap_or_default();
        if let Err(fault) = zone::regular::replace_with_checksum(file, &text) {
            warn!("{} cannot be written: {}", file.display(), wording::reason(&fault));
        }
        // A file that cannot be written is tried again with the next change.
        self.saved = self.at.clone();
    }
}

/// Reads the file.
fn read(file: &Path) -> io::Result<Position> {
    Ok(serde_json::from_slice(&zone::regular::read_with_checksum(file, MAX_FILE)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_is_where_the_last_one_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut progress = Progress::open(Some(folder.path()));
        assert_eq!(progress.at, Position::default());
        let timeline = Timeline { system: "s".into(), number: 2 };
        progress.at = Position { cluster: "c".into(), number: 7, tag: Some(-3), timeline: Some(timeline) };
        progress.save();
        assert_eq!(Progress::open(Some(folder.path())).at, progress.at);
        // A number that was changed on the disk must not pass for that of the last run.
        let whole = std::fs::read_to_string(folder.path().join(FILE)).expect("read");
        for text in [whole.replace(":7", ":6"), whole[..whole.len() / 2].to_owned(), "{".into()] {
            assert_ne!(text, whole);
            std::fs::write(folder.path().join(FILE), text).expect("written");
            assert_eq!(Progress::open(Some(folder.path())).at, Position::default());
        }
    }
}
