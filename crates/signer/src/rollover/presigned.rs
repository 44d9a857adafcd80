//! Zones whose KSK is offline: which slot of a response the next version has, and what the ZSKs do.

use wire::{Type, UnixTime};

use super::facts::Facts;
use super::goals::{bring_back, progress, retire};
use super::offline::check::is_ds_of;
use super::offline::{OfflineKeys, ResponseSlot, SignedKeyResponse};
use super::plan::{SlotUse, WaitCause};
use super::ring::Keyring;
use super::rules::Scene;
use super::state::{KeyDuty, KeyId, KeyPurpose, ManagedKey};
use crate::policy::{DnssecPolicy, SigningGoal};

/// The DNSKEY, CDS and CDNSKEY RRsets of the next version, which the KSK has signed.
pub(super) struct FixedSets {
    /// The keys in DNSKEY.
    pub(super) keys: Vec<KeyId>,
    /// The keys that sign it.
    pub(super) signers: Vec<KeyId>,
    /// The keys with CDS or CDNSKEY records.
    pub(super) synced: Vec<KeyId>,
    /// Where the sets are from.
    pub(super) used: SlotUse,
    /// Why it is not the slot of now.
    pub(super) wait: Option<WaitCause>,
}

/// Returns the slot at a time, if its signatures are valid.
fn valid_slot(offline: &OfflineKeys, now: UnixTime) -> Option<&ResponseSlot> {
    let slot = offline.response.slots.get(offline.response.slot_at(now)?)?;
    (slot.expiration() > now).then_some(slot)
}

/// Whether a slot has CDS or CDNSKEY records of a key.
fn has_sync(slot: &ResponseSlot, key: &ManagedKey, is_of: impl Fn(&[u8]) -> bool) -> bool {
    let rdatas = |rtype| slot.set(rtype).into_iter().flat_map(|set| &set.rdatas);
    rdatas(Type::CDNSKEY).any(|rdata| *rdata == key.dnskey) || rdatas(Type::CDS).any(|rdata| is_of(rdata))
}

/// Returns the keys with CDS or CDNSKEY records in a slot.
fn synced<'k>(
    slot: &'k ResponseSlot,
    keys: &'k [ManagedKey],
    facts: &'k Facts,
) -> impl Iterator<Item = &'k ManagedKey> {
    keys.iter().filter(move |key| {
        let is_of = |rdata: &[u8]| {
            facts.zone.as_ref().is_some_and(|zone| is_ds_of(zone.as_name(), &key.dnskey, rdata))
        };
        has_sync(slot, key, is_of)
    })
}

impl Scene<'_> {
    /// Returns the key sets of the next version. `wanted`: the keys whose DS record is to be at the parent.
    pub(super) fn fixed_sets(&self, offline: &OfflineKeys, wanted: &[bool]) -> FixedSets {
        let facts = self.facts;
        let wait = match valid_slot(offline, facts.now) {
            Some(slot) if self.may_adopt(slot) => return self.of_slot(slot, wanted),
            Some(_) => WaitCause::SlotHeld,
            None if offline.response.end().is_some_and(|end| end <= facts.now) => WaitCause::ResponseEnded,
            None => WaitCause::NoResponse,
        };
        FixedSets {
            keys: facts.published.clone(),
            signers: facts.key_signers.clone(),
            synced: facts.cds.clone(),
            used: SlotUse { slot: None, with_sync: true },
            wait: Some(wait),
        }
    }

    /// Returns the key sets of a slot. Its CDS and CDNSKEY RRsets are used once the parent may have the DS
    /// records of all their keys.
    fn of_slot(&self, slot: &ResponseSlot, wanted: &[bool]) -> FixedSets {
        let synced: Vec<KeyId> = synced(slot, self.keys, self.facts).map(|key| key.id).collect();
        let is_wanted =
            |id: &KeyId| self.keys.iter().zip(wanted).any(|(key, wanted)| key.id == *id && *wanted);
        let with_sync = !synced.is_empty() && synced.iter().all(is_wanted);
        FixedSets {
            keys: slot.keys().collect(),
            signers: slot.signers(),
            synced: if with_sync { synced } else { Vec::new() },
            used: SlotUse { slot: Some(slot.inception), with_sync },
            wait: None,
        }
    }

    /// Whether the key sets of a slot keep the chain of trust in every cache. See the rules in the docs of
    /// [`rollover`](super).
    fn may_adopt(&self, slot: &ResponseSlot) -> bool {
        let (keys, signers): (Vec<KeyId>, Vec<KeyId>) = (slot.keys().collect(), slot.signers());
        if self.insecure {
            return true;
        }
        let is_entry = |key: &ManagedKey| keys.contains(&key.id) && signers.contains(&key.id);
        let has_sure_entry = |key: &ManagedKey| {
            self.of(key.id.algorithm).any(|other| other.state.ds.is_omnipresent() && is_entry(other))
        };
        self.keys.iter().all(|key| {
            let is_signer_there = key.state.zrrsig.is_hidden() || keys.contains(&key.id);
            is_signer_there && (key.state.ds.is_hidden() || is_entry(key) || has_sure_entry(key))
        }) && keys.iter().all(|id| self.is_signed(id.algorithm))
    }
}

