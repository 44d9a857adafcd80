//! Events to come, as far as they can be predicted: [`Keyring::timeline`].

use std::fmt;
use std::time::Duration;

use wire::UnixTime;

use super::facts::Facts;
use super::offline::{OfflineKeys, ResponseSlot};
use super::plan::KeyPlan;
use super::ring::Keyring;
use super::state::{KeyId, ManagedKey, RecordState};
use crate::keyset::KeyUse;
use crate::policy::DnssecPolicy;

/// Most steps that are predicted.
const MAX_STEPS: usize = 100;

/// An event of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloverEvent {
    /// Its successor is generated: the rollover starts.
    Roll,
    /// Its DNSKEY record is added to the zone.
    Publish,
    /// All caches have its DNSKEY record.
    Published,
    /// It begins to sign the data of the zone.
    Sign,
    /// All caches have its signatures.
    Signed,
    /// Its DS record may be added at the parent.
    AddDs,
    /// All caches have its DS record.
    DsAdded,
    /// Its DS record may be removed at the parent.
    RemoveDs,
    /// No cache has its DS record.
    DsRemoved,
    /// It no longer signs the data of the zone.
    Retire,
    /// No cache has its signatures.
    Retired,
    /// Its DNSKEY record is removed from the zone.
    Withdraw,
    /// No cache has its DNSKEY record.
    Withdrawn,
    /// It is a standby key, and can take over at once.
    StandsBy,
    /// Its files are no longer needed.
    Purge,
    /// A slot that it has signed begins.
    Slot,
    /// Its last signatures in a response expire.
    ResponseEnds,
}

impl fmt::Display for RolloverEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Roll => "the rollover starts",
            Self::Publish => "DNSKEY added",
            Self::Published => "DNSKEY in all caches",
            Self::Sign => "signs the zone",
            Self::Signed => "signatures in all caches",
            Self::AddDs => "DS may be added at the parent",
            Self::DsAdded => "DS in all caches",
            Self::RemoveDs => "DS may be removed at the parent",
            Self::DsRemoved => "DS in no cache",
            Self::Retire => "no longer signs the zone",
            Self::Retired => "signatures in no cache",
            Self::Withdraw => "DNSKEY removed",
            Self::Withdrawn => "DNSKEY in no cache",
            Self::StandsBy => "standby key: can take over at once",
            Self::Purge => "files deleted",
            Self::Slot => "slot of the signed key response begins",
            Self::ResponseEnds => "signed key response ends: import the next one before",
        })
    }
}

impl Keyring {
    /// Returns the events to come in the order of time, if each plan is carried out at once, and the parent
    /// stays as it is. The prediction of a key ends where its successor is generated. `offline`: as of
    /// [`step_with`](Self::step_with).
    pub fn timeline(
        &self,
        policy: &DnssecPolicy,
        facts: &Facts,
        offline: Option<&OfflineKeys>,
    ) -> Vec<(UnixTime, KeyId, RolloverEvent)> {
        let start = facts.now;
        let mut ring = self.clone();
        let mut facts = facts.clone();
        let mut events = Vec::new();
        let mut rolled: Vec<KeyId> = Vec::new();
        for _ in 0..MAX_STEPS {
            let before = ring.clone();
            let plan = ring.step_with(policy, &facts, offline);
            carry_out(&plan, &mut facts);
            let next = ring.step_with(policy, &facts, offline);
            note_changes(&before, &ring, facts.now, &mut events);
            for old in plan.generate.iter().filter_map(|new| new.predecessor) {
                if !rolled.contains(&old) {
                    rolled.push(old);
                    events.push((facts.now, old, RolloverEvent::Roll));
                }
            }
            for id in next.purge {
                events.push((facts.now, id, RolloverEvent::Purge));
                ring.remove(id);
            }
            match next.wake {
                Some(wake) => facts.now = wake.max(facts.now.saturating_add(Duration::from_secs(1))),
                None => break,
            }
        }
        events.extend(offline.into_iter().flat_map(|offline| slot_events(offline, start)));
        events.sort_by_key(|(at, ..)| *at);
        events
    }
}

/// Returns the beginnings of the slots of responses after a time, and the end of the last one.
fn slot_events(offline: &OfflineKeys, now: UnixTime) -> Vec<(UnixTime, KeyId, RolloverEvent)> {
    let slots = &offline.response.slots;
    let begin = |slot: &ResponseSlot| Some((slot.inception, *slot.signers().first()?, RolloverEvent::Slot));
    let mut events: Vec<_> = slots.iter().filter_map(begin).collect();
    let end = |slot: &ResponseSlot| {
        Some((slot.expiration(), *slot.signers().first()?, RolloverEvent::ResponseEnds))
    };
    events.extend(slots.last().and_then(end));
    events.retain(|(at, ..)| *at > now);
    events
}

/// Puts a plan in service.
fn carry_out(plan: &KeyPlan, facts: &mut Facts) {
    let ids = |is: fn(&KeyUse) -> bool| {
        plan.uses.iter().filter(|(_, used)| is(used)).map(|(id, _)| *id).collect::<Vec<KeyId>>()
    };
    facts.published = ids(|used| used.publish);
    facts.key_signers = ids(|used| used.sign_keys);
    facts.complete = ids(|used| used.sign_zone);
    facts.present.clone_from(&facts.complete);
    facts.cds = ids(|used| used.sync);
}

fn note_changes(
    before: &Keyring,
    after: &Keyring,
    now: UnixTime,
    events: &mut Vec<(UnixTime, KeyId, RolloverEvent)>,
) {
    use RolloverEvent as E;
    let names = [
        [E::Publish, E::Published, E::Withdraw, E::Withdrawn],
        [E::Sign, E::Signed, E::Retire, E::Retired],
        [E::AddDs, E::DsAdded, E::RemoveDs, E::DsRemoved],
    ];
    for key in after.keys() {
        let Some(old_key) = before.key(key.id) else { continue };
        let tracks = |key: &ManagedKey| [key.state.dnskey.state, key.state.zrrsig.state, key.state.ds.state];
        for ((old, new), names) in tracks(old_key).into_iter().zip(tracks(key)).zip(names) {
            let event = match new {
                _ if old == new => continue,
                RecordState::Rumoured => names[0],
                RecordState::Omnipresent => names[1],
                RecordState::Unretentive => names[2],
                RecordState::Hidden => names[3],
            };
            events.push((now, key.id, event));
        }
        if key.state.can_take_over() && !old_key.state.can_take_over() {
            events.push((now, key.id, E::StandsBy));
        }
    }
}
