//! Counts since the start, and of each few seconds of the last ten minutes, from counters that only go up.

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
struct Stretch {
    /// Its length.
    took: Duration,
    /// The counts in it.
    counted: QueryTotals,
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
        let up = now.saturating_duration_since(samples.begun);
        json!({
            "interval_seconds": SAMPLE_INTERVAL.as_secs(),
            "uptime_seconds": up.as_secs(),
            "latency_bounds_us": LATENCY_BOUNDS.map(|bound| bound / 1000),
            "total": row(unix_now(), &Stretch { took: up, counted: totals }),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries(queries: u64) -> QueryTotals {
        QueryTotals { queries, ..QueryTotals::default() }
    }

    #[test]
    fn samples_of_the_last_ten_minutes_are_stored() {
        let begun = Instant::now();
        let mut samples = Samples::new(begun);
        for second in (5..=2000).step_by(5) {
            samples.take(begun + Duration::from_secs(second), queries(second * 100));
        }
        let (oldest, newest) = (samples.kept.front().expect("one"), samples.kept.back().expect("one"));
        assert_eq!(newest.at - oldest.at, HISTORY);
        assert_eq!(newest.totals.since(&oldest.totals).queries, 60_000);
        assert_eq!(samples.kept.len(), 121);
    }
}
