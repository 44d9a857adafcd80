//! Dynamic updates (RFC 2136) at work. What a request says and does is `update`'s, how it is kept
//! `journal`'s.
//!
//! A worker reads a request and puts it into a queue. One thread takes all requests that are there, zone by
//! zone: it decides them one after the other on the newest version and has the changes stored
//! ([`stores`](crate::stores)). Once they are on disk, the thread has the next version put into service, and
//! then the clients are answered. So nothing is acknowledged that a crash could lose. Requests that come
//! while a zone is being stored are stored together next.
//!
//! From its first change on, the truth of a zone is in the state folder. Its master file is its first
//! version, and is not read into service again unless an operator says so. It is written back where an
//! operator wants that.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | who may change which zone, out of the configuration |
//! | `queue` | one zone that changes, and what waits for it |
//! | `group` | what jobs that are stored together make of a zone |
//! | `serials` | the serial number of the next version |
//! | `answers` | answers, and their lines in the log |
//! | `worker` | the thread |
//! | `transactions` | what operators change step by step and commit as one |
//! | `damage` | journals that cannot be used, and what operators accept in their place |
//! | `files` | writing the master files of zones that change |
//! | `notes` | what is remembered of zones from one run to the next |
//! | `counts` | what operators see |
//!
//! The thread asks the state of a zone once for the version in service, and alone changes the zone from then
//! on. Until something of the zone is stored, the claim that the thread drops lets the zone come from its
//! file again.

mod answers;
mod counts;
mod damage;
mod files;
mod group;
mod notes;
mod plan;
mod queue;
mod serials;
#[cfg(test)]
pub(crate) mod simulated;
mod transactions;
mod worker;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};
use telemetry::audit::RefusalLog;

use arc_swap::ArcSwap;
use engine::{Asked, Engine, Refusal, Responders, Source, SourceReply};
use journal::{Disk, History, RealDisk, StoreFault, StoreSize, ZoneFolder};
use tracing::{error, info, warn};
use update::{Requester, UpdateFault, UpdateFaultKind, UpdateLimits, UpdateRequest};
use wire::edns::ErrorInfo;
use wire::hash::HashKey;
use wire::message::Builder;
use wire::{LowerNameBuf, Name, Rcode, Serial};
use zone::Zone;
use zone::store::ChangeSet;

use crate::managed::publishing::PublishHandle;
use crate::managed::table::ZoneStates;
use crate::managed::{Apex, FileStamp};
use crate::stores::ZoneStores;
use config::Adopt;
use config::Settings;
pub use counts::{RCODES, SYNC_BOUNDS, UpdateCounts, ZoneChanges};
use damage::UnclearFiles;
pub use damage::{AcceptFault, Accepted, Damage};
pub use files::{CurrentFile, FileFault, FileState};
use files::{Schedule, ZoneFiles};
use group::{ChangeJob, FileJob};
pub use group::{TakeEnd, TakenFile, TakenStep};
use notes::Notes;
pub use plan::{UpdateMaker, UpdateRules, ZoneUpdates};
use queue::Entry;
use serving::frontend::Served;
use telemetry::repeated::log_repeated;
use threads::background::Background;
use threads::sync::lock;
use transactions::{CommitOrder, TransactionBounds, Transactions};
pub use transactions::{OpenTransaction, SetRecord, TransactionFault, UnsetRecords};
use wording::reason;
use worker::{Order, Worker};

/// The folder of the files in the state folder.
pub const FOLDER: &str = "changes";
/// The file in the state folder that has how far each zone's changes were acknowledged.
pub const MARKS: &str = "zone-marks";
/// Longest wait for the thread.
const THREAD_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Updates that are refused before the zone is looked at.
static REFUSED: RefusalLog = RefusalLog::new("update");
/// What could not be kept has not happened.
const NOT_KEPT: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);

/// Why there are no dynamic updates.
#[derive(Debug)]
pub enum ChangesFault {
    /// The state folder cannot be used.
    Folder(StoreFault),
    /// What is remembered of zones cannot be read.
    Notes(io::Error),
    /// The system refuses a thread.
    Thread(io::Error),
}

