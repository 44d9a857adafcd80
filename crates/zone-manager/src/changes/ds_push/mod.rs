//! DS records pushed to the parent (`ds-push`): what the CDS records of a zone that is signed here ask for is
//! carried out, in the parent zone of this server or by dynamic updates to servers of the parent.
//!
//! A push that was accepted proves nothing: a rollover goes on only when the servers of the parent have the
//! DS records, which `parents` asks them for.
//!
//! | file | holds |
//! |---|---|
//! | `state` | what was pushed for a zone, and when it is tried again |
//! | `send` | one push to a server |

mod send;
mod state;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use serving::descriptors::DS_PUSHES;
use telemetry::repeated::log_repeated;
use telemetry::trail::audit;
use threads::kept_threads::KeptThreads;
use threads::sync::lock;
use tracing::info;
use transport::unix_now;
use wire::{Type, UnixTime, ZoneName};
use zone_plan::{DsPush, ZoneSigning};

use super::delegations::{Delegation, tags};
use super::edits::{ChangeAuthor, EditFault, RrsetEdit, RrsetEditKind, ZoneEdit};
use super::signing::{PushNeed, WantedDs};
use super::{Changes, Shared};
pub use state::{DsPushState, DsPushStatus};
use state::{PushOutcome, ZonePush};

/// How often an edit is tried on a parent zone that changes meanwhile.
const EDIT_TRIES: usize = 8;

/// Counters of pushes, by their outcomes.
#[derive(Debug, Default)]
pub struct DsPushCounts {
    /// The parent zone was changed, or a server has acknowledged the update.
    pub accepted: AtomicU64,
    /// The parent zone had the DS records already.
    pub unchanged: AtomicU64,
    /// The change was refused, or no server has answered.
    pub failed: AtomicU64,
}

/// Pushes DS records of zones.
pub(super) struct DsPushes {
    changes: Weak<Changes>,
    threads: Arc<KeptThreads>,
    zones: Mutex<HashMap<ZoneName, ZonePush>>,
    counts: DsPushCounts,
}

/// A push to carry out.
struct PushJob {
    apex: ZoneName,
    signing: Arc<ZoneSigning>,
    wanted: WantedDs,
}

impl DsPushes {
    /// Returns the state without zones.
    pub(super) fn new(changes: Weak<Changes>) -> Arc<DsPushes> {
        Arc::new(DsPushes {
            changes,
            threads: KeptThreads::new("ds-push"),
            zones: Mutex::default(),
            counts: DsPushCounts::default(),
        })
    }

    /// Takes what the parent of a zone is to have, and starts a push if one is due. Returns when the zone is
    /// to be looked at again because of it.
    pub(super) fn plan(
        self: &Arc<Self>,
        apex: &ZoneName,
        signing: &Arc<ZoneSigning>,
        need: &PushNeed,
        now: UnixTime,
    ) -> Option<UnixTime> {
        let mut zones = lock(&self.zones);
        if signing.ds_push == DsPush::Off {
            zones.remove(apex);
            return None;
        }
        let running = zones.values().filter(|push| push.is_running()).count();
        if matches!(need, PushNeed::Nothing) && !zones.contains_key(apex) {
            return None;
        }
        let push = zones.entry(apex.clone()).or_default();
        let Some(wanted) = push.take(need, now, running < DS_PUSHES) else { return push.wake(now) };
        drop(zones);
        let (all, job) =
            (Arc::clone(self), PushJob { apex: apex.clone(), signing: Arc::clone(signing), wanted });
        // Without a thread, the push has failed.
        let of = (job.apex.clone(), job.wanted.clone());
        if !self.threads.run(move || all.run(&job)) {
            let outcome = PushOutcome::Failed("the system refuses a thread".to_owned());
            let mut zones = lock(&self.zones);
            let push = zones.get_mut(&of.0)?;
            push.end(&of.1, outcome, now, random());
            return push.wake(now);
        }
        None
    }

    /// Forgets a zone that is no longer signed here.
    pub(super) fn forget(&self, apex: &ZoneName) {
        lock(&self.zones).remove(apex);
    }

    /// Returns what was pushed for a zone; `None`: nothing since the start.
    fn status(&self, apex: &ZoneName, signing: &ZoneSigning) -> Option<DsPushStatus> {
        lock(&self.zones).get(apex)?.status(&signing.ds_push)
    }

    /// Carries out a push, on a thread of its own.
    fn run(&self, job: &PushJob) {
        let PushJob { apex, signing, wanted } = job;
        let outcome = catch_unwind(AssertUnwindSafe(|| match &signing.ds_push {
            DsPush::Here => self.push_here(apex, wanted),
            DsPush::Servers(servers) => send::push(servers, apex, wanted),
            DsPush::Off => Err("`ds-push` is off".to_owned()),
        }));
        // The panic hook has shown the panic, which would be a bug in nomen.
        let outcome = outcome.unwrap_or_else(|_| Err("a bug in nomen".to_owned()));
        let outcome = outcome.unwrap_or_else(PushOutcome::Failed);
        self.note(job, &outcome);
        let now = unix_now();
        if let Some(push) = lock(&self.zones).get_mut(apex) {
            push.end(wanted, outcome.clone(), now, random());
        }
        let Some(changes) = self.changes.upgrade() else { return };
        if !matches!(outcome, PushOutcome::Failed(_)) {
            changes.parents().into_iter().for_each(|parents| parents.ask_soon(apex));
        }
        // The next look plans the next try.
        changes.maintain(apex);
    }

