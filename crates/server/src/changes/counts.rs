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
    /// Waits for the disk.
    pub syncs: AtomicU64,
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
        self.syncs.fetch_add(1, Relaxed);
        self.sync_time.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
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
