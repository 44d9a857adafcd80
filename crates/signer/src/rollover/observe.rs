//! What facts and time do to the states of keys.

use std::collections::BTreeSet;
use std::time::Duration;

use wire::{Ttl, UnixTime};

use super::facts::Facts;
use super::plan::{KeyWait, WaitCause};
use super::ring::{Delays, Keyring, TtlMemory};
use super::state::{KeyDates, KeyGoal, KeyState, RecordState, RecordTrack};
use crate::policy::DnssecPolicy;

/// How far in the future a time in a state may be. It is there only if TTLs were lowered, and no cache in use
/// keeps an RRset as long; a time further ahead comes from a wrong clock.
const MAX_AHEAD: Duration = Duration::from_secs(31 * 86_400);

/// How much of the zone has a record, or a signature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Nothing,
    Parts,
    All,
}

impl Extent {
    fn of(all: bool, some: bool) -> Extent {
        match (all, some) {
            (true, _) => Self::All,
            (false, true) => Self::Parts,
            (false, false) => Self::Nothing,
        }
    }
}

impl Keyring {
    /// Reconciles the states with the facts, and moves on those whose time has come.
    pub(super) fn observe(&mut self, policy: &DnssecPolicy, facts: &Facts, delays: &Delays) {
        self.correct_clock(facts.now);
        self.remember_ttls(facts, delays);
        let now = facts.now;
        let [dnskey_from, signatures_from] = self.starts(now);
        let ds_from = self.ttls.ds_from;
        // What the operator said later is newer.
        let view = facts.parent.as_ref().filter(|view| view.checked >= self.said);
        self.absent_at_parent = match view {
            Some(view) => {
                self.keys.iter().map(|key| key.id).filter(|id| !view.somewhere.contains(id)).collect()
            }
            None => BTreeSet::new(),
        };
        for index in 0..self.keys.len() {
            let id = self.keys[index].id;
            let published = Extent::of(facts.published.contains(&id), false);
            let signs_keys = Extent::of(facts.key_signers.contains(&id), false);
            let signs = Extent::of(facts.complete.contains(&id), facts.present.contains(&id));
            let is_synced = facts.cds.contains(&id);
            self.change(index, |state| {
                let goal = state.goal;
                state.dnskey = observed(state.dnskey, published, goal, dnskey_from, now);
                state.krrsig = observed(state.krrsig, signs_keys, goal, dnskey_from, now);
                state.zrrsig = observed(state.zrrsig, signs, goal, signatures_from, now);
                note_dates(state, now);
                if is_synced {
                    state.dates.publish_cds.get_or_insert(now);
                    if state.ds.is_hidden() {
                        state.ds = RecordTrack::new(RecordState::Rumoured, Some(now));
                    }
                }
                if let Some(view) = view.filter(|_| state.role.signs_keys()) {
                    let here = Extent::of(view.everywhere.contains(&id), view.somewhere.contains(&id));
                    let cds_gone = policy.sync.then(|| delays.cds_gone());
                    observe_ds(state, here, view.checked, ds_from, cds_gone, now);
                }
                pass_time(state, delays);
            });
        }
    }

    /// Sets times that are too far in the future to be right to now.
    fn correct_clock(&mut self, now: UnixTime) {
        let latest = now.saturating_add(MAX_AHEAD);
        for index in 0..self.keys.len() {
            self.change(index, |state| {
                let KeyDates { ds_publish, ds_removed, .. } = &mut state.dates;
                let tracks = [&mut state.dnskey, &mut state.zrrsig, &mut state.krrsig, &mut state.ds];
                let times = tracks.map(|track| &mut track.since).into_iter().chain([ds_publish, ds_removed]);
                for time in times.flatten() {
                    if *time > latest {
                        *time = now;
                    }
                }
            });
        }
    }

