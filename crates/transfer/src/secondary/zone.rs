//! The timers of one secondary zone (RFC 1034 §4.3.5, RFC 1996 §3.11): when to query which primary.
//!
//! ```text
//! due, NOTIFY, by hand ─▶ Probe ─ newer ─▶ Transfer IXFR ─ cannot ─▶ Transfer AXFR ─▶ refreshed
//!                           │ same serial ─▶ refreshed
//!                           └ fault, here or later ─▶ the next primary; after the last one, retry
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use transport::EncryptionFault;
use wire::rdata::view::SoaNumbers;
use wire::{Rcode, Serial, UnixTime};

use super::queries::SoaReply;
use super::{RandomNumbers, with_jitter};
use crate::incoming::{AskedFor, TransferFault, TransferLimit};

/// Configuration of a secondary zone; times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondaryRules {
    /// Number of primaries, at least one; each is identified by its index in the configured list.
    pub primaries: usize,
    /// Whether to request IXFR.
    pub ixfr: bool,
    /// Bounds on the SOA's REFRESH.
    pub refresh: RangeInclusive<u32>,
    /// Bounds on the SOA's RETRY. A zone that was never loaded is retried after the lower bound, then after
    /// twice that, and so on up to the upper bound.
    pub retry: RangeInclusive<u32>,
    /// Bounds on the SOA's EXPIRE.
    pub expire: RangeInclusive<u32>,
}

impl Default for SecondaryRules {
    /// One primary; refresh and retry between ten seconds and 28 days, expire as in the SOA.
    fn default() -> Self {
        SecondaryRules {
            primaries: 1,
            ixfr: true,
            refresh: 10..=2_419_200,
            retry: 10..=1_209_600,
            expire: 0..=u32::MAX,
        }
    }
}

/// The state of a secondary zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondaryState {
    /// No version was ever loaded.
    NeverLoaded,
    /// A primary confirmed the version within the refresh time.
    Fresh,
    /// No primary has confirmed the version within the refresh time.
    Stale,
    /// No primary has confirmed the version within the expire time: the zone must not be served (RFC 1034
    /// §4.3.5).
    Expired,
}

/// Why a primary failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecondaryFault {
    /// The primary was unreachable or timed out.
    Unreachable,
    /// The primary refused the connection, or nothing listens on its port.
    Refused,
    /// There is no encrypted connection to the primary, which is not asked in the clear.
    Insecure(EncryptionFault),
    /// The primary closed the connection before the transfer was complete.
    BrokenOff,
    /// The primary has an older version than ours.
    Behind {
        /// Its version.
        theirs: Serial,
        /// Ours.
        ours: Serial,
    },
    /// The primary's response was faulty.
    Transfer(TransferFault),
    /// The caller rejects the primary's version, for this reason.
    VersionRefused(Box<str>),
}

impl fmt::Display for SecondaryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("no answer"),
            Self::Refused => f.write_str("connection refused"),
            Self::Insecure(fault) => fault.fmt(f),
            Self::BrokenOff => f.write_str("it ended the connection before the transfer was over"),
            Self::Behind { theirs, ours } => write!(f, "its serial {theirs} is older than ours, {ours}"),
            Self::Transfer(fault) => fmt::Display::fmt(fault, f),
            Self::VersionRefused(why) => write!(f, "its version is refused: {why}"),
        }
    }
}

/// An action for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondaryAction {
    /// Send an SOA query to this primary.
    Probe {
        /// Its index.
        primary: usize,
    },
    /// Request a transfer from this primary.
    Transfer {
        /// Its index.
        primary: usize,
        /// The whole zone, or the changes.
        asked: AskedFor,
    },
    /// Stop serving the zone.
    Expire,
}

/// An event. The first four are results of the last action.
#[derive(Clone, Debug)]
pub enum SecondaryEvent {
    /// The primary's response to the SOA query.
    Probed(SoaReply),
    /// The transfer brought this version, which is now served, and the seconds of EXPIRE, if sent (RFC 7314).
    Transferred(SoaNumbers, Option<u32>),
    /// The primary's response to the transfer request was that ours is the newest version, with the seconds
    /// of EXPIRE, if sent (RFC 7314).
    Unchanged(Option<u32>),
    /// The primary failed.
    Failed(SecondaryFault),
    /// A primary sent NOTIFY, with its serial if it has an SOA (RFC 1996 §3.7).
    Notified {
        /// Its index; `None` if the sender is identified only by its key.
        primary: Option<usize>,
        /// Its version.
        serial: Option<Serial>,
    },
    /// The operator requests a check for a newer version.
    Refresh,
    /// The operator requests a transfer of the whole zone, whatever its serial.
    Retransfer,
}

