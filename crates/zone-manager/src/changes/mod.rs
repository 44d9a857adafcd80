//! Dynamic updates (RFC 2136), and what changes zones beside them: edits of programs, transactions of
//! operators, zone files that are taken, and signing. `update` reads and applies requests; `journal` has the
//! format on disk.
//!
//! A worker reads a request and queues it. One thread takes all queued requests, zone by zone: it decides
//! them in order on the newest version and has the changes stored ([`stores`](crate::stores)). Once the
//! changes are on disk, the thread publishes the next version, and then the clients get their responses. So a
//! crash loses nothing that was acknowledged. Requests that arrive while a zone is being stored are stored
//! together next.
//!
//! From a zone's first change on, its authoritative version is in the state folder. The zone file is only its
//! first version, and does not go into service again unless an operator asks for it. The newest version is
//! written back to the file if an operator wants that.
//!
//! | file | holds |
//! |---|---|
//! | `queue` | one zone that changes, and the jobs that wait for it |
//! | `group` | the jobs of a zone that are stored together, and their changes |
//! | `serials` | the serial number of the next version |
//! | `rrsets` | RRsets of a version, and what transactions and edits make of them |
//! | `answers` | responses, and their lines in the log |
//! | `worker` | the thread that changes zones |
//! | `transactions` | changes that operators make step by step and commit as one |
//! | `edits` | changes of RRsets that programs ask for |
//! | `damage` | unusable journals, and the versions that operators accept in their place |
//! | `files` | writing the zone files of zones that change |
//! | `signing` | keys and signatures of one zone that is signed here |
//! | `signed_zones` | the same, for other parts of the server |
//! | `maintenance` | what the thread does for such zones |
//! | `followed` | zones of the database: changes are committed there first, and those of other nodes come from there |
//! | `forget` | removing what is stored of zones that do not exist any more |
//! | `notes` | state of zones that is kept from one run to the next |
//! | `signed` | signed requests that were decided, so that none is executed twice |
//! | `origins` | when versions were made, and by whom |
//! | `parents` | the thread that asks parents for DS sets, and notifies them of new CDS records |
//! | `delegations` | what child zones ask of their delegations |
//! | `ds_push` | DS records pushed to the parents of zones that are signed here |
//! | `clock` | the time at which the thread decides |
//! | `counts` | counters and states for operators |
//!
//! The thread claims a zone once to get the version in service; from then on only the thread changes the
//! zone. If nothing of the zone is stored, the thread drops the claim, and the zone loads from its file
//! again.

mod answers;
pub(crate) mod clock;
mod counts;
mod damage;
mod delegations;
mod ds_push;
mod edits;
mod files;
mod followed;
mod forget;
mod group;
mod maintenance;
mod notes;
mod origins;
mod parents;
mod queue;
mod rrsets;
mod serials;
mod signed;
mod signed_zones;
mod signing;
#[cfg(test)]
pub(crate) mod simulated;
mod transactions;
mod worker;

use sandbox::kinds::{ThreadKind, confine};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};
use telemetry::audit::RefusalLog;

