//! What the parents of zones have: a thread asks the servers of parent zones for DS sets, each zone as often
//! as its watch says, and notifies parents of new CDS and CSYNC records.
//!
//! What waits is bounded: one watch and one NOTIFY of each type for each zone.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use query_path::Engine;
use sandbox::kinds::{ThreadKind, confine};
use serving::frontend::Served;
use serving::parental::{ParentReport, ParentalHosts, ParentalTiming, ask_parents, notify_parent};
use threads::sync::lock;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::{debug, error, info, warn};
use wire::{Type, ZoneName};
use wording::reason;

/// Most zones whose parents are asked or notified at a time.
const MAX_ROUNDS: usize = 16;
/// Longest sleep of the thread.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Bounds of the interval of a watch.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(30 * 86_400);
/// The part of an interval by which it is shorter or longer, so that zones are not due at the same time.
const JITTER_PART: u32 = 10;

/// Counters of what was asked of parents.
#[derive(Debug, Default)]
pub struct ParentCounts {
    /// Rounds: all servers of the parent of one zone were asked.
    pub rounds: AtomicU64,
    /// Rounds in which not all servers of the parent zone were known.
    pub unknown: AtomicU64,
    /// Answers of servers, with or without a DS set.
    pub answers: AtomicU64,
    /// Servers that did not answer, or not as a server of the parent zone.
    pub faults: AtomicU64,
    /// NOTIFY(CDS) or NOTIFY(CSYNC) that a target has acknowledged, by zones.
    pub notified: AtomicU64,
    /// Those without a target, or that no target has acknowledged, by zones.
    pub not_notified: AtomicU64,
}

impl ParentCounts {
    /// Counts a round.
    fn asked(&self, report: &ParentReport) {
        let faults = report.servers.iter().filter(|answer| answer.found.is_err()).count();
        self.rounds.fetch_add(1, Relaxed);
        self.unknown.fetch_add(u64::from(report.fault.is_some()), Relaxed);
        self.faults.fetch_add(faults as u64, Relaxed);
        self.answers.fetch_add((report.servers.len() - faults) as u64, Relaxed);
    }
}

/// Takes the report of a round.
type TakeReport = Box<dyn Fn(&ZoneName, ParentReport) + Send + Sync>;

/// Asks the parents of zones.
pub struct Parents {
    /// This, for the thread.
    own: Weak<Parents>,
    asking: Arc<ParentAsking>,
    report: TakeReport,
    watches: Mutex<Watches>,
    changed: Arc<Notify>,
    counts: ParentCounts,
}

/// How parents are asked.
struct ParentAsking {
    hosts: ParentalHosts,
    engine: Weak<Engine<Served>>,
    timing: ParentalTiming,
}

/// What the thread is to do.
#[derive(Default)]
struct Watches {
    zones: HashMap<ZoneName, ParentWatch>,
    /// Zones whose parents are to be notified, with the type.
    notify: BTreeSet<(ZoneName, Type)>,
    /// The number of the newest watch.
    newest: u64,
    has_thread: bool,
    is_stopped: bool,
}

/// The watch of one zone.
struct ParentWatch {
    /// Differs from that of an earlier watch of the zone.
    number: u64,
    servers: Arc<[SocketAddr]>,
    every: Duration,
    /// When the next round is due; `None` during a round.
    due: Option<Instant>,
    last: Option<ParentReport>,
}

/// What a task does for a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ParentWork {
    /// A round of the watch of this number.
    Ask(ZoneName, u64, Arc<[SocketAddr]>),
    /// Send NOTIFY of a type.
    Notify(ZoneName, Type),
}

/// The outcome of a task.
enum WorkEnd {
    Asked(Box<ParentReport>),
    Notified(Result<String, String>),
}

impl ParentAsking {
    /// Does one piece of work.
    async fn perform(&self, work: &ParentWork) -> WorkEnd {
        match work {
            ParentWork::Ask(apex, _, servers) => {
                let report = ask_parents(&self.hosts, &self.engine, apex, servers, &self.timing).await;
                WorkEnd::Asked(Box::new(report))
            }
            ParentWork::Notify(apex, rtype) => {
                let (hosts, engine) = (&self.hosts, &self.engine);
                WorkEnd::Notified(notify_parent(hosts, engine, apex, *rtype, &self.timing).await)
            }
        }
    }
}

