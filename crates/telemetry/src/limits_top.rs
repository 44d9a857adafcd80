//! The addresses and networks whose replies are limited most, since the start and in the last hour, and log
//! lines when one begins and ends to be limited.
//!
//! Workers put a short record about limited replies into a queue, as for the query log; a thread counts them
//! in tables of bounded size ([`heavy`](crate::heavy)). Of a flood a worker passes some on, each with the
//! number of those it left out, which count for its prefix.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use query_path::{LimitLog, LimitedReplies};
use tracing::info;
use wire::Prefix;

use crate::heavy::{HeavyKeys, TopList};
use crate::last_hour::LastHour;
use crate::top_thread::TopThread;
use crate::worker_queue::{RecordWriter, WorkerQueue};

/// Time without a limited reply after which a prefix is no longer limited.
const QUIET: Duration = Duration::from_secs(60);
/// Largest number of limited prefixes that have log lines at a time.
const MOST_LOGGED: usize = 64;

/// A prefix that is limited at present.
struct LimitedPrefix {
    newest: Instant,
    count: u64,
}

/// The counting thread's tables.
struct LimitCounter {
    size: usize,
    since_start: HeavyKeys,
    hour: LastHour<HeavyKeys>,
    limited: HashMap<Prefix, LimitedPrefix>,
    /// Whether prefixes without a log line were mentioned since a prefix was last dropped from `limited`.
    is_full: bool,
}

impl LimitCounter {
    fn new(size: usize) -> Self {
        let since_start = HeavyKeys::new(size);
        LimitCounter { size, since_start, hour: LastHour::default(), limited: HashMap::new(), is_full: false }
    }

    /// Counts replies; returns the line to log.
    fn count(&mut self, replies: &LimitedReplies, now: Instant) -> Option<String> {
        let (prefix, count) = (replies.prefix(), replies.count);
        let key = key_of(&prefix);
        self.since_start.add_many(&key, count);
        if let Some(present) = self.hour.present(now, || HeavyKeys::new(self.size)) {
            present.add_many(&key, count);
        }
        let room = self.limited.len() < MOST_LOGGED;
        match self.limited.get_mut(&prefix) {
            Some(limited) => {
                limited.newest = now;
                limited.count += count;
                None
            }
            None if room => {
                self.limited.insert(prefix, LimitedPrefix { newest: now, count });
                Some(format!("replies to {prefix} are limited: {}", replies.kind.label()))
            }
            None if !self.is_full => {
                self.is_full = true;
                Some("replies to more networks are limited: see `nomen ctl limits top`".to_owned())
            }
            None => None,
        }
    }

    /// Drops the prefixes that are no longer limited; returns the lines to log.
    fn ended(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        self.limited.retain(|prefix, limited| {
            let is_limited = now.saturating_duration_since(limited.newest) < QUIET;
            if !is_limited {
                let count = limited.count;
                lines.push(format!("replies to {prefix} are no longer limited: {count} were over the limit"));
            }
            is_limited
        });
        self.is_full &= lines.is_empty();
        lines
    }

    fn list(&mut self, last_hour: bool, most: usize, now: Instant) -> TopList {
        let tables = match last_hour {
            true => self.hour.all(now).collect(),
            false => vec![&self.since_start],
        };
        TopList::of(tables, most, shown)
    }
}

/// Returns the key of a prefix in the tables.
fn key_of(prefix: &Prefix) -> [u8; 18] {
    let (octets, family) = match prefix.address() {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().octets(), 4),
        IpAddr::V6(v6) => (v6.octets(), 6),
    };
    let mut key = [0; 18];
    key[..16].copy_from_slice(&octets);
    key[16..].copy_from_slice(&[family, prefix.len()]);
    key
}

/// Returns a key of the tables as text.
fn shown(key: &[u8]) -> String {
    let prefix = || {
        let (octets, rest) = key.split_first_chunk::<16>()?;
        let (family, len) = (*rest.first()?, *rest.last()?);
        let address = IpAddr::from(Ipv6Addr::from(*octets));
        Prefix::of(if family == 4 { address.to_canonical() } else { address }, len)
    };
    prefix().map_or_else(String::new, |prefix| prefix.to_string())
}

impl RecordWriter<LimitedReplies> for LimitCounter {
    fn write(&mut self, replies: &LimitedReplies, _: &[u8]) {
        if let Some(line) = self.count(replies, Instant::now()) {
            info!("{line}");
        }
    }

