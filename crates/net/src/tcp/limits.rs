//! Limits of TCP connections: their number, in all and per client, which one is evicted when there is no
//! room, and their timeouts. All can be changed while connections are served. Shared state is changed only
//! when connections open and close; a busy connection writes only its own time stamp.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::event::ConnectionEvent;

/// Idle connections noted for eviction in one pass over all of them.
const EVICTION_CANDIDATES: usize = 64;

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpTimes {
    /// Longest wait for the first message of a connection. Default: 5 s.
    pub first_message: Duration,
    /// Idle timeout of a connection with no query in flight. Falls linearly towards `idle_min` as connections
    /// fill the second half of the limit. Default: 10 s.
    pub idle: Duration,
    /// Idle timeout when the limit is reached. Default: 200 ms.
    pub idle_min: Duration,
    /// Longest time from the first byte of a message to its last. Default: 2 s.
    pub message: Duration,
    /// Longest time in which a client must read at least 4 KiB, or all, of the bytes sent. Default: 5 s.
    pub write: Duration,
}

impl Default for TcpTimes {
    fn default() -> Self {
        TcpTimes {
            first_message: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            idle_min: Duration::from_millis(200),
            message: Duration::from_secs(2),
            write: Duration::from_secs(5),
        }
    }
}

/// [`TcpTimes`] that can be changed while they are read: nanoseconds, in the order of the fields.
struct LiveTimes([AtomicU64; 5]);

impl LiveTimes {
    fn new(times: &TcpTimes) -> Self {
        let live = LiveTimes(Default::default());
        live.set(times);
        live
    }

    fn set(&self, times: &TcpTimes) {
        let TcpTimes { first_message, idle, idle_min, message, write } = *times;
        for (place, time) in self.0.iter().zip([first_message, idle, idle_min, message, write]) {
            place.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    fn get(&self) -> TcpTimes {
        let read = |place: &AtomicU64| Duration::from_nanos(place.load(Ordering::Relaxed));
        let [first_message, idle, idle_min, message, write] = self.0.each_ref().map(read);
        TcpTimes { first_message, idle, idle_min, message, write }
    }
}

/// The limits of TCP connections, shared by the listeners that have clones of it.
#[derive(Clone)]
pub struct TcpLimits {
    shared: Arc<Shared>,
}

struct Shared {
    start: Instant,
    max: AtomicUsize,
    max_per_client: AtomicUsize,
    current: AtomicUsize,
    times: LiveTimes,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next_id: u64,
    connections: HashMap<u64, Arc<Entry>>,
    per_client: HashMap<IpAddr, usize>,
    /// Connections found idle, with their stamps at that time, the longest idle last.
    candidates: Vec<(u64, u64)>,
}

struct Entry {
    client: IpAddr,
    /// When the connection last became idle, in milliseconds from `Shared::start`; [`BUSY`] while it is not.
    stamp: AtomicU64,
    events: UnboundedSender<ConnectionEvent>,
}

const BUSY: u64 = u64::MAX;

/// The reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    /// The limit is reached and no connection is idle.
    Full,
    /// The client has reached its limit.
    Client,
}

impl Default for TcpLimits {
    /// 10,000 connections in all, 100 per client, and the default times.
    fn default() -> Self {
        TcpLimits::new(10_000, 100, &TcpTimes::default())
    }
}

impl TcpLimits {
    /// At most `max` connections in all and `max_per_client` from one client: an IPv4 address or an IPv6 /64.
    pub fn new(max: usize, max_per_client: usize, times: &TcpTimes) -> Self {
        TcpLimits {
            shared: Arc::new(Shared {
                start: Instant::now(),
                max: AtomicUsize::new(max),
                max_per_client: AtomicUsize::new(max_per_client),
                current: AtomicUsize::new(0),
                times: LiveTimes::new(times),
                table: Mutex::default(),
            }),
        }
    }

    /// Changes the limits. Connections above a lowered limit stay; new ones are refused or evict idle ones.
    pub fn set(&self, max: usize, max_per_client: usize) {
        self.shared.max.store(max, Ordering::Relaxed);
        self.shared.max_per_client.store(max_per_client, Ordering::Relaxed);
    }

    /// Changes the timeouts. A waiting connection keeps the old ones until it does something, or until they
    /// expire.
    pub fn set_times(&self, times: &TcpTimes) {
        self.shared.times.set(times);
    }

    /// Returns the present timeouts.
    pub fn times(&self) -> TcpTimes {
        self.shared.times.get()
    }

