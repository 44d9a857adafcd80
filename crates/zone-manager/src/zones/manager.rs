//! The zone manager: one thread reports the configuration's zones and the results of loads to the state of
//! each zone. Loader threads read zones for it; the thread of `publishing` puts versions into service. Other
//! parts see the zones through [`ZoneTable`], and send requests through [`ZoneManagerHandle`].
//!
//! Work that belongs together, such as all zones of a reload, is a round; its end is reported to the client
//! that requested it. Rounds of all zones run one after the other; requests that arrive during one are
//! answered together by the next. A round of a single zone runs beside them, so that it does not wait for
//! others.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime};
use wire::{Serial, ZoneName};

use query_path::{Engine, ViewClients};
use tokio::sync::oneshot;
use tracing::{error, warn};
use transport::unix_now;

use wire::hash::HashKey;
use zone::Zone;
use zone::catalog::Change;
use zone_plan::{ReloadBounds, WantedZones, ZoneFault, ZoneSpec};

use super::created::ZoneCreation;
use super::documents::ZoneDocumentStore;
use super::examiner::Examiner;
use super::executor::{Executor, log};
use super::images::Images;
use super::loaders::{KeptElsewhere, LoadEnd, Loaders};
use super::produce::{OnProducerEvent, Producer, ProducerEvent};
use super::publisher::Publisher;
use super::publishing::PublishingThread;
pub use super::report::{HeldFolder, LostZones, RoundReport, Summary};
use crate::changes::Changes;
use crate::managed::publishing::{PublishHandle, Publishing};
use crate::managed::state::{KeptVersion, Load, Looked, ReadWhen, ZoneEvent};
use crate::managed::table::ManagedZone;
use crate::secondaries::Secondaries;
use crate::stores::differences::Differences;
use crate::stores::produced::ProducedStores;
use crate::transfers::Transfers;
use members::{Joining, ZoneChange};
pub(super) use of_database::DatabaseNews;
use rounds::{Purpose, Round, ViewTurn};
use serving::frontend::Served;
use serving::recursive::{LocalRoot, PolicyZones};
use table::Asker;
pub use table::{FolderFindings, LastReload, ReloadFault, Reloaded, ZoneTable};
use telemetry::systemd;
use threads::background::Background;
use threads::sync::{lock, read, write};

/// Interval of checks of signature lifetimes.
const SIGNATURE_CHECK_INTERVAL: Duration = Duration::from_secs(3600);
/// Zones that a reload handles per lock of the zone table; updates wait for that lock.
const ZONES_A_TURN: usize = 1000;
/// Least number of removed zones of a folder or a catalog zone for them to be held back.
pub(super) const LEAST_HELD: usize = 10;

/// A message to the manager thread.
pub(super) enum Message {
    Reload(Option<Asker>, Removal),
    ReloadZone(ZoneName, ReadWhen, Asker),
    Ask(ZoneChange, Asker),
    /// The first version of a zone to be created in the database.
    FirstVersion(Box<ZoneCreation>, oneshot::Sender<Result<Arc<Zone>, ReloadFault>>),
    /// Steps that are decided go into service.
    PublishNow(oneshot::Sender<()>),
    Loaded(LoadEnd),
    Load(Vec<Load>),
    /// A version of a catalog zone to read.
    CatalogVersion(ZoneName, Arc<Zone>),
    /// A step of a root zone that is a copy for the resolver.
    Root(Change),
    /// An event of the producer of catalog zones.
    Producer(ProducerEvent),
    /// News of the database. The reply has the serial numbers at hand of listed zones.
    Database(DatabaseNews, SyncSender<Vec<Option<Serial>>>),
    Stop,
}

/// Whether many zones of a folder are removed when their files are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Removal {
    /// They stay in service.
    HoldBack,
    /// They are removed.
    Force,
}

/// Sends requests to the zone manager; cheap to clone.
#[derive(Clone)]
pub struct ZoneManagerHandle {
    messages: Sender<Message>,
    publishing: Sender<Publishing>,
}

