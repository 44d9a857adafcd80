//! What the parent has, and what it is to have: the DS records that CDS records ask for.

use std::time::Duration;

use signer::keyset::CDS_DELETE;
use signer::policy::SigningGoal;
use signer::rollover::{KeyId, ManagedKey, ParentView, WaitCause};
use wire::{Ttl, Type, UnixTime};
use zone::Zone;
use zone_plan::DsPush;

use super::{ASK_PARENT_EVERY, ZoneSigner, rdatas_at_apex};

/// The DS RRset that the parent is to have now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct WantedDs {
    /// The data of its records, in order; empty: the RRset is to be deleted.
    pub(in super::super) rdatas: Vec<Vec<u8>>,
    /// Its TTL, where there was none.
    pub(in super::super) ttl: Ttl,
    /// When all servers of the parent have last said what they have; `None`: not yet.
    pub(in super::super) checked: Option<UnixTime>,
    /// Longest time until all of them have a change.
    pub(in super::super) delay: Duration,
}

/// Whether the DS RRset at the parent is to be changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) enum PushNeed {
    /// It is not.
    #[default]
    Nothing,
    /// It is not changed for this reason.
    Held(&'static str),
    /// It is to be this one.
    Push(WantedDs),
}

impl ZoneSigner {
    /// Returns what the servers of the parent have, if all of them have said it.
    pub(super) fn parent_view(&self) -> Option<ParentView> {
        let report = self.parent.as_ref().filter(|report| report.is_everywhere(|_| true))?;
        let sets = report.servers.iter().filter_map(|server| Some(&*server.found.as_ref().ok()?.rdatas));
        let sets: Vec<&[Vec<u8>]> = sets.collect();
        let ttl = report.largest_ttl().unwrap_or(Ttl::ZERO);
        Some(ParentView::of(self.apex.as_name(), self.ring.keys(), &sets, ttl, report.at))
    }

    /// How often the parent is to be asked; `None`: nothing depends on it.
    pub(in super::super) fn asks_parent(&self) -> Option<Duration> {
        let waits = |cause| {
            matches!(cause, WaitCause::ParentPublishes | WaitCause::ParentWithdraws | WaitCause::OtherDs)
        };
        let (least, most) = ASK_PARENT_EVERY;
        let every = self.rules.policy.parent_propagation_delay.clamp(least, most);
        self.plan.waits.iter().any(|wait| waits(wait.cause)).then_some(every)
    }

    /// Returns whether the DS RRset at the parent is to be changed, since the last look.
    pub(in super::super) fn push_need(&self) -> &PushNeed {
        &self.push
    }

    /// Decides whether the DS RRset at the parent is to be changed: to what the CDS records of the version in
    /// service ask for, if a rollover waits for it.
    pub(super) fn need_of(&self, zone: &Zone) -> PushNeed {
        if self.rules.ds_push == DsPush::Off || self.asks_parent().is_none() {
            return PushNeed::Nothing;
        }
        let mut rdatas = rdatas_at_apex(zone, Type::CDS);
        if rdatas.is_empty() {
            return PushNeed::Nothing;
        }
        let is_removal = rdatas == [CDS_DELETE];
        match (is_removal, self.rules.policy.goal) {
            (true, SigningGoal::Insecure) if self.plan.cds_delete => rdatas.clear(),
            (false, SigningGoal::Signed) if self.is_planned(&rdatas) => {}
            // The next version has other CDS records.
            _ => return PushNeed::Nothing,
        }
        if !self.facts.foreign.is_empty() {
            return PushNeed::Held(
                "the zone has DNSKEY records whose private keys are not here, and may need their DS records",
            );
        }
        rdatas.sort_unstable();
        rdatas.dedup();
        let report = self.parent.as_ref().filter(|report| report.is_everywhere(|_| true));
        if report.is_some_and(|report| report.is_everywhere(|found| found.rdatas == rdatas)) {
            return PushNeed::Nothing;
        }
        if !is_removal && !self.leads_to_keys(&rdatas) {
            return PushNeed::Held("a DS record would lead to a key that is not in all caches");
        }
        let policy = &self.rules.policy;
        let ttl = report.and_then(|report| report.largest_ttl()).unwrap_or(policy.parent_ds_ttl);
        let (checked, delay) = (report.map(|report| report.at), policy.parent_propagation_delay);
        PushNeed::Push(WantedDs { rdatas, ttl, checked, delay })
    }

    /// The key of a CDS record.
    fn key_of(&self, rdata: &[u8]) -> Option<&ManagedKey> {
        self.ring.keys().iter().find(|key| key.is_of_ds(self.apex.as_name(), rdata))
    }

    /// Whether CDS records are those of the keys whose DS records the plan wants at the parent.
    fn is_planned(&self, cds: &[Vec<u8>]) -> bool {
        let keys: Option<Vec<KeyId>> = cds.iter().map(|rdata| Some(self.key_of(rdata)?.id)).collect();
        let has_all = |keys: Vec<KeyId>| {
            let wanted = &self.plan.parent_ds;
            keys.iter().all(|id| wanted.contains(id)) && wanted.iter().all(|id| keys.contains(id))
        };
        keys.is_some_and(has_all)
    }

    /// Whether these records lead to the zone in each cache: each is of a key that all DNSKEY RRsets have, or
    /// is in DS RRsets already, and for each algorithm one of these keys signs all DNSKEY RRsets.
    fn leads_to_keys(&self, cds: &[Vec<u8>]) -> bool {
        let keys: Option<Vec<&ManagedKey>> = cds.iter().map(|rdata| self.key_of(rdata)).collect();
        let signs =
            |key: &&ManagedKey| key.state.dnskey.is_omnipresent() && key.state.krrsig.is_omnipresent();
        let is_good = |key: &ManagedKey, all: &[&ManagedKey]| {
            let is_known = key.state.dnskey.is_omnipresent() || !key.state.ds.is_hidden();
            is_known && all.iter().filter(|other| other.id.algorithm == key.id.algorithm).any(signs)
        };
        keys.is_some_and(|all| all.iter().all(|key| is_good(key, &all)))
    }
}
