//! What the thread that changes zones does for those that are signed here: it has their changes signed on
//! background threads, and looks at their keys and signatures when that is due.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tracing::{info, warn};
use transport::unix_now;
use wire::{Type, UnixTime, ZoneName};
use zone_plan::ZoneSigning;

use super::NOT_KEPT;
use super::answers::Settled;
use super::group::{ChangeJob, Course, Decided};
use super::queue::{Entry, Phase, SignedGroup, ZoneQueue};
use super::signing::{SignOrder, SignReply, ZoneSigner, log_command};
use super::transactions::TransactionFault;
use super::worker::{Order, Worker};
use crate::managed::state::TakeWhen;
use crate::stores::OnThread;
use telemetry::repeated::log_repeated;
use threads::background::JobKind;

/// Time from a failure of signing a zone to the next try.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);

impl Worker {
    /// Returns the order to maintain a zone that is due.
    pub(super) fn due_order(&mut self, clock: Instant) -> Option<Order> {
        while let Some(apex) = self.due.next(unix_now(), clock) {
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
        let Some(queue) = self.zones.get_mut(apex) else { return false };
        let Phase::Open(mut zone) = std::mem::take(&mut queue.phase) else { return false };
        let (version, number, signer) = (Arc::clone(&zone.version), zone.number, zone.signer.take());
        queue.phase = Phase::Signing(zone);
        let kind = match jobs.iter().all(ChangeJob::is_maintenance) {
            true => JobKind::Renew,
            false => JobKind::Sign,
        };
        let (reply, of) = (self.one_order(Order::Signed(apex.clone(), number, None)), apex.clone());
        let (state, before) = (self.shared.state.clone(), self.shared.noted_ttls(apex));
        self.background.run(kind, move || {
            let signer = match signer {
                Some(signer) => Ok(signer.under(signing)),
                None => ZoneSigner::open(&state, &of, signing, before, now).map(Box::new),
            };
            let group = match signer {
                Ok(mut signer) => {
                    let course = Course::of(&version, &jobs, Some(&mut signer), now);
                    SignedGroup { jobs, course, signer: Some(signer), now }
                }
                Err(fault) => SignedGroup { jobs, course: Err(fault.into()), signer: None, now },
            };
            reply.send(Order::Signed(of, number, Some(Box::new(group))));
        });
        false
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
        if let Some(ttls) = signer.as_ref().and_then(|signer| signer.ttls()) {
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
        if fault.is_some() {
            zone.signer.iter_mut().for_each(|signer| signer.begin_again());
            wake = now.saturating_add(RETRY_INTERVAL);
            // Changes that fail again and again must not put off the renewal of signatures.
            self.due.set_no_later(apex, wake, now, Instant::now());
        } else {
            self.due.set(apex, wake, now, Instant::now());
        }
        let made = zone.signer.as_mut().map_or(0, |signer| signer.take_made());
        self.shared.counts.signatures.fetch_add(made, Relaxed);
        let status = zone.signer.as_ref().map(|signer| signer.status(fault, wake));
        let asks = zone.signer.as_ref().and_then(|signer| signer.asks_parent());
        self.shared.show_signing(apex, &signing, status, fault);
        self.watch_parent(apex, asks.map(|every| (&*signing.parental_servers, every)));
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
                parents.notify_cds(apex);
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