/// The receiving ends of the messages to both threads.
pub struct ZoneManagerInbox {
    messages: Receiver<Message>,
    publishing: Receiver<Publishing>,
}

impl ZoneManagerHandle {
    /// Returns a handle, and the receiving ends of its messages for [`ZoneManager::start`].
    pub fn new() -> (ZoneManagerHandle, ZoneManagerInbox) {
        let ((messages, taken), (publishing, published)) = (channel(), channel());
        (
            ZoneManagerHandle { messages, publishing },
            ZoneManagerInbox { messages: taken, publishing: published },
        )
    }

    /// Requests a reload of the configuration and of changed zones.
    pub fn reload(&self, removal: Removal) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::Reload(Some(reply), removal))
    }

    /// Requests such a reload without a reply at the end.
    pub fn reload_unheard(&self) {
        // A send error means that the server is stopping.
        let _ = self.messages.send(Message::Reload(None, Removal::HoldBack));
    }

    /// Requests a reload of one zone, changed or not. `take`: even if updates have changed it; the zone is
    /// then changed to its file's version.
    pub fn reload_zone(&self, apex: ZoneName, take: bool) -> oneshot::Receiver<Reloaded> {
        let when = if take { ReadWhen::Take } else { ReadWhen::Anyway };
        self.ask(|reply| Message::ReloadZone(apex, when, reply))
    }

    /// Requests to serve a zone; `text` is its `[[zone]]` block.
    pub fn add_zone(&self, text: String) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::Ask(ZoneChange::Add(text), reply))
    }

    /// Requests to create a zone with its first records, or one that comes from its primaries. The result
    /// comes once the zone is in service, and stays after a crash.
    pub fn create_zone(&self, zone: ZoneCreation) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::Ask(ZoneChange::Create(Box::new(zone)), reply))
    }

    /// Requests the first version of a zone that is to be created in the database, once it is clear that this
    /// node would serve the zone.
    pub fn first_version(&self, zone: ZoneCreation) -> oneshot::Receiver<Result<Arc<Zone>, ReloadFault>> {
        let (reply, result) = oneshot::channel();
        // A send error means that the server is stopping; the dropped reply reports that.
        let _ = self.messages.send(Message::FirstVersion(Box::new(zone), reply));
        result
    }

    /// Requests that all steps that are decided go into service now. They would within about a second.
    pub fn publish_now(&self) -> oneshot::Receiver<()> {
        let (reply, result) = oneshot::channel();
        // A send error means that the server is stopping; the dropped reply reports that.
        let _ = self.messages.send(Message::PublishNow(reply));
        result
    }

    /// Requests to stop serving a zone that was added at run time. Of one that was created, everything that
    /// is stored is removed, its keys included.
    pub fn remove_zone(&self, apex: ZoneName) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::Ask(ZoneChange::Remove(apex), reply))
    }

    /// Returns a handle that reports new versions to the publishing thread.
    pub fn publishing(&self) -> PublishHandle {
        PublishHandle(self.publishing.clone())
    }

    /// Returns a sender of messages to the manager thread.
    pub(super) fn messages(&self) -> Sender<Message> {
        self.messages.clone()
    }

    /// Ends the threads without waiting for their work.
    pub fn stop(&self) {
        // The threads may have ended before.
        let _ = self.publishing.send(Publishing::Stop);
        let _ = self.messages.send(Message::Stop);
    }

    fn ask(&self, message: impl FnOnce(Asker) -> Message) -> oneshot::Receiver<Reloaded> {
        let (reply, result) = oneshot::channel();
        // A send error means that the server is stopping; the dropped reply reports that.
        let _ = self.messages.send(message(reply));
        result
    }
}

