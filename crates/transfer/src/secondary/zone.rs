//! The timers of one secondary zone (RFC 1034 §4.3.5, RFC 1996 §3.11): when it asks which primary for what.
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

use wire::rdata::view::SoaNumbers;
use wire::{Rcode, Serial};

use super::queries::SoaReply;
use super::{RandomNumbers, with_jitter};
use crate::incoming::{AskedFor, TransferFault, TransferLimit};

/// What holds for a secondary zone; times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondaryRules {
    /// Number of primaries, at least one; each is known by its place in the operator's list.
    pub primaries: usize,
    /// Whether differences are asked for.
    pub ixfr: bool,
    /// Bounds on the SOA's REFRESH.
    pub refresh: RangeInclusive<u32>,
    /// Bounds on the SOA's RETRY. A zone that was never loaded is tried again after the lower one, then twice
    /// that, and so on up to the upper one.
    pub retry: RangeInclusive<u32>,
    /// Bounds on the SOA's EXPIRE.
    pub expire: RangeInclusive<u32>,
}

impl Default for SecondaryRules {
    /// One primary; refresh and retry between ten seconds and 28 days, expire as the SOA has it.
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

/// How a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondaryState {
    /// There has been no version yet.
    NeverLoaded,
    /// Some primary was asked within the refresh time.
    Fresh,
    /// No primary could be asked since then.
    Stale,
    /// No primary could be asked within the expire time: the zone is not to be served (RFC 1034 §4.3.5).
    Expired,
}

/// Why a primary was of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecondaryFault {
    /// It could not be reached, or did not answer in time.
    Unreachable,
    /// It refused the connection, or nothing listens on its port.
    Refused,
    /// It ended the connection before the transfer was over.
    BrokenOff,
    /// It has an older version than we do.
    Behind {
        /// Its version.
        theirs: Serial,
        /// Ours.
        ours: Serial,
    },
    /// What it answered.
    Transfer(TransferFault),
    /// The caller does not take its version, for this reason.
    VersionRefused(Box<str>),
}

impl fmt::Display for SecondaryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("no answer"),
            Self::Refused => f.write_str("connection refused"),
            Self::BrokenOff => f.write_str("it ended the connection before the transfer was over"),
            Self::Behind { theirs, ours } => write!(f, "its serial {theirs} is older than ours, {ours}"),
            Self::Transfer(fault) => fmt::Display::fmt(fault, f),
            Self::VersionRefused(why) => write!(f, "its version is refused: {why}"),
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondaryAction {
    /// Ask this primary for its SOA.
    Probe {
        /// Which one.
        primary: usize,
    },
    /// Ask this primary for the zone.
    Transfer {
        /// Which one.
        primary: usize,
        /// For all of it, or what changed.
        asked: AskedFor,
    },
    /// Stop serving the zone.
    Expire,
}

/// What happened. The first four answer the last action.
#[derive(Clone, Debug)]
pub enum SecondaryEvent {
    /// What the primary has.
    Probed(SoaReply),
    /// The transfer brought this version, which is now served, and perhaps for how many seconds it may be
    /// (RFC 7314).
    Transferred(SoaNumbers, Option<u32>),
    /// Asked for the zone, the primary said that ours is the newest version, and perhaps for how many seconds
    /// it may be served (RFC 7314).
    Unchanged(Option<u32>),
    /// The primary was of no use.
    Failed(SecondaryFault),
    /// A primary announces a change, perhaps with its serial (RFC 1996 §3.7).
    Notified {
        /// Which one; `None` where the sender is known by a key only.
        primary: Option<usize>,
        /// Its version.
        serial: Option<Serial>,
    },
    /// The operator wants it looked for a newer version.
    Refresh,
    /// The operator wants all of the zone, whatever its serial.
    Retransfer,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Probing,
    Transferring(AskedFor),
}

/// What is to follow what is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    wanted: bool,
    /// The primary to begin with.
    primary: Option<usize>,
    /// All of it, whatever the serial.
    whole: bool,
}

