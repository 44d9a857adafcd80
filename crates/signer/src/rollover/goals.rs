//! Which keys are to stay, when a rollover starts, and which keys must be generated for it.

use std::time::Duration;

use wire::UnixTime;

use super::facts::Facts;
use super::plan::{KeyPlan, KeyWait, NewKey, WaitCause};
use super::ring::{Delays, Keyring};
use super::state::{KeyDuty, KeyGoal, KeyId, KeyPurpose, KeyState, ManagedKey, RecordState, RecordTrack};
use crate::policy::{DnssecPolicy, KeyAlgorithm, KeyLayout, SigningGoal};

/// Returns the purposes of the keys that the policy wants, with their algorithm and lifetime.
pub(super) fn slots(policy: &DnssecPolicy) -> Vec<Slot> {
    let ksk = |role, standby| Slot { role, algorithm: policy.ksk, lifetime: policy.ksk_lifetime, standby };
    let zsk = Slot {
        role: KeyPurpose::Zsk,
        algorithm: policy.zsk,
        lifetime: policy.zsk_lifetime,
        standby: policy.standby_zsk,
    };
    match policy.layout {
        KeyLayout::Combined => vec![ksk(KeyPurpose::Csk, false)],
        KeyLayout::Split => vec![ksk(KeyPurpose::Ksk, policy.standby_ksk), zsk],
    }
}

/// A key that the policy wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) role: KeyPurpose,
    algorithm: KeyAlgorithm,
    lifetime: Option<Duration>,
    /// Whether another one is kept for emergencies.
    standby: bool,
}

impl Slot {
    /// Whether the key is one of this kind.
    pub(super) fn fits(&self, key: &ManagedKey) -> bool {
        let KeyAlgorithm { algorithm, bits } = self.algorithm;
        key.state.role == self.role && key.id.algorithm == algorithm && (bits == 0 || key.state.bits == bits)
    }

    /// Returns a new key of this kind.
    fn new_key(&self, predecessor: Option<KeyId>, duty: KeyDuty) -> NewKey {
        let KeyAlgorithm { algorithm, bits } = self.algorithm;
        NewKey { role: self.role, algorithm, bits, predecessor, duty }
    }

    /// Time from the first publication of a successor until it can take over.
    fn lead(&self, delays: &Delays) -> Duration {
        let dnskey = delays.dnskey_wait();
        if self.role.signs_keys() { dnskey + delays.ds_wait() } else { dnskey }
    }
}

/// How far a key is: those further on are kept first.
pub(super) fn progress(key: &ManagedKey) -> (usize, usize, Option<UnixTime>) {
    let count = |is: fn(&RecordTrack) -> bool| key.state.tracks().into_iter().filter(|t| is(t)).count();
    (count(RecordTrack::is_omnipresent), count(RecordTrack::is_in_service), key.state.dates.generated)
}

impl Keyring {
    /// Sets the goals of all keys by the policy. Returns the keys that are kept for a later rollover.
    pub(super) fn set_goals(
        &mut self,
        policy: &DnssecPolicy,
        facts: &Facts,
        delays: &Delays,
        plan: &mut KeyPlan,
    ) -> Vec<KeyId> {
        let now = facts.now;
        let slots = slots(policy);
        if policy.goal == SigningGoal::Insecure {
            self.retire_others(now, |_| false);
            return Vec::new();
        }
        self.retire_others(now, |key| slots.iter().any(|slot| slot.fits(key)));
        let mut in_use = Vec::new();
        for slot in &slots {
            let Some(current) = self.current(slot, now) else {
                plan.generate.push(slot.new_key(None, KeyDuty::Active));
                continue;
            };
            in_use.push(current);
            in_use.extend(self.roll_if_due(slot, current, facts, delays, plan));
            self.keep_standby(slot, now, plan);
        }
        let spare = |slot| self.unused(slot).filter(|id| !in_use.contains(id));
        slots.iter().flat_map(spare).collect()
    }

