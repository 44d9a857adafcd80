//! What is counted of zones that are taken from primaries, and of NOTIFY.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use transfer::incoming::{TransferFault, TransferLimit};
use transfer::secondary::{SecondaryFault, SecondaryState};

/// What transfers from primaries, and NOTIFY both ways, have come to.
#[derive(Debug, Default)]
pub struct SecondaryCounts {
    /// Whole zones received.
    pub axfr: AtomicU64,
    /// Differences received.
    pub ixfr: AtomicU64,
    /// Polls that found nothing newer, by an SOA query or by IXFR: no transfers.
    pub unchanged: AtomicU64,
    /// Transfers that failed.
    pub failed: AtomicU64,
    /// Transfers that failed at a limit, in the order of [`LIMITS`].
    pub limits: [AtomicU64; LIMITS.len()],
    /// Versions refused by their digest (ZONEMD).
    pub zonemd: AtomicU64,
    /// Bytes of messages, those of transfers that failed among them.
    pub bytes: AtomicU64,
    /// Records, likewise.
    pub records: AtomicU64,
    /// Versions kept on disk.
    pub stored: AtomicU64,
    /// Times that the disk did not keep what it should.
    pub unstored: AtomicU64,
    /// Histories that could not be read from the disk.
    pub unread: AtomicU64,
    /// Zones that expired.
    pub expired: AtomicU64,
    /// Updates that wait for a primary now.
    pub forwarding: AtomicU64,
    /// Updates passed on to a primary that answered.
    pub forwarded: AtomicU64,
    /// Updates that no primary answered.
    pub forward_failed: AtomicU64,
    /// Updates refused because too many waited for primaries.
    pub forward_too_many: AtomicU64,
    /// NOTIFY taken.
    pub notify_taken: AtomicU64,
    /// NOTIFY taken while one for the zone was not looked at yet.
    pub notify_joined: AtomicU64,
    /// NOTIFY refused, from whom the zone does not take it.
    pub notify_refused: AtomicU64,
    /// NOTIFY for zones that are not here.
    pub notify_unknown: AtomicU64,
    /// NOTIFY sent.
    pub notify_sent: AtomicU64,
    /// NOTIFY that were acknowledged.
    pub notify_acknowledged: AtomicU64,
    /// NOTIFY that were answered with an error.
    pub notify_declined: AtomicU64,
    /// NOTIFY that were not answered in time.
    pub notify_unanswered: AtomicU64,
}

/// The limits of incoming transfers, each with its word.
pub const LIMITS: [(TransferLimit, &str); 7] = [
    (TransferLimit::Records, "records"),
    (TransferLimit::Bytes, "size"),
    (TransferLimit::Messages, "messages"),
    (TransferLimit::Differences, "differences"),
    (TransferLimit::Time, "time"),
    (TransferLimit::Rate, "rate"),
    (TransferLimit::Memory, "memory"),
];

impl SecondaryCounts {
    /// Counts a transfer that failed.
    pub(super) fn fault(&self, fault: &SecondaryFault) {
        self.failed.fetch_add(1, Relaxed);
        if matches!(fault, SecondaryFault::Transfer(TransferFault::Digest(_))) {
            self.zonemd.fetch_add(1, Relaxed);
        }
        if let SecondaryFault::Transfer(TransferFault::Limit(limit)) = fault
            && let Some(at) = LIMITS.iter().position(|(known, _)| known == limit)
        {
            self.limits[at].fetch_add(1, Relaxed);
        }
    }
}

/// How many zones are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// A primary was asked within the refresh time.
    pub fresh: u64,
    /// No primary could be asked since then.
    pub stale: u64,
    /// No primary could be asked within the expire time.
    pub expired: u64,
    /// There has been no version yet.
    pub never_loaded: u64,
}

impl StateCounts {
    /// Counts a zone.
    pub(super) fn add(&mut self, state: SecondaryState) {
        *match state {
            SecondaryState::Fresh => &mut self.fresh,
            SecondaryState::Stale => &mut self.stale,
            SecondaryState::Expired => &mut self.expired,
            SecondaryState::NeverLoaded => &mut self.never_loaded,
        } += 1;
    }

    /// Each number with its word.
    pub fn words(&self) -> [(&'static str, u64); 4] {
        [
            ("fresh", self.fresh),
            ("stale", self.stale),
            ("expired", self.expired),
            ("never-loaded", self.never_loaded),
        ]
    }
}

/// The word of a state.
pub(super) fn word(state: SecondaryState) -> &'static str {
    match state {
        SecondaryState::Fresh => "fresh",
        SecondaryState::Stale => "stale",
        SecondaryState::Expired => "expired",
        SecondaryState::NeverLoaded => "never-loaded",
    }
}