impl fmt::Display for ChangesFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(fault) => write!(f, "what changes in zones cannot be kept: {fault}"),
            Self::Notes(fault) => {
                write!(
                    f,
                    "what is remembered of zones cannot be read from the state folder: {}",
                    reason(fault)
                )
            }
            Self::Thread(fault) => write!(f, "cannot start the thread that changes zones: {fault}"),
        }
    }
}
impl std::error::Error for ChangesFault {}

/// A request that waits.
struct Job {
    apex: Apex,
    request: UpdateRequest,
    rules: Arc<ZoneUpdates>,
    /// The key that signed it.
    key: Option<LowerNameBuf>,
    client: IpAddr,
    /// Sends the answer; dropped, it answers SERVFAIL.
    answer: SendAnswer,
    /// Counts the request as one that waits.
    _waiting: Waiting,
}

/// Answers a request: the zone is as it wants it, or why it is not.
type SendAnswer = Box<dyn FnOnce(Result<(), Refusal>) + Send>;

/// Counts a request as one that waits, until it is dropped.
struct Waiting(Arc<Shared>);

impl Waiting {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.counts.waiting.fetch_add(1, Relaxed);
        Waiting(Arc::clone(shared))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.counts.waiting.fetch_sub(1, Relaxed);
    }
}

/// Takes dynamic updates.
pub struct Changes {
    /// Whose zones they are; the engine has this source.
    engine: Weak<Engine<Served>>,
    stores: ZoneStores,
    orders: Sender<Order>,
    queue: AtomicUsize,
    records: AtomicUsize,
    files: ZoneFiles,
    transactions: Arc<Transactions>,
    bounds: ArcSwap<TransactionBounds>,
    /// Journals that do not say of which zone they are.
    unclear: UnclearFiles,
    shared: Arc<Shared>,
}

/// What the threads and others share.
struct Shared {
    rules: ArcSwap<UpdateRules>,
    /// What changes goes into service through this.
    keeping: PublishHandle,
    kept: Arc<ZoneStates>,
    counts: UpdateCounts,
    /// Zones that are kept on disk.
    stored: Mutex<HashSet<Apex>>,
    /// Zones whose journals cannot be used.
    damaged: Mutex<HashMap<Apex, Damage>>,
    /// Zones that have changed since the start.
    zones: Mutex<HashMap<Apex, ZoneChanges>>,
    /// Zones that take no updates for the time being. Workers look here; the notes wait for the disk.
    frozen: Mutex<HashSet<Apex>>,
    notes: Mutex<Notes>,
    /// When files are to be written.
    schedule: Schedule,
    /// Held while a file is written.
    writing: Mutex<()>,
}

impl Shared {
    fn new(notes: Notes, stored: HashSet<Apex>, keeping: PublishHandle, kept: Arc<ZoneStates>) -> Shared {
        Shared {
            rules: ArcSwap::default(),
            keeping,
            kept,
            counts: UpdateCounts::default(),
            stored: Mutex::new(stored),
            damaged: Mutex::default(),
            zones: Mutex::default(),
            frozen: Mutex::new(notes.frozen().cloned().collect()),
            notes: Mutex::new(notes),
            schedule: Schedule::default(),
            writing: Mutex::default(),
        }
    }

    /// Notes changes of a zone, and why the last one is not stored, for operators.
    fn note(&self, apex: &Apex, changes: usize, now: u64, fault: Option<String>) {
        let mut zones = lock(&self.zones);
        let known = zones.entry(apex.clone()).or_default();
        known.changes += changes as u64;
        if changes > 0 {
            known.last = now;
        }
        if changes > 0 || fault.is_some() {
            known.fault = fault;
        }
    }

    /// Notes how many bytes a zone has on disk.
    fn set_size(&self, apex: &Apex, size: StoreSize) {
        let mut zones = lock(&self.zones);
        let known = zones.entry(apex.clone()).or_default();
        (known.base_bytes, known.change_bytes, known.history_bytes) = (size.base, size.changes, size.history);
    }
}

