//! What the thread that changes zones does for those that are signed here: it has their changes signed on
//! background threads, and looks at their keys and signatures when that is due.

use std::cmp::Ordering;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use ::database::ZoneId;
use tracing::{info, warn};
use wire::{Type, UnixTime, ZoneName};
use zone::Zone;
use zone_plan::ZoneSigning;

use super::answers::Settled;
use super::followed::{KeyPlace, key_place};
use super::group::{ChangeJob, Course, Decided, KeepFault};
use super::queue::{Entry, Phase, SignedGroup, ZoneQueue};
use super::signing::{PushNeed, SignOrder, SignReply, ZoneSigner, log_command};
use super::transactions::TransactionFault;
use super::worker::{Order, Worker};
use super::{NOT_KEPT, clock};
use crate::database::ZoneDatabase;
use crate::managed::state::TakeWhen;
use crate::stores::OnThread;
use telemetry::repeated::log_repeated;
use threads::background::JobKind;

/// Time from a failure of signing a zone to the next try.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);
/// The same while a key is waited for.
const KEY_INTERVAL: Duration = Duration::from_secs(2);

impl Worker {
    /// Returns the order to maintain a zone that is due.
    pub(super) fn due_order(&mut self, clock: Instant) -> Option<Order> {
        while let Some(apex) = self.due.next(clock::now(), clock) {
            let rules = self.shared.rules.load();
            if let Some(rules) = rules.get(&apex).filter(|rules| rules.signing.is_some()) {
                if let Some(job) = self.retries.remove(&apex) {
                    let queue = self.zones.entry(apex.clone()).or_default();
                    queue.entries.push_back(Entry::Change(ChangeJob::File(job)));
                }
                let order = SignOrder::of(Arc::clone(rules));
                return Some(Order::Zone(apex, Entry::Change(ChangeJob::Sign(Box::new(order)))));
            }
        }
        None
    }

    /// Drops zone files that are not to be taken because something else has changed the zone. The first such
    /// change is noted before it is stored: a crash must not have the file take its place.
    pub(super) fn without_old_files(&mut self, apex: &ZoneName, jobs: Vec<ChangeJob>) -> Vec<ChangeJob> {
        // A zone of the database has no file.
        let zone = self.zones.get_mut(apex).and_then(ZoneQueue::open);
        if zone.is_some_and(|zone| zone.database.is_some()) {
            return jobs;
        }
        let mut has_changed = self.shared.has_changed(apex);
        let (mut kept, mut refused) = (Vec::with_capacity(jobs.len()), Vec::new());
        for job in jobs {
            match &job {
                ChangeJob::File(file) if has_changed && file.when == TakeWhen::Unchanged => {
                    let serial = file.zone.serial();
                    warn!(
                        "zone {apex}: its file, with serial {serial}, is not taken, since updates have changed \
                        the zone: `nomen ctl zone reload --force` applies it"
                    );
                    continue;
                }
                asked if asked.is_asked() && !has_changed => {
                    has_changed = self.shared.note_for_signing(apex, |note| note.changed = true);
                    if !has_changed {
                        refused.push(job);
                        continue;
                    }
                }
                _ => {}
            }
            kept.push(job);
        }
        if !refused.is_empty() {
            let reason = "the notes of zones cannot be written";
            self.refuse(apex, refused, NOT_KEPT, reason, TransactionFault::NotKept(reason.into()));
        }
        kept
    }

    /// Has jobs of a zone that is signed here decided and signed on a background thread. Returns false: the
    /// zone waits for that.
    pub(super) fn sign_group(
        &mut self,
        apex: &ZoneName,
        signing: Arc<ZoneSigning>,
        jobs: Vec<ChangeJob>,
        now: UnixTime,
    ) -> bool {
        let Some(zone) = self.zones.get_mut(apex).and_then(ZoneQueue::open) else { return false };
        let (version, opened) = (Arc::clone(&zone.version), zone.database);
        let place = match self.shared.place_of(apex, opened) {
            Ok(place) => place,
            Err(fault) => return self.leave_version(apex, jobs, fault, now),
        };
        let keys = key_place(place.as_ref());
        if let KeyPlace::Unread = keys {
            return self.without_keys(apex, jobs, now);
        }
        if let (KeyPlace::Database { keys, .. }, Some(place)) = (&keys, place)
            && keys.version.number > 0
            && version.serial().compare(keys.serial) == Some(Ordering::Less)
        {
            return self.behind_keys(apex, place, jobs, version, now);
        }
        let Some(queue) = self.zones.get_mut(apex) else { return false };
        let Phase::Open(mut zone) = std::mem::take(&mut queue.phase) else { return false };
        let (version, number, signer) = (Arc::clone(&zone.version), zone.number, zone.signer.take());
        queue.phase = Phase::Signing(zone);
        let only_maintains = jobs.iter().all(ChangeJob::is_maintenance);
        let kind = if only_maintains { JobKind::Renew } else { JobKind::Sign };
        let (reply, of) = (self.one_order(Order::Signed(apex.clone(), number, None)), apex.clone());
        let (state, before) = (self.shared.state.clone(), self.shared.noted_ttls(apex));
        let only_looks = only_maintains && !jobs.iter().any(ChangeJob::commands);
        let views = matches!(keys, KeyPlace::Database { signs: false, .. }) && only_looks;
        let author = key_author(&jobs);
        let online = self.shared.states.online().of(apex);
        self.background.run(kind, move || {
            let signer = match (signer, keys) {
                (Some(signer), KeyPlace::Database { keys, .. }) => signer.under(signing).with_keys(keys, now),
                (None, KeyPlace::Database { keys, .. }) => {
                    ZoneSigner::open_shared(keys, &of, signing, now).map(Box::new)
                }
                (Some(signer), _) => Ok(signer.under(signing)),
                (None, _) => ZoneSigner::open(&state, &of, signing, before, now).map(Box::new),
            };
            let group = match signer {
                Ok(mut signer) => {
                    signer.set_views(views, now);
                    let mut course = Course::of(&version, &jobs, Some(&mut signer), now);
                    // Before the version is in service: its answers need the keys.
                    online.iter().for_each(|online| signer.sign_answers_by(online));
                    if let Ok(course) = &mut course {
                        course.keys = signer.key_commit(course.zone.serial(), author);
                    }
                    SignedGroup { jobs, course, signer: Some(signer), now }
                }
                Err(fault) => SignedGroup { jobs, course: Err(fault.into()), signer: None, now },
            };
            reply.send(Order::Signed(of, number, Some(Box::new(group))));
        });
        false
    }