impl Watches {
    /// Takes the work that is due, this much at most. Rounds that are due for the longest time come first.
    fn take_due(&mut self, now: Instant, most: usize) -> Vec<ParentWork> {
        let mut due = Vec::new();
        while due.len() < most {
            let Some((apex, rtype)) = self.notify.pop_first() else { break };
            due.push(ParentWork::Notify(apex, rtype));
        }
        let mut watches: Vec<(&ZoneName, &mut ParentWatch)> =
            self.zones.iter_mut().filter(|(_, watch)| watch.due.is_some_and(|due| due <= now)).collect();
        watches.sort_unstable_by_key(|(_, watch)| (watch.due, watch.number));
        for (apex, watch) in watches.into_iter().take(most - due.len()) {
            watch.due = None;
            due.push(ParentWork::Ask(apex.clone(), watch.number, Arc::clone(&watch.servers)));
        }
        due
    }

    /// Returns when the next round is due.
    fn next_due(&self) -> Option<Instant> {
        self.zones.values().filter_map(|watch| watch.due).min()
    }

    /// Ends a round of the watch of this number, and stores the report if there is one. Returns whether the
    /// watch still exists.
    fn end(
        &mut self,
        apex: &ZoneName,
        number: u64,
        report: Option<&ParentReport>,
        now: Instant,
        random: u32,
    ) -> bool {
        let watch = self.zones.get_mut(apex).filter(|watch| watch.number == number);
        let Some(watch) = watch else { return false };
        watch.due = Some(now + jittered(watch.every, random));
        if let Some(report) = report {
            watch.last = Some(report.clone());
        }
        true
    }
}

/// Returns an interval, made up to a tenth shorter or longer by a random number.
fn jittered(every: Duration, random: u32) -> Duration {
    let tenth = every / JITTER_PART;
    every.saturating_sub(tenth).saturating_add((2 * tenth).mul_f64(f64::from(random) / f64::from(u32::MAX)))
}

impl Parents {
    /// Returns the state. The thread starts with the first watch, and ends when this is dropped. `report`
    /// takes the report of each round on that thread, and must not wait for long.
    pub fn start(
        hosts: ParentalHosts,
        engine: Weak<Engine<Served>>,
        report: impl Fn(&ZoneName, ParentReport) + Send + Sync + 'static,
    ) -> Arc<Parents> {
        Self::timed(hosts, engine, report, ParentalTiming::default())
    }

    fn timed(
        hosts: ParentalHosts,
        engine: Weak<Engine<Served>>,
        report: impl Fn(&ZoneName, ParentReport) + Send + Sync + 'static,
        timing: ParentalTiming,
    ) -> Arc<Parents> {
        Arc::new_cyclic(|own| Parents {
            own: Weak::clone(own),
            asking: Arc::new(ParentAsking { hosts, engine, timing }),
            report: Box::new(report),
            watches: Mutex::default(),
            changed: Arc::default(),
            counts: ParentCounts::default(),
        })
    }

    /// Asks the servers of the parent of a zone now, and then at this interval, a tenth shorter or longer.
    /// The interval is at least one second and at most 30 days. `servers` are the addresses of the servers;
    /// if empty, they are found by resolution. Replaces an earlier watch of the zone: a round of it that is
    /// in progress is not reported.
    pub fn watch(&self, apex: &ZoneName, servers: Arc<[SocketAddr]>, every: Duration) {
        let every = every.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        let mut watches = lock(&self.watches);
        watches.newest += 1;
        let (number, due) = (watches.newest, Some(Instant::now()));
        watches.zones.insert(apex.clone(), ParentWatch { number, servers, every, due, last: None });
        self.wake(&mut watches);
    }

    /// Has the next round of the watch of a zone begin now, if there is a watch and no round is in progress.
    pub fn ask_soon(&self, apex: &ZoneName) {
        let mut watches = lock(&self.watches);
        let due = watches.zones.get_mut(apex).and_then(|watch| watch.due.as_mut());
        if let Some(due) = due {
            *due = Instant::now();
            self.wake(&mut watches);
        }
    }

    /// Ends the watch of a zone. A report that the thread delivers at this moment may still arrive.
    pub fn forget(&self, apex: &ZoneName) {
        let mut watches = lock(&self.watches);
        watches.zones.remove(apex);
        watches.notify.retain(|(zone, _)| zone != apex);
    }

    /// Returns the report of the last round of the watch of a zone.
    pub fn last(&self, apex: &ZoneName) -> Option<ParentReport> {
        lock(&self.watches).zones.get(apex)?.last.clone()
    }

    /// Sends NOTIFY of a type, CDS or CSYNC, to the targets that the parent of a zone names (RFC 9859). The
    /// outcome is logged.
    pub fn notify(&self, apex: &ZoneName, rtype: Type) {
        let mut watches = lock(&self.watches);
        watches.notify.insert((apex.clone(), rtype));
        self.wake(&mut watches);
    }

