//! Settings of the limits on replies, and what logs and counters receive about replies that are over them.
//! [`limiting`](crate::limiting) applies them.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rate_limits::{LENGTHS_V4, LENGTHS_V6, PrefixHashes, RateLimit, RateTable, Ticks};
use transport::{Client, Counter};
use wire::Prefix;

use crate::prefix::PrefixMasks;

/// Kinds of replies, which are counted apart: a flood of one leaves the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// NOERROR with records in the answer section.
    Answer,
    /// NOERROR without: referrals, and names without data of the type.
    Referral,
    /// NXDOMAIN.
    NxDomain,
    /// All other response codes.
    Error,
}

impl ReplyKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [ReplyKind; 4] =
        [ReplyKind::Answer, ReplyKind::Referral, ReplyKind::NxDomain, ReplyKind::Error];

    /// Its label in metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            ReplyKind::Answer => "answer",
            ReplyKind::Referral => "referral",
            ReplyKind::NxDomain => "nxdomain",
            ReplyKind::Error => "error",
        }
    }

    /// Returns its number.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What happens to a reply that is over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAction {
    /// It is not sent.
    Dropped,
    /// A truncated one without records is sent, so that the client asks again over TCP.
    Truncated,
    /// BADCOOKIE is sent, with the cookie that the client asks again with.
    BadCookie,
    /// It is sent: an error, which is as short as a truncated reply.
    Sent,
    /// It is sent, since limits are only tried.
    DryRun,
}

impl LimitAction {
    /// Every action, in the order of their numbers.
    pub const ALL: [LimitAction; 5] = [
        LimitAction::Dropped,
        LimitAction::Truncated,
        LimitAction::BadCookie,
        LimitAction::Sent,
        LimitAction::DryRun,
    ];

    /// Its label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            LimitAction::Dropped => "dropped",
            LimitAction::Truncated => "truncated",
            LimitAction::BadCookie => "bad-cookie",
            LimitAction::Sent => "sent",
            LimitAction::DryRun => "dry-run",
        }
    }

    /// Returns its number.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Replies of one kind to one client that were over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedReplies {
    /// The address of the newest of them, IPv4 or IPv6.
    pub client: IpAddr,
    /// Which of its prefixes is over its limit: an index of [`rate_limits::LENGTHS_V4`].
    pub level: usize,
    /// The kind of the newest.
    pub kind: ReplyKind,
    /// Their number, with those to other clients since the last call, of which there was none.
    pub count: u64,
}

impl LimitedReplies {
    /// Returns the prefix that is over its limit.
    pub fn prefix(&self) -> Prefix {
        let lengths = if self.client.is_ipv4() { LENGTHS_V4 } else { LENGTHS_V6 };
        let len = lengths.get(self.level).copied();
        len.and_then(|len| Prefix::of(self.client, len)).unwrap_or_else(|| Prefix::single(self.client))
    }
}

/// Counts the prefixes that are over their limits. Must neither block nor fail.
pub trait LimitLog: Send + Sync {
    /// Counts replies that were over a limit.
    fn limited(&self, replies: LimitedReplies);
}

/// The limits on replies over UDP, which a forged source address can send to a victim.
#[derive(Clone)]
pub struct ReplyLimits {
    /// The counters. They outlive a change of the limits.
    pub table: Arc<RateTable>,
    /// The limit of each kind, by its number.
    pub limits: [RateLimit; ReplyKind::ALL.len()],
    /// Short replies that each address gets for sure while it is limited.
    pub short: Option<RateLimit>,
    /// Beyond those, one in this many limited replies is sent short; 0 is none.
    pub slip: u32,
    /// A reply counts once for each of these bytes that it has begun.
    pub unit: usize,
    /// Clients in these prefixes have no limit.
    pub exempt: PrefixMasks,
    /// Whether clients that may recurse have limits.
    pub recursive: bool,
    /// Whether replies over the limit are counted and sent.
    pub dry_run: bool,
    /// Who receives the prefixes that are over their limits.
    pub log: Option<Arc<dyn LimitLog>>,
}

impl fmt::Debug for ReplyLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyLimits").field("table", &self.table).field("limits", &self.limits).finish()
    }
}

impl ReplyLimits {
    /// Returns the hashes of the prefixes that replies to a client are counted in, and prefetches their
    /// counters; `None` if it has no limit.
    #[inline]
    pub(crate) fn hashes(&self, client: &Client, may_recurse: bool) -> Option<PrefixHashes> {
        let address = client.peer.ip().to_canonical();
        let is_exempt =
            client.transport.is_stream() || may_recurse && !self.recursive || self.exempt.contains(address);
        if is_exempt {
            return None;
        }
        let hashes = self.table.hashes(address);
        self.table.prefetch(&hashes);
        Some(hashes)
    }

