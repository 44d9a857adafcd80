//! What changes in zone files, kept on disk, so that IXFR (RFC 1995) has differences of zones that change by their files: by
//! a thread of its own, beside serving. The files are `journal`'s; the records of a zone are not in them.
//!
//! Nothing depends on them. What cannot be kept, or does not lead to the version in service, is not used, and whoever asks
//! for what changed gets the whole zone; keeping begins anew with the next change.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::{DEFAULT_HISTORY, History, RealDisk, StoreFault, ZoneFolder, ZoneStore};
use tracing::debug;
use wire::{Name, Serial};
use zone::Zone;
use zone::store::ChangeSet;

use super::Apex;
use crate::repeated::log_repeated;
use crate::sync::lock;

/// The folder of the files in the state folder.
const FOLDER: &str = "differences";
/// Records of a zone from which on its differences are kept, if nobody says otherwise: a smaller one is a message or a few.
pub const LEAST_RECORDS: u64 = 1000;
/// Longest wait for the thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Of which versions of a zone it is kept what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DifferenceRule {
    /// Of those with so many records at least; `None`: of none.
    pub from_records: Option<u64>,
    /// Bytes of changes that are kept. On the disk are at most twice as many.
    pub bytes: u64,
}

impl DifferenceRule {
    /// Whether it is to be kept what leads to this version.
    pub fn wants(&self, zone: &Zone) -> bool {
        self.from_records.is_some_and(|least| zone.record_count() >= least)
    }
}

impl Default for DifferenceRule {
    /// Nothing is kept.
    fn default() -> Self {
        DifferenceRule { from_records: None, bytes: DEFAULT_HISTORY }
    }
}

/// What the thread is asked for.
enum Order {
    /// Keep what changed, and so many bytes of what changed before.
    Keep(Apex, Arc<ChangeSet>, u64),
    /// The same, if it leads on from what is there.
    GoOn(Apex, Arc<ChangeSet>, u64),
    /// Let go of a zone.
    Forget(Apex),
    /// What changed since a version.
    Read(Apex, Serial, SyncSender<Option<History>>),
    /// Answer, all before this being done.
    Flush(SyncSender<()>),
}

/// What has become of differences.
#[derive(Debug, Default)]
pub struct DifferenceCounts {
    /// Kept on the disk.
    pub kept: AtomicU64,
    /// Not kept: the disk did not take them.
    pub failed: AtomicU64,
}

/// Keeps what changes in zone files.
pub struct Differences {
    orders: Sender<Order>,
    /// Zones of which something may be on the disk.
    known: Mutex<HashSet<Apex>>,
    counts: Arc<DifferenceCounts>,
}

impl Differences {
    /// Opens the files in a state folder, and starts the thread.
    ///
    /// # Errors
    /// Why nothing can be kept there.
    pub fn start(state: &Path) -> Result<Arc<Differences>, StoreFault> {
        let folder = ZoneFolder::open(Arc::new(RealDisk), &state.join(FOLDER))?;
        let mut known = HashSet::new();
        for zone in folder.zones()? {
            match zone {
                Ok(apex) => drop(known.insert(Apex::from(apex.as_name().as_wire()))),
                Err(fault) => debug!("a file in the folder of differences is not used: {fault}"),
            }
        }
        let ((orders, taken), counts) = (channel(), Arc::<DifferenceCounts>::default());
        let keeper = Keeper { folder, stores: HashMap::new(), counts: Arc::clone(&counts) };
        let thread = std::thread::Builder::new().name("differences".into());
        thread.spawn(move || keeper.work(&taken)).map_err(|error| StoreFault::Io {
            action: "start the thread that writes",
            path: state.join(FOLDER),
            error,
        })?;
        Ok(Arc::new(Differences { orders, known: Mutex::new(known), counts }))
    }

    /// Keeps what changed in a zone, and at least so many bytes of what changed before, if there is as much.
    pub fn keep(&self, apex: &Apex, change: Arc<ChangeSet>, bytes: u64) {
        lock(&self.known).insert(apex.clone());
        self.order(Order::Keep(apex.clone(), change, bytes));
    }

    /// Keeps what changed in a zone while this program did not run, if what is kept leads up to that.
    pub fn go_on(&self, apex: &Apex, change: Arc<ChangeSet>, bytes: u64) {
        if self.knows(apex) {
            self.order(Order::GoOn(apex.clone(), change, bytes));
        }
    }

    /// Lets go of what is kept of a zone.
    pub fn forget(&self, apex: &Apex) {
        if lock(&self.known).remove(apex) {
            self.order(Order::Forget(apex.clone()));
        }
    }

    /// Lets go of what is kept of zones that are none of these.
    pub fn retain(&self, wanted: impl Fn(&Apex) -> bool) {
        let gone: Vec<Apex> = lock(&self.known).iter().filter(|apex| !wanted(apex)).cloned().collect();
        gone.iter().for_each(|apex| self.forget(apex));
    }

    /// Whether something may be kept of a zone.
    pub fn knows(&self, apex: &[u8]) -> bool {
        lock(&self.known).contains(apex)
    }

    /// What changed in a zone since a version; `None` if that is not known. Waits for the thread.
    pub fn history(&self, apex: &Apex, from: Serial) -> Option<History> {
        let (reply, replied) = sync_channel(1);
        self.order(Order::Read(apex.clone(), from, reply));
        replied.recv_timeout(PATIENCE).ok().flatten()
    }

    /// What has become of differences.
    pub fn counts(&self) -> &DifferenceCounts {
        &self.counts
    }

    /// Waits until all that was to be kept is, but not for ever.
    pub fn flush(&self) {
        let (done, ended) = sync_channel(1);
        self.order(Order::Flush(done));
        // A disk that takes longer than this has had its chance.
        let _ = ended.recv_timeout(PATIENCE);
    }

