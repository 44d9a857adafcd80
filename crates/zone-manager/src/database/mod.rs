//! Zones of a database on this node: which ones there are, and their versions in the state folder. The
//! database has the truth about them. A node serves from its own versions while the database cannot be
//! reached, and catches up afterwards.
//!
//! | file | holds |
//! |---|---|
//! | `list` | the file with the names of the zones |
//! | `connection` | the settings of the connection, from the configuration |
//! | [`sections`] | sections of the configuration that the database has |
//!
//! The versions here are copies: a damaged one is read from the database again.

mod connection;
mod list;
pub mod sections;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, RwLock};

use ::database::{Database, KeySetVersion, ListedZone, OnCommit, ZoneCommit, ZoneId, ZoneKeySet};
use journal::{Disk, History, StoreFault};
use tracing::warn;
use wire::ZoneName;
use wire::hash::HashKey;
use zone::Zone;
use zone::store::ChangeSet;

pub use connection::connection;

use crate::stores::{HistoryStart, StoreOrder, ZoneStores};
use list::ZoneList;
use telemetry::repeated::log_repeated;
use threads::background::Background;
use threads::sync::{read, write};

/// Folder of the stores in the state folder.
pub const FOLDER: &str = "database";

/// What has the truth about zones: a database, or what a test has in its place.
pub trait ZoneTruth: Send + Sync {
    /// Commits a change of a zone.
    fn commit(&self, commit: ZoneCommit, end: OnCommit);
    /// Has the whole zone sent again.
    fn fetch(&self, zone: ZoneId, apex: ZoneName);
}

impl ZoneTruth for Database {
    fn commit(&self, commit: ZoneCommit, end: OnCommit) {
        Database::commit(self, commit, end);
    }

    fn fetch(&self, zone: ZoneId, apex: ZoneName) {
        Database::fetch(self, zone, apex);
    }
}

/// The zones of a database on this node.
pub struct ZoneDatabase {
    stores: ZoneStores,
    zones: RwLock<HashMap<ZoneName, KnownZone>>,
    list: ZoneList,
    /// Number of zones that the database does not list any more, and that are held back.
    held: AtomicUsize,
    /// The keys of zones that the nodes sign.
    keys: RwLock<HashMap<ZoneId, Arc<ZoneKeySet>>>,
    /// Whether they were read since the start.
    keys_known: AtomicBool,
    /// Whether this node maintains them.
    signs: AtomicBool,
    truth: OnceLock<Arc<dyn ZoneTruth>>,
    /// The connection, for operators.
    database: OnceLock<Arc<Database>>,
}

/// What is known of a zone beside its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownZone {
    /// Its number in the database.
    pub id: ZoneId,
    /// The template that its keys are from; `None`: the default one.
    pub template: Option<String>,
}

impl From<&ListedZone> for KnownZone {
    fn from(zone: &ListedZone) -> Self {
        KnownZone { id: zone.id, template: zone.template.clone() }
    }
}

