//! The thread that changes zones.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, sync_channel};
use std::time::{Duration, Instant};

use engine::{Refusal, Responder};
use exchange::{unix_seconds, wake_together};
use journal::{DEFAULT_HISTORY, History, Replacement, StoreFault, ZoneFolder};
use tracing::{debug, info};
use update::SerialPolicy;
use wire::rdata::view::Soa;
use wire::{Name, Rcode, Serial, Type};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecords, diff};

use super::damage::heal;
use super::files::ZoneFiles;
use super::line::{Decided, Group, KeepFault, UpdatableZone, UpdateJob};
use super::plan::ZoneUpdates;
use super::transactions::{CommitEnd, CommitOrder, TransactionFault};
use super::{Job, NOT_KEPT, Reply, Shared, THREAD_REPLY_TIMEOUT, refusal};
use crate::zones::manager::ClaimedZone;
use crate::zones::shown_change::ShownRecord;
use crate::zones::{Apex, FileStamp};
use telemetry::repeated::log_repeated;
use telemetry::trail::audit;
use threads::background::{Background, JobKind};

/// Most requests that are taken together.
const TOGETHER: usize = 4096;

/// Shortest time between two syncs of the marks.
const MARKS_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// What the thread is asked for.
pub(super) enum Order {
    /// A request.
    Update(Box<Job>),
    /// A zone is to hold what its file, as it was when it was read, holds.
    Take(Apex, Arc<Zone>, Option<FileStamp>, Arc<ZoneUpdates>),
    /// A zone is about to be taken from its file: until that is done, nothing else changes it.
    Hold(Apex, Reply<bool>),
    /// What came of taking a zone from its file; `None` if it was not.
    Taken(Apex, Reply<Option<TakeEnd>>),
    /// A transaction is to become a change of its zone.
    Commit(Box<CommitOrder>),
    /// The newest version of a zone that is being changed.
    Newest(Apex, Reply<Option<Arc<Zone>>>),
    /// What changed since a version.
    History(Apex, Serial, Reply<Option<History>>),
    /// Let go of a zone and its file.
    Release(Apex, Reply<()>),
    /// A zone was folded: the number of its line, and what came of it.
    Folded(Apex, u64, Option<Zone>),
    /// A new base was written.
    Compacted(Apex, Box<Replacement>, Result<(), StoreFault>),
    /// Do what is there, and end.
    Stop(Reply<()>),
}

/// What came of taking a zone from its file: what changed, if anything did, or why it was not taken.
pub type TakeEnd = Result<Option<TakenFile>, String>;

/// Records that are listed of those that a zone's file drops; of more, only the number is reported.
const LISTED: usize = 1000;

/// What a zone's file made of a zone that updates had changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenFile {
    /// What changed.
    pub step: TakenStep,
    /// Records that were served and that the file does not have, one a line; without SOA.
    pub dropped: Vec<String>,
    /// Such records beyond those.
    pub more_dropped: usize,
}

impl TakenFile {
    fn of(step: TakenStep, change: &ChangeSet) -> Self {
        let mut gone = change.removed.iter().filter(|record| record.rtype != Type::SOA);
        let dropped = gone.by_ref().take(LISTED).map(|record| ShownRecord(record).to_string()).collect();
        TakenFile { step, dropped, more_dropped: gone.count() }
    }
}

/// What changed in a zone that was taken from its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenStep {
    /// The serial number before.
    pub from: Serial,
    /// The serial number now.
    pub to: Serial,
    /// Records that went, the SOA among them.
    pub removed: usize,
    /// Records that came.
    pub added: usize,
    /// Records of the zone now.
    pub records: u64,
}

/// The thread's state.
pub(super) struct Worker {
    folder: ZoneFolder,
    orders: Receiver<Order>,
    own: Sender<Order>,
    shared: Arc<Shared>,
    background: Arc<Background>,
    files: ZoneFiles,
    lines: HashMap<Apex, UpdatableZone>,
    /// Results of taking zones from their files, kept until `Order::Taken` asks for them.
    takes: HashMap<Apex, TakeEnd>,
    /// The number of the last line.
    number: u64,
    /// When marks were synced last.
    marks_synced: Instant,
}