    /// Ends jobs of a zone of the database whose keys were not read yet. Returns true: other jobs may follow.
    fn without_keys(&mut self, apex: &ZoneName, jobs: Vec<ChangeJob>, now: UnixTime) -> bool {
        let why = "the keys of the zone were not read from the database yet";
        if let Some(signing) = self.shared.signing_of(apex) {
            self.shared.show_signing(apex, &signing, None, Some(why));
        }
        let (looks, others): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.is_maintenance() && !job.commands());
        // There is another look once the keys were read.
        end_looks(looks, why);
        if !others.is_empty() {
            self.settle(apex, others, None, Some(KeepFault::Database(why.to_owned())), now);
        }
        true
    }

    /// Handles jobs of a zone whose keys are of a later version than the one at hand, which would be mistaken
    /// for one without the keys. What is asked for waits for that version.
    fn behind_keys(
        &mut self,
        apex: &ZoneName,
        place: (Arc<ZoneDatabase>, ZoneId),
        jobs: Vec<ChangeJob>,
        version: Arc<Zone>,
        now: UnixTime,
    ) -> bool {
        if jobs.iter().all(|job| job.is_maintenance() && !job.commands()) {
            // The later version has the zone looked at again.
            end_looks(jobs, "the zone is being read from the database");
            return true;
        }
        // A commit without a step, which is a conflict with that version.
        self.commit_group(apex, place, jobs, Course::undecided(version), now)
    }

    /// Handles the end of signing a group of jobs.
    pub(super) fn signed(&mut self, apex: &ZoneName, number: u64, group: Option<Box<SignedGroup>>) {
        let Some(queue) = self.zones.get_mut(apex) else { return };
        let mut zone = match std::mem::take(&mut queue.phase) {
            Phase::Signing(zone) if zone.number == number => zone,
            other => {
                queue.phase = other;
                return;
            }
        };
        let fold_end = zone.fold_end.take();
        // Without a group, the jobs are lost, and their clients get SERVFAIL.
        let group = group.map(|group| *group);
        let (signer, work) = match group {
            Some(SignedGroup { jobs, course, signer, now }) => (signer, Some((jobs, course, now))),
            None => (None, None),
        };
        // Before the version is stored: a later run must know how long caches may keep it.
        if let Some(ttls) = signer.as_ref().and_then(|signer| signer.ttls())
            && zone.database.is_none()
        {
            self.shared.note_ttls(apex, ttls);
        }
        zone.signer = signer;
        queue.phase = Phase::Open(zone);
        if let Some((job, zone)) = fold_end {
            self.folded(apex, number, job, zone);
        }
        match work {
            Some((jobs, course, now)) => _ = self.store_group(apex, jobs, course, OnThread::Background, now),
            None => self.close_unless_stored(apex),
        }
    }

    /// Decides when the next look at the keys and signatures of a zone is due, and shows their state.
    pub(super) fn plan_maintenance(&mut self, apex: &ZoneName, fault: Option<&str>, now: UnixTime) {
        let Some(signing) = self.shared.signing_of(apex) else { return };
        let Some(zone) = self.zones.get_mut(apex).and_then(ZoneQueue::open) else { return };
        // A signer that is not there is opened in the next turn.
        let mut wake = zone.signer.as_ref().map_or(now, |signer| signer.wake());
        let waits = zone.signer.as_ref().is_some_and(|signer| signer.waits_for_keys(now));
        if fault.is_some() {
            let is_shared = zone.database.is_some();
            zone.signer.iter_mut().for_each(|signer| match is_shared {
                // What it has decided is not in the database.
                true => signer.outdated(),
                false => signer.begin_again(),
            });
            wake = now.saturating_add(if waits { KEY_INTERVAL } else { RETRY_INTERVAL });
            // Changes that fail again and again must not put off the renewal of signatures.
            self.due.set_no_later(apex, wake, now, Instant::now());
        } else {
            self.due.set(apex, wake, now, Instant::now());
        }
        let fault = fault.filter(|_| !waits);
        let made = zone.signer.as_mut().map_or(0, |signer| signer.take_made());
        self.shared.counts.signatures.fetch_add(made, Relaxed);
        let status = zone.signer.as_ref().map(|signer| signer.status(fault, wake));
        let asks = zone.signer.as_ref().and_then(|signer| signer.asks_parent());
        let need = zone.signer.as_ref().filter(|_| fault.is_none()).map(|signer| signer.push_need().clone());
        self.shared.show_signing(apex, &signing, status, fault);
        let is_elsewhere = self.shared.is_maintained_elsewhere(apex);
        let asks = asks.filter(|_| !is_elsewhere);
        self.watch_parent(apex, asks.map(|every| (&*signing.parental_servers, every)));
        let need = need.map(|need| if is_elsewhere { PushNeed::Nothing } else { need });
        let push = need.and_then(|need| self.shared.plan_ds_push(apex, &signing, &need, now));
        push.into_iter().for_each(|at| self.due.set_no_later(apex, at, now, Instant::now()));
    }

    /// Has the servers of a zone's parent asked while a rollover waits for them.
    fn watch_parent(&mut self, apex: &ZoneName, asked: Option<(&[SocketAddr], Duration)>) {
        let Some(parents) = self.shared.parents.get() else { return };
        let Some((servers, every)) = asked else { return self.unwatch_parent(apex) };
        if self.watched.get(apex).is_none_or(|watched| &**watched != servers) {
            let servers: Arc<[SocketAddr]> = servers.into();
            self.watched.insert(apex.clone(), Arc::clone(&servers));
            parents.watch(apex, servers, every);
        }
    }

    /// Ends asking the servers of a zone's parent.
    pub(super) fn unwatch_parent(&mut self, apex: &ZoneName) {
        if self.watched.remove(apex).is_some() {
            self.shared.parents.get().into_iter().for_each(|parents| parents.forget(apex));
        }
    }

    /// Logs the result of looking at keys and signatures. Returns the reply to the operator who has asked for
    /// it.
    pub(super) fn maintained(
        &mut self,
        apex: &ZoneName,
        order: SignOrder,
        decided: Option<&Decided>,
        fault: &str,
    ) -> Option<Settled> {
        let (command, reply) = order.command.unzip();
        let settled = |end| Some(Settled::Sign(reply?, end));
        let Some(Decided::Sign(change)) = decided else {
            let signer =
                self.zones.get_mut(apex).and_then(ZoneQueue::open).and_then(|zone| zone.signer.as_ref());
            if signer.is_some_and(|signer| signer.waits_for_keys(clock::now())) {
                return settled(Err(fault.to_owned()));
            }
            let about = ("not maintained", &*apex.to_string());
            log_repeated!(
                error,
                ERROR,
                about,
                "zone {apex}: its keys and signatures are not maintained, tried again in five minutes: {fault}"
            );
            return settled(Err(fault.to_owned()));
        };
        if let Some(change) = change {
            let (from, to) = (change.before, change.after);
            let (removed, added) = (change.removed.len(), change.added.len());
            info!(removed, added, "zone {apex}: keys and signatures, serial {from} -> {to}");
            let is_for_parent = change.added.iter().any(|record| record.rtype == Type::CDS);
            if let Some(parents) = self.shared.parents.get().filter(|_| is_for_parent) {
                parents.notify(apex, Type::CDS);
            }
        }
        let signer = self.zones.get_mut(apex).and_then(ZoneQueue::open).and_then(|zone| zone.signer.as_mut());
        // Turns without a command may be of the same group.
        let said = signer.filter(|_| command.is_some()).and_then(|signer| signer.take_said());
        let end = said.unwrap_or(Ok(SignReply::Done(String::new()))).map_err(|fault| fault.to_string());
        command.iter().for_each(|command| log_command(apex, command, &end));
        settled(end)
    }
}

/// Ends looks at the keys and signatures of a zone that are not possible for this reason.
fn end_looks(looks: Vec<ChangeJob>, why: &str) {
    for job in looks {
        if let ChangeJob::Sign(order) = job {
            order.end(Err(why.to_owned()));
        }
    }
}

/// Returns who changes the keys of a zone by these jobs, for the history of the database.
fn key_author(jobs: &[ChangeJob]) -> String {
    let command = jobs.iter().find_map(|job| match job {
        ChangeJob::Sign(order) => order.command.as_ref().filter(|_| order.commands()),
        _ => None,
    });
    match (command, jobs.first()) {
        (Some((command, _)), _) => format!("an operator's command ({})", command.word()),
        (None, Some(job)) => job.origin().to_string(),
        (None, None) => String::new(),
    }
}
