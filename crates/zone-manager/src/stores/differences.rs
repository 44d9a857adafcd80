//! Stored changes of zone files, so that IXFR (RFC 1995) has differences of zones that change by their files.
//! The stores hold changes only, not the records of the zones.
//!
//! Nothing depends on the stores. If a change cannot be stored, or does not lead to the version in service,
//! an IXFR client gets the whole zone, and the store starts again with the next change.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use journal::{Disk, History, RealDisk, StoreFault};
use tracing::debug;
use wire::ZoneName;
use zone::store::ChangeSet;

use crate::stores::{HistoryStart, StoreOrder, ZoneStores};
use telemetry::repeated::log_repeated;
use threads::background::Background;
use threads::sync::lock;

/// The folder of the files in the state folder.
const FOLDER: &str = "differences";
/// Counts of stored changes.
#[derive(Debug, Default)]
pub struct DifferenceCounts {
    /// Changes stored on disk.
    pub kept: AtomicU64,
    /// Changes that could not be written to disk.
    pub failed: AtomicU64,
}

/// Stores of the changes of zone files.
pub struct Differences {
    stores: ZoneStores,
    /// Zones that may have changes on disk.
    known: Mutex<HashSet<ZoneName>>,
    counts: Arc<DifferenceCounts>,
}

impl Differences {
    /// Opens the stores in a state folder.
    ///
    /// # Errors
    /// Why nothing can be stored there.
    pub fn open(state: &Path, background: &Arc<Background>) -> Result<Arc<Differences>, StoreFault> {
        Differences::open_on(Arc::new(RealDisk), state, background)
    }

    /// Opens the stores on this disk.
    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        state: &Path,
        background: &Arc<Background>,
    ) -> Result<Arc<Differences>, StoreFault> {
        let stores = ZoneStores::open(disk, state, FOLDER, Arc::clone(background))?;
        let mut known = HashSet::new();
        for zone in stores.folders().zones()? {
            match zone {
                Ok(apex) => drop(known.insert(apex)),
                Err(fault) => debug!("a file in the folder of differences is not used: {fault}"),
            }
        }
        Ok(Arc::new(Differences { stores, known: Mutex::new(known), counts: Arc::default() }))
    }

    /// Stores a change of a zone, with at least so many bytes of earlier changes, if there are as many.
    pub fn keep(&self, apex: &ZoneName, change: Arc<ChangeSet>, bytes: u64) {
        lock(&self.known).insert(apex.clone());
        self.order(apex, StoreOrder::Change(change, bytes));
    }

    /// Stores a change that was made while nomen did not run, if the stored changes lead up to it.
    pub fn go_on(&self, apex: &ZoneName, change: Arc<ChangeSet>, bytes: u64) {
        if self.knows(apex) {
            self.order(apex, StoreOrder::ContinueChanges(change, bytes));
        }
    }

    /// Removes the stored changes of a zone.
    pub fn forget(&self, apex: &ZoneName) {
        if lock(&self.known).remove(apex) {
            self.order(apex, StoreOrder::Remove);
        }
    }

    /// Removes the stored changes of all zones except the wanted ones.
    pub fn retain(&self, wanted: impl Fn(&ZoneName) -> bool) {
        let gone: Vec<ZoneName> = lock(&self.known).iter().filter(|apex| !wanted(apex)).cloned().collect();
        gone.iter().for_each(|apex| self.forget(apex));
    }

    /// Whether changes of a zone may be stored.
    pub fn knows(&self, apex: &ZoneName) -> bool {
        lock(&self.known).contains(apex)
    }

    /// Returns the changes of a zone since a version; `None` if they are not stored. Waits for the disk.
    pub fn history(&self, apex: &ZoneName, from: impl Into<HistoryStart>) -> Option<History> {
        self.stores.history(apex, from).unwrap_or_else(|fault| {
            let name = apex.to_string();
            let about = ("differences not read", &*name);
            log_repeated!(warn, WARN, about, "zone {name}: its differences cannot be read: {fault}");
            None
        })
    }

    /// Counts of changes.
    pub fn counts(&self) -> &DifferenceCounts {
        &self.counts
    }

    /// Waits until all changes are on disk, ten seconds at most.
    pub fn flush(&self) {
        self.stores.flush();
    }

    fn order(&self, apex: &ZoneName, order: StoreOrder) {
        let (counts, of, removes) =
            (Arc::clone(&self.counts), apex.clone(), matches!(order, StoreOrder::Remove));
        let stored = move |result: Result<bool, StoreFault>| match result {
            Ok(stored) => drop(counts.kept.fetch_add(u64::from(stored && !removes), Relaxed)),
            Err(fault) => {
                counts.failed.fetch_add(1, Relaxed);
                let name = of.to_string();
                let about = ("differences", &*name);
                log_repeated!(warn, WARN, about, "zone {name}: its changes are not stored for IXFR: {fault}");
            }
        };
        self.stores.order(apex, order, Box::new(stored));
    }
}