impl ZoneDatabase {
    /// Opens what the state folder has of the zones.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(
        disk: Arc<dyn Disk>,
        state: &Path,
        background: &Arc<Background>,
    ) -> Result<Arc<ZoneDatabase>, StoreFault> {
        Self::open_with_list(disk, state, state, background)
    }

    /// As [`open`](Self::open), with the list of zones in another folder, on the real disk.
    pub(crate) fn open_with_list(
        disk: Arc<dyn Disk>,
        state: &Path,
        of_list: &Path,
        background: &Arc<Background>,
    ) -> Result<Arc<ZoneDatabase>, StoreFault> {
        let stores = ZoneStores::open(disk, state, FOLDER, Arc::clone(background))?;
        let (list, zones) = ZoneList::open(of_list);
        Ok(Arc::new(ZoneDatabase {
            stores,
            zones: RwLock::new(zones),
            list,
            held: AtomicUsize::new(0),
            keys: RwLock::default(),
            keys_known: AtomicBool::new(false),
            signs: AtomicBool::new(false),
            truth: OnceLock::new(),
            database: OnceLock::new(),
        }))
    }

    /// Sets the connection, once it was started.
    pub fn connect(&self, database: Arc<Database>) {
        self.truth.get_or_init(|| Arc::clone(&database) as Arc<dyn ZoneTruth>);
        self.database.get_or_init(|| database);
    }

    /// Sets what has the truth about the zones, in place of a connection.
    #[cfg(test)]
    pub(crate) fn believe(&self, truth: Arc<dyn ZoneTruth>) {
        self.truth.get_or_init(|| truth);
    }

    /// The connection, once it was started.
    pub fn database(&self) -> Option<&Arc<Database>> {
        self.database.get()
    }

    pub(crate) fn truth(&self) -> Option<&Arc<dyn ZoneTruth>> {
        self.truth.get()
    }

    /// The number of zones that the database does not list any more, and that stay in service until an
    /// operator removes them by force.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    pub(crate) fn set_held(&self, held: usize) {
        self.held.store(held, Relaxed);
    }

    /// Whether this node maintains keys and signatures of the zones.
    pub fn signs(&self) -> bool {
        self.signs.load(Relaxed)
    }

    pub(crate) fn set_signs(&self, signs: bool) {
        self.signs.store(signs, Relaxed);
    }

    /// The keys of a zone, which has none if the set is empty; `None` if they were not read yet.
    pub(crate) fn keys(&self, zone: ZoneId) -> Option<Arc<ZoneKeySet>> {
        let keys = read(&self.keys).get(&zone).cloned();
        keys.or_else(|| self.keys_known.load(Relaxed).then(Arc::default))
    }

    /// Takes keys of a zone. Returns whether they are newer than those at hand.
    pub(crate) fn set_keys(&self, zone: ZoneId, keys: &Arc<ZoneKeySet>) -> bool {
        let mut all = write(&self.keys);
        let at_hand = all.get(&zone).map_or(0, |keys| keys.version.number);
        let is_newer = keys.version.number > at_hand;
        if is_newer {
            all.insert(zone, Arc::clone(keys));
        }
        is_newer
    }

    /// Forgets keys that the database does not have. Returns the zones whose keys it has and that are not at
    /// hand.
    pub(crate) fn compare_keys(&self, versions: &HashMap<ZoneId, KeySetVersion>) -> Vec<ZoneId> {
        let mut all = write(&self.keys);
        all.retain(|zone, keys| versions.get(zone) == Some(&keys.version));
        self.keys_known.store(true, Relaxed);
        versions.keys().filter(|zone| !all.contains_key(zone)).copied().collect()
    }

    /// The number of a zone; `None` if the database does not have it.
    pub fn id(&self, apex: &ZoneName) -> Option<ZoneId> {
        read(&self.zones).get(apex).map(|zone| zone.id)
    }

    /// The number of zones that the database has, as far as this node knows.
    pub fn count(&self) -> usize {
        read(&self.zones).len()
    }

    /// The zones that the database has, as far as this node knows.
    pub fn known(&self) -> HashMap<ZoneName, KnownZone> {
        read(&self.zones).clone()
    }

    /// Replaces all zones.
    pub(crate) fn set_all(&self, zones: HashMap<ZoneName, KnownZone>) {
        let is_same = *read(&self.zones) == zones;
        if !is_same {
            self.list.replace(&zones);
            *write(&self.zones) = zones;
        }
    }

    /// Adds a zone, or sets its properties.
    pub(crate) fn set(&self, apex: &ZoneName, zone: KnownZone) {
        let before = write(&self.zones).insert(apex.clone(), zone.clone());
        if before.as_ref() != Some(&zone) {
            self.list.add(apex, &zone);
        }
    }

    /// Removes a zone.
    pub(crate) fn remove(&self, apex: &ZoneName) {
        if let Some(zone) = write(&self.zones).remove(apex) {
            write(&self.keys).remove(&zone.id);
            self.list.remove(apex);
        }
    }

    /// Queues a write of a version: by these steps if the stored version is the one before them.
    pub(crate) fn keep(&self, apex: &ZoneName, zone: Arc<Zone>, steps: Option<Vec<Arc<ChangeSet>>>) {
        let name = apex.to_string();
        let stored = move |result: Result<bool, StoreFault>| {
            if let Err(fault) = result {
                let about = ("database zone not kept", &*name);
                log_repeated!(
                    warn,
                    WARN,
                    about,
                    "zone {name}: this version is not on the disk, and a start without the database has an \
                     earlier one: {fault}"
                );
            }
        };
        self.stores.order(apex, StoreOrder::Version(zone, steps, None), Box::new(stored));
    }

    /// Queues the removal of what is stored of a zone.
    pub(crate) fn forget(&self, apex: &ZoneName) {
        let name = apex.to_string();
        let removed = move |result: Result<bool, StoreFault>| {
            if let Err(fault) = result {
                warn!("zone {name}: what is stored of it is not removed: {fault}");
            }
        };
        self.stores.order(apex, StoreOrder::Remove, Box::new(removed));
    }

    /// Removes what is stored of a zone. Waits for the disk.
    pub(crate) fn forget_now(&self, apex: &ZoneName) {
        let removed = self.stores.exclusively(apex, |folder| folder.zone(apex.as_name())?.0.remove());
        if let Err(fault) = removed {
            warn!("zone {apex}: what is stored of it is not removed: {fault}");
        }
    }

    /// Loads the stored version of a zone, if there is one. One that cannot be used is renamed.
    pub(crate) fn load(&self, apex: &ZoneName, key: &HashKey) -> Option<Arc<Zone>> {
        let loaded = self.stores.exclusively(apex, |folder| {
            let (store, stored) = match folder.zone(apex.as_name()) {
                Ok((store, Some(stored))) => (store, stored),
                Ok((_, None)) => return Ok(None),
                Err(fault) => return Err(Unusable { fault, aside: folder.set_aside(apex.as_name()).ok() }),
            };
            let zone = stored.load(key);
            drop(store);
            zone.map(Some).map_err(|fault| Unusable { fault, aside: folder.set_aside(apex.as_name()).ok() })
        });
        match loaded {
            Ok(zone) => zone.map(Arc::new),
            Err(Unusable { fault, aside }) => {
                let aside = aside.map_or(String::new(), |path| format!("; it is now {}", path.display()));
                warn!("zone {apex}: its version in the state folder cannot be used: {fault}{aside}");
                None
            }
        }
    }

    /// Returns the changes of a zone since a version; `None` if they are not stored. Waits for the disk.
    pub fn history(&self, apex: &ZoneName, from: impl Into<HistoryStart>) -> Option<History> {
        self.id(apex)?;
        self.stores.history(apex, from).unwrap_or_else(|fault| {
            let name = apex.to_string();
            let about = ("history", &*name);
            log_repeated!(warn, WARN, about, "zone {name}: its history cannot be read: {fault}");
            None
        })
    }

    /// Ends the connection, and waits for the disk.
    pub fn stop(&self) {
        self.database().into_iter().for_each(|database| database.stop());
        if !self.stores.flush() {
            warn!("the disk is too slow, some versions of zones of the database are not on it");
        }
    }
}

/// A stored version that cannot be used, and the file to which it was renamed.
struct Unusable {
    fault: StoreFault,
    aside: Option<std::path::PathBuf>,
}

impl From<StoreFault> for Unusable {
    fn from(fault: StoreFault) -> Self {
        Unusable { fault, aside: None }
    }
}

#[cfg(test)]
mod tests;
