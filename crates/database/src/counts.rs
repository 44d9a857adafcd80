//! The state of the database as operators see it: [`DatabaseStatus`], [`DatabaseNode`]; counters and times
//! of commits: [`DatabaseCounts`].

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// The state of the connection to the database, and how far this node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseStatus {
    /// Whether there is a connection that accepts writes.
    pub connected: bool,
    /// The host and port, or the socket, of the connection at hand or of the last one.
    pub host: Option<String>,
    /// Since when it is connected, or not connected; `None` before the first attempt has ended.
    pub since: Option<SystemTime>,
    /// Why it is not connected.
    pub fault: Option<String>,
    /// Version of the server, as it says.
    pub server: Option<String>,
    /// The number of the last change in the database, as far as known.
    pub last_change: i64,
    /// The number of the last change that was handed to the sink, with all before it.
    pub followed: i64,
    /// When this node last had all changes of the database; `None`: never.
    pub current_at: Option<SystemTime>,
    /// Zones in the database.
    pub zones: u64,
    /// Zones whose content is still to be read since the connection was made.
    pub unread: u64,
    /// Zones of the database whose records do not parse.
    pub unfit: u64,
    /// Commits that wait or are in flight.
    pub waiting: u64,
    /// Whether this node maintains the keys and signatures of zones.
    pub signs: bool,
}

/// A row of the table of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseNode {
    /// Its name.
    pub name: String,
    /// When it last reported, by the clock of the database.
    pub seen: SystemTime,
    /// How long ago that is, by the clock of the database.
    pub age: Duration,
    /// The number of the last change that it has.
    pub change: i64,
    /// Zones of the database that it has.
    pub zones: u64,
    /// Its version of nomen.
    pub version: String,
    /// The address from which it connects; `None` on a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether it maintains the keys and signatures of zones.
    pub signs: bool,
}

/// Upper bounds of the [buckets of times](DatabaseCounts::commit_times) of commits.
pub const COMMIT_TIME_BOUNDS: [Duration; 10] = [
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// Counters of what was done with the database.
#[derive(Debug, Default)]
pub struct DatabaseCounts {
    /// Connections that were made.
    pub connects: AtomicU64,
    /// Attempts to connect that failed, by rounds over all hosts, and connections that broke.
    pub faults: AtomicU64,
    /// Changes of zones that were committed.
    pub committed: AtomicU64,
    /// Statements that committed them.
    pub groups: AtomicU64,
    /// Changes that another node's change made void.
    pub conflicts: AtomicU64,
    /// Changes that the database did not accept, or of zones that are gone.
    pub refused: AtomicU64,
    /// Changes that were not made since the database was not available.
    pub unavailable: AtomicU64,
    /// Changes of which it is not known whether they were made.
    pub unclear: AtomicU64,
    /// Changes that were read from the database.
    pub changes_read: AtomicU64,
    /// Zones that were read whole.
    pub zones_read: AtomicU64,
    /// Contents that did not parse.
    pub unfit: AtomicU64,
    /// Times of commits from the call to their end: how many ended within each of [`COMMIT_TIME_BOUNDS`]
    /// but not within the bound before, and last those that took longer.
    pub commit_times: [AtomicU64; COMMIT_TIME_BOUNDS.len() + 1],
    /// Sum of these times in microseconds.
    pub commit_micros: AtomicU64,
}

impl DatabaseCounts {
    /// Counts the time of a commit.
    pub(crate) fn took(&self, time: Duration) {
        let bucket = COMMIT_TIME_BOUNDS.partition_point(|bound| *bound < time);
        if let Some(count) = self.commit_times.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        self.commit_micros.fetch_add(time.as_micros() as u64, Relaxed);
    }
}
