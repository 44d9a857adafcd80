//! Notes of zones that are kept from one run to the next, in a file of the state folder: whether a zone is
//! frozen, and which version of its zone file is known, to tell an edit from a write by nomen.
//!
//! The file has a line of JSON for each note; the last one of a zone counts. It is rewritten with one line
//! per zone at the start and when it has grown. A line that a crash has torn is ignored.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::{NameBuf, ViewName, ZoneName};
use zone::{Stamp, regular};

use zone::regular::replace;

/// The name of the file in the state folder.
const FILE: &str = "zone-notes";
/// Least number of outdated lines before the file is rewritten.
const MIN_OUTDATED_LINES: usize = 1000;

/// The note of one zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ZoneNote {
    /// The zone takes no updates.
    #[serde(default)]
    pub frozen: bool,
    /// Updates or transactions have changed the zone, which is signed here, since its file was taken.
    #[serde(default)]
    pub changed: bool,
    /// The largest TTLs of DNSKEY and of all other RRsets of versions that caches may have, in seconds, of a
    /// zone that is signed here.
    #[serde(default)]
    pub ttls: Option<(u32, u32)>,
    /// The zone file as last read or written. While it is being replaced there are two entries: the new one
    /// and the old.
    #[serde(default)]
    pub files: Vec<KnownFile>,
}

/// A version of a zone file. The change time (ctime) is left out because renaming changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Inode number.
    pub inode: u64,
    /// Modification time: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// The serial number of the zone in it.
    pub serial: u32,
}

impl KnownFile {
    /// Returns the version of the file at a path.
    pub(super) fn new(path: &Path, stamp: Stamp, serial: u32) -> Self {
        let Stamp { size, inode, modified, changed: _ } = stamp;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        KnownFile { path, size, inode, modified, serial }
    }

    /// Whether the file at a path is this version.
    pub(super) fn is_at(&self, path: &Path, stamp: Stamp) -> bool {
        *self == KnownFile::new(path, stamp, self.serial)
    }
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    zone: String,
    #[serde(flatten)]
    note: ZoneNote,
}

/// Notes of all zones.
#[derive(Debug)]
pub(super) struct Notes {
    path: PathBuf,
    zones: HashMap<ZoneName, ZoneNote>,
    /// Number of lines in the file.
    lines: usize,
}

impl Notes {
    /// Reads the file of a state folder, if it exists.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(state: &Path) -> io::Result<Notes> {
        let path = state.join(FILE);
        let bytes = match regular::read(&path, u64::MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let (mut zones, mut lines) = (HashMap::new(), 0);
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines += 1;
            let Ok(Line { zone, note }) = serde_json::from_slice(line) else { continue };
            let Some(apex) = zone_of(&zone) else { continue };
            match note == ZoneNote::default() {
                true => drop(zones.remove(&apex)),
                false => drop(zones.insert(apex, note)),
            }
        }
        let mut notes = Notes { path, zones, lines };
        // The next line would be appended to a torn one.
        if lines > notes.zones.len() || bytes.last().is_some_and(|last| *last != b'\n') {
            notes.write_anew()?;
        }
        Ok(notes)
    }

    /// Returns the note of a zone.
    pub(super) fn get(&self, apex: &ZoneName) -> Option<&ZoneNote> {
        self.zones.get(apex)
    }

    /// The zones that are frozen.
    pub(super) fn frozen(&self) -> impl Iterator<Item = &ZoneName> {
        self.zones.iter().filter(|(_, note)| note.frozen).map(|(apex, _)| apex)
    }

    /// Changes the note of a zone, on disk first.
    ///
    /// # Errors
    /// Those of the system; then nothing has changed.
    pub(super) fn change(&mut self, apex: &ZoneName, change: impl FnOnce(&mut ZoneNote)) -> io::Result<()> {
        let mut note = self.zones.get(apex).cloned().unwrap_or_default();
        change(&mut note);
        if self.zones.get(apex) == Some(&note) {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        let mut file = regular::open_with(&mut options, &self.path)?;
        let before = file.metadata()?.len();
        let appended = file.write_all(&line(apex, &note)?).and_then(|()| file.sync_data());
        if let Err(error) = appended {
            // A partial line would spoil the next one.
            let _ = file.set_len(before);
            return Err(error);
        }
        self.zones.insert(apex.clone(), note);
        self.lines += 1;
        if self.lines > 2 * self.zones.len() + MIN_OUTDATED_LINES {
            self.write_anew()?;
        }
        Ok(())
    }

    /// Forgets a zone, on disk first.
    ///
    /// # Errors
    /// Those of the system; then nothing has changed.
    pub(super) fn forget(&mut self, apex: &ZoneName) -> io::Result<()> {
        if self.zones.contains_key(apex) {
            self.change(apex, |note| *note = ZoneNote::default())?;
            self.zones.remove(apex);
        }
        Ok(())
    }

    fn write_anew(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        for (apex, note) in &self.zones {
            text.extend(line(apex, note)?);
        }
        replace(&self.path, &text)?;
        self.lines = self.zones.len();
        Ok(())
    }
}

