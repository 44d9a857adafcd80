//! Lines of the audit file, and which refused requests have their own. Anyone can send such requests, so the
//! number of lines per client and interval is limited, and that of all clients together to a hundred times as
//! many. Further requests are counted, and after the interval one line per client has their number. [`Trail`]
//! decides this without a clock or a thread.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use config::log::{DEFAULT_INTERVAL, DEFAULT_REFUSALS};

/// Target of the audit trail's events, which are logged nowhere else.
pub const AUDIT: &str = "audit";

/// Whether there is an audit file.
static HAS_AUDIT_FILE: AtomicBool = AtomicBool::new(false);

/// Returns whether there is an audit file: without one, its lines are not formatted.
pub fn has_audit_file() -> bool {
    HAS_AUDIT_FILE.load(Relaxed)
}

/// Sets whether there is an audit file.
pub fn set_audit_file(is_there: bool) {
    HAS_AUDIT_FILE.store(is_there, Relaxed);
}

/// Writes a line to the audit file, if there is one.
#[macro_export]
macro_rules! audit {
    ($($line:tt)*) => {
        if $crate::trail::has_audit_file() {
            tracing::info!(target: $crate::trail::AUDIT, $($line)*);
        }
    };
}
pub use audit;

/// The line limit of all clients together, as a multiple of the limit of one.
const ALL_CLIENTS_FACTOR: usize = 100;
/// Largest number of clients counted one by one in an interval; requests of further clients are counted
/// together.
const MAX_CLIENTS: usize = 4096;

/// The refused requests of the current interval.
#[derive(Debug)]
pub struct Trail {
    interval: Duration,
    /// Largest number of lines for one client.
    per_client: usize,
    /// The end of the interval; `None` while nothing was refused.
    end: Option<Instant>,
    /// Lines in this interval.
    lines: usize,
    clients: HashMap<IpAddr, ClientRefusals>,
    /// Requests of clients beyond [`MAX_CLIENTS`].
    others: ClientRefusals,
}

/// The refused requests of one client.
#[derive(Debug, Default)]
struct ClientRefusals {
    lines: usize,
    /// Requests without a line of their own.
    held: u64,
    /// The kind of the last of these requests.
    last: &'static str,
}

/// A line about requests of a client that have no line of their own.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusalCount {
    /// The client; `None` for all clients beyond those that are counted one by one.
    client: Option<IpAddr>,
    /// The number of requests.
    not_logged: u64,
    /// The kind of the last of these requests, such as "update".
    last: &'static str,
    /// Length of the interval in seconds.
    seconds: u64,
}

impl Default for Trail {
    fn default() -> Self {
        Trail {
            interval: DEFAULT_INTERVAL,
            per_client: DEFAULT_REFUSALS,
            end: None,
            lines: 0,
            clients: HashMap::new(),
            others: ClientRefusals::default(),
        }
    }
}

impl Trail {
    /// Sets the length of an interval. The current interval ends when it was to end.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Sets the largest number of lines for one client.
    pub fn set_per_client(&mut self, per_client: usize) {
        self.per_client = per_client;
    }

    /// Returns whether the refused request of a client has its own line. Otherwise counts it.
    pub fn admit(&mut self, client: IpAddr, what: &'static str, now: Instant) -> bool {
        if self.interval.is_zero() {
            return true;
        }
        self.end.get_or_insert(now + self.interval);
        let is_known = self.clients.contains_key(&client) || self.clients.len() < MAX_CLIENTS;
        let room = if is_known { self.per_client.saturating_mul(ALL_CLIENTS_FACTOR) } else { 0 };
        let refusals = if is_known { self.clients.entry(client).or_default() } else { &mut self.others };
        if refusals.lines < self.per_client && self.lines < room {
            refusals.lines += 1;
            self.lines += 1;
            return true;
        }
        (refusals.held, refusals.last) = (refusals.held + 1, what);
        false
    }

