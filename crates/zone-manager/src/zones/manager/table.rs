//! What is known of all zones, shared with readers, and how requests about them end.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::managed::table::ZoneStates;
use crate::managed::{Apex, Origin, ZoneFault, ZoneStatus};
use crate::zones::membership::CatalogStatus;
use crate::zones::report::{HeldFolder, LostZones, RoundReport};
use crate::zones::resolve::RefusedFile;
use crate::zones::text::Meter;
use threads::sync::{lock, read};
use tokio::sync::oneshot;

/// Why a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadFault {
    /// The configuration cannot be used; what is wrong with it, for people.
    Configuration(Arc<str>),
    /// The configuration can be used, but would remove too many zones; it is not in force.
    HeldBack(LostZones),
    /// There is no such zone here.
    NoSuchZone,
    /// The zone's files are bad.
    Zone(Arc<ZoneFault>),
    /// The zone has no files: it is taken from its primaries.
    Secondary,
    /// The zone has no files: it is a catalog zone that is made here.
    Produced,
    /// There is such a zone already, of this origin.
    Served(Origin),
    /// The zone cannot be removed here: it is of this origin.
    NotAdded(Origin),
    /// There is no state folder.
    NoState,
    /// The state folder cannot be written; why, for people.
    Unsaved(Arc<str>),
    /// What was read could not be put into service, and what was served before stays; why, for people.
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
                "the zone has no file, it is taken from its primaries: `nomen ctl zone refresh` has them asked",
            ),
            Self::Produced => f.write_str(
                "the zone has no file, it is made here of the zones that it lists: `nomen ctl reload` looks at all of them",
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
                "zones that come at run time are kept in the state folder: set `state-dir` in [server]",
            ),
            Self::Unsaved(text) => write!(f, "the state folder cannot be written: {text}"),
            Self::NoSuchZone => f.write_str("there is no such zone here"),
            Self::Stopping => f.write_str("the server is stopping"),
        }
    }
}

impl std::error::Error for ReloadFault {}

/// How a request ended.
pub type Reloaded = Result<Arc<RoundReport>, ReloadFault>;
/// Receives how a request ended.
pub(super) type Asker = oneshot::Sender<Reloaded>;

/// How the last reload ended.
#[derive(Debug, Clone)]
pub struct LastReload {
    /// When it ended.
    pub at: SystemTime,
    /// What it did, or why it did nothing.
    pub result: Reloaded,
}

/// What is odd about folders of zones.
#[derive(Debug, Clone, Default)]
pub struct FolderFindings {
    /// Folders whose zones stay in service though their files are gone.
    pub held: Vec<HeldFolder>,
    /// Files whose names are no zone names.
    pub refused: Vec<RefusedFile>,
}

/// What is known of every zone, shared with readers.
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

    /// What is known of one zone.
    pub fn get(&self, apex: &Apex) -> Option<Arc<ZoneStatus>> {
        self.states.get(apex)
    }

    /// What is known of every zone, in no particular order.
    pub fn all(&self) -> Vec<Arc<ZoneStatus>> {
        read(&self.states.zones).values().map(|zone| Arc::clone(zone.state.status())).collect()
    }

    /// How many zones there are, for the service manager.
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

    /// What all loads together have done.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// What the last look into folders of zones found.
    pub fn folders(&self) -> FolderFindings {
        lock(&self.folders).clone()
    }

    /// What is known of catalog zones.
    pub fn catalogs(&self) -> Vec<CatalogStatus> {
        lock(&self.catalogs).clone()
    }

    /// How the last reload ended, if there was one.
    pub fn last_reload(&self) -> Option<LastReload> {
        lock(&self.last_reload).clone()
    }
}
