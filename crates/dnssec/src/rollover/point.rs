//! One zone whose anchors are followed, and its keys.

use std::collections::BTreeSet;

use wire::rdata::view::{Dnskey, Ds, Rrsig};
use wire::{Name, Serial, Type};

use super::{AnchorChange, AnchorEvent, AnchorKey, AnchorReport, AnchorState, DAY, HOLD_DOWN, HOUR};
use crate::algorithm;
use crate::budget::{ValidationBudget, ValidationLimit};
use crate::delegation::check_keys;
use crate::key;
use crate::response::ReceivedSet;
use crate::settings::ValidationSettings;
use crate::signatures::Checked;
use crate::verify::SignedSet;

/// Keys of one zone that are remembered. Beyond, those that were removed are forgotten, and new ones are not
/// looked at.
const MOST_KEYS: usize = 64;
/// The longest time between two questions, in seconds (RFC 5011 §2.3).
const LONGEST: u64 = 15 * DAY;

/// A zone whose anchors are followed: a trust point (RFC 5011 §1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustPoint {
    /// RDATA of the DS that the operator has named.
    pub(super) configured: BTreeSet<Vec<u8>>,
    pub(super) keys: Vec<AnchorKey>,
    /// When the zone's keys were seen last with a good signature, in seconds since 1970.
    pub(super) seen: Option<u64>,
    /// When they are asked for next.
    pub(super) next: u64,
    /// After how many seconds they are asked for again if that comes to nothing; 0 if nothing was ever seen.
    pub(super) retry: u64,
}

/// What was found in a DNSKEY RRset.
struct Sighting<'a> {
    zone: Name<'a>,
    set: &'a ReceivedSet,
    settings: &'a ValidationSettings,
    now: u64,
}

impl TrustPoint {
    /// The keys that are known, those that are no anchors included.
    pub fn keys(&self) -> &[AnchorKey] {
        &self.keys
    }

    /// RDATA of the DS that were configured and that no key was seen for yet; they count.
    pub fn unseen(&self, zone: Name<'_>) -> impl Iterator<Item = &Vec<u8>> {
        self.configured.iter().filter(move |ds| !self.keys.iter().any(|key| fits(zone, &key.rdata, ds)))
    }

    /// When the zone's keys were seen last with a good signature, in seconds since 1970.
    pub fn seen(&self) -> Option<u64> {
        self.seen
    }

    /// When they are asked for next, in seconds since 1970.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The anchors that the operator has named are these now.
    pub(super) fn configure(&mut self, zone: Name<'_>, ds: &BTreeSet<Vec<u8>>) {
        let named = |key: &AnchorKey| ds.iter().any(|ds| fits(zone, &key.rdata, ds));
        if !self.configured.is_subset(ds) {
            self.keys.retain(|key| key.state.is_revoked() || named(key));
        }
        // What the operator names is an anchor at once.
        self.keys.retain(|key| !matches!(key.state, AnchorState::Pending { .. }) || !named(key));
        if self.configured != *ds {
            self.configured.clone_from(ds);
            self.next = 0;
        }
    }

    /// Seconds until the keys are to be asked for. A clock that was put back does not make that longer than
    /// it can be.
    pub(super) fn left(&self, now: u64) -> u64 {
        let left = self.next.saturating_sub(now);
        if left > LONGEST { 0 } else { left }
    }

    /// The keys are to be asked for at once.
    pub(super) fn refresh(&mut self) {
        self.next = 0;
    }

    /// The keys could not be had, or were not good (RFC 5011 §2.3).
    pub(super) fn failed(&mut self, now: u64) {
        self.next = now.saturating_add(self.retry.clamp(HOUR, DAY));
    }

    /// The anchors that count: RDATA of DS.
    pub(super) fn anchors(&self, zone: Name<'_>) -> BTreeSet<Vec<u8>> {
        let key_of = |ds: &[u8]| self.keys.iter().find(|key| fits(zone, &key.rdata, ds));
        let named = self.configured.iter();
        let named = named.filter(|ds| !key_of(ds).is_some_and(|key| key.state.is_revoked())).cloned();
        let is_named = |key: &AnchorKey| self.configured.iter().any(|ds| fits(zone, &key.rdata, ds));
        let learned = self.keys.iter().filter(|key| key.state.is_trusted() && !is_named(key));
        let digest = |key: &AnchorKey| key::ds(zone, &Dnskey::read(&key.rdata).ok()?, Ds::SHA256);
        named.chain(learned.filter_map(digest)).collect()
    }