/// Reads the configuration and returns its zones. Its settings are applied if the argument accepts these
/// zones.
pub type Prepare = dyn Fn(&AcceptZones<'_>) -> Result<WantedZones, ReloadFault> + Send;

/// Returns why zones are not accepted.
pub type AcceptZones<'a> = dyn Fn(&WantedZones) -> Result<(), ReloadFault> + 'a;

/// The parts of the server that [`ZoneManager`] works with.
pub struct ZoneManagerParts {
    /// The engine that answers from the zones.
    pub engine: Arc<Engine<Served>>,
    /// All zones and their states, for readers.
    pub table: Arc<ZoneTable>,
    /// Reads the configuration again.
    pub prepare: Box<Prepare>,
    /// The images, if any.
    pub images: Option<Arc<Images>>,
    /// Secondary zones and NOTIFY.
    pub secondaries: Option<Arc<Secondaries>>,
    /// Outgoing transfers.
    pub transfers: Option<Arc<Transfers>>,
    /// Dynamic updates, if there is a state folder.
    pub changes: Option<Arc<Changes>>,
    /// Stores of the changes of zone files.
    pub differences: Option<Arc<Differences>>,
    /// The resolver's copy of the root zone.
    pub local_root: Option<Arc<LocalRoot>>,
    /// The versions of response policy zones, for recursive service.
    pub policy_zones: Option<Arc<PolicyZones>>,
    /// Stores of produced catalog zones.
    pub produced: Arc<ProducedStores>,
    /// State folder, for the zones that are added at run time.
    pub state: Option<PathBuf>,
    /// Documents that end with their zones, if there are any.
    pub documents: Option<Arc<dyn ZoneDocumentStore>>,
    /// Runs folds and compactions.
    pub background: Arc<Background>,
}

/// State of the manager thread.
pub struct ZoneManager {
    table: Arc<ZoneTable>,
    prepare: Box<Prepare>,
    /// The hash key with which zones must be built.
    key: HashKey,
    executor: Arc<Executor>,
    transfers: Option<Arc<Transfers>>,
    /// Zones added and removed at run time.
    joining: Joining,
    loaders: Loaders,
    /// When signature lifetimes are checked next.
    signatures_due: Instant,
    images: Option<Arc<Images>>,
    own: Sender<Message>,
    messages: Receiver<Message>,
    /// The round of all zones.
    round: Option<Round>,
    /// The rounds of single zones.
    singles: HashMap<ZoneName, Round>,
    /// Rounds of single zones whose load has ended.
    ended: Vec<Round>,
    /// Limits of a reload.
    bounds: ReloadBounds,
    /// The result of the last round of all zones.
    last: Summary,
    /// Why steps of this round were not published, if any were not.
    unpublished: Option<Arc<str>>,
    /// Requests for the next round of all zones, and what it does with zones whose files are gone.
    all: Option<(Vec<Asker>, Removal)>,
    /// Requests for rounds of single zones, and how the zones are read.
    single: HashMap<ZoneName, (ReadWhen, Vec<Asker>)>,
    /// Operators' requests about single zones, in the order of their arrival.
    asked: VecDeque<(ZoneChange, Asker)>,
}

impl ZoneManager {
    /// Returns the state of the manager thread, and starts the publishing thread.
    ///
    /// # Errors
    /// Those of the system, if it refuses a thread.
    pub fn start(
        handle: &ZoneManagerHandle,
        inbox: ZoneManagerInbox,
        parts: ZoneManagerParts,
    ) -> io::Result<ZoneManager> {
        let ZoneManagerParts { engine, table, prepare, images, secondaries, transfers, .. } = parts;
        let ZoneManagerParts { changes, differences, local_root, policy_zones, produced, .. } = parts;
        let ZoneManagerParts { state, documents, background, .. } = parts;
        let theirs = handle.publishing.clone();
        let found = move |apex, zone, found| theirs.send(Publishing::Examined(apex, zone, found)).is_ok();
        let examiner = Examiner::start(unix_now, found);
        if let Err(fault) = &examiner {
            warn!("zones in service are not examined, the system refuses a thread: {fault}");
        }
        let own = handle.messages.clone();
        let events: OnProducerEvent = Arc::new(move |event| {
            // A send error means that the server is stopping.
            let _ = own.send(Message::Producer(event));
        });
        let producer = Producer::open(state.clone(), produced, Arc::clone(&background), events);
        let key = engine.key();
        let elsewhere = KeptElsewhere {
            images: images.clone(),
            secondaries: secondaries.as_ref().and_then(|secondaries| secondaries.store().cloned()),
            changes: changes.clone(),
        };
        let executor = Arc::new(Executor {
            publishing: handle.publishing.clone(),
            manager: handle.messages.clone(),
            examiner: examiner.ok(),
            secondaries,
            changes,
            differences,
            background,
            special: RwLock::default(),
            policy_zones,
        });
        let ZoneManagerInbox { messages, publishing } = inbox;
        let (of_thread, publisher) =
            (Arc::clone(&executor), Publisher::new(engine).signed_by(table.states.online()));
        PublishingThread::start(Arc::clone(&table), of_thread, publisher, images.clone(), publishing)?;
        Ok(ZoneManager {
            loaders: Loaders::new(key, elsewhere, Arc::clone(&table.meter)),
            table,
            prepare,
            key,
            executor,
            transfers,
            joining: Joining::open(state, documents, local_root, producer),
            signatures_due: Instant::now() + SIGNATURE_CHECK_INTERVAL,
            images,
            own: handle.messages.clone(),
            messages,
            round: None,
            singles: HashMap::new(),
            ended: Vec::new(),
            bounds: ReloadBounds::default(),
            last: Summary::default(),
            unpublished: None,
            all: None,
            single: HashMap::new(),
            asked: VecDeque::new(),
        })
    }

    /// Loads these zones and puts them into service at the start, produced catalog zones too.
    pub fn load_first(&mut self, wanted: WantedZones) -> Summary {
        self.clean_up_after_crash(&wanted);
        self.look_at_all(wanted, Purpose::Start, Vec::new());
        while (self.round.is_some() || self.joining.is_storing()) && self.handle_messages() {}
        self.last
    }

    /// Runs until it receives `Message::Stop`.
    pub fn work(mut self) {
        while self.handle_messages() {}
    }

    /// Handles all queued messages, or waits for one, and does what is due. Returns false at the end.
    fn handle_messages(&mut self) -> bool {
        let mut next = match self.messages.recv_timeout(self.patience()) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        while let Some(message) = next {
            match message {
                Message::Reload(reply, removal) => {
                    let (replies, strongest) = self.all.get_or_insert((Vec::new(), removal));
                    replies.extend(reply);
                    *strongest = removal.max(*strongest);
                }
                Message::ReloadZone(apex, when, reply) => {
                    let (strongest, replies) = self.single.entry(apex).or_insert((when, Vec::new()));
                    *strongest = when.max(*strongest);
                    replies.push(reply);
                }
                Message::Ask(change, reply) => self.asked.push_back((change, reply)),
                // The client may have disconnected.
                Message::FirstVersion(zone, reply) => _ = reply.send(self.first_version(&zone)),
                Message::PublishNow(reply) => {
                    self.publish();
                    let _ = reply.send(());
                }
                Message::Loaded(outcome) => self.loaded(outcome),
                Message::Load(loads) => self.load(loads),
                Message::CatalogVersion(apex, version) => self.joining.versions.push((apex, version)),
                Message::Root(change) => self.take_root(change),
                Message::Producer(event) => self.produced(event),
                Message::Database(news, done) => self.of_database(news, &done),
                Message::Stop => return false,
            }
            next = self.messages.try_recv().ok();
        }
        self.do_what_is_due();
        true
    }

    /// Returns the longest time to wait for a message.
    fn patience(&self) -> Duration {
        let signatures = self.signatures_due.saturating_duration_since(Instant::now());
        self.until_look_at_loads().map_or(signatures, |loads| loads.min(signatures))
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        self.read_catalogs();
        self.look_at_loads(now);
        self.end_rounds();
        if self.signatures_due <= now {
            self.signatures_due = now + SIGNATURE_CHECK_INTERVAL;
            self.look_at_signatures();
        }
        while let Some((change, reply)) = self.asked.pop_front() {
            self.change(change, reply);
        }
        while self.round.is_none()
            && let Some((replies, removal)) = self.all.take()
        {
            self.reload(replies, removal);
        }
        let begun = |singles: &HashMap<ZoneName, Round>, apex: &ZoneName| singles.contains_key(apex);
        let due: Vec<_> = self.single.extract_if(|apex, _| !begun(&self.singles, apex)).collect();
        for (apex, (when, replies)) in due {
            self.reload_zone(apex, when, replies);
        }
    }

    /// Begins a reload of everything; ends it at once if the configuration is bad.
    fn reload(&mut self, replies: Vec<Asker>, removal: Removal) {
        systemd::notify_reloading();
        let accept = |wanted: &WantedZones| match removal {
            Removal::Force => Ok(()),
            Removal::HoldBack => {
                self.check_removals(wanted).map_or(Ok(()), |lost| Err(ReloadFault::HeldBack(lost)))
            }
        };
        match (self.prepare)(&accept) {
            Ok(wanted) => self.look_at_all(wanted, Purpose::All(removal), replies),
            Err(fault) => {
                error!("reload failed, the old configuration stays:\n{}", fault.to_string().trim_end());
                self.reloaded(Err(fault), replies);
            }
        }
    }

    /// Records the end of a reload of everything, and sends the replies.
    fn reloaded(&mut self, result: Reloaded, replies: Vec<Asker>) {
        *lock(&self.table.last_reload) = Some(LastReload { at: SystemTime::now(), result: result.clone() });
        let zones = self.table.in_words();
        systemd::notify_ready(&match &result {
            Ok(_) => zones,
            Err(ReloadFault::Configuration(_)) => {
                format!("{zones}; the configuration cannot be used, the one before stays")
            }
            Err(ReloadFault::HeldBack(_)) => {
                format!("{zones}; the new configuration removes too many of them, the one before stays")
            }
            Err(_) => format!("{zones}; the last reload failed"),
        });
        self.reply(replies, result);
    }

    /// Begins a round of the configuration's zones and of those to remove.
    fn look_at_all(&mut self, mut wanted: WantedZones, purpose: Purpose, replies: Vec<Asker>) {
        let mut report = RoundReport::default();
        for refused in &wanted.refused {
            error!("{refused}");
            report.refused(refused);
        }
        let removal =
            if purpose == Purpose::All(Removal::Force) { Removal::Force } else { Removal::HoldBack };
        self.bounds = wanted.bounds;
        self.join_members(&mut wanted, removal);
        self.join_database(&mut wanted, removal);
        self.keep_root(&wanted);
        if let Some(secondaries) = &self.executor.secondaries {
            secondaries.configure(std::mem::take(&mut wanted.peers));
        }
        if let Some(transfers) = &self.transfers {
            transfers.allow(std::mem::take(&mut wanted.transfers));
        }
        if let Some(changes) = &self.executor.changes {
            changes.allow(&wanted.updates);
        }
        let table = Arc::clone(&self.table);
        let mut states = write(&table.states.zones);
        for (spec, doubt) in wanted.doubtful().filter(|(spec, _)| !states.contains_key(&spec.apex)) {
            warn!("zone {} comes from the file {}, and {doubt}: is it intended?", spec.apex, spec.text);
        }
        let adding = self.being_added();
        let (gone, held) = gone(&states, &wanted, &adding, removal);
        for held in &held {
            error!("{held}");
            report.held(held.clone());
        }
        report.summary.zones = wanted.specs.len() + report.summary.held_back;
        report.summary.removed = gone.len();
        let arriving = arriving(&states, &wanted, &gone);
        let (moved, gone): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|apex| arriving.contains(apex.as_wire()));
        self.warn_of_changes_of(&moved);
        let turn = ViewTurn { clients: clients(&wanted), moved };
        self.begin(purpose, report, replies, turn);
        self.remove(&mut states, gone);
        let held_zones = if held.is_empty() { Vec::new() } else { unwanted(&states, &wanted, &adding) };
        drop(states);
        self.list_members(&mut wanted, &held_zones);
        let mut loads = Vec::new();
        for specs in wanted.specs.chunks(ZONES_A_TURN) {
            loads.extend(self.want_all(specs));
        }
        let states = read(&table.states.zones);
        if let Some(images) = &self.images {
            images.keep(states.values().map(|zone| &zone.state.status().spec));
        }
        if let Some(differences) = &self.executor.differences {
            differences.retain(|apex| states.get(apex).is_some_and(|zone| zone.state.keeps_differences()));
        }
        drop(states);
        *lock(&self.table.folders) = FolderFindings { held, refused: wanted.refused };
        self.load(loads);
    }

    /// Warns about zones that go to another view, or out of one, and have changes on disk: these stay.
    fn warn_of_changes_of(&self, moved: &[ZoneName]) {
        let Some(changes) = &self.executor.changes else { return };
        for apex in moved.iter().filter(|apex| changes.is_stored(apex)) {
            warn!(
                "zone {apex}: the zone is in another view now, and what updates have changed does not go with \
                 it: to use it there, move the zone back, run `nomen ctl zone write {apex}`, and move it again \
                 with that file"
            );
        }
    }

    /// Removes zones that the configuration no longer has.
    fn remove(&mut self, states: &mut HashMap<ZoneName, ManagedZone>, gone: Vec<ZoneName>) {
        for apex in gone {
            if let Some(mut zone) = states.remove(&apex) {
                let spec = &zone.state.status().spec;
                warn!("zone {} is removed: {} is no longer a zone here", spec.apex, spec.text);
                let actions = zone.state.handle(ZoneEvent::Unwanted);
                self.executor.carry_out(&apex, actions);
            }
            self.drop_single(&apex);
        }
    }

    /// Changes which clients are in which view, at the end of a round: the zones that come to views are
    /// loaded, and those that leave them are removed with the same catalog.
    fn turn_views(&mut self, ViewTurn { clients, moved }: ViewTurn) {
        let table = Arc::clone(&self.table);
        self.remove(&mut write(&table.states.zones), moved);
        self.executor.send(Publishing::Views(clients));
        self.executor.send(Publishing::SettledQueries);
    }

    /// Reports to zones that the configuration has them. Returns the loads to order.
    fn want_all(&mut self, specs: &[ZoneSpec]) -> Vec<Load> {
        let (table, mut loads) = (Arc::clone(&self.table), Vec::new());
        let mut states = write(&table.states.zones);
        for spec in specs {
            let zone = states.entry(spec.apex.clone()).or_insert_with(|| ManagedZone::new(spec.clone()));
            zone.state.wanted_as(spec);
            let event = ZoneEvent::Wanted(spec.text.clone(), ReadWhen::IfChanged);
            let actions = zone.state.handle(event);
            loads.extend(self.executor.carry_out(&spec.apex, actions).loads);
            self.round.iter_mut().for_each(|round| round.expect(&spec.apex, zone));
        }
        loads
    }

    /// Returns the result of a load, checked: a zone built under another hash key is bad, and a stored
    /// version may have expired.
    fn fit_to_serve(&self, apex: &ZoneName, looked: Looked) -> Looked {
        match looked {
            Looked::Kept(Some(kept), signed) => {
                let secondaries = self.executor.secondaries.as_ref();
                let expired = secondaries.is_some_and(|of| of.has_expired(apex, &kept));
                Looked::Kept(Some(KeptVersion { expired, ..kept }), signed)
            }
            Looked::Loaded(reading) if *reading.zone.key() != self.key => Looked::Bad {
                fault: Arc::new(ZoneFault::without_place(
                    "the zone was built under another hash key than that of the server; this is a bug",
                )),
                stamps: reading.stamps,
            },
            looked => looked,
        }
    }

    /// Checks all signature lifetimes.
    fn look_at_signatures(&mut self) {
        let now = unix_now();
        write(&self.table.states.zones).values_mut().for_each(|zone| zone.look_at_signatures(now));
        self.joining.local_root.iter().for_each(|copy| copy.look_again());
        self.take_root_again();
    }

    /// Orders loads.
    fn load(&self, loads: Vec<Load>) {
        if !loads.is_empty() {
            self.loaders.order(loads, &self.own, Message::Loaded);
        }
    }

    /// Publishes the steps decided so far: they are in service when this returns.
    fn publish(&mut self) {
        let (reply, replied) = sync_channel(1);
        self.executor.send(Publishing::Flush(reply));
        // Without a reply, the server is stopping.
        if let Ok(Some(fault)) = replied.recv() {
            self.unpublished = Some(fault);
        }
    }
}

