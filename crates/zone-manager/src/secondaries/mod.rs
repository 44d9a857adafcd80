//! Zones transferred from primaries, and NOTIFY in both directions. `transfer` has the timers and messages.
//!
//! | file | holds |
//! |---|---|
//! | `core` | the state machine, driven by `net::Outgoing` on a thread of its own |
//! | `fetch` | one transfer, on a thread that does nothing else meanwhile |
//! | `memory` | the memory of all incoming transfers together |
//! | `notify` | incoming NOTIFY |
//! | `forward` | incoming updates, forwarded to primaries |
//! | `store` | versions on disk |
//! | `status`, `counts` | states and counters for operators |
//!
//! A received version goes to the state of its zone and is published at once; it is written to disk beside
//! that. Each transfer and each forwarded update has a thread, which is reused.

mod core;
mod counts;
mod fetch;
mod forward;
mod memory;
mod notify;
#[cfg(test)]
pub(crate) mod simulated;
mod status;
mod store;

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock, RwLock, Weak};
use std::time::{Duration, Instant};

use journal::History;
use net::{Outgoing, OutgoingConfig, OutgoingCounts};
use query_path::{Engine, Source};
use resolver::ChaCha;
use tracing::warn;
use transfer::incoming::{TransferFault, TransferLimits};
use transfer::secondary::{SecondaryFault, SecondaryLimits, SecondaryZone};
use transport::unix_now;
use wire::{UnixTime, ZoneName};
use zone::Zone;
use zone_plan::{PeerRules, ZonePeers};

use crate::fold::FoldJob;
use crate::managed::publishing::PublishHandle;
use crate::managed::state::{KeptVersion, SecondaryNews};
use crate::stores::HistoryStart;
use config::Adopt;
use config::Settings;
use core::{CoreHost, CoreLimits, Epoch, Published, SecondaryCore, SecondaryRequest};
pub use counts::{LIMITS, SecondaryCounts, StateCounts};
pub(crate) use fetch::connect;
use fetch::{FetchFigures, FetchJob, FetchLimits, Fetched, fetch, soa_data};
pub(crate) use forward::exchange;
pub use memory::IncomingMemory;
use notify::Unread;
pub use notify::{ChildNotify, TakeChildNotify};
use serving::descriptors::DescriptorShares;
use serving::frontend::Served;
use serving::recursive::LocalRoot;
pub use status::{LastTransfer, PrimaryFault, SecondaryStatus, ZoneOrder};
use store::Keep;
pub use store::{FOLDER, SecondaryStore};
use telemetry::repeated::log_repeated;
use threads::background::Background;
use threads::kept_threads::KeptThreads;
use threads::sync::{read, write};

/// Longest wait for a reply of the core.
const CORE_REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Most links open at a time: one per SOA query in progress, and those of NOTIFY.
const MAX_LINKS: usize = 16_384;

/// Why an order was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderFault {
    /// The zone has no primaries.
    NotTaken,
    /// The zone has no NOTIFY targets, or is not in service.
    NoNotifyTargets,
    /// The server is stopping.
    Stopping,
}

impl fmt::Display for OrderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTaken => "the zone has no `primaries`: it is not taken from other servers",
            Self::NoNotifyTargets => "the zone has no `notify`, or is not in service",
            Self::Stopping => "the server is stopping",
        })
    }
}
impl std::error::Error for OrderFault {}

/// Why secondary zones cannot be offered.
#[derive(Debug)]
pub enum SecondariesFault {
    /// The system returned no random numbers.
    Random(getrandom::Error),
    /// The system refused a thread or a descriptor.
    Thread(io::Error),
}

impl fmt::Display for SecondariesFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(fault) => write!(f, "there are no random numbers: {fault}"),
            Self::Thread(fault) => write!(f, "cannot start the thread that asks primaries: {fault}"),
        }
    }
}
impl std::error::Error for SecondariesFault {}

/// Secondary zones, and NOTIFY to other servers.
pub struct Secondaries {
    outgoing: Arc<Outgoing<SecondaryRequest>>,
    /// The engine that serves the zones; it has this as the source for NOTIFY.
    engine: Weak<Engine<Served>>,
    rules: RwLock<PeerRules>,
    unread: Arc<Unread>,
    counts: Arc<SecondaryCounts>,
    desk: Arc<Desk>,
    /// Most updates that wait for primaries at a time.
    forwards: AtomicU64,
    /// Takes NOTIFYs for delegations.
    children: OnceLock<TakeChildNotify>,
}