    /// Takes the zone's DNSKEY RRset.
    pub(super) fn receive(
        &mut self,
        zone: Name<'_>,
        set: &ReceivedSet,
        (settings, now): (&ValidationSettings, u64),
        budget: &mut ValidationBudget,
        report: &mut AnchorReport,
    ) {
        let sighting = Sighting { zone, set, settings, now };
        let mut events = Vec::new();
        self.revoke(&sighting, budget, &mut events);
        let anchors: Vec<Vec<u8>> = self.anchors(zone).into_iter().collect();
        match check_keys(set, zone, &anchors, settings, now, budget) {
            Ok(checked) => self.sight(&sighting, checked, &mut events),
            Err(fault) => report.fault = Some(fault),
        }
        let zone = zone.to_buf();
        let change = |(rdata, event): (Vec<u8>, AnchorEvent)| {
            let tag = Dnskey::read(&rdata).map_or(0, |key| key::tag(&key));
            AnchorChange { zone, tag, event }
        };
        report.changes.extend(events.into_iter().map(change));
    }

    /// Revokes the anchors that have REVOKE set, in an RRset that they have signed themselves: only the
    /// holder of the key can do that, so no other key need have signed (RFC 5011 §2.1).
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
            // An error means that the budget is spent.
            if !is_anchor || sighting.is_signed_by(rdata, budget) != Ok(true) {
                continue;
            }
            let at = known.unwrap_or_else(|| {
                self.keys.push(AnchorKey { rdata: base.clone(), state: AnchorState::Valid, since: 0 });
                self.keys.len() - 1
            });
            if let Some(key) = self.keys.get_mut(at) {
                (key.state, key.since) = (AnchorState::Revoked { absent: None }, sighting.now);
                events.push((base, AnchorEvent::Revoked));
            }
        }
    }

    /// Takes an RRset with a good signature.
    fn sight(&mut self, sighting: &Sighting<'_>, checked: Checked, events: &mut Vec<(Vec<u8>, AnchorEvent)>) {
        let Sighting { zone, set, settings, now } = *sighting;
        let (ttl, left) = (u64::from(checked.original_ttl.as_secs()), u64::from(checked.left.as_secs()));
        let part = |share: u64, most: u64| HOUR.max(most.min(ttl / share).min(left / share));
        (self.seen, self.next, self.retry) = (Some(now), now.saturating_add(part(2, LONGEST)), part(10, DAY));
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
                // RFC 5011 §2.4.1: so that it is seen at least twice.
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

    /// Whether one more key can be remembered. That makes room if it takes no more than forgetting what was
    /// removed.
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
    /// What becomes of a key by an RRset with a good signature, in which it is or is not (RFC 5011 §4).
    fn pass(&mut self, there: bool, now: u64) -> Option<AnchorEvent> {
        // A clock that was put back begins the time anew.
        let late = self.since.saturating_sub(now);
        self.since -= late;
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
                if now - since < HOLD_DOWN {
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
    /// Whether this key of the set has signed the set, whatever its flags say.
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
                && signed.check(&sig, zone, Serial(now as u32), settings.skew).is_ok();
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

/// Whether a DS is of a key.
fn fits(zone: Name<'_>, rdata: &[u8], ds: &[u8]) -> bool {
    match (Dnskey::read(rdata), Ds::read(ds)) {
        (Ok(key), Ok(ds)) => key::fits(zone, &key, &ds),
        _ => false,
    }
}

/// The RDATA of a revoked key as it was before; `None` if it is not revoked, or could not sign anyhow.
fn without_revoke(rdata: &[u8]) -> Option<Vec<u8>> {
    let key = Dnskey::read(rdata).ok().filter(Dnskey::is_revoked)?;
    let flags = key.flags & !Dnskey::REVOKE;
    let mut base = rdata.to_vec();
    *base.first_chunk_mut()? = flags.to_be_bytes();
    Dnskey::read(&base).is_ok_and(|key| key.is_zone_key()).then_some(base)
}
