//! What a reload did and found, for its requester.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use wire::{Name, Serial};

use super::resolve::RefusedFile;
use crate::changes::{TakenFile, TakenStep};
use crate::managed::state::VersionStep;
use crate::managed::{Apex, ZoneFault};

/// Zones that are named one by one; of more than these only the numbers are reported.
const NAMED: usize = 1000;

/// What a round did, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Zones that are served or should be.
    pub zones: usize,
    /// Zones whose files were read with success.
    pub loaded: usize,
    /// Zones that look unchanged and were not read.
    pub unchanged: usize,
    /// Zones whose files are bad: served in their last good version, if there is one.
    pub failed: usize,
    /// Files in folders of zones whose names are no zone names.
    pub refused: usize,
    /// Zones that are no longer served.
    pub removed: usize,
    /// Zones that stay in service though their files are gone, because they are too many.
    pub held_back: usize,
    /// Zones whose files were edited and do not go into service, since updates have changed the zones.
    pub not_taken: usize,
    /// Time it took, in milliseconds.
    pub milliseconds: u64,
}

/// What a round did, with the names of zones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RoundReport {
    /// In numbers.
    #[serde(flatten)]
    pub summary: Summary,
    /// Zones that went into service in another version, as far as named.
    pub changed: Vec<ChangedZone>,
    /// What is bad, as far as named.
    pub faults: Vec<BadFile>,
    /// Folders whose zones were not removed.
    pub held: Vec<HeldFolder>,
    /// Records that updates had made and that the zone's file does not have, as far as listed: they are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Such records beyond those.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_dropped: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A zone that went into service in another version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedZone {
    /// Its name.
    pub zone: String,
    /// The serial number before, if a version was served.
    pub from: Option<u32>,
    /// The serial number now.
    pub to: u32,
    /// Records now.
    pub records: u64,
    /// Time that reading took, in milliseconds.
    pub milliseconds: u64,
}

/// A file that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadFile {
    /// The zone, if its name is known.
    pub zone: Option<String>,
    /// The file of the first fault.
    pub file: String,
    /// Its line; 0 if unknown.
    pub line: u32,
    /// Its column; 0 if unknown.
    pub column: u32,
    /// The first fault.
    pub fault: String,
}

/// A folder with so few of its zones left that none was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldFolder {
    /// The folder.
    pub folder: PathBuf,
    /// Zones whose files are gone.
    pub gone: usize,
    /// Zones that were served from it.
    pub of: usize,
}

impl fmt::Display for HeldFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, gone, of } = self;
        write!(
            f,
            "folder {}: no files any more for {gone} of {of} zones, which is more than `max-removed`: all of them stay \
             in service; `nomen ctl reload --force` removes them",
            folder.display()
        )
    }
}

/// Zones that another configuration no longer asks for, and that are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostZones {
    /// Zones that would be removed.
    pub gone: usize,
    /// Zones there are.
    pub of: usize,
}

impl fmt::Display for LostZones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gone, of } = self;
        write!(f, "the configuration would remove {gone} of {of} zones, ")?;
        f.write_str(match gone == of {
            true => "and leave none",
            false => "which is more than `max-removed` of [server]",
        })?;
        f.write_str(
            ": nothing was changed, all zones stay in service; `nomen ctl reload --force` removes them",
        )
    }
}

fn milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

fn name(apex: &Apex) -> String {
    Name::from_wire(apex).unwrap_or(Name::ROOT).to_string()
}

impl RoundReport {
    /// Notes that a zone goes into service in another version.
    pub(super) fn changed(&mut self, apex: &Apex, step: VersionStep) {
        if self.changed.len() < NAMED {
            let VersionStep { from, to, records, took } = step;
            let milliseconds = milliseconds(took);
            let from = from.map(|serial| serial.0);
            self.changed.push(ChangedZone { zone: name(apex), from, to: to.0, records, milliseconds });
        }
    }

    /// Notes that what a zone's file holds was taken, though updates had changed the zone.
    pub fn taken(&mut self, apex: &Apex, taken: TakenFile) {
        let TakenStep { from, to, records, .. } = taken.step;
        (self.dropped, self.more_dropped) = (taken.dropped, taken.more_dropped);
        let milliseconds = self.summary.milliseconds;
        self.changed.push(ChangedZone {
            zone: name(apex),
            from: Some(from.0),
            to: to.0,
            records,
            milliseconds,
        });
    }

    /// Notes that a zone is bad.
    pub(super) fn bad(&mut self, apex: &Apex, fault: &ZoneFault) {
        if self.faults.len() < NAMED {
            let ZoneFault { file, line, column, message, .. } = fault;
            let (file, fault) = (file.to_string(), message.clone());
            self.faults.push(BadFile { zone: Some(name(apex)), file, line: *line, column: *column, fault });
        }
    }

    /// Notes that the file of a zone, with this serial number, does not go into service.
    pub(super) fn not_taken(&mut self, apex: &Apex, serial: Serial) {
        self.summary.not_taken += 1;
        if self.faults.len() < NAMED {
            let zone = name(apex);
            let fault = format!(
                "its file, with serial {serial}, is not taken, since updates have changed the zone: \
                 `nomen ctl zone reload {zone} --force` takes what it says"
            );
            self.faults.push(BadFile { zone: Some(zone), file: String::new(), line: 0, column: 0, fault });
        }
    }

    /// Notes that a file is no zone.
    pub(super) fn refused(&mut self, refused: &RefusedFile) {
        self.summary.refused += 1;
        if self.faults.len() < NAMED {
            let (file, fault) = (refused.path.display().to_string(), refused.fault.to_string());
            self.faults.push(BadFile { zone: None, file, line: 0, column: 0, fault });
        }
    }

    /// Notes that zones stay though their files are gone.
    pub(super) fn held(&mut self, held: HeldFolder) {
        self.summary.held_back += held.gone;
        self.held.push(held);
    }

    /// Notes how long all of it took.
    pub(super) fn ended(&mut self, took: Duration) {
        self.summary.milliseconds = milliseconds(took);
    }

    /// What an operator has to see to, in one line; `None` if all is well.
    pub fn complaint(&self) -> Option<String> {
        self.summary.complaint()
    }
}

impl Summary {
    /// What an operator has to see to, in one line; `None` if all is well.
    pub fn complaint(&self) -> Option<String> {
        let Summary { zones, failed, refused, held_back, not_taken, .. } = *self;
        let parts = [
            (failed, format!("{failed} of {zones} zones are bad")),
            (refused, format!("{refused} files have names that are no zone names")),
            (held_back, format!("{held_back} zones without files are still served")),
            (not_taken, format!("{not_taken} zones do not take their edited files")),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|(n, _)| *n > 0).map(|(_, text)| text).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