    /// Returns the lines with numbers, ordered by client, if the interval is over or `all` is set.
    pub fn due(&mut self, now: Instant, all: bool) -> Vec<RefusalCount> {
        if !self.end.is_some_and(|end| end <= now || all) {
            return Vec::new();
        }
        let seconds = self.interval.as_secs();
        let (clients, others) = (std::mem::take(&mut self.clients), std::mem::take(&mut self.others));
        (self.end, self.lines) = (None, 0);
        let mut clients: Vec<_> = clients.into_iter().map(|(client, of)| (Some(client), of)).collect();
        clients.sort_unstable_by_key(|(client, _)| *client);
        clients.push((None, others));
        let count = |(client, of): (Option<IpAddr>, ClientRefusals)| RefusalCount {
            client,
            not_logged: of.held,
            last: of.last,
            seconds,
        };
        clients.into_iter().filter(|(_, of)| of.held > 0).map(count).collect()
    }

    /// Returns when [`due`](Self::due) must be called next.
    pub fn next(&self) -> Option<Instant> {
        self.end
    }
}

impl RefusalCount {
    /// Writes the line.
    pub fn log(&self) {
        let RefusalCount { client, not_logged, last, seconds } = self;
        match client {
            Some(client) => audit!(%client, not_logged, last, seconds, "requests refused"),
            None => audit!(not_logged, last, seconds, "requests of further clients refused"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u16) -> IpAddr {
        let [a, b] = last.to_be_bytes();
        IpAddr::from([192, 0, a, b])
    }

    #[test]
    fn a_client_without_end_hides_no_other_and_its_requests_are_counted() {
        let (mut trail, begun) = (Trail::default(), Instant::now());
        trail.set_per_client(2);
        let lines = (0..1000).filter(|_| trail.admit(client(1), "transfer", begun)).count();
        assert_eq!(lines, 2);
        assert!(trail.admit(client(2), "update", begun), "another client");
        assert_eq!((trail.due(begun, false), trail.next()), (Vec::new(), Some(begun + DEFAULT_INTERVAL)));
        let count = RefusalCount { client: Some(client(1)), not_logged: 998, last: "transfer", seconds: 60 };
        assert_eq!(trail.due(begun + DEFAULT_INTERVAL, false), [count]);
        assert_eq!(trail.next(), None, "all is forgotten");
        assert!(trail.admit(client(1), "transfer", begun + DEFAULT_INTERVAL));
    }

    #[test]
    fn lines_and_memory_are_bounded_whatever_the_number_of_clients() {
        let (mut trail, now) = (Trail::default(), Instant::now());
        trail.set_per_client(3);
        let lines = (0..10_000).filter(|i| trail.admit(client(*i), "NOTIFY", now)).count();
        assert_eq!((lines, trail.clients.len()), (3 * ALL_CLIENTS_FACTOR, MAX_CLIENTS));
        let counts = trail.due(now, true);
        let all: u64 = counts.iter().map(|count| count.not_logged).sum();
        assert_eq!(
            (counts.len(), all),
            (MAX_CLIENTS - 3 * ALL_CLIENTS_FACTOR + 1, 10_000 - 3 * ALL_CLIENTS_FACTOR as u64)
        );
        let others = RefusalCount {
            client: None,
            not_logged: 10_000 - MAX_CLIENTS as u64,
            last: "NOTIFY",
            seconds: 60,
        };
        assert_eq!(counts.last(), Some(&others));
    }

    #[test]
    fn without_an_interval_each_request_has_a_line() {
        let (mut trail, now) = (Trail::default(), Instant::now());
        trail.set_per_client(1);
        trail.set_interval(Duration::ZERO);
        assert!((0..1000).all(|_| trail.admit(client(1), "update", now)));
        assert_eq!((trail.next(), trail.due(now, true)), (None, Vec::new()));
    }
}
