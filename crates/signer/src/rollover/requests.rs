//! What operators ask for: rollovers, retirements, and what the parent has.

use wire::UnixTime;

use super::facts::Facts;
use super::goals::{progress, slots};
use super::plan::{KeyWait, RollFault, WaitCause};
use super::ring::{Delays, Keyring};
use super::state::{KeyDuty, KeyGoal, KeyId, KeyPurpose, ManagedKey, RecordState, RecordTrack};
use crate::policy::{DnssecPolicy, SigningGoal};

/// Which keys are rolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollTarget {
    /// This key.
    Key(KeyId),
    /// The key of this purpose.
    Role(KeyPurpose),
}

impl Keyring {
    /// Starts the rollover of a key now, before its lifetime ends. The next [`step`](Self::step) generates
    /// the successor. `facts` are those of the last step. Returns the key.
    ///
    /// # Errors
    /// [`RollFault`]: the key is not in service everywhere yet, is being replaced, or the one before it is
    /// still being removed.
    pub fn roll(
        &mut self,
        policy: &DnssecPolicy,
        which: RollTarget,
        facts: &Facts,
    ) -> Result<KeyId, RollFault> {
        if policy.goal == SigningGoal::Insecure {
            return Err(RollFault::Unsigned);
        }
        let id = self.target(policy, which)?;
        let index = self.index(id).ok_or(RollFault::NoKey)?;
        let state = &self.keys[index].state;
        if state.goal == KeyGoal::Hidden {
            return Err(RollFault::Rolling(state.successor));
        }
        if state.is_standby() {
            // The next step generates another one.
            self.change(index, |state| {
                state.goal = KeyGoal::Hidden;
                state.dates.retired = Some(facts.now);
            });
            return Ok(id);
        }
        if let Some((other, wait)) = self.obstacle(index, &Delays::new(policy, facts)) {
            let KeyWait { cause, until, .. } =
                wait.unwrap_or(KeyWait { key: None, cause: WaitCause::Signing, until: None });
            return Err(match other == id {
                true => RollFault::NotEstablished(id, cause, until),
                false => RollFault::Unfinished(other, cause, until),
            });
        }
        self.change(index, |state| state.dates.retired = Some(facts.now));
        Ok(id)
    }

    /// Has the standby key take over from a key at once: it signs in the next version, and the key no longer
    /// does. The next [`step`](Self::step) generates another standby key. The DNSKEY record goes once no
    /// cache has a signature of the key, and of a KSK the DS record once no cache has a DNSKEY RRset that the
    /// standby key has not signed. `facts` are those of the last step. Returns the key and the standby key.
    ///
    /// # Errors
    /// [`RollFault::NoStandby`]; [`RollFault::StandbyNotReady`]: caches do not have its records yet.
    pub fn roll_at_once(
        &mut self,
        policy: &DnssecPolicy,
        which: RollTarget,
        facts: &Facts,
    ) -> Result<(KeyId, KeyId), RollFault> {
        if policy.goal == SigningGoal::Insecure {
            return Err(RollFault::Unsigned);
        }
        let id = self.target(policy, which)?;
        let index = self.index(id).ok_or(RollFault::NoKey)?;
        let state = &self.keys[index].state;
        if state.is_standby() {
            return Err(RollFault::IsStandby);
        }
        if state.goal == KeyGoal::Hidden {
            return Err(RollFault::Rolling(state.successor));
        }
        let delays = Delays::new(policy, facts);
        let is_for = |key: &&ManagedKey| {
            let (one, other) = (&key.state, state);
            one.is_standby()
                && one.goal == KeyGoal::Omnipresent
                && one.role == other.role
                && key.id.algorithm == id.algorithm
        };
        let standby = self.keys.iter().filter(is_for).max_by_key(|key| progress(key));
        let standby = standby.ok_or(RollFault::NoStandby)?;
        let next = standby.id;
        if !standby.state.can_take_over() {
            let waits = self.waits_of(&standby.state, &delays);
            let last =
                waits.into_iter().max_by_key(|wait| wait.until.unwrap_or(UnixTime::from_secs(u64::MAX)));
            let (cause, until) =
                last.map_or((WaitCause::DnskeyCaches, None), |wait| (wait.cause, wait.until));
            return Err(RollFault::StandbyNotReady(next, cause, until));
        }
        // An older CDS RRset would have the parent remove the DS record of the key that is to lead to the
        // zone. Its TTL was that of DNSKEY, whose track keeps a greater one.
        let of_cds = standby.state.dates.publish_cds.filter(|_| policy.sync && state.role.signs_keys());
        let of_cds = of_cds.map(|at| standby.state.dnskey.since.map_or(at, |since| since.max(at)));
        let is_gone = |at: UnixTime| at.saturating_add(delays.cds_gone() + delays.publish_safety);
        if let Some(until) = of_cds.map(is_gone).filter(|until| *until > facts.now) {
            return Err(RollFault::StandbyNotReady(next, WaitCause::OldCds, Some(until)));
        }
        // Otherwise caches may have a DS RRset to which its signature is needed still.
        let is_sure = self.obstacle(index, &delays).is_none() && state.ds.is_omnipresent();
        let is_dropped = state.role == KeyPurpose::Ksk && is_sure;
        self.link(id, next, facts.now);
        self.change(index, |state| {
            state.dates.retired = Some(facts.now);
            if is_dropped {
                state.duty = KeyDuty::Dropped;
            }
        });
        if let Some(index) = self.index(next) {
            self.change(index, |state| state.duty = KeyDuty::Active);
        }
        Ok((id, next))
    }