    fn order(&self, order: Order) {
        // The thread ends with the process.
        let _ = self.orders.send(order);
    }
}

/// The thread's state.
struct Keeper {
    folder: ZoneFolder,
    stores: HashMap<Apex, ZoneStore>,
    counts: Arc<DifferenceCounts>,
}

impl Keeper {
    fn work(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            match order {
                Order::Keep(apex, change, bytes) => {
                    let kept = self.keep(&apex, &change, bytes);
                    self.note(&apex, kept);
                }
                Order::GoOn(apex, change, bytes) => {
                    let store = self.take(&apex);
                    let leads_on = store.as_ref().is_ok_and(|store| store.serial() == Some(change.before));
                    store.into_iter().for_each(|store| drop(self.stores.insert(apex.clone(), store)));
                    if leads_on {
                        let kept = self.keep(&apex, &change, bytes);
                        self.note(&apex, kept);
                    }
                }
                Order::Forget(apex) => match self.take(&apex).and_then(ZoneStore::remove) {
                    Ok(()) => {}
                    Err(fault) => log_repeated!(
                        warn,
                        WARN,
                        ("differences not removed", &name(&apex).to_string()),
                        "zone {}: its differences cannot be removed: {fault}",
                        name(&apex)
                    ),
                },
                Order::Read(apex, from, reply) => {
                    // Whoever waited may have gone.
                    let _ = reply.try_send(self.history(apex, from));
                }
                Order::Flush(done) => drop(done.try_send(())),
            }
        }
    }

    fn note(&self, apex: &Apex, kept: Result<(), StoreFault>) {
        match kept {
            Ok(()) => drop(self.counts.kept.fetch_add(1, Relaxed)),
            Err(fault) => {
                self.counts.failed.fetch_add(1, Relaxed);
                let about = ("differences", &*name(apex).to_string());
                log_repeated!(
                    warn,
                    WARN,
                    about,
                    "zone {}: what changed is not kept for IXFR: {fault}",
                    name(apex)
                );
            }
        }
    }

    /// The store of a zone. One whose file cannot be used is begun anew.
    fn take(&mut self, apex: &Apex) -> Result<ZoneStore, StoreFault> {
        if let Some(store) = self.stores.remove(apex) {
            return Ok(store);
        }
        let opened = self.folder.zone(name(apex)).or_else(|_| {
            self.folder.set_aside(name(apex))?;
            self.folder.zone(name(apex))
        });
        opened.map(|(store, _)| store)
    }

    fn keep(&mut self, apex: &Apex, change: &ChangeSet, bytes: u64) -> Result<(), StoreFault> {
        let mut store = self.take(apex)?;
        store.keep_history(bytes);
        // What is there may lead to another version: the file was changed while nobody looked, or in its larger part.
        if store.serial() != Some(change.before) || store.is_broken() {
            store.replace_without_zone(change.before)?;
        }
        store.append(change)?;
        store.sync()?;
        if store.is_worth_compacting() {
            store.compact_without_zone()?;
        }
        self.stores.insert(apex.clone(), store);
        Ok(())
    }

    fn history(&mut self, apex: Apex, from: Serial) -> Option<History> {
        let read = self.take(&apex).and_then(|store| {
            let history = store.history(from);
            self.stores.insert(apex.clone(), store);
            history
        });
        read.unwrap_or_else(|fault| {
            let about = ("history", &*name(&apex).to_string());
            log_repeated!(warn, WARN, about, "zone {}: its differences cannot be read: {fault}", name(&apex));
            None
        })
    }
}

fn name(apex: &Apex) -> Name<'_> {
    Name::from_wire(apex).unwrap_or(Name::ROOT)
}

#[cfg(test)]
mod tests {
    use wire::hash::HashKey;
    use wire::{NameBuf, Ttl, Type};
    use zone::ZoneBuilder;
    use zone::store::diff;

    use super::*;

    fn apex() -> Apex {
        b"\x07example\0".as_slice().into()
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

    /// The steps from a version on, if they are known.
    fn steps(differences: &Differences, from: u32) -> Option<Vec<(u32, u32)>> {
        let history = differences.history(&apex(), Serial(from))?;
        Some(history.map(|step| step.expect("a step")).map(|step| (step.before.0, step.after.0)).collect())
    }

    /// Starts anew with the same files, once those who had them have let go.
    fn again(state: &Path, before: Arc<Differences>) -> Arc<Differences> {
        before.flush();
        drop(before);
        loop {
            match Differences::start(state) {
                Ok(differences) => return differences,
                Err(StoreFault::Locked(_)) => std::thread::yield_now(),
                Err(fault) => panic!("{fault}"),
            }
        }
    }

    #[test]
    fn what_changed_is_there_after_a_restart_and_begins_anew_where_it_does_not_fit() {
        let state = tempfile::tempdir().expect("a folder");
        let differences = Differences::start(state.path()).expect("started");
        assert!(!differences.knows(&apex()));
        keep(&differences, 1, 2);
        keep(&differences, 2, 5);
        assert_eq!(steps(&differences, 1), Some(vec![(1, 2), (2, 5)]));
        let differences = again(state.path(), differences);
        assert!(differences.knows(&apex()));
        keep(&differences, 5, 6);
        assert_eq!(steps(&differences, 2), Some(vec![(2, 5), (5, 6)]));
        // Serial 7 came while nobody looked.
        keep(&differences, 7, 8);
        assert_eq!((steps(&differences, 5), steps(&differences, 7)), (None, Some(vec![(7, 8)])));
        // What came meanwhile goes on from what is there, or is left alone.
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
        let differences = Differences::start(state.path()).expect("started");
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