/// The timers of one zone; see the module. Times are in seconds since 1970.
#[derive(Debug)]
pub struct SecondaryZone {
    rules: Arc<SecondaryRules>,
    soa: Option<SoaNumbers>,
    /// When a primary last said that our version is the newest.
    checked: u64,
    /// When the zone's first primary vouched for it, as far as is known: it expires so long after that as its
    /// SOA says. A primary that is a secondary itself says with EXPIRE (RFC 7314) how much of that time is
    /// left.
    vouched: u64,
    /// When to ask again, unless something is under way.
    next: u64,
    phase: Phase,
    /// The primary asked now, or asked first the next time; and how many have been asked.
    primary: usize,
    tried: usize,
    whole: bool,
    wish: Wish,
    /// Rounds in a row in which no primary was of use.
    failures: u32,
    expired: bool,
    last_fault: Option<Box<(u64, usize, SecondaryFault)>>,
}

impl SecondaryZone {
    /// A zone of which there is no version yet: it asks at once. Many zones may share their rules.
    pub fn new(rules: impl Into<Arc<SecondaryRules>>, now: u64) -> SecondaryZone {
        SecondaryZone {
            rules: rules.into(),
            soa: None,
            checked: 0,
            vouched: 0,
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

    /// A zone that was kept, in a version that its first primary [vouched](Self::vouched) for at `vouched`.
    pub fn kept(
        rules: impl Into<Arc<SecondaryRules>>,
        soa: SoaNumbers,
        vouched: u64,
        random: RandomNumbers<'_>,
    ) -> SecondaryZone {
        let mut zone = SecondaryZone::new(rules, vouched);
        zone.soa = Some(soa);
        (zone.checked, zone.vouched) = (vouched, vouched);
        zone.next = vouched.saturating_add(with_jitter(zone.refresh(), random));
        zone
    }

    /// The same zone under other rules, which may have other primaries. What was under way counts no longer,
    /// and begins anew.
    pub fn under(mut self, rules: impl Into<Arc<SecondaryRules>>, now: u64) -> SecondaryZone {
        if self.phase != Phase::Idle || self.last_fault.is_some() || self.soa.is_none() {
            self.next = now;
        }
        (self.phase, self.primary, self.last_fault, self.failures) = (Phase::Idle, 0, None, 0);
        self.wish.primary = None;
        self.rules = rules.into();
        self
    }

    /// When [`poll`](Self::poll) has something to do, unless an event comes before.
    pub fn due(&self) -> u64 {
        match (self.phase, self.expires()) {
            (Phase::Idle, Some(expires)) => self.next.min(expires),
            (Phase::Idle, None) => self.next,
            (_, Some(expires)) => expires,
            (_, None) => u64::MAX,
        }
    }

    /// How the zone is at `now`.
    pub fn state(&self, now: u64) -> SecondaryState {
        match self.soa {
            None => SecondaryState::NeverLoaded,
            Some(_) if self.expired => SecondaryState::Expired,
            Some(_) if now > self.checked.saturating_add(self.refresh()) => SecondaryState::Stale,
            Some(_) => SecondaryState::Fresh,
        }
    }

    /// Our version.
    pub fn soa(&self) -> Option<SoaNumbers> {
        self.soa
    }

    /// When a primary last said that our version is the newest; `None` without a version.
    pub fn checked(&self) -> Option<u64> {
        self.soa.map(|_| self.checked)
    }

    /// When the zone's first primary vouched for our version, as far as is known: what is to be kept of the
    /// timers. Without EXPIRE (RFC 7314) this is when a primary last said that it is the newest. `None`
    /// without a version.
    pub fn vouched(&self) -> Option<u64> {
        self.soa.map(|_| self.vouched)
    }

    /// When primaries are asked again, unless something is under way.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// When the zone expires; `None` if it has, or without a version.
    pub fn expires(&self) -> Option<u64> {
        let soa = self.soa.filter(|_| !self.expired)?;
        Some(self.vouched.saturating_add(self.life(soa)))
    }

    /// Seconds for which a version with this SOA may be served, from when its first primary vouches for it.
    fn life(&self, soa: SoaNumbers) -> u64 {
        within(soa.expire, &self.rules.expire)
    }

    /// Whether the zone is asked for whatever its serial: the operator has ordered it, or there is no version
    /// yet.
    pub fn takes_any_serial(&self) -> bool {
        self.whole || self.soa.is_none()
    }

    /// Whether a primary is being asked.
    pub fn is_under_way(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// The last fault: when, of which primary, and what; `None` once a primary was of use again.
    pub fn last_fault(&self) -> Option<(u64, usize, &SecondaryFault)> {
        self.last_fault.as_deref().map(|(at, primary, fault)| (*at, *primary, fault))
    }

    /// What time has made due.
    pub fn poll(&mut self, now: u64) -> Option<SecondaryAction> {
        if self.expires().is_some_and(|expires| now >= expires) {
            self.expired = true;
            return Some(SecondaryAction::Expire);
        }
        (self.phase == Phase::Idle && now >= self.next).then(|| self.begin())
    }

    /// What follows from an event.
    pub fn event(
        &mut self,
        event: SecondaryEvent,
        now: u64,
        random: RandomNumbers<'_>,
    ) -> Option<SecondaryAction> {
        match event {
            SecondaryEvent::Probed(reply) => self.probed(reply, now, random),
            SecondaryEvent::Transferred(soa, expire) => {
                // What was left to the version before does not count.
                (self.soa, self.vouched) = (Some(soa), 0);
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

    /// Begins at once, or after what is under way: any number of wishes in the meantime are one.
    fn wanted(&mut self, wish: Wish) -> Option<SecondaryAction> {
        let whole = wish.whole || self.wish.whole;
        self.wish = Wish { wanted: true, primary: wish.primary.or(self.wish.primary), whole };
        (self.phase == Phase::Idle).then(|| self.begin())
    }

    /// Begins a round with the primary wished for, or the one that was of use last.
    fn begin(&mut self) -> SecondaryAction {
        let wish = std::mem::take(&mut self.wish);
        self.tried = 0;
        self.whole = wish.whole;
        if let Some(primary) = wish.primary.filter(|primary| *primary < self.rules.primaries) {
            self.primary = primary;
        }
        self.ask()
    }

    /// Asks the present primary: for its SOA, where that decides anything.
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
        now: u64,
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

    /// A primary said that our version is the newest, and perhaps how many seconds it has left: no more than
    /// the SOA says, and no fewer than it had here (RFC 7314 §4).
    fn refreshed(
        &mut self,
        expire: Option<u32>,
        now: u64,
        random: RandomNumbers<'_>,
    ) -> Option<SecondaryAction> {
        let life = self.soa.map_or(0, |soa| self.life(soa));
        let left = expire.map_or(life, |left| life.min(left.into()));
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
        now: u64,
        random: RandomNumbers<'_>,
    ) -> Option<SecondaryAction> {
        let (Phase::Probing | Phase::Transferring(_)) = self.phase else { return None };
        let instead = matches!(self.phase, Phase::Transferring(AskedFor::Ixfr(_))) && asks_for_axfr(&fault);
        self.last_fault = Some(Box::new((now, self.primary, fault)));
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
        self.next = now.saturating_add(with_jitter(wait, random).max(1));
        self.end_of_round()
    }

    fn end_of_round(&mut self) -> Option<SecondaryAction> {
        self.phase = Phase::Idle;
        self.wish.wanted.then(|| self.begin())
    }

    fn refresh(&self) -> u64 {
        self.soa.map_or(0, |soa| within(soa.refresh, &self.rules.refresh))
    }

    /// The wait after a round without success.
    fn retry(&self) -> u64 {
        match self.soa {
            Some(soa) => within(soa.retry, &self.rules.retry),
            None => {
                let least = (*self.rules.retry.start()).max(1) as u64;
                (least << self.failures.min(30)).min(*self.rules.retry.end() as u64).max(1)
            }
        }
    }
}

/// Whether the whole zone may come where differences did not: the primary does not know IXFR, or has
/// differences that do not fit. Others would fail with AXFR, too.
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

fn within(seconds: u32, bounds: &RangeInclusive<u32>) -> u64 {
    seconds.min(*bounds.end()).max(*bounds.start()) as u64
}