/// A demand and how it is answered.
enum Settled {
    Update(Responder, Result<(), Refusal>),
    Commit(Reply<CommitEnd>, CommitEnd),
}

impl Worker {
    pub(super) fn new(
        folder: ZoneFolder,
        orders: Receiver<Order>,
        own: Sender<Order>,
        shared: Arc<Shared>,
        background: Arc<Background>,
    ) -> Worker {
        let files = ZoneFiles { shared: Arc::clone(&shared), orders: own.clone() };
        let (lines, takes, marks_synced) = (HashMap::new(), HashMap::new(), Instant::now());
        Worker { folder, orders, own, shared, background, files, lines, takes, number: 0, marks_synced }
    }

    /// Works until it receives `Order::Stop`: a thread's work.
    pub(super) fn work(mut self) {
        while let Some(first) = self.next() {
            let (mut next, mut group) = (Some(first), Vec::new());
            while let Some(order) = next {
                let other = match order {
                    Order::Update(job) => {
                        group.push(UpdateJob::Update(job));
                        None
                    }
                    Order::Commit(order) => {
                        group.push(UpdateJob::Commit(*order));
                        None
                    }
                    other => Some(other),
                };
                if other.is_some() || group.len() >= TOGETHER {
                    self.update(std::mem::take(&mut group));
                }
                match other {
                    Some(Order::Stop(reply)) => {
                        self.sync_marks();
                        // The receiver may be gone.
                        let _ = reply.try_send(());
                        return;
                    }
                    Some(other) => self.handle(other),
                    None => {}
                }
                next = self.orders.try_recv().ok();
            }
            self.update(group);
        }
    }

