//! Zones that are signed here: what other parts of the server ask of their keys and signatures, and what is
//! noted about them.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serving::parental::ParentalHosts;
use signer::policy::SigningGoal;
use tracing::{info, warn};
use wire::{Ttl, ZoneName};
use zone_plan::ZoneSigning;

use super::ds_push::DsPushes;
use super::group::ChangeJob;
use super::notes::ZoneNote;
use super::parents::Parents;
use super::queue::Entry;
use super::signing::{SignCommand, SignEnd, SignOrder, SigningStatus, ZoneTtls};
use super::{Changes, Shared};
use crate::managed::online::OnlineTotals;
use telemetry::repeated::log_repeated;
use threads::sync::lock;
use wording::reason;

/// Longest wait for the thread and for a zone that is being signed.
const SIGNING_TIMEOUT: Duration = Duration::from_secs(60);

impl Shared {
    /// Returns how a zone is signed here; `None` if it is not.
    pub(super) fn signing_of(&self, apex: &ZoneName) -> Option<Arc<ZoneSigning>> {
        self.rules.load().get(apex)?.signing.clone()
    }

    /// Changes the note of a zone that is signed here. Returns false, and logs that, if it cannot be written.
    pub(super) fn note_for_signing(&self, apex: &ZoneName, change: impl FnOnce(&mut ZoneNote)) -> bool {
        let noted = lock(&self.notes).change(apex, change);
        if let Err(fault) = &noted {
            let (about, fault) = (("not noted", &*apex.to_string()), reason(fault));
            log_repeated!(error, ERROR, about, "zone {apex}: the notes of zones cannot be written: {fault}");
        }
        noted.is_ok()
    }

    /// Returns the TTLs of versions of a zone that an earlier run has served.
    pub(super) fn noted_ttls(&self, apex: &ZoneName) -> ZoneTtls {
        let noted = lock(&self.notes).get(apex).and_then(|note| note.ttls).unwrap_or_default();
        ZoneTtls { dnskey: Ttl::from_secs(noted.0), largest: Ttl::from_secs(noted.1) }
    }

    /// Notes the TTLs of a zone for a later run.
    pub(super) fn note_ttls(&self, apex: &ZoneName, ttls: ZoneTtls) {
        let ttls = (ttls.dnskey.as_secs(), ttls.largest.as_secs());
        self.note_for_signing(apex, |note| note.ttls = Some(ttls));
    }

    /// Shows the keys and signatures of a zone to operators; `None`: they cannot be read, for this fault.
    pub(super) fn show_signing(
        &self,
        apex: &ZoneName,
        signing: &ZoneSigning,
        status: Option<SigningStatus>,
        fault: Option<&str>,
    ) {
        let status = status.unwrap_or_else(|| SigningStatus {
            policy: signing.policy.name.clone(),
            is_insecure: signing.policy.goal == SigningGoal::Insecure,
            fault: fault.map(str::to_owned),
            ..SigningStatus::default()
        });
        lock(&self.signing).insert(apex.clone(), Arc::new(status));
    }

    /// Whether a zone is or was signed here.
    pub(super) fn was_signed(&self, apex: &ZoneName) -> bool {
        lock(&self.notes).get(apex).is_some_and(|note| note.ttls.is_some())
    }

    /// Whether updates or transactions have changed a zone since its file was taken.
    pub(super) fn has_changed(&self, apex: &ZoneName) -> bool {
        lock(&self.notes).get(apex).is_some_and(|note| note.changed)
    }
}

impl Changes {
    /// Queues a look at the keys and signatures of a zone that is signed here.
    pub fn maintain(&self, apex: &ZoneName) {
        if let Some(rules) = self.shared.rules.load().get(apex).filter(|rules| rules.signing.is_some()) {
            self.sign(apex, SignOrder::of(Arc::clone(rules)));
        }
    }