/// The stores of zones that updates change.
fn open_stores(folder: ZoneFolder, shared: &Arc<Shared>, background: &Arc<Background>) -> ZoneStores {
    let theirs = Arc::clone(shared);
    let compacted = move |apex: &Apex, size| match size {
        Some(size) => theirs.set_size(apex, size),
        None => drop(theirs.counts.failed.fetch_add(1, Relaxed)),
    };
    ZoneStores::of_marked(folder, Box::new(compacted), Arc::clone(background))
}

impl Changes {
    /// Whether a state folder has what updates have made of zones.
    pub fn are_in(state: &Path) -> bool {
        state.join(FOLDER).exists() || state.join(MARKS).exists()
    }

    /// Starts the thread. From the next batch on the engine takes UPDATE, for the zones of
    /// [`allow`](Self::allow). What changes goes into service through `manager`, and is seen in `kept`.
    ///
    /// # Errors
    /// [`ChangesFault`].
    pub fn start(
        engine: &Arc<Engine<Served>>,
        settings: &Settings,
        state: &Path,
        background: &Arc<Background>,
        (keeping, kept): (PublishHandle, Arc<ZoneStates>),
    ) -> Result<Arc<Changes>, ChangesFault> {
        // If it cannot be made, `open_folder` reports why.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
        let (folder, held) = open_folder(Arc::new(RealDisk), state).map_err(ChangesFault::Folder)?;
        let (zones, unclear) = held;
        let stored = zones.iter().map(|apex| Apex::from(apex.as_name().as_wire())).collect();
        let notes = Notes::open(state).map_err(ChangesFault::Notes)?;
        let shared = Arc::new(Shared::new(notes, stored, keeping, kept));
        let stores = open_stores(folder, &shared, background);
        let (orders, taken) = channel();
        let (of_worker, background) = (Arc::clone(&shared), Arc::clone(background));
        let worker = Worker::new(stores.clone(), taken, orders.clone(), of_worker, background);
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        thread("changes").spawn(move || worker.work()).map_err(ChangesFault::Thread)?;
        let files = ZoneFiles { shared: Arc::clone(&shared), orders: orders.clone() };
        let writer = files.clone();
        thread("zone-files").spawn(move || writer.work()).map_err(ChangesFault::Thread)?;
        let changes = Arc::new(Changes {
            engine: Arc::downgrade(engine),
            stores,
            orders,
            queue: AtomicUsize::default(),
            records: AtomicUsize::default(),
            files,
            transactions: Arc::default(),
            bounds: ArcSwap::from_pointee(bounds_of(settings)),
            unclear,
            shared,
        });
        changes.adopt(settings);
        let source: Arc<dyn Source> = changes.clone();
        engine.change_sources(|sources| sources.update = Some(Arc::clone(&source)));
        Ok(changes)
    }

    /// Other rules hold from now on.
    pub fn allow(&self, rules: &UpdateRules) {
        self.shared.rules.store(Arc::new(rules.clone()));
        rules.iter().for_each(|(apex, rules)| self.schedule(apex, rules));
    }

    /// Other rules hold for some zones from now on.
    pub fn change(&self, zones: impl IntoIterator<Item = (Apex, Option<Arc<ZoneUpdates>>)>) {
        let mut rules = UpdateRules::clone(&self.shared.rules.load());
        for (apex, updates) in zones {
            updates.iter().for_each(|updates| self.schedule(&apex, updates));
            rules.set(&apex, updates);
        }
        self.shared.rules.store(Arc::new(rules));
    }

    /// The file of a zone that updates have changed before is written, too, if it does not have that yet.
    fn schedule(&self, apex: &Apex, rules: &ZoneUpdates) {
        let every = rules.write_file_every.filter(|_| self.is_stored(apex));
        every.into_iter().for_each(|every| self.shared.schedule.within(apex, every));
    }

    /// Queues an entry for a zone.
    fn queue(&self, apex: &Apex, entry: Entry) {
        // Without a receiver, the server is stopping.
        let _ = self.orders.send(Order::Zone(apex.clone(), entry));
    }

