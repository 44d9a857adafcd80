//! What child zones ask of their delegations in zones of this server: a thread asks the name servers of each
//! delegation for CDS and CDNSKEY records (RFC 7344, 8078, 9615), and for CSYNC records (RFC 7477), in scans
//! that are spread over their interval, after a NOTIFY (RFC 9859), and by command. What is accepted becomes
//! an edit of the zone.
//!
//! | file | holds |
//! |---|---|
//! | `schedule` | when which delegation is checked |
//! | `check` | one check: the servers are asked for CDS and CDNSKEY, and what they have is judged |
//! | `csync` | the same for CSYNC |
//! | `accepted` | the last accepted requests, on disk |
//! | `status` | what was found, for operators |
//! | `counts` | counters |
//!
//! What runs and what waits is bounded: [`MAX_CHECKS`], and the bounds in `schedule`.

mod accepted;
mod check;
mod counts;
mod csync;
mod schedule;
mod status;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use query_path::Engine;
use serving::frontend::Served;
use serving::parental::{ParentalHosts, ParentalTiming};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep;
use tracing::{debug, error, info};
use transport::unix_now;
use validator::children::RefusalReason;
use wire::{NameBuf, Serial, Type, UnixTime, ZoneName};
use zone::Zone;
use zone::store::NodeFlags;
use zone_plan::{DelegationRules, UpdateRules};

use super::Changes;
use super::edits::{ChangeAuthor, EditFault, RrsetEdit, RrsetEditKind, ZoneEdit};
use crate::secondaries::ChildNotify;
use accepted::{AcceptedRequests, LastAccepted};
use check::{Checking, Found, canonical};
pub(super) use check::{Delegation, tags};
pub use counts::{DelegationCheckCounts, DelegationCounts};
use csync::{CsyncFound, DelegatedServers, csync_why};
use schedule::{ChildOf, MAX_REQUESTED, Schedule, ZoneDelegations};
use status::Statuses;
pub use status::{CheckOutcome, ChildRequestKind, DelegationStatus};
use telemetry::repeated::log_repeated;
use threads::sync::lock;
use wording::reason;

/// Most checks at a time.
const MAX_CHECKS: usize = 64;
/// Longest sleep of the thread.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// How often an edit is tried on a zone that changes meanwhile.
const EDIT_TRIES: usize = 8;
/// Longest wait of a command for the check that it asks for.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(90);

/// A check that was asked for.
struct CheckRequest {
    child: ChildOf,
    is_notify: bool,
    /// Receives the outcomes.
    reply: Option<SyncSender<Vec<DelegationStatus>>>,
}

/// The outcomes of the check of a delegation, one for each kind of request that the zone accepts.
type CheckOutcomes = Vec<(ChildRequestKind, CheckOutcome)>;

/// Checks the delegations of zones.
pub struct Delegations {
    /// This, for the thread.
    own: Weak<Delegations>,
    changes: Weak<Changes>,
    checking: Arc<Checking>,
    schedule: Mutex<Schedule>,
    /// Requests that the thread has not seen yet. Workers wait for this lock only.
    inbox: Mutex<Vec<CheckRequest>>,
    statuses: Mutex<Statuses>,
    accepted: Mutex<AcceptedRequests>,
    thread: Mutex<ThreadState>,
    changed: Arc<Notify>,
    counts: DelegationCounts,
}

#[derive(Default)]
struct ThreadState {
    runs: bool,
    is_stopped: bool,
}

/// Who waits for checks that run or are to run.
type Waiting = HashMap<ChildOf, Vec<SyncSender<Vec<DelegationStatus>>>>;

/// The zones in service whose delegations this node scans: of those of a database, one node at a time does.
struct Scanned<'d>(&'d Delegations);

impl Scanned<'_> {
    fn zone(&self, apex: &ZoneName) -> Option<Arc<Zone>> {
        let is_elsewhere = |changes: Arc<Changes>| changes.shared.is_maintained_elsewhere(apex);
        match self.0.changes.upgrade().is_some_and(is_elsewhere) {
            true => None,
            false => self.0.checking.zone(apex),
        }
    }
}

