//! Zones of the database: their changes are committed there before they count, and changes of other nodes
//! come from there.
//!
//! A commit names the version that it changes. If another node was faster, the thread takes what the database
//! has, and decides the jobs again on that version. So each job sees all changes before it, on whichever node
//! they were made. Jobs that change nothing are confirmed in the same way, by a commit without a step.

use std::cmp::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use ::database::{CommitEnd, CommitStep, ZoneCommit, ZoneContent, ZoneId, ZoneKeySet};
use tracing::warn;
use wire::{Serial, UnixTime, ZoneName};
use zone::Zone;
use zone::store::{ChangeSet, diff};
use zone_plan::{Origin, ZoneUpdates};

use super::group::{ChangeJob, Course, KeepFault};
use super::queue::{Attempts, Entry, Group, Phase, UpdatableZone, ZoneQueue};
use super::worker::{Order, Worker};
use super::{Changes, Shared, clock};
use crate::database::ZoneDatabase;
use crate::managed::publishing::{Claim, ClaimedZone};
use crate::stores::Appended;
use telemetry::repeated::log_repeated;
use threads::sync::lock;

/// Where the keys of a zone are that is signed here.
pub(super) enum KeyPlace {
    /// In files.
    Files,
    /// In the database, which has these. `signs`: this node maintains them.
    Database { keys: Arc<ZoneKeySet>, signs: bool },
    /// In the database, and they were not read since the start.
    Unread,
}

/// Most conflicts in a row after which jobs are decided again.
const MAX_CONFLICTS: u32 = 16;

impl Changes {
    /// Sets the zones of the database, before any zone is loaded.
    pub fn use_database(&self, database: Arc<ZoneDatabase>) {
        self.shared.database.get_or_init(|| Arc::downgrade(&database));
        self.database.get_or_init(|| database);
    }

    /// The zones of the database, if there is one.
    pub fn database(&self) -> Option<&Arc<ZoneDatabase>> {
        self.database.get()
    }

    /// Queues what the database has of the zone with this number.
    pub fn follow(&self, apex: &ZoneName, zone: ZoneId, content: ZoneContent) {
        self.queue(apex, Entry::Follow(zone, content));
    }

    /// Takes keys of a zone of the database, unless newer ones are at hand.
    pub(crate) fn follow_keys(&self, apex: &ZoneName, zone: ZoneId, keys: &Arc<ZoneKeySet>) {
        let Some(database) = self.database.get() else { return };
        if database.set_keys(zone, keys) && database.id(apex) == Some(zone) {
            self.maintain(apex);
        }
    }

    /// Sets whether this node maintains the keys and signatures of the zones of the database.
    pub(crate) fn set_signs(&self, signs: bool) {
        let Some(database) = self.database.get() else { return };
        database.set_signs(signs);
        let rules = self.shared.rules.load();
        let signed = rules.iter().filter(|(_, rules)| rules.signing.is_some());
        signed.filter(|(apex, _)| database.id(apex).is_some()).for_each(|(apex, _)| self.maintain(apex));
    }

    /// Whether zones of the database are to be signed, or their delegations to be scanned: one node does
    /// both.
    pub(crate) fn has_shared_zones_to_sign(&self) -> bool {
        let Some(database) = self.database.get() else { return false };
        let rules = self.shared.rules.load();
        let scans = |rules: &ZoneUpdates| rules.delegations.is_some_and(|rules| rules.scan_every.is_some());
        let mut wanted = rules.iter().filter(|(_, rules)| rules.signing.is_some() || scans(rules));
        wanted.any(|(apex, _)| database.id(apex).is_some())
    }

    /// Drops the thread's version of a zone that the database does not have any more.
    pub(crate) fn leave(&self, apex: &ZoneName) {
        let (reply, _) = std::sync::mpsc::sync_channel(1);
        self.queue(apex, Entry::Forget(reply));
        lock(&self.shared.retaken).remove(apex);
        lock(&self.shared.zones).remove(apex);
        lock(&self.shared.origins).forget(apex);
    }