    /// Waits for the next order. Meanwhile, and where orders come all the time, marks are synced.
    fn next(&mut self) -> Option<Order> {
        while self.folder.has_unsynced_marks() {
            let due = self.marks_synced + MARKS_SYNC_INTERVAL;
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.sync_marks();
                break;
            }
            match self.orders.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {}
                order => return order.ok(),
            }
        }
        self.orders.recv().ok()
    }

    fn sync_marks(&mut self) {
        self.marks_synced = Instant::now();
        if let Err(fault) = self.folder.sync_marks() {
            log_repeated!(
                error,
                ERROR,
                ("marks", ""),
                "how far zones are acknowledged cannot be noted, damage of their journals may go unnoticed: {fault}"
            );
        }
    }

    fn handle(&mut self, order: Order) {
        match order {
            Order::Update(_) | Order::Commit(_) | Order::Stop(_) => {}
            Order::Take(apex, zone, file, rules) => {
                let end = self.take(&apex, &zone, file.as_ref(), &rules);
                self.takes.insert(apex, end);
            }
            Order::Hold(apex, reply) => {
                self.takes.remove(&apex);
                let held = self.line(&apex).is_ok();
                let _ = reply.try_send(held);
            }
            Order::Taken(apex, reply) => {
                let end = self.takes.remove(&apex);
                self.let_go_unless_stored(&apex);
                let _ = reply.try_send(end);
            }
            Order::Newest(apex, reply) => {
                let newest = self.lines.get(&apex).map(|line| Arc::clone(&line.zone));
                let _ = reply.try_send(newest);
            }
            Order::History(apex, from, reply) => {
                let history = self.history(&apex, from);
                let _ = reply.try_send(history);
            }
            Order::Release(apex, reply) => {
                self.lines.remove(&apex);
                let _ = reply.try_send(());
            }
            Order::Folded(apex, number, zone) => self.folded(&apex, number, zone),
            Order::Compacted(apex, replacement, written) => self.compacted(&apex, *replacement, written),
        }
    }

    /// Takes demands together: those of each zone in their order.
    fn update(&mut self, demands: Vec<UpdateJob>) {
        if demands.is_empty() {
            return;
        }
        let requests = demands.iter().filter(|demand| matches!(demand, UpdateJob::Update(_))).count();
        self.shared.counts.waiting.fetch_sub(requests, Relaxed);
        let mut by_zone: BTreeMap<Apex, Vec<UpdateJob>> = BTreeMap::new();
        for demand in demands {
            by_zone.entry(demand.apex().clone()).or_default().push(demand);
        }
        let (mut settled, mut zones) = (Vec::new(), Vec::new());
        for (apex, demands) in by_zone {
            // A panic is a bug of ours, and costs these demands and no other.
            let done = catch_unwind(AssertUnwindSafe(|| self.update_zone(&apex, demands, &mut settled)));
            match done {
                Ok(Some(zone)) => zones.push((apex, zone)),
                Ok(None) => {}
                Err(_) => {
                    log_repeated!(
                        error,
                        ERROR,
                        ("change failed", &name(&apex).to_string()),
                        "zone {}: changing it failed inside nomen; this is a bug",
                        name(&apex)
                    );
                    self.lines.remove(&apex);
                }
            }
        }
        self.publish(zones, settled);
    }

    /// Takes demands for one zone. Returns its next version, if there is one.
    fn update_zone(
        &mut self,
        apex: &Apex,
        demands: Vec<UpdateJob>,
        settled: &mut Vec<Settled>,
    ) -> Option<Arc<Zone>> {
        let (shared, now) = (Arc::clone(&self.shared), unix_seconds());
        let history = demands.first().map_or(DEFAULT_HISTORY, |demand| demand.rules().history);
        let every = demands.first().and_then(|demand| demand.rules().write_file_every);
        // It may have been frozen since they came.
        let is_frozen = threads::sync::lock(&shared.frozen).contains(apex);
        let line = match if is_frozen { Err(Refusal::PROHIBITED) } else { self.line(apex) } {
            Ok(line) => line,
            Err(refusal) => {
                let serial = self.served_serial(apex);
                let refuse = |demand| refuse(&shared, demand, (refusal, is_frozen), serial);
                settled.extend(demands.into_iter().map(refuse));
                return None;
            }
        };
        line.store.keep_history(history);
        let before = line.zone.serial();
        let Group { decided, fault, changed } = line.take(&demands, now, &shared.counts);
        let zone = changed.then(|| Arc::clone(&line.zone));
        let steps = decided.iter().filter(|decided| decided.change().is_some()).count();
        // The file is gone: opened anew, the zone is stored anew.
        let is_gone = matches!(&fault, Some(KeepFault::Store(StoreFault::Io { action: "open", .. })));
        let fault = fault.map(|fault| fault.to_string());
        if let Some(fault) = &fault {
            shared.counts.failed.fetch_add(1, Relaxed);
            let lost = demands.len() - decided.len();
            log_repeated!(
                error,
                ERROR,
                ("updates not kept", &name(apex).to_string()),
                "zone {}: {lost} changes are not made, they cannot be kept: {fault}",
                name(apex)
            );
        }
        self.note(apex, steps, now, fault.clone());
        if is_gone {
            self.lines.remove(apex);
        }
        let (mut decided, mut serial) = (decided.into_iter(), before);
        for demand in demands {
            let decided = decided.next();
            let change = decided.as_ref().and_then(Decided::change);
            let after = change.map_or(serial, |change| change.after);
            settled.push(match demand {
                UpdateJob::Update(job) => answer(&shared, *job, &Outcome::of(decided), Some(serial)),
                UpdateJob::Commit(order) => {
                    let end = commit_end(apex, decided, fault.as_deref().unwrap_or_default());
                    Settled::Commit(order.reply, end)
                }
            });
            serial = after;
        }
        if let Some(zone) = &zone {
            debug!("zone {}: {steps} changes, serial {before} -> {}", name(apex), zone.serial());
            self.look_after(apex);
            every.into_iter().for_each(|every| self.shared.schedule.within(apex, every));
        }
        self.let_go_unless_stored(apex);
        zone
    }

    /// The zone, ready to be changed.
    fn line(&mut self, apex: &Apex) -> Result<&mut UpdatableZone, Refusal> {
        if !self.lines.contains_key(apex) {
            let line = self.open(apex)?;
            self.lines.insert(apex.clone(), line);
        }
        self.lines.get_mut(apex).ok_or(Refusal::ABANDONED)
    }

    fn open(&mut self, apex: &Apex) -> Result<UpdatableZone, Refusal> {
        let (reply, replied) = sync_channel(1);
        self.shared.keeping.claim(apex.clone(), reply);
        // A reply that comes after this has no receiver, and ends its claim.
        let claimed = replied.recv_timeout(THREAD_REPLY_TIMEOUT).ok().flatten().ok_or(Refusal::NOT_LOADED)?;
        let ClaimedZone { version: zone, file, mut claim } = claimed;
        let opened = self.folder.zone(name(apex)).or_else(|fault| {
            let healed = self.is_stored(apex) && heal(&self.folder, &zone, &fault);
            if healed { self.folder.zone(name(apex)) } else { Err(fault) }
        });
        let fault = match opened {
            Ok((store, stored)) => {
                let serial = stored.as_ref().map(|stored| stored.serial());
                if serial.is_none_or(|serial| serial == zone.serial()) {
                    if self.is_stored(apex) {
                        claim.keep();
                    }
                    self.number += 1;
                    let number = self.number;
                    return Ok(UpdatableZone {
                        number,
                        store,
                        first: zone.serial(),
                        zone,
                        since: None,
                        compacting: false,
                        file,
                        claim,
                    });
                }
                format!("serial {} is in service, and another is in the state folder", zone.serial())
            }
            Err(fault) => fault.to_string(),
        };
        log_repeated!(
            error,
            ERROR,
            ("no updates", &name(apex).to_string()),
            "zone {}: it takes no updates: {fault}",
            name(apex)
        );
        self.shared.counts.failed.fetch_add(1, Relaxed);
        if self.is_stored(apex) {
            claim.keep();
        }
        Err(NOT_KEPT)
    }

    /// The serial number of a zone in service.
    fn served_serial(&self, apex: &Apex) -> Option<Serial> {
        self.shared.kept.get(apex)?.zone.as_ref().map(|zone| zone.serial())
    }

    fn is_stored(&self, apex: &Apex) -> bool {
        threads::sync::lock(&self.shared.stored).contains(apex)
    }

    /// A zone of which nothing is on the disk yet goes on coming from its file.
    fn let_go_unless_stored(&mut self, apex: &Apex) {
        let is_stored = self.is_stored(apex);
        if let Some(line) = self.lines.get_mut(apex).filter(|line| line.store.acknowledged().is_some()) {
            line.claim.keep();
            if !is_stored {
                info!(
                    "zone {}: from now on it is kept in the state folder, its file is not read",
                    name(apex)
                );
                self.files.note_read(apex, line.file.as_ref(), line.first);
                threads::sync::lock(&self.shared.stored).insert(apex.clone());
            }
        } else {
            self.lines.remove(apex);
        }
    }

    /// Notes what operators see of a zone.
    fn note(&self, apex: &Apex, steps: usize, now: u64, fault: Option<String>) {
        let Some(line) = self.lines.get(apex) else { return };
        let mut zones = threads::sync::lock(&self.shared.zones);
        let known = zones.entry(apex.clone()).or_default();
        let size = line.store.size();
        (known.base_bytes, known.change_bytes, known.history_bytes) = (size.base, size.changes, size.history);
        known.changes += steps as u64;
        if steps > 0 {
            known.last = now;
        }
        if steps > 0 || fault.is_some() {
            known.fault = fault;
        }
    }

    /// Puts versions into service, then answers the requests for them.
    fn publish(&self, zones: Vec<(Apex, Arc<Zone>)>, settled: Vec<Settled>) {
        let each = |settled| match settled {
            Settled::Update(responder, Ok(())) => responder.resume(|_| Ok(None)),
            Settled::Update(responder, Err(refusal)) => responder.refuse(refusal),
            // The requester may have timed out.
            Settled::Commit(reply, end) => drop(reply.try_send(end)),
        };
        // Answers that are ready together leave together.
        let settle = move || wake_together(|| settled.into_iter().for_each(each));
        match zones.is_empty() {
            true => settle(),
            false => self.shared.keeping.changed(zones, Box::new(settle)),
        }
    }

    /// A zone is to hold what its file holds.
    fn take(
        &mut self,
        apex: &Apex,
        zone: &Arc<Zone>,
        file: Option<&FileStamp>,
        rules: &ZoneUpdates,
    ) -> TakeEnd {
        let (shared, now) = (Arc::clone(&self.shared), unix_seconds());
        let line = self.line(apex).map_err(|_| "what changes in the zone cannot be kept".to_owned())?;
        let change = diff(&line.zone, zone);
        let change = with_serial(change, &line.zone, zone, zone.serial(), rules.serial, now);
        if change.is_empty() {
            info!("zone {}: it holds what its file holds", name(apex));
            self.files.note_read(apex, file, zone.serial());
            self.let_go_unless_stored(apex);
            return Ok(None);
        }
        let (from, to) = (change.before, change.after);
        let (removed, added) = (change.removed.len(), change.added.len());
        let step = TakenStep { from, to, removed, added, records: 0 };
        let taken = TakenFile::of(step, &change);
        let end = match line.step(change, &shared.counts) {
            Ok(()) => {
                (line.file, line.first) = (file.cloned(), zone.serial());
                let next = Arc::clone(&line.zone);
                let records = next.record_count();
                info!(
                    removed,
                    added,
                    "zone {}: what its file holds is taken, serial {from} -> {to}",
                    name(apex)
                );
                audit!(zone = %name(apex), removed, added, serial_before = %from, serial = %to, "zone file taken");
                self.note(apex, 1, now, None);
                self.look_after(apex);
                self.publish(vec![(apex.clone(), next)], Vec::new());
                self.files.note_read(apex, file, zone.serial());
                if let Some(every) = rules.write_file_every.filter(|_| to != zone.serial()) {
                    self.shared.schedule.within(apex, every);
                }
                Ok(Some(TakenFile { step: TakenStep { records, ..step }, ..taken }))
            }
            Err(fault) => {
                shared.counts.failed.fetch_add(1, Relaxed);
                let fault = format!("what its file holds is not taken, it cannot be kept: {fault}");
                let about = ("file not taken", &*name(apex).to_string());
                log_repeated!(error, ERROR, about, "zone {}: {fault}", name(apex));
                self.note(apex, 0, now, Some(fault.clone()));
                Err(fault)
            }
        };
        self.let_go_unless_stored(apex);
        end
    }

    fn history(&mut self, apex: &Apex, from: Serial) -> Option<History> {
        let line = match self.line(apex) {
            Ok(line) => line,
            Err(_) => return None,
        };
        line.store.history(from).unwrap_or_else(|fault| {
            log_repeated!(
                warn,
                WARN,
                ("history", &name(apex).to_string()),
                "zone {}: its history cannot be read: {fault}",
                name(apex)
            );
            None
        })
    }

    /// Has a zone folded, or written anew, beside serving, where that pays.
    fn look_after(&mut self, apex: &Apex) {
        let Some(line) = self.lines.get_mut(apex) else { return };
        if line.since.is_none() && line.zone.is_worth_folding() {
            let (zone, number, own, of) =
                (Arc::clone(&line.zone), line.number, self.own.clone(), apex.clone());
            line.since = Some(Vec::new());
            self.background.run(JobKind::Fold, move || {
                let folded = catch_unwind(AssertUnwindSafe(|| zone.folded())).ok().and_then(Result::ok);
                // Otherwise the server is stopping.
                let _ = own.send(Order::Folded(of, number, folded));
            });
        }
        if !line.compacting && line.store.is_worth_compacting() {
            match line.store.begin_compaction() {
                Ok(mut replacement) => {
                    let (zone, own, of) = (Arc::clone(&line.zone), self.own.clone(), apex.clone());
                    line.compacting = true;
                    self.background.run(JobKind::Compaction, move || {
                        let written = catch_unwind(AssertUnwindSafe(|| replacement.write(&zone)));
                        let written = written.unwrap_or(Err(StoreFault::NotWritten));
                        let _ = own.send(Order::Compacted(of, Box::new(replacement), written));
                    });
                }
                Err(fault) => not_compacted(apex, &fault),
            }
        }
    }

    fn folded(&mut self, apex: &Apex, number: u64, zone: Option<Zone>) {
        let Some(line) = self.lines.get_mut(apex).filter(|line| line.number == number) else { return };
        let since = line.since.take().unwrap_or_default();
        let next = |zone: Zone, change: &Arc<ChangeSet>| zone.apply(change).ok();
        let folded = zone.and_then(|zone| since.iter().try_fold(zone, next));
        match folded {
            Some(zone) => {
                line.zone = Arc::new(zone);
                let zone = Arc::clone(&line.zone);
                self.publish(vec![(apex.clone(), zone)], Vec::new());
            }
            None => {
                let about = ("not folded", &*name(apex).to_string());
                log_repeated!(warn, WARN, about, "zone {}: it could not be folded", name(apex));
            }
        }
    }

    fn compacted(&mut self, apex: &Apex, replacement: Replacement, written: Result<(), StoreFault>) {
        let Some(line) = self.lines.get_mut(apex) else { return };
        line.compacting = false;
        let done = written.and_then(|()| line.store.finish(replacement));
        if let Err(fault) = done {
            self.shared.counts.failed.fetch_add(1, Relaxed);
            not_compacted(apex, &fault);
        }
        self.note(apex, 0, 0, None);
    }
}

