//! [`Keyring`]: the keys of a zone with their states. Its [`step`](Keyring::step) observes, and decides.

use std::collections::BTreeSet;
use std::time::Duration;

use wire::{Ttl, UnixTime};

use super::facts::Facts;
use super::offline::OfflineKeys;
use super::plan::{KeyPlan, KeyWait, NewKey, WaitCause};
use super::state::{KeyGoal, KeyId, KeyState, ManagedKey, RecordTrack};
use crate::policy::{DnssecPolicy, SigningGoal};

/// TTLs and delays of one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    pub(super) now: UnixTime,
    pub(super) dnskey_ttl: Ttl,
    pub(super) largest_ttl: Ttl,
    pub(super) ds_ttl: Ttl,
    pub(super) zone: Duration,
    pub(super) parent: Duration,
    pub(super) publish_safety: Duration,
    pub(super) retire_safety: Duration,
}

impl Delays {
    pub(super) fn new(policy: &DnssecPolicy, facts: &Facts) -> Delays {
        let seen = facts.parent.as_ref().map_or(Ttl::ZERO, |view| view.ds_ttl);
        Delays {
            now: facts.now,
            // Before the first signature the TTL that it will have; else that which it has.
            dnskey_ttl: if facts.dnskey_ttl == Ttl::ZERO { policy.dnskey_ttl } else { facts.dnskey_ttl },
            largest_ttl: facts.largest_ttl,
            ds_ttl: seen.max(policy.parent_ds_ttl),
            zone: policy.zone_propagation_delay,
            parent: policy.parent_propagation_delay,
            publish_safety: policy.publish_safety,
            retire_safety: policy.retire_safety,
        }
    }

    /// Time from the publication of a DNSKEY record until all caches have it (RFC 7583 §3.3.1: Ipub).
    pub(super) fn dnskey_wait(&self) -> Duration {
        self.zone + self.dnskey_ttl.as_duration() + self.publish_safety
    }

    /// Time from the removal of a DNSKEY record until no cache has it.
    pub(super) fn dnskey_gone(&self) -> Duration {
        self.zone + self.dnskey_ttl.as_duration() + self.retire_safety
    }

    /// Time from the last new signature until all caches have them.
    pub(super) fn signature_wait(&self) -> Duration {
        self.zone + self.largest_ttl.as_duration() + self.publish_safety
    }

    /// Time from the removal of the last signature until no cache has one (RFC 7583 §3.2.1: Iret).
    pub(super) fn signature_gone(&self) -> Duration {
        self.zone + self.largest_ttl.as_duration() + self.retire_safety
    }

    /// Time from the publication of a DS record on all servers until all caches have it.
    pub(super) fn ds_wait(&self) -> Duration {
        self.parent + self.ds_ttl.as_duration() + self.publish_safety
    }

    /// Time from the removal of a DS record from all servers until no cache has it.
    pub(super) fn ds_gone(&self) -> Duration {
        self.parent + self.ds_ttl.as_duration() + self.retire_safety
    }

    /// Time from the removal of a CDS record until the parent cannot find it any more.
    pub(super) fn cds_gone(&self) -> Duration {
        self.zone + self.dnskey_ttl.as_duration() + self.parent
    }
}

/// TTLs of the step before, and until when caches may hold RRsets with greater ones than now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TtlMemory {
    pub(super) dnskey: Option<Ttl>,
    pub(super) largest: Option<Ttl>,
    pub(super) ds: Option<Ttl>,
    /// From when the present TTL alone decides, for each of these.
    pub(super) dnskey_from: UnixTime,
    pub(super) largest_from: UnixTime,
    pub(super) ds_from: UnixTime,
}

/// The keys of a zone with their states.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    pub(super) keys: Vec<ManagedKey>,
    /// Keys whose file is older than their state.
    pub(super) dirty: BTreeSet<KeyId>,
    pub(super) ttls: TtlMemory,
    /// When an operator last said what the parent has.
    pub(super) said: UnixTime,
    /// Keys whose DS no server of the parent had at the last view.
    pub(super) absent_at_parent: BTreeSet<KeyId>,
    /// What the last step waited for.
    pub(super) waits: Vec<KeyWait>,
}

/// The state of a key and what comes next.
#[derive(Clone, Copy, Debug)]
pub struct KeyStatus<'a> {
    /// The key.
    pub key: &'a ManagedKey,
    /// What the key waited for after the last step; more than one entry if several of its records wait.
    pub wait: Option<KeyWait>,
}

impl Keyring {
    /// Returns the ring of these keys, whose states are those of their files.
    pub fn new(keys: Vec<ManagedKey>) -> Keyring {
        Keyring { keys, ..Keyring::default() }
    }

    /// Returns the keys.
    pub fn keys(&self) -> &[ManagedKey] {
        &self.keys
    }

    /// Returns a key.
    pub fn key(&self, id: KeyId) -> Option<&ManagedKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Takes a key that was generated for `new`. Its files must have been written.
    pub fn add(&mut self, new: &NewKey, id: KeyId, dnskey: Vec<u8>, bits: usize, now: UnixTime) {
        let mut state = KeyState::new(new.role, bits);
        state.dates.generated = Some(now);
        state.duty = new.duty;
        self.keys.push(ManagedKey { id, dnskey, state });
        self.dirty.insert(id);
        if let Some(old) = new.predecessor {
            self.link(old, id, now);
        }
    }