    /// Has the next whole version of a zone taken, even if it is older than the version in service.
    pub(crate) fn take_next(&self, apex: &ZoneName) {
        lock(&self.shared.retaken).insert(apex.clone());
    }

    /// Whether the next whole version of a zone is to be taken, so that the version in service counts no
    /// longer.
    pub(crate) fn takes_next(&self, apex: &ZoneName) -> bool {
        lock(&self.shared.retaken).contains(apex)
    }

    /// Has a zone of the database read again as a whole. `anyway`: it is taken even if it is older than the
    /// version in service. Returns false if the database does not have it.
    pub fn read_again(&self, apex: &ZoneName, anyway: bool) -> bool {
        let Some((database, id)) = self.shared.database_id(apex) else { return false };
        let Some(truth) = database.truth() else { return false };
        if anyway {
            self.take_next(apex);
        }
        truth.fetch(id, apex.clone());
        true
    }
}

impl Shared {
    /// Returns the database and the number of a zone in it, if the zone in service is that of the database.
    pub(super) fn database_id(&self, apex: &ZoneName) -> Option<(Arc<ZoneDatabase>, ZoneId)> {
        let database = self.database.get()?.upgrade()?;
        let id = database.id(apex)?;
        // A zone of another source has precedence over one of this name in the database.
        let is_served = self.states.get(apex)?.spec.origin == Origin::Database;
        is_served.then_some((database, id))
    }

    /// Returns the database and the number of a zone in it, if its version was opened with this number;
    /// `None`: the version is of another source.
    ///
    /// # Errors
    /// The database has removed the zone or created another one of its name meanwhile, or the zone has
    /// another source now. The version counts no longer: its changes would be lost, or those of another zone.
    pub(super) fn place_of(
        &self,
        apex: &ZoneName,
        opened: Option<ZoneId>,
    ) -> Result<Option<(Arc<ZoneDatabase>, ZoneId)>, KeepFault> {
        let place = self.database_id(apex);
        match (place.as_ref().map(|(_, id)| *id), opened) {
            (now, opened) if now == opened => Ok(place),
            (_, Some(_)) => Err(KeepFault::Refused("the database does not have the zone any more".into())),
            (_, None) => Err(KeepFault::Refused("the zone is that of the database now".into())),
        }
    }

    /// Returns the number in the database of a version that is to be changed, or `None` if it is of another
    /// source. `Err`: it is of a zone that the database does not have any more, or has a newer one of.
    pub(super) fn number_of(&self, apex: &ZoneName, claimed: &ClaimedZone) -> Result<Option<ZoneId>, ()> {
        if !claimed.of_database {
            return Ok(None);
        }
        let id = self.database_id(apex).map(|(_, id)| id);
        let is_void = lock(&self.retaken).contains(apex);
        id.filter(|_| !is_void).map(Some).ok_or(())
    }

    /// Whether another node maintains the keys and signatures of a zone.
    pub(super) fn is_maintained_elsewhere(&self, apex: &ZoneName) -> bool {
        self.database_id(apex).is_some_and(|(database, _)| !database.signs())
    }
}

/// Returns where the keys of a zone are that is signed here.
pub(super) fn key_place(place: Option<&(Arc<ZoneDatabase>, ZoneId)>) -> KeyPlace {
    let Some((database, id)) = place else { return KeyPlace::Files };
    match database.keys(*id) {
        Some(keys) => KeyPlace::Database { keys, signs: database.signs() },
        None => KeyPlace::Unread,
    }
}

impl Worker {
    /// Plans the next look at a zone that the database has changed: at once if its keys have changed, too.
    /// When they came, its version was not that which they are about.
    fn plan_look(&mut self, apex: &ZoneName) {
        let now = clock::now();
        let place = key_place(self.shared.database_id(apex).as_ref());
        let signer = self.zones.get_mut(apex).and_then(ZoneQueue::open).and_then(|zone| zone.signer.as_mut());
        if let (KeyPlace::Database { keys, .. }, Some(signer)) = (place, signer) {
            signer.expect_keys(keys.version, now);
        }
        self.plan_maintenance(apex, None, now);
    }