/// Logs that the journal of a zone is not compacted, and grows.
fn not_compacted(apex: &Apex, fault: &StoreFault) {
    let about = ("compaction", &*name(apex).to_string());
    log_repeated!(warn, WARN, about, "zone {}: its journal cannot be compacted: {fault}", name(apex));
}

fn name(apex: &Apex) -> Name<'_> {
    Name::from_wire(apex).unwrap_or(Name::ROOT)
}

/// What a request led to, as the audit line has it.
enum Outcome {
    /// The zone was as the request wants it.
    Unchanged,
    /// The zone changed.
    Changed { from: Serial, to: Serial, removed: usize, added: usize },
    /// Nothing changed, for this reason.
    Refused(Refusal, String),
}

impl Outcome {
    /// `None` was not kept.
    fn of(decided: Option<Decided>) -> Self {
        match decided {
            Some(Decided::Update(Ok(None))) => Self::Unchanged,
            Some(Decided::Update(Ok(Some(change)))) => Self::Changed {
                from: change.before,
                to: change.after,
                removed: change.removed.len(),
                added: change.added.len(),
            },
            Some(Decided::Update(Err(fault))) => Self::Refused(refusal(&fault), fault.to_string()),
            Some(Decided::Commit(_)) | None => Self::Refused(NOT_KEPT, "it cannot be kept".into()),
        }
    }
}