    /// Has the servers of the parents of zones that are signed here asked, and those of child zones; `hosts`
    /// finds them.
    pub fn ask_parents_by(self: &Arc<Self>, hosts: ParentalHosts) {
        self.check_delegations_by(hosts.apart());
        let changes = Arc::downgrade(self);
        let report = move |apex: &ZoneName, report| {
            let Some(changes) = changes.upgrade() else { return };
            let rules = changes.shared.rules.load();
            match rules.get(apex).filter(|rules| rules.signing.is_some()) {
                Some(rules) => {
                    let order = SignOrder { parent: Some(report), ..SignOrder::of(Arc::clone(rules)) };
                    changes.sign(apex, order);
                }
                // The zone is gone, or no longer signed here.
                None => changes.parents().into_iter().for_each(|parents| parents.forget(apex)),
            }
        };
        // The second of two calls has no effect.
        let _ = self.shared.parents.set(Parents::start(hosts, self.engine.clone(), report));
        let _ = self.shared.ds_pushes.set(DsPushes::new(Arc::downgrade(self)));
    }

    /// Does what an operator asks of the keys and signatures of a zone. Waits for the thread.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn command_signer(&self, apex: &ZoneName, command: SignCommand) -> SignEnd {
        let rules = self.shared.rules.load().get(apex).filter(|rules| rules.signing.is_some()).cloned();
        let Some(rules) = rules else { return Err("the zone is not signed here".into()) };
        let (reply, replied) = sync_channel(1);
        let order = SignOrder { command: Some((command, reply)), ..SignOrder::of(rules) };
        self.sign(apex, order);
        replied
            .recv_timeout(SIGNING_TIMEOUT)
            .unwrap_or_else(|_| Err("the zone is being signed: try again".into()))
    }

    /// Keys and signatures of a zone that is signed here; `None` before they were looked at.
    pub fn signing(&self, apex: &ZoneName) -> Option<Arc<SigningStatus>> {
        self.shared.signing_of(apex)?;
        lock(&self.shared.signing).get(apex).cloned()
    }

    /// The keys and signatures of every zone that is signed here and was looked at.
    pub fn all_signing(&self) -> Vec<(ZoneName, Arc<SigningStatus>)> {
        let rules = self.shared.rules.load();
        let is_signed = |apex: &ZoneName| rules.get(apex).is_some_and(|rules| rules.signing.is_some());
        let known = lock(&self.shared.signing);
        let here = known.iter().filter(|(apex, _)| is_signed(apex));
        here.map(|(apex, status)| (apex.clone(), Arc::clone(status))).collect()
    }

    /// The counters of the signatures of answers; `None`: no zone is signed while answering.
    pub fn online_totals(&self) -> Option<OnlineTotals> {
        self.shared.states.online().totals()
    }

    /// The parents of zones that are signed here, if they can be asked.
    pub fn parents(&self) -> Option<&Arc<Parents>> {
        self.shared.parents.get()
    }

    pub(super) fn sign(&self, apex: &ZoneName, order: SignOrder) {
        self.queue(apex, Entry::Change(ChangeJob::Sign(Box::new(order))));
    }

    /// Removes the store of a zone that is no longer signed, so that it comes from its file or its primaries
    /// again. Returns false if updates or transactions have changed it: their changes are in the store only.
    pub(super) fn leave_signing(&self, apex: &ZoneName) -> bool {
        if self.shared.has_changed(apex) {
            return false;
        }
        let removed = self.stores.exclusively(apex, |folder| folder.zone(apex.as_name())?.0.remove());
        if let Err(fault) = removed {
            warn!("zone {apex}: its unsigned version stays in the state folder: {fault}");
            return false;
        }
        lock(&self.shared.stored).remove(apex);
        lock(&self.shared.signing).remove(apex);
        self.shared.note_for_signing(apex, |note| note.ttls = None);
        info!("zone {apex}: it is no longer signed here, and its version in the state folder is removed");
        true
    }
}
