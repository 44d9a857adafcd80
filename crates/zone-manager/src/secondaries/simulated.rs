//! The core of secondary zones, for simulations: transfers end when the simulation says so, with the
//! simulation's versions.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use journal::{Disk, StoreFault};
use resolver::Random;
use transport::Core;
use wire::hash::HashKey;
use wire::{UnixTime, ZoneName};
use zone::Zone;
use zone::store::diff;
use zone_plan::PeerRules;

use super::core::{CoreHost, Epoch, SecondaryCore, SecondaryRequest};
use super::counts::SecondaryCounts;
use super::fetch::{FetchFigures, FetchJob, Fetched};
use super::status::ZoneOrder;
use super::store::{Keep, SecondaryStore};
use crate::fold::FoldJob;
use crate::managed::publishing::PublishHandle;
use crate::managed::state::{KeptVersion, SecondaryNews};
use threads::background::Background;
use threads::sync::lock;

/// When the simulation begins.
const START: UnixTime = UnixTime::from_secs(1_700_000_000);

/// The services of the core.
#[derive(Clone)]
struct Host {
    manager: PublishHandle,
    store: Arc<SecondaryStore>,
    background: Arc<Background>,
    requests: Arc<Mutex<Vec<SecondaryRequest>>>,
    fetches: Arc<Mutex<Vec<(ZoneName, FetchJob)>>>,
}

impl CoreHost for Host {
    fn fetch(&self, apex: ZoneName, job: FetchJob) {
        lock(&self.fetches).push((apex, job));
    }
    fn fold(&self, apex: ZoneName, job: FoldJob) {
        let requests = Arc::clone(&self.requests);
        job.run(&self.background, move |number, zone| {
            lock(&requests).push(SecondaryRequest::Folded(number, apex, zone));
        });
    }
    fn news(&self, apex: &ZoneName, news: SecondaryNews) {
        self.manager.news(apex.clone(), news);
    }
    fn expires(&self, apex: &ZoneName, at: Option<UnixTime>) {
        self.manager.expires(apex.clone(), at);
    }
    fn keep(&self, apex: &ZoneName, keep: Keep, at: UnixTime) {
        self.store.keep(apex.clone(), keep, at);
    }
    fn looked(&self, _: &ZoneName) {}
    fn wall(&self) -> UnixTime {
        START
    }
}

/// Zero each time: no jitter.
struct Zeros;

impl Random for Zeros {
    fn next_u32(&mut self) -> u32 {
        0
    }
}

/// Secondary zones on a simulated disk.
pub(crate) struct SimulatedSecondaries {
    core: SecondaryCore<Host, Zeros>,
    host: Host,
    now: Instant,
}

impl SimulatedSecondaries {
    /// Opens the stores on a disk. Zones have the peers of these rules.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        rules: &PeerRules,
        key: &HashKey,
        background: &Arc<Background>,
        manager: PublishHandle,
    ) -> Result<SimulatedSecondaries, StoreFault> {
        let (counts, now) = (Arc::<SecondaryCounts>::default(), Instant::now());
        let store = SecondaryStore::open_on(disk, Path::new("/"), background, &counts)?;
        let background = Arc::clone(background);
        let (requests, fetches) = (Arc::default(), Arc::default());
        let host = Host { manager, store, background, requests, fetches };
        let limits = super::limits(&config::Settings::default());
        let core = SecondaryCore::new(
            host.clone(),
            Zeros,
            *key,
            limits,
            counts,
            Epoch { instant: now, unix: START },
        );
        let mut all = SimulatedSecondaries { core, host, now };
        all.request(SecondaryRequest::Configure(rules.clone()));
        Ok(all)
    }

    /// Returns the stored version of a zone.
    pub(crate) fn load(&self, apex: &ZoneName, key: &HashKey) -> Option<KeptVersion> {
        self.host.store.load(apex, key)
    }

    /// Starts to refresh a zone from its primaries.
    pub(crate) fn begin(&mut self, apex: &ZoneName, kept: Option<KeptVersion>) {
        self.request(SecondaryRequest::Begin(apex.clone(), kept));
    }

    /// Orders a transfer of a zone.
    pub(crate) fn retransfer(&mut self, apex: &ZoneName) {
        let (reply, _replied) = std::sync::mpsc::sync_channel(1);
        self.request(SecondaryRequest::Order(apex.clone(), ZoneOrder::Retransfer, reply));
    }

    /// Ends the transfer in progress with this version of its zone, by differences if `by_changes` and there
    /// is a version to change. Returns whether there was a transfer.
    pub(crate) fn transferred(&mut self, zone: &Arc<Zone>, by_changes: bool) -> bool {
        let Some((apex, job)) = lock(&self.host.fetches).pop() else { return false };
        let fetched = match job.have.filter(|_| by_changes) {
            Some(have) => {
                let change = diff(&have, zone);
                let next = have.apply(&change).expect("a difference fits");
                Fetched::Changed(Arc::new(next), vec![Arc::new(change)])
            }
            None => Fetched::Whole(Arc::clone(zone)),
        };
        let figures = FetchFigures::default();
        self.request(SecondaryRequest::Fetched(job.number, apex, figures, Ok(fetched)));
        true
    }

    /// Advances the clock by so many seconds. No primary responds meanwhile.
    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        let mut actions = Vec::new();
        self.core.timeout(self.now, &mut actions);
    }

    /// Handles the folds that have ended. Returns false if there were none.
    pub(crate) fn run(&mut self) -> bool {
        let requests = std::mem::take(&mut *lock(&self.host.requests));
        let is_any = !requests.is_empty();
        requests.into_iter().for_each(|request| self.request(request));
        is_any
    }

    fn request(&mut self, request: SecondaryRequest) {
        // Other tests cover the messages to and from primaries.
        let mut actions = Vec::new();
        self.core.request(request, self.now, &mut actions);
    }
}
