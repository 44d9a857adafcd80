//! Counts since the start, over the last minute, and of each few seconds of the last ten minutes, from
//! counters that only go up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use query_path::stats::{LATENCY_BOUNDS, RCODES};
use serde_json::{Map, Value, json};
use transport::{Transport, unix_now};
use wire::{Rcode, UnixTime};

use serving::frontend::Frontend;
use serving::recursive::Recursive;
use threads::sync::lock;

/// The time that rates are shown for.
const RATE_PERIOD: Duration = Duration::from_secs(60);
/// The time for which samples are stored.
const HISTORY: Duration = Duration::from_secs(600);
/// Interval between samples of the counters.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryTotals {
    /// Queries received.
    pub queries: u64,
    /// Replies by response code; the last entry counts all other codes.
    pub replies: [u64; RCODES],
    /// Queries answered from the cache at once.
    pub hits: u64,
    /// Queries that the cache did not answer.
    pub misses: u64,
    /// Messages without a reply.
    pub unanswered: u64,
    /// Answers by their time, with the bounds of [`LATENCY_BOUNDS`]; the last entry is of slower ones.
    pub latency: [u64; LATENCY_BOUNDS.len() + 1],
}

impl QueryTotals {
    /// Returns the counters of a server.
    fn of(frontend: &Frontend, recursive: Option<&Recursive>) -> QueryTotals {
        let accounts = &frontend.accounts;
        let of_all = |figure: &dyn Fn(&query_path::QueryStats, usize) -> u64| {
            accounts.sum(|stats| (0..Transport::ALL.len()).map(|transport| figure(stats, transport)).sum())
        };
        QueryTotals {
            queries: of_all(&|stats, t| stats.queries[t].iter().map(|count| count.get()).sum()),
            replies: std::array::from_fn::<u64, RCODES, _>(|code| {
                of_all(&|stats, t| stats.replies[t][code].get())
            }),
            hits: accounts.sum(|stats| stats.cache_hits.get()),
            misses: recursive.map_or(0, |recursive| recursive.service.stats().misses.get()),
            unanswered: accounts.sum(|stats| stats.dropped.get()),
            latency: std::array::from_fn(|i| accounts.sum(|stats| stats.latency[i].get())),
        }
    }

    /// Returns the counts since an earlier moment.
    fn since(&self, earlier: &QueryTotals) -> QueryTotals {
        QueryTotals {
            queries: self.queries.saturating_sub(earlier.queries),
            replies: std::array::from_fn(|i| self.replies[i].saturating_sub(earlier.replies[i])),
            hits: self.hits.saturating_sub(earlier.hits),
            misses: self.misses.saturating_sub(earlier.misses),
            unanswered: self.unanswered.saturating_sub(earlier.unanswered),
            latency: std::array::from_fn(|i| self.latency[i].saturating_sub(earlier.latency[i])),
        }
    }
}

/// Counts over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// Its length.
    pub took: Duration,
    /// The counts in it.
    pub counted: QueryTotals,
}

impl Stretch {
    /// Returns `count` per second.
    pub fn rate(&self, count: u64) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }
}

/// The counts of the page: since the start, and over the last minute or as much of it as has passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretches {
    /// Since the start.
    pub whole: Stretch,
    /// Over the last minute.
    pub minute: Stretch,
}

/// The samples of a running server.
pub struct RateHistory {
    frontend: Arc<Frontend>,
    recursive: Option<Arc<Recursive>>,
    samples: Mutex<Samples>,
}

impl RateHistory {
    /// Returns a history that begins at `begun`, with all counters zero.
    pub fn new(
        begun: Instant,
        frontend: Arc<Frontend>,
        recursive: Option<Arc<Recursive>>,
    ) -> Arc<RateHistory> {
        Arc::new(RateHistory { frontend, recursive, samples: Mutex::new(Samples::new(begun)) })
    }

    fn totals(&self) -> QueryTotals {
        QueryTotals::of(&self.frontend, self.recursive.as_deref())
    }