impl Keyring {
    /// Sets the goals of all keys by the schedule of the ZSKs and by the slot of now. Returns the ZSKs that
    /// begin to sign later.
    pub(super) fn set_offline_goals(
        &mut self,
        policy: &DnssecPolicy,
        facts: &Facts,
        offline: &OfflineKeys,
    ) -> Vec<KeyId> {
        let now = facts.now;
        if policy.goal == SigningGoal::Insecure {
            self.retire_others(now, |_| false);
            return Vec::new();
        }
        for index in 0..self.keys.len() {
            // Where the KSK is offline, each key has its slots.
            self.change(index, |state| state.duty = KeyDuty::Active);
        }
        let current: Vec<KeyId> = offline.current(now).collect();
        let is_current = |key: &&ManagedKey| current.contains(&key.id);
        let current = self.keys.iter().filter(is_current).max_by_key(|key| progress(key)).map(|key| key.id);
        let slot = valid_slot(offline, now);
        let ksks: Option<Vec<KeyId>> = slot.map(|slot| {
            let synced: Vec<KeyId> = synced(slot, &self.keys, facts).map(|key| key.id).collect();
            slot.ksks().map(|(id, _)| id).filter(|id| synced.is_empty() || synced.contains(id)).collect()
        });
        let mut spare = Vec::new();
        for index in 0..self.keys.len() {
            let key = &self.keys[index];
            let (id, is_unused) = (key.id, key.state.is_unused());
            if key.state.role.signs_keys() {
                match &ksks {
                    Some(ksks) if ksks.contains(&id) => self.change(index, bring_back),
                    Some(_) => self.change(index, |state| retire(state, now)),
                    None => {}
                }
                continue;
            }
            let is_later = offline.schedule(id).is_some_and(|times| times.activate > now);
            match current {
                Some(current) if current == id => self.change(index, bring_back),
                _ if is_later => {
                    self.change(index, bring_back);
                    spare.push(id);
                }
                Some(current) if !is_unused => self.link(id, current, now),
                _ => self.change(index, |state| retire(state, now)),
            }
        }
        spare
    }

    /// Returns the KSKs of responses that the ring does not have, with their DNSKEY records.
    pub fn new_ksks(&self, response: &SignedKeyResponse) -> Vec<(KeyId, Vec<u8>)> {
        let mut new: Vec<(KeyId, Vec<u8>)> = Vec::new();
        for (id, rdata) in response.slots.iter().flat_map(ResponseSlot::ksks) {
            if self.key(id).is_none() && new.iter().all(|(other, _)| *other != id) {
                new.push((id, rdata.clone()));
            }
        }
        new
    }

    /// Takes a KSK whose private key is elsewhere. Its public key must have been written.
    pub fn add_offline(&mut self, id: KeyId, dnskey: Vec<u8>, bits: usize, now: UnixTime) {
        let mut state = super::state::KeyState::new(KeyPurpose::Ksk, bits);
        state.dates.generated = Some(now);
        self.keys.push(ManagedKey { id, dnskey, state });
        self.dirty.insert(id);
    }
}
