//! The thread that changes zones. It decides jobs, has their changes stored, publishes the next version once
//! the changes are on disk, and then has the clients answered.
//!
//! The thread waits for its queue: claims of zones, stored changes and folded versions arrive as messages.
//! Jobs of a zone that arrive while its changes are being stored form the next group, with one sync for all
//! of them. Where one zone alone has jobs, this thread stores its changes, and waits for the disk; where
//! several have, background threads do, side by side.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ::database::{CommitEnd, ZoneId};
use journal::StoreFault;
use query_path::Refusal;
use tracing::{debug, info};
use wire::{Serial, Type, UnixTime, ZoneName};
use zone::Zone;

use super::answers::{
    Outcome, Settled, answer, commit_end, edit_fault, edit_refused, edited, not_kept, send_answers,
};
use super::files::ZoneFiles;
use super::group::{
    ChangeJob, Course, Decided, FileJob, KeepFault, TakeEnd, TakeFault, TakenFile, TakenStep,
};
use super::origins::VersionOrigin;
use super::queue::{Entry, Group, Phase, SignedGroup, UpdatableZone, ZoneQueue};
use super::signing::{SignSchedule, has_new_csync};
use super::transactions::TransactionFault;
use super::{Reply, Shared, clock};
use crate::fold::{FoldEnd, FoldJob, FoldNumber, Folding};
use crate::managed::publishing::ClaimedZone;
use crate::managed::state::TakeWhen;
use crate::stores::{Append, Appended, OnThread, ZoneStores};
use telemetry::repeated::log_repeated;
use telemetry::trail::audit;
use threads::background::{Background, JobKind};
use threads::sync::lock;

/// Most jobs that are stored together.
const MAX_GROUP_JOBS: usize = 4096;
/// Shortest time between two syncs of the marks.
const MARKS_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// A message to the thread.
pub(super) enum Order {
    /// An entry for the queue of a zone.
    Zone(ZoneName, Entry),
    /// The reply to a claim: the version in service, if any.
    Claimed(ZoneName, Option<ClaimedZone>),
    /// Changes of a zone that is signed here are signed; `None`: that failed inside nomen. With the number of
    /// the zone.
    Signed(ZoneName, u64, Option<Box<SignedGroup>>),
    /// Changes of a zone are stored, or have failed; with the number of the zone.
    Stored(ZoneName, u64, Appended),
    /// The end of a commit of changes of a zone in the database; with the number of the zone.
    Committed(ZoneName, u64, CommitEnd),
    /// A fold has ended: the number of the zone, the number of the job, and the version.
    Folded(ZoneName, u64, FoldNumber, Option<Arc<Zone>>),
    /// The marks are synced.
    MarksSynced,
    /// The thread ends once all queued work is done.
    Stop(Reply<()>),
}

/// Sends one order. If dropped before that, it sends the order `otherwise`, so that the thread always gets a
/// reply.
pub(super) struct OneOrder {
    orders: Sender<Order>,
    otherwise: Option<Order>,
}

impl OneOrder {
    pub(super) fn send(mut self, order: Order) {
        self.otherwise = None;
        // A send error means that the server is stopping.
        let _ = self.orders.send(order);
    }
}

impl Drop for OneOrder {
    fn drop(&mut self) {
        if let Some(order) = self.otherwise.take() {
            // A send error means that the server is stopping.
            let _ = self.orders.send(order);
        }
    }
}

/// State of the thread.
pub(super) struct Worker {
    stores: ZoneStores,
    pub(super) orders: Receiver<Order>,
    own: Sender<Order>,
    pub(super) shared: Arc<Shared>,
    pub(super) background: Arc<Background>,
    files: ZoneFiles,
    pub(super) zones: HashMap<ZoneName, ZoneQueue>,
    /// The last number given to a zone or a job.
    number: u64,
    /// Groups of changes that are being stored.
    storing: usize,
    /// Whether other zones have something to do in this round.
    others: bool,
    /// When the marks were last synced, and whether a sync is in progress.
    marks_synced: Instant,
    marks_syncing: bool,
    /// When zones that are signed here are due for maintenance.
    pub(super) due: SignSchedule,
    /// Versions of files and primaries that could not be signed, to be tried again.
    pub(super) retries: HashMap<ZoneName, Box<FileJob>>,
    /// Zones whose parents are being asked, with the configured servers.
    pub(super) watched: HashMap<ZoneName, Arc<[SocketAddr]>>,
    stopping: Option<Reply<()>>,
}