    /// Has the changes of decided jobs committed in the database. Returns false: the zone waits for that.
    pub(super) fn commit_group(
        &mut self,
        apex: &ZoneName,
        (database, id): (Arc<ZoneDatabase>, ZoneId),
        jobs: Vec<ChangeJob>,
        course: Course,
        now: UnixTime,
    ) -> bool {
        let Some(queue) = self.zones.get_mut(apex) else { return false };
        let Some(zone) = queue.open() else { return false };
        let (before, number) = (Arc::clone(&zone.version), zone.number);
        let begun = Instant::now();
        let since = zone.attempts.get_or_insert(Attempts { since: begun, conflicts: 0 }).since;
        let Some(truth) = database.truth() else {
            let why = "the connection to the database has not started".to_owned();
            self.settle(apex, jobs, None, Some(KeepFault::Database(why)), now);
            return true;
        };
        let author = |job: usize| jobs.get(job).map(|job| job.origin().to_string()).unwrap_or_default();
        let step = |(job, change): &(usize, Arc<ChangeSet>)| CommitStep {
            change: Arc::clone(change),
            author: author(*job),
        };
        let steps = course.stored().iter().map(step).collect();
        let keys = course.keys.clone();
        let after = Arc::clone(&course.zone);
        if let Phase::Open(zone) = std::mem::take(&mut queue.phase) {
            queue.phase = Phase::Storing(zone, Box::new(Group { jobs, course, now, begun }));
        }
        let lost = CommitEnd::Unclear("the commit was lost inside nomen".into());
        let reply = self.one_order(Order::Committed(apex.clone(), number, lost));
        let of = apex.clone();
        let end = move |end| reply.send(Order::Committed(of, number, end));
        let commit = ZoneCommit { zone: id, apex: apex.clone(), before, after, steps, keys, since };
        truth.commit(commit, Box::new(end));
        false
    }

    /// Handles the end of a commit.
    pub(super) fn committed(&mut self, apex: &ZoneName, number: u64, end: CommitEnd) {
        let shared = Arc::clone(&self.shared);
        let Some(queue) = self.zones.get_mut(apex) else { return };
        let Phase::Storing(zone, group) = &mut queue.phase else { return };
        if zone.number != number {
            return;
        }
        let fault = match end {
            CommitEnd::Committed => {
                zone.attempts = None;
                let steps: Vec<_> = group.course.changes().cloned().collect();
                let (stored, synced) = (steps.len(), Some(group.begun.elapsed()));
                // The zone may have been removed since.
                if let Ok(Some((database, id))) = shared.place_of(apex, zone.database) {
                    if stored > 0 {
                        database.keep(apex, Arc::clone(&group.course.zone), Some(steps));
                    }
                    if let Some(keys) = group.course.keys.as_ref().and_then(|keys| keys.after.clone()) {
                        database.set_keys(id, &keys);
                        zone.signer.iter_mut().for_each(|signer| signer.committed(Arc::clone(&keys)));
                    }
                }
                let appended = Appended { stored, fault: None, synced, size: None, acknowledged: None };
                return self.stored(apex, number, appended);
            }
            CommitEnd::Conflict(ZoneContent::Whole(whole)) if is_earlier(&whole, &zone.version) => {
                KeepFault::Refused(format!(
                    "the database has the earlier serial {} of the zone, and has lost changes: `nomen ctl zone \
                     retransfer {apex}` takes its version",
                    whole.serial()
                ))
            }
            CommitEnd::Conflict(content) if zone.counts_conflict() => {
                zone.signer.iter_mut().for_each(|signer| signer.outdated());
                return decide_again(queue, content);
            }
            CommitEnd::Conflict(_) => KeepFault::Database("other nodes change the zone all the time".into()),
            CommitEnd::Gone => KeepFault::Refused("the database does not have the zone any more".into()),
            CommitEnd::Refused(why) => KeepFault::Refused(format!("the database refuses the change: {why}")),
            CommitEnd::Unavailable(why) => {
                KeepFault::Database(format!("the database is not available: {why}"))
            }
            CommitEnd::Unclear(why) => KeepFault::Database(format!(
                "it is not known whether the database has the change, which may come into service: {why}"
            )),
        };
        let (mut zone, group) = match std::mem::take(&mut queue.phase) {
            Phase::Storing(zone, group) => (zone, *group),
            _ => return,
        };
        zone.attempts = None;
        zone.signer.iter_mut().for_each(|signer| signer.outdated());
        let fold_end = zone.fold_end.take();
        queue.phase = Phase::Open(zone);
        let Group { jobs, now, .. } = group;
        self.settle(apex, jobs, None, Some(fault), now);
        if let Some((job, zone)) = fold_end {
            self.folded(apex, number, job, zone);
        }
    }

