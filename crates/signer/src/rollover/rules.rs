//! Which changes keep the chain of trust in every cache. See the rules in the docs of [`rollover`](super).

use wire::rdata::view::SigAlgorithm;

use super::facts::Facts;
use super::offline::OfflineKeys;
use super::plan::{KeyPlan, KeyWait};
use super::ring::{Delays, Keyring};
use super::state::{KeyDuty, KeyGoal, KeyId, ManagedKey, RecordState, RecordTrack};
use crate::keyset::KeyUse;
use crate::policy::{DnssecPolicy, SigningGoal};

/// The keys of a zone while a step decides.
pub(super) struct Scene<'a> {
    pub(super) keys: &'a [ManagedKey],
    pub(super) facts: &'a Facts,
    spare: &'a [KeyId],
    /// No DS record can be in any cache, or get there.
    pub(super) insecure: bool,
    /// The only keys that may be in DNSKEY, if others have signed that RRset.
    fixed: Option<&'a [KeyId]>,
}

impl<'a> Scene<'a> {
    fn new(keys: &'a [ManagedKey], facts: &'a Facts, spare: &'a [KeyId]) -> Scene<'a> {
        let at_parent =
            facts.parent.as_ref().is_some_and(|view| view.any_other_ds || !view.somewhere.is_empty());
        let has_ds = keys.iter().any(|key| !key.state.ds.is_hidden());
        let insecure = !has_ds && !at_parent && facts.foreign.is_empty();
        Scene { keys, facts, spare, insecure, fixed: None }
    }

    pub(super) fn of(&self, algorithm: SigAlgorithm) -> impl Iterator<Item = &'a ManagedKey> + use<'a> {
        let keys = self.keys;
        keys.iter().filter(move |key| key.id.algorithm == algorithm)
    }

    /// Whether the key is to stay, and not kept for later.
    fn stays(&self, key: &ManagedKey) -> bool {
        key.state.goal == KeyGoal::Omnipresent && !self.spare.contains(&key.id)
    }

    /// Whether the key is to stay, and signs.
    fn is_active(&self, key: &ManagedKey) -> bool {
        self.stays(key) && key.state.duty == KeyDuty::Active
    }

    /// Whether each RRset in each cache has a signature of the algorithm by a key that is in all caches.
    pub(super) fn is_signed(&self, algorithm: SigAlgorithm) -> bool {
        self.has_sure_signer(algorithm) || self.has_relay(algorithm)
    }

    fn has_sure_signer(&self, algorithm: SigAlgorithm) -> bool {
        self.of(algorithm).any(|key| key.state.zrrsig.is_omnipresent() && key.state.dnskey.is_omnipresent())
    }

    /// Whether keys that take over from each other sign, and all of them are in all caches.
    fn has_relay(&self, algorithm: SigAlgorithm) -> bool {
        let mut signers = self.of(algorithm).filter(|key| !key.state.zrrsig.is_hidden());
        let signs_now = self.of(algorithm).any(|key| key.state.zrrsig.is_in_service());
        signs_now && signers.all(|key| key.state.dnskey.is_omnipresent())
    }

    /// Whether a DNSKEY of this algorithm may be published: each RRset has a signature of it in each cache.
    fn may_publish(&self, algorithm: SigAlgorithm) -> bool {
        let is_in_use = || self.of(algorithm).any(|key| key.state.dnskey.is_in_service());
        self.insecure || is_in_use() || self.of(algorithm).any(|key| key.state.zrrsig.is_omnipresent())
    }

    /// Whether a DS record of the key, which signs, may be added.
    fn may_have_ds(&self, key: &ManagedKey) -> bool {
        let state = &key.state;
        if !(self.is_active(key) && state.role.signs_keys()) {
            return false;
        }
        if !state.ds.is_hidden() && state.ds.state != RecordState::Unretentive {
            return true;
        }
        let is_ready = state.dnskey.is_omnipresent() && state.krrsig.is_omnipresent();
        let has_ds = |algorithm| self.of(algorithm).any(|key| !key.state.ds.is_hidden());
        let in_use = self.keys.iter().filter(|key| !key.state.dnskey.is_hidden());
        // RFC 4035 §2.2 asks for signatures of all algorithms of DNSKEY records.
        let mut algorithms = in_use.map(|key| key.id.algorithm);
        is_ready
            && algorithms.all(|algorithm| {
                self.has_sure_signer(algorithm) || has_ds(algorithm) && self.is_signed(algorithm) || {
                    // It is on its way out: no key of it signs more than it did.
                    algorithm != key.id.algorithm
                        && self.of(algorithm).any(|key| key.state.zrrsig.is_omnipresent())
                }
            })
    }

    /// Returns for each key whether its DS record is to be at the parent.
    fn wanted_ds(&self, policy: &DnssecPolicy) -> Vec<bool> {
        if policy.goal == SigningGoal::Insecure {
            return vec![false; self.keys.len()];
        }
        let mut wanted: Vec<bool> = self.keys.iter().map(|key| self.may_have_ds(key)).collect();
        if !wanted.contains(&true) {
            // Until a DS of another key may be added, the present one stays.
            wanted = self.keys.iter().map(|key| key.state.ds.is_in_service()).collect();
        }
        if !wanted.contains(&true) {
            // The policy wanted an unsigned zone for a while: what the parent may still have is wanted again.
            let is_usable = |key: &ManagedKey| {
                let state = &key.state;
                !state.ds.is_hidden() && state.dnskey.is_omnipresent() && state.krrsig.is_omnipresent()
            };
            wanted = self.keys.iter().map(is_usable).collect();
        }
        self.with_standby(&wanted)
    }

    /// Returns which DS records are to be at the parent beside those of keys that sign: those of standby
    /// keys, which lead nowhere, and of keys that retire, as long as no other key is sure to lead to the
    /// zone.
    fn with_standby(&self, wanted: &[bool]) -> Vec<bool> {
        let has_standby = self.keys.iter().any(|key| key.state.is_standby() && !key.state.ds.is_hidden());
        let signs = |key: &ManagedKey| key.state.dnskey.is_omnipresent() && key.state.krrsig.is_omnipresent();
        // Where a DS record leads nowhere, another one must not be removed before all caches have the new
        // one: one server of the parent, or an operator, may remove it first.
        let leads = |key: &ManagedKey| {
            self.is_active(key) && signs(key) && (!has_standby || key.state.ds.is_omnipresent())
        };
        let pairs = || self.keys.iter().zip(wanted);
        let is_led = pairs().any(|(key, wanted)| *wanted && leads(key));
        let with_lead = |algorithm| {
            pairs().any(|(key, wanted)| {
                *wanted
                    && self.is_active(key)
                    && key.id.algorithm == algorithm
                    && key.state.ds.is_omnipresent()
            })
        };
        pairs()
            .map(|(key, wanted)| {
                let state = &key.state;
                let may_come = || state.dnskey.is_omnipresent() && with_lead(key.id.algorithm);
                *wanted
                    || !self.stays(key) && !is_led && state.ds.is_in_service()
                    || self.stays(key)
                        && state.is_standby()
                        && state.role.signs_keys()
                        && (state.ds.is_in_service() || may_come())
            })
            .collect()
    }

    /// Whether the algorithm is of use no more: no validator can expect signatures of it.
    fn is_unused(&self, algorithm: SigAlgorithm) -> bool {
        let is_gone = |key: &ManagedKey| key.state.dnskey.is_hidden() && key.state.ds.is_hidden();
        self.insecure || !self.facts.foreign.contains(&algorithm) && self.of(algorithm).all(is_gone)
    }

    /// Returns for each key whether it is to sign the data of the zone.
    fn signers(&self) -> Vec<bool> {
        let is_possible = |id| self.fixed.is_none_or(|fixed| fixed.contains(&id));
        let is_current =
            |key: &ManagedKey| self.is_active(key) && key.state.role.signs_zone() && is_possible(key.id);
        let mut signs: Vec<bool> = self
            .keys
            .iter()
            .map(|key| {
                let others_sign = || {
                    self.of(key.id.algorithm)
                        .any(|other| other.id != key.id && other.state.zrrsig.is_in_service())
                };
                let starts = || self.insecure || key.state.dnskey.is_omnipresent() || !others_sign();
                let is_on = key.state.zrrsig.is_in_service();
                if is_current(key) { is_on || starts() } else { is_on }
            })
            .collect();
        let others = self.keys.iter().zip(&signs).any(|(key, signs)| *signs && is_current(key));
        let may_stop = self.fixed.is_none() || others;
        for (index, key) in self.keys.iter().enumerate() {
            if signs[index] && !is_current(key) && may_stop && self.may_stop(index, &signs) {
                signs[index] = false;
            }
        }
        self.resume(&mut signs);
        signs
    }

    /// Lets a key that was stopping sign on if no other of its algorithm signs, which only happens after a
    /// loss of states or of data.
    fn resume(&self, signs: &mut [bool]) {
        for (index, key) in self.keys.iter().enumerate() {
            let algorithm = key.id.algorithm;
            let is_signed =
                self.keys.iter().zip(&*signs).any(|(key, signs)| *signs && key.id.algorithm == algorithm);
            let is_stopping = key.state.zrrsig.state == RecordState::Unretentive;
            if !is_signed && is_stopping && key.state.dnskey.is_in_service() && !self.is_unused(algorithm) {
                signs[index] = true;
            }
        }
    }

    /// Whether a key may stop to sign, if the others sign as `signs` says.
    fn may_stop(&self, index: usize, signs: &[bool]) -> bool {
        let key = &self.keys[index];
        if self.is_unused(key.id.algorithm) {
            return true;
        }
        let takes_over = |(other, signs): (&ManagedKey, &bool)| {
            let is_other = other.id != key.id && other.id.algorithm == key.id.algorithm;
            is_other && *signs && self.stays(other) && other.state.dnskey.is_omnipresent()
        };
        let is_sure = |other: &ManagedKey| {
            other.id != key.id && other.state.zrrsig.is_omnipresent() && other.state.dnskey.is_omnipresent()
        };
        let mut signers = self.of(key.id.algorithm).filter(|key| !key.state.zrrsig.is_hidden());
        self.keys.iter().zip(signs).any(takes_over)
            && (signers.all(|key| key.state.dnskey.is_omnipresent())
                || self.of(key.id.algorithm).any(is_sure))
    }

    /// Returns for each key whether its DNSKEY record is to be in the zone.
    fn published(&self, signs: &[bool]) -> Vec<bool> {
        let mut publish: Vec<bool> = self
            .keys
            .iter()
            .map(|key| {
                let is_on = key.state.dnskey.is_in_service();
                let is_lost = key.state.dnskey.state == RecordState::Unretentive
                    && !key.state.ds.is_hidden()
                    && key.state.duty == KeyDuty::Active;
                let may_come = (self.stays(key) || is_lost) && self.may_publish(key.id.algorithm);
                is_on || may_come
            })
            .collect();
        for (index, key) in self.keys.iter().enumerate() {
            let goes = || self.may_withdraw(index, &publish) || self.may_drop(key, &publish);
            if publish[index] && !self.stays(key) && goes() {
                publish[index] = false;
            }
        }
        // An algorithm comes with all that it needs.
        for (index, key) in self.keys.iter().enumerate() {
            let algorithm = key.id.algorithm;
            let has = |is: &dyn Fn(&ManagedKey, usize) -> bool| {
                let mut all = self.keys.iter().enumerate();
                all.any(|(i, key)| key.id.algorithm == algorithm && publish[i] && is(key, i))
            };
            let is_whole = has(&|key, _| key.signs_keys()) && has(&|_, i| signs[i]);
            if publish[index] && !key.state.dnskey.is_in_service() && !is_whole {
                publish[index] = false;
            }
        }
        publish
    }

    /// Whether the DNSKEY record of a key may be removed, if those of the others are there as `publish` says.
    fn may_withdraw(&self, index: usize, publish: &[bool]) -> bool {
        let key = &self.keys[index];
        let algorithm = key.id.algorithm;
        if self.insecure {
            return true;
        }
        // The whole algorithm goes, DNSKEY records before signatures.
        let goes = |key: &ManagedKey| !self.stays(key) && key.state.ds.is_hidden();
        if self.of(algorithm).all(goes) && !self.facts.foreign.contains(&algorithm) {
            return true;
        }
        let remains = |is: &dyn Fn(&ManagedKey) -> bool| {
            let others = self
                .keys
                .iter()
                .enumerate()
                .filter(|(i, other)| *i != index && other.id.algorithm == algorithm);
            others
                .into_iter()
                .any(|(i, other)| publish[i] && other.state.dnskey.is_omnipresent() && is(other))
        };
        key.state.zrrsig.is_hidden()
            && key.state.ds.is_hidden()
            && remains(&|key| key.signs_keys() && key.state.krrsig.is_omnipresent())
            && remains(&|key| key.state.zrrsig.is_in_service())
    }
}

impl Scene<'_> {
    /// Whether the DNSKEY record of a key that another one has replaced in an emergency may be removed,
    /// though caches may have its DS record: that of the other key is in all of them. No cache has a
    /// signature of it, as those of CDS records.
    fn may_drop(&self, key: &ManagedKey, publish: &[bool]) -> bool {
        let takes_over = |(other, publish): (&ManagedKey, &bool)| {
            *publish
                && other.id.algorithm == key.id.algorithm
                && self.is_active(other)
                && other.signs_keys()
                && other.state.dnskey.is_omnipresent()
                && other.state.ds.is_omnipresent()
        };
        key.state.duty == KeyDuty::Dropped
            && key.state.zrrsig.is_hidden()
            && key.state.krrsig.is_hidden()
            && !key.state.ds.is_in_service()
            && self.keys.iter().zip(publish).any(takes_over)
    }
}

