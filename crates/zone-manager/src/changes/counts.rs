//! Counters of dynamic updates, and the state of the zones that have changed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;
use threads::sync::lock;
use wire::{Rcode, ZoneName};

use super::Changes;

/// Response codes that are counted, each with its word. The last entry counts all others.
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

/// Upper bounds of the histogram of sync times, in microseconds. One more bucket holds longer syncs.
pub const SYNC_BOUNDS: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000];

/// Counters of dynamic updates.
#[derive(Debug, Default)]
pub struct UpdateCounts {
    /// Requests answered, in the order of [`RCODES`].
    pub answered: [AtomicU64; RCODES.len()],
    /// Edits that changed a zone.
    pub edits_made: AtomicU64,
    /// Edits that changed nothing.
    pub edits_unchanged: AtomicU64,
    /// Edits that were refused.
    pub edits_refused: AtomicU64,
    /// Requests and edits that currently wait.
    pub waiting: AtomicUsize,
    /// Requests answered with SERVFAIL, and edits refused, because too many waited.
    pub too_many: AtomicU64,
    /// Changes stored on disk.
    pub journalled: AtomicU64,
    /// Syncs by their duration; see [`SYNC_BOUNDS`].
    pub syncs: [AtomicU64; SYNC_BOUNDS.len() + 1],
    /// Total duration of all syncs, in microseconds.
    pub sync_time: AtomicU64,
    /// Failed writes to disk.
    pub failed: AtomicU64,
    /// Zone files written with the version that updates have made.
    pub files: AtomicU64,
    /// Zone files that could not be written.
    pub files_failed: AtomicU64,
    /// Signatures made.
    pub signatures: AtomicU64,
}

impl UpdateCounts {
    /// Counts a response.
    pub(super) fn answered(&self, rcode: Rcode) {
        let at = RCODES.iter().position(|(known, _)| *known == rcode);
        self.answered[at.unwrap_or(RCODES.len() - 1)].fetch_add(1, Relaxed);
    }

    /// Counts changes stored with one sync.
    pub(super) fn synced(&self, changes: usize, took: Duration) {
        self.journalled.fetch_add(changes as u64, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = SYNC_BOUNDS.iter().position(|bound| micros <= *bound).unwrap_or(SYNC_BOUNDS.len());
        self.syncs[place].fetch_add(1, Relaxed);
        self.sync_time.fetch_add(micros, Relaxed);
    }
}

/// State of a zone that has changed since the start.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ZoneChanges {
    /// Changes since the start of the server.
    pub changes: u64,
    /// Time of the last change, in seconds since 1970.
    pub last: u64,
    /// Bytes on disk of the zone as last written as a whole.
    pub base_bytes: u64,
    /// Bytes on disk of changes since then.
    pub change_bytes: u64,
    /// Bytes on disk of older changes.
    pub history_bytes: u64,
    /// Why the last change could not be stored, if it could not.
    pub fault: Option<String>,
    /// Why the last write of the zone file failed, if it failed.
    pub file_fault: Option<String>,
}

impl Changes {
    /// State of a zone that has changed or is stored.
    pub fn status(&self, apex: &ZoneName) -> Option<ZoneChanges> {
        let changed = lock(&self.shared.zones).get(apex).cloned();
        changed.or_else(|| self.is_stored(apex).then(ZoneChanges::default))
    }

    /// Whether a zone currently takes no updates.
    pub fn is_frozen(&self, apex: &ZoneName) -> bool {
        lock(&self.shared.frozen).contains(apex)
    }

    /// The counters.
    pub fn counts(&self) -> &UpdateCounts {
        &self.shared.counts
    }

    /// Bytes on disk of the zones that have changed since the start.
    pub fn bytes(&self) -> u64 {
        let zones = lock(&self.shared.zones);
        zones.values().map(|zone| zone.base_bytes + zone.change_bytes + zone.history_bytes).sum()
    }
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