    /// Returns the key that a request is about.
    fn target(&self, policy: &DnssecPolicy, which: RollTarget) -> Result<KeyId, RollFault> {
        let role = match which {
            RollTarget::Key(id) => return self.key(id).map(|key| key.id).ok_or(RollFault::NoKey),
            RollTarget::Role(role) => role,
        };
        let slot = slots(policy).into_iter().find(|slot| slot.role == role).ok_or(RollFault::NoKey)?;
        let stays = |goal| goal == KeyGoal::Omnipresent;
        let used = self.keys.iter();
        let used = used.filter(|key| slot.fits(key) && stays(key.state.goal) && !key.state.is_standby());
        let best = used.max_by_key(|key| !key.state.is_unused() || key.state.predecessor.is_some());
        best.map(|key| key.id).ok_or(RollFault::NoKey)
    }

    /// Retires a key at once: it is removed as soon as no cache needs it. Another key must be able to take
    /// over, as one whose rollover has begun.
    ///
    /// # Errors
    /// [`RollFault::NoSuccessor`]: the key must be rolled; [`RollFault::Rolling`]: it has been retired;
    /// [`RollFault::NotEstablished`] with the other key, and the earliest time.
    pub fn retire(&mut self, policy: &DnssecPolicy, id: KeyId, facts: &Facts) -> Result<(), RollFault> {
        let index = self.index(id).ok_or(RollFault::NoKey)?;
        let key = &self.keys[index];
        if key.state.goal == KeyGoal::Hidden {
            return Err(RollFault::Rolling(key.state.successor));
        }
        if !key.state.is_unused() {
            let delays = Delays::new(policy, facts);
            if key.state.role.signs_keys() {
                self.check_other(id, KeyPurpose::signs_keys, &delays)?;
            }
            if key.state.role.signs_zone() {
                self.check_other(id, KeyPurpose::signs_zone, &delays)?;
            }
        }
        let now = facts.now;
        self.change(index, |state| {
            state.goal = KeyGoal::Hidden;
            state.dates.retired = Some(now);
        });
        Ok(())
    }

    /// Checks that another key than `id` can sign what keys of such a purpose sign.
    fn check_other(&self, id: KeyId, can: fn(KeyPurpose) -> bool, delays: &Delays) -> Result<(), RollFault> {
        let others = self.keys.iter().filter(|key| {
            key.id != id
                && key.id.algorithm == id.algorithm
                && key.state.goal == KeyGoal::Omnipresent
                && can(key.state.role)
        });
        let mut fault = RollFault::NoSuccessor;
        for other in others {
            if other.state.dnskey.is_omnipresent() {
                return Ok(());
            }
            let waits = self.waits_of(&other.state, delays);
            if let Some(wait) = waits.first() {
                fault = RollFault::NotEstablished(other.id, wait.cause, wait.until);
            }
        }
        Err(fault)
    }

    /// Takes the operator's word that all servers of the parent have the DS record of a key since `when`.
    /// Later views of the parent replace it.
    ///
    /// # Errors
    /// [`RollFault::NoKey`], [`RollFault::NoDs`].
    pub fn ds_published(&mut self, id: KeyId, when: UnixTime) -> Result<(), RollFault> {
        let index = self.with_ds(id)?;
        self.said = self.said.max(when);
        self.change(index, |state| {
            state.dates.ds_removed = None;
            state.dates.ds_publish.get_or_insert(when);
            if state.ds.is_hidden() {
                state.ds = RecordTrack::new(RecordState::Rumoured, Some(when));
            }
        });
        Ok(())
    }

    /// Takes the operator's word that no server of the parent has the DS record of a key since `when`. Later
    /// views of the parent replace it.
    ///
    /// # Errors
    /// [`RollFault::NoKey`], [`RollFault::NoDs`]; [`RollFault::DsNeeded`] if no other key can take over.
    pub fn ds_withdrawn(&mut self, id: KeyId, when: UnixTime) -> Result<(), RollFault> {
        let index = self.with_ds(id)?;
        if self.keys[index].state.goal == KeyGoal::Omnipresent {
            return Err(RollFault::DsNeeded);
        }
        self.said = self.said.max(when);
        self.change(index, |state| {
            state.dates.ds_publish = None;
            if !state.ds.is_hidden() {
                state.dates.ds_removed.get_or_insert(when);
                state.ds.state = RecordState::Unretentive;
            }
        });
        Ok(())
    }

    fn with_ds(&self, id: KeyId) -> Result<usize, RollFault> {
        let index = self.index(id).ok_or(RollFault::NoKey)?;
        match self.keys[index].state.role.signs_keys() {
            true => Ok(index),
            false => Err(RollFault::NoDs),
        }
    }
}