/// Services for the core: threads of transfers, publishing, and the stores.
struct Desk {
    outgoing: OnceLock<Weak<Outgoing<SecondaryRequest>>>,
    publishing: PublishHandle,
    store: Option<Arc<SecondaryStore>>,
    unread: Arc<Unread>,
    /// Threads of transfers and forwarded updates, which wait for primaries.
    threads: Arc<KeptThreads>,
    /// The local copy of the root zone, which checks new versions of it.
    local_root: Arc<LocalRoot>,
    memory: Arc<IncomingMemory>,
    background: Arc<Background>,
}

impl Desk {
    /// Returns the transfer's result, or a fault if it is a version of the root zone that the resolver must
    /// not use.
    fn judged(&self, apex: &ZoneName, fetched: Fetched) -> Result<Fetched, SecondaryFault> {
        let (Fetched::Whole(zone) | Fetched::Changed(zone, _)) = &fetched else { return Ok(fetched) };
        let is_root = !apex.is_in_view() && apex.as_name().is_root();
        match is_root.then(|| self.local_root.objection(zone)).flatten() {
            Some(why) => Err(SecondaryFault::VersionRefused(why.into())),
            None => Ok(fetched),
        }
    }

    fn request(&self, request: SecondaryRequest) {
        // Without the core, the server is stopping.
        if let Some(outgoing) = self.outgoing.get().and_then(Weak::upgrade) {
            outgoing.request(request);
        }
    }
}

impl CoreHost for Arc<Desk> {
    fn fetch(&self, apex: ZoneName, job: FetchJob) {
        let (number, desk, of) = (job.number, Arc::clone(self), apex.clone());
        let work = move || {
            let mut figures = FetchFigures::default();
            // A panic is a bug in nomen. It fails this transfer only.
            let share = desk.memory.begin();
            let fetched = catch_unwind(AssertUnwindSafe(|| fetch(&job, &mut figures, share)));
            let fetched = fetched.unwrap_or(Err(SecondaryFault::Transfer(TransferFault::Malformed)));
            let fetched = fetched.and_then(|fetched| desk.judged(&of, fetched));
            desk.request(SecondaryRequest::Fetched(number, of, figures, fetched));
        };
        if !self.threads.run(work) {
            let about = ("no thread", "incoming transfer");
            log_repeated!(error, ERROR, about, "no transfer, the system refuses a thread");
            let failed = Err(SecondaryFault::Unreachable);
            self.request(SecondaryRequest::Fetched(number, apex, FetchFigures::default(), failed));
        }
    }

    fn fold(&self, apex: ZoneName, job: FoldJob) {
        let desk = Arc::clone(self);
        job.run(&self.background, move |number, zone| {
            desk.request(SecondaryRequest::Folded(number, apex, zone));
        });
    }

    fn news(&self, apex: &ZoneName, news: SecondaryNews) {
        self.publishing.news(apex.clone(), news);
    }

    fn expires(&self, apex: &ZoneName, at: Option<UnixTime>) {
        self.publishing.expires(apex.clone(), at);
    }

    fn keep(&self, apex: &ZoneName, keep: Keep, at: UnixTime) {
        if let Some(store) = &self.store {
            store.keep(apex.clone(), keep, at);
        }
    }

    fn looked(&self, apex: &ZoneName) {
        self.unread.looked(apex);
    }

    fn wall(&self) -> UnixTime {
        unix_now()
    }
}