impl ZoneDelegations for Scanned<'_> {
    fn survey(&self, zone: &ZoneName, random: u32) -> (usize, Option<NameBuf>) {
        let Some(zone) = self.zone(zone) else { return (0, None) };
        let count = delegations(&zone, None).count();
        let start = delegations(&zone, None).nth(random as usize % count.max(1));
        (count, start)
    }

    fn after(&self, zone: &ZoneName, name: Option<&NameBuf>) -> Option<NameBuf> {
        let zone = self.zone(zone)?;
        let later = delegations(&zone, name).find(|child| Some(child) != name);
        later.or_else(|| delegations(&zone, None).next())
    }
}

/// Returns the names that a zone delegates, from a name on.
fn delegations<'z>(zone: &'z Zone, from: Option<&NameBuf>) -> impl Iterator<Item = NameBuf> + use<'z> {
    let start = from.map_or(zone.apex().as_name().to_buf(), |name| *name);
    let is_cut = |flags: NodeFlags| flags.contains(NodeFlags::CUT) && !flags.contains(NodeFlags::OCCLUDED);
    let cuts = zone.iter_from(start.as_name()).filter(move |node| is_cut(node.flags()));
    cuts.map(|node| node.owner().as_name().to_buf())
}

impl Delegations {
    /// Returns the state. The thread starts with the first zone whose children are asked.
    ///
    /// # Errors
    /// The state folder cannot be read.
    pub(super) fn open(
        changes: Weak<Changes>,
        hosts: ParentalHosts,
        engine: Weak<Engine<Served>>,
        state: &Path,
    ) -> std::io::Result<Arc<Delegations>> {
        let accepted = Mutex::new(AcceptedRequests::open(state)?);
        let checking = Arc::new(Checking { hosts, engine, timing: ParentalTiming::default() });
        Ok(Arc::new_cyclic(|own| Delegations {
            own: Weak::clone(own),
            changes,
            checking,
            schedule: Mutex::default(),
            inbox: Mutex::default(),
            statuses: Mutex::default(),
            accepted,
            thread: Mutex::default(),
            changed: Arc::default(),
            counts: DelegationCounts::default(),
        }))
    }

    /// Sets the rules of zones; `None`: their delegations are not checked.
    pub(super) fn set(&self, zones: impl IntoIterator<Item = (ZoneName, Option<DelegationRules>)>) {
        let (now, mut has_rules) = (Instant::now(), false);
        for (zone, rules) in zones {
            has_rules |= rules.is_some();
            if rules.is_none() {
                lock(&self.statuses).forget(&zone);
            }
            lock(&self.schedule).set(&zone, rules, now, random());
        }
        if has_rules {
            self.wake();
        }
    }

    /// Sets the rules of all zones.
    pub(super) fn set_all(&self, wanted: HashMap<ZoneName, DelegationRules>) {
        let gone: Vec<ZoneName> =
            lock(&self.schedule).zones().filter(|zone| !wanted.contains_key(*zone)).cloned().collect();
        let gone = gone.into_iter().map(|zone| (zone, None));
        self.set(wanted.into_iter().map(|(zone, rules)| (zone, Some(rules))).chain(gone));
    }

    /// Takes a NOTIFY of this type for a name: the zone above it checks the delegation soon.
    pub fn notified(&self, name: &ZoneName, rtype: Type) -> ChildNotify {
        let taken = self.take_notify(name, rtype);
        match taken {
            ChildNotify::NotTaken => {}
            ChildNotify::NotDelegated => drop(self.counts.notify_refused.fetch_add(1, Relaxed)),
            ChildNotify::Taken => drop(self.counts.notify_taken.fetch_add(1, Relaxed)),
            ChildNotify::Full => drop(self.counts.notify_dropped.fetch_add(1, Relaxed)),
        }
        taken
    }

