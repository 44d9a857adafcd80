//! The writer of zone stores: writes versions of zones and their changes to disk beside serving. No other
//! part of the server writes a zone to disk. Zones that updates change, secondary zones, zones that change by
//! their files and produced catalog zones each have a folder of stores; `journal` defines the files.
//!
//! Tasks of one zone run in order; those of different zones run side by side on the threads of
//! [`Background`], so that their syncs reach the disk together. A long write (a large zone as a whole, a
//! compaction) delays no other zone, and a compaction does not delay changes of its own zone either.
//!
//! A folder with marks holds changes that were acknowledged to clients: an unusable file is an error there,
//! unless the version in service is the acknowledged one and can be stored again (`heal`). In other folders
//! such a file is renamed, and the store starts again.

pub mod composed;
pub mod differences;
pub mod produced;

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use journal::{Disk, History, Replacement, StoreFault, StoreFolder, StoreFolders, StoreSize, ZoneStore};
use wire::{Serial, UnixTime, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;

use telemetry::repeated::log_repeated;
use threads::background::{Background, JobKind};
use threads::sync::lock;

/// Most stores that stay open after their orders. A server may have a million zones, and opening a store
/// again costs little.
const OPEN_STORES: usize = 1024;
/// Zones of at least this many records are written as a whole at low priority.
const LARGE_ZONE: u64 = 100_000;
/// Longest wait for reading the changes of a zone, for IXFR.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for all orders when the server stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// An order to the store of a zone.
#[derive(Debug)]
pub enum StoreOrder {
    /// Stores this version: by the changes that lead to it if the store has the version before, else as a
    /// whole. The last field is when a primary confirmed the version.
    Version(Arc<Zone>, Option<Vec<Arc<ChangeSet>>>, Option<UnixTime>),
    /// Stores when a primary confirmed the stored version.
    Confirmed(UnixTime),
    /// Stores a change of a zone whose records are not in the store, with at least so many bytes of earlier
    /// changes. If the store does not end at the version before the change, it starts again from there.
    Change(Arc<ChangeSet>, u64),
    /// Stores such a change if the store ends at the version before it, else does nothing.
    ContinueChanges(Arc<ChangeSet>, u64),
    /// Removes the store.
    Remove,
}

/// Receives the end of an order: whether something was written.
pub type OnStored = Box<dyn FnOnce(Result<bool, StoreFault>) + Send>;

/// Changes of a zone to store together, with one sync.
pub struct Append {
    /// The version that they change. An empty store gets it as its base.
    pub before: Arc<Zone>,
    /// The version that they lead to.
    pub after: Arc<Zone>,
    /// The changes, in order.
    pub changes: Vec<Arc<ChangeSet>>,
    /// Bytes of history to keep in a compaction.
    pub history: u64,
}

/// Which thread stores changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnThread {
    /// The one that has them stored. It waits for the disk, and no other thread has to be woken.
    This,
    /// One of [`Background`].
    Background,
}

/// How many changes of an [`Append`] are on disk.
#[derive(Debug)]
pub struct Appended {
    /// Number of changes on disk, counted from the first; no other is on disk.
    pub stored: usize,
    /// Why the others are not.
    pub fault: Option<StoreFault>,
    /// How long the sync took; `None` if there was none.
    pub synced: Option<Duration>,
    /// Bytes of the store; `None` if it cannot be opened.
    pub size: Option<StoreSize>,
    /// The newest version on disk; `None` if nothing is stored or the version is not known.
    pub acknowledged: Option<Serial>,
}

impl Appended {
    /// No change is on disk, for this reason.
    pub fn nothing(fault: StoreFault) -> Self {
        Appended { stored: 0, fault: Some(fault), synced: None, size: None, acknowledged: None }
    }
}

/// Receives how many changes are on disk.
pub type OnAppended = Box<dyn FnOnce(Appended) + Send>;
/// Receives the size of a store after a compaction, or `None` if the compaction failed.
pub type OnCompacted = Box<dyn Fn(&ZoneName, Option<StoreSize>) + Send + Sync>;

