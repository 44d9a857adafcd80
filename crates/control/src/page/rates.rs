//! Counts since the start and over the last minute, from counters that only go up.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use query_path::stats::RCODES;

/// The time that rates are shown for.
const RATE_PERIOD: Duration = Duration::from_secs(60);

/// Counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueryTotals {
    /// Queries received.
    pub(super) queries: u64,
    /// Replies by response code; the last entry counts all other codes.
    pub(super) replies: [u64; RCODES],
    /// Queries answered from the cache at once.
    pub(super) hits: u64,
    /// Queries that the cache did not answer.
    pub(super) misses: u64,
}

impl QueryTotals {
    /// Returns the counts since an earlier moment.
    fn since(&self, earlier: &QueryTotals) -> QueryTotals {
        QueryTotals {
            queries: self.queries.saturating_sub(earlier.queries),
            replies: std::array::from_fn(|i| self.replies[i].saturating_sub(earlier.replies[i])),
            hits: self.hits.saturating_sub(earlier.hits),
            misses: self.misses.saturating_sub(earlier.misses),
        }
    }
}

/// Counts over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretch {
    /// Its length.
    pub(super) took: Duration,
    /// The counts in it.
    pub(super) counted: QueryTotals,
}

impl Stretch {
    /// Returns `count` per second.
    pub(super) fn rate(&self, count: u64) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }
}

/// The counts of the page: since the start, and over the last minute or as much of it as has passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretches {
    pub(super) whole: Stretch,
    pub(super) minute: Stretch,
}

/// A sample of the counters.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    totals: QueryTotals,
}

/// Samples of the counters, for as long as they are needed.
#[derive(Debug)]
pub(super) struct Samples {
    begun: Instant,
    kept: VecDeque<Sample>,
}

impl Samples {
    /// Returns samples that begin at `begun`, with all counters zero.
    pub(super) fn new(begun: Instant) -> Self {
        Samples { begun, kept: VecDeque::from([Sample { at: begun, totals: QueryTotals::default() }]) }
    }

    /// Stores a sample; of the samples from before the last minute, keeps only the newest.
    pub(super) fn take(&mut self, now: Instant, totals: QueryTotals) {
        self.kept.push_back(Sample { at: now, totals });
        while self.kept.get(1).is_some_and(|next| now.saturating_duration_since(next.at) >= RATE_PERIOD) {
            self.kept.pop_front();
        }
    }

    /// Returns the counts up to `now`, when the counters are `totals`.
    pub(super) fn stretches(&self, now: Instant, totals: &QueryTotals) -> Stretches {
        let start = Sample { at: self.begun, totals: QueryTotals::default() };
        let oldest = self.kept.front().copied().unwrap_or(start);
        let since = |Sample { at, totals: then }: Sample| Stretch {
            took: now.saturating_duration_since(at),
            counted: totals.since(&then),
        };
        Stretches { whole: since(start), minute: since(oldest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries(queries: u64) -> QueryTotals {
        QueryTotals { queries, ..QueryTotals::default() }
    }

    #[test]
    fn the_last_minute_is_the_last_minute() {
        let begun = Instant::now();
        let mut samples = Samples::new(begun);
        let at = |seconds| begun + Duration::from_secs(seconds);
        let Stretches { whole: all, minute: last } = samples.stretches(at(10), &queries(50));
        assert_eq!((all.took, last.took), (Duration::from_secs(10), Duration::from_secs(10)));
        assert!((last.rate(last.counted.queries) - 5.0).abs() < 1e-9);
        // A hundred a second for five minutes, then nothing.
        for second in (5..=300).step_by(5) {
            samples.take(at(second), queries(second * 100));
        }
        let Stretches { whole: all, minute: last } = samples.stretches(at(300), &queries(30_000));
        assert_eq!((last.took, last.counted.queries), (RATE_PERIOD, 6_000));
        assert!((all.rate(all.counted.queries) - 100.0).abs() < 1e-9);
        for second in (305..=400).step_by(5) {
            samples.take(at(second), queries(30_000));
        }
        let Stretches { whole: all, minute: last } = samples.stretches(at(400), &queries(30_000));
        assert_eq!((all.counted.queries, last.counted.queries), (30_000, 0));
        assert!(samples.kept.len() <= 14, "{}", samples.kept.len());
    }

    #[test]
    fn no_time_is_no_rate() {
        let begun = Instant::now();
        let Stretches { whole: all, .. } = Samples::new(begun).stretches(begun, &queries(5));
        assert!(all.rate(5).abs() < f64::EPSILON);
    }
}