/// Returns the zone of its text in a line.
fn zone_of(text: &str) -> Option<ZoneName> {
    let (name, view) = ViewName::split(text).ok()?;
    let name = name.parse::<NameBuf>().ok()?;
    Some(ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref()))
}

fn line(apex: &ZoneName, note: &ZoneNote) -> io::Result<Vec<u8>> {
    let zone = apex.to_string();
    let mut line = serde_json::to_vec(&Line { zone, note: note.clone() })?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apex(name: &str) -> ZoneName {
        zone_of(name).expect("a zone")
    }

    #[test]
    fn what_was_noted_last_is_there_in_the_next_run_whatever_a_crash_tore() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        let known = KnownFile { path: "a.zone".into(), size: 1, inode: 2, modified: (3, 4), serial: 5 };
        let mut notes = Notes::open(folder.path()).expect("a folder");
        notes.change(&apex(r"a\.b.example."), |note| note.files = vec![known.clone()]).expect("written");
        for frozen in [true, false, true] {
            notes.change(&apex("example."), |note| note.frozen = frozen).expect("written");
        }
        let lines = || std::fs::read_to_string(&file).expect("the file").lines().count();
        assert_eq!(lines(), 4);
        notes.change(&apex("example."), |note| note.frozen = true).expect("nothing to do");
        assert_eq!(lines(), 4);
        let mut torn = OpenOptions::new().append(true).open(&file).expect("the file");
        torn.write_all(br#"{"zone":"example.","froz"#).expect("written");
        let mut notes = Notes::open(folder.path()).expect("a folder");
        assert_eq!(lines(), 2, "one for each zone");
        assert_eq!(notes.get(&apex(r"a\.b.example.")).expect("a note").files, [known]);
        assert_eq!(notes.frozen().collect::<Vec<_>>(), [&apex("example.")]);
        notes.change(&apex("example.@inside"), |note| note.frozen = true).expect("written");
        let inside = Notes::open(folder.path()).expect("a folder");
        assert!(inside.get(&apex("example.@inside")).is_some_and(|note| note.frozen));
        notes.change(&apex("example.@inside"), |note| note.frozen = false).expect("written");
        notes.change(&apex("example."), |note| note.frozen = false).expect("written");
        assert_eq!(Notes::open(folder.path()).expect("a folder").frozen().count(), 0);
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut notes = Notes::open(folder.path()).expect("a folder");
        for n in 0..MIN_OUTDATED_LINES + 10 {
            notes.change(&apex("example."), |note| note.frozen = n % 2 == 0).expect("written");
        }
        let text = std::fs::read_to_string(folder.path().join(FILE)).expect("the file");
        assert!(text.lines().count() < 20, "{}", text.lines().count());
    }
}
