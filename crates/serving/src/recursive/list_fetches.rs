//! When a list with a URL was fetched and when it is due again; without I/O.

use std::time::Duration;

use fetch::Validators;
use wire::UnixTime;

/// Time to the next attempt after the first failure; it doubles with every further one.
const FIRST_RETRY: Duration = Duration::from_secs(60);
/// Longest time to the next attempt after a failure.
const LONGEST_RETRY: Duration = Duration::from_secs(3600);
/// The part of `refresh` by which fetches may be early, so that lists do not stay due at the same time.
const JITTER_PART: u32 = 10;

/// The fetches of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFetches {
    /// When the server last sent or confirmed the version in force; `None` if it did neither.
    pub confirmed: Option<UnixTime>,
    /// When the last attempt began.
    pub attempted: Option<UnixTime>,
    /// When the next attempt is due.
    pub next: UnixTime,
    /// Their outcomes.
    pub counts: FetchCounts,
    /// What identifies the version in force to the server.
    pub(super) version: Validators,
    /// Number of attempts since the last success.
    failures: u32,
}

/// The number of fetches by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchCounts {
    /// A new version is in force.
    pub updated: u64,
    /// The server confirmed the version in force.
    pub unchanged: u64,
    /// What was fetched is not a list.
    pub refused: u64,
    /// Nothing was fetched.
    pub failed: u64,
}

impl ListFetches {
    /// A list that was not fetched yet, and is due.
    pub(super) fn due_at_once(now: UnixTime) -> Self {
        ListFetches {
            confirmed: None,
            attempted: None,
            next: now,
            counts: FetchCounts::default(),
            version: Validators::default(),
            failures: 0,
        }
    }

    /// A list with a version from disk.
    pub(super) fn stored(version: Validators, confirmed: UnixTime, refresh: Duration, random: u32) -> Self {
        let next = confirmed.saturating_add(early(refresh, random));
        ListFetches { confirmed: Some(confirmed), version, ..Self::due_at_once(next) }
    }

    /// Returns the same with the outcomes that were counted before.
    pub(super) fn counted_since(self, counts: FetchCounts) -> Self {
        ListFetches { counts, ..self }
    }

    /// Whether an attempt is due. If the clock was set back, it is.
    pub(super) fn is_due(&self, now: UnixTime, refresh: Duration) -> bool {
        self.next <= now || self.next.saturating_duration_since(now) > refresh.max(LONGEST_RETRY)
    }

    /// An attempt begins.
    pub(super) fn began(&mut self, now: UnixTime) {
        self.attempted = Some(now);
    }

    /// The server has sent this version, which is now in force.
    pub(super) fn updated(&mut self, version: Validators, now: UnixTime, refresh: Duration, random: u32) {
        self.version = version;
        self.counts.updated += 1;
        self.succeeded(now, refresh, random);
    }

    /// The server has confirmed the version in force.
    pub(super) fn unchanged(&mut self, now: UnixTime, refresh: Duration, random: u32) {
        self.counts.unchanged += 1;
        self.succeeded(now, refresh, random);
    }

    /// The server has sent the text of the version in force again, as this version.
    pub(super) fn sent_again(&mut self, version: Validators, now: UnixTime, refresh: Duration, random: u32) {
        self.version = version;
        self.unchanged(now, refresh, random);
    }

    fn succeeded(&mut self, now: UnixTime, refresh: Duration, random: u32) {
        self.confirmed = Some(now);
        self.failures = 0;
        self.next = now.saturating_add(early(refresh, random));
    }

    /// What the server has sent is not a list.
    pub(super) fn refused(&mut self, now: UnixTime, refresh: Duration) {
        self.counts.refused += 1;
        self.retry(now, refresh);
    }

    /// The server has sent nothing of use.
    pub(super) fn failed(&mut self, now: UnixTime, refresh: Duration) {
        self.counts.failed += 1;
        self.retry(now, refresh);
    }

    fn retry(&mut self, now: UnixTime, refresh: Duration) {
        let delay = FIRST_RETRY * 2_u32.saturating_pow(self.failures.min(16));
        self.failures += 1;
        self.next = now.saturating_add(delay.min(LONGEST_RETRY).min(refresh));
    }
}

/// Returns `refresh`, less up to a tenth of it by a random number.
fn early(refresh: Duration, random: u32) -> Duration {
    let tenth = (refresh / JITTER_PART).as_secs();
    refresh - Duration::from_secs((tenth * u64::from(random)) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_secs(1_000_000_000 + seconds)
    }

    #[test]
    fn failures_are_retried_at_growing_intervals() {
        let delays = |refresh| {
            let mut fetches = ListFetches::due_at_once(at(0));
            let delay = |_| {
                let now = fetches.next;
                fetches.failed(now, refresh);
                fetches.next.saturating_duration_since(now).as_secs()
            };
            (0..8).map(delay).collect::<Vec<u64>>()
        };
        assert_eq!(delays(DAY), [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(delays(Duration::from_secs(200)), [60, 120, 200, 200, 200, 200, 200, 200]);
    }

    #[test]
    fn a_success_ends_a_row_of_failures() {
        let mut fetches = ListFetches::due_at_once(at(0));
        fetches.failed(at(0), DAY);
        fetches.refused(at(60), DAY);
        fetches.unchanged(at(180), DAY, 0);
        assert_eq!((fetches.confirmed, fetches.next), (Some(at(180)), at(180 + 86_400)));
        fetches.failed(at(90_000), DAY);
        assert_eq!(fetches.next, at(90_060));
        assert_eq!(fetches.confirmed, Some(at(180)), "the version in force is as old as before");
        let counts = FetchCounts { updated: 0, unchanged: 1, refused: 1, failed: 2 };
        assert_eq!(fetches.counts, counts);
    }

    #[test]
    fn fetches_are_early_by_a_tenth_at_most() {
        let next = |random| ListFetches::stored(Validators::default(), at(0), DAY, random).next;
        assert_eq!(next(0), at(86_400));
        assert_eq!(next(1 << 31), at(86_400 - 4320));
        assert_eq!(next(u32::MAX), at(86_400 - 8639));
    }

    #[test]
    fn a_clock_that_is_set_back_delays_no_fetch() {
        let fetches = ListFetches::stored(Validators::default(), at(0), DAY, 0);
        assert!(!fetches.is_due(at(86_399), DAY));
        assert!(fetches.is_due(at(86_400), DAY));
        assert!(!fetches.is_due(at(0), DAY));
        assert!(fetches.is_due(UnixTime::from_secs(1000), DAY));
    }
}