    /// Removes a key whose files were deleted.
    pub fn remove(&mut self, id: KeyId) {
        self.keys.retain(|key| key.id != id);
        self.dirty.remove(&id);
        for key in &mut self.keys {
            for link in [&mut key.state.predecessor, &mut key.state.successor] {
                if link.take_if(|other| *other == id).is_some() {
                    self.dirty.insert(key.id);
                }
            }
        }
    }

    /// Takes note that the present state of a key was written to its file.
    pub fn written(&mut self, id: KeyId) {
        self.dirty.remove(&id);
    }

    /// Observes what is in service, and decides what the next version of the zone has.
    ///
    /// A plan whose [`generate`](KeyPlan::generate) is not empty is complete only after the keys were added.
    pub fn step(&mut self, policy: &DnssecPolicy, facts: &Facts) -> KeyPlan {
        self.step_with(policy, facts, None)
    }

    /// The same of a zone whose KSK is offline, if `offline` is there: no key is generated, and the plan has
    /// the [slot](KeyPlan::presigned) to publish.
    pub fn step_with(
        &mut self,
        policy: &DnssecPolicy,
        facts: &Facts,
        offline: Option<&OfflineKeys>,
    ) -> KeyPlan {
        let delays = Delays::new(policy, facts);
        self.observe(policy, facts, &delays);
        let mut plan = KeyPlan::default();
        let spare = match offline {
            Some(offline) => self.set_offline_goals(policy, facts, offline),
            None => self.set_goals(policy, facts, &delays, &mut plan),
        };
        self.decide(policy, facts, &delays, (&spare, offline), &mut plan);
        self.collect_waits(policy, facts, &delays, &mut plan);
        self.purge(policy, facts, &mut plan);
        let of_offline = offline.and_then(|offline| offline.next_event(facts.now));
        let waits = plan.waits.iter().filter_map(|wait| wait.until);
        plan.wake = waits.chain(plan.wake).chain(of_offline).min();
        plan.changed = self.dirty.iter().copied().collect();
        self.waits.clone_from(&plan.waits);
        plan
    }

    /// Returns the state of each key, with what it waits for since the last step.
    pub fn status(&self) -> Vec<KeyStatus<'_>> {
        let wait_of = |id| {
            let mut waits: Vec<&KeyWait> = self.waits.iter().filter(|wait| wait.key == Some(id)).collect();
            waits.sort_by_key(|wait| wait.until.unwrap_or(UnixTime::EPOCH));
            waits.first().copied().copied()
        };
        self.keys.iter().map(|key| KeyStatus { key, wait: wait_of(key.id) }).collect()
    }

    /// Changes the state of a key, and marks it as changed if it differs afterwards.
    pub(super) fn change(&mut self, index: usize, change: impl FnOnce(&mut KeyState)) {
        let Some(key) = self.keys.get_mut(index) else { return };
        let before = key.state.clone();
        change(&mut key.state);
        if key.state != before {
            self.dirty.insert(key.id);
        }
    }

    pub(super) fn index(&self, id: KeyId) -> Option<usize> {
        self.keys.iter().position(|key| key.id == id)
    }

    /// Makes a key the successor of another one, which retires.
    pub(super) fn link(&mut self, old: KeyId, new: KeyId, now: UnixTime) {
        let (Some(from), Some(to)) = (self.index(old), self.index(new)) else { return };
        self.change(from, |state| {
            state.successor = Some(new);
            state.goal = KeyGoal::Hidden;
            state.dates.retired = Some(state.dates.retired.unwrap_or(now));
        });
        self.change(to, |state| state.predecessor = Some(old));
    }

    /// Adds what each record waits for.
    fn collect_waits(&self, policy: &DnssecPolicy, facts: &Facts, delays: &Delays, plan: &mut KeyPlan) {
        for key in &self.keys {
            for wait in self.waits_of(&key.state, delays) {
                plan.waits.push(KeyWait { key: Some(key.id), ..wait });
            }
        }
        let zone = |cause| KeyWait { key: None, cause, until: None };
        plan.waits.extend((!plan.generate.is_empty()).then_some(zone(WaitCause::Generation)));
        if policy.goal == SigningGoal::Insecure && !plan.unsign {
            let other = facts.parent.as_ref().is_some_and(|view| view.any_other_ds);
            plan.waits.extend(other.then_some(zone(WaitCause::OtherDs)));
            plan.waits.extend((!facts.foreign.is_empty()).then_some(zone(WaitCause::ForeignKeys)));
        }
    }

    /// Lists the keys of which no cache and no server has anything, and whose files have been kept for the
    /// time of the policy since then.
    fn purge(&self, policy: &DnssecPolicy, facts: &Facts, plan: &mut KeyPlan) {
        let Some(kept) = policy.purge_keys else { return };
        for key in &self.keys {
            let state = &key.state;
            let is_seen = [&facts.published, &facts.key_signers, &facts.present, &facts.cds]
                .into_iter()
                .chain(facts.parent.as_ref().map(|view| &view.somewhere))
                .any(|ids| ids.contains(&key.id));
            if state.goal != KeyGoal::Hidden || !state.is_hidden() || is_seen {
                continue;
            }
            let changes = state.tracks().into_iter().filter_map(|track: &RecordTrack| track.since);
            let last = changes.chain(state.dates.removed).chain(state.dates.retired).max();
            match last.map(|last| last.saturating_add(kept)) {
                Some(due) if due > facts.now => {
                    plan.wake = Some(plan.wake.map_or(due, |wake| wake.min(due)));
                }
                Some(_) => plan.purge.push(key.id),
                None => {}
            }
        }
    }
}
