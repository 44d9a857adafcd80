//! Counters of secondary zones and NOTIFY.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use transfer::incoming::{TransferFault, TransferLimit};
use transfer::secondary::{SecondaryFault, SecondaryState};

/// Counters of incoming transfers, and of NOTIFY in both directions.
#[derive(Debug, Default)]
pub struct SecondaryCounts {
    /// Zones received as a whole.
    pub axfr: AtomicU64,
    /// Zones received as differences.
    pub ixfr: AtomicU64,
    /// Polls by SOA query or IXFR that found no newer version.
    pub unchanged: AtomicU64,
    /// Transfers that failed.
    pub failed: AtomicU64,
    /// Transfers that exceeded a limit, in the order of [`LIMITS`].
    pub limits: [AtomicU64; LIMITS.len()],
    /// Versions refused because of their digest (ZONEMD).
    pub zonemd: AtomicU64,
    /// Bytes of messages, including those of failed transfers.
    pub bytes: AtomicU64,
    /// Records, including those of failed transfers.
    pub records: AtomicU64,
    /// Versions stored on disk.
    pub stored: AtomicU64,
    /// Writes to disk that failed.
    pub unstored: AtomicU64,
    /// Histories that could not be read from disk.
    pub unread: AtomicU64,
    /// Zones that expired.
    pub expired: AtomicU64,
    /// Updates that currently wait for a primary.
    pub forwarding: AtomicU64,
    /// Updates forwarded to a primary that responded.
    pub forwarded: AtomicU64,
    /// Updates to which no primary responded.
    pub forward_failed: AtomicU64,
    /// Updates refused because too many waited for primaries.
    pub forward_too_many: AtomicU64,
    /// NOTIFYs accepted.
    pub notify_taken: AtomicU64,
    /// NOTIFYs accepted while an earlier one for the zone was not handled yet.
    pub notify_joined: AtomicU64,
    /// NOTIFYs refused because the zone does not accept them from the sender.
    pub notify_refused: AtomicU64,
    /// NOTIFYs for zones that this server does not serve.
    pub notify_unknown: AtomicU64,
    /// NOTIFYs sent.
    pub notify_sent: AtomicU64,
    /// NOTIFYs that were acknowledged.
    pub notify_acknowledged: AtomicU64,
    /// NOTIFYs that were answered with an error.
    pub notify_declined: AtomicU64,
    /// NOTIFYs that were not answered in time.
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

/// Number of secondary zones in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// A primary has responded within the refresh time.
    pub fresh: u64,
    /// No primary has responded since the refresh time passed.
    pub stale: u64,
    /// No primary has responded within the expire time.
    pub expired: u64,
    /// No version has been received yet.
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

    /// Returns each number with its word.
    pub fn words(&self) -> [(&'static str, u64); 4] {
        [
            ("fresh", self.fresh),
            ("stale", self.stale),
            ("expired", self.expired),
            ("never-loaded", self.never_loaded),
        ]
    }
}

/// Returns the word of a state.
pub(super) fn word(state: SecondaryState) -> &'static str {
    match state {
        SecondaryState::Fresh => "fresh",
        SecondaryState::Stale => "stale",
        SecondaryState::Expired => "expired",
        SecondaryState::NeverLoaded => "never-loaded",
    }
}