    /// If TTLs are less than before, moves the start of waits so that what caches have with the old TTL has
    /// expired at their end.
    fn remember_ttls(&mut self, facts: &Facts, delays: &Delays) {
        let now = facts.now;
        // Until the RRsets with the greater TTL have expired, which is right for any later TTL as well.
        let later = |from: &mut UnixTime, before: &mut Option<Ttl>, earlier: Ttl, ttl: Ttl| {
            let before = before.replace(ttl).unwrap_or(earlier);
            if before > ttl {
                *from = (*from).max(now.saturating_add(before.as_duration()));
            }
            *from
        };
        let TtlMemory { dnskey, largest, ds, dnskey_from, largest_from, ds_from } = &mut self.ttls;
        let dnskey_from = later(dnskey_from, dnskey, facts.dnskey_ttl_before, delays.dnskey_ttl);
        let largest_from = later(largest_from, largest, facts.largest_ttl_before, delays.largest_ttl);
        let ds_from = later(ds_from, ds, Ttl::ZERO, delays.ds_ttl);
        for index in 0..self.keys.len() {
            self.change(index, |state| {
                delay(&mut state.dnskey.since, dnskey_from, now);
                delay(&mut state.krrsig.since, dnskey_from, now);
                delay(&mut state.zrrsig.since, largest_from, now);
                for time in [&mut state.dates.ds_publish, &mut state.dates.ds_removed] {
                    if time.is_some() {
                        delay(time, ds_from, now);
                    }
                }
            });
        }
    }

    /// Returns when waits start that begin now: for DNSKEY records, and for signatures. It is later
    /// than now if caches may have RRsets with greater TTLs; the states of other keys keep that over a
    /// restart.
    fn starts(&self, now: UnixTime) -> [UnixTime; 2] {
        let latest = |track: fn(&KeyState) -> &RecordTrack| {
            self.keys.iter().filter_map(|key| track(&key.state).since).max().unwrap_or(now)
        };
        let dnskey = latest(|state| &state.dnskey).max(self.ttls.dnskey_from);
        let signatures = latest(|state| &state.zrrsig).max(self.ttls.largest_from);
        [now.max(dnskey), now.max(signatures)]
    }

    /// Returns what the records of a key wait for, without the key.
    pub(super) fn waits_of(&self, state: &KeyState, delays: &Delays) -> Vec<KeyWait> {
        let mut waits = Vec::new();
        let mut wait = |track: &RecordTrack, causes: [WaitCause; 4], [come, go]: [Duration; 2]| {
            let (cause, open, time) = match track.state {
                RecordState::Rumoured => (causes[0], causes[1], come),
                RecordState::Unretentive => (causes[2], causes[3], go),
                _ => return,
            };
            let until = track.since.map(|since| since.saturating_add(time));
            waits.push(KeyWait { key: None, cause: if until.is_some() { cause } else { open }, until });
        };
        let [come, go] = [WaitCause::DnskeyCaches, WaitCause::OldDnskeyCaches];
        wait(&state.dnskey, [come, come, go, go], [delays.dnskey_wait(), delays.dnskey_gone()]);
        let [come, go] = [WaitCause::SignatureCaches, WaitCause::OldSignatureCaches];
        let causes = [come, WaitCause::Signing, go, WaitCause::OldSignatures];
        wait(&state.zrrsig, causes, [delays.signature_wait(), delays.signature_gone()]);
        let [come, go] = [WaitCause::DsCaches, WaitCause::OldDsCaches];
        let causes = [come, WaitCause::ParentPublishes, go, WaitCause::ParentWithdraws];
        let seen = RecordTrack { since: ds_start(state), ..state.ds };
        wait(&seen, causes, [delays.ds_wait(), delays.ds_gone()]);
        waits
    }
}

/// Returns the state of a record of which `extent` is in service. A wait that begins starts at `from`.
fn observed(track: RecordTrack, extent: Extent, goal: KeyGoal, from: UnixTime, now: UnixTime) -> RecordTrack {
    use RecordState::{Hidden, Omnipresent, Rumoured, Unretentive};
    let new = |state, since| RecordTrack { state, since };
    // A time in the future is that of greater TTLs, which no other key may remember.
    let held = Some(from).filter(|from| *from > now);
    match (extent, track.state) {
        (Extent::All, Omnipresent) | (Extent::Nothing, Hidden) => track,
        (Extent::All, Rumoured) => new(Rumoured, track.since.or(Some(from))),
        (Extent::All, Hidden | Unretentive) => new(Rumoured, Some(from)),
        // RRset by RRset, signatures of one key take the place of those of another.
        (Extent::Parts, Rumoured) => new(Rumoured, held),
        (Extent::Parts, _) if goal == KeyGoal::Omnipresent => new(Rumoured, held),
        (Extent::Parts, _) => new(Unretentive, held),
        (Extent::Nothing, Unretentive) => new(Unretentive, track.since.or(Some(from))),
        (Extent::Nothing, Rumoured | Omnipresent) => new(Unretentive, Some(from)),
    }
}