    fn take_notify(&self, name: &ZoneName, rtype: Type) -> ChildNotify {
        let Some(changes) = self.changes.upgrade() else { return ChildNotify::NotTaken };
        let Some(apex) = self.parent_of(name) else { return ChildNotify::NotTaken };
        let rules = changes.shared.rules.load();
        let rules = rules.get(&apex).and_then(|rules| rules.delegations).filter(|rules| rules.notify);
        let takes = |rules: DelegationRules| match rtype {
            Type::CDS => rules.changes_ds(),
            Type::CSYNC => rules.csync,
            _ => false,
        };
        if !rules.is_some_and(takes) {
            return ChildNotify::NotTaken;
        }
        let zone = self.checking.zone(&apex);
        if zone.is_none_or(|zone| Delegation::read(&zone, name.as_name()).is_none()) {
            return ChildNotify::NotDelegated;
        }
        let child = (apex, canonical(name.as_name()));
        match self.request(CheckRequest { child, is_notify: true, reply: None }) {
            true => ChildNotify::Taken,
            false => ChildNotify::Full,
        }
    }

    /// Returns the zone in service that is next above a name, in its view.
    fn parent_of(&self, name: &ZoneName) -> Option<ZoneName> {
        let (engine, view) = (self.checking.engine.upgrade()?, name.to_view());
        let in_view = |above: wire::Name<'_>| ZoneName::in_view(above.to_lower().as_lower(), view.as_ref());
        let above = name.as_name().ancestors().skip(1).map(in_view);
        above.into_iter().find(|apex| engine.zone_entry(apex).is_some())
    }

    /// Queues a check. Returns false if too many wait.
    fn request(&self, request: CheckRequest) -> bool {
        let mut inbox = lock(&self.inbox);
        if request.is_notify {
            if inbox.iter().any(|waiting| waiting.child == request.child) {
                return true;
            }
            // Each entry of the inbox is taken at once: a long one means that the thread is busy.
            if inbox.len() >= MAX_REQUESTED / 10 {
                return false;
            }
        }
        inbox.push(request);
        drop(inbox);
        self.changed.notify_one();
        true
    }

    /// Checks a delegation now, and returns the outcomes.
    ///
    /// # Errors
    /// The children of the zone are not asked, or the check takes too long.
    pub fn check_now(&self, apex: &ZoneName, child: &NameBuf) -> Result<Vec<DelegationStatus>, String> {
        if lock(&self.schedule).rules(apex).is_none() {
            return Err("`delegation-updates` of the zone is not set".to_owned());
        }
        let (reply, replied) = sync_channel(1);
        let child = (apex.clone(), canonical(child.as_name()));
        self.request(CheckRequest { child, is_notify: false, reply: Some(reply) });
        let late = |_| "the check takes long: its outcome is shown later".to_owned();
        replied.recv_timeout(COMMAND_TIMEOUT).map_err(late)
    }

    /// Returns the rules of a zone, and the last checks of its delegations; `None`: they are not checked.
    pub fn status(&self, apex: &ZoneName) -> Option<(DelegationRules, Vec<DelegationStatus>)> {
        let rules = lock(&self.schedule).rules(apex)?;
        let mut all = lock(&self.statuses).of(apex);
        let (schedule, now, unix) = (lock(&self.schedule), Instant::now(), unix_now());
        for status in &mut all {
            let next = schedule.next_of(&(apex.clone(), status.child));
            status.next = next.map(|next| unix_at(next, now, unix));
        }
        Some((rules, all))
    }

    /// Whether the delegations of any zone are checked.
    pub fn is_on(&self) -> bool {
        lock(&self.schedule).zones().next().is_some()
    }

    /// The number of checks that were asked for and wait.
    pub fn waiting(&self) -> usize {
        lock(&self.schedule).waiting()
    }

    /// The counters.
    pub fn counts(&self) -> &DelegationCounts {
        &self.counts
    }