/// Returns the zones that the configuration no longer has and that are not being added.
fn unwanted(
    states: &HashMap<ZoneName, ManagedZone>,
    wanted: &WantedZones,
    adding: &HashSet<ZoneName>,
) -> Vec<ZoneName> {
    let still: HashSet<&ZoneName> = wanted.specs.iter().map(|spec| &spec.apex).chain(adding).collect();
    states.keys().filter(|apex| !still.contains(apex)).cloned().collect()
}

/// Returns the names of zones that are new, if zones are `gone`: one of the same name has moved to a view, or
/// out of one.
fn arriving<'w>(
    states: &HashMap<ZoneName, ManagedZone>,
    wanted: &'w WantedZones,
    gone: &[ZoneName],
) -> HashSet<&'w [u8]> {
    let new = |spec: &&ZoneSpec| !gone.is_empty() && !states.contains_key(&spec.apex);
    wanted.specs.iter().filter(new).map(|spec| spec.apex.as_wire()).collect()
}

/// Returns which clients are in which view; `None` without views.
fn clients(wanted: &WantedZones) -> Option<Arc<ViewClients>> {
    if wanted.views.is_empty() {
        return None;
    }
    let compiled = ViewClients::new(&wanted.views);
    // The check of the configuration has ensured that there are not too many.
    compiled.inspect_err(|fault| error!("the views are not in force: {fault}")).ok().map(Arc::new)
}