impl Worker {
    pub(super) fn new(
        stores: ZoneStores,
        orders: Receiver<Order>,
        own: Sender<Order>,
        shared: Arc<Shared>,
        background: Arc<Background>,
    ) -> Worker {
        let files = ZoneFiles { shared: Arc::clone(&shared), orders: own.clone() };
        Worker {
            stores,
            orders,
            own,
            shared,
            background,
            files,
            zones: HashMap::new(),
            number: 0,
            storing: 0,
            others: false,
            marks_synced: Instant::now(),
            marks_syncing: false,
            due: SignSchedule::default(),
            retries: HashMap::new(),
            watched: HashMap::new(),
            stopping: None,
        }
    }

    /// Runs until it has received `Order::Stop` and all jobs have ended: the body of a thread.
    pub(super) fn work(mut self) {
        while let Some(first) = self.next() {
            if !self.round(first) {
                return;
            }
        }
    }

    /// Handles this order and all queued ones, and advances their zones. Returns false once the thread has
    /// ended.
    pub(super) fn round(&mut self, first: Order) -> bool {
        let mut touched = BTreeSet::from_iter(self.take(first));
        // Queued orders are handled before a group is formed, so that one sync serves all of them.
        let queued: Vec<Order> = self.orders.try_iter().take(MAX_GROUP_JOBS).collect();
        for order in queued {
            touched.extend(self.take(order));
        }
        self.others = touched.len() > 1;
        touched.iter().for_each(|apex| self.advance(apex));
        !self.has_stopped()
    }

    /// Waits for the next order, or until a zone is due for maintenance. Syncs the marks meanwhile, and also
    /// when orders arrive without a pause.
    fn next(&mut self) -> Option<Order> {
        loop {
            let now = Instant::now();
            let marks = !self.marks_syncing && self.stores.folders().has_unsynced_marks();
            let marks = marks.then(|| self.marks_synced + MARKS_SYNC_INTERVAL);
            if marks.is_some_and(|due| due <= now) {
                self.sync_marks();
                continue;
            }
            if let Some(order) = self.due_order(now) {
                return Some(order);
            }
            let Some(due) = [marks, self.due.first()].into_iter().flatten().min() else {
                return self.orders.recv().ok();
            };
            match self.orders.recv_timeout(due.saturating_duration_since(now)) {
                Err(RecvTimeoutError::Timeout) => {}
                order => return order.ok(),
            }
        }
    }

    pub(super) fn sync_marks(&mut self) {
        (self.marks_synced, self.marks_syncing) = (Instant::now(), true);
        let (folders, synced) = (self.stores.folders().clone(), self.one_order(Order::MarksSynced));
        self.background.run(JobKind::Store, move || {
            report_marks(&folders);
            drop(synced);
        });
    }

    /// Whether `Order::Stop` was received and no work is left; then replies to it.
    fn has_stopped(&mut self) -> bool {
        let zones = &self.zones;
        let Some(reply) = self.stopping.take_if(|_| zones.values().all(ZoneQueue::is_idle)) else {
            return false;
        };
        report_marks(self.stores.folders());
        // The receiver may be gone.
        let _ = reply.try_send(());
        true
    }

    /// Handles an order. Returns the zone that may have work now.
    fn take(&mut self, order: Order) -> Option<ZoneName> {
        match order {
            Order::Zone(apex, entry) => {
                self.zones.entry(apex.clone()).or_default().entries.push_back(entry);
                Some(apex)
            }
            Order::Claimed(apex, claimed) => {
                self.guarded(&apex, |worker| worker.claimed(&apex, claimed));
                Some(apex)
            }
            Order::Signed(apex, number, group) => {
                self.guarded(&apex, |worker| worker.signed(&apex, number, group));
                Some(apex)
            }
            Order::Stored(apex, number, appended) => {
                self.storing -= 1;
                self.guarded(&apex, |worker| worker.stored(&apex, number, appended));
                Some(apex)
            }
            Order::Committed(apex, number, end) => {
                self.guarded(&apex, |worker| worker.committed(&apex, number, end));
                Some(apex)
            }
            Order::Folded(apex, number, job, zone) => {
                self.guarded(&apex, |worker| worker.folded(&apex, number, job, zone));
                None
            }
            Order::MarksSynced => {
                self.marks_syncing = false;
                None
            }
            Order::Stop(reply) => {
                self.stopping = Some(reply);
                None
            }
        }
    }