/// What came of a transaction; `None` was not kept, for this fault.
fn commit_end(apex: &Apex, decided: Option<Decided>, fault: &str) -> CommitEnd {
    let Some(Decided::Commit(decided)) = decided else { return Err(not_kept(fault)) };
    let Some((change, records)) = decided? else { return Ok(None) };
    let (from, to) = (change.before, change.after);
    let (removed, added) = (change.removed.len(), change.added.len());
    let zone = name(apex);
    info!(removed, added, "zone {zone}: a transaction is committed, serial {from} -> {to}");
    audit!(%zone, removed, added, serial_before = %from, serial = %to, "transaction committed");
    Ok(Some(TakenStep { from, to, removed, added, records }))
}

fn not_kept(fault: &str) -> TransactionFault {
    TransactionFault::NotKept(format!("the change cannot be kept: {fault}"))
}

/// The end of a demand whose zone is frozen or has a journal that cannot be used.
fn refuse(
    shared: &Shared,
    demand: UpdateJob,
    (refusal, is_frozen): (Refusal, bool),
    serial: Option<Serial>,
) -> Settled {
    match demand {
        UpdateJob::Update(job) => {
            let why = if is_frozen { "the zone is frozen" } else { "its journal cannot be used" };
            answer(shared, *job, &Outcome::Refused(refusal, why.into()), serial)
        }
        UpdateJob::Commit(order) if is_frozen => Settled::Commit(order.reply, Err(TransactionFault::Frozen)),
        UpdateJob::Commit(order) => Settled::Commit(order.reply, Err(not_kept("the log says why"))),
    }
}