/// Where the changes begin that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryStart {
    /// At this version.
    Version(Serial),
    /// So many changes before the newest version, or as many as there are.
    Last(usize),
}

impl From<Serial> for HistoryStart {
    fn from(version: Serial) -> Self {
        Self::Version(version)
    }
}

enum Task {
    Order(StoreOrder, OnStored),
    Append(Box<Append>, OnAppended),
    History(HistoryStart, SyncSender<Result<Option<History>, StoreFault>>),
    Finish(Box<Finish>),
}

/// The end of a long write; the new file is still to be put in place.
struct Finish {
    replacement: Replacement,
    written: Result<(), StoreFault>,
    /// `None` after a compaction.
    order: Option<WholeVersion>,
}

/// The order to store a version that is written as a whole.
struct WholeVersion {
    /// When a primary confirmed the version.
    confirmed: Option<UnixTime>,
    stored: OnStored,
}

/// The long write of a zone in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Writing {
    #[default]
    Nothing,
    /// A new base. Changes are stored meanwhile.
    Base,
    /// A version as a whole. Orders wait.
    Whole,
}

/// The stores of one folder, and of the folders of views.
#[derive(Clone)]
pub struct ZoneStores(Arc<Inner>);

struct Inner {
    folders: StoreFolders,
    /// Whether the folders have marks: stored changes were acknowledged.
    is_marked: bool,
    compacted: OnCompacted,
    background: Arc<Background>,
    zones: Mutex<Zones>,
    /// Notified when a zone has no tasks left.
    idle: Condvar,
}

#[derive(Default)]
struct Zones {
    by_apex: HashMap<ZoneName, ZoneTasks>,
    /// Number of stores in `by_apex`.
    open: usize,
    busy: usize,
}

/// The tasks of one zone, and its store between two tasks.
#[derive(Default)]
struct ZoneTasks {
    tasks: VecDeque<Task>,
    finish: Option<Box<Finish>>,
    store: Option<ZoneStore>,
    /// A thread runs the tasks, or is about to.
    scheduled: bool,
    writing: Writing,
}

impl StoreOrder {
    /// Whether the order can run while a long write is in progress.
    fn runs_beside(&self, writing: Writing) -> bool {
        match writing {
            Writing::Nothing => true,
            Writing::Base => matches!(self, Self::Version(_, Some(_), _) | Self::Confirmed(_)),
            Writing::Whole => false,
        }
    }
}

impl ZoneTasks {
    fn is_busy(&self) -> bool {
        self.scheduled || self.writing != Writing::Nothing || !self.tasks.is_empty()
    }

    /// Returns the next task; `None` if there is none, or all wait for the long write in progress.
    fn next(&mut self) -> Option<Task> {
        if let Some(finish) = self.finish.take() {
            return Some(Task::Finish(finish));
        }
        let waits = |task: &Task| match task {
            Task::Order(order, _) => !order.runs_beside(self.writing),
            Task::Append(..) => self.writing == Writing::Whole,
            Task::History(..) | Task::Finish(_) => false,
        };
        if !self.tasks.front().is_some_and(waits) {
            return self.tasks.pop_front();
        }
        // The version that waits has no history. A history read before it leads to an earlier version, and
        // the client then gets the whole zone.
        let read = self.tasks.iter().position(|task| matches!(task, Task::History(..)))?;
        self.tasks.remove(read)
    }
}

impl ZoneStores {
    /// Opens the folders of this name in a state folder, creating that of the zones outside views if it does
    /// not exist.
    ///
    /// # Errors
    /// As for [`StoreFolders::open`].
    pub fn open(
        disk: Arc<dyn Disk>,
        state: &Path,
        name: &str,
        background: Arc<Background>,
    ) -> Result<ZoneStores, StoreFault> {
        let folders = StoreFolders::open(disk, state, name, None)?;
        Ok(Self::of(folders, false, Box::new(|_, _| ()), background))
    }