    /// Sets the goal of all keys but those that `stays` is true for to hidden.
    pub(super) fn retire_others(&mut self, now: UnixTime, stays: impl Fn(&ManagedKey) -> bool) {
        for index in 0..self.keys.len() {
            if self.keys[index].state.goal == KeyGoal::Omnipresent && !stays(&self.keys[index]) {
                self.change(index, |state| retire(state, now));
            }
        }
    }

    /// Returns the key of a slot that stays and signs. Others that are in use as well retire. If there is
    /// none, a standby key takes over, or else one that was retired by a policy, and not for a successor,
    /// comes back.
    fn current(&mut self, slot: &Slot, now: UnixTime) -> Option<KeyId> {
        let of_duty = |keys: &[ManagedKey], duty: KeyDuty, is: &dyn Fn(&ManagedKey) -> bool| {
            keys.iter()
                .filter(|key| slot.fits(key) && key.state.duty == duty && is(key))
                .max_by_key(|key| progress(key))
                .map(|key| key.id)
        };
        let best = |keys: &[ManagedKey], is: &dyn Fn(&ManagedKey) -> bool| of_duty(keys, KeyDuty::Active, is);
        let stays = |key: &ManagedKey| key.state.goal == KeyGoal::Omnipresent;
        let used = best(&self.keys, &|key| stays(key) && !key.state.is_unused());
        // A successor is in its place from the first second on.
        let linked = best(&self.keys, &|key| stays(key) && key.state.predecessor.is_some());
        let back = |key: &ManagedKey| {
            key.state.successor.is_none() && key.state.tracks().into_iter().any(RecordTrack::is_in_service)
        };
        let in_reserve = |key: &ManagedKey| stays(key) && key.state.dnskey.is_in_service();
        let chosen = used
            .or(linked)
            .or_else(|| of_duty(&self.keys, KeyDuty::Standby, &in_reserve))
            .or_else(|| best(&self.keys, &back))
            .or_else(|| best(&self.keys, &stays))?;
        for index in 0..self.keys.len() {
            let key = &self.keys[index];
            if key.id == chosen {
                self.change(index, |state| {
                    bring_back(state);
                    state.duty = KeyDuty::Active;
                });
            } else if slot.fits(key) && stays(key) && !key.state.is_standby() && !key.state.is_unused() {
                self.change(index, |state| retire(state, now));
            }
        }
        Some(chosen)
    }

    /// Keeps one standby key of a slot, if the policy wants one. Others retire.
    fn keep_standby(&mut self, slot: &Slot, now: UnixTime, plan: &mut KeyPlan) {
        let is_kept = |key: &ManagedKey| {
            slot.fits(key) && key.state.is_standby() && key.state.goal == KeyGoal::Omnipresent
        };
        let all = self.keys.iter().filter(|key| is_kept(key));
        let chosen = all.max_by_key(|key| progress(key)).map(|key| key.id).filter(|_| slot.standby);
        for index in 0..self.keys.len() {
            if is_kept(&self.keys[index]) && Some(self.keys[index].id) != chosen {
                self.change(index, |state| retire(state, now));
            }
        }
        if slot.standby && chosen.is_none() {
            plan.generate.push(slot.new_key(None, KeyDuty::Standby));
        }
    }

    /// Returns the keys of a slot that were never in service, and are no standby keys.
    fn unused(&self, slot: &Slot) -> impl Iterator<Item = KeyId> {
        let is_unused = |key: &&ManagedKey| {
            let state = &key.state;
            state.goal == KeyGoal::Omnipresent && slot.fits(key) && state.is_unused() && !state.is_standby()
        };
        self.keys.iter().filter(is_unused).map(|key| key.id)
    }

