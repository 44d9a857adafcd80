//! Secondary zones and NOTIFY targets as a state machine over [`net::Outgoing`], without sockets, threads or
//! a clock. `transfer` has the timers.
//!
//! | file | holds |
//! |---|---|
//! | `links.rs` | SOA queries and NOTIFYs in progress, and their replies |
//! | `refresh.rs` | secondary zones: actions of the scheduler, results of transfers |
//! | `targets.rs` | which targets get a NOTIFY, and when |

mod links;
mod refresh;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use zone_plan::{PeerRules, ZonePeers};

use resolver::Random;
use transfer::secondary::{
    NotifyRules, NotifySender, PrimaryId, SecondaryId, SecondaryLimits, SecondaryScheduler, SecondaryState,
};
use transport::{Action, Core, Event, Link, NumberMap};
use wire::hash::HashKey;
use wire::{Serial, UnixTime, ZoneName};
use zone::Zone;

use super::counts::{SecondaryCounts, StateCounts};
use super::fetch::{FetchFigures, FetchJob, FetchLimits, Fetched};
use super::status::{SecondaryStatus, ZoneOrder};
use super::store::Keep;
use crate::fold::{FoldJob, FoldNumber};
use crate::managed::state::{KeptVersion, SecondaryNews};
use links::Exchange;
use refresh::RefreshState;
use targets::{NotifyState, NotifyTarget};
use transfer::secondary::SecondaryFault;

/// A request of another thread to the core.
pub(super) enum SecondaryRequest {
    /// Sets the peers of all zones.
    Configure(PeerRules),
    /// Sets the peers of some zones; `None`: the zone has none any more.
    Change(Vec<(ZoneName, Option<Arc<ZonePeers>>)>),
    /// Stops refreshing these zones, and removes their stored versions.
    Forget(Vec<ZoneName>, SyncSender<()>),
    /// Sets the limits.
    Limit(CoreLimits),
    /// Starts to refresh a zone from its primaries; with the stored version, if any.
    Begin(ZoneName, Option<KeptVersion>),
    /// A NOTIFY for this zone was accepted: from this primary, with this serial, if known.
    Notified(ZoneName, Option<usize>, Option<Serial>),
    /// An operator's order.
    Order(ZoneName, ZoneOrder, SyncSender<bool>),
    /// Versions went into service.
    Published(Vec<Published>),
    /// A transfer has ended.
    Fetched(u64, ZoneName, FetchFigures, Result<Fetched, SecondaryFault>),
    /// A version was rebuilt with a base of its own; `None` if that failed.
    Folded(FoldNumber, ZoneName, Option<Arc<Zone>>),
    /// Replies with the status of a zone.
    Status(ZoneName, SyncSender<Option<SecondaryStatus>>),
    /// Replies with the status of this many secondary zones, those with faults first.
    Worst(usize, SyncSender<Vec<(ZoneName, SecondaryStatus)>>),
    /// Replies with the number of zones in each state.
    Count(SyncSender<StateCounts>),
}

/// A version that went into service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    /// The zone.
    pub(super) apex: ZoneName,
    /// Its serial number.
    pub(super) serial: Serial,
    /// The data of its SOA.
    pub(super) soa: Box<[u8]>,
}

/// Limits of the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreLimits {
    /// Zones with a query or transfer in progress.
    pub(super) zones: SecondaryLimits,
    /// Limits of one transfer.
    pub(super) fetch: FetchLimits,
    /// Most outstanding NOTIFYs, in total and per secondary.
    pub(super) notify: usize,
    pub(super) notify_each: usize,
}

/// Services for the core, which do not make it wait.
pub(super) trait CoreHost: Send + 'static {
    /// Starts a transfer; ends in [`SecondaryRequest::Fetched`].
    fn fetch(&self, apex: ZoneName, job: FetchJob);

    /// Starts a job that folds a version; ends in [`SecondaryRequest::Folded`].
    fn fold(&self, apex: ZoneName, job: FoldJob);

    /// Reports an event of a zone.
    fn news(&self, apex: &ZoneName, news: SecondaryNews);

    /// Reports when a zone expires; `None` if it has expired, or is no longer a secondary zone.
    fn expires(&self, apex: &ZoneName, at: Option<UnixTime>);

    /// Queues a write to the store of a zone; `at` is the time of the confirmation.
    fn keep(&self, apex: &ZoneName, keep: Keep, at: UnixTime);

    /// Reports that a NOTIFY of this zone is being handled: the next one is to be reported again.
    fn looked(&self, apex: &ZoneName);

    /// Returns the current wall-clock time, for signatures.
    fn wall(&self) -> UnixTime;
}

/// One moment by both clocks, for conversion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    pub(super) instant: Instant,
    pub(super) unix: UnixTime,
}

/// A zone with other servers.
struct PeeredZone {
    peers: Arc<ZonePeers>,
    /// `None` until the zone is refreshed from primaries.
    refresh: Option<Box<RefreshState>>,
    /// `None` without NOTIFY targets.
    notify: Option<Box<NotifyState>>,
}

