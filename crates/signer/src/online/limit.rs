//! The limit of signatures a second.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Nanoseconds of a second: what is saved while nothing is signed.
const SAVED: u64 = 1_000_000_000;
/// What names that clients choose may use of that.
const FOR_OTHERS: u64 = SAVED / 4 * 3;

/// A limit that all workers share, without a lock. `used_until` is the time until which all that was signed
/// so far has used the limit; it may be up to a second ahead.
pub(super) struct SignatureLimit {
    began: Instant,
    per_second: AtomicU32,
    used_until: AtomicU64,
}

impl SignatureLimit {
    pub(super) fn new() -> SignatureLimit {
        SignatureLimit { began: Instant::now(), per_second: AtomicU32::new(1), used_until: AtomicU64::new(0) }
    }

    pub(super) fn set(&self, per_second: u32) {
        self.per_second.store(per_second.max(1), Relaxed);
    }

    /// Takes the share of an RRset that costs this many signatures; returns false if there is none left.
    pub(super) fn take(&self, cost: u32, is_of_zone: bool, now: Instant) -> bool {
        let now = u64::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX / 2);
        let share = SAVED * u64::from(cost) / u64::from(self.per_second.load(Relaxed));
        // One is always possible after a pause.
        let most = if is_of_zone { SAVED } else { FOR_OTHERS }.max(share);
        let taken = self.used_until.fetch_update(Relaxed, Relaxed, |used| {
            let used = used.max(now).saturating_add(share);
            (used - now <= most).then_some(used)
        });
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn taken(limit: &SignatureLimit, is_of_zone: bool, now: Instant) -> usize {
        (0..10_000).take_while(|_| limit.take(1, is_of_zone, now)).count()
    }

    #[test]
    fn a_second_is_saved_and_a_quarter_is_for_names_of_the_zone() {
        let limit = SignatureLimit::new();
        limit.set(1_000);
        let now = limit.began + Duration::from_secs(10);
        assert_eq!((taken(&limit, false, now), taken(&limit, true, now)), (750, 250));
        assert_eq!((taken(&limit, false, now), taken(&limit, true, now)), (0, 0));
        let now = now + Duration::from_millis(500);
        assert_eq!((taken(&limit, false, now), taken(&limit, true, now)), (250, 250));
        assert_eq!(taken(&limit, true, now + Duration::from_secs(100)), 1_000, "no more is saved");
    }

    #[test]
    fn costly_signatures_use_more() {
        let limit = SignatureLimit::new();
        limit.set(10);
        let now = limit.began;
        assert!(limit.take(40, false, now), "one is always possible");
        assert!(!limit.take(40, false, now) && !limit.take(1, true, now));
        assert!(!limit.take(40, false, now + Duration::from_secs(1)));
        assert!(limit.take(40, false, now + Duration::from_secs(4)));
    }
}