/// Sets the dates of what was seen for the first time.
fn note_dates(state: &mut KeyState, now: UnixTime) {
    let signs = match state.role.signs_zone() {
        true => state.zrrsig,
        false => state.krrsig,
    };
    if state.dnskey.is_in_service() {
        state.dates.published.get_or_insert(now);
        state.dates.removed = None;
    }
    if signs.is_in_service() {
        state.dates.active.get_or_insert(now);
    }
    if state.dnskey.state == RecordState::Unretentive {
        state.dates.removed.get_or_insert(now);
    }
}

/// Takes note of where the parent has the DS of a key. A wait that begins starts at `from`, but not before
/// the view. `cds_gone`: how long the parent may find a CDS record after its removal, if there are any.
fn observe_ds(
    state: &mut KeyState,
    extent: Extent,
    checked: UnixTime,
    from: UnixTime,
    cds_gone: Option<Duration>,
    now: UnixTime,
) {
    let KeyDates { ds_publish, ds_removed, .. } = &mut state.dates;
    let start = checked.max(from);
    let is_there = extent != Extent::Nothing;
    if is_there && state.ds.is_hidden() || extent != Extent::All && state.ds.is_omnipresent() {
        state.ds = RecordTrack::new(RecordState::Rumoured, Some(now));
    }
    match extent {
        Extent::All => *ds_publish = ds_publish.or(Some(start)),
        Extent::Parts | Extent::Nothing => *ds_publish = None,
    }
    // The parent may still act on a CDS record that it has read before its removal, or gets from a cache,
    // which has it as long as DNSKEY records.
    let removed = state.ds.since.max(state.dnskey.since);
    let is_late = |since: UnixTime| checked >= since.saturating_add(cds_gone.unwrap_or_default());
    if is_there {
        *ds_removed = None;
    } else if state.ds.state == RecordState::Unretentive && removed.is_none_or(is_late) {
        *ds_removed = ds_removed.or(Some(start));
    }
}

/// Returns from when caches are waited for, for a DS record that is added or withdrawn.
fn ds_start(state: &KeyState) -> Option<UnixTime> {
    let seen = match state.ds.state {
        RecordState::Rumoured => state.dates.ds_publish,
        RecordState::Unretentive => state.dates.ds_removed,
        _ => None,
    };
    seen.map(|seen| state.ds.since.map_or(seen, |since| since.max(seen)))
}

/// Moves the start of a wait: until `from`, caches may have RRsets with greater TTLs than the present one.
/// All states keep that, for the next key that is added or removed, also after a restart.
fn delay(since: &mut Option<UnixTime>, from: UnixTime, now: UnixTime) {
    if from > now {
        *since = (*since).max(Some(from));
    }
}

/// Moves on the records whose time has come.
fn pass_time(state: &mut KeyState, delays: &Delays) {
    let pass = |track: &mut RecordTrack, start: Option<UnixTime>, come: Duration, go: Duration| {
        let has_passed = |time| start.is_some_and(|start| start.saturating_add(time) <= delays.now);
        let next = match track.state {
            RecordState::Rumoured if has_passed(come) => RecordState::Omnipresent,
            RecordState::Unretentive if has_passed(go) => RecordState::Hidden,
            _ => return,
        };
        *track = RecordTrack::new(next, Some(delays.now));
    };
    let (come, go) = (delays.dnskey_wait(), delays.dnskey_gone());
    let [dnskey, krrsig, zrrsig] = [&state.dnskey, &state.krrsig, &state.zrrsig].map(|track| track.since);
    let ds = ds_start(state);
    pass(&mut state.dnskey, dnskey, come, go);
    pass(&mut state.krrsig, krrsig, come, go);
    pass(&mut state.zrrsig, zrrsig, delays.signature_wait(), delays.signature_gone());
    pass(&mut state.ds, ds, delays.ds_wait(), delays.ds_gone());
}