use arc_swap::ArcSwap;
use journal::{Disk, HeldStores, History, RealDisk, StoreFault, StoreFolders, StoreSize};
use query_path::{Asked, Engine, Refusal, Responder, Responders, Source, SourceReply};
use tracing::{debug, error, info, warn};
use transport::{ClientCertificate, unix_now};
use update::{Requester, UpdateFault, UpdateFaultKind, UpdateLimits, UpdateRequest, is_signed};
use wire::edns::ErrorInfo;
use wire::hash::HashKey;
use wire::message::Builder;
use wire::{LowerNameBuf, Rcode, Serial, UnixTime, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;
use zone_plan::{UpdateRules, ZoneSpec, ZoneUpdates};

use crate::database::ZoneDatabase;
use crate::managed::FileStamp;
use crate::managed::publishing::PublishHandle;
use crate::managed::state::TakeWhen;
use crate::managed::table::ZoneStates;
use crate::stores::{HistoryStart, ZoneStores};
use config::Adopt;
use config::Settings;
pub use counts::{RCODES, SYNC_BOUNDS, UpdateCounts, ZoneChanges};
use damage::UnclearFiles;
pub use damage::{AcceptFault, Accepted, Damage};
pub use delegations::{
    CheckOutcome, ChildRequestKind, DelegationCheckCounts, DelegationCounts, DelegationStatus, Delegations,
};
use ds_push::DsPushes;
pub use ds_push::{DsPushCounts, DsPushState, DsPushStatus};
pub use edits::{ChangeAuthor, EditEnd, EditFault, RrsetEdit, RrsetEditKind, ZoneEdit};
pub use files::{CurrentFile, FileFault, FileState};
use files::{Schedule, ZoneFiles};
pub use forget::Leavings;
use group::{ChangeJob, FileJob};
pub use group::{TakeEnd, TakeFault, TakenFile, TakenStep};
use notes::Notes;
use origins::VersionOrigins;
pub use origins::{ChangeOrigin, VersionOrigin};
pub use parents::{ParentCounts, Parents};
use queue::Entry;
use serving::frontend::Served;
pub use signed::RepeatedCounts;
use signed::{Admitted, DecidedOnce, SignedRequests, respond};
pub use signing::{
    OfflineStatus, SignCommand, SignEnd, SignReply, SigningStatus, ZoneKeyEvent, ZoneKeyStatus,
};
use telemetry::repeated::log_repeated;
use threads::background::Background;
use threads::sync::lock;
use transactions::{CommitOrder, TransactionBounds, Transactions};
pub use transactions::{OpenTransaction, SetRecord, TransactionFault, UnsetRecords};
use wording::reason;
use worker::{Order, Worker};

/// Folder of the stores in the state folder.
pub const FOLDER: &str = "changes";
/// File in the state folder with the last acknowledged version of each zone.
pub const MARKS: &str = "zone-marks";
/// Longest wait for a reply of the thread.
const THREAD_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Log of updates that are refused before they are queued.
static REFUSED: RefusalLog = RefusalLog::new("update");
/// A request whose changes could not be stored has no effect.
const NOT_KEPT: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);

/// Why dynamic updates cannot be offered.
#[derive(Debug)]
pub enum ChangesFault {
    /// The state folder cannot be used.
    Folder(StoreFault),
    /// The notes of zones cannot be read.
    Notes(io::Error),
    /// The system cannot start a thread.
    Thread(io::Error),
}

impl fmt::Display for ChangesFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(fault) => write!(f, "changes of zones cannot be stored: {fault}"),
            Self::Notes(fault) => {
                write!(f, "the notes on zones in the state folder cannot be read: {}", reason(fault))
            }
            Self::Thread(fault) => write!(f, "cannot start the thread that changes zones: {fault}"),
        }
    }
}
impl std::error::Error for ChangesFault {}

/// A queued request.
struct Job {
    apex: ZoneName,
    request: UpdateRequest,
    rules: Arc<ZoneUpdates>,
    /// The key that signed the request.
    key: Option<LowerNameBuf>,
    client: IpAddr,
    /// The certificate that the client has shown.
    certificate: Option<Arc<ClientCertificate>>,
    /// Sends the response; if dropped, SERVFAIL is sent.
    answer: SendAnswer,
    /// Counts the request as waiting.
    _waiting: Option<Waiting>,
}

/// Sends the response to a request: success, or a refusal.
type SendAnswer = Box<dyn FnOnce(Result<(), Refusal>) + Send>;

/// Counts a request as waiting until dropped.
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

/// Dynamic updates of all zones.
pub struct Changes {
    /// The engine that serves the zones; it has this as the source for UPDATE.
    engine: Weak<Engine<Served>>,
    stores: ZoneStores,
    orders: Sender<Order>,
    queue: AtomicUsize,
    records: AtomicUsize,
    /// Most checks of delegations in a second.
    delegation_checks: AtomicU32,
    files: ZoneFiles,
    transactions: Arc<Transactions>,
    bounds: ArcSwap<TransactionBounds>,
    /// Journals whose zone cannot be read from them.
    unclear: UnclearFiles,
    signed: Arc<SignedRequests>,
    /// The state folder.
    state: PathBuf,
    /// The zones of the database, if there is one.
    database: OnceLock<Arc<ZoneDatabase>>,
    shared: Arc<Shared>,
}