/// Returns the zones to remove, without those that are held back, and the folders of the latter.
fn gone(
    states: &HashMap<ZoneName, ManagedZone>,
    wanted: &WantedZones,
    adding: &HashSet<ZoneName>,
    removal: Removal,
) -> (Vec<ZoneName>, Vec<HeldFolder>) {
    let mut gone = unwanted(states, wanted, adding);
    let mut held = Vec::new();
    if removal == Removal::Force || gone.len() < LEAST_HELD {
        return (gone, held);
    }
    for folder in &wanted.folders {
        let is_here = |zone: &ManagedZone| {
            let file = zone.state.status().spec.text.file();
            file.and_then(Path::parent).is_some_and(|parent| parent == folder.path)
        };
        let of = states.values().filter(|zone| is_here(zone)).count();
        let is_gone = |apex: &ZoneName| states.get(apex).is_some_and(is_here);
        let many = gone.iter().filter(|apex| is_gone(apex)).count();
        if many >= LEAST_HELD && many as f64 > folder.max_removed * of as f64 {
            gone.retain(|apex| !is_gone(apex));
            held.push(HeldFolder { folder: folder.path.clone(), gone: many, of });
        }
    }
    (gone, held)
}

fn answer(replies: Vec<Asker>, result: &Reloaded) {
    for reply in replies {
        // The receiver may be gone.
        let _ = reply.send(result.clone());
    }
}

mod first_versions;
mod members;
mod of_database;
mod rounds;
#[cfg(test)]
pub(crate) mod simulated;
mod table;
#[cfg(test)]
mod tests;