impl ManagedKey {
    /// Whether the key signs the DNSKEY RRset if its DNSKEY record is there.
    fn signs_keys(&self) -> bool {
        self.state.role.signs_keys() && self.state.duty == KeyDuty::Active
    }
}

impl Keyring {
    /// Decides what each key does in the next version.
    pub(super) fn decide(
        &mut self,
        policy: &DnssecPolicy,
        facts: &Facts,
        delays: &Delays,
        (spare, offline): (&[KeyId], Option<&OfflineKeys>),
        plan: &mut KeyPlan,
    ) {
        let wanted = Scene::new(&self.keys, facts, spare).wanted_ds(policy);
        for (index, wanted) in wanted.iter().enumerate() {
            self.change(index, |state| {
                let next = match (wanted, state.ds.state) {
                    (true, RecordState::Hidden | RecordState::Unretentive) => RecordState::Rumoured,
                    (false, RecordState::Rumoured | RecordState::Omnipresent) => RecordState::Unretentive,
                    _ => return,
                };
                let dates = &mut state.dates;
                if next == RecordState::Rumoured {
                    (dates.ds_removed, dates.delete_cds) = (None, None);
                    if state.duty == KeyDuty::Standby {
                        dates.publish_cds = None;
                    }
                } else {
                    dates.ds_removed = None;
                    dates.delete_cds = Some(delays.now);
                }
                state.ds = RecordTrack::new(next, Some(delays.now));
            });
        }
        let mut scene = Scene::new(&self.keys, facts, spare);
        let is_insecure_goal = policy.goal == SigningGoal::Insecure;
        plan.unsign = is_insecure_goal && scene.insecure;
        plan.cds_delete = is_insecure_goal && !plan.unsign && policy.sync && facts.foreign.is_empty();
        let fixed = offline.map(|offline| scene.fixed_sets(offline, &wanted));
        scene.fixed = fixed.as_ref().map(|fixed| &*fixed.keys);
        let signs = scene.signers();
        let publish = match &fixed {
            Some(fixed) => self.keys.iter().map(|key| fixed.keys.contains(&key.id)).collect(),
            None => scene.published(&signs),
        };
        for (index, signs) in signs.iter().enumerate() {
            self.change(index, |state| {
                // Signatures of it that are left are no longer renewed.
                if !signs && state.zrrsig == RecordTrack::new(RecordState::Rumoured, None) {
                    state.zrrsig.state = RecordState::Unretentive;
                }
            });
        }
        let has_cds = |i: usize| wanted[i] && publish[i];
        let with_ds = self.keys.iter().enumerate().filter(|(i, _)| has_cds(*i));
        plan.parent_ds = with_ds.map(|(_, key)| key.id).collect();
        let use_of = |(i, key): (usize, &ManagedKey)| {
            let (sign_keys, sync) = match &fixed {
                Some(fixed) => (fixed.signers.contains(&key.id), fixed.synced.contains(&key.id)),
                None => (publish[i] && key.signs_keys(), has_cds(i)),
            };
            let sync = sync && policy.sync;
            let used = KeyUse { publish: publish[i], sign_keys, sign_zone: signs[i], sync };
            (key.id, if plan.unsign { KeyUse::default() } else { used })
        };
        plan.uses = self.keys.iter().enumerate().map(use_of).collect();
        if let Some(fixed) = fixed {
            plan.presigned = Some(fixed.used);
            plan.cds_delete = false;
            let wait = |cause| KeyWait { key: None, cause, until: None };
            plan.waits.extend(fixed.wait.map(wait));
        }
    }
}