/// State shared by the threads and callers.
struct Shared {
    rules: ArcSwap<UpdateRules>,
    /// Publishes changed versions.
    publishing: PublishHandle,
    /// The zone table, with the versions in service.
    states: Arc<ZoneStates>,
    counts: UpdateCounts,
    /// Zones that have a store on disk.
    stored: Mutex<HashSet<ZoneName>>,
    /// Zones whose journals cannot be used.
    damaged: Mutex<HashMap<ZoneName, Damage>>,
    /// Zones that have changed since the start.
    zones: Mutex<HashMap<ZoneName, ZoneChanges>>,
    /// Zones that currently take no updates. Workers read this set, because the notes wait for the disk.
    frozen: Mutex<HashSet<ZoneName>>,
    notes: Mutex<Notes>,
    /// When recent versions were made, and by whom.
    origins: Mutex<VersionOrigins>,
    /// When files are due to be written.
    schedule: Schedule,
    /// Held while a file is written.
    writing: Mutex<()>,
    /// The state folder, which has the keys of zones that are signed here.
    state: PathBuf,
    /// Keys and signatures of zones that are signed here, for operators.
    signing: Mutex<HashMap<ZoneName, Arc<SigningStatus>>>,
    /// Asks the parents of zones that are signed here, once it was made.
    parents: OnceLock<Arc<Parents>>,
    /// Pushes DS records of zones that are signed here, once it was made.
    ds_pushes: OnceLock<Arc<DsPushes>>,
    /// Checks the delegations of zones, once it was made.
    delegations: OnceLock<Arc<Delegations>>,
    /// The zones of the database, if there is one, as long as `Changes` has them.
    database: OnceLock<Weak<ZoneDatabase>>,
    /// Zones of the database of which any version is taken that comes next.
    retaken: Mutex<HashSet<ZoneName>>,
}

impl Shared {
    fn new(
        notes: Notes,
        stored: HashSet<ZoneName>,
        publishing: PublishHandle,
        states: Arc<ZoneStates>,
        state: PathBuf,
    ) -> Shared {
        Shared {
            state,
            signing: Mutex::default(),
            parents: OnceLock::new(),
            ds_pushes: OnceLock::new(),
            delegations: OnceLock::new(),
            database: OnceLock::new(),
            retaken: Mutex::default(),
            rules: ArcSwap::default(),
            publishing,
            states,
            counts: UpdateCounts::default(),
            stored: Mutex::new(stored),
            damaged: Mutex::default(),
            zones: Mutex::default(),
            frozen: Mutex::new(notes.frozen().cloned().collect()),
            notes: Mutex::new(notes),
            origins: Mutex::default(),
            schedule: Schedule::default(),
            writing: Mutex::default(),
        }
    }

    /// Records changes of a zone, and why the last one is not stored, for operators.
    fn note(&self, apex: &ZoneName, changes: usize, now: UnixTime, fault: Option<String>) {
        let mut zones = lock(&self.zones);
        let known = zones.entry(apex.clone()).or_default();
        known.changes += changes as u64;
        if changes > 0 {
            known.last = now.as_secs();
        }
        if changes > 0 || fault.is_some() {
            known.fault = fault;
        }
    }

    /// Records the size of a zone on disk.
    fn set_size(&self, apex: &ZoneName, size: StoreSize) {
        let mut zones = lock(&self.zones);
        let known = zones.entry(apex.clone()).or_default();
        (known.base_bytes, known.change_bytes, known.history_bytes) = (size.base, size.changes, size.history);
    }
}

/// Opens the stores of zones that updates change.
fn open_stores(folders: StoreFolders, shared: &Arc<Shared>, background: &Arc<Background>) -> ZoneStores {
    let theirs = Arc::clone(shared);
    let compacted = move |apex: &ZoneName, size| match size {
        Some(size) => theirs.set_size(apex, size),
        None => drop(theirs.counts.failed.fetch_add(1, Relaxed)),
    };
    ZoneStores::of_marked(folders, Box::new(compacted), Arc::clone(background))
}

impl Changes {
    /// Whether a state folder has stores of zones that updates have changed.
    pub fn are_in(state: &Path) -> bool {
        state.join(FOLDER).exists() || state.join(MARKS).exists()
    }

