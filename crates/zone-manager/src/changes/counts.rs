//! What is counted of dynamic updates, and what is known of the zones that have changed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;
use wire::Rcode;

/// Response codes that are counted, each with its word; all others are in the last place.
pub const RCODES: [(Rcode, &str); 11] = [
    (Rcode::NOERROR, "NOERROR"),
    (Rcode::FORMERR, "FORMERR"),
    (Rcode::SERVFAIL, "SERVFAIL"),
    (Rcode::NXDOMAIN, "NXDOMAIN"),
    (Rcode::REFUSED, "REFUSED"),
    (Rcode::YXDOMAIN, "YXDOMAIN"),
    (Rcode::YXRRSET, "YXRRSET"),
    (Rcode::NXRRSET, "NXRRSET"),
    (Rcode::NOTAUTH, "NOTAUTH"),
    (Rcode::NOTZONE, "NOTZONE"),
    (Rcode::NOTIMP, "other"),
];

/// Upper bounds of the histogram of waits for the disk, in microseconds; one place more holds what took
/// longer.
pub const SYNC_BOUNDS: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000];

/// What dynamic updates have come to.
#[derive(Debug, Default)]
pub struct UpdateCounts {
    /// Requests answered, in the order of [`RCODES`].
    pub answered: [AtomicU64; RCODES.len()],
    /// Requests that wait for the disk now.
    pub waiting: AtomicUsize,
    /// Requests answered with SERVFAIL because too many waited.
    pub too_many: AtomicU64,
    /// Changes that are on the disk.
    pub journalled: AtomicU64,
    /// Waits for the disk by how long they took; see [`SYNC_BOUNDS`].
    pub syncs: [AtomicU64; SYNC_BOUNDS.len() + 1],
    /// Microseconds that they took together.
    pub sync_time: AtomicU64,
    /// Times that the disk did not take what it should.
    pub failed: AtomicU64,
    /// Master files written with what updates have made of their zones.
    pub files: AtomicU64,
    /// Master files that were to be written and were not.
    pub files_failed: AtomicU64,
}

impl UpdateCounts {
    /// Counts an answer.
    pub(super) fn answered(&self, rcode: Rcode) {
        let at = RCODES.iter().position(|(known, _)| *known == rcode);
        self.answered[at.unwrap_or(RCODES.len() - 1)].fetch_add(1, Relaxed);
    }

    /// Counts changes that went to the disk together.
    pub(super) fn synced(&self, changes: usize, took: Duration) {
        self.journalled.fetch_add(changes as u64, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = SYNC_BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(SYNC_BOUNDS.len());
        self.syncs[place].fetch_add(1, Relaxed);
        self.sync_time.fetch_add(micros, Relaxed);
    }
}

/// What is known of a zone that has changed since the start.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ZoneChanges {
    /// Changes since the start of the server.
    pub changes: u64,
    /// When the last one was made, in seconds since 1970.
    pub last: u64,
    /// Bytes on the disk: the zone as it was last written as a whole.
    pub base_bytes: u64,
    /// Bytes of changes since then.
    pub change_bytes: u64,
    /// Bytes of older changes.
    pub history_bytes: u64,
    /// Why the last change could not be kept, if it could not.
    pub fault: Option<String>,
    /// Why the master file could not be written the last time, if it could not.
    pub file_fault: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_for_the_disk_is_counted_by_how_long_it_took() {
        let counts = UpdateCounts::default();
        for micros in [0, 100, 101, 5_000, 1_000_000, 1_000_001, u64::MAX / 4] {
            counts.synced(2, Duration::from_micros(micros));
        }
        let places: Vec<u64> = counts.syncs.iter().map(|count| count.load(Relaxed)).collect();
        assert_eq!(places, [2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(counts.journalled.load(Relaxed), 14);
    }
}
