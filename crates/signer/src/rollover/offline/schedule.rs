//! [`OfflineKeys`]: when each ZSK of a zone is published, signs and is removed, and the responses that the
//! zone has.

use std::fmt;
use std::time::Duration;

use wire::{Ttl, UnixTime};
use wording::moment;

use super::request::{KeySigningRequest, RequestSlot};
use super::response::SignedKeyResponse;
use crate::key::times::{KeyEvent, KeyTimes};
use crate::policy::DnssecPolicy;
use crate::rollover::state::{KeyGoal, KeyId, KeyState};

/// Most ZSKs of one zone that are generated at once.
const MAX_KEYS: usize = 1_000;

/// The times between the events of a ZSK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleTimes {
    /// From the publication to the first use (RFC 7583 §3.2.1: Ipub).
    pub lead: Duration,
    /// From the end of use to the removal: signatures are renewed, and caches have the old ones.
    pub tail: Duration,
}

impl ScheduleTimes {
    /// Returns those of a policy, for a zone with this largest TTL.
    pub fn of(policy: &DnssecPolicy, largest_ttl: Ttl) -> ScheduleTimes {
        let renewal = policy.signature_validity.saturating_sub(policy.signature_refresh);
        ScheduleTimes {
            lead: policy.dnskey_ttl.as_duration() + policy.publish_safety + policy.zone_propagation_delay,
            tail: renewal + largest_ttl.as_duration() + policy.zone_propagation_delay + policy.retire_safety,
        }
    }
}

/// When the events of a ZSK are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySchedule {
    /// Its DNSKEY record is added.
    pub publish: UnixTime,
    /// It begins to sign.
    pub activate: UnixTime,
    /// Its successor takes over; `None`: it has no end.
    pub inactive: Option<UnixTime>,
    /// Its DNSKEY record is removed.
    pub delete: Option<UnixTime>,
}

impl KeySchedule {
    /// Returns the schedule of a ZSK by the times in its file, or without them by its state: it is in use
    /// already.
    pub fn of(times: &KeyTimes, state: &KeyState) -> KeySchedule {
        let get = |event| times.get(event);
        let start = [get(KeyEvent::Publish), get(KeyEvent::Activate)];
        let retired = state.dates.retired.filter(|_| state.goal == KeyGoal::Hidden);
        KeySchedule {
            publish: start.into_iter().flatten().min().unwrap_or(UnixTime::EPOCH),
            activate: start[1].or(start[0]).unwrap_or(UnixTime::EPOCH),
            inactive: get(KeyEvent::Inactive).or(retired),
            delete: get(KeyEvent::Delete),
        }
    }

    /// Returns the times of the file of a key that is generated at `now`.
    pub fn times(&self, now: UnixTime) -> KeyTimes {
        let mut times = KeyTimes::default();
        times.set(KeyEvent::Created, now);
        times.set(KeyEvent::Publish, self.publish);
        times.set(KeyEvent::Activate, self.activate);
        self.inactive.iter().for_each(|time| times.set(KeyEvent::Inactive, *time));
        self.delete.iter().for_each(|time| times.set(KeyEvent::Delete, *time));
        times
    }

    /// Whether its DNSKEY record is in the zone at a time.
    fn is_published(&self, at: UnixTime) -> bool {
        self.publish <= at && self.delete.is_none_or(|delete| at < delete)
    }
}

/// Why there is no request, or why no keys are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleFault {
    /// The end is not after the start, which is this time.
    EndsFirst(UnixTime),
    /// The zone has no ZSK.
    NoKeys,
    /// No ZSK is published at this time.
    Gap(UnixTime),
    /// The last ZSK signs until this time only.
    KeysEnd(UnixTime),
    /// More than a thousand keys.
    TooMany,
}

impl fmt::Display for ScheduleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndsFirst(start) => write!(f, "the end is not after the start, {}", moment(*start)),
            Self::NoKeys => {
                f.write_str("the zone has no ZSK: generate some with `nomen ctl key pregenerate`")
            }
            Self::Gap(at) => write!(f, "no ZSK is to be published at {}", moment(*at)),
            Self::KeysEnd(at) => write!(
                f,
                "the last ZSK is to sign until {}: generate more with `nomen ctl key pregenerate`, or end the \
                 request before",
                moment(*at)
            ),
            Self::TooMany => write!(f, "more than {MAX_KEYS} keys would be generated: end earlier"),
        }
    }
}
impl std::error::Error for ScheduleFault {}

/// The ZSKs of a zone whose KSK is offline, and its responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfflineKeys {
    /// All slots that were accepted.
    pub response: SignedKeyResponse,
    /// The ZSKs, by the time of their first use.
    zsks: Vec<(KeyId, KeySchedule)>,
}

impl OfflineKeys {
    /// Joins the responses of a zone and its ZSKs. A key is in use until the next one begins to sign, and is
    /// published `tail` longer, unless its file has another time; the last one has no end.
    pub fn new(
        response: SignedKeyResponse,
        mut zsks: Vec<(KeyId, KeySchedule)>,
        tail: Duration,
    ) -> OfflineKeys {
        zsks.sort_by_key(|(id, times)| (times.activate, *id));
        let starts: Vec<UnixTime> = zsks.iter().map(|(_, times)| times.activate).collect();
        for (_, times) in &mut zsks {
            let next = starts.iter().find(|start| **start > times.activate).copied();
            let end = next.or(times.inactive.filter(|end| *end <= times.activate));
            times.delete = end.map(|end| match times.delete {
                Some(delete) if delete > end => delete,
                _ => end.saturating_add(tail),
            });
            times.inactive = next.or(times.inactive);
        }
        OfflineKeys { response, zsks }
    }