    fn settle(&mut self) {
        if !self.limited.is_empty() {
            self.ended(Instant::now()).iter().for_each(|line| info!("{line}"));
        }
    }

    fn due(&self) -> Option<Duration> {
        let newest = self.limited.values().map(|limited| limited.newest).min()?;
        Some(QUIET.saturating_sub(newest.elapsed()))
    }
}

/// The engine's end of the queue.
struct LimitTap(Arc<WorkerQueue<LimitedReplies>>);

impl LimitLog for LimitTap {
    fn limited(&self, replies: LimitedReplies) {
        self.0.put(|| replies, &[]);
    }
}

/// What is limited most. Off until it has a size.
pub struct LimitsTop(TopThread<LimitedReplies, LimitCounter>);

impl Default for LimitsTop {
    fn default() -> Self {
        LimitsTop(TopThread::new("rate-limits"))
    }
}

impl LimitsTop {
    /// Starts with tables of this size; 0 is off. Another size empties the tables. Returns the engine's end
    /// of the queue.
    ///
    /// # Errors
    /// The system's error if it refuses the thread.
    pub fn resize(&self, size: usize) -> std::io::Result<Option<Arc<dyn LimitLog>>> {
        let queue = self.0.resize(size, LimitCounter::new)?;
        Ok(queue.map(|queue| Arc::new(LimitTap(queue)) as Arc<dyn LimitLog>))
    }

    /// Returns the prefixes that are limited most, at most this many. `None`: it is off, or the thread does
    /// not reply in time.
    pub fn list(&self, last_hour: bool, most: usize) -> Option<TopList> {
        self.0.ask(move |counter| counter.list(last_hour, most, Instant::now()))
    }

    /// Returns the size of the tables; 0 is off.
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// Returns the number of records that found the queue full.
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

#[cfg(test)]
mod tests {
    use query_path::ReplyKind;

    use super::*;

    fn replies(client: &str, level: usize, count: u64) -> LimitedReplies {
        let client = client.parse().expect("an address");
        LimitedReplies { client, level, kind: ReplyKind::Answer, count }
    }

    #[test]
    fn prefixes_are_counted_with_those_that_were_left_out() {
        let (mut counter, now) = (LimitCounter::new(10), Instant::now());
        for (client, level, count) in
            [("192.0.2.1", 0, 5), ("192.0.2.1", 1, 1), ("192.0.2.9", 1, 7), ("2001:db8::1", 3, 2)]
        {
            counter.count(&replies(client, level, count), now);
        }
        let found = counter.list(false, 3, now);
        let texts: Vec<(&str, u64)> =
            found.entries.iter().map(|(text, count, _)| (text.as_str(), *count)).collect();
        assert_eq!(texts, [("192.0.2.0/24", 8), ("192.0.2.1/32", 5), ("2001:db8::/48", 2)]);
        assert_eq!((found.total, found.others), (15, 0));
        let later = now + Duration::from_secs(2 * 3600);
        assert_eq!(counter.list(true, 3, later), TopList::default());
        assert_eq!(counter.list(false, 3, later).total, 15);
    }

    #[test]
    fn a_line_is_logged_when_a_prefix_begins_and_when_it_ends_to_be_limited() {
        let (mut counter, now) = (LimitCounter::new(10), Instant::now());
        let seconds = |seconds| now + Duration::from_secs(seconds);
        let one = replies("192.0.2.1", 1, 3);
        assert_eq!(counter.count(&one, now).as_deref(), Some("replies to 192.0.2.0/24 are limited: answer"));
        assert_eq!(counter.count(&one, seconds(50)), None);
        assert!(counter.ended(seconds(109)).is_empty());
        let line = "replies to 192.0.2.0/24 are no longer limited: 6 were over the limit";
        assert_eq!(counter.ended(seconds(110)), [line]);
        assert!(counter.ended(seconds(200)).is_empty() && counter.due().is_none());
        assert!(counter.count(&one, seconds(201)).is_some());
    }

    #[test]
    fn the_log_lines_of_many_prefixes_are_bounded() {
        let (mut counter, now) = (LimitCounter::new(10), Instant::now());
        let lines = (0..=255_u8).filter(|n| {
            let one = replies(&format!("192.0.{n}.1"), 1, 1);
            (0..3).filter(|_| counter.count(&one, now).is_some()).count() > 0
        });
        assert_eq!(lines.count(), MOST_LOGGED + 1);
        assert_eq!(counter.ended(now + QUIET).len(), MOST_LOGGED);
    }
}
