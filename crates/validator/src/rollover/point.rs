//! [`TrustPoint`]: one zone whose anchors are followed, with its keys.

use std::collections::BTreeSet;
use std::time::Duration;

use dnssec::algorithm;
use dnssec::key;
use dnssec::verify::SignedSet;
use wire::rdata::view::{Dnskey, Ds, Rrsig};
use wire::{Name, Type, UnixTime};

use super::{AnchorChange, AnchorEvent, AnchorKey, AnchorReport, AnchorState, DAY, HOLD_DOWN, HOUR};
use crate::budget::{ValidationBudget, ValidationLimit};
use crate::delegation::check_keys;
use crate::response::ReceivedSet;
use crate::settings::ValidationSettings;
use crate::signatures::Checked;

/// Most keys stored per zone. Beyond that, removed keys are dropped, or else new keys are ignored.
const MOST_KEYS: usize = 64;
/// Longest time between two queries (RFC 5011 §2.3).
const MAX_QUERY_INTERVAL: Duration = Duration::from_secs(15 * DAY.as_secs());

/// A zone whose anchors are followed: a trust point (RFC 5011 §1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustPoint {
    /// DS RDATA of the configured anchors.
    pub(super) configured: BTreeSet<Vec<u8>>,
    pub(super) keys: Vec<AnchorKey>,
    /// When the zone's keys were last seen with a valid signature.
    pub(super) seen: Option<UnixTime>,
    /// When they are queried next.
    pub(super) next: UnixTime,
    /// The time until the next query after a failure; zero if the keys were never seen.
    pub(super) retry: Duration,
}

/// The context of a received DNSKEY RRset.
pub(super) struct Sighting<'a> {
    pub(super) zone: Name<'a>,
    pub(super) set: &'a ReceivedSet,
    pub(super) settings: &'a ValidationSettings,
    pub(super) now: UnixTime,
}

impl TrustPoint {
    /// All stored keys, including those that are not anchors.
    pub fn keys(&self) -> &[AnchorKey] {
        &self.keys
    }

    /// Configured DS RDATA for which no key was seen yet; they are in force.
    pub fn unseen(&self, zone: Name<'_>) -> impl Iterator<Item = &Vec<u8>> {
        self.configured.iter().filter(move |ds| !self.keys.iter().any(|key| fits(zone, &key.rdata, ds)))
    }

    /// When the zone's keys were last seen with a valid signature.
    pub fn seen(&self) -> Option<UnixTime> {
        self.seen
    }

    /// When they are queried next.
    pub fn next(&self) -> UnixTime {
        self.next
    }

    /// Sets the configured anchors.
    pub(super) fn configure(&mut self, zone: Name<'_>, ds: &BTreeSet<Vec<u8>>) {
        let named = |key: &AnchorKey| ds.iter().any(|ds| fits(zone, &key.rdata, ds));
        if !self.configured.is_subset(ds) {
            self.keys.retain(|key| key.state.is_revoked() || named(key));
        }
        // A configured key is an anchor at once.
        self.keys.retain(|key| !matches!(key.state, AnchorState::Pending { .. }) || !named(key));
        if self.configured != *ds {
            self.configured.clone_from(ds);
            self.next = UnixTime::EPOCH;
        }
    }

    /// The time until the keys are due for a query. If the clock was set back so far that the wait would
    /// exceed the longest interval, they are due at once.
    pub(super) fn left(&self, now: UnixTime) -> Duration {
        let left = self.next.saturating_duration_since(now);
        if left > MAX_QUERY_INTERVAL { Duration::ZERO } else { left }
    }

    /// Makes the keys due for a query at once.
    pub(super) fn refresh(&mut self) {
        self.next = UnixTime::EPOCH;
    }

    /// Schedules a retry after the keys could not be fetched or validated (RFC 5011 §2.3).
    pub(super) fn failed(&mut self, now: UnixTime) {
        self.next = now.saturating_add(self.retry.clamp(HOUR, DAY));
    }

    /// The anchors in force, as DS RDATA.
    pub(super) fn anchors(&self, zone: Name<'_>) -> BTreeSet<Vec<u8>> {
        let key_of = |ds: &[u8]| self.keys.iter().find(|key| fits(zone, &key.rdata, ds));
        let named = self.configured.iter();
        let named = named.filter(|ds| !key_of(ds).is_some_and(|key| key.state.is_revoked())).cloned();
        let is_named = |key: &AnchorKey| self.configured.iter().any(|ds| fits(zone, &key.rdata, ds));
        let learned = self.keys.iter().filter(|key| key.state.is_trusted() && !is_named(key));
        let digest = |key: &AnchorKey| key::ds(zone, &Dnskey::read(&key.rdata).ok()?, Ds::SHA256);
        named.chain(learned.filter_map(digest)).collect()
    }