impl Secondaries {
    /// Starts the thread. [`configure`](Self::configure) sets the zones; they are stored in the state folder
    /// if there is a usable one. Events go to `publishing`; `local_root` checks versions of the root
    /// zone if that is the resolver's copy. From the next batch on the engine takes NOTIFY.
    ///
    /// # Errors
    /// [`SecondariesFault`].
    pub fn start(
        engine: &Arc<Engine<Served>>,
        settings: &Settings,
        state: Option<&Path>,
        background: &Arc<Background>,
        publishing: PublishHandle,
        local_root: Arc<LocalRoot>,
    ) -> Result<Arc<Secondaries>, SecondariesFault> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(SecondariesFault::Random)?;
        let unread = Arc::new(Unread::default());
        let counts = Arc::<SecondaryCounts>::default();
        let store = state.and_then(|state| {
            let fault = |fault| warn!("zones from primaries are not stored on disk: {fault}");
            SecondaryStore::open(state, background, &counts).map_err(fault).ok()
        });
        let (of_desk, threads) = (Arc::clone(&unread), KeptThreads::new("primaries"));
        let memory = Arc::new(IncomingMemory::default());
        memory.set(settings.transfers.incoming_memory());
        let desk = Arc::new(Desk {
            outgoing: OnceLock::new(),
            publishing,
            store,
            unread: of_desk,
            threads,
            memory,
            local_root,
            background: Arc::clone(background),
        });
        let epoch = Epoch { instant: Instant::now(), unix: unix_now() };
        let (random, of_core) = (ChaCha::new(seed), Arc::clone(&counts));
        let core =
            SecondaryCore::new(Arc::clone(&desk), random, engine.key(), limits(settings), of_core, epoch);
        let links = MAX_LINKS.min(DescriptorShares::of(settings).for_zones());
        let config = OutgoingConfig { links, ..OutgoingConfig::default() };
        let outgoing = Outgoing::start("secondaries", core, &config).map_err(SecondariesFault::Thread)?;
        let outgoing = Arc::new(outgoing);
        desk.outgoing.get_or_init(|| Arc::downgrade(&outgoing));
        let engine_of = Arc::downgrade(engine);
        let rules = RwLock::default();
        let forwards = AtomicU64::new(settings.updates.forward_in_flight.0);
        let secondaries = Arc::new(Secondaries {
            outgoing,
            engine: engine_of,
            rules,
            unread,
            counts,
            desk,
            forwards,
            children: OnceLock::new(),
        });
        let source: Arc<dyn Source> = secondaries.clone();
        engine.change_sources(|sources| sources.notify = Some(Arc::clone(&source)));
        Ok(secondaries)
    }

    /// Forwards updates of zones to their primaries, as configured, from the next batch on. Any other source
    /// for updates must be installed before.
    pub fn forward_updates(self: &Arc<Self>, engine: &Engine<Served>) {
        forward::install(self, engine);
    }

    /// Returns the counters of the links to other servers.
    pub fn link_counts(&self) -> &OutgoingCounts {
        self.outgoing.counts()
    }

    fn request(&self, request: SecondaryRequest) {
        // Without the core, the server is stopping.
        self.outgoing.request(request);
    }

    /// Sets the peers of all zones. Zones that stay keep their timers.
    pub fn configure(&self, rules: PeerRules) {
        write(&self.rules).clone_from(&rules);
        self.request(SecondaryRequest::Configure(rules));
    }

    /// Sets the peers of some zones; `None`: the zone has none any more.
    pub fn change(&self, zones: Vec<(ZoneName, Option<Arc<ZonePeers>>)>) {
        let mut rules = write(&self.rules);
        for (apex, peers) in &zones {
            match peers {
                Some(peers) => rules.set(apex, Arc::clone(peers)),
                None => rules.remove(apex),
            }
        }
        drop(rules);
        self.request(SecondaryRequest::Change(zones));
    }

    /// Stops refreshing secondary zones, and removes their stored versions. When this returns, no stored
    /// version is found any more: a zone of the same name starts without one.
    pub fn forget(&self, zones: Vec<ZoneName>) {
        if zones.is_empty() {
            return;
        }
        let (done, ended) = sync_channel(1);
        self.request(SecondaryRequest::Forget(zones, done));
        if ended.recv_timeout(CORE_REPLY_TIMEOUT).is_err() {
            warn!("zones are removed, but their files may stay on disk for a while");
        }
    }

    /// Starts to refresh a zone from its primaries.
    pub fn begin(&self, apex: ZoneName, kept: Option<KeptVersion>) {
        self.request(SecondaryRequest::Begin(apex, kept));
    }

    /// Reports versions that went into service.
    pub fn published(&self, zones: &[(ZoneName, Arc<Zone>)]) {
        let rules = read(&self.rules);
        let is_told = |(apex, _): &&(ZoneName, Arc<Zone>)| {
            rules.get(apex).is_some_and(|peers| !peers.notify.is_empty())
        };
        let told: Vec<Published> = zones.iter().filter(is_told).map(published).collect();
        drop(rules);
        if !told.is_empty() {
            self.request(SecondaryRequest::Published(told));
        }
    }

    /// Orders an action for a zone, which has started when this returns.
    ///
    /// # Errors
    /// [`OrderFault`].
    pub fn order(&self, apex: &ZoneName, order: ZoneOrder) -> Result<(), OrderFault> {
        if order == ZoneOrder::Notify {
            // A target added after the last change has not received a NOTIFY.
            let entry = self.engine.upgrade().and_then(|engine| engine.zone_entry(apex));
            if let Some(zone) = entry.as_ref().and_then(|entry| entry.zone()) {
                let zone = (apex.clone(), Arc::clone(zone));
                self.request(SecondaryRequest::Published(vec![published(&zone)]));
            }
        }
        let (reply, replied) = sync_channel(1);
        self.request(SecondaryRequest::Order(apex.clone(), order, reply));
        match (replied.recv_timeout(CORE_REPLY_TIMEOUT), order) {
            (Ok(true), _) => Ok(()),
            (Ok(false), ZoneOrder::Notify) => Err(OrderFault::NoNotifyTargets),
            (Ok(false), _) => Err(OrderFault::NotTaken),
            (Err(_), _) => Err(OrderFault::Stopping),
        }
    }

    /// Transfers a secondary zone again, whatever the serial numbers.
    pub fn take_again(&self, apex: &ZoneName) {
        let (reply, _) = sync_channel(1);
        self.request(SecondaryRequest::Order(apex.clone(), ZoneOrder::Retransfer, reply));
    }

    /// Whether any zone has primaries or NOTIFY targets.
    pub fn has_peers(&self) -> bool {
        read(&self.rules).iter().next().is_some()
    }

    /// Returns the primaries and NOTIFY targets of a zone, if it has any.
    pub fn peers(&self, apex: &ZoneName) -> Option<Arc<ZonePeers>> {
        read(&self.rules).get(apex).cloned()
    }

    /// Returns the status of a zone that has peers.
    pub fn status(&self, apex: &ZoneName) -> Option<SecondaryStatus> {
        read(&self.rules).get(apex)?;
        let (reply, replied) = sync_channel(1);
        self.request(SecondaryRequest::Status(apex.clone(), reply));
        replied.recv_timeout(CORE_REPLY_TIMEOUT).ok().flatten()
    }

    /// Returns the status of `most` secondary zones: those with faults first, then those with the earliest
    /// refresh.
    pub fn worst(&self, most: usize) -> Vec<(ZoneName, SecondaryStatus)> {
        let (reply, replied) = sync_channel(1);
        self.request(SecondaryRequest::Worst(most, reply));
        replied.recv_timeout(CORE_REPLY_TIMEOUT).unwrap_or_default()
    }

    /// Returns the number of secondary zones in each state.
    pub fn states(&self) -> StateCounts {
        let (reply, replied) = sync_channel(1);
        self.request(SecondaryRequest::Count(reply));
        replied.recv_timeout(CORE_REPLY_TIMEOUT).unwrap_or_default()
    }

    /// The counters.
    pub fn counts(&self) -> &SecondaryCounts {
        &self.counts
    }

    /// The stores, if versions are stored.
    pub fn store(&self) -> Option<&Arc<SecondaryStore>> {
        self.desk.store.as_ref()
    }

    /// Whether versions of a secondary zone are stored on disk.
    pub fn keeps(&self, apex: &ZoneName) -> bool {
        let rules = read(&self.rules);
        self.store().is_some() && rules.get(apex).is_some_and(|peers| !peers.primaries.is_empty())
    }

    /// Returns the changes of a secondary zone since a version; `None` if they are not stored. Waits for the
    /// disk.
    pub fn history(&self, apex: &ZoneName, from: impl Into<HistoryStart>) -> Option<History> {
        self.keeps(apex).then(|| self.store()?.history(apex, from)).flatten()
    }

    /// Whether a stored version of a zone has expired.
    pub fn has_expired(&self, apex: &ZoneName, kept: &KeptVersion) -> bool {
        let rules = read(&self.rules).get(apex).map(|peers| peers.rules.clone()).unwrap_or_default();
        let timers = SecondaryZone::kept(rules, kept.zone.soa(), kept.confirmed, &mut || 0);
        timers.expires().is_some_and(|expires| expires <= unix_now())
    }

    /// Memory of incoming transfers.
    pub fn memory(&self) -> &IncomingMemory {
        &self.desk.memory
    }

    /// Stops sending queries and NOTIFYs, and waits for the disk.
    pub fn stop(&self) {
        self.outgoing.stop();
        self.desk.store.iter().for_each(|store| store.flush());
    }
}

fn published((apex, zone): &(ZoneName, Arc<Zone>)) -> Published {
    Published { apex: apex.clone(), serial: zone.serial(), soa: soa_data(zone).into() }
}

fn limits(settings: &Settings) -> CoreLimits {
    let transfers = &settings.transfers;
    let limits = TransferLimits::default();
    let (records, bytes) = (transfers.incoming_records.0, transfers.incoming_size());
    CoreLimits {
        zones: SecondaryLimits {
            in_all: transfers.incoming.0,
            per_primary: transfers.incoming_per_primary.0,
        },
        fetch: FetchLimits {
            transfer: TransferLimits { records, bytes, ..limits },
            time: transfers.incoming_time.0,
            rate: transfers.incoming_rate.0,
            idle: transfers.incoming_idle.0,
        },
        notify: transfers.notify_in_flight.0,
        notify_each: transfers.notify_per_secondary.0,
    }
}

impl Adopt for Secondaries {
    fn adopt(&self, settings: &Settings) {
        self.forwards.store(settings.updates.forward_in_flight.0, Ordering::Relaxed);
        self.desk.memory.set(settings.transfers.incoming_memory());
        self.request(SecondaryRequest::Limit(limits(settings)));
    }
}