    /// Least time between the starts of two checks, of all zones together.
    fn check_gap(&self) -> Duration {
        let most = self.changes.upgrade().map_or(1, |changes| changes.delegation_checks.load(Relaxed));
        Duration::from_secs(1) / most.max(1)
    }

    /// Ends the thread, and what it does.
    pub(super) fn stop(&self) {
        lock(&self.thread).is_stopped = true;
        self.changed.notify_one();
    }

    /// Wakes the thread, or starts it. If the system refuses a thread, the next call tries again.
    fn wake(&self) {
        let mut thread = lock(&self.thread);
        if thread.runs || thread.is_stopped {
            return self.changed.notify_one();
        }
        let (delegations, changed) = (Weak::clone(&self.own), Arc::clone(&self.changed));
        // It writes a file of the state folder and asks servers, so it is no thread of one kind.
        let started = std::thread::Builder::new().name("delegations".into()).spawn(move || {
            match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(run(delegations, &changed)),
                Err(fault) => error!("delegations are not checked: {}", reason(&fault)),
            }
        });
        match started {
            Ok(_) => thread.runs = true,
            Err(fault) => error!("delegations are not checked: no thread: {}", reason(&fault)),
        }
    }

    /// Moves requests from the inbox to the schedule.
    fn take_requests(&self, waiting: &mut Waiting) {
        let requests = std::mem::take(&mut *lock(&self.inbox));
        let (mut schedule, now) = (lock(&self.schedule), Instant::now());
        for CheckRequest { child, is_notify, reply } in requests {
            if schedule.rules(&child.0).is_none() {
                continue;
            }
            if !schedule.request(&child, is_notify, now) {
                self.counts.notify_dropped.fetch_add(1, Relaxed);
                continue;
            }
            waiting.entry(child).or_default().extend(reply);
        }
        waiting.retain(|_, replies| !replies.is_empty());
    }

    /// Checks a delegation, and changes the zone if what the child asks for is accepted. The DS records come
    /// first: they prove the rest.
    async fn perform(&self, of: &ChildOf) -> CheckOutcomes {
        let Some(rules) = lock(&self.schedule).rules(&of.0) else { return Vec::new() };
        let mut outcomes = Vec::new();
        if rules.changes_ds() {
            outcomes.push((ChildRequestKind::Cds, self.perform_cds(of, rules).await));
        }
        if rules.csync {
            outcomes.push((ChildRequestKind::Csync, self.perform_csync(of, rules).await));
        }
        outcomes
    }

    async fn perform_cds(&self, of: &ChildOf, rules: DelegationRules) -> CheckOutcome {
        let last = lock(&self.accepted).get(&of.0, &of.1).inception;
        match self.checking.check(of, rules, last).await {
            Found::NotDelegated => CheckOutcome::NotDelegated,
            Found::Unsigned => CheckOutcome::Unsigned,
            Found::NotAccepted => CheckOutcome::NotAccepted,
            Found::Nothing => CheckOutcome::Nothing,
            Found::Unchanged(inception) => {
                let new = LastAccepted { inception, serial: None };
                self.note_later(of, last.zip(inception), new);
                CheckOutcome::Unchanged
            }
            Found::Refused(refusal) => CheckOutcome::Refused(refusal.reason, refusal.text),
            Found::Change { delegation, ds, inception } => {
                let text = format!("{} -> {}", tags(&delegation.ds), tags(&ds));
                if rules.dry_run {
                    return CheckOutcome::WouldChange(text);
                }
                let change = AcceptedChange {
                    accepted: LastAccepted { inception: Some(inception), serial: None },
                    why: why(&delegation, &ds),
                    edits: vec![ds_edit(of, &delegation, ds)],
                    judged: Judged::Ds(delegation),
                };
                self.changed_to(of, change, text).await
            }
        }
    }

    async fn perform_csync(&self, of: &ChildOf, rules: DelegationRules) -> CheckOutcome {
        let last = lock(&self.accepted).get(&of.0, &of.1).serial;
        match self.checking.check_csync(of, last).await {
            CsyncFound::NotDelegated => CheckOutcome::NotDelegated,
            CsyncFound::Unsigned => CheckOutcome::Unsigned,
            CsyncFound::Nothing => CheckOutcome::Nothing,
            CsyncFound::Unchanged(serial) => {
                let new = LastAccepted { serial: Some(serial), inception: None };
                self.note_later(of, last.map(|last| (last, serial)), new);
                CheckOutcome::Unchanged
            }
            CsyncFound::Refused(refusal) => CheckOutcome::Refused(refusal.reason, refusal.text),
            CsyncFound::Change { shown, .. } if rules.dry_run => CheckOutcome::WouldChange(shown),
            CsyncFound::Change { servers, edits, shown, serial } => {
                let change = AcceptedChange {
                    accepted: LastAccepted { serial: Some(serial), inception: None },
                    why: csync_why(&shown, serial),
                    edits,
                    judged: Judged::Servers(servers),
                };
                self.changed_to(of, change, shown).await
            }
        }
    }

    async fn changed_to(&self, of: &ChildOf, change: AcceptedChange, text: String) -> CheckOutcome {
        match self.change(of, change).await {
            Ok(()) => CheckOutcome::Changed(text),
            Err(fault) => CheckOutcome::Failed(fault),
        }
    }

    /// Notes that what was accepted from a child was published again later, so that nothing older is
    /// accepted: `times` are the last and the new signature or serial number.
    fn note_later(&self, (apex, child): &ChildOf, times: Option<(Serial, Serial)>, new: LastAccepted) {
        let is_later = |(last, new): (Serial, Serial)| new.compare(last) == Some(std::cmp::Ordering::Greater);
        if times.is_some_and(is_later)
            && let Err(fault) = lock(&self.accepted).put(apex, child, new)
        {
            let (about, fault) = (("not noted", &*apex.to_string()), reason(&fault));
            log_repeated!(error, ERROR, about, "zone {apex}: an accepted request is not stored: {fault}");
        }
    }

    /// Changes a delegation, if it is still as it was judged.
    async fn change(&self, of: &ChildOf, change: AcceptedChange) -> Result<(), String> {
        let (apex, child) = of;
        // Before the change: a crash between the two leaves nothing that could be replayed.
        let stored = lock(&self.accepted).put(apex, child, change.accepted);
        stored.map_err(|fault| {
            format!("the accepted request cannot be stored in the state folder: {}", reason(&fault))
        })?;
        for _ in 0..EDIT_TRIES {
            let (Some(changes), Some(zone)) = (self.changes.upgrade(), self.checking.zone(apex)) else {
                return Err("the zone is not in service".to_owned());
            };
            if !change.judged.is_in(&zone, child) {
                return Err("the delegation was changed during the check".to_owned());
            }
            let edit = ZoneEdit {
                edits: change.edits.clone(),
                at_serial: Some(zone.serial()),
                by: ChangeAuthor::Child { child: Box::new(*child), why: Arc::clone(&change.why) },
            };
            let replied = changes.edit(apex, edit);
            drop(changes);
            match replied.await {
                Ok(Ok(_)) => return Ok(()),
                // Another change came first.
                Ok(Err(EditFault::OtherSerial(_))) => {}
                Ok(Err(fault)) => return Err(fault.to_string()),
                Err(_) => return Err(EditFault::Stopping.to_string()),
            }
        }
        Err("the zone changes too often: no edit of the version in service succeeds".to_owned())
    }

    /// Notes the end of a check; `None`: by a panic, which the panic hook has shown.
    fn ended(
        &self,
        of: &ChildOf,
        outcomes: Option<CheckOutcomes>,
        replies: Vec<SyncSender<Vec<DelegationStatus>>>,
    ) {
        let bug = || vec![(ChildRequestKind::Cds, CheckOutcome::Failed("a bug in nomen".to_owned()))];
        let (outcomes, at) = (outcomes.unwrap_or_else(bug), unix_now());
        for (kind, outcome) in &outcomes {
            self.counts.ended(*kind, outcome);
            let is_other = lock(&self.statuses).note(of, *kind, outcome, at);
            log_outcome(of, *kind, outcome, is_other);
        }
        let is_failed = outcomes.iter().any(|(_, outcome)| outcome.is_failed());
        lock(&self.schedule).end(of, is_failed, Instant::now());
        let status = |(kind, outcome): &(ChildRequestKind, CheckOutcome)| DelegationStatus {
            child: of.1,
            kind: *kind,
            checked: at,
            outcome: outcome.clone(),
            changed: None,
            next: None,
        };
        let all: Vec<DelegationStatus> = outcomes.iter().map(status).collect();
        // The command may have timed out.
        replies.into_iter().for_each(|reply| drop(reply.try_send(all.clone())));
    }
}