    /// Processes the zone's DNSKEY RRset.
    pub(super) fn receive(
        &mut self,
        sighting: &Sighting<'_>,
        budget: &mut ValidationBudget,
        report: &mut AnchorReport,
    ) {
        let Sighting { zone, set, settings, now } = *sighting;
        let mut events = Vec::new();
        self.revoke(sighting, budget, &mut events);
        let anchors: Vec<Vec<u8>> = self.anchors(zone).into_iter().collect();
        match check_keys(set, zone, &anchors, settings, now, budget) {
            Ok(checked) => self.sight(sighting, checked, &mut events),
            Err(fault) => report.fault = Some(fault),
        }
        let zone = zone.to_buf();
        let change = |(rdata, event): (Vec<u8>, AnchorEvent)| {
            let tag = Dnskey::read(&rdata).map_or(0, |key| key::tag(&key));
            AnchorChange { zone, tag, event }
        };
        report.changes.extend(events.into_iter().map(change));
    }

    /// Revokes the anchors with REVOKE set in an RRset that they have signed themselves. Only the holder of
    /// the key can do that, so no other key needs to have signed (RFC 5011 §2.1).
    fn revoke(
        &mut self,
        sighting: &Sighting<'_>,
        budget: &mut ValidationBudget,
        events: &mut Vec<(Vec<u8>, AnchorEvent)>,
    ) {
        if sighting.set.rdatas.len() > budget.limits().records_per_set {
            return;
        }
        for rdata in &sighting.set.rdatas {
            let Some(base) = without_revoke(rdata) else { continue };
            let known = self.keys.iter().position(|key| key.rdata == base);
            let is_anchor = match known.and_then(|at| self.keys.get(at)) {
                Some(key) => key.state.is_trusted(),
                None => self.configured.iter().any(|ds| fits(sighting.zone, &base, ds)),
            };
            // An error means that the budget is used up.
            if !is_anchor || sighting.is_signed_by(rdata, budget) != Ok(true) {
                continue;
            }
            let at = known.unwrap_or_else(|| {
                self.keys.push(AnchorKey {
                    rdata: base.clone(),
                    state: AnchorState::Valid,
                    since: UnixTime::EPOCH,
                });
                self.keys.len() - 1
            });
            if let Some(key) = self.keys.get_mut(at) {
                (key.state, key.since) = (AnchorState::Revoked { absent: None }, sighting.now);
                events.push((base, AnchorEvent::Revoked));
            }
        }
    }

    /// Processes an RRset with a valid signature.
    fn sight(&mut self, sighting: &Sighting<'_>, checked: Checked, events: &mut Vec<(Vec<u8>, AnchorEvent)>) {
        let Sighting { zone, set, settings, now } = *sighting;
        let ttl = checked.original_ttl.as_duration();
        let shorter = u64::from(checked.original_ttl.min(checked.left).as_secs());
        let part = |share: u64, most: Duration| HOUR.max(most.min(Duration::from_secs(shorter / share)));
        (self.seen, self.next, self.retry) =
            (Some(now), now.saturating_add(part(2, MAX_QUERY_INTERVAL)), part(10, DAY));
        for key in &mut self.keys {
            let is_there = set.rdatas.contains(&key.rdata);
            let was_revoked_there =
                || set.rdatas.iter().any(|r| without_revoke(r).as_ref() == Some(&key.rdata));
            let there = is_there || key.state.is_revoked() && was_revoked_there();
            if let Some(event) = key.pass(there, now) {
                events.push((key.rdata.clone(), event));
            }
        }
        let withdrawn = |(rdata, event): &(Vec<u8>, AnchorEvent), key: &AnchorKey| {
            *event == AnchorEvent::Withdrawn && *rdata == key.rdata
        };
        self.keys.retain(|key| !events.iter().any(|event| withdrawn(event, key)));
        for rdata in &set.rdatas {
            let Ok(key) = Dnskey::read(rdata) else { continue };
            if !key.is_zone_key() || self.keys.iter().any(|known| known.rdata == *rdata) {
                continue;
            }
            let (state, event) = if self.configured.iter().any(|ds| fits(zone, rdata, ds)) {
                (AnchorState::Valid, AnchorEvent::Found)
            } else if key.is_sep() && settings.takes_algorithm(key.algorithm) {
                // RFC 5011 §2.4.1: at least the TTL, so that the key is seen at least twice.
                let until = now.saturating_add(HOLD_DOWN.max(ttl));
                (AnchorState::Pending { until }, AnchorEvent::Appeared(until))
            } else {
                continue;
            };
            if self.has_room() {
                self.keys.push(AnchorKey { rdata: rdata.clone(), state, since: now });
                events.push((rdata.clone(), event));
            }
        }
    }