    /// Returns the stores of folders with marks, which hold acknowledged changes. `compacted` runs on
    /// another thread after each compaction.
    pub fn of_marked(
        folders: StoreFolders,
        compacted: OnCompacted,
        background: Arc<Background>,
    ) -> ZoneStores {
        Self::of(folders, true, compacted, background)
    }

    fn of(
        folders: StoreFolders,
        is_marked: bool,
        compacted: OnCompacted,
        background: Arc<Background>,
    ) -> Self {
        let (zones, idle) = (Mutex::default(), Condvar::new());
        ZoneStores(Arc::new(Inner { folders, is_marked, compacted, background, zones, idle }))
    }

    /// The folders. [`exclusively`](Self::exclusively) opens a store of them.
    pub fn folders(&self) -> &StoreFolders {
        &self.0.folders
    }

    /// The version of a zone that was acknowledged last, according to its mark.
    pub fn acknowledged(&self, apex: &ZoneName) -> Option<Serial> {
        self.0.folders.of(apex).ok()?.acknowledged(apex.as_name())
    }

    /// Queues changes behind the other tasks of the zone. `appended` runs once they are on disk or have
    /// failed: on a background thread, or on this one where `on_thread` permits that and no thread works for
    /// the zone.
    pub fn append(&self, apex: &ZoneName, append: Append, appended: OnAppended, on_thread: OnThread) {
        self.0.submit_to(apex, Task::Append(Box::new(append), appended), on_thread);
    }

    /// Queues an order behind the other tasks of the zone. `stored` runs on another thread when the order has
    /// ended.
    pub fn order(&self, apex: &ZoneName, order: StoreOrder, stored: OnStored) {
        self.0.submit(apex, Task::Order(order, stored));
    }

    /// Returns the changes since a version; `None` if the store does not reach back to it. Waits for the
    /// earlier orders of the zone, ten seconds at most.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn history(
        &self,
        apex: &ZoneName,
        from: impl Into<HistoryStart>,
    ) -> Result<Option<History>, StoreFault> {
        self.read_history(apex, from.into()).recv_timeout(HISTORY_TIMEOUT).unwrap_or(Ok(None))
    }

    /// Queues the read of [`history`](Self::history) without waiting.
    pub fn read_history(
        &self,
        apex: &ZoneName,
        from: HistoryStart,
    ) -> Receiver<Result<Option<History>, StoreFault>> {
        let (reply, replied) = sync_channel(1);
        self.0.submit(apex, Task::History(from, reply));
        replied
    }

    /// Waits until no thread uses the folder, so that another run can open it.
    #[cfg(test)]
    pub fn wait_until_unused(self) {
        self.flush();
        while Arc::strong_count(&self.0) > 1 {
            std::thread::yield_now();
        }
    }

    /// Runs `with_folder` on this thread, with the folder of the zone's store, once all tasks of the zone
    /// have ended, with its store closed. Tasks that arrive meanwhile wait.
    ///
    /// # Errors
    /// Those of `with_folder`, and that the folder of the zone's view cannot be opened.
    pub fn exclusively<T, E: From<StoreFault>>(
        &self,
        apex: &ZoneName,
        with_folder: impl FnOnce(&StoreFolder) -> Result<T, E>,
    ) -> Result<T, E> {
        let _reserved = self.0.reserve(apex);
        with_folder(&self.0.folders.of(apex)?)
    }

    /// Waits until all orders have ended, ten seconds at most. Returns whether they have.
    pub fn flush(&self) -> bool {
        let zones = lock(&self.0.zones);
        let waited = self.0.idle.wait_timeout_while(zones, FLUSH_TIMEOUT, |zones| zones.busy > 0);
        let (zones, _) = waited.unwrap_or_else(PoisonError::into_inner);
        zones.busy == 0
    }
}