/// A change of a delegation that a child asks for and that is accepted.
struct AcceptedChange {
    accepted: LastAccepted,
    why: Arc<str>,
    edits: Vec<RrsetEdit>,
    judged: Judged,
}

/// The delegation for which a request was judged.
enum Judged {
    Ds(Box<Delegation>),
    Servers(Box<DelegatedServers>),
}

impl Judged {
    /// Whether a version of the zone has the same delegation.
    fn is_in(&self, zone: &Zone, child: &NameBuf) -> bool {
        match self {
            Self::Ds(judged) => Delegation::read(zone, child.as_name()).as_ref() == Some(&**judged),
            Self::Servers(judged) => {
                DelegatedServers::read(zone, child.as_name()).as_ref() == Some(&**judged)
            }
        }
    }
}

/// Returns the edit after which a delegation has this DS set.
fn ds_edit((_, child): &ChildOf, judged: &Delegation, ds: Vec<Vec<u8>>) -> RrsetEdit {
    let kind = match ds.is_empty() {
        true => RrsetEditKind::Delete,
        false => RrsetEditKind::Replace { ttl: judged.ds_ttl, rdatas: ds },
    };
    RrsetEdit { owner: *child, rtype: Type::DS, kind }
}

/// Returns why a DS set is changed, for the audit file.
fn why(judged: &Delegation, ds: &[Vec<u8>]) -> Arc<str> {
    let proof = match (judged.ds.is_empty(), ds.is_empty()) {
        (true, _) => "confirmed by its name servers (RFC 9615)",
        (false, true) => "deletion (RFC 8078) signed by a key of the DS records",
        (false, false) => "signed by a key of the DS records",
    };
    format!("CDS {proof}, DS tags {} -> {}", tags(&judged.ds), tags(ds)).into()
}