    /// The counters.
    pub fn counts(&self) -> &ParentCounts {
        &self.counts
    }

    /// Ends the thread, and what it does. Later watches have no effect.
    pub fn stop(&self) {
        lock(&self.watches).is_stopped = true;
        self.changed.notify_one();
    }

    /// Wakes the thread, or starts it. If the system refuses a thread, the next call tries again.
    fn wake(&self, watches: &mut Watches) {
        if watches.has_thread || watches.is_stopped {
            return self.changed.notify_one();
        }
        let (parents, changed) = (Weak::clone(&self.own), Arc::clone(&self.changed));
        let opens_files = self.asking.hosts.opens_files();
        let thread = std::thread::Builder::new().name("parents".into()).spawn(move || {
            if !opens_files {
                confine(ThreadKind::Network);
            }
            work(parents, &changed);
        });
        match thread {
            Ok(_) => watches.has_thread = true,
            Err(fault) => error!("parents of zones are not asked for DS: no thread: {}", reason(&fault)),
        }
    }

    /// Handles the end of a piece of work; `None`: by a panic.
    fn ended(&self, work: &ParentWork, end: Option<WorkEnd>) {
        match (work, end) {
            (ParentWork::Ask(apex, number, _), Some(WorkEnd::Asked(report))) => {
                self.counts.asked(&report);
                debug!(zone = %apex, ?report, "the parent was asked for DS");
                let random = getrandom::u32().unwrap_or_default();
                if lock(&self.watches).end(apex, *number, Some(&report), Instant::now(), random) {
                    // A panic is a bug in nomen, which the panic hook shows. Other zones are asked as before.
                    let _ = catch_unwind(AssertUnwindSafe(|| (self.report)(apex, *report)));
                }
            }
            (ParentWork::Notify(apex, rtype), Some(WorkEnd::Notified(Ok(text)))) => {
                self.counts.notified.fetch_add(1, Relaxed);
                info!("zone {apex}: NOTIFY({rtype}) to the parent: {text}");
            }
            (ParentWork::Notify(apex, rtype), Some(WorkEnd::Notified(Err(fault)))) => {
                self.counts.not_notified.fetch_add(1, Relaxed);
                warn!("zone {apex}: no NOTIFY({rtype}) to the parent: {fault}");
            }
            // The panic hook has shown the panic, which would be a bug in nomen. The next round is as usual.
            (ParentWork::Ask(apex, number, _), _) => {
                lock(&self.watches).end(apex, *number, None, Instant::now(), 0);
            }
            (ParentWork::Notify(..), _) => {}
        }
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// Runs the thread.
fn work(parents: Weak<Parents>, changed: &Notify) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => return error!("parents of zones are not asked for DS: {}", reason(&fault)),
    };
    runtime.block_on(run(parents, changed));
}

/// Does what is due until the end.
async fn run(parents: Weak<Parents>, changed: &Notify) {
    let (mut tasks, mut in_flight) = (JoinSet::new(), HashMap::<Id, ParentWork>::new());
    loop {
        let Some(held) = parents.upgrade() else { return };
        let wait = {
            let mut watches = lock(&held.watches);
            if watches.is_stopped {
                return;
            }
            let now = Instant::now();
            for work in watches.take_due(now, MAX_ROUNDS - tasks.len()) {
                let (asking, of) = (Arc::clone(&held.asking), work.clone());
                let task = tasks.spawn(async move { asking.perform(&of).await });
                in_flight.insert(task.id(), work);
            }
            // While as many rounds run as may, the end of one is waited for.
            let next = watches.next_due().filter(|_| tasks.len() < MAX_ROUNDS);
            next.map_or(LONGEST_SLEEP, |next| next.saturating_duration_since(now)).min(LONGEST_SLEEP)
        };
        drop(held);
        tokio::select! {
            () = changed.notified() => {}
            Some(ended) = tasks.join_next_with_id() => {
                let (id, end) = split(ended);
                if let (Some(work), Some(parents)) = (in_flight.remove(&id), parents.upgrade()) {
                    parents.ended(&work, end);
                }
            }
            () = sleep(wait) => {}
        }
    }
}

/// Returns the task, and its outcome if it did not panic.
fn split<T>(ended: Result<(Id, T), JoinError>) -> (Id, Option<T>) {
    match ended {
        Ok((id, end)) => (id, Some(end)),
        Err(fault) => (fault.id(), None),
    }
}

#[cfg(test)]
mod tests;