    /// Counts a reply of `len` bytes. Returns which prefix is over its limit, if one is.
    #[inline]
    pub(crate) fn charge(
        &self,
        hashes: &PrefixHashes,
        kind: ReplyKind,
        len: usize,
        now: Ticks,
    ) -> Option<usize> {
        let units = len.div_ceil(self.unit.max(1)).max(1) as u32;
        self.table.charge(hashes, kind as u8, &self.limits[kind.index()], units, now)
    }

    /// Returns whether a client that is limited gets a short reply: one of those that each address gets, or
    /// one in [`slip`](Self::slip).
    #[cold]
    pub(crate) fn replies_shortly(&self, hashes: &PrefixHashes, pace: &LimitPace, now: Ticks) -> bool {
        /// The number of truncated replies as a kind.
        const TRUNCATED: u8 = ReplyKind::ALL.len() as u8;
        let is_sure =
            self.short.is_some_and(|limit| self.table.charge(hashes, TRUNCATED, &limit, 1, now).is_none());
        if is_sure {
            return true;
        }
        let before = pace.slipped.get();
        pace.slipped.add(1);
        self.slip > 0 && before.is_multiple_of(u64::from(self.slip))
    }

    /// Passes a limited reply on to the log: each one while there are few, and of a flood some, each with the
    /// number of those that were left out before it.
    #[cold]
    pub(crate) fn note(&self, pace: &LimitPace, replies: LimitedReplies, now: Ticks) {
        let Some(log) = &self.log else { return };
        if let Some(count) = pace.admits(now) {
            log.limited(LimitedReplies { count, ..replies });
        }
    }
}

/// How many limited replies of one worker were slipped, and which of them were passed on to the log. Only the
/// worker writes it.
#[derive(Default)]
pub(crate) struct LimitPace {
    slipped: Counter,
    /// The present interval of [`PACE_TICKS`], how many replies it has passed on, and how many were left out
    /// since.
    interval: Counter,
    passed: Counter,
    left_out: Counter,
}

/// Binary logarithm of the ticks of an interval: 4 ms.
const PACE_TICKS: u32 = 14;
/// Most replies of a worker that are passed on in an interval.
const PACE_MOST: u64 = 32;

impl LimitPace {
    /// Returns how many replies the present one is passed on for; `None` if it is left out.
    fn admits(&self, now: Ticks) -> Option<u64> {
        let interval = now.count() >> PACE_TICKS;
        if self.interval.get() != interval {
            self.interval.set(interval);
            self.passed.set(0);
        }
        if self.passed.get() >= PACE_MOST {
            self.left_out.add(1);
            return None;
        }
        self.passed.add(1);
        let count = self.left_out.get() + 1;
        self.left_out.set(0);
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rate_limits::PrefixFactors;

    use super::*;

    fn limits(slip: u32) -> ReplyLimits {
        ReplyLimits {
            table: Arc::new(RateTable::new(1 << 16, [1, 2, 3, 4], Instant::now())),
            limits: [RateLimit::new(1, PrefixFactors([0; 3]), PrefixFactors([0; 3]), Duration::from_secs(1));
                4],
            short: None,
            slip,
            unit: 256,
            exempt: PrefixMasks::any(&[]),
            recursive: false,
            dry_run: false,
            log: None,
        }
    }

    #[test]
    fn one_in_so_many_limited_replies_is_sent_short() {
        for (slip, wanted) in [(0, 0), (1, 100), (2, 50), (5, 20)] {
            let (limits, pace) = (limits(slip), LimitPace::default());
            let hashes = limits.table.hashes([192, 0, 2, 1].into());
            let now = limits.table.ticks(Instant::now());
            let sent = (0..100).filter(|_| limits.replies_shortly(&hashes, &pace, now)).count();
            assert_eq!(sent, wanted, "one in {slip}");
        }
    }

    #[test]
    fn of_a_flood_some_replies_are_passed_on_with_the_number_of_the_others() {
        let (limits, pace) = (limits(0), LimitPace::default());
        let start = Instant::now();
        let ticks = |micros| limits.table.ticks(start + Duration::from_micros(micros));
        let passed: Vec<u64> = (0..100_000).filter_map(|micros| pace.admits(ticks(micros))).collect();
        // 100 ms are 24 intervals of 4.2 ms, and parts of one or two.
        assert!((24..=26).contains(&(passed.len() as u64 / PACE_MOST)), "{} were passed on", passed.len());
        let all = passed.iter().sum::<u64>() + pace.left_out.get();
        assert_eq!(all, 100_000, "each is counted once");
    }
}