/// Logs the outcome of a check of a request, if it is another one than before.
fn log_outcome((zone, child): &ChildOf, kind: ChildRequestKind, outcome: &CheckOutcome, is_other: bool) {
    let (about, what, of_change, request) = match kind {
        ChildRequestKind::Cds => ("delegation", "DS records", "tags ", "CDS records"),
        ChildRequestKind::Csync => ("csync", "name servers", "", "CSYNC records"),
    };
    let (word, detail) = (outcome.word(), outcome.detail().unwrap_or_default());
    let reason = outcome.reason().map(RefusalReason::word).unwrap_or_default();
    let about = (about, &*format!("{zone} {child} {reason}"));
    match outcome {
        CheckOutcome::Changed(text) => info!("zone {zone}: {what} of {child} changed, {of_change}{text}"),
        CheckOutcome::WouldChange(text) if is_other => {
            info!("zone {zone}: {what} of {child} are not changed (`delegation-dry-run`), {of_change}{text}");
        }
        CheckOutcome::Refused(_, text) if is_other => log_repeated!(
            warn,
            WARN,
            about,
            "zone {zone}: {request} of {child} are not accepted, reason={reason}: {text}"
        ),
        CheckOutcome::Failed(text) if is_other => log_repeated!(
            error,
            ERROR,
            about,
            "zone {zone}: {what} of {child} cannot be changed as its {request} ask: {text}"
        ),
        _ => debug!(%zone, %child, request, outcome = word, detail, "a delegation was checked"),
    }
}