    /// Returns the number of connections.
    pub fn current(&self) -> usize {
        self.shared.current.load(Ordering::Relaxed)
    }

    /// Returns the number of connections in proportion to the limit: 0 none, 1 full.
    pub(crate) fn load(&self) -> f64 {
        let max = self.shared.max.load(Ordering::Relaxed).max(1);
        self.current() as f64 / max as f64
    }

    /// Admits a connection from `peer`, which receives its events through `events`. If there is no room,
    /// evicts the longest idle connection.
    pub(crate) fn admit(
        &self,
        peer: SocketAddr,
        events: UnboundedSender<ConnectionEvent>,
    ) -> Result<Permit, TurnedAway> {
        let client = client(peer.ip());
        let mut guard = self.table();
        let table = &mut *guard;
        let of_client = table.per_client.get(&client).copied().unwrap_or(0);
        if of_client >= self.shared.max_per_client.load(Ordering::Relaxed) {
            return Err(TurnedAway::Client);
        }
        if table.connections.len() >= self.shared.max.load(Ordering::Relaxed) && !table.evict() {
            return Err(TurnedAway::Full);
        }
        let id = table.next_id;
        table.next_id += 1;
        let entry = Arc::new(Entry { client, stamp: AtomicU64::new(self.clock()), events });
        table.connections.insert(id, Arc::clone(&entry));
        *table.per_client.entry(client).or_default() += 1;
        self.shared.current.store(table.connections.len(), Ordering::Relaxed);
        drop(guard);
        Ok(Permit { limits: self.clone(), id, entry })
    }

    /// Evicts the longest idle connection, so that its file descriptor becomes free. Returns whether there
    /// was one.
    pub(crate) fn evict_one(&self) -> bool {
        let mut table = self.table();
        let evicted = table.evict();
        self.shared.current.store(table.connections.len(), Ordering::Relaxed);
        evicted
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change keeps the table consistent, so a panic while it was locked does not matter.
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> u64 {
        u64::try_from(self.shared.start.elapsed().as_millis()).unwrap_or(BUSY - 1).min(BUSY - 1)
    }
}

impl Table {
    /// Removes the longest idle connection and signals it to close. Returns false if none is idle.
    fn evict(&mut self) -> bool {
        for fresh in [false, true] {
            if fresh {
                self.look_for_idle();
            }
            while let Some((stamp, id)) = self.candidates.pop() {
                let Some(entry) = self.connections.get(&id) else { continue };
                // A connection that did something since it was noted is no longer among the longest idle.
                if entry.stamp.load(Ordering::Relaxed) == stamp {
                    let _ = entry.events.send(ConnectionEvent::Evict);
                    self.remove(id);
                    return true;
                }
            }
        }
        false
    }

    fn look_for_idle(&mut self) {
        let mut idle: Vec<(u64, u64)> = self
            .connections
            .iter()
            .map(|(&id, entry)| (entry.stamp.load(Ordering::Relaxed), id))
            .filter(|&(stamp, _)| stamp != BUSY)
            .collect();
        let keep = idle.len().min(EVICTION_CANDIDATES);
        if keep > 0 && keep < idle.len() {
            idle.select_nth_unstable(keep - 1);
        }
        idle.truncate(keep);
        idle.sort_unstable_by(|a, b| b.cmp(a));
        self.candidates = idle;
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.connections.remove(&id) else { return };
        if let Some(n) = self.per_client.get_mut(&entry.client) {
            *n -= 1;
            if *n == 0 {
                self.per_client.remove(&entry.client);
            }
        }
    }
}

/// A connection's place under the limits; dropping it frees the place.
pub(crate) struct Permit {
    limits: TcpLimits,
    id: u64,
    entry: Arc<Entry>,
}

impl Permit {
    /// Notes that the connection is busy, and so is not to be evicted.
    pub(crate) fn busy(&self) {
        self.entry.stamp.store(BUSY, Ordering::Relaxed);
    }

    /// Notes that the connection is idle from now on.
    pub(crate) fn idle(&self) {
        self.entry.stamp.store(self.limits.clock(), Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> f64 {
        self.limits.load()
    }

    pub(crate) fn times(&self) -> TcpTimes {
        self.limits.times()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut table = self.limits.table();
        table.remove(self.id);
        self.limits.shared.current.store(table.connections.len(), Ordering::Relaxed);
    }
}

/// Returns the address that counts as one client: an IPv4 address, or the /64 of an IPv6 address, which one
/// customer usually has alone.
fn client(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => std::net::Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}