    /// Starts the threads. From the next batch on the engine takes UPDATE for the zones of
    /// [`allow`](Self::allow). Changed versions are published through `publishing`; `states`
    /// has the versions in service.
    ///
    /// # Errors
    /// [`ChangesFault`].
    pub fn start(
        engine: &Arc<Engine<Served>>,
        settings: &Settings,
        state: &Path,
        background: &Arc<Background>,
        publishing: PublishHandle,
        states: Arc<ZoneStates>,
    ) -> Result<Arc<Changes>, ChangesFault> {
        // If this fails, `open_folder` reports why.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
        let is_first = !Self::are_in(state);
        let (folders, held) = open_folders(Arc::new(RealDisk), state).map_err(ChangesFault::Folder)?;
        let (stored, unclear) = (held.zones.into_iter().collect(), UnclearFiles(held.unclear));
        let notes = Notes::open(state).map_err(ChangesFault::Notes)?;
        let shared = Arc::new(Shared::new(notes, stored, publishing, states, state.to_owned()));
        let stores = open_stores(folders, &shared, background);
        let (orders, taken) = channel();
        let (of_worker, background) = (Arc::clone(&shared), Arc::clone(background));
        let worker = Worker::new(stores.clone(), taken, orders.clone(), of_worker, background);
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        thread("changes").spawn(move || worker.work()).map_err(ChangesFault::Thread)?;
        let files = ZoneFiles { shared: Arc::clone(&shared), orders: orders.clone() };
        let writer = files.clone();
        thread("zone-files")
            .spawn(move || {
                confine(ThreadKind::Files);
                writer.work();
            })
            .map_err(ChangesFault::Thread)?;
        let changes = Arc::new(Changes {
            engine: Arc::downgrade(engine),
            stores,
            orders,
            queue: AtomicUsize::default(),
            records: AtomicUsize::default(),
            delegation_checks: AtomicU32::default(),
            files,
            transactions: Arc::default(),
            bounds: ArcSwap::from_pointee(bounds_of(settings)),
            unclear,
            signed: Arc::new(SignedRequests::open(state, is_first, unix_now())),
            state: state.to_owned(),
            database: OnceLock::new(),
            shared,
        });
        changes.adopt(settings);
        let source: Arc<dyn Source> = changes.clone();
        engine.change_sources(|sources| sources.update = Some(Arc::clone(&source)));
        Ok(changes)
    }

    /// Replaces the rules of all zones.
    pub fn allow(&self, rules: &UpdateRules) {
        self.shared.states.online().adopt(rules);
        let before = self.shared.rules.swap(Arc::new(rules.clone()));
        rules.iter().for_each(|(apex, rules)| self.schedule(apex, rules));
        let signing = |rules: &UpdateRules, apex| rules.get(apex).and_then(|rules| rules.signing.clone());
        let changed = rules.iter().filter(|(apex, _)| signing(rules, apex) != signing(&before, apex));
        changed.for_each(|(apex, _)| self.maintain(apex));
        self.set_all_delegations();
    }

    /// Replaces the rules of some zones.
    pub fn change(&self, zones: impl IntoIterator<Item = (ZoneName, Option<Arc<ZoneUpdates>>)>) {
        let (mut rules, mut changed) = (UpdateRules::clone(&self.shared.rules.load()), Vec::new());
        for (apex, updates) in zones {
            changed.push(apex.clone());
            updates.iter().for_each(|updates| self.schedule(&apex, updates));
            rules.set(&apex, updates);
        }
        self.set_delegations(&changed, &rules);
        self.shared.states.online().adopt(&rules);
        self.shared.rules.store(Arc::new(rules));
        changed.iter().for_each(|apex| self.maintain(apex));
    }

    /// Schedules writing the file of a zone that updates have changed before, in case it does not have that
    /// version yet.
    fn schedule(&self, apex: &ZoneName, rules: &ZoneUpdates) {
        let every = rules.write_file_every.filter(|_| self.is_stored(apex));
        every.into_iter().for_each(|every| self.shared.schedule.within(apex, every));
    }

    /// Queues an entry for a zone.
    fn queue(&self, apex: &ZoneName, entry: Entry) {
        // A send error means that the server is stopping.
        let _ = self.orders.send(Order::Zone(apex.clone(), entry));
    }