/// Keeps the tasks of a zone waiting until dropped.
struct Reserved<'i>(&'i Arc<Inner>, &'i ZoneName);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let Reserved(all, apex) = *self;
        let zones = lock(&all.zones);
        if zones.by_apex.get(apex).is_some_and(|zone| zone.tasks.is_empty()) {
            return all.leave(zones, apex, None);
        }
        drop(zones);
        let (inner, of) = (Arc::clone(all), apex.clone());
        all.background.run(JobKind::Store, move || inner.work(&of));
    }
}

impl Inner {
    /// Waits until the tasks of a zone have ended, closes its store and keeps further tasks waiting.
    fn reserve<'i>(self: &'i Arc<Self>, apex: &'i ZoneName) -> Reserved<'i> {
        let is_busy = |zones: &mut Zones| zones.by_apex.get(apex).is_some_and(ZoneTasks::is_busy);
        let mut zones =
            self.idle.wait_while(lock(&self.zones), is_busy).unwrap_or_else(PoisonError::into_inner);
        let zone = zones.by_apex.entry(apex.clone()).or_default();
        zone.scheduled = true;
        let closed = zone.store.take();
        zones.open -= usize::from(closed.is_some());
        zones.busy += 1;
        Reserved(self, apex)
    }

    fn submit(self: &Arc<Self>, apex: &ZoneName, task: Task) {
        self.submit_to(apex, task, OnThread::Background);
    }

    fn submit_to(self: &Arc<Self>, apex: &ZoneName, task: Task, on_thread: OnThread) {
        let kind = if matches!(task, Task::History(..)) { JobKind::History } else { JobKind::Store };
        let mut zones = lock(&self.zones);
        let zone = zones.by_apex.entry(apex.clone()).or_default();
        let was_busy = zone.is_busy();
        match task {
            Task::Finish(finish) => zone.finish = Some(finish),
            task => zone.tasks.push_back(task),
        }
        let is_scheduled = std::mem::replace(&mut zone.scheduled, true);
        zones.busy += usize::from(!was_busy);
        drop(zones);
        if is_scheduled {
            return;
        }
        if on_thread == OnThread::This {
            return self.work(apex);
        }
        let (all, apex) = (Arc::clone(self), apex.clone());
        self.background.run(kind, move || all.work(&apex));
    }

    /// Runs the tasks of a zone until none is left that can run.
    fn work(self: &Arc<Self>, apex: &ZoneName) {
        let mut store = None;
        loop {
            let mut zones = lock(&self.zones);
            let Some(zone) = zones.by_apex.get_mut(apex) else { return };
            let opened = zone.store.take();
            let was_open = usize::from(opened.is_some());
            store = store.or(opened);
            let (task, writing) = (zone.next(), zone.writing);
            zones.open -= was_open;
            let Some(task) = task else { return self.leave(zones, apex, store) };
            drop(zones);
            // A panic is a bug in nomen. It ends only this task and drops its callback.
            let run = catch_unwind(AssertUnwindSafe(|| self.run(apex, store.take(), task, writing)));
            store = run.unwrap_or_default();
        }
    }

    /// Keeps the store of a zone whose tasks have ended open, unless too many are open.
    fn leave(&self, mut zones: MutexGuard<'_, Zones>, apex: &ZoneName, store: Option<ZoneStore>) {
        let is_full = zones.open >= OPEN_STORES;
        let Some(zone) = zones.by_apex.get_mut(apex) else { return };
        zone.scheduled = false;
        let is_busy = zone.is_busy();
        // The store holds the state of a long write in progress, so a busy zone keeps it.
        zone.store = store.filter(|_| !is_full || is_busy);
        let is_open = zone.store.is_some();
        if !is_open && !is_busy {
            zones.by_apex.remove(apex);
        }
        zones.open += usize::from(is_open);
        zones.busy -= usize::from(!is_busy);
        if !is_busy {
            self.idle.notify_all();
        }
        if is_full {
            zones.by_apex.retain(|_, zone| zone.is_busy());
            zones.open = zones.by_apex.values().filter(|zone| zone.store.is_some()).count();
        }
    }