    /// The version of a zone that is kept on disk, if one is.
    ///
    /// # Errors
    /// Why it cannot be used, and what to do about it.
    pub fn load(&self, apex: &Apex, key: &HashKey, file: &Path) -> Option<Result<Arc<Zone>, String>> {
        let name = Name::from_wire(apex).unwrap_or(Name::ROOT);
        if !self.is_stored(apex) {
            if !self.unclear.contains(self.stores.folder(), name) {
                return None;
            }
            lock(&self.shared.stored).insert(apex.clone());
        }
        self.release(apex);
        let loaded = read_stored(&self.stores, apex, key).map(|stored| {
            let (zone, path) = stored?;
            self.adopt_file(apex, file, &path, zone.serial());
            if self.files.state(apex, file) == FileState::Edited {
                warn!(
                    "zone {name}: its file {} was changed since nomen read or wrote it, and is not read: `nomen ctl \
                     zone reload --force` takes what it says",
                    file.display()
                );
            }
            Some(zone)
        });
        match &loaded {
            Ok(_) => drop(lock(&self.shared.damaged).remove(apex)),
            Err(fault) => return Some(Err(self.note_damage(apex, fault))),
        }
        loaded.ok().flatten().map(Ok)
    }

    /// Has the thread give up its version of a zone.
    fn release(&self, apex: &Apex) {
        let (reply, replied) = sync_channel(1);
        self.queue(apex, Entry::Release(reply));
        // A thread that does not answer has ended.
        let _ = replied.recv_timeout(THREAD_REPLY_TIMEOUT);
    }

    /// Whether versions of a zone are kept here.
    pub fn is_stored(&self, apex: &[u8]) -> bool {
        lock(&self.shared.stored).contains(apex)
    }

    /// A file of which nothing is remembered counts as known if it is older than what is stored. Which
    /// version it has is not known then, but not the newest.
    fn adopt_file(&self, apex: &Apex, file: &Path, stored: &Path, newest: Serial) {
        let is_noted = lock(&self.shared.notes).get(apex).is_some_and(|note| !note.files.is_empty());
        if !is_noted && !is_newer(file, stored) {
            self.files.note_read(apex, Some(&FileStamp::of(file)), Serial(newest.0.wrapping_sub(1)));
        }
    }

    /// A zone is to hold from now on what its file, as it was when it was read, holds.
    pub fn take(&self, apex: Apex, zone: Arc<Zone>, file: Option<FileStamp>) {
        let rules = self.shared.rules.load().get(&apex).cloned().unwrap_or_default();
        let of = apex.clone();
        self.queue(&of, Entry::Change(ChangeJob::File(Box::new(FileJob { apex, zone, file, rules }))));
    }

    /// The file of a zone is about to be taken, whether updates have changed the zone before or not. Waits
    /// for the thread; returns whether the zone can be changed. [`taken`](Self::taken) has to follow.
    pub fn hold(&self, apex: &Apex) -> bool {
        let (reply, replied) = sync_channel(1);
        self.queue(apex, Entry::Hold(reply));
        replied.recv_timeout(THREAD_REPLY_TIMEOUT).unwrap_or(false)
    }

    /// What came of taking the file of a zone; `None` if it was not. Waits for the thread.
    pub fn taken(&self, apex: &Apex) -> Option<TakeEnd> {
        let (reply, replied) = sync_channel(1);
        self.queue(apex, Entry::Taken(reply));
        replied.recv_timeout(THREAD_REPLY_TIMEOUT).ok().flatten()
    }

    /// Has the master file of a zone hold what updates have made of the zone. `force`: also if it was edited.
    ///
    /// # Errors
    /// [`FileFault`].
    pub fn write_file(&self, apex: &Apex, force: bool) -> Result<CurrentFile, FileFault> {
        self.files.write(apex, force)
    }

    /// What is known of the master file of a zone that is stored; `None` for others.
    pub fn file_state(&self, apex: &Apex, file: &Path) -> Option<FileState> {
        self.is_stored(apex).then(|| self.files.state(apex, file))
    }