impl PeeredZone {
    /// Time of the zone's entry in [`SecondaryCore::notify_due`].
    fn notify_due(&self) -> Option<UnixTime> {
        self.notify.as_ref()?.due()
    }
}

/// The core; see the module's documentation.
pub(super) struct SecondaryCore<S, R> {
    host: S,
    random: R,
    counts: Arc<SecondaryCounts>,
    key: HashKey,
    limits: CoreLimits,
    epoch: Epoch,
    zones: HashMap<ZoneName, PeeredZone>,
    scheduler: SecondaryScheduler,
    by_id: HashMap<SecondaryId, ZoneName>,
    primaries: HashMap<SocketAddr, PrimaryId>,
    links: NumberMap<Link, Exchange>,
    /// When links time out.
    deadlines: BTreeSet<(Instant, Link)>,
    /// When zones have a NOTIFY due.
    notify_due: BTreeSet<(UnixTime, ZoneName)>,
    /// Number of outstanding NOTIFYs.
    in_flight: usize,
    /// The targets of outstanding NOTIFYs, with the NOTIFYs that wait for them.
    targets: HashMap<SocketAddr, NotifyTarget>,
    /// When deferred incoming NOTIFYs are handled.
    put_off: BTreeSet<(Instant, ZoneName)>,
    /// The last number given to a link, and to a transfer or fold.
    last_link: u64,
    last_job: u64,
}

/// The time of an event, and the actions that follow.
struct Moment<'a> {
    now: Instant,
    actions: &'a mut Vec<Action>,
}

impl<S: CoreHost, R: Random> SecondaryCore<S, R> {
    /// Returns a core without zones.
    pub(super) fn new(
        host: S,
        random: R,
        key: HashKey,
        limits: CoreLimits,
        counts: Arc<SecondaryCounts>,
        epoch: Epoch,
    ) -> Self {
        SecondaryCore {
            host,
            random,
            counts,
            key,
            limits,
            epoch,
            zones: HashMap::new(),
            scheduler: SecondaryScheduler::new(limits.zones),
            by_id: HashMap::new(),
            primaries: HashMap::new(),
            links: NumberMap::default(),
            deadlines: BTreeSet::new(),
            notify_due: BTreeSet::new(),
            in_flight: 0,
            targets: HashMap::new(),
            put_off: BTreeSet::new(),
            last_link: 0,
            last_job: 0,
        }
    }

    /// Converts an instant to wall-clock time.
    fn unix(&self, now: Instant) -> UnixTime {
        self.epoch.unix.saturating_add(now.saturating_duration_since(self.epoch.instant))
    }

    /// Converts wall-clock time to an instant.
    fn instant(&self, unix: UnixTime) -> Instant {
        let start = self.epoch.instant;
        let after = unix.saturating_duration_since(self.epoch.unix);
        // Times centuries away are checked again after a day.
        start.checked_add(after).unwrap_or(start + Duration::from_secs(86_400))
    }

    fn configure(&mut self, rules: &PeerRules, at: &mut Moment<'_>) {
        let gone: Vec<ZoneName> =
            self.zones.keys().filter(|apex| rules.get(apex).is_none()).cloned().collect();
        gone.iter().for_each(|apex| self.leave(apex, at));
        rules.iter().for_each(|(apex, peers)| self.peer(apex, peers, at));
    }

    /// Removes a zone that has no other servers any more.
    fn leave(&mut self, apex: &ZoneName, at: &mut Moment<'_>) {
        self.let_go(apex, at);
        if let Some(zone) = self.zones.remove(apex) {
            zone.notify_due().map(|due| self.notify_due.remove(&(due, apex.clone())));
        }
    }

    /// Sets the other servers of a zone.
    fn peer(&mut self, apex: &ZoneName, peers: &Arc<ZonePeers>, at: &mut Moment<'_>) {
        let Some(zone) = self.zones.get_mut(apex) else {
            let notify = NotifyState::of(peers);
            self.zones.insert(apex.clone(), PeeredZone { peers: Arc::clone(peers), refresh: None, notify });
            return;
        };
        let before = std::mem::replace(&mut zone.peers, Arc::clone(peers));
        if before.notify != peers.notify {
            zone.notify_due().map(|due| self.notify_due.remove(&(due, apex.clone())));
            let before = zone.notify.take();
            zone.notify = NotifyState::of(peers).map(|notify| notify.going_on(before));
        }
        if before.primaries != peers.primaries || before.rules != peers.rules {
            self.retake(apex, at);
        }
    }

    /// Stops refreshing a zone, and removes its stored version.
    fn forget(&mut self, apex: &ZoneName, at: &mut Moment<'_>) {
        self.stop_refresh(apex, at);
        self.host.keep(apex, Keep::Nothing, self.unix(at.now));
    }

    /// Starts everything that is due.
    fn go_on(&mut self, at: &mut Moment<'_>) {
        self.act(at);
        self.send_notifies(at);
    }