/// Counts and logs an answer: a line for each client, key and zone, and then their number. `serial` is that
/// of the zone before.
fn answer(shared: &Shared, job: Job, outcome: &Outcome, serial: Option<Serial>) -> Settled {
    let (zone, client) = (name(&job.apex), job.client);
    let key = job.key.as_ref().map_or_else(|| "none".into(), |key| key.as_name().to_string());
    let object = format!("{zone} {client} {key}");
    let result = match outcome {
        Outcome::Refused(refusal, _) => Err(*refusal),
        Outcome::Unchanged | Outcome::Changed { .. } => Ok(()),
    };
    shared.counts.answered(result.err().map_or(Rcode::NOERROR, |refusal| refusal.rcode));
    let (prerequisites, updates) = (job.request.prerequisites().len(), job.request.updates().len());
    let serial = serial.map(|serial| serial.0);
    match outcome {
        Outcome::Changed { from, to, removed, added } => log_repeated!(
            info,
            INFO,
            ("update accepted", &object),
            "zone {zone}: update accepted client={client} key={key} removed={removed} added={added} serial {from} -> {to}"
        ),
        Outcome::Refused(refusal, why) => log_repeated!(
            info,
            INFO,
            ("update refused", &object),
            "zone {zone}: update refused client={client} key={key} rcode={} reason={why:?} prerequisites={prerequisites} \
             updates={updates} serial={}",
            refusal.rcode,
            serial.map_or("none".into(), |serial| serial.to_string())
        ),
        Outcome::Unchanged => debug!(%zone, %client, key, "update changes nothing"),
    }
    match outcome {
        Outcome::Changed { from, to, removed, added } => {
            audit!(%zone, %client, key, removed, added, serial_before = %from, serial = %to, "update accepted");
        }
        Outcome::Refused(refusal, reason) => {
            let rcode = refusal.rcode;
            audit!(%zone, %client, key, %rcode, %reason, prerequisites, updates, serial, "update refused");
        }
        Outcome::Unchanged => {
            audit!(%zone, %client, key, prerequisites, updates, serial, "update changes nothing");
        }
    }
    Settled::Update(job.responder, result)
}