    /// Returns the changes of a zone from a version on; `None` if they are not stored any more. Waits for the
    /// disk.
    pub fn history(&self, apex: &Apex, from: Serial) -> Option<History> {
        self.stores.history(apex, from).unwrap_or_else(|fault| {
            let name = Name::from_wire(apex).unwrap_or(Name::ROOT).to_string();
            let about = ("history", &*name);
            log_repeated!(warn, WARN, about, "zone {name}: its history cannot be read: {fault}");
            None
        })
    }

    /// Has a zone take no updates, also after a restart, and its file hold what they have made of it so far,
    /// so that it can be edited. `None` if it is frozen already.
    ///
    /// # Errors
    /// [`FileFault`]; then it takes updates as before.
    pub fn freeze(&self, apex: &Apex) -> Result<Option<CurrentFile>, FileFault> {
        if self.is_frozen(apex) {
            return Ok(None);
        }
        self.files.set_frozen(apex, true)?;
        match self.files.write(apex, false) {
            Ok(file) => Ok(Some(file)),
            Err(fault) => {
                self.files.set_frozen(apex, false)?;
                Err(fault)
            }
        }
    }

    /// Has a zone take updates again.
    ///
    /// # Errors
    /// [`FileFault::Notes`]; then it takes none, as before.
    pub fn thaw(&self, apex: &Apex) -> Result<(), FileFault> {
        self.files.set_frozen(apex, false)
    }

