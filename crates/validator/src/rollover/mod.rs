//! Trust anchors that follow their zones (RFC 5011). No I/O: takes responses and the time, returns changes.
//!
//! A zone whose anchors are followed is a [`TrustPoint`]. Its DNSKEY RRset has to be queried when
//! [`TrustPoints::due`] returns the zone, and the response passed to [`TrustPoints::receive`], which
//! validates it by the anchors of that zone alone. Only this changes the state of a key; neither the passing
//! of time alone nor a response without a valid signature does.
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
use std::time::Duration;

use dnssec::key;
use wire::message::Section;
use wire::rdata::view::Dnskey;
use wire::{Class, Name, NameBuf, Type, UnixTime};

use crate::anchors::TrustAnchors;
use crate::budget::{ValidationBudget, ValidationLimits};
use crate::outcome::BogusReason;
use crate::response::Response;
use crate::settings::ValidationSettings;
use point::Sighting;
pub use point::TrustPoint;
pub use text::TrustTextFault;

/// How long a new key must be seen before it is trusted, and how long a revoked one must be absent before it
/// is removed: 30 days (RFC 5011 §2.4.1, §2.4.2).
pub const HOLD_DOWN: Duration = Duration::from_secs(30 * DAY.as_secs());
const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3600);

/// The state of a key (RFC 5011 §4.2; its Start state is an unknown key).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorState {
    /// Not an anchor yet. Becomes one if it is seen in every response up to this time, and then or later.
    Pending {
        /// The end of the add hold-down time.
        until: UnixTime,
    },
    /// An anchor.
    Valid,
    /// An anchor that was absent from the zone's last response.
    Missing,
    /// Revoked by its holder: never an anchor again.
    Revoked {
        /// Since when it has been absent; `None` while it is present.
        absent: Option<UnixTime>,
    },
    /// Revoked, and absent for the remove hold-down time.
    Removed,
}

impl AnchorState {
    /// Whether the key is an anchor.
    pub fn is_trusted(self) -> bool {
        matches!(self, Self::Valid | Self::Missing)
    }

    /// Whether the key was revoked, and so is never an anchor again.
    pub fn is_revoked(self) -> bool {
        matches!(self, Self::Revoked { .. } | Self::Removed)
    }

    /// The state's name.
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

/// A key of a trust point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchorKey {
    /// RDATA of its DNSKEY, with REVOKE clear.
    pub(crate) rdata: Vec<u8>,
    /// Its state.
    pub state: AnchorState,
    /// When it entered the state.
    pub since: UnixTime,
}

impl AnchorKey {
    /// Its key tag. The tag of the revoked key differs, since REVOKE is part of the sum.
    pub fn tag(&self) -> u16 {
        Dnskey::read(&self.rdata).map_or(0, |key| key::tag(&key))
    }

    /// The number of its algorithm.
    pub fn algorithm(&self) -> u8 {
        Dnskey::read(&self.rdata).map_or(0, |key| key.algorithm.0)
    }
}

/// A state change of a key (RFC 5011 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorEvent {
    /// A configured key was seen for the first time.
    Found,
    /// A new key appeared; it becomes an anchor at this time if it stays.
    Appeared(UnixTime),
    /// A pending key disappeared.
    Withdrawn,
    /// A pending key was present long enough and is now an anchor.
    Accepted,
    /// An anchor disappeared.
    Missed,
    /// A missing anchor reappeared.
    Returned,
    /// A key was revoked and is no longer an anchor.
    Revoked,
    /// A revoked key was absent long enough and is removed.
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

/// A state change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnchorChange {
    /// Its zone.
    pub zone: NameBuf,
    /// Its tag, with REVOKE clear.
    pub tag: u16,
    /// What happened.
    pub event: AnchorEvent,
}

/// The result of a DNSKEY response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnchorReport {
    /// State changes.
    pub changes: Vec<AnchorChange>,
    /// Why the rest of the response was ignored, if it was. A key that revokes itself needs no other key's
    /// signature.
    pub fault: Option<BogusReason>,
}

/// The zones whose anchors are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustPoints {
    zones: BTreeMap<NameBuf, TrustPoint>,
}

impl TrustPoints {
    /// Follows these zones and no others. Each continues from its stored state, or else from its anchors in
    /// `configured`.
    ///
    /// If an anchor was configured when the state was stored and no longer is, the operator has withdrawn
    /// trust: learned keys are then dropped. Revoked keys stay revoked.
    pub fn follow(&mut self, configured: &TrustAnchors, mut wanted: impl FnMut(Name<'_>) -> bool) {
        let mut known = std::mem::take(&mut self.zones);
        for (zone, ds) in configured.positive().filter(|(zone, _)| wanted(zone.as_name())) {
            let mut point = known.remove(zone).unwrap_or_default();
            point.configure(zone.as_name(), ds);
            self.zones.insert(*zone, point);
        }
    }

    /// Each zone with its trust point.
    pub fn iter(&self) -> impl Iterator<Item = (&NameBuf, &TrustPoint)> {
        self.zones.iter()
    }

    /// The zones whose DNSKEY are due for a query at `now`.
    pub fn due(&self, now: UnixTime) -> Vec<NameBuf> {
        self.zones.iter().filter(|(_, point)| point.left(now).is_zero()).map(|(zone, _)| *zone).collect()
    }

    /// Makes all zones due at once after the clock was set, since their due times were computed with the old
    /// time.
    pub fn clock_was_put(&mut self) {
        self.zones.values_mut().for_each(TrustPoint::refresh);
    }

    /// The time from `now` until a zone is due; `None` if no zone is followed.
    pub fn wait(&self, now: UnixTime) -> Option<Duration> {
        self.zones.values().map(|point| point.left(now)).min()
    }

    /// Processes the response to a DNSKEY query for a zone, whatever its content.
    pub fn receive(
        &mut self,
        zone: Name<'_>,
        response: &Response,
        settings: &ValidationSettings,
        now: UnixTime,
    ) -> AnchorReport {
        let Some(point) = self.zones.get_mut(&zone.to_buf()) else { return AnchorReport::default() };
        let asked =
            response.name.as_name() == zone && response.qtype == Type::DNSKEY && response.qclass == Class::IN;
        let at = response.find(Section::Answer, zone, Type::DNSKEY).filter(|_| asked);
        let mut report = AnchorReport::default();
        let mut budget = ValidationBudget::new(ValidationLimits::default());
        match at.and_then(|at| response.sets.get(at)) {
            Some(set) => point.receive(&Sighting { zone, set, settings, now }, &mut budget, &mut report),
            None => report.fault = Some(BogusReason::NoDnskey),
        }
        if report.fault.is_some() {
            point.failed(now);
        }
        report
    }

    /// Records that the DNSKEY query for a zone failed.
    pub fn failed(&mut self, zone: Name<'_>, now: UnixTime) {
        if let Some(point) = self.zones.get_mut(&zone.to_buf()) {
            point.failed(now);
        }
    }

    /// The anchors in force: `configured`, with those of followed zones replaced by their current ones.
    pub fn in_force(&self, configured: &TrustAnchors) -> TrustAnchors {
        let mut anchors = configured.clone();
        self.zones.iter().for_each(|(zone, point)| anchors.replace(*zone, point.anchors(zone.as_name())));
        anchors
    }
}