impl Drop for Delegations {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// Does what is due until the end.
async fn run(delegations: Weak<Delegations>, changed: &Notify) {
    let mut tasks: JoinSet<CheckOutcomes> = JoinSet::new();
    let mut running = HashMap::<Id, (ChildOf, Vec<SyncSender<Vec<DelegationStatus>>>)>::new();
    let mut waiting = Waiting::new();
    loop {
        let Some(held) = delegations.upgrade() else { return };
        if lock(&held.thread).is_stopped {
            return;
        }
        held.take_requests(&mut waiting);
        if tasks.len() < MAX_CHECKS {
            let begun = {
                let mut schedule = lock(&held.schedule);
                schedule.limit(held.check_gap());
                schedule.begin(Instant::now(), &Scanned(&held), random())
            };
            if let Some(child) = begun {
                let replies = waiting.remove(&child).unwrap_or_default();
                let (of, theirs) = (child.clone(), Arc::clone(&held));
                let task = tasks.spawn(async move { theirs.perform(&of).await });
                running.insert(task.id(), (child, replies));
            }
        }
        // While as many checks run as may, the end of one is waited for.
        let next = lock(&held.schedule).next_due().filter(|_| tasks.len() < MAX_CHECKS);
        let wait = next
            .map_or(LONGEST_SLEEP, |next| next.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP));
        drop(held);
        tokio::select! {
            () = changed.notified() => {}
            Some(ended) = tasks.join_next_with_id() => {
                let (id, outcome) = split(ended);
                if let (Some((child, replies)), Some(held)) = (running.remove(&id), delegations.upgrade()) {
                    held.ended(&child, outcome, replies);
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

/// Returns the Unix time of an instant.
fn unix_at(at: Instant, now: Instant, unix: UnixTime) -> UnixTime {
    let ahead = at.saturating_duration_since(now).as_secs();
    UnixTime::from_secs(unix.as_secs() + ahead)
}

fn random() -> u32 {
    getrandom::u32().unwrap_or_default()
}

impl Changes {
    /// Checks the delegations of zones; `hosts` finds the name servers of the children.
    pub(super) fn check_delegations_by(self: &Arc<Self>, hosts: ParentalHosts) {
        let opened = Delegations::open(Arc::downgrade(self), hosts, self.engine.clone(), &self.state);
        match opened {
            Ok(delegations) => {
                // The second of two calls has no effect.
                let _ = self.shared.delegations.set(delegations);
                self.set_all_delegations();
            }
            Err(fault) => {
                error!("delegations are not checked: what was accepted cannot be read: {}", reason(&fault));
            }
        }
    }

    /// The delegations of zones, if there is a state folder.
    pub fn delegations(&self) -> Option<&Arc<Delegations>> {
        self.shared.delegations.get()
    }

    /// Sets the rules for the delegations of some zones.
    pub(super) fn set_delegations(&self, zones: &[ZoneName], rules: &UpdateRules) {
        let Some(delegations) = self.shared.delegations.get() else { return };
        let of = |apex: &ZoneName| rules.get(apex).and_then(|rules| rules.delegations);
        delegations.set(zones.iter().map(|apex| (apex.clone(), of(apex))));
    }

    /// Ends the checks of delegations.
    pub(super) fn stop_delegations(&self) {
        self.shared.delegations.get().into_iter().for_each(|delegations| delegations.stop());
    }

    /// Sets the rules for the delegations of all zones.
    pub(super) fn set_all_delegations(&self) {
        let Some(delegations) = self.shared.delegations.get() else { return };
        let rules = self.shared.rules.load();
        let wanted = rules.iter().filter_map(|(apex, rules)| Some((apex.clone(), rules.delegations?)));
        delegations.set_all(wanted.collect());
    }
}