/// Work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Probing,
    Transferring(AskedFor),
}

/// Work requested for after the work under way.
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    wanted: bool,
    /// The primary to start with.
    primary: Option<usize>,
    /// Transfer the whole zone, whatever the serial.
    whole: bool,
}

/// The timers of one zone; see the module.
#[derive(Debug)]
pub struct SecondaryZone {
    rules: Arc<SecondaryRules>,
    soa: Option<SoaNumbers>,
    /// When a primary last confirmed that our version is the newest.
    checked: UnixTime,
    /// When the zone's first primary last confirmed the version, as far as known: the zone expires the SOA's
    /// EXPIRE seconds after that. A primary that is itself a secondary sends the remaining time in EXPIRE
    /// (RFC 7314).
    vouched: UnixTime,
    /// When to query again, unless work is under way.
    next: UnixTime,
    phase: Phase,
    /// The primary queried now, or first the next time; and the number of primaries tried.
    primary: usize,
    tried: usize,
    whole: bool,
    wish: Wish,
    /// Consecutive rounds in which every primary failed.
    failures: u32,
    expired: bool,
    last_fault: Option<Box<LastFault>>,
}

/// The last fault of a zone's primaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFault {
    /// Its time.
    pub at: UnixTime,
    /// The primary's index.
    pub primary: usize,
    /// The fault.
    pub fault: SecondaryFault,
}

impl SecondaryZone {
    /// A zone without a version: a query is due at once. Zones may share their rules.
    pub fn new(rules: impl Into<Arc<SecondaryRules>>, now: UnixTime) -> SecondaryZone {
        SecondaryZone {
            rules: rules.into(),
            soa: None,
            checked: UnixTime::EPOCH,
            vouched: UnixTime::EPOCH,
            next: now,
            phase: Phase::Idle,
            primary: 0,
            tried: 0,
            whole: false,
            wish: Wish::default(),
            failures: 0,
            expired: false,
            last_fault: None,
        }
    }

    /// A zone loaded from storage, whose first primary [confirmed](Self::vouched) the version at `vouched`.
    pub fn kept(
        rules: impl Into<Arc<SecondaryRules>>,
        soa: SoaNumbers,
        vouched: UnixTime,
        random: RandomNumbers<'_>,
    ) -> SecondaryZone {
        let mut zone = SecondaryZone::new(rules, vouched);
        zone.soa = Some(soa);
        (zone.checked, zone.vouched) = (vouched, vouched);
        zone.next = vouched.saturating_add(with_jitter(zone.refresh(), random));
        zone
    }

    /// Applies other rules, which may have other primaries. Results of work under way are ignored, and the
    /// work starts again.
    pub fn under(mut self, rules: impl Into<Arc<SecondaryRules>>, now: UnixTime) -> SecondaryZone {
        if self.phase != Phase::Idle || self.last_fault.is_some() || self.soa.is_none() {
            self.next = now;
        }
        (self.phase, self.primary, self.last_fault, self.failures) = (Phase::Idle, 0, None, 0);
        self.wish.primary = None;
        self.rules = rules.into();
        self
    }

    /// When [`poll`](Self::poll) has an action, unless an event comes first; `None` if an event must.
    pub fn due(&self) -> Option<UnixTime> {
        match (self.phase, self.expires()) {
            (Phase::Idle, Some(expires)) => Some(self.next.min(expires)),
            (Phase::Idle, None) => Some(self.next),
            (_, expires) => expires,
        }
    }

    /// The state of the zone at `now`.
    pub fn state(&self, now: UnixTime) -> SecondaryState {
        match self.soa {
            None => SecondaryState::NeverLoaded,
            Some(_) if self.expired => SecondaryState::Expired,
            Some(_) if now > self.checked.saturating_add(self.refresh()) => SecondaryState::Stale,
            Some(_) => SecondaryState::Fresh,
        }
    }

    /// SOA numbers of our version.
    pub fn soa(&self) -> Option<SoaNumbers> {
        self.soa
    }

    /// When a primary last confirmed that our version is the newest; `None` without a version.
    pub fn checked(&self) -> Option<UnixTime> {
        self.soa.map(|_| self.checked)
    }

