//! Report of a reload, for its requester.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use wire::{Serial, ZoneName};
use zone_plan::{RefusedFile, ZoneFault};

use crate::changes::{TakenFile, TakenStep};
use crate::managed::state::VersionStep;

/// Most zones that are reported by name; of the others only the number is reported.
const MAX_NAMED_ZONES: usize = 1000;

/// Figures of a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Zones that are served or should be.
    pub zones: usize,
    /// Zones whose files were read with success.
    pub loaded: usize,
    /// Zones that were not read because their files' stamps are unchanged.
    pub unchanged: usize,
    /// Zones with bad files; their last good version is served, if any.
    pub failed: usize,
    /// Files in folders of zones whose names contain no valid zone name.
    pub refused: usize,
    /// Zones that are no longer served.
    pub removed: usize,
    /// Zones that stay in service although their files are gone, because they are too many.
    pub held_back: usize,
    /// Zones whose edited files do not go into service because updates have changed the zones.
    pub not_taken: usize,
    /// Duration in milliseconds.
    pub milliseconds: u64,
}

/// Report of a round, with names of zones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RoundReport {
    /// The figures.
    #[serde(flatten)]
    pub summary: Summary,
    /// Zones of which another version went into service, as far as named.
    pub changed: Vec<ChangedZone>,
    /// Faults, as far as named.
    pub faults: Vec<BadFile>,
    /// Folders whose zones were not removed.
    pub held: Vec<HeldFolder>,
    /// Records made by updates that were removed because the zone's file does not have them, as far as
    /// listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Number of such records that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_dropped: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A zone of which another version went into service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedZone {
    /// Its name.
    pub zone: String,
    /// The serial number before, if a version was in service.
    pub from: Option<u32>,
    /// The serial number now.
    pub to: u32,
    /// Number of records now.
    pub records: u64,
    /// Duration of reading, in milliseconds.
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

/// A folder none of whose zones were removed because too many files are gone.
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
            "folder {}: no files any more for {gone} of {of} zones, which is more than `max-removed`: all of \
             them stay in service; `nomen ctl reload --force` removes them",
            folder.display()
        )
    }
}

/// Zones that a configuration would remove, if they are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostZones {
    /// Zones that would be removed.
    pub gone: usize,
    /// Number of zones in service.
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

fn name(apex: &ZoneName) -> String {
    apex.to_string()
}

impl RoundReport {
    /// Records that another version of a zone goes into service.
    pub(super) fn changed(&mut self, apex: &ZoneName, step: VersionStep) {
        if self.changed.len() < MAX_NAMED_ZONES {
            let VersionStep { from, to, records, took } = step;
            let milliseconds = milliseconds(took);
            let from = from.map(|serial| serial.0);
            self.changed.push(ChangedZone { zone: name(apex), from, to: to.0, records, milliseconds });
        }
    }

    /// Records that a zone was changed to its file's version although updates had changed it.
    pub fn taken(&mut self, apex: &ZoneName, taken: TakenFile) {
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

    /// Records that a zone is bad.
    pub(super) fn bad(&mut self, apex: &ZoneName, fault: &ZoneFault) {
        if self.faults.len() < MAX_NAMED_ZONES {
            let ZoneFault { file, line, column, message, .. } = fault;
            let (file, fault) = (file.to_string(), message.clone());
            self.faults.push(BadFile { zone: Some(name(apex)), file, line: *line, column: *column, fault });
        }
    }

    /// Records that the file of a zone, with this serial number, does not go into service.
    pub(super) fn not_taken(&mut self, apex: &ZoneName, serial: Serial) {
        self.summary.not_taken += 1;
        if self.faults.len() < MAX_NAMED_ZONES {
            let zone = name(apex);
            let fault = format!(
                "its file, with serial {serial}, is not taken, since updates have changed the zone: \
                 `nomen ctl zone reload {zone} --force` applies it"
            );
            self.faults.push(BadFile { zone: Some(zone), file: String::new(), line: 0, column: 0, fault });
        }
    }

    /// Records that a file is not a zone.
    pub(super) fn refused(&mut self, refused: &RefusedFile) {
        self.summary.refused += 1;
        if self.faults.len() < MAX_NAMED_ZONES {
            let (file, fault) = (refused.path.display().to_string(), refused.fault.to_string());
            self.faults.push(BadFile { zone: None, file, line: 0, column: 0, fault });
        }
    }

    /// Records that zones stay although their files are gone.
    pub(super) fn held(&mut self, held: HeldFolder) {
        self.summary.held_back += held.gone;
        self.held.push(held);
    }

    /// Records the duration.
    pub(super) fn ended(&mut self, took: Duration) {
        self.summary.milliseconds = milliseconds(took);
    }

    /// Returns what the operator should fix, in one line; `None` if all is well.
    pub fn complaint(&self) -> Option<String> {
        self.summary.complaint()
    }
}

impl Summary {
    /// Returns what the operator should fix, in one line; `None` if all is well.
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