    /// Starts the rollover of a key whose time has come. Returns the key that takes over if it is there.
    fn roll_if_due(
        &mut self,
        slot: &Slot,
        current: KeyId,
        facts: &Facts,
        delays: &Delays,
        plan: &mut KeyPlan,
    ) -> Option<KeyId> {
        let index = self.index(current)?;
        self.change(index, |state| set_retirement(state, slot.lifetime));
        let state = &self.keys[index].state;
        let retired = state.dates.retired?;
        let mut wait = |cause, until| plan.waits.push(KeyWait { key: Some(current), cause, until });
        let start = retired.saturating_sub(slot.lead(delays));
        if start > facts.now {
            wait(WaitCause::Lifetime, Some(start));
            return None;
        }
        let is_requested = retired <= facts.now && !is_scheduled(state);
        if !facts.foreign.is_empty() && !is_requested {
            wait(WaitCause::ForeignKeys, None);
            return None;
        }
        if self.obstacle(index, delays).is_some() {
            // The records that are waited for are among the waits.
            return None;
        }
        let spare = self.unused(slot).find(|id| *id != current);
        if let Some(id) = spare {
            self.link(current, id, facts.now);
        } else {
            plan.generate.push(slot.new_key(Some(current), KeyDuty::Active));
        }
        spare
    }

    /// Returns what keeps a rollover of a key from starting: itself or an older key of its purpose, whose
    /// records are not all where they are to be.
    pub(super) fn obstacle(&self, index: usize, delays: &Delays) -> Option<(KeyId, Option<KeyWait>)> {
        let key = self.keys.get(index)?;
        let state = &key.state;
        let last = |key: &ManagedKey| {
            let waits = self.waits_of(&key.state, delays).into_iter();
            waits.max_by_key(|wait| wait.until.unwrap_or(UnixTime::from_secs(u64::MAX)))
        };
        // A key whose DS the parent has never had may be replaced by another one.
        let ds_is_open = state.ds.state == RecordState::Rumoured && state.dates.ds_publish.is_none();
        let established = state.dnskey.is_omnipresent()
            && (!state.role.signs_keys()
                || state.krrsig.is_omnipresent()
                    && (state.ds.is_omnipresent() || ds_is_open && self.is_island(index)))
            && (!state.role.signs_zone() || state.zrrsig.is_omnipresent());
        if !established {
            return Some((key.id, last(key)));
        }
        let is_older = |other: &&ManagedKey| {
            other.id != key.id
                && other.id.algorithm == key.id.algorithm
                && !other.state.is_standby()
                && other.state.goal == KeyGoal::Hidden
                && overlaps(other.state.role, state.role)
                && (other.state.dnskey.is_in_service() || !other.state.zrrsig.is_hidden())
        };
        let older = self.keys.iter().find(is_older)?;
        Some((older.id, last(older)))
    }

    /// Whether the last view of the parent had no DS of the key.
    fn is_island(&self, index: usize) -> bool {
        let key = self.keys.get(index);
        key.is_some_and(|key| self.absent_at_parent.contains(&key.id))
    }
}

fn overlaps(one: KeyPurpose, other: KeyPurpose) -> bool {
    one == other || one == KeyPurpose::Csk || other == KeyPurpose::Csk
}

/// Whether the time of the retirement is that of the lifetime.
fn is_scheduled(state: &KeyState) -> bool {
    let planned =
        state.dates.active.zip(state.lifetime).map(|(active, lifetime)| active.saturating_add(lifetime));
    planned.is_some() && planned == state.dates.retired
}

pub(super) fn retire(state: &mut KeyState, now: UnixTime) {
    state.goal = KeyGoal::Hidden;
    state.dates.retired = Some(state.dates.retired.map_or(now, |planned| planned.min(now)));
}

pub(super) fn bring_back(state: &mut KeyState) {
    if state.goal == KeyGoal::Hidden {
        state.goal = KeyGoal::Omnipresent;
        state.dates.retired = None;
    }
}

/// Plans the retirement by the lifetime of the policy, once the key is active. A changed lifetime replaces
/// the plan, also that of a request.
fn set_retirement(state: &mut KeyState, lifetime: Option<Duration>) {
    if state.lifetime != lifetime {
        state.lifetime = lifetime;
        state.dates.retired = None;
    }
    if let (None, Some(active), Some(lifetime)) = (state.dates.retired, state.dates.active, lifetime) {
        state.dates.retired = Some(active.saturating_add(lifetime));
    }
}
