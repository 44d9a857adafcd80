//! The table of all zones, shared with readers, and results of requests.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use wire::ZoneName;

use crate::managed::ZoneStatus;
use crate::managed::table::ZoneStates;
use crate::zones::membership::CatalogStatus;
use crate::zones::report::{HeldFolder, LostZones, RoundReport};
use crate::zones::text::Meter;
use threads::sync::{lock, read};
use tokio::sync::oneshot;
use zone_plan::{Origin, RefusedFile, ZoneFault};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadFault {
    /// The configuration is invalid, for these reasons, as text for people.
    Configuration(Arc<str>),
    /// The configuration is valid, but would remove too many zones; it is not applied.
    HeldBack(LostZones),
    /// The zone does not exist here.
    NoSuchZone,
    /// The zone's files are bad.
    Zone(Arc<ZoneFault>),
    /// The zone has no files: it is a secondary zone.
    Secondary,
    /// The zone has no files: it is a produced catalog zone.
    Produced,
    /// The zone has no files: it is in the database.
    OfDatabase,
    /// The zone exists already, with this origin.
    Served(Origin),
    /// The zone cannot be removed by request: it has this origin.
    NotAdded(Origin),
    /// There is no state folder.
    NoState,
    /// The state folder cannot be written, for this reason, as text for people.
    Unsaved(Arc<str>),
    /// The versions read could not be put into service, for this reason, as text for people; those before
    /// stay.
    Unpublished(Arc<str>),
    /// The server is stopping.
    Stopping,
}

impl fmt::Display for ReloadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(text) => f.write_str(text),
            Self::HeldBack(lost) => lost.fmt(f),
            Self::Zone(fault) => fault.fmt(f),
            Self::Unpublished(text) => write!(f, "what was served before stays in service: {text}"),
            Self::Secondary => f.write_str(
                "the zone has no file, it comes from its primaries: `nomen ctl zone refresh` asks them",
            ),
            Self::Produced => {
                f.write_str("the zone has no file, nomen generates it: `nomen ctl reload` updates it")
            }
            Self::OfDatabase => f.write_str(
                "the zone has no file, it is in the database: `nomen ctl zone retransfer` reads it again",
            ),
            Self::Served(origin) => write!(f, "there is such a zone here already ({origin})"),
            Self::NotAdded(Origin::Configuration) => {
                f.write_str("the zone was not added at run time: remove it from the configuration")
            }
            Self::NotAdded(Origin::Folder) => {
                f.write_str("the zone was not added at run time: remove its file and reload")
            }
            Self::NotAdded(origin) => write!(f, "the zone was not added at run time ({origin})"),
            Self::NoState => f.write_str(
                "zones added at run time are stored in the state folder: set `state-dir` in [server]",
            ),
            Self::Unsaved(text) => write!(f, "the state folder cannot be written: {text}"),
            Self::NoSuchZone => f.write_str("there is no such zone here"),
            Self::Stopping => f.write_str("the server is stopping"),
        }
    }
}

impl std::error::Error for ReloadFault {}

/// Result of a request.
pub type Reloaded = Result<Arc<RoundReport>, ReloadFault>;
/// Receives the result of a request.
pub(super) type Asker = oneshot::Sender<Reloaded>;

/// Result of the last reload.
#[derive(Debug, Clone)]
pub struct LastReload {
    /// When it ended.
    pub at: SystemTime,
    /// Its report, or why it failed.
    pub result: Reloaded,
}

/// Findings about folders of zones.
#[derive(Debug, Clone, Default)]
pub struct FolderFindings {
    /// Folders whose zones stay in service although their files are gone.
    pub held: Vec<HeldFolder>,
    /// Files whose names contain no valid zone name.
    pub refused: Vec<RefusedFile>,
}

/// The states of all zones and the results of reloads, shared with readers.
#[derive(Default)]
pub struct ZoneTable {
    pub(in crate::zones) states: Arc<ZoneStates>,
    pub(super) folders: Mutex<FolderFindings>,
    pub(super) last_reload: Mutex<Option<LastReload>>,
    pub(super) catalogs: Mutex<Vec<CatalogStatus>>,
    pub(super) meter: Arc<Meter>,
}

impl ZoneTable {
    /// The states of all zones.
    pub fn states(&self) -> &Arc<ZoneStates> {
        &self.states
    }

    /// Returns the status of one zone.
    pub fn get(&self, apex: &ZoneName) -> Option<Arc<ZoneStatus>> {
        self.states.get(apex)
    }

    /// Returns the status of all zones, in no particular order.
    pub fn all(&self) -> Vec<Arc<ZoneStatus>> {
        read(&self.states.zones).values().map(|zone| Arc::clone(zone.state.status())).collect()
    }

    /// Returns the number of zones as text, for the service manager.
    pub fn in_words(&self) -> String {
        let states = read(&self.states.zones);
        let bad = states.values().filter(|zone| zone.state.status().fault.is_some()).count();
        let held: usize = lock(&self.folders).held.iter().map(|held| held.gone).sum();
        let mut words = format!("serving {} zones", states.len());
        for (count, what) in [(bad, "bad"), (held, "without files")] {
            if count > 0 {
                words += &format!(", {count} {what}");
            }
        }
        words
    }

    /// Counters of all loads.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the findings of the last reload about folders of zones.
    pub fn folders(&self) -> FolderFindings {
        lock(&self.folders).clone()
    }

    /// Returns the status of all catalog zones.
    pub fn catalogs(&self) -> Vec<CatalogStatus> {
        lock(&self.catalogs).clone()
    }

    /// Returns the result of the last reload, if there was one.
    pub fn last_reload(&self) -> Option<LastReload> {
        lock(&self.last_reload).clone()
    }
}