    /// Runs a task. Returns the store if it is still open.
    fn run(
        self: &Arc<Self>,
        apex: &ZoneName,
        store: Option<ZoneStore>,
        task: Task,
        writing: Writing,
    ) -> Option<ZoneStore> {
        let served = match &task {
            Task::Append(append, _) => Some(&append.before),
            _ => None,
        };
        let opened = store.map_or_else(|| self.open_store(apex, served), Ok);
        match (opened, task) {
            (Ok(store), Task::Append(append, appended)) => {
                self.run_append(apex, store, *append, appended, writing)
            }
            (Err(fault), Task::Append(_, appended)) => {
                appended(Appended::nothing(fault));
                None
            }
            (Ok(store), Task::Order(order, stored)) => self.run_order(apex, store, order, stored, writing),
            (Err(fault), Task::Order(_, stored)) => {
                stored(Err(fault));
                None
            }
            (Ok(store), Task::History(from, reply)) => {
                // The client may have timed out.
                let _ = reply.try_send(match from {
                    HistoryStart::Version(from) => store.history(from),
                    HistoryStart::Last(most) => store.last_changes(most),
                });
                Some(store)
            }
            (Err(fault), Task::History(_, reply)) => {
                let _ = reply.try_send(Err(fault));
                None
            }
            (store, Task::Finish(finish)) => self.finish(apex, store, *finish),
        }
    }

    /// Opens the store of a zone; `served` is the version in service. The module's documentation says what
    /// happens to an unusable file.
    fn open_store(&self, apex: &ZoneName, served: Option<&Arc<Zone>>) -> Result<ZoneStore, StoreFault> {
        let (name, folder) = (apex.as_name(), self.folders.of(apex)?);
        let opened = folder.zone(name).or_else(|fault| {
            if matches!(fault, StoreFault::Io { .. }) {
                return Err(fault);
            }
            if !self.is_marked {
                folder.set_aside(name)?;
            } else if !served.is_some_and(|served| heal(&folder, apex, served, &fault)) {
                return Err(fault);
            }
            folder.zone(name)
        });
        opened.map(|(store, _)| store)
    }

    /// Stores changes together, and starts a compaction if that pays.
    fn run_append(
        self: &Arc<Self>,
        apex: &ZoneName,
        mut store: ZoneStore,
        append: Append,
        appended: OnAppended,
        writing: Writing,
    ) -> Option<ZoneStore> {
        store.keep_history(append.history);
        let end = put_changes(&mut store, &append);
        // The file is gone. When the store is opened again, it is written from the version in service.
        let is_gone = matches!(end.fault, Some(StoreFault::Io { action: "open", .. }));
        let compacts = end.fault.is_none() && writing == Writing::Nothing && store.is_worth_compacting();
        appended(end);
        if compacts {
            self.compact(apex, &mut store, append.after);
        }
        (!is_gone).then_some(store)
    }

    fn run_order(
        self: &Arc<Self>,
        apex: &ZoneName,
        mut store: ZoneStore,
        order: StoreOrder,
        stored: OnStored,
        writing: Writing,
    ) -> Option<ZoneStore> {
        let result = match order {
            StoreOrder::Version(zone, changes, confirmed) => {
                let appended = changes.is_some_and(|changes| append(&mut store, &changes, &zone));
                if !appended && (writing == Writing::Base || zone.record_count() >= LARGE_ZONE) {
                    let order = WholeVersion { confirmed, stored };
                    return Some(self.store_whole(apex, store, zone, order, writing));
                }
                let replaced = if appended { Ok(()) } else { store.replace(&zone) };
                let result = replaced.and_then(|()| confirm(&mut store, confirmed));
                if result.is_ok() && writing == Writing::Nothing && store.is_worth_compacting() {
                    self.compact(apex, &mut store, zone);
                }
                result.map(|()| true)
            }
            StoreOrder::Confirmed(at) => match store.confirmed(at) {
                Ok(()) => Ok(true),
                Err(StoreFault::NoBase) => Ok(false),
                Err(fault) => Err(fault),
            },
            StoreOrder::Change(change, bytes) => put_change(&mut store, &change, bytes).map(|()| true),
            StoreOrder::ContinueChanges(change, bytes) if store.serial() == Some(change.before) => {
                put_change(&mut store, &change, bytes).map(|()| true)
            }
            StoreOrder::ContinueChanges(..) => Ok(false),
            StoreOrder::Remove => {
                stored(store.remove().map(|()| true));
                return None;
            }
        };
        stored(result);
        Some(store)
    }

