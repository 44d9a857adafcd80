//! Trust anchors that follow their zones (RFC 5011), without I/O: responses and the time go in, changes come
//! out.
//!
//! A zone whose anchors are followed is a [`TrustPoint`]. Its DNSKEY are asked for when [`TrustPoints::due`]
//! says so, and what comes goes to [`TrustPoints::receive`], which validates it by the anchors of that zone
//! alone. Nothing else moves a key from one state to the next: no time that passes does, and no answer
//! without a good signature.
//!
//! ```text
//!   seen for the first time         30 days later, still there        revoked by itself          gone for 30 days
//!            └──────▶ pending ──────────────▶ valid ◀──────▶ missing ──────▶ revoked ──────────────────▶ removed
//!                        └─▶ forgotten, if it is gone in between
//! ```

mod point;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use wire::message::Section;
use wire::rdata::view::Dnskey;
use wire::{Class, Name, NameBuf, Type};

use crate::anchors::TrustAnchors;
use crate::budget::{ValidationBudget, ValidationLimits};
use crate::key;
use crate::outcome::BogusReason;
use crate::response::Response;
use crate::settings::ValidationSettings;
pub use point::TrustPoint;
pub use text::TrustTextFault;

/// Seconds for which a new key must be seen before it is trusted, and for which a revoked one must be gone
/// before it is forgotten: 30 days (RFC 5011 §2.4.1, §2.4.2).
pub const HOLD_DOWN: u64 = 30 * DAY;
const DAY: u64 = 86_400;
const HOUR: u64 = 3600;

/// What a key is to its zone (RFC 5011 §4.2; what it calls Start is a key of which nothing is known).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorState {
    /// It is no anchor yet, but becomes one when it is seen at that time, in seconds since 1970, or later,
    /// and always before.
    Pending {
        /// That time.
        until: u64,
    },
    /// It is an anchor.
    Valid,
    /// It is an anchor, and was not there when its zone was asked last.
    Missing,
    /// Its holder has revoked it, so it is an anchor no more, for ever.
    Revoked {
        /// Since when it has not been there, in seconds since 1970, if it is gone.
        absent: Option<u64>,
    },
    /// The same, and it has been gone for long.
    Removed,
}

impl AnchorState {
    /// Whether it is an anchor.
    pub fn is_trusted(self) -> bool {
        matches!(self, Self::Valid | Self::Missing)
    }

    /// Whether it was one, and never is again.
    pub fn is_revoked(self) -> bool {
        matches!(self, Self::Revoked { .. } | Self::Removed)
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Valid => "valid",
            Self::Missing => "missing",
            Self::Revoked { .. } => "revoked",
            Self::Removed => "removed",
        }
    }
}

/// A key of a zone whose anchors are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchorKey {
    /// RDATA of its DNSKEY, with REVOKE clear.
    pub(crate) rdata: Vec<u8>,
    /// What it is.
    pub state: AnchorState,
    /// Since when, in seconds since 1970.
    pub since: u64,
}

impl AnchorKey {
    /// Its tag. That of the revoked key differs, since REVOKE is one of the bits that are summed up.
    pub fn tag(&self) -> u16 {
        Dnskey::read(&self.rdata).map_or(0, |key| key::tag(&key))
    }

    /// The number of its algorithm.
    pub fn algorithm(&self) -> u8 {
        Dnskey::read(&self.rdata).map_or(0, |key| key.algorithm.0)
    }
}

/// What happened to a key (RFC 5011 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorEvent {
    /// It is one of those that were configured, and was seen for the first time.
    Found,
    /// It is new: an anchor from this time on, in seconds since 1970, if it stays.
    Appeared(u64),
    /// It was new, and has gone again.
    Withdrawn,
    /// It has been there for long enough: it is an anchor.
    Accepted,
    /// It is an anchor, and has gone.
    Missed,
    /// It is there again.
    Returned,
    /// It was revoked: it is an anchor no more.
    Revoked,
    /// It was revoked and has been gone for long.
    Removed,
}