    fn status(&self, apex: &ZoneName, now: Instant) -> Option<SecondaryStatus> {
        let zone = self.zones.get(apex)?;
        let unix = self.unix(now);
        let notify = zone.peers.notify.iter().map(ToString::to_string).collect();
        let Some(refresh) = &zone.refresh else {
            return Some(SecondaryStatus { notify, ..SecondaryStatus::default() });
        };
        let timers = self.scheduler.zone(refresh.id)?;
        Some(refresh.status(timers, &zone.peers, notify, unix))
    }

    /// Returns `most` secondary zones: those with faults first, then those with the earliest refresh.
    fn worst(&self, most: usize, now: Instant) -> Vec<(ZoneName, SecondaryStatus)> {
        let unix = self.unix(now);
        let refreshed = self.zones.iter().filter_map(|(apex, zone)| {
            let timers = self.scheduler.zone(zone.refresh.as_ref()?.id)?;
            let well = timers.state(unix) == SecondaryState::Fresh;
            Some((well, timers.last_fault().is_none(), timers.next(), apex))
        });
        let mut order: Vec<_> = refreshed.collect();
        if order.len() > most {
            order.select_nth_unstable(most);
            order.truncate(most);
        }
        order.sort_unstable();
        let known = |(_, _, _, apex): (_, _, _, &ZoneName)| Some((apex.clone(), self.status(apex, now)?));
        order.into_iter().filter_map(known).collect()
    }

    fn count(&self, now: Instant) -> StateCounts {
        let unix = self.unix(now);
        let mut counts = StateCounts::default();
        let refreshed = self.zones.values().filter_map(|zone| zone.refresh.as_ref());
        refreshed
            .filter_map(|refresh| self.scheduler.zone(refresh.id))
            .for_each(|zone| counts.add(zone.state(unix)));
        counts
    }
}

impl<S: CoreHost, R: Random> Core for SecondaryCore<S, R> {
    type Request = SecondaryRequest;

    fn request(&mut self, request: SecondaryRequest, now: Instant, actions: &mut Vec<Action>) {
        let at = &mut Moment { now, actions };
        match request {
            SecondaryRequest::Configure(rules) => self.configure(&rules, at),
            SecondaryRequest::Change(zones) => zones.iter().for_each(|(apex, peers)| match peers {
                Some(peers) => self.peer(apex, peers, at),
                None => self.leave(apex, at),
            }),
            SecondaryRequest::Forget(zones, done) => {
                zones.iter().for_each(|apex| self.forget(apex, at));
                // The receiver may be gone.
                let _ = done.try_send(());
            }
            SecondaryRequest::Limit(limits) => {
                self.limits = limits;
                self.scheduler.set_limits(limits.zones);
            }
            SecondaryRequest::Begin(apex, kept) => self.begin(&apex, kept, at),
            SecondaryRequest::Notified(apex, primary, serial) => self.notified(&apex, primary, serial, at),
            SecondaryRequest::Order(apex, order, reply) => {
                // The receiver may be gone.
                let _ = reply.try_send(self.order(&apex, order, at));
            }
            SecondaryRequest::Published(all) => all.into_iter().for_each(|zone| self.published(zone, at)),
            SecondaryRequest::Fetched(number, apex, figures, result) => {
                self.fetched(number, &apex, figures, result, at);
            }
            SecondaryRequest::Folded(number, apex, zone) => self.folded(number, &apex, zone),
            SecondaryRequest::Status(apex, reply) => drop(reply.try_send(self.status(&apex, now))),
            SecondaryRequest::Worst(most, reply) => drop(reply.try_send(self.worst(most, now))),
            SecondaryRequest::Count(reply) => drop(reply.try_send(self.count(now))),
        }
        self.go_on(at);
    }

    fn event(&mut self, event: Event<'_>, now: Instant, actions: &mut Vec<Action>) {
        let at = &mut Moment { now, actions };
        match event {
            // Links to primaries have no streams.
            Event::Opened { .. }
            | Event::Failed { .. }
            | Event::KeyWanted { .. }
            | Event::Draining { .. } => {}
            Event::Secured { link, .. } => self.secured(link),
            Event::Message { link, message } => self.message(link, message, at),
            Event::Ended { link, error } => self.lost(link, error, at),
            Event::Insecure { link, fault } => self.insecure(link, fault, at),
        }
        self.go_on(at);
    }

    fn deadline(&self) -> Option<Instant> {
        let notify = self.notify_due.first().filter(|_| self.in_flight < self.limits.notify);
        let of_links = self.deadlines.first().map(|(at, _)| *at);
        let of_put_off = self.put_off.first().map(|(at, _)| *at);
        let of_notify = notify.map(|(at, _)| self.instant(*at));
        let of_zones = self.scheduler.next_due().map(|at| self.instant(at));
        [of_links, of_put_off, of_notify, of_zones].into_iter().flatten().min()
    }

    fn timeout(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let at = &mut Moment { now, actions };
        self.give_up(at);
        self.look_at_put_off(at);
        self.go_on(at);
    }
}

/// When and how often NOTIFY is sent; times in seconds.
const NOTIFY_RULES: NotifyRules = NotifyRules { first_wait: 2, most_wait: 60, tries: 5 };

fn sender(peers: usize) -> NotifySender {
    NotifySender::new(NOTIFY_RULES, peers)
}