    /// Writes a version as a whole: now, or after the write in progress.
    fn store_whole(
        self: &Arc<Self>,
        apex: &ZoneName,
        mut store: ZoneStore,
        zone: Arc<Zone>,
        order: WholeVersion,
        writing: Writing,
    ) -> ZoneStore {
        if writing == Writing::Base {
            let whole = Task::Order(StoreOrder::Version(zone, None, order.confirmed), order.stored);
            if let Some(zone) = lock(&self.zones).by_apex.get_mut(apex) {
                zone.tasks.push_front(whole);
            }
            return store;
        }
        match store.begin_replacement() {
            Ok(replacement) => self.write(apex, zone, replacement, Writing::Whole, Some(order)),
            Err(fault) => (order.stored)(Err(fault)),
        }
        store
    }

    /// Starts writing a new base. A failure costs disk space until the next try.
    fn compact(self: &Arc<Self>, apex: &ZoneName, store: &mut ZoneStore, zone: Arc<Zone>) {
        match store.begin_compaction() {
            Ok(replacement) => self.write(apex, zone, replacement, Writing::Base, None),
            Err(fault) => self.not_compacted(apex, &fault),
        }
    }

    /// Writes a file beside the store at low priority.
    fn write(
        self: &Arc<Self>,
        apex: &ZoneName,
        zone: Arc<Zone>,
        mut replacement: Replacement,
        writing: Writing,
        order: Option<WholeVersion>,
    ) {
        if let Some(zone) = lock(&self.zones).by_apex.get_mut(apex) {
            zone.writing = writing;
        }
        let (all, apex) = (Arc::clone(self), apex.clone());
        self.background.run(JobKind::Compaction, move || {
            let write = catch_unwind(AssertUnwindSafe(|| replacement.write(&zone)));
            let written = write.unwrap_or(Err(StoreFault::NotWritten));
            drop(zone);
            all.submit(&apex, Task::Finish(Box::new(Finish { replacement, written, order })));
        });
    }

    /// Puts a file that was written beside the store in its place.
    fn finish(
        &self,
        apex: &ZoneName,
        store: Result<ZoneStore, StoreFault>,
        finish: Finish,
    ) -> Option<ZoneStore> {
        let Finish { replacement, written, order } = finish;
        let (mut store, opened) = match store {
            Ok(store) => (Some(store), Ok(())),
            Err(fault) => (None, Err(fault)),
        };
        let finished = opened.and(written).and_then(|()| match &mut store {
            Some(store) => store.finish(replacement),
            None => Err(StoreFault::NotWritten),
        });
        if let Some(zone) = lock(&self.zones).by_apex.get_mut(apex) {
            zone.writing = Writing::Nothing;
        }
        match (order, finished) {
            (Some(WholeVersion { confirmed, stored }), finished) => {
                let confirmed = finished.and_then(|()| match &mut store {
                    Some(store) => confirm(store, confirmed),
                    None => Ok(()),
                });
                stored(confirmed.map(|()| true));
            }
            (None, Err(fault)) => self.not_compacted(apex, &fault),
            (None, Ok(())) => (self.compacted)(apex, store.as_ref().map(ZoneStore::size)),
        }
        store
    }

