//! One zone that the server manages: its name and its entry in the configuration, its state, and the messages
//! by which its sources report new versions.
//!
//! | file | holds |
//! |---|---|
//! | `state` | the state machine of one zone: events in, actions out |
//! | `table` | the states of all zones |
//! | `examination` | result of examining a version in service |
//! | `online` | what signs the answers of zones |
//! | `publishing` | messages to the thread that puts versions into service |

pub mod examination;
pub mod online;
pub mod publishing;
pub mod state;
pub mod table;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use examination::Examination;
use zone::{SourceFile, Stamp, Zone};
use zone_plan::{ZoneFault, ZoneSpec, ZoneText};

/// A file's path with the metadata that tells its versions apart without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    path: Arc<Path>,
    /// `None` if the metadata could not be read.
    seen: Option<Stamp>,
}

impl FileStamp {
    /// Reads the metadata of a file.
    pub fn of(path: impl Into<Arc<Path>>) -> Self {
        let path = path.into();
        Self { seen: Stamp::of(&path).ok(), path }
    }

    /// Returns the stamp of a file as it was when it was opened for reading.
    pub fn of_source(source: &SourceFile) -> Self {
        Self { path: source.path.as_path().into(), seen: Some(source.stamp) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its metadata, if they could be read.
    pub fn stamp(&self) -> Option<Stamp> {
        self.seen
    }

    /// Whether the metadata of the file are unchanged. Returns false if they cannot be read.
    pub fn is_current(&self) -> bool {
        self.seen.is_some() && Stamp::of(&self.path).ok() == self.seen
    }
}

/// Status of one zone.
#[derive(Debug, Clone)]
pub struct ZoneStatus {
    /// The zone's entry in the configuration.
    pub spec: ZoneSpec,
    /// The version in service: the last good one. `None`: queries get SERVFAIL.
    pub zone: Option<Arc<Zone>>,
    /// The version that is not served because no primary has confirmed it for longer than its expire time.
    pub expired: Option<Arc<Zone>>,
    /// When the version in service was read, received or made.
    pub loaded: Option<SystemTime>,
    /// Why the newest version of the file is not in service.
    pub fault: Option<Arc<ZoneFault>>,
    /// Warnings about the version in service.
    pub warnings: usize,
    /// Result of examining that version; `None` before that.
    pub examined: Option<Arc<Examination>>,
}

impl ZoneStatus {
    /// All values of [`word`](Self::word).
    pub const WORDS: [&'static str; 5] = ["ok", "old", "failed", "empty", "expired"];

    /// Whether answers can carry signatures and proofs: those of the version in service, or ones that are
    /// made.
    pub fn is_signed(&self) -> bool {
        let is_signed = |zone: &Arc<Zone>| zone.is_signed() || self.spec.signed && zone.is_chainless();
        self.zone.as_ref().is_some_and(is_signed)
    }

    /// One-word form for listings.
    pub fn word(&self) -> &'static str {
        match (&self.zone, &self.fault) {
            (None, _) if self.expired.is_some() => "expired",
            (None, _) if matches!(self.spec.text, ZoneText::Primaries | ZoneText::Database) => "empty",
            (Some(_), None) => "ok",
            (Some(_), Some(_)) => "old",
            (None, _) => "failed",
        }
    }
}