/// What `change` is of, as a change of `old` to the SOA of `new`, with a serial number behind that of the
/// version so far: `wanted`, if it is that, or else the next one. Empty if nothing else changes and no serial
/// number is wanted.
pub(super) fn with_serial(
    change: ChangeSet,
    old: &Zone,
    new: &Zone,
    wanted: Serial,
    policy: SerialPolicy,
    now: u64,
) -> ChangeSet {
    let before = old.serial();
    let own = Some(wanted).filter(|wanted| before.compare(*wanted) == Some(Ordering::Less));
    let others = |records: &ChangedRecords| records.iter().any(|record| record.rtype != Type::SOA);
    let soa_of = |zone: &Zone| {
        let set = zone.apex_node().rrset(Type::SOA)?;
        let record = set.rdatas().next()?;
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        Some((record.ttl(), rdata))
    };
    let (Some((old_ttl, old_soa)), Some((ttl, mut soa))) = (soa_of(old), soa_of(new)) else { return change };
    let same_soa = Soa::read(&old_soa).ok().zip(Soa::read(&soa).ok()).is_some_and(|(old, new)| {
        let numbers =
            |soa: &Soa<'_>| (soa.numbers.refresh, soa.numbers.retry, soa.numbers.expire, soa.numbers.minimum);
        numbers(&old) == numbers(&new) && old.mname == new.mname && old.rname == new.rname
    });
    let same = same_soa && old_ttl == ttl && !others(&change.removed) && !others(&change.added);
    if same && own.is_none() {
        return ChangeSet::default();
    }
    let next = own.unwrap_or_else(|| policy.next(before, now));
    if let Some(field) = soa.len().checked_sub(20).and_then(|at| soa[at..].first_chunk_mut()) {
        *field = next.0.to_be_bytes();
    }
    let mut made = ChangeSet { before, after: next, ..ChangeSet::default() };
    made.removed.push(old.apex().as_name(), Type::SOA, old_ttl, &old_soa);
    made.added.push(old.apex().as_name(), Type::SOA, ttl, &soa);
    for (from, to) in [(&change.removed, &mut made.removed), (&change.added, &mut made.added)] {
        for record in from.iter().filter(|record| record.rtype != Type::SOA) {
            to.push(record.owner, record.rtype, record.ttl, record.rdata);
        }
    }
    made
}