    fn not_compacted(&self, apex: &ZoneName, fault: &StoreFault) {
        let about = ("compaction", &*apex.to_string());
        log_repeated!(warn, WARN, about, "zone {apex}: its store cannot be compacted: {fault}");
        (self.compacted)(apex, None);
    }
}

/// Stores changes of a version, with one sync.
fn put_changes(store: &mut ZoneStore, append: &Append) -> Appended {
    if let Err(fault) = make_ready(store, &append.before) {
        let (size, acknowledged) = (Some(store.size()), store.acknowledged());
        return Appended { size, acknowledged, ..Appended::nothing(fault) };
    }
    let (mut stored, mut fault) = (0, None);
    for change in &append.changes {
        match store.append(change) {
            Ok(()) => stored += 1,
            Err(refused) => {
                // These two faults lose the appended changes that are not acknowledged.
                let loses_all = matches!(refused, StoreFault::Io { .. } | StoreFault::Refused);
                stored = if loses_all { 0 } else { stored };
                fault = Some(refused);
                break;
            }
        }
    }
    let begun = Instant::now();
    let synced = match store.sync() {
        Ok(_) => Some(begun.elapsed()),
        Err(refused) => {
            (stored, fault) = (0, Some(refused));
            None
        }
    };
    Appended { stored, fault, synced, size: Some(store.size()), acknowledged: store.acknowledged() }
}

/// Makes the store end at this version and accept changes of it.
fn make_ready(store: &mut ZoneStore, zone: &Zone) -> Result<(), StoreFault> {
    match store.serial() {
        None => store.replace(zone),
        Some(stored) if stored != zone.serial() => {
            Err(StoreFault::OtherVersion { stored, found: zone.serial() })
        }
        Some(_) if store.is_broken() => store.compact(zone),
        Some(_) => Ok(()),
    }
}

/// Stores a zone with an unusable journal again from the version in service, if that is the acknowledged one,
/// so that nothing is lost. Returns whether the zone is stored.
fn heal(folder: &StoreFolder, apex: &ZoneName, served: &Arc<Zone>, fault: &StoreFault) -> bool {
    // A file that the system fails to open may be readable again later.
    if matches!(fault, StoreFault::Io { .. }) || folder.acknowledged(apex.as_name()) != Some(served.serial())
    {
        return false;
    }
    let serial = served.serial();
    match folder.start_over(served) {
        Ok(aside) => {
            let shown = aside.map_or("missing".into(), |path| path.display().to_string());
            log_repeated!(
                warn,
                WARN,
                ("journal stored anew", &apex.to_string()),
                "zone {apex}: its journal is stored anew from the version in service, serial {serial}, with \
                 nothing lost; the old one: {shown}; the reason: {fault}"
            );
            true
        }
        Err(other) => {
            let about = ("journal not stored anew", &*apex.to_string());
            log_repeated!(warn, WARN, about, "zone {apex}: its journal cannot be stored anew: {other}");
            false
        }
    }
}

/// Appends the changes that lead to a version. Returns whether the store then has the version, acknowledged.
fn append(store: &mut ZoneStore, changes: &[Arc<ChangeSet>], zone: &Zone) -> bool {
    let all = changes.iter().try_for_each(|change| store.append(change));
    all.and_then(|()| store.sync()).is_ok_and(|serial| serial == zone.serial())
}

fn confirm(store: &mut ZoneStore, at: Option<UnixTime>) -> Result<(), StoreFault> {
    at.map_or(Ok(()), |at| store.confirmed(at))
}

/// Stores a change of a zone whose records are not in the store.
fn put_change(store: &mut ZoneStore, change: &ChangeSet, bytes: u64) -> Result<(), StoreFault> {
    store.keep_history(bytes);
    // The store may end at another version: the file changed while nomen did not run, or too much of it
    // changed.
    if store.serial() != Some(change.before) || store.is_broken() {
        store.replace_without_zone(change.before)?;
    }
    store.append(change)?;
    store.sync()?;
    if store.is_worth_compacting() { store.compact_without_zone() } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod tests;