    /// When the zone's first primary last confirmed our version, as far as known; this timer has to be
    /// stored. Without EXPIRE (RFC 7314) it is when a primary last confirmed that our version is the newest.
    /// `None` without a version.
    pub fn vouched(&self) -> Option<UnixTime> {
        self.soa.map(|_| self.vouched)
    }

    /// When primaries are queried again, unless work is under way.
    pub fn next(&self) -> UnixTime {
        self.next
    }

    /// When the zone expires; `None` if it has expired, or has no version.
    pub fn expires(&self) -> Option<UnixTime> {
        let soa = self.soa.filter(|_| !self.expired)?;
        Some(self.vouched.saturating_add(self.life(soa)))
    }

    /// How long a version with this SOA may be served after its first primary confirmed it.
    fn life(&self, soa: SoaNumbers) -> Duration {
        within(soa.expire, &self.rules.expire)
    }

    /// Whether any serial is accepted: the operator has requested it, or there is no version yet.
    pub fn takes_any_serial(&self) -> bool {
        self.whole || self.soa.is_none()
    }

    /// Whether a primary is being queried.
    pub fn is_under_way(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Returns the last fault; `None` once a primary has succeeded again.
    pub fn last_fault(&self) -> Option<&LastFault> {
        self.last_fault.as_deref()
    }

    /// Returns the action due at `now`.
    pub fn poll(&mut self, now: UnixTime) -> Option<SecondaryAction> {
        if self.expires().is_some_and(|expires| now >= expires) {
            self.expired = true;
            return Some(SecondaryAction::Expire);
        }
        (self.phase == Phase::Idle && now >= self.next).then(|| self.begin())
    }

    /// Handles an event, and returns the action that follows.
    pub fn event(
        &mut self,
        event: SecondaryEvent,
        now: UnixTime,
        random: RandomNumbers<'_>,
    ) -> Option<SecondaryAction> {
        match event {
            SecondaryEvent::Probed(reply) => self.probed(reply, now, random),
            SecondaryEvent::Transferred(soa, expire) => {
                // The remaining time of the previous version does not count.
                (self.soa, self.vouched) = (Some(soa), UnixTime::EPOCH);
                self.refreshed(expire, now, random)
            }
            SecondaryEvent::Unchanged(expire) => self.refreshed(expire, now, random),
            SecondaryEvent::Failed(fault) => self.failed(fault, now, random),
            SecondaryEvent::Notified { primary, serial } => {
                let known = self.soa.zip(serial).and_then(|(soa, serial)| serial.compare(soa.serial));
                if matches!(known, Some(Ordering::Less | Ordering::Equal)) {
                    return None;
                }
                self.wanted(Wish { wanted: true, primary, whole: false })
            }
            SecondaryEvent::Refresh => self.wanted(Wish { wanted: true, primary: None, whole: false }),
            SecondaryEvent::Retransfer => self.wanted(Wish { wanted: true, primary: None, whole: true }),
        }
    }

    /// Starts work at once, or after the work under way; requests in the meantime are merged into one.
    fn wanted(&mut self, wish: Wish) -> Option<SecondaryAction> {
        let whole = wish.whole || self.wish.whole;
        self.wish = Wish { wanted: true, primary: wish.primary.or(self.wish.primary), whole };
        (self.phase == Phase::Idle).then(|| self.begin())
    }

    /// Starts a round with the requested primary, or with the one that succeeded last.
    fn begin(&mut self) -> SecondaryAction {
        let wish = std::mem::take(&mut self.wish);
        self.tried = 0;
        self.whole = wish.whole;
        if let Some(primary) = wish.primary.filter(|primary| *primary < self.rules.primaries) {
            self.primary = primary;
        }
        self.ask()
    }

    /// Queries the current primary: for its SOA, unless the transfer is needed in any case.
    fn ask(&mut self) -> SecondaryAction {
        let primary = self.primary;
        if self.soa.is_none() || self.whole {
            self.phase = Phase::Transferring(AskedFor::Axfr);
            return SecondaryAction::Transfer { primary, asked: AskedFor::Axfr };
        }
        self.phase = Phase::Probing;
        SecondaryAction::Probe { primary }
    }

    fn probed(
        &mut self,
        SoaReply { serial: theirs, expire }: SoaReply,
        now: UnixTime,
        random: RandomNumbers<'_>,
    ) -> Option<SecondaryAction> {
        if self.phase != Phase::Probing {
            return None;
        }
        let asked = match self.soa.map(|soa| (soa.serial, theirs.compare(soa.serial))) {
            Some((_, Some(Ordering::Equal))) => return self.refreshed(expire, now, random),
            Some((ours, Some(Ordering::Less))) => {
                return self.failed(SecondaryFault::Behind { theirs, ours }, now, random);
            }
            Some((ours, _)) if self.rules.ixfr => AskedFor::Ixfr(ours),
            _ => AskedFor::Axfr,
        };
        self.phase = Phase::Transferring(asked);
        Some(SecondaryAction::Transfer { primary: self.primary, asked })
    }

    /// A primary confirmed that our version is the newest, perhaps with its remaining seconds. These count up
    /// to the SOA's expire, and do not shorten our own remaining time (RFC 7314 §4).
    fn refreshed(
        &mut self,
        expire: Option<u32>,
        now: UnixTime,
        random: RandomNumbers<'_>,
    ) -> Option<SecondaryAction> {
        let life = self.soa.map_or(Duration::ZERO, |soa| self.life(soa));
        let left = expire.map_or(life, |left| life.min(Duration::from_secs(left.into())));
        let vouched = now.saturating_sub(life - left);
        self.vouched = if self.expired { vouched } else { vouched.max(self.vouched) };
        self.checked = now;
        self.failures = 0;
        self.expired = self.vouched.saturating_add(life) <= now;
        self.last_fault = None;
        self.next = now.saturating_add(with_jitter(self.refresh(), random));
        self.end_of_round()
    }

    fn failed(
        &mut self,
        fault: SecondaryFault,
        now: UnixTime,
        random: RandomNumbers<'_>,
    ) -> Option<SecondaryAction> {
        let (Phase::Probing | Phase::Transferring(_)) = self.phase else { return None };
        let instead = matches!(self.phase, Phase::Transferring(AskedFor::Ixfr(_))) && asks_for_axfr(&fault);
        self.last_fault = Some(Box::new(LastFault { at: now, primary: self.primary, fault }));
        if instead {
            self.phase = Phase::Transferring(AskedFor::Axfr);
            return Some(SecondaryAction::Transfer { primary: self.primary, asked: AskedFor::Axfr });
        }
        self.tried += 1;
        self.primary = (self.primary + 1) % self.rules.primaries.max(1);
        if self.tried < self.rules.primaries {
            return Some(self.ask());
        }
        let wait = self.retry();
        self.failures = self.failures.saturating_add(1);
        self.next = now.saturating_add(with_jitter(wait, random).max(Duration::from_secs(1)));
        self.end_of_round()
    }

    fn end_of_round(&mut self) -> Option<SecondaryAction> {
        self.phase = Phase::Idle;
        self.wish.wanted.then(|| self.begin())
    }

    fn refresh(&self) -> Duration {
        self.soa.map_or(Duration::ZERO, |soa| within(soa.refresh, &self.rules.refresh))
    }

    /// The wait after a round in which every primary failed.
    fn retry(&self) -> Duration {
        match self.soa {
            Some(soa) => within(soa.retry, &self.rules.retry),
            None => {
                let least = (*self.rules.retry.start()).max(1) as u64;
                let most = *self.rules.retry.end() as u64;
                Duration::from_secs((least << self.failures.min(30)).min(most).max(1))
            }
        }
    }
}

/// Whether to try AXFR after IXFR failed: the primary does not support IXFR, or its differences do not apply.
/// Other faults would recur with AXFR.
fn asks_for_axfr(fault: &SecondaryFault) -> bool {
    matches!(
        fault,
        SecondaryFault::Transfer(
            TransferFault::Rcode(Rcode::NOTIMP | Rcode::FORMERR | Rcode::SERVFAIL)
                | TransferFault::BrokenChain { .. }
                | TransferFault::Malformed
                | TransferFault::NoSoa
                | TransferFault::OtherLastSoa
                | TransferFault::AfterEnd
                | TransferFault::Limit(
                    TransferLimit::Records
                        | TransferLimit::Bytes
                        | TransferLimit::Messages
                        | TransferLimit::Differences
                )
                | TransferFault::Unfit(_)
                | TransferFault::BadZone(_)
                | TransferFault::NoZone(_)
                | TransferFault::Digest(_)
        )
    )
}

fn within(seconds: u32, bounds: &RangeInclusive<u32>) -> Duration {
    Duration::from_secs(seconds.min(*bounds.end()).max(*bounds.start()).into())
}
