//! File with the names of the zones of the database, so that a start without the database knows them. Each
//! line is a zone that was added or removed, in JSON, and the checksum of that; the whole file is written
//! anew when all zones are known.
//!
//! The file is a copy of what the database has: nothing waits for it to be on the disk. A line that was cut
//! or changed is ignored and reported, unless it is the last one, which a crash may have cut.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ::database::ZoneId;
use serde::{Deserialize, Serialize};
use tracing::error;
use wire::{NameBuf, ViewName, ZoneName};
use wording::reason;

use super::KnownZone;
use telemetry::repeated::log_repeated;
use threads::sync::lock;

/// Name of the file in the state folder.
pub(super) const FILE: &str = "database-zones";

/// Largest file, in bytes: ten million zones, each added and removed.
const MAX_FILE: u64 = 2 << 30;

/// The end of a line: the checksum of its JSON, and the line break.
fn zone_file_sum(json: &[u8]) -> String {
    format!(" {}\n", zone::regular::checksum(json))
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    zone: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<String>,
    /// `None`: the zone was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    template: Option<String>,
}

impl Line {
    fn of(apex: &ZoneName, zone: Option<&KnownZone>) -> Vec<u8> {
        let line = Line {
            zone: apex.as_name().to_string(),
            view: apex.view().map(str::to_owned),
            id: zone.map(|zone| zone.id.0),
            template: zone.and_then(|zone| zone.template.clone()),
        };
        // Strings and numbers are always written.
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        let sum = zone_file_sum(&text);
        text.extend(sum.as_bytes());
        text
    }

    /// Reads a line without its line break. `None` if it was cut or changed.
    fn read(text: &[u8]) -> Option<(ZoneName, Line)> {
        let (json, sum) = text.split_at(text.rsplitn(2, |byte| *byte == b' ').last()?.len());
        let line = serde_json::from_slice::<Line>(json).ok()?;
        let is_whole = sum == zone_file_sum(json).trim_end().as_bytes();
        Some((line.apex()?, line)).filter(|_| is_whole)
    }

    fn apex(&self) -> Option<ZoneName> {
        let name: NameBuf = self.zone.parse().ok()?;
        let view = self.view.as_deref().map(str::parse::<ViewName>).transpose().ok()?;
        Some(ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref()))
    }
}

/// The file.
pub(super) struct ZoneList {
    path: PathBuf,
    /// The file, open for lines to append; `None` until the first line.
    file: Mutex<Option<File>>,
}

impl ZoneList {
    /// Reads the file of a state folder. Returns its zones; none without a file.
    pub(super) fn open(state: &Path) -> (ZoneList, HashMap<ZoneName, KnownZone>) {
        let path = state.join(FILE);
        let text = zone::regular::read(&path, MAX_FILE).unwrap_or_else(|fault| {
            if fault.kind() != io::ErrorKind::NotFound {
                let (file, why) = (path.display(), reason(&fault));
                error!("cannot read {file}: {why}; zones of the database are refused until it is reached");
            }
            Vec::new()
        });
        let mut zones = HashMap::new();
        let mut lines = text.split(|byte| *byte == b'\n').zip(1u64..).peekable();
        while let Some((line, number)) = lines.next() {
            let is_last = lines.peek().is_none();
            let Some((apex, line)) = Line::read(line) else {
                if !is_last {
                    let file = path.display();
                    error!(
                        "{file}:{number}: the line was cut or changed, and is ignored: until the database is reached, \
                         its zone may be refused"
                    );
                }
                continue;
            };
            match line.id {
                Some(id) => zones.insert(apex, KnownZone { id: ZoneId(id), template: line.template }),
                None => zones.remove(&apex),
            };
        }
        (ZoneList { path, file: Mutex::default() }, zones)
    }

    /// Writes the file anew with these zones.
    pub(super) fn replace(&self, zones: &HashMap<ZoneName, KnownZone>) {
        let text: Vec<u8> = zones.iter().flat_map(|(apex, zone)| Line::of(apex, Some(zone))).collect();
        let mut file = lock(&self.file);
        // The next line opens the new file.
        *file = None;
        self.report(zone::regular::replace(&self.path, &text));
    }

    /// Appends that a zone was added.
    pub(super) fn add(&self, apex: &ZoneName, zone: &KnownZone) {
        self.append(&Line::of(apex, Some(zone)));
    }

    /// Appends that a zone was removed.
    pub(super) fn remove(&self, apex: &ZoneName) {
        self.append(&Line::of(apex, None));
    }

    fn append(&self, line: &[u8]) {
        let mut file = lock(&self.file);
        let open = || {
            let mut options = OpenOptions::new();
            zone::regular::open_with(options.append(true).create(true).mode(0o600), &self.path)
        };
        let opened = match file.take() {
            Some(opened) => Ok(opened),
            None => open(),
        };
        let written = opened.and_then(|mut opened| {
            opened.write_all(line)?;
            *file = Some(opened);
            Ok(())
        });
        self.report(written);
    }

    fn report(&self, written: io::Result<()>) {
        if let Err(fault) = written {
            log_repeated!(
                warn,
                WARN,
                ("database list", ""),
                "{} cannot be written, a start without the database does not know all its zones: {}",
                self.path.display(),
                reason(&fault)
            );
        }
    }
}