impl fmt::Display for AnchorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Found => "the zone has it",
            Self::Appeared(_) => "it is new, and will be an anchor if it stays for the hold-down time",
            Self::Withdrawn => "it is gone before it became an anchor",
            Self::Accepted => "it is an anchor from now on",
            Self::Missed => {
                "the zone does not have it any more; it stays an anchor, since it was not revoked"
            }
            Self::Returned => "the zone has it again",
            Self::Revoked => "it was revoked, and is an anchor no more",
            Self::Removed => "it was revoked and has been gone for the hold-down time",
        })
    }
}

/// What happened to which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnchorChange {
    /// Its zone.
    pub zone: NameBuf,
    /// Its tag, with REVOKE clear.
    pub tag: u16,
    /// What happened.
    pub event: AnchorEvent,
}

/// What a zone's DNSKEY have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnchorReport {
    /// What changed.
    pub changes: Vec<AnchorChange>,
    /// Why the rest counts for nothing, if it does. A key that revokes itself needs no other key's signature.
    pub fault: Option<BogusReason>,
}

/// The zones whose anchors are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustPoints {
    zones: BTreeMap<NameBuf, TrustPoint>,
}

impl TrustPoints {
    /// Follows these zones and no others, each from what is known of it, or else from its anchors in
    /// `configured`.
    ///
    /// If other anchors were configured when that became known, and not all of them are now, the operator has
    /// taken trust away: then keys that were learned count no more. What was revoked stays revoked.
    pub fn follow(&mut self, configured: &TrustAnchors, mut wanted: impl FnMut(Name<'_>) -> bool) {
        let mut known = std::mem::take(&mut self.zones);
        for (zone, ds) in configured.positive().filter(|(zone, _)| wanted(zone.as_name())) {
            let mut point = known.remove(zone).unwrap_or_default();
            point.configure(zone.as_name(), ds);
            self.zones.insert(*zone, point);
        }
    }

    /// Each zone, and what is known of it.
    pub fn iter(&self) -> impl Iterator<Item = (&NameBuf, &TrustPoint)> {
        self.zones.iter()
    }

    /// The zones whose DNSKEY are to be asked for at `now`, in seconds since 1970.
    pub fn due(&self, now: u64) -> Vec<NameBuf> {
        self.zones.iter().filter(|(_, point)| point.left(now) == 0).map(|(zone, _)| *zone).collect()
    }

    /// The clock was put to another time: the keys of all zones are to be asked for at once, since when that
    /// is due was reckoned by the time before.
    pub fn clock_was_put(&mut self) {
        self.zones.values_mut().for_each(TrustPoint::refresh);
    }

    /// Seconds from `now` until there is one; `None` if no zone is followed.
    pub fn wait(&self, now: u64) -> Option<u64> {
        self.zones.values().map(|point| point.left(now)).min()
    }

    /// Takes the response to a question for the DNSKEY of a zone, be it what it may, at `now` in seconds
    /// since 1970.
    pub fn receive(
        &mut self,
        zone: Name<'_>,
        response: &Response,
        settings: &ValidationSettings,
        now: u64,
    ) -> AnchorReport {
        let Some(point) = self.zones.get_mut(&zone.to_buf()) else { return AnchorReport::default() };
        let asked =
            response.name.as_name() == zone && response.qtype == Type::DNSKEY && response.qclass == Class::IN;
        let at = response.find(Section::Answer, zone, Type::DNSKEY).filter(|_| asked);
        let mut report = AnchorReport::default();
        let mut budget = ValidationBudget::new(ValidationLimits::default());
        match at.and_then(|at| response.sets.get(at)) {
            Some(set) => point.receive(zone, set, (settings, now), &mut budget, &mut report),
            None => report.fault = Some(BogusReason::NoDnskey),
        }
        if report.fault.is_some() {
            point.failed(now);
        }
        report
    }

    /// The DNSKEY of a zone could not be had.
    pub fn failed(&mut self, zone: Name<'_>, now: u64) {
        if let Some(point) = self.zones.get_mut(&zone.to_buf()) {
            point.failed(now);
        }
    }

    /// The anchors that count, where these are configured: those of zones that are followed are put in their
    /// place.
    pub fn in_force(&self, configured: &TrustAnchors) -> TrustAnchors {
        let mut anchors = configured.clone();
        self.zones.iter().for_each(|(zone, point)| anchors.replace(*zone, point.anchors(zone.as_name())));
        anchors
    }
}