    /// Takes what the database has of the zone with this number, while a version of the zone of this name is
    /// at hand.
    pub(super) fn follow(&mut self, apex: &ZoneName, of: ZoneId, content: ZoneContent) {
        let shared = Arc::clone(&self.shared);
        // A zone that is gone gets no version.
        let Some((database, id)) = shared.database_id(apex).filter(|(_, id)| *id == of) else { return };
        let Some(zone) = self.zones.get_mut(apex).and_then(ZoneQueue::open) else { return };
        let at_hand = Arc::clone(&zone.version);
        // The version at hand is of a zone that was removed, and created anew.
        if zone.database != Some(id) {
            return self.begin_followed(apex, &database, id, content);
        }
        let steps = match content {
            ZoneContent::Unfit(why) => return self.unfit(apex, why),
            ZoneContent::Steps(steps) => match ahead_of(&at_hand, &steps) {
                Ahead::Nothing => return,
                Ahead::Steps(from) => steps.into_iter().skip(from).collect(),
                Ahead::Unknown => return fetch(&database, id, apex),
            },
            ZoneContent::Whole(whole) => match self.change_to(apex, &at_hand, &whole) {
                Some(change) => vec![Arc::new(change)],
                None => return,
            },
        };
        let mut newest = at_hand;
        for step in &steps {
            match newest.apply(step) {
                Ok(next) => newest = Arc::new(next),
                Err(fault) => {
                    warn!(
                        "zone {apex}: a change of the database does not fit, the zone is read again: {fault}"
                    );
                    return fetch(&database, id, apex);
                }
            }
        }
        self.take_followed(apex, newest, steps);
    }

    /// Takes what the database has of a zone of which no version is in service.
    pub(super) fn follow_first(&mut self, apex: &ZoneName) {
        let Some(Entry::Follow(of, content)) =
            self.zones.get_mut(apex).and_then(|queue| queue.entries.pop_front())
        else {
            return;
        };
        // A zone that is gone gets no version.
        if let Some((database, id)) = self.shared.database_id(apex).filter(|(_, id)| *id == of) {
            self.begin_followed(apex, &database, id, content);
        }
    }

    /// Takes the first version of a zone of the database.
    fn begin_followed(&mut self, apex: &ZoneName, database: &ZoneDatabase, id: ZoneId, content: ZoneContent) {
        match content {
            ZoneContent::Unfit(why) => self.unfit(apex, why),
            ZoneContent::Steps(_) => fetch(database, id, apex),
            ZoneContent::Whole(version) => {
                lock(&self.shared.retaken).remove(apex);
                let (claim, of_database) = (Claim::new(apex.clone(), None), true);
                let claimed = ClaimedZone { version: Arc::clone(&version), of_database, file: None, claim };
                self.open(apex, claimed, Some(id), true);
                database.keep(apex, Arc::clone(&version), None);
                self.shared.publishing.changed(apex.clone(), version, Box::new(|| ()));
                self.plan_look(apex);
            }
        }
    }