    /// Counts and logs an outcome.
    fn note(&self, PushJob { apex, wanted, .. }: &PushJob, outcome: &PushOutcome) {
        let to = tags(&wanted.rdatas);
        match outcome {
            PushOutcome::Accepted { place, from } => {
                self.counts.accepted.fetch_add(1, Relaxed);
                info!("zone {apex}: DS records pushed to {place}: tags {from} -> {to}");
                audit!(zone = %apex, place = %place, from = %from, to = %to, "DS records pushed");
            }
            PushOutcome::Unchanged { place } => {
                self.counts.unchanged.fetch_add(1, Relaxed);
                info!("zone {apex}: DS records are not pushed: {place} has those with tags {to} already");
            }
            PushOutcome::Failed(why) => {
                self.counts.failed.fetch_add(1, Relaxed);
                let about = ("ds push", &*format!("{apex} {why}"));
                log_repeated!(
                    warn,
                    WARN,
                    about,
                    "zone {apex}: DS records with tags {to} cannot be pushed to the parent, tried again later: {why}"
                );
            }
        }
    }

    /// Changes the zone of this server above a zone.
    fn push_here(&self, apex: &ZoneName, wanted: &WantedDs) -> Result<PushOutcome, String> {
        let changes = self.changes.upgrade().ok_or("the server is stopping")?;
        let child = apex.as_name().to_buf();
        for _ in 0..EDIT_TRIES {
            let parent = changes.zone_above(apex).ok_or("no zone above it is served here")?;
            let zone = changes.shared.states.get(&parent).and_then(|state| state.zone.clone());
            let zone = zone.ok_or_else(|| format!("zone {parent} is not in service"))?;
            let delegation = Delegation::read(&zone, child.as_name())
                .ok_or_else(|| format!("zone {parent} does not delegate it"))?;
            let place = format!("zone {parent}");
            if delegation.ds == wanted.rdatas {
                return Ok(PushOutcome::Unchanged { place });
            }
            let from = tags(&delegation.ds);
            let kind = match wanted.rdatas.is_empty() {
                true => RrsetEditKind::Delete,
                false => RrsetEditKind::Replace { ttl: delegation.ds_ttl, rdatas: wanted.rdatas.clone() },
            };
            let why = format!("CDS records of {child}, DS tags {from} -> {}", tags(&wanted.rdatas));
            let edit = ZoneEdit {
                edits: vec![RrsetEdit { owner: child, rtype: Type::DS, kind }],
                at_serial: Some(zone.serial()),
                by: ChangeAuthor::DsPush { child: Box::new(child), why: why.into() },
            };
            match changes.edit(&parent, edit).blocking_recv().unwrap_or(Err(EditFault::Stopping)) {
                Ok(_) => return Ok(PushOutcome::Accepted { place, from }),
                // Another change came first.
                Err(EditFault::OtherSerial(_)) => {}
                Err(fault) => return Err(format!("zone {parent}: {fault}")),
            }
        }
        Err("the zone above it changes too often".to_owned())
    }
}

impl Shared {
    /// Has the DS records of a zone pushed as its signer needs it. Returns when the zone is to be looked at
    /// again because of it.
    pub(super) fn plan_ds_push(
        &self,
        apex: &ZoneName,
        signing: &Arc<ZoneSigning>,
        need: &PushNeed,
        now: UnixTime,
    ) -> Option<UnixTime> {
        self.ds_pushes.get()?.plan(apex, signing, need, now)
    }
}

impl Changes {
    /// Returns the zone next above another one that this server has, in the same view.
    fn zone_above(&self, apex: &ZoneName) -> Option<ZoneName> {
        let view = apex.to_view();
        let in_view = |above: wire::Name<'_>| ZoneName::in_view(above.to_lower().as_lower(), view.as_ref());
        let mut above = apex.as_name().ancestors().skip(1).map(in_view);
        above.find(|above| self.shared.states.get(above).is_some())
    }

    /// What was pushed to the parent of a zone that is signed here; `None`: nothing since the start.
    pub fn ds_push(&self, apex: &ZoneName) -> Option<DsPushStatus> {
        let signing = self.shared.signing_of(apex)?;
        self.shared.ds_pushes.get()?.status(apex, &signing)
    }

    /// Counters of pushes, once zones can be pushed; `None`: no zone has `ds-push`.
    pub fn ds_push_counts(&self) -> Option<&DsPushCounts> {
        let rules = self.shared.rules.load();
        let pushes = |signing: &ZoneSigning| signing.ds_push != DsPush::Off;
        let is_on = rules.iter().any(|(_, rules)| rules.signing.as_deref().is_some_and(pushes));
        self.shared.ds_pushes.get().filter(|_| is_on).map(|pushes| &pushes.counts)
    }
}

fn random() -> u32 {
    getrandom::u32().unwrap_or_default()
}