    /// Returns the counts up to now.
    pub fn stretches(&self) -> Stretches {
        let totals = self.totals();
        lock(&self.samples).stretches(Instant::now(), &totals)
    }

    /// Returns the samples of the last ten minutes as JSON, the oldest first, and the counts since the start.
    pub fn shown(&self) -> Value {
        let (now, totals) = (Instant::now(), self.totals());
        let samples = lock(&self.samples);
        let at = |then: Instant| unix_now().saturating_sub(now.saturating_duration_since(then));
        let pairs = samples.kept.iter().zip(samples.kept.iter().skip(1));
        let rows = pairs.map(|(before, sample)| {
            let took = sample.at.saturating_duration_since(before.at);
            row(at(sample.at), &Stretch { took, counted: sample.totals.since(&before.totals) })
        });
        json!({
            "interval_seconds": SAMPLE_INTERVAL.as_secs(),
            "uptime_seconds": now.saturating_duration_since(samples.begun).as_secs(),
            "latency_bounds_us": LATENCY_BOUNDS.map(|bound| bound / 1000),
            "total": row(unix_now(), &samples.stretches(now, &totals).whole),
            "samples": rows.collect::<Vec<_>>(),
        })
    }

    /// Samples the counters for as long as the runtime runs.
    pub async fn watch(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
        loop {
            ticks.tick().await;
            let totals = self.totals();
            lock(&self.samples).take(Instant::now(), totals);
        }
    }
}

/// Returns the counts of a stretch as JSON; response codes without a reply are left out.
fn row(at: UnixTime, stretch: &Stretch) -> Value {
    let counted = &stretch.counted;
    let replies = counted.replies.iter().enumerate().filter(|(_, count)| **count > 0);
    let label = |code| u16::try_from(code).map_or_else(|_| "other".into(), |code| Rcode(code).to_string());
    json!({
        "at": at.as_secs(),
        "seconds": stretch.took.as_secs_f64(),
        "queries": counted.queries,
        "replies": replies.map(|(code, count)| (label(code), Value::from(*count))).collect::<Map<_, _>>(),
        "cache_hits": counted.hits,
        "cache_misses": counted.misses,
        "unanswered": counted.unanswered,
        "latency": counted.latency,
    })
}

/// A sample of the counters.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    totals: QueryTotals,
}

/// Samples of the counters, for as long as they are needed.
#[derive(Debug)]
struct Samples {
    begun: Instant,
    kept: VecDeque<Sample>,
}

impl Samples {
    /// Returns samples that begin at `begun`, with all counters zero.
    fn new(begun: Instant) -> Self {
        Samples { begun, kept: VecDeque::from([Sample { at: begun, totals: QueryTotals::default() }]) }
    }

    /// Stores a sample, and drops those that are too old.
    fn take(&mut self, now: Instant, totals: QueryTotals) {
        self.kept.push_back(Sample { at: now, totals });
        while self.kept.get(1).is_some_and(|next| now.saturating_duration_since(next.at) >= HISTORY) {
            self.kept.pop_front();
        }
    }

    /// Returns the counts up to `now`, when the counters are `totals`.
    fn stretches(&self, now: Instant, totals: &QueryTotals) -> Stretches {
        let start = Sample { at: self.begun, totals: QueryTotals::default() };
        let is_old = |sample: &&Sample| now.saturating_duration_since(sample.at) >= RATE_PERIOD;
        let before_minute = self.kept.iter().rev().find(is_old).or(self.kept.front());
        let oldest = before_minute.copied().unwrap_or(start);
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
        for second in (405..=2000).step_by(5) {
            samples.take(at(second), queries(30_000));
        }
        assert!(samples.kept.len() <= 122, "{}", samples.kept.len());
    }

    #[test]
    fn no_time_is_no_rate() {
        let begun = Instant::now();
        let Stretches { whole: all, .. } = Samples::new(begun).stretches(begun, &queries(5));
        assert!(all.rate(5).abs() < f64::EPSILON);
    }
}