    /// Returns the ZSKs, by the time of their first use.
    pub fn zsks(&self) -> &[(KeyId, KeySchedule)] {
        &self.zsks
    }

    /// Returns the schedule of a ZSK.
    pub fn schedule(&self, id: KeyId) -> Option<&KeySchedule> {
        self.zsks.iter().find(|(other, _)| *other == id).map(|(_, times)| times)
    }

    /// Returns the ZSKs that are to sign at a time: those that were the last ones to begin. Before the first
    /// one begins, that one.
    pub fn current(&self, now: UnixTime) -> impl Iterator<Item = KeyId> {
        let begun = self.zsks.iter().rev().find(|(_, times)| times.activate <= now);
        let start = begun.or(self.zsks.first()).map(|(_, times)| times.activate);
        self.zsks.iter().filter(move |(_, times)| Some(times.activate) == start).map(|(id, _)| *id)
    }

    /// Returns the ZSKs that are to sign at some time between two times.
    pub(super) fn in_use(&self, from: UnixTime, until: UnixTime) -> impl Iterator<Item = KeyId> {
        let used = self.zsks.iter().filter(move |(_, times)| {
            times.activate < until && times.inactive.is_none_or(|end| end > from || self.is_last(times))
        });
        used.map(|(id, _)| *id)
    }

    fn is_last(&self, times: &KeySchedule) -> bool {
        self.zsks.last().is_some_and(|(_, last)| last.activate == times.activate)
    }

    /// Until when the ZSKs are planned; `None`: without an end, or there are none.
    pub fn keys_end(&self) -> Option<UnixTime> {
        self.zsks.last().and_then(|(_, times)| times.inactive)
    }

    /// Returns when something is to happen next: a slot begins, or a key is to sign.
    pub fn next_event(&self, now: UnixTime) -> Option<UnixTime> {
        let slots = self.response.slots.iter().map(|slot| slot.inception);
        let keys = self.zsks.iter().map(|(_, times)| times.activate);
        slots.chain(keys).filter(|time| *time > now).min()
    }

    /// Returns the schedules of the ZSKs that are missing from now until a time. `in_use_since`: since when
    /// the last key is in use, if its file has no time for it.
    ///
    /// # Errors
    /// [`ScheduleFault`].
    pub fn missing(
        &self,
        policy: &DnssecPolicy,
        times: ScheduleTimes,
        in_use_since: Option<UnixTime>,
        now: UnixTime,
        until: UnixTime,
    ) -> Result<Vec<KeySchedule>, ScheduleFault> {
        if until <= now {
            return Err(ScheduleFault::EndsFirst(now));
        }
        let ScheduleTimes { lead, tail } = times;
        let earliest = now.saturating_add(lead);
        let mut start = match (self.zsks.last(), policy.zsk_lifetime) {
            (None, _) => now,
            (Some((_, last)), lifetime) => {
                let since = in_use_since.unwrap_or(last.activate).max(last.activate);
                let planned = last.inactive.or_else(|| Some(since.saturating_add(lifetime?)));
                match planned {
                    Some(planned) => planned.max(earliest),
                    None => return Ok(Vec::new()),
                }
            }
        };
        let mut missing = Vec::new();
        while start < until {
            if missing.len() == MAX_KEYS {
                return Err(ScheduleFault::TooMany);
            }
            let inactive = policy.zsk_lifetime.map(|lifetime| start.saturating_add(lifetime));
            missing.push(KeySchedule {
                publish: start.saturating_sub(lead),
                activate: start,
                inactive,
                delete: inactive.map(|end| end.saturating_add(tail)),
            });
            match inactive {
                Some(end) if end > start => start = end,
                _ => break,
            }
        }
        Ok(missing)
    }

    /// Returns the request for the time from `from` to `until`; `dnskey_of` returns the DNSKEY record of a
    /// key.
    ///
    /// # Errors
    /// [`ScheduleFault`].
    pub fn request(
        &self,
        from: UnixTime,
        until: UnixTime,
        ttl: Ttl,
        dnskey_of: impl Fn(KeyId) -> Option<Vec<u8>>,
    ) -> Result<KeySigningRequest, ScheduleFault> {
        if until <= from {
            return Err(ScheduleFault::EndsFirst(from));
        }
        let (_, last) = self.zsks.last().ok_or(ScheduleFault::NoKeys)?;
        if let Some(end) = last.inactive.filter(|end| *end < until) {
            return Err(ScheduleFault::KeysEnd(end));
        }
        let (mut slots, mut at) = (Vec::new(), from);
        while at < until {
            let published = self.zsks.iter().filter(|(_, times)| times.is_published(at));
            let dnskeys: Vec<Vec<u8>> = published.filter_map(|(id, _)| dnskey_of(*id)).collect();
            if dnskeys.is_empty() {
                return Err(ScheduleFault::Gap(at));
            }
            slots.push(RequestSlot { inception: at, ttl: Some(ttl), dnskeys });
            let events = self.zsks.iter().flat_map(|(_, times)| [Some(times.publish), times.delete]);
            at = events.flatten().filter(|time| *time > at).min().unwrap_or(until);
        }
        Ok(KeySigningRequest { slots, until: Some(until) })
    }
}