    /// Loads the stored version of a zone, if there is one.
    ///
    /// # Errors
    /// Why it cannot be used, and how to mend that.
    pub fn load(&self, spec: &ZoneSpec, key: &HashKey) -> Option<Result<Arc<Zone>, String>> {
        let (apex, file) = (&spec.apex, spec.text.file());
        if !self.is_stored(apex) {
            if !self.unclear.contains(self.stores.folders(), apex) {
                return None;
            }
            lock(&self.shared.stored).insert(apex.clone());
        }
        self.release(apex);
        let loaded = read_stored(&self.stores, apex, key).map(|stored| {
            let (zone, path) = stored?;
            if !spec.signed && self.shared.was_signed(apex) {
                match zone.is_signed() || zone.is_chainless() {
                    true => warn!(
                        "zone {apex}: it was signed here, and `dnssec-policy` is gone: its signatures are not \
                        renewed; set it to \"insecure\" until the zone is unsigned"
                    ),
                    false if self.leave_signing(apex) => return None,
                    false => {}
                }
            }
            let Some(file) = file else { return Some(zone) };
            self.adopt_file(apex, file, &path, zone.serial());
            let is_taken = spec.signed && !self.shared.has_changed(apex);
            if !is_taken && self.files.state(apex, file) == FileState::Edited {
                warn!(
                    "zone {apex}: its file {} was changed since nomen read or wrote it, and is not read: \
                    `nomen ctl zone reload --force` applies it",
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

    /// Makes the thread drop its version of a zone.
    fn release(&self, apex: &ZoneName) {
        let (reply, replied) = sync_channel(1);
        self.queue(apex, Entry::Release(reply));
        // If the thread does not reply, it has ended.
        let _ = replied.recv_timeout(THREAD_REPLY_TIMEOUT);
    }

    /// Whether the zone has a store on disk.
    pub fn is_stored(&self, apex: &ZoneName) -> bool {
        lock(&self.shared.stored).contains(apex)
    }

    /// Accepts a file without a note as known if it is not newer than the stored version. Its serial number
    /// is not known then, and is recorded as that before the newest.
    fn adopt_file(&self, apex: &ZoneName, file: &Path, stored: &Path, newest: Serial) {
        let is_noted = lock(&self.shared.notes).get(apex).is_some_and(|note| !note.files.is_empty());
        if !is_noted && !is_newer(file, stored) {
            self.files.note_read(apex, Some(&FileStamp::of(file)), Serial(newest.0.wrapping_sub(1)));
        }
    }

    /// Queues changing a zone to the version in its file, as it was when read, or of its primaries.
    pub fn take(&self, apex: ZoneName, zone: Arc<Zone>, file: Option<FileStamp>, when: TakeWhen) {
        let rules = self.shared.rules.load().get(&apex).cloned().unwrap_or_default();
        let (of, is_new) = (apex.clone(), true);
        let job = FileJob { apex, zone, file, rules, when, is_new };
        self.queue(&of, Entry::Change(ChangeJob::File(Box::new(job))));
    }

    /// Announces that the file of a zone will be taken, whether updates have changed the zone before or not.
    /// Waits for the thread; returns whether the zone can be changed. [`taken`](Self::taken) must follow.
    pub fn hold(&self, apex: &ZoneName) -> bool {
        let (reply, replied) = sync_channel(1);
        self.queue(apex, Entry::Hold(reply));
        replied.recv_timeout(THREAD_REPLY_TIMEOUT).unwrap_or(false)
    }

    /// Returns the result of taking the file of a zone; `None` if it was not taken. Waits for the thread.
    pub fn taken(&self, apex: &ZoneName) -> Option<TakeEnd> {
        let (reply, replied) = sync_channel(1);
        self.queue(apex, Entry::Taken(reply));
        replied.recv_timeout(THREAD_REPLY_TIMEOUT).ok().flatten()
    }

    /// Writes the version in service to the zone file. `force`: even if the file was edited.
    ///
    /// # Errors
    /// [`FileFault`].
    pub fn write_file(&self, apex: &ZoneName, force: bool) -> Result<CurrentFile, FileFault> {
        self.files.write(apex, force)
    }

    /// Returns the state of the zone file of a stored zone; `None` for other zones.
    pub fn file_state(&self, apex: &ZoneName, file: &Path) -> Option<FileState> {
        self.is_stored(apex).then(|| self.files.state(apex, file))
    }

    /// Returns the changes of a zone since a version; `None` if they are no longer stored. Waits for the
    /// disk.
    pub fn history(&self, apex: &ZoneName, from: impl Into<HistoryStart>) -> Option<History> {
        self.stores.history(apex, from).unwrap_or_else(|fault| {
            let name = apex.to_string();
            let about = ("history", &*name);
            log_repeated!(warn, WARN, about, "zone {name}: its history cannot be read: {fault}");
            None
        })
    }

    /// Returns when and by whom a version of a zone was made, if that is remembered.
    pub fn origin_of(&self, apex: &ZoneName, serial: Serial) -> Option<VersionOrigin> {
        lock(&self.shared.origins).of(apex, serial)
    }

    /// Stops updates of a zone, also after a restart, and writes its newest version to its file so that the
    /// file can be edited. Returns `None` if the zone is already frozen.
    ///
    /// # Errors
    /// [`FileFault`]; then the zone takes updates as before.
    pub fn freeze(&self, apex: &ZoneName) -> Result<Option<CurrentFile>, FileFault> {
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

    /// Resumes updates of a zone.
    ///
    /// # Errors
    /// [`FileFault::Notes`]; then the zone stays frozen.
    pub fn thaw(&self, apex: &ZoneName) -> Result<(), FileFault> {
        self.files.set_frozen(apex, false)
    }

    /// Opens a transaction on the version of a zone in service. Returns its serial number.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn begin(self: &Arc<Self>, apex: &ZoneName, served: &Arc<Zone>) -> Result<Serial, TransactionFault> {
        if self.is_frozen(apex) {
            return Err(TransactionFault::Frozen);
        }
        if is_signed(served) && self.shared.signing_of(apex).is_none() {
            return Err(TransactionFault::Signed);
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

    /// Sets a record in the transaction of a zone. Returns the change, which may be empty.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn set(&self, apex: &ZoneName, record: &SetRecord) -> Result<ChangeSet, TransactionFault> {
        self.transactions.set(apex, record, **self.bounds.load(), Instant::now())
    }

    /// Unsets records in the transaction of a zone. Returns the change.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn unset(&self, apex: &ZoneName, records: &UnsetRecords) -> Result<ChangeSet, TransactionFault> {
        self.transactions.unset(apex, records, **self.bounds.load(), Instant::now())
    }

    /// Returns the difference that the transaction of a zone makes so far.
    ///
    /// # Errors
    /// [`TransactionFault`].
    pub fn difference(&self, apex: &ZoneName) -> Result<ChangeSet, TransactionFault> {
        let work = self.transactions.work(apex, **self.bounds.load(), Instant::now())?;
        Ok(work.difference())
    }

    /// Commits the transaction of a zone. Returns, once the change is stored and in service, its figures;
    /// `None` if nothing changed.
    ///
    /// # Errors
    /// [`TransactionFault`]; then the transaction stays open.
    pub fn commit(&self, apex: &ZoneName) -> Result<Option<TakenStep>, TransactionFault> {
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
    pub fn abort(&self, apex: &ZoneName) -> Result<(), TransactionFault> {
        self.transactions.abort(apex)
    }

    /// State of the transaction of a zone, if one is open.
    pub fn transaction(&self, apex: &ZoneName) -> Option<OpenTransaction> {
        self.transactions.status(apex, Instant::now())
    }

    /// Takes no more requests, and waits for those in progress, ten seconds at most.
    pub fn stop(&self) {
        self.stop_delegations();
        let (reply, replied) = sync_channel(1);
        // The thread may have ended.
        let _ = self.orders.send(Order::Stop(reply));
        // A disk may take longer; what is not stored by then is not acknowledged.
        let _ = replied.recv_timeout(THREAD_REPLY_TIMEOUT);
        self.signed.save(&self.state);
    }

    /// Returns the serial number of a zone in service.
    fn serial_of(&self, apex: &ZoneName) -> Option<Serial> {
        let entry = self.engine.upgrade()?.zone_entry(apex)?;
        entry.zone().map(|zone| zone.serial())
    }

    /// Queues a request if this client may change this zone.
    fn take_request(&self, asked: &Asked<'_>, responders: Responders<'_>) -> Result<SourceReply, Refusal> {
        let (apex, client) = (asked.apex(), asked.client.peer.ip());
        let refused = |reason: &str| REFUSED.change_refused(asked, reason, || self.serial_of(&apex));
        let limits = UpdateLimits { records: self.records.load(Relaxed) };
        let request = UpdateRequest::read(asked.packet, limits).map_err(|fault| {
            refused(&fault.to_string());
            refusal(&fault)
        })?;
        let rules = self.shared.rules.load();
        let Some(rules) = rules.get(&apex).filter(|rules| rules.takes_any()) else {
            let engine = self.engine.upgrade().ok_or(Refusal::ABANDONED)?;
            let is_here = engine.zone_entry(&apex).is_some();
            refused(if is_here { "the zone takes no updates" } else { "the zone is not served here" });
            return Err(if is_here { Refusal::PROHIBITED } else { Refusal::NOT_AUTH });
        };
        let key = asked.verified.map(|verified| verified.key().name().to_buf());
        let certificate = asked.certificate().cloned();
        let requester = Requester {
            key: key.as_ref().map(|key| key.as_lower()),
            address: client,
            certificate: certificate.as_deref(),
        };
        if rules.policy.permission(requester).is_none() {
            refused("no rule of `allow-update` or `update-policy` names the client");
            return Err(Refusal::PROHIBITED);
        }
        let (once, responders) = match self.first_of(asked, responders, refused)? {
            Request::First(once, responders) => (once, responders),
            Request::Repeated(reply) => return Ok(reply),
        };
        if let Err(refusal) = self.may_wait(&apex, refused) {
            // Decided: it has no effect later, whatever allows it then.
            once.map(|once| once.settle(Err(refusal)));
            return Err(refusal);
        }
        let waiting = Waiting::new(&self.shared);
        let (responder, promise) = responders.take();
        let rules = Arc::clone(rules);
        let answer = self.answer_to(responder, once);
        let of = apex.clone();
        let job = Job { apex, request, rules, key, client, certificate, answer, _waiting: Some(waiting) };
        self.queue(&of, Entry::Change(ChangeJob::Update(Box::new(job))));
        Ok(SourceReply::Pending(promise))
    }
}

/// Whether a request is the first one with its signature.
enum Request<'r> {
    /// It is, or has none.
    First(Option<DecidedOnce>, Responders<'r>),
    /// It is not, and gets this reply.
    Repeated(SourceReply),
}

impl Changes {
    /// Returns whether a request is new. A repeated one gets the response of the first.
    fn first_of<'r>(
        &self,
        asked: &Asked<'_>,
        responders: Responders<'r>,
        refused: impl Fn(&str),
    ) -> Result<Request<'r>, Refusal> {
        let Some(verified) = asked.verified else { return Ok(Request::First(None, responders)) };
        let (mut responders, mut promise) = (Some(responders), None);
        let waiter = || {
            let (responder, promised) = responders.take()?.take();
            promise = Some(promised);
            Some(responder)
        };
        let admitted = self.signed.admit(verified, unix_now(), waiter);
        if !matches!(admitted, Admitted::First(_)) {
            debug!(zone = %asked.qname.as_lower(), client = %asked.client.peer, "a signed update was repeated");
        }
        match (admitted, responders, promise) {
            (Admitted::First(once), Some(responders), _) => Ok(Request::First(Some(once), responders)),
            (Admitted::Attached, _, Some(promise)) => Ok(Request::Repeated(SourceReply::Pending(promise))),
            (Admitted::Decided(Ok(())), ..) => {
                self.shared.counts.answered(Rcode::NOERROR);
                Ok(Request::Repeated(SourceReply::Ready(None)))
            }
            (Admitted::Decided(Err(refusal)), ..) => Err(refusal),
            (Admitted::Stale, ..) => {
                refused("it was signed too long ago to know whether it is a repetition");
                Err(Refusal::STALE_SIGNATURE)
            }
            (Admitted::First(_) | Admitted::Attached | Admitted::Ignored, ..) => {
                Ok(Request::Repeated(SourceReply::NoReply))
            }
        }
    }

    /// Checks whether a request for a zone may wait now.
    fn may_wait(&self, apex: &ZoneName, refused: impl Fn(&str)) -> Result<(), Refusal> {
        if self.is_frozen(apex) {
            refused("the zone is frozen: `nomen ctl zone thaw`");
            return Err(Refusal::PROHIBITED);
        }
        let counts = &self.shared.counts;
        if counts.waiting.load(Relaxed) >= self.queue.load(Relaxed) {
            counts.too_many.fetch_add(1, Relaxed);
            refused("too many updates wait already (`queue` of [updates])");
            return Err(NOT_KEPT);
        }
        Ok(())
    }

    /// Returns what sends the response to a request, and to its repetitions.
    fn answer_to(&self, responder: Responder, once: Option<DecidedOnce>) -> SendAnswer {
        let shared = Arc::clone(&self.shared);
        Box::new(move |response| {
            respond(responder, response);
            let repeated = once.map_or(0, |once| once.settle(response));
            let rcode = response.err().map_or(Rcode::NOERROR, |refusal| refusal.rcode);
            (0..repeated).for_each(|_| shared.counts.answered(rcode));
        })
    }

    /// Counters of repeated requests.
    pub fn repeated(&self) -> &RepeatedCounts {
        &self.signed.counts
    }

    /// Number of signed requests that are remembered, and of those forgotten before their signatures expired.
    pub fn remembered(&self) -> (usize, u64) {
        self.signed.sizes(unix_now())
    }
}

/// Opens the folders of stores. Returns what they hold as well.
fn open_folders(disk: Arc<dyn Disk>, state: &Path) -> Result<(StoreFolders, HeldStores), StoreFault> {
    let folders = StoreFolders::open(disk, state, FOLDER, Some(MARKS))?;
    let held = folders.held()?;
    for path in &held.unclear {
        warn!(file = %path.display(), "the file does not name its zone, it may be damaged");
    }
    for (_, folder) in folders.all() {
        let (damaged, root) = (folder.damaged_marks(), folder.root());
        if damaged > 0 {
            error!(
                file = %root.with_file_name(MARKS).display(),
                "{damaged} entries are damaged: zones in {} whose entries these were answer SERVFAIL until \
                 they are accepted",
                root.display()
            );
        }
    }
    Ok((folders, held))
}

/// Reads the stored version of a zone. Returns it with the path of its file.
fn read_stored(
    stores: &ZoneStores,
    apex: &ZoneName,
    key: &HashKey,
) -> Result<Option<(Arc<Zone>, PathBuf)>, StoreFault> {
    let begun = Instant::now();
    stores.exclusively(apex, |folder| {
        let (_store, Some(stored)) = folder.zone(apex.as_name())? else { return Ok(None) };
        let shown = stored.path().display();
        if let Some(torn) = stored.torn_tail() {
            info!("zone {apex}: {} bytes of an incomplete write in {shown} are ignored", torn.bytes);
        }
        if stored.is_mark_torn() {
            warn!(
                "zone {apex}: a crash has torn its entry in the state file {MARKS}, {shown} is used as it is"
            );
        }
        let zone = Arc::new(stored.load(key)?);
        let (serial, milliseconds) = (zone.serial(), begun.elapsed().as_millis() as u64);
        info!(milliseconds, "zone {apex}: serial {serial}, with its updates, from {shown}");
        Ok(Some((zone, stored.path().to_owned())))
    })
}

/// Returns the refusal for a request with a fault.
fn refusal(fault: &UpdateFault) -> Refusal {
    match fault.kind {
        UpdateFaultKind::NotPermitted => Refusal::PROHIBITED,
        UpdateFaultKind::OtherZone => Refusal::NOT_AUTH,
        UpdateFaultKind::SignedZone | UpdateFaultKind::SignersType | UpdateFaultKind::UnusedAlgorithm => {
            Refusal::because(fault.rcode(), ErrorInfo::NOT_SUPPORTED)
        }
        _ => Refusal::plain(fault.rcode()),
    }
}

/// Whether a file was modified later than another.
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
        self.delegation_checks.store(settings.updates.delegation_checks.0, Relaxed);
        self.signed.most.store(settings.updates.remembered.0, Relaxed);
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

/// Sends the reply to a waiting thread.
type Reply<T> = SyncSender<T>;