#[cfg(test)]
mod tests {
    use journal::DEFAULT_HISTORY;
    use wire::hash::HashKey;
    use wire::{NameBuf, Serial, Ttl, Type};
    use zone::store::diff;
    use zone::{Zone, ZoneBuilder};

    use super::*;

    fn apex() -> ZoneName {
        wire::Name::of_checked(b"\x07example\0").into()
    }

    fn zone(serial: u32) -> Zone {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
        builder.finish().expect("a zone")
    }

    fn keep(differences: &Differences, from: u32, to: u32) {
        differences.keep(&apex(), Arc::new(diff(&zone(from), &zone(to))), DEFAULT_HISTORY);
    }

    /// The changes since a version, if they are stored.
    fn steps(differences: &Differences, from: u32) -> Option<Vec<(u32, u32)>> {
        let history = differences.history(&apex(), Serial(from))?;
        Some(history.map(|step| step.expect("a step")).map(|step| (step.before.0, step.after.0)).collect())
    }

    /// Opens the stores of the folder again once all users of the old ones have ended.
    fn again(state: &Path, before: Arc<Differences>) -> Arc<Differences> {
        before.flush();
        drop(before);
        loop {
            match Differences::open(state, &Background::new()) {
                Ok(differences) => return differences,
                Err(StoreFault::Locked(_)) => std::thread::yield_now(),
                Err(fault) => panic!("{fault}"),
            }
        }
    }

    #[test]
    fn what_changed_is_there_after_a_restart_and_begins_anew_where_it_does_not_fit() {
        let state = tempfile::tempdir().expect("a folder");
        let differences = Differences::open(state.path(), &Background::new()).expect("started");
        assert!(!differences.knows(&apex()));
        keep(&differences, 1, 2);
        keep(&differences, 2, 5);
        assert_eq!(steps(&differences, 1), Some(vec![(1, 2), (2, 5)]));
        let differences = again(state.path(), differences);
        assert!(differences.knows(&apex()));
        keep(&differences, 5, 6);
        assert_eq!(steps(&differences, 2), Some(vec![(2, 5), (5, 6)]));
        // The change to serial 7 was not stored.
        keep(&differences, 7, 8);
        assert_eq!((steps(&differences, 5), steps(&differences, 7)), (None, Some(vec![(7, 8)])));
        // A change made meanwhile is stored if the stored changes lead up to it.
        let go_on = |from: u32, to: u32| {
            let change = Arc::new(diff(&zone(from), &zone(to)));
            differences.go_on(&apex(), change, DEFAULT_HISTORY);
        };
        go_on(9, 10);
        assert_eq!(steps(&differences, 7), Some(vec![(7, 8)]));
        go_on(8, 10);
        assert_eq!(steps(&differences, 7), Some(vec![(7, 8), (8, 10)]));
        differences.retain(|_| false);
        go_on(10, 11);
        assert!(!differences.knows(&apex()));
        let differences = again(state.path(), differences);
        assert!(!differences.knows(&apex()) && steps(&differences, 7).is_none());
    }

    #[test]
    fn a_file_that_is_damaged_costs_the_history_and_nothing_else() {
        let state = tempfile::tempdir().expect("a folder");
        let differences = Differences::open(state.path(), &Background::new()).expect("started");
        keep(&differences, 1, 2);
        differences.flush();
        let shards = std::fs::read_dir(state.path().join(FOLDER)).expect("a folder");
        let files =
            shards.flat_map(|shard| std::fs::read_dir(shard.expect("a shard").path()).into_iter().flatten());
        let file = files.map(|file| file.expect("a file").path()).next().expect("the zone's file");
        let differences = again(state.path(), differences);
        let mut bytes = std::fs::read(&file).expect("read");
        bytes[30] ^= 1;
        std::fs::write(&file, bytes).expect("written");
        assert_eq!(steps(&differences, 1), None);
        keep(&differences, 2, 3);
        assert_eq!(steps(&differences, 2), Some(vec![(2, 3)]));
    }
}