    pub(super) fn one_order(&self, otherwise: Order) -> OneOrder {
        OneOrder { orders: self.own.clone(), otherwise: Some(otherwise) }
    }

    /// Does the work queued for a zone until it has to wait for another thread.
    fn advance(&mut self, apex: &ZoneName) {
        self.guarded(apex, |worker| while worker.do_next(apex) {});
    }

    /// Does work of one zone. A panic is a bug in nomen. It fails only the jobs of this zone, whose clients
    /// get SERVFAIL.
    fn guarded(&mut self, apex: &ZoneName, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            let about = ("change failed", &*apex.to_string());
            log_repeated!(
                error,
                ERROR,
                about,
                "zone {}: changing it failed inside nomen; this is a bug",
                apex
            );
            self.zones.remove(apex);
        }
    }

    /// Handles the first entry of a zone's queue. Returns false if the queue is empty or the zone has to
    /// wait.
    fn do_next(&mut self, apex: &ZoneName) -> bool {
        let Some(queue) = self.zones.get_mut(apex) else { return false };
        if queue.phase.is_waiting() {
            return false;
        }
        let is_closed = matches!(queue.phase, Phase::Closed);
        match queue.entries.front() {
            None => {
                if is_closed && !queue.is_held {
                    self.zones.remove(apex);
                }
                return false;
            }
            Some(Entry::Change(_)) => return self.begin_group(apex),
            Some(Entry::Hold(_) | Entry::Follow(..)) if is_closed => return self.claim(apex),
            Some(_) => {}
        }
        // The receivers may have timed out.
        match queue.entries.pop_front() {
            Some(Entry::Hold(reply)) => {
                (queue.is_held, queue.taken) = (true, None);
                let _ = reply.try_send(true);
            }
            Some(Entry::Taken(reply)) => {
                queue.is_held = false;
                let end = queue.taken.take();
                self.close_unless_stored(apex);
                let _ = reply.try_send(end);
            }
            Some(Entry::Newest(reply)) => {
                let newest = queue.open().map(|zone| Arc::clone(&zone.version));
                let _ = reply.try_send(newest);
            }
            Some(Entry::Release(reply)) => {
                (queue.phase, queue.is_held) = (Phase::Closed, false);
                let _ = reply.try_send(());
            }
            Some(Entry::Follow(of, content)) => self.follow(apex, of, content),
            Some(Entry::Forget(reply)) => {
                (queue.phase, queue.is_held) = (Phase::Closed, false);
                self.retries.remove(apex);
                self.unwatch_parent(apex);
                self.shared.ds_pushes.get().into_iter().for_each(|pushes| pushes.forget(apex));
                let _ = reply.try_send(());
            }
            Some(Entry::Change(_)) | None => {}
        }
        true
    }

    /// Requests the version in service. Returns false: the zone waits for it.
    fn claim(&mut self, apex: &ZoneName) -> bool {
        if let Some(queue) = self.zones.get_mut(apex) {
            queue.phase = Phase::Claiming;
        }
        let (reply, of) = (self.one_order(Order::Claimed(apex.clone(), None)), apex.clone());
        let claimed = move |claimed| reply.send(Order::Claimed(of, claimed));
        self.shared.publishing.claim(apex.clone(), Box::new(claimed));
        false
    }

    /// Handles the reply to a claim. Dropping a claim that no zone waits for ends it.
    fn claimed(&mut self, apex: &ZoneName, claimed: Option<ClaimedZone>) {
        let stored = self.is_stored(apex);
        let Some(queue) = self.zones.get_mut(apex) else { return };
        if !matches!(queue.phase, Phase::Claiming) {
            return;
        }
        queue.phase = Phase::Closed;
        let number = claimed.as_ref().map_or(Ok(None), |claimed| self.shared.number_of(apex, claimed));
        let claimed = claimed.filter(|_| number.is_ok());
        let Some(mut claimed) = claimed.or_else(|| queue.unsigned(apex)) else {
            return match queue.entries.front() {
                Some(Entry::Follow(..)) => self.follow_first(apex),
                _ => self.not_loaded(apex),
            };
        };
        let number = number.ok().flatten();
        let is_stored = stored || number.is_some();
        if is_stored {
            claimed.claim.keep();
        }
        self.open(apex, claimed, number, is_stored);
    }

    /// Has a zone take jobs. `database`: its number in the database, if its version is of one.
    pub(super) fn open(
        &mut self,
        apex: &ZoneName,
        claimed: ClaimedZone,
        database: Option<ZoneId>,
        is_stored: bool,
    ) {
        self.number += 1;
        let ClaimedZone { version, file, claim, .. } = claimed;
        let zone = UpdatableZone {
            number: self.number,
            file_serial: version.serial(),
            version,
            folding: Folding::default(),
            fold_end: None,
            is_stored,
            file,
            claim,
            database,
            attempts: None,
            signer: None,
        };
        if let Some(queue) = self.zones.get_mut(apex) {
            queue.phase = Phase::Open(Box::new(zone));
        }
    }

    /// Ends the jobs of a zone of which no version is in service.
    fn not_loaded(&mut self, apex: &ZoneName) {
        let Some(queue) = self.zones.get_mut(apex) else { return };
        let (mut jobs, mut others) = (Vec::new(), Vec::new());
        for entry in queue.entries.drain(..) {
            match entry {
                Entry::Change(job) => jobs.push(job),
                // The receiver may have timed out.
                Entry::Hold(reply) => drop(reply.try_send(false)),
                other => others.push(other),
            }
        }
        queue.entries.extend(others);
        let reason = &*TakeFault::NotInService.to_string();
        self.refuse(apex, jobs, Refusal::NOT_LOADED, reason, TransactionFault::NotKept(reason.into()));
    }

    /// Refuses jobs of a zone.
    pub(super) fn refuse(
        &mut self,
        apex: &ZoneName,
        jobs: Vec<ChangeJob>,
        refusal: Refusal,
        reason: &str,
        fault: TransactionFault,
    ) {
        let serial = self.served_serial(apex);
        let (mut settled, mut fault) = (Vec::new(), Some(fault));
        for job in jobs {
            match job {
                ChangeJob::Update(job) => {
                    let refused = Outcome::Refused(refusal, reason.into());
                    settled.push(answer(&self.shared, *job, &refused, serial));
                }
                ChangeJob::Commit(order) => {
                    let fault = fault.take().unwrap_or_else(|| not_kept(reason));
                    settled.push(Settled::Commit(order.reply, Err(fault)));
                }
                ChangeJob::Edit(order) => {
                    settled.push(edit_refused(
                        &self.shared,
                        apex,
                        *order,
                        edit_fault(refusal, reason),
                        serial,
                    ));
                }
                ChangeJob::Sign(order) => order.end(Err(reason.to_owned())),
                // Freezing a zone refuses no file, so no version is in service.
                ChangeJob::File(_) => {
                    if let Some(queue) = self.zones.get_mut(apex) {
                        queue.taken = Some(Err(TakeFault::NotInService));
                    }
                }
            }
        }
        send_answers(settled);
    }

    /// Decides the jobs at the front of the queue together, and has their changes stored. Returns false if
    /// the zone waits for that.
    fn begin_group(&mut self, apex: &ZoneName) -> bool {
        if self.refuse_frozen(apex) {
            return true;
        }
        let Some(queue) = self.zones.get_mut(apex) else { return false };
        let Some(zone) = queue.open() else { return self.claim(apex) };
        let version = Arc::clone(&zone.version);
        // Syncs of several zones run side by side. For one zone alone, waking another thread only costs time;
        // the first change of a zone has the zone written as a whole.
        let is_alone = zone.is_stored && self.storing == 0 && !self.others;
        let on_thread = if is_alone { OnThread::This } else { OnThread::Background };
        let (jobs, now) = (queue.take_jobs(MAX_GROUP_JOBS), clock::now());
        if let Some(signing) = self.shared.signing_of(apex) {
            let jobs = self.without_old_files(apex, jobs);
            return self.sign_group(apex, signing, jobs, now);
        }
        let course = Course::of(&version, &jobs, None, now);
        self.store_group(apex, jobs, course, on_thread, now)
    }

    /// Has the changes of decided jobs stored. Returns false if the zone waits for that.
    pub(super) fn store_group(
        &mut self,
        apex: &ZoneName,
        jobs: Vec<ChangeJob>,
        course: Result<Course, KeepFault>,
        on_thread: OnThread,
        now: UnixTime,
    ) -> bool {
        let Some(queue) = self.zones.get_mut(apex) else { return false };
        let Some(zone) = queue.open() else { return false };
        let (version, number) = (Arc::clone(&zone.version), zone.number);
        let place = match self.shared.place_of(apex, zone.database) {
            Ok(place) => place,
            Err(fault) => return self.leave_version(apex, jobs, fault, now),
        };
        let course = match course {
            Ok(course) => course,
            Err(fault) => {
                self.settle(apex, jobs, None, Some(fault), now);
                return true;
            }
        };
        let changes: Vec<_> = course.changes().cloned().collect();
        // That nothing changes is only certain if this is the newest version of the database.
        let is_asked = jobs.iter().any(ChangeJob::is_asked);
        if let Some(place) = place
            && (!changes.is_empty() || is_asked || course.changes_keys())
        {
            return self.commit_group(apex, place, jobs, course, now);
        }
        if changes.is_empty() {
            self.settle(apex, jobs, Some(course), None, now);
            return true;
        }
        let history = jobs.first().map_or(journal::DEFAULT_HISTORY, |job| job.rules().history);
        let after = Arc::clone(&course.zone);
        let append = Append { before: version, after, changes, history };
        if let Phase::Open(zone) = std::mem::take(&mut queue.phase) {
            queue.phase = Phase::Storing(zone, Box::new(Group { jobs, course, now, begun: Instant::now() }));
        }
        let lost = Order::Stored(apex.clone(), number, Appended::nothing(StoreFault::NotWritten));
        let (reply, of) = (self.one_order(lost), apex.clone());
        let appended = move |appended| reply.send(Order::Stored(of, number, appended));
        self.storing += 1;
        self.stores.append(apex, append, Box::new(appended), on_thread);
        false
    }

    /// Ends jobs on a version that counts no longer, for this reason, and drops it. Returns true: other jobs
    /// may follow, and begin with the version in service.
    pub(super) fn leave_version(
        &mut self,
        apex: &ZoneName,
        jobs: Vec<ChangeJob>,
        fault: KeepFault,
        now: UnixTime,
    ) -> bool {
        self.settle(apex, jobs, None, Some(fault), now);
        if let Some(queue) = self.zones.get_mut(apex) {
            queue.phase = Phase::Closed;
        }
        true
    }

    /// Refuses the requests and transactions at the front of the queue if the zone was frozen after they
    /// arrived. Returns whether there were any.
    fn refuse_frozen(&mut self, apex: &ZoneName) -> bool {
        if !lock(&self.shared.frozen).contains(apex) {
            return false;
        }
        let Some(queue) = self.zones.get_mut(apex) else { return false };
        let refused: Vec<ChangeJob> = std::iter::from_fn(|| match queue.entries.front() {
            Some(Entry::Change(job)) if job.is_asked() => {
                queue.entries.pop_front().and_then(|entry| match entry {
                    Entry::Change(job) => Some(job),
                    _ => None,
                })
            }
            _ => None,
        })
        .collect();
        let is_any = !refused.is_empty();
        self.refuse(apex, refused, Refusal::PROHIBITED, "the zone is frozen", TransactionFault::Frozen);
        is_any
    }

    /// Handles the end of storing the changes of a group.
    pub(super) fn stored(&mut self, apex: &ZoneName, number: u64, appended: Appended) {
        let Some(queue) = self.zones.get_mut(apex) else { return };
        let (mut zone, group) = match std::mem::take(&mut queue.phase) {
            Phase::Storing(zone, group) if zone.number == number => (zone, *group),
            other => {
                queue.phase = other;
                return;
            }
        };
        let Appended { stored, fault, synced, size, acknowledged } = appended;
        if let Some(took) = synced {
            self.shared.counts.synced(stored, took);
        }
        zone.is_stored |= acknowledged.is_some();
        let fold_end = zone.fold_end.take();
        let version = Arc::clone(&zone.version);
        queue.phase = Phase::Open(zone);
        if let Some(size) = size {
            self.shared.set_size(apex, size);
        }
        let Group { jobs, course, now, .. } = group;
        match fault {
            None => self.settle(apex, jobs, Some(course), None, now),
            Some(fault) => {
                // Changes before the fault are on disk; nothing else has happened.
                let kept = course.jobs_before_change(stored);
                let course = match self.zones.get_mut(apex).and_then(ZoneQueue::open) {
                    // Its steps are stored, or not, as they are; the next turn looks at what there is.
                    Some(UpdatableZone { signer: Some(signer), .. }) => {
                        signer.begin_again();
                        Course::of(&version, &jobs[..kept], Some(signer), now).ok()
                    }
                    _ => Course::of(&version, &jobs[..kept], None, now).ok(),
                };
                self.settle(apex, jobs, course, Some(KeepFault::Store(fault)), now);
            }
        }
        if let Some((job, zone)) = fold_end {
            self.folded(apex, number, job, zone);
        }
    }

    /// Makes the stored version the newest one, and ends the jobs that led to it. Jobs beyond those in
    /// `course` are not stored, for this fault.
    pub(super) fn settle(
        &mut self,
        apex: &ZoneName,
        jobs: Vec<ChangeJob>,
        course: Option<Course>,
        fault: Option<KeepFault>,
        now: UnixTime,
    ) {
        let makes_csync = self.shared.signing_of(apex).is_some_and(|signing| signing.policy.csync);
        let Some(zone) = self.zones.get_mut(apex).and_then(ZoneQueue::open) else { return };
        let is_current = zone.database.is_none() || self.shared.place_of(apex, zone.database).is_ok();
        let (before, mut is_for_parent) = (zone.version.serial(), false);
        let (decided, steps) = match course {
            None => (Vec::new(), 0),
            Some(Course { decided, zone: newest, steps, .. }) => {
                is_for_parent = makes_csync && has_new_csync(&zone.version, &newest);
                zone.version = newest;
                zone.folding.changed(&steps);
                let changes = decided.iter().filter(|decided| decided.change().is_some()).count();
                (decided, changes)
            }
        };
        let version = Arc::clone(&zone.version);
        let mut asked = jobs.iter().filter(|job| job.is_asked());
        let every = asked.find_map(|job| job.rules().write_file_every);
        let why = fault.as_ref().map(ToString::to_string);
        if let Some(fault) = &fault {
            self.shared.counts.failed.fetch_add(1, Relaxed);
            let lost = jobs.iter().skip(decided.len()).filter(|job| job.is_asked()).count();
            let about = ("updates not kept", &*apex.to_string());
            if lost > 0 {
                log_repeated!(
                    error,
                    ERROR,
                    about,
                    "zone {}: {lost} changes are not made, they cannot be stored: {fault}",
                    apex
                );
            }
        }
        self.shared.note(apex, steps, now, why.clone());
        self.note_origins(apex, &jobs, &decided, now);
        let settled = self.answers(apex, jobs, decided, before, fault.as_ref());
        // Operators who get a reply see the state that it is about.
        self.plan_maintenance(apex, why.as_deref(), now);
        // A version of a zone that was removed since does not come into service.
        if steps == 0 || !is_current {
            send_answers(settled);
        } else {
            debug!("zone {}: {steps} changes, serial {before} -> {}", apex, version.serial());
            let parents = self.shared.parents.get().filter(|_| is_for_parent).cloned();
            let of = apex.clone();
            let in_service = move || {
                send_answers(settled);
                // The parent asks for the version that it is notified of.
                parents.into_iter().for_each(|parents| parents.notify(&of, Type::CSYNC));
            };
            self.shared.publishing.changed(apex.clone(), version, Box::new(in_service));
            self.fold(apex);
            every.into_iter().for_each(|every| self.shared.schedule.within(apex, every));
        }
        self.close_unless_stored(apex);
    }

    /// Remembers who has made which version.
    fn note_origins(&self, apex: &ZoneName, jobs: &[ChangeJob], decided: &[Decided], now: UnixTime) {
        let mut origins = lock(&self.shared.origins);
        for (job, decided) in jobs.iter().zip(decided) {
            if let Some(change) = decided.change() {
                origins.note(apex, change.after, VersionOrigin { at: now, origin: job.origin() });
            }
        }
    }

    /// Ends jobs, each with its decision. Returns the responses to send.
    fn answers(
        &mut self,
        apex: &ZoneName,
        jobs: Vec<ChangeJob>,
        decided: Vec<Decided>,
        before: Serial,
        fault: Option<&KeepFault>,
    ) -> Vec<Settled> {
        let why = &*fault.map(ToString::to_string).unwrap_or_default();
        let (mut decided, mut serial, mut settled) = (decided.into_iter(), before, Vec::new());
        for job in jobs {
            let decided = decided.next();
            let change = decided.as_ref().and_then(Decided::change);
            let after = change.map_or(serial, |change| change.after);
            match job {
                ChangeJob::Update(job) => {
                    settled.push(answer(&self.shared, *job, &Outcome::of(decided), Some(serial)));
                }
                ChangeJob::Commit(order) => {
                    settled.push(Settled::Commit(order.reply, commit_end(apex, decided, why)));
                }
                ChangeJob::Edit(order) => {
                    settled.push(edited(&self.shared, apex, *order, decided, fault, serial));
                }
                ChangeJob::Sign(order) => {
                    settled.extend(self.maintained(apex, *order, decided.as_ref(), why));
                }
                ChangeJob::File(job) => {
                    let end = self.file_taken(*job, decided, why);
                    if let Some(queue) = self.zones.get_mut(apex) {
                        queue.taken = Some(end);
                    }
                }
            }
            serial = after;
        }
        settled
    }

    /// Logs the result of taking a zone file, and returns it.
    fn file_taken(&mut self, job: FileJob, decided: Option<Decided>, fault: &str) -> TakeEnd {
        let is_signed = job.rules.signing.is_some();
        if is_signed && !matches!(decided, Some(Decided::File(_))) {
            let again = FileJob {
                apex: job.apex.clone(),
                zone: Arc::clone(&job.zone),
                file: job.file.clone(),
                rules: Arc::clone(&job.rules),
                when: job.when,
                is_new: false,
            };
            self.retries.insert(job.apex.clone(), Box::new(again));
        }
        let FileJob { apex, zone: read, file, rules, when, is_new } = job;
        let name = &apex;
        let Some(Decided::File(decided)) = decided else {
            if !is_new {
                return Err(TakeFault::NotStored(fault.into()));
            }
            let fault = TakeFault::NotStored(fault.into());
            let about = ("file not taken", &*name.to_string());
            log_repeated!(error, ERROR, about, "zone {name}: {fault}");
            self.shared.note(&apex, 0, UnixTime::EPOCH, Some(fault.to_string()));
            return Err(fault);
        };
        self.files.note_read(&apex, file.as_ref(), read.serial());
        self.retries.remove(&apex);
        if is_signed && when == TakeWhen::Anyway && file.is_some() {
            // A failure is found again at the next edit, which is not taken then.
            let _ = lock(&self.shared.notes).change(&apex, |note| note.changed = false);
        }
        let source = if file.is_some() || !is_signed { "its file" } else { "the version of its primaries" };
        let Some((change, records)) = decided else {
            info!("zone {name}: it equals {source}");
            return Ok(None);
        };
        if let Some(zone) = self.zones.get_mut(&apex).and_then(ZoneQueue::open) {
            (zone.file, zone.file_serial) = (file, read.serial());
        }
        let step = TakenStep::of(&change, records);
        let TakenStep { from, to, removed, added, .. } = step;
        info!(removed, added, "zone {name}: {source} is applied, serial {from} -> {to}");
        audit!(zone = %name, removed, added, serial_before = %from, serial = %to, "zone file taken");
        if let Some(every) = rules.write_file_every.filter(|_| to != read.serial()) {
            self.shared.schedule.within(&apex, every);
        }
        Ok(Some(TakenFile::of(step, &change)))
    }

    /// Returns the serial number of a zone in service.
    fn served_serial(&self, apex: &ZoneName) -> Option<Serial> {
        self.shared.states.get(apex)?.zone.as_ref().map(|zone| zone.serial())
    }

    fn is_stored(&self, apex: &ZoneName) -> bool {
        lock(&self.shared.stored).contains(apex)
    }

    /// Makes the claim permanent if the zone has a store on disk. Otherwise drops the zone's version, unless
    /// its file is about to be taken, and the zone loads from its file as before.
    pub(super) fn close_unless_stored(&mut self, apex: &ZoneName) {
        let Some(queue) = self.zones.get_mut(apex) else { return };
        let is_held = queue.is_held;
        let Some(zone) = queue.open() else { return };
        if !zone.is_stored {
            if !is_held {
                queue.phase = Phase::Closed;
            }
            return;
        }
        zone.claim.keep();
        if zone.database.is_some() {
            return;
        }
        if lock(&self.shared.stored).insert(apex.clone()) {
            match self.shared.signing_of(apex) {
                Some(_) => info!(
                    "zone {apex}: from now on its versions are stored in the state folder, for its dnssec-policy"
                ),
                None => {
                    info!("zone {apex}: from now on it is stored in the state folder, its file is not read")
                }
            }
            self.files.note_read(apex, zone.file.as_ref(), zone.file_serial);
        }
    }

    /// Folds the newest version on a background thread if that saves memory.
    pub(super) fn fold(&mut self, apex: &ZoneName) {
        let Some(zone) = self.zones.get_mut(apex).and_then(ZoneQueue::open) else { return };
        let version = Arc::clone(&zone.version);
        let Some(job) = zone.folding.begin(&version) else { return };
        let number = zone.number;
        self.run_fold(apex, number, job);
    }

    fn run_fold(&self, apex: &ZoneName, number: u64, job: FoldJob) {
        let lost = Order::Folded(apex.clone(), number, job.number(), None);
        let (reply, of) = (self.one_order(lost), apex.clone());
        job.run(&self.background, move |job, zone| reply.send(Order::Folded(of, number, job, zone)));
    }

    /// Handles the end of a fold.
    pub(super) fn folded(
        &mut self,
        apex: &ZoneName,
        number: u64,
        job: FoldNumber,
        folded: Option<Arc<Zone>>,
    ) {
        let zone = match self.zones.get_mut(apex).map(|queue| &mut queue.phase) {
            Some(Phase::Open(zone)) if zone.number == number => zone,
            // The changes being stored are applied to the folded version afterwards.
            Some(Phase::Storing(zone, _) | Phase::Signing(zone)) if zone.number == number => {
                zone.fold_end = Some((job, folded));
                return;
            }
            _ => return,
        };
        match zone.folding.ended(job, folded) {
            FoldEnd::Outdated => {}
            FoldEnd::Continue(job) => self.run_fold(apex, number, job),
            FoldEnd::Folded(folded) => {
                zone.version = Arc::clone(&folded);
                self.shared.publishing.changed(apex.clone(), folded, Box::new(|| ()));
            }
            FoldEnd::Failed => {
                let about = ("not folded", &*apex.to_string());
                log_repeated!(warn, WARN, about, "zone {}: it could not be folded", apex);
            }
        }
    }
}

/// Syncs the marks of all folders, and logs a failure.
fn report_marks(folders: &journal::StoreFolders) {
    if let Err(fault) = folders.sync_marks() {
        log_repeated!(
            error,
            ERROR,
            ("marks", ""),
            "marks of acknowledged changes cannot be written, damage of journals may go unnoticed: \
             {fault}"
        );
    }
}
