//! Stores of secondary zones: written beside serving, and read at the start, so that zones are served without
//! a transfer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use journal::{Disk, History, RealDisk, StoreFault, StoreFolder};
use tracing::{info, warn};
use wire::hash::HashKey;
use wire::{UnixTime, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;

use super::counts::SecondaryCounts;
use crate::managed::state::KeptVersion;
use crate::stores::{HistoryStart, StoreOrder, ZoneStores};
use telemetry::repeated::log_repeated;
use threads::background::Background;
use threads::sync::lock;

/// Folder of the stores in the state folder.
pub const FOLDER: &str = "secondaries";
/// Reads that take longer than this are logged.
const SLOW_READ: Duration = Duration::from_secs(1);

/// An order to the store of a secondary zone.
#[derive(Debug)]
pub(super) enum Keep {
    /// Stores this version: by its changes if these are known and follow the stored version.
    Version(Arc<Zone>, Option<Vec<Arc<ChangeSet>>>),
    /// Stores that a primary has confirmed the stored version.
    Confirmed,
    /// Removes the store: the zone has no primaries any more.
    Nothing,
}

/// The stores of secondary zones.
pub struct SecondaryStore {
    stores: ZoneStores,
    counts: Arc<SecondaryCounts>,
    removing: Mutex<HashMap<ZoneName, usize>>,
}

impl SecondaryStore {
    /// Opens the stores in a state folder.
    ///
    /// # Errors
    /// Why nothing can be stored there.
    pub fn open(
        state: &Path,
        background: &Arc<Background>,
        counts: &Arc<SecondaryCounts>,
    ) -> Result<Arc<SecondaryStore>, StoreFault> {
        SecondaryStore::open_on(Arc::new(RealDisk), state, background, counts)
    }

    /// Opens the stores on this disk.
    pub(super) fn open_on(
        disk: Arc<dyn Disk>,
        state: &Path,
        background: &Arc<Background>,
        counts: &Arc<SecondaryCounts>,
    ) -> Result<Arc<SecondaryStore>, StoreFault> {
        let stores = ZoneStores::open(disk, state, FOLDER, Arc::clone(background))?;
        Ok(Arc::new(SecondaryStore { stores, counts: Arc::clone(counts), removing: Mutex::default() }))
    }

    /// Queues a write of a zone; `at` is the time of the confirmation.
    pub(super) fn keep(self: &Arc<Self>, apex: ZoneName, keep: Keep, at: UnixTime) {
        let is_version = matches!(keep, Keep::Version(..));
        let (order, removes) = match keep {
            Keep::Version(zone, changes) => (StoreOrder::Version(zone, changes, Some(at)), false),
            Keep::Confirmed => (StoreOrder::Confirmed(at), false),
            Keep::Nothing => (StoreOrder::Remove, true),
        };
        if removes {
            *lock(&self.removing).entry(apex.clone()).or_default() += 1;
        }
        let (all, of) = (Arc::clone(self), apex.clone());
        let stored = move |result| all.stored(&of, result, is_version, removes);
        self.stores.order(&apex, order, Box::new(stored));
    }

    /// Counts and logs the end of a write.
    fn stored(&self, apex: &ZoneName, result: Result<bool, StoreFault>, is_version: bool, removes: bool) {
        match result {
            Ok(_) => drop(self.counts.stored.fetch_add(u64::from(is_version), Relaxed)),
            Err(fault) => {
                self.counts.unstored.fetch_add(1, Relaxed);
                let name = apex.to_string();
                let about = ("secondary not kept", &*name);
                log_repeated!(warn, WARN, about, "zone {name}: it is not stored on disk: {fault}");
            }
        }
        if removes {
            let mut removing = lock(&self.removing);
            match removing.get_mut(apex) {
                Some(more) if *more > 1 => *more -= 1,
                _ => drop(removing.remove(apex)),
            }
        }
    }

    /// Returns the changes of a zone since a version; `None` if the store does not reach back to it. Waits
    /// for the disk.
    pub(super) fn history(&self, apex: &ZoneName, from: impl Into<HistoryStart>) -> Option<History> {
        self.stores.history(apex, from).unwrap_or_else(|fault| {
            self.counts.unread.fetch_add(1, Relaxed);
            let name = apex.to_string();
            let about = ("secondary not read", &*name);
            log_repeated!(
                warn,
                WARN,
                about,
                "zone {name}: its history cannot be read from the disk: {fault}"
            );
            None
        })
    }

    /// Waits until all queued writes are on disk, ten seconds at most.
    pub(super) fn flush(&self) {
        if !self.stores.flush() {
            warn!(
                "the disk is too slow, some zones from primaries are not stored: a restart transfers them \
                again"
            );
        }
    }

    /// Loads the stored version of a zone. Does not check whether it has expired.
    pub fn load(&self, apex: &ZoneName, key: &HashKey) -> Option<KeptVersion> {
        if lock(&self.removing).contains_key(apex) {
            return None;
        }
        let (begun, name) = (Instant::now(), apex.as_name());
        let kept = self.stores.exclusively(apex, |folder| {
            Ok::<_, StoreFault>(load(folder, apex, key).unwrap_or_else(|fault| {
                let aside = match &fault {
                    // The disk may be able to read it the next time.
                    StoreFault::Io { .. } => "the file stays as it is".to_owned(),
                    _ => match folder.set_aside(name) {
                        Ok(path) => format!("it is now {}", path.display()),
                        Err(fault) => fault.to_string(),
                    },
                };
                warn!("zone {apex}: its stored version cannot be used: {fault}; {aside}");
                None
            }))
        });
        let kept = kept.unwrap_or_else(|fault| {
            warn!("zone {apex}: its stored version cannot be used: {fault}");
            None
        });
        if begun.elapsed() > SLOW_READ {
            info!("zone {apex}: read from the state folder in {} ms", begun.elapsed().as_millis());
        }
        kept
    }
}

/// Reads the stored version of a zone; `None` if there is none.
fn load(folder: &StoreFolder, apex: &ZoneName, key: &HashKey) -> Result<Option<KeptVersion>, StoreFault> {
    let (store, Some(stored)) = folder.zone(apex.as_name())? else { return Ok(None) };
    if let Some(torn) = stored.torn_tail() {
        let (bytes, path) = (torn.bytes, stored.path().display());
        info!("zone {apex}: {bytes} bytes of an incomplete write in {path} are ignored");
    }
    let zone = Arc::new(stored.load(key)?);
    drop(store);
    // A crash may have lost the time of the confirmation; the version was received when the file was last
    // written.
    let written = || stored.path().metadata().and_then(|about| about.modified()).ok().map(UnixTime::from);
    let confirmed = stored.confirmed().or_else(written).unwrap_or_default();
    Ok(Some(KeptVersion { zone, confirmed, expired: false }))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use wire::{Name, NameBuf, Ttl, Type};
    use zone::ZoneBuilder;

    use super::*;

    fn key() -> HashKey {
        HashKey::new([1, 2, 3])
    }

    fn apex() -> ZoneName {
        Name::of_checked(b"\x07example\0").into()
    }

    fn zone(serial: u32) -> Arc<Zone> {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &key());
        let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
        builder.add(apex.as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("a record");
        Arc::new(builder.finish().expect("a zone"))
    }

    fn open(folder: &TempDir) -> Arc<SecondaryStore> {
        loop {
            match SecondaryStore::open(folder.path(), &Background::new(), &Arc::default()) {
                Ok(store) => return store,
                // A thread of an earlier run still uses it.
                Err(StoreFault::Locked(_)) => std::thread::yield_now(),
                Err(fault) => panic!("{fault}"),
            }
        }
    }

    /// Stores versions in one run, and returns what the next run loads: serial and time of confirmation.
    fn next_run(folder: &TempDir, keeps: Vec<(Keep, u64)>) -> Option<(u32, u64)> {
        {
            let store = open(folder);
            keeps.into_iter().for_each(|(keep, at)| store.keep(apex(), keep, UnixTime::from_secs(at)));
            store.flush();
        }
        open(folder).load(&apex(), &key()).map(|kept| (kept.zone.serial().0, kept.confirmed.as_secs()))
    }

    fn step(from: u32, to: u32) -> Keep {
        let change = Arc::new(zone::store::diff(&zone(from), &zone(to)));
        Keep::Version(zone(to), Some(vec![change]))
    }

    #[test]
    fn the_next_run_has_what_was_taken_last() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(next_run(&folder, Vec::new()), None);
        // Differences do not help if the store has no version to change: the zone is stored as a whole.
        assert_eq!(next_run(&folder, vec![(step(4, 5), 100)]), Some((5, 100)));
        assert_eq!(next_run(&folder, vec![(step(5, 6), 200), (Keep::Confirmed, 300)]), Some((6, 300)));
        assert_eq!(next_run(&folder, vec![(Keep::Version(zone(3), None), 400)]), Some((3, 400)));
        assert_eq!(
            next_run(&folder, vec![(step(8, 9), 500)]),
            Some((9, 500)),
            "not the version that was kept"
        );
        assert_eq!(next_run(&folder, vec![(Keep::Nothing, 600)]), None);
    }

    #[test]
    fn a_file_that_is_damaged_costs_a_transfer_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        next_run(&folder, vec![(Keep::Version(zone(5), None), 100)]);
        let shards = std::fs::read_dir(folder.path().join(FOLDER)).expect("a folder");
        let files =
            shards.flat_map(|shard| std::fs::read_dir(shard.expect("a shard").path()).into_iter().flatten());
        let file = files.map(|file| file.expect("a file").path()).next().expect("the zone's file");
        let mut bytes = std::fs::read(&file).expect("read");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&file, bytes).expect("written");
        assert_eq!(next_run(&folder, Vec::new()), None);
        assert_eq!(next_run(&folder, vec![(step(5, 6), 200)]), Some((6, 200)));
    }
}