    /// Opens a transaction on a version of a zone, the one in service. Returns its serial number.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn begin(self: &Arc<Self>, apex: &Apex, served: &Arc<Zone>) -> Result<Serial, TransactionFault> {
        if self.is_frozen(apex) {
            return Err(TransactionFault::Frozen);
        }
        if self.transactions.begin(apex, served, **self.bounds.load(), Instant::now())? {
            let theirs = Arc::clone(self);
            let watch = move || theirs.transactions.watch(|| theirs.bounds.load().idle);
            // Without a thread, the next command drops idle transactions.
            if std::thread::Builder::new().name("transactions".into()).spawn(watch).is_err() {
                self.transactions.unwatched();
            }
        }
        Ok(served.serial())
    }

    /// Sets a record in the transaction of a zone. Returns what that changes, which may be nothing.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn set(&self, apex: &Apex, record: &SetRecord) -> Result<ChangeSet, TransactionFault> {
        self.transactions.set(apex, record, **self.bounds.load(), Instant::now())
    }

    /// Unsets records in the transaction of a zone. Returns what that changes.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn unset(&self, apex: &Apex, records: &UnsetRecords) -> Result<ChangeSet, TransactionFault> {
        self.transactions.unset(apex, records, **self.bounds.load(), Instant::now())
    }

    /// What the transaction of a zone changes so far.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn difference(&self, apex: &Apex) -> Result<ChangeSet, TransactionFault> {
        let work = self.transactions.work(apex, **self.bounds.load(), Instant::now())?;
        Ok(work.difference())
    }

    /// Makes a transaction a change of its zone. Returns, once that is kept and in service, what changed, if
    /// anything did.
    ///
    /// # Errors
    /// [`TransactionFault`]; then the transaction stays open.
    pub fn commit(&self, apex: &Apex) -> Result<Option<TakenStep>, TransactionFault> {
        self.transactions.commit(apex, **self.bounds.load(), Instant::now(), |work| {
            let (reply, replied) = sync_channel(1);
            let rules = self.shared.rules.load().get(apex).cloned().unwrap_or_default();
            let order = CommitOrder { work, rules, reply };
            self.queue(apex, Entry::Change(ChangeJob::Commit(Box::new(order))));
            replied.recv_timeout(THREAD_REPLY_TIMEOUT).unwrap_or(Err(TransactionFault::Busy))
        })
    }

    /// Drops the transaction of a zone.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn abort(&self, apex: &Apex) -> Result<(), TransactionFault> {
        self.transactions.abort(apex)
    }

    /// The transaction of a zone, if one is open.
    pub fn transaction(&self, apex: &[u8]) -> Option<OpenTransaction> {
        self.transactions.status(apex, Instant::now())
    }

    /// Whether a zone may be changed by anybody.
    pub fn takes_any(&self, apex: &[u8]) -> bool {
        self.shared.rules.load().get(apex).is_some()
    }

    /// What is known of a zone that has changed.
    pub fn status(&self, apex: &[u8]) -> Option<ZoneChanges> {
        let changed = lock(&self.shared.zones).get(apex).cloned();
        changed.or_else(|| self.is_stored(apex).then(ZoneChanges::default))
    }

    /// Whether a zone takes no updates for the time being.
    pub fn is_frozen(&self, apex: &[u8]) -> bool {
        lock(&self.shared.frozen).contains(apex)
    }

    /// What is counted.
    pub fn counts(&self) -> &UpdateCounts {
        &self.shared.counts
    }

    /// Bytes on the disk of zones that have changed since the start.
    pub fn bytes(&self) -> u64 {
        let zones = lock(&self.shared.zones);
        zones.values().map(|zone| zone.base_bytes + zone.change_bytes + zone.history_bytes).sum()
    }

    /// Takes no more requests, and waits for those that are there.
    pub fn stop(&self) {
        let (reply, replied) = sync_channel(1);
        // The thread may have ended.
        let _ = self.orders.send(Order::Stop(reply));
        // A disk may take longer; what it has not stored by then is not acknowledged.
        let _ = replied.recv_timeout(THREAD_REPLY_TIMEOUT);
    }

    /// The serial number of a zone in service.
    fn serial_of(&self, apex: Name<'_>) -> Option<Serial> {
        let catalog = self.engine.upgrade()?.catalog();
        catalog.get(apex)?.zone().map(|zone| zone.serial())
    }

    /// Takes a request, if this client may change this zone.
    fn take_request(&self, asked: &Asked<'_>, responders: Responders<'_>) -> Result<SourceReply, Refusal> {
        let (apex, client) = (asked.qname.as_lower(), asked.client.peer.ip());
        let refused = |reason: &str| REFUSED.change_refused(asked, reason, || self.serial_of(apex.as_name()));
        let limits = UpdateLimits { records: self.records.load(Relaxed) };
        let request = UpdateRequest::read(asked.packet, limits).map_err(|fault| {
            refused(&fault.to_string());
            refusal(&fault)
        })?;
        let rules = self.shared.rules.load();
        let Some(rules) = rules.get(apex.as_wire()) else {
            let engine = self.engine.upgrade().ok_or(Refusal::ABANDONED)?;
            let is_here = engine.catalog().get(apex.as_name()).is_some();
            refused(if is_here { "the zone takes no updates" } else { "the zone is not served here" });
            return Err(if is_here { Refusal::PROHIBITED } else { Refusal::NOT_AUTH });
        };
        let key = asked.verified.map(|verified| verified.key().name().to_buf());
        let requester = Requester { key: key.as_ref().map(|key| key.as_lower()), address: client };
        if rules.policy.permission(requester).is_none() {
            refused("no rule of `allow-update` or `update-policy` names the client");
            return Err(Refusal::PROHIBITED);
        }
        if self.is_frozen(apex.as_wire()) {
            refused("the zone is frozen: `nomen ctl zone thaw`");
            return Err(Refusal::PROHIBITED);
        }
        let counts = &self.shared.counts;
        if counts.waiting.load(Relaxed) >= self.queue.load(Relaxed) {
            counts.too_many.fetch_add(1, Relaxed);
            refused("too many updates wait already (`queue` of [updates])");
            return Err(NOT_KEPT);
        }
        let _waiting = Waiting::new(&self.shared);
        let (responder, promise) = responders.take();
        let (apex, rules) = (Apex::from(apex.as_wire()), Arc::clone(rules));
        let answer: SendAnswer = Box::new(move |result| match result {
            Ok(()) => responder.resume(|_| Ok(None)),
            Err(refusal) => responder.refuse(refusal),
        });
        let of = apex.clone();
        let job = Job { apex, request, rules, key, client, answer, _waiting };
        self.queue(&of, Entry::Change(ChangeJob::Update(Box::new(job))));
        Ok(SourceReply::Pending(promise))
    }
}