    /// Returns the change to a version that the database has, if it is taken.
    fn change_to(&self, apex: &ZoneName, at_hand: &Arc<Zone>, whole: &Arc<Zone>) -> Option<ChangeSet> {
        let (from, to) = (at_hand.serial(), whole.serial());
        let is_wanted = lock(&self.shared.retaken).remove(apex);
        match from.compare(to) {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) if diff(at_hand, whole).is_empty() => return None,
            Some(Ordering::Equal) => {
                warn!("zone {apex}: the database has other records with serial {to}, and they are taken");
            }
            _ if is_wanted => {
                warn!(
                    "zone {apex}: the database has the earlier serial {to} in place of {from}, and it is taken"
                );
            }
            _ => {
                let why = format!(
                    "the database has the earlier serial {to}, and {from} stays in service: the database has \
                     lost changes, as after a fail-over or a restored backup; `nomen ctl zone retransfer \
                     {apex}` takes the version of the database"
                );
                let about = ("database behind", &*apex.to_string());
                log_repeated!(error, ERROR, about, "zone {apex}: {why}");
                self.shared.note(apex, 0, clock::now(), Some(why));
                return None;
            }
        }
        Some(diff(at_hand, whole))
    }

    /// Makes a version of the database the newest one.
    fn take_followed(&mut self, apex: &ZoneName, newest: Arc<Zone>, steps: Vec<Arc<ChangeSet>>) {
        let shared = Arc::clone(&self.shared);
        let Some(zone) = self.zones.get_mut(apex).and_then(ZoneQueue::open) else { return };
        let from: Serial = zone.version.serial();
        zone.version = Arc::clone(&newest);
        zone.folding.changed(&steps);
        let count = steps.len();
        if let Some(database) = shared.database.get().and_then(Weak::upgrade) {
            database.keep(apex, Arc::clone(&newest), Some(steps));
        }
        let to = newest.serial();
        log_repeated!(
            info,
            INFO,
            ("database followed", &*apex.to_string()),
            "zone {apex}: changed in the database, serial {from} -> {to}"
        );
        shared.note(apex, count, clock::now(), None);
        shared.publishing.changed(apex.clone(), newest, Box::new(|| ()));
        self.plan_look(apex);
        self.fold(apex);
    }

    /// Records that the database has no usable version of a zone.
    fn unfit(&self, apex: &ZoneName, why: String) {
        let about = ("database zone unfit", &*apex.to_string());
        log_repeated!(
            error,
            ERROR,
            about,
            "zone {apex}: the database has no valid version of it, the one in service stays: {why}"
        );
        self.shared.note(apex, 0, clock::now(), Some(why));
    }
}

impl UpdatableZone {
    /// Counts a conflict. Returns false if there were too many.
    fn counts_conflict(&mut self) -> bool {
        self.attempts.as_mut().is_some_and(|attempts| {
            attempts.conflicts += 1;
            attempts.conflicts <= MAX_CONFLICTS
        })
    }
}

/// Whether a version has an earlier serial number than the one at hand.
fn is_earlier(version: &Zone, at_hand: &Zone) -> bool {
    version.serial().compare(at_hand.serial()) == Some(Ordering::Less)
}

/// Has the jobs of a group decided again, on what the database has.
fn decide_again(queue: &mut ZoneQueue, content: ZoneContent) {
    match std::mem::take(&mut queue.phase) {
        Phase::Storing(zone, group) => {
            let of = zone.database;
            queue.phase = Phase::Open(zone);
            let jobs = group.jobs.into_iter().rev();
            jobs.for_each(|job| queue.entries.push_front(Entry::Change(job)));
            if let Some(of) = of {
                queue.entries.push_front(Entry::Follow(of, content));
            }
        }
        other => queue.phase = other,
    }
}

/// Has the whole zone sent.
fn fetch(database: &ZoneDatabase, id: ZoneId, apex: &ZoneName) {
    if let Some(truth) = database.truth() {
        truth.fetch(id, apex.clone());
    }
}

/// What steps add to a version.
enum Ahead {
    /// The version has all of them.
    Nothing,
    /// Those from this one on.
    Steps(usize),
    /// They do not begin at the version.
    Unknown,
}

fn ahead_of(at_hand: &Zone, steps: &[Arc<ChangeSet>]) -> Ahead {
    let serial = at_hand.serial();
    if let Some(from) = steps.iter().position(|step| step.before == serial) {
        return Ahead::Steps(from);
    }
    let Some(last) = steps.last() else { return Ahead::Nothing };
    match last.after.compare(serial) {
        Some(Ordering::Less | Ordering::Equal) => Ahead::Nothing,
        _ => Ahead::Unknown,
    }
}