    /// Whether another key can be stored. Drops a removed key if necessary.
    fn has_room(&mut self) -> bool {
        if self.keys.len() >= MOST_KEYS
            && let Some(at) = self.keys.iter().position(|key| key.state == AnchorState::Removed)
        {
            self.keys.remove(at);
        }
        self.keys.len() < MOST_KEYS
    }
}

impl AnchorKey {
    /// Updates the state after an RRset with a valid signature that contains the key or not (RFC 5011 §4).
    fn pass(&mut self, there: bool, now: UnixTime) -> Option<AnchorEvent> {
        // If the clock was set back, the period starts again.
        let late = self.since.saturating_duration_since(now);
        self.since = self.since.min(now);
        let (state, event) = match (&mut self.state, there) {
            (AnchorState::Pending { until }, true) => {
                *until = until.saturating_sub(late);
                if now < *until {
                    return None;
                }
                (AnchorState::Valid, AnchorEvent::Accepted)
            }
            (AnchorState::Pending { .. }, false) => return Some(AnchorEvent::Withdrawn),
            (AnchorState::Valid, false) => (AnchorState::Missing, AnchorEvent::Missed),
            (AnchorState::Missing, true) => (AnchorState::Valid, AnchorEvent::Returned),
            (AnchorState::Revoked { absent }, true) => {
                *absent = None;
                return None;
            }
            (AnchorState::Revoked { absent }, false) => {
                let since = absent.map_or(now, |since| since.min(now));
                *absent = Some(since);
                if now.saturating_duration_since(since) < HOLD_DOWN {
                    return None;
                }
                (AnchorState::Removed, AnchorEvent::Removed)
            }
            (AnchorState::Valid, true) | (AnchorState::Missing, false) | (AnchorState::Removed, _) => {
                return None;
            }
        };
        (self.state, self.since) = (state, now);
        Some(event)
    }
}

impl Sighting<'_> {
    /// Whether this key of the set has signed the set, regardless of the key's flags.
    fn is_signed_by(&self, rdata: &[u8], budget: &mut ValidationBudget) -> Result<bool, ValidationLimit> {
        let Sighting { zone, set, settings, now } = *self;
        let Ok(key) = Dnskey::read(rdata) else { return Ok(false) };
        let tag = key::tag(&key);
        let signed = SignedSet { owner: set.owner.as_name(), rtype: Type::DNSKEY, rdatas: &set.rdatas };
        for signature in set.signatures.iter().take(budget.limits().signatures_per_set) {
            let Ok(sig) = Rrsig::read(&signature.rdata) else { continue };
            let is_of_key = sig.algorithm == key.algorithm
                && sig.key_tag == tag
                && settings.takes_algorithm(sig.algorithm)
                && signed.check(&sig, zone, now.to_serial(), settings.skew).is_ok();
            let Some(bytes) = is_of_key.then(|| signed.signed_bytes(&sig).ok()).flatten() else { continue };
            budget.take_signature()?;
            if algorithm::verify(&key, &bytes, sig.signature) {
                return Ok(true);
            }
            budget.note_failure();
        }
        Ok(false)
    }
}

/// Whether a DS matches a key.
fn fits(zone: Name<'_>, rdata: &[u8], ds: &[u8]) -> bool {
    match (Dnskey::read(rdata), Ds::read(ds)) {
        (Ok(key), Ok(ds)) => key::fits(zone, &key, &ds),
        _ => false,
    }
}

/// The RDATA of a revoked key without REVOKE; `None` if it is not revoked, or is not a zone key.
fn without_revoke(rdata: &[u8]) -> Option<Vec<u8>> {
    let key = Dnskey::read(rdata).ok().filter(Dnskey::is_revoked)?;
    let flags = key.flags & !Dnskey::REVOKE;
    let mut base = rdata.to_vec();
    *base.first_chunk_mut()? = flags.to_be_bytes();
    Dnskey::read(&base).is_ok_and(|key| key.is_zone_key()).then_some(base)
}