/// Opens the folder of changes. Returns the zones that it holds, as far as their files say which.
fn open_folder(
    disk: Arc<dyn Disk>,
    state: &Path,
) -> Result<(ZoneFolder, (HashSet<LowerNameBuf>, UnclearFiles)), StoreFault> {
    let (root, marks) = (state.join(FOLDER), state.join(MARKS));
    let folder = ZoneFolder::open_marked(disk, &root, &marks)?;
    let (zones, unclear) = folder.held()?;
    for path in &unclear {
        warn!(file = %path.display(), "the file does not say which zone's changes it has, it may be damaged");
    }
    let damaged = folder.damaged_marks();
    if damaged > 0 {
        error!(
            file = %marks.display(),
            "{damaged} entries are damaged: zones in {} whose entries these were answer SERVFAIL until they are accepted",
            root.display()
        );
    }
    Ok((folder, (zones, UnclearFiles(unclear))))
}

/// Reads the stored version of a zone, and returns it with the path of its file.
fn read_stored(
    stores: &ZoneStores,
    apex: &Apex,
    key: &HashKey,
) -> Result<Option<(Arc<Zone>, PathBuf)>, StoreFault> {
    let (name, begun) = (Name::from_wire(apex).unwrap_or(Name::ROOT), Instant::now());
    stores.exclusively(apex, |folder| {
        let (_store, Some(stored)) = folder.zone(name)? else { return Ok(None) };
        let shown = stored.path().display();
        if let Some(torn) = stored.torn_tail() {
            info!("zone {name}: {} bytes that a crash left in {shown} are left out", torn.bytes);
        }
        if stored.is_mark_torn() {
            warn!(
                "zone {name}: a crash has torn its entry in the state file {MARKS}, {shown} is taken as it is"
            );
        }
        let zone = Arc::new(stored.load(key)?);
        let (serial, milliseconds) = (zone.serial(), begun.elapsed().as_millis() as u64);
        info!(milliseconds, "zone {name}: serial {serial}, as updates have left it, from {shown}");
        Ok(Some((zone, stored.path().to_owned())))
    })
}

/// How a request with a fault is answered.
fn refusal(fault: &UpdateFault) -> Refusal {
    match fault.kind {
        UpdateFaultKind::NotPermitted => Refusal::PROHIBITED,
        UpdateFaultKind::OtherZone => Refusal::NOT_AUTH,
        UpdateFaultKind::SignedZone | UpdateFaultKind::SignersType => {
            Refusal::because(fault.rcode(), ErrorInfo::NOT_SUPPORTED)
        }
        _ => Refusal::plain(fault.rcode()),
    }
}

/// Whether a file was written after another.
fn is_newer(file: &Path, than: &Path) -> bool {
    let written = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    written(file).zip(written(than)).is_some_and(|(file, than)| file > than)
}

impl Source for Changes {
    fn answer(&self, asked: &Asked<'_>, _: &mut Builder<'_>, responders: Responders<'_>) -> SourceReply {
        self.take_request(asked, responders).unwrap_or_else(|refusal| {
            self.shared.counts.answered(refusal.rcode);
            SourceReply::Refused(refusal)
        })
    }
}

impl Adopt for Changes {
    fn adopt(&self, settings: &Settings) {
        self.queue.store(settings.updates.queue.0, Relaxed);
        self.records.store(settings.updates.records.0, Relaxed);
        self.bounds.store(Arc::new(bounds_of(settings)));
    }
}

fn bounds_of(settings: &Settings) -> TransactionBounds {
    let updates = &settings.updates;
    TransactionBounds {
        most: updates.transactions.0,
        bytes: updates.transaction_size.0,
        idle: updates.transaction_timeout.0,
    }
}

/// Sends an answer to the thread that waits for it.
type Reply<T> = SyncSender<T>;
