//! Limits of TCP connections: their number, in all, per client and per network, which one is evicted when
//! there is no room, and their timeouts. All can be changed while connections are served. Shared state is
//! changed only when connections open and close; a busy connection writes only its own time stamp.
//!
//! When there is no room, a connection of the network with the most connections is evicted, and in it one of
//! the client with the most: the one that has been idle for longest, or that has read nothing of its answers.
//! A connection whose query is being answered, and one whose client reads, are never evicted; neither is one
//! of a network with clearly fewer connections than that of the new one. So clients of one network, however
//! many connections they open and whatever they do with them, take no room from others.
//!
//! Bytes that wait for clients, or for the rest of a message, have a limit as well, over all connections.
//! While there are more, each connection gets one answer at a time, and those whose clients have read nothing
//! for [`STALL`] are evicted.
//!
//! A proxy's connections count as the proxy's until its header names their client, then as that client's. The
//! limits of one client and of one network do not apply to those that count as the proxy's, the total does.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::event::ConnectionEvent;

/// Connections noted for eviction in one pass over all of them.
const EVICTION_CANDIDATES: usize = 64;
/// Counts of connections that differ by less than this part count as equal, so that one pass serves several
/// evictions.
const EQUAL_WITHIN: usize = 16;
/// Time without an answer read after which a connection with unread answers may be evicted.
pub(super) const STALL: Duration = Duration::from_secs(1);
/// Time after a pass that found nothing to evict until the next one, in milliseconds.
const NEXT_PASS: u64 = 50;

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpTimes {
    /// Longest wait for the first message of a connection. Default: 5 s.
    pub first_message: Duration,
    /// Idle timeout of a connection with no query in flight. Falls linearly towards `idle_min` as connections
    /// fill the second half of the limit. Default: 10 s.
    pub idle: Duration,
    /// Idle timeout when the limit is reached; `idle` if that is shorter. Default: 200 ms.
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

impl TcpTimes {
    /// Returns the idle timeout at this load: `idle` up to half full, then falling linearly.
    pub(crate) fn idle_at(&self, load: f64) -> Duration {
        let fullness = ((load - 0.5) * 2.0).clamp(0.0, 1.0);
        self.idle.mul_f64(1.0 - fullness).max(self.idle_min.min(self.idle))
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
    max_per_network: AtomicUsize,
    current: AtomicUsize,
    max_waiting: AtomicUsize,
    /// Bytes that wait in all connections.
    waiting: AtomicUsize,
    /// Time of the next pass for connections to evict since too many bytes wait, in milliseconds.
    next_relief: AtomicU64,
    times: LiveTimes,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next_id: u64,
    connections: HashMap<u64, Arc<Entry>>,
    clients: Counts,
    networks: Counts,
    /// Connections that may be evicted, the first one last.
    candidates: Vec<Candidate>,
    /// Until when no pass is made for a network with so many connections or more, since the last one found
    /// nothing for it.
    barren: Option<(u64, usize)>,
}

/// Numbers of connections, by address prefix.
#[derive(Default)]
struct Counts(HashMap<IpAddr, Arc<AtomicUsize>>);

impl Counts {
    fn of(&self, prefix: IpAddr) -> usize {
        self.0.get(&prefix).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn add(&mut self, prefix: IpAddr) -> Arc<AtomicUsize> {
        let count = self.0.entry(prefix).or_default();
        count.fetch_add(1, Ordering::Relaxed);
        Arc::clone(count)
    }

    fn remove(&mut self, prefix: IpAddr) {
        if let Some(count) = self.0.get(&prefix)
            && count.fetch_sub(1, Ordering::Relaxed) == 1
        {
            self.0.remove(&prefix);
        }
    }
}

struct Entry {
    client: IpAddr,
    network: IpAddr,
    /// Connections of the client and of the network, this one included. Changed only with the table locked.
    of_client: Arc<AtomicUsize>,
    of_network: Arc<AtomicUsize>,
    /// What the connection does, since when: [`Activity::to_stamp`].
    stamp: AtomicU64,
    events: UnboundedSender<ConnectionEvent>,
}

impl Entry {
    /// Connections of its network and of its client.
    fn weight(&self) -> (usize, usize) {
        (self.of_network.load(Ordering::Relaxed), self.of_client.load(Ordering::Relaxed))
    }
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// A query is being answered.
    Busy,
    /// There are answers that the client has not read, and it has read some at this time.
    Unread(Instant),
    /// It waits for a query.
    Idle,
}

/// The stamp of a busy connection.
const BUSY: u64 = u64::MAX;
/// Bit of a stamp: there are unread answers.
const UNREAD: u64 = 1;

impl Activity {
    /// Returns the stamp: milliseconds from the start of the limits, shifted, and [`UNREAD`]; or [`BUSY`].
    fn to_stamp(self, start: Instant, clock: u64) -> u64 {
        match self {
            Activity::Busy => BUSY,
            Activity::Unread(since) => milliseconds(since.saturating_duration_since(start)) << 1 | UNREAD,
            Activity::Idle => clock << 1,
        }
    }
}

/// Whether a connection with this stamp may be evicted.
fn is_evictable(stamp: u64, clock: u64) -> bool {
    stamp != BUSY && (stamp & UNREAD == 0 || (stamp >> 1) + milliseconds(STALL) <= clock)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(u64::MAX >> 2)
}

/// A connection that may be evicted, as it was when it was noted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Connections of its network and of its client.
    weight: (usize, usize),
    /// The later, the lower.
    stamp: Reverse<u64>,
    id: Reverse<u64>,
}

/// The reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    /// The limit is reached, and no connection may be evicted for this one.
    Full,
    /// The client has reached its limit.
    Client,
    /// The network has reached its limit.
    Network,
}

impl Default for TcpLimits {
    /// 10,000 connections in all, 5,000 per network, 100 per client, and the default times.
    fn default() -> Self {
        let limits = TcpLimits::new(10_000, 100, &TcpTimes::default());
        limits.set_per_network(5_000);
        limits
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
                max_per_network: AtomicUsize::new(usize::MAX),
                current: AtomicUsize::new(0),
                max_waiting: AtomicUsize::new(usize::MAX),
                waiting: AtomicUsize::new(0),
                next_relief: AtomicU64::new(0),
                times: LiveTimes::new(times),
                table: Mutex::default(),
            }),
        }
    }

    /// Changes the limits. Connections above a lowered limit stay; new ones are refused or evict others.
    pub fn set(&self, max: usize, max_per_client: usize) {
        self.shared.max.store(max, Ordering::Relaxed);
        self.shared.max_per_client.store(max_per_client, Ordering::Relaxed);
    }

    /// Returns the limit of connections of one client.
    pub(crate) fn per_client(&self) -> usize {
        self.shared.max_per_client.load(Ordering::Relaxed)
    }

    /// Changes the limit of one network, an IPv4 /24 or an IPv6 /56. Unset, it is none.
    pub fn set_per_network(&self, max_per_network: usize) {
        self.shared.max_per_network.store(max_per_network, Ordering::Relaxed);
    }

    /// Changes the limit of bytes that wait in all connections: answers that clients have not read, and
    /// messages that are not complete. Unset, it is none.
    pub fn set_waiting(&self, max_waiting: usize) {
        self.shared.max_waiting.store(max_waiting, Ordering::Relaxed);
    }

    /// Returns the number of bytes that wait in all connections.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Whether more bytes wait than may.
    fn is_crowded(&self) -> bool {
        self.waiting() > self.shared.max_waiting.load(Ordering::Relaxed)
    }

    /// Evicts the connections whose clients have read nothing of their answers for [`STALL`].
    fn relieve(&self, clock: u64) {
        let next = self.shared.next_relief.load(Ordering::Relaxed);
        if clock < next {
            return;
        }
        self.shared.next_relief.store(clock + NEXT_PASS, Ordering::Relaxed);
        let mut table = self.table();
        table.evict_stalled(clock);
        self.shared.current.store(table.connections.len(), Ordering::Relaxed);
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

    /// Returns the present idle timeout, which is shorter than that of the [times](Self::times) if more than
    /// half of the limit are open.
    pub fn idle_timeout(&self) -> Duration {
        let times = self.times();
        times.idle_at(self.load())
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
    /// evicts another.
    pub(crate) fn admit(
        &self,
        peer: SocketAddr,
        events: UnboundedSender<ConnectionEvent>,
    ) -> Result<Permit, TurnedAway> {
        self.admit_as(peer, events, false)
    }

    /// Admits a connection from `peer`, which is a proxy; otherwise as [`admit`](Self::admit).
    pub(crate) fn admit_proxy(
        &self,
        peer: SocketAddr,
        events: UnboundedSender<ConnectionEvent>,
    ) -> Result<Permit, TurnedAway> {
        self.admit_as(peer, events, true)
    }

    fn admit_as(
        &self,
        peer: SocketAddr,
        events: UnboundedSender<ConnectionEvent>,
        is_proxy: bool,
    ) -> Result<Permit, TurnedAway> {
        let clock = self.clock();
        let entry = {
            let mut table = self.table();
            let allowed = if is_proxy { Ok(()) } else { table.check(peer.ip(), &self.shared) };
            allowed.and_then(|()| table.admit(peer.ip(), events, &self.shared, clock))
        };
        let (id, entry) = entry?;
        Ok(Permit { limits: self.clone(), id, entry, waiting: 0 })
    }

    /// Evicts a connection, so that its file descriptor becomes free for a connection from `peer`. Returns
    /// whether there was one.
    pub(crate) fn evict_for(&self, peer: SocketAddr) -> bool {
        let clock = self.clock();
        let mut table = self.table();
        let evicted = table.evict(network(peer.ip()), clock);
        self.shared.current.store(table.connections.len(), Ordering::Relaxed);
        evicted
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change keeps the table consistent, so a panic while it was locked does not matter.
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> u64 {
        milliseconds(self.shared.start.elapsed())
    }
}

impl Table {
    /// Checks the limits of one client and of one network.
    fn check(&self, peer: IpAddr, limits: &Shared) -> Result<(), TurnedAway> {
        let is_below = |count, limit: &AtomicUsize| count < limit.load(Ordering::Relaxed);
        if !is_below(self.clients.of(client(peer)), &limits.max_per_client) {
            return Err(TurnedAway::Client);
        }
        if !is_below(self.networks.of(network(peer)), &limits.max_per_network) {
            return Err(TurnedAway::Network);
        }
        Ok(())
    }

    /// Adds a connection; if there is no room in all, evicts another.
    fn admit(
        &mut self,
        peer: IpAddr,
        events: UnboundedSender<ConnectionEvent>,
        limits: &Shared,
        clock: u64,
    ) -> Result<(u64, Arc<Entry>), TurnedAway> {
        let (client, network) = (client(peer), network(peer));
        let is_full = self.connections.len() >= limits.max.load(Ordering::Relaxed);
        if is_full && !self.evict(network, clock) {
            return Err(TurnedAway::Full);
        }
        let id = self.next_id;
        self.next_id += 1;
        let (of_client, of_network) = (self.clients.add(client), self.networks.add(network));
        let stamp = AtomicU64::new(Activity::Idle.to_stamp(limits.start, clock));
        let entry = Arc::new(Entry { client, network, of_client, of_network, stamp, events });
        self.connections.insert(id, Arc::clone(&entry));
        limits.current.store(self.connections.len(), Ordering::Relaxed);
        Ok((id, entry))
    }

    /// Counts a connection as one of `peer`, if its limits allow that. Returns its new entry; `None` if
    /// it was evicted meanwhile.
    fn pass_to(&mut self, id: u64, peer: IpAddr, limits: &Shared) -> Result<Option<Arc<Entry>>, TurnedAway> {
        if !self.connections.contains_key(&id) {
            return Ok(None);
        }
        self.check(peer, limits)?;
        let Some(old) = self.take(id) else { return Ok(None) };
        let (client, network) = (client(peer), network(peer));
        let (of_client, of_network) = (self.clients.add(client), self.networks.add(network));
        let stamp = AtomicU64::new(old.stamp.load(Ordering::Relaxed));
        let entry =
            Arc::new(Entry { client, network, of_client, of_network, stamp, events: old.events.clone() });
        self.connections.insert(id, Arc::clone(&entry));
        Ok(Some(entry))
    }

    /// Removes a connection and signals it to close, for a new one from `network`. Returns false if there is
    /// none that may be evicted for that.
    fn evict(&mut self, network: IpAddr, clock: u64) -> bool {
        let own = self.networks.of(network);
        for fresh in [false, true] {
            if fresh {
                if self.barren.is_some_and(|(until, weight)| clock < until && own >= weight) {
                    return false;
                }
                self.look_for_candidates(clock);
            }
            let heaviest = self.candidates.last().map_or(0, |first| first.weight.0);
            while let Some(candidate) = self.candidates.pop() {
                let Some(entry) = self.connections.get(&candidate.id.0) else { continue };
                let (of_network, of_client) = entry.weight();
                // A network or client that has lost connections since may no longer have the most.
                if !is_about(of_network, heaviest.max(own)) || !is_about(of_client, candidate.weight.1) {
                    self.candidates.clear();
                    break;
                }
                // A connection that did something since it was noted is no longer among the longest idle.
                if entry.stamp.load(Ordering::Relaxed) == candidate.stamp.0 {
                    let _ = entry.events.send(ConnectionEvent::Evict);
                    self.remove(candidate.id.0);
                    return true;
                }
            }
        }
        self.barren = Some((clock + NEXT_PASS, own));
        false
    }

    fn evict_stalled(&mut self, clock: u64) {
        let is_stalled = |stamp| stamp & UNREAD != 0 && is_evictable(stamp, clock);
        let stalled = |(_, entry): &(&u64, &Arc<Entry>)| is_stalled(entry.stamp.load(Ordering::Relaxed));
        let ids: Vec<u64> = self.connections.iter().filter(stalled).map(|(&id, _)| id).collect();
        for id in ids {
            if let Some(entry) = self.connections.get(&id) {
                let _ = entry.events.send(ConnectionEvent::Evict);
            }
            self.remove(id);
        }
    }

    fn look_for_candidates(&mut self, clock: u64) {
        let mut all: Vec<Candidate> = self
            .connections
            .iter()
            .map(|(&id, entry)| (entry.stamp.load(Ordering::Relaxed), id, entry))
            .filter(|&(stamp, ..)| is_evictable(stamp, clock))
            .map(|(stamp, id, entry)| Candidate {
                weight: entry.weight(),
                stamp: Reverse(stamp),
                id: Reverse(id),
            })
            .collect();
        let drop = all.len().saturating_sub(EVICTION_CANDIDATES);
        if drop > 0 {
            all.select_nth_unstable(drop);
            all.drain(..drop);
        }
        all.sort_unstable();
        self.candidates = all;
    }

    fn remove(&mut self, id: u64) {
        drop(self.take(id));
    }

    /// Removes a connection and returns its entry.
    fn take(&mut self, id: u64) -> Option<Arc<Entry>> {
        let entry = self.connections.remove(&id)?;
        self.clients.remove(entry.client);
        self.networks.remove(entry.network);
        Some(entry)
    }
}

/// Whether a count is no less than another, or about equal.
fn is_about(count: usize, other: usize) -> bool {
    count + other / EQUAL_WITHIN >= other
}

/// A connection's place under the limits; dropping it frees the place.
pub(crate) struct Permit {
    limits: TcpLimits,
    id: u64,
    entry: Arc<Entry>,
    /// Bytes that wait in this connection, as they are counted in all.
    waiting: usize,
}

impl Permit {
    /// Notes how many bytes wait in the connection from now on.
    pub(crate) fn note_waiting(&mut self, bytes: usize) {
        let all = &self.limits.shared.waiting;
        if bytes > self.waiting {
            all.fetch_add(bytes - self.waiting, Ordering::Relaxed);
        } else if bytes < self.waiting {
            all.fetch_sub(self.waiting - bytes, Ordering::Relaxed);
        }
        self.waiting = bytes;
        if self.is_crowded() {
            self.limits.relieve(self.limits.clock());
        }
    }

    /// Whether so many bytes wait in all connections that each may only have one answer at a time.
    pub(crate) fn is_crowded(&self) -> bool {
        self.limits.is_crowded()
    }

    /// Counts the connection, until now a proxy's, as one of the client `peer`.
    pub(crate) fn pass_to(&mut self, peer: IpAddr) -> Result<(), TurnedAway> {
        let passed = self.limits.table().pass_to(self.id, peer, &self.limits.shared)?;
        if let Some(entry) = passed {
            self.entry = entry;
        }
        Ok(())
    }

    /// Notes what the connection does from now on.
    pub(crate) fn note(&self, activity: Activity) {
        let stamp = activity.to_stamp(self.limits.shared.start, self.limits.clock());
        self.entry.stamp.store(stamp, Ordering::Relaxed);
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
        self.note_waiting(0);
        let mut table = self.limits.table();
        table.remove(self.id);
        self.limits.shared.current.store(table.connections.len(), Ordering::Relaxed);
    }
}

/// Returns the address that counts as one client: an IPv4 address, or the /64 of an IPv6 address, which one
/// customer usually has alone.
fn client(ip: IpAddr) -> IpAddr {
    prefix(ip, 32, 64)
}

/// Returns the network of an address: an IPv4 /24 or an IPv6 /56.
fn network(ip: IpAddr) -> IpAddr {
    prefix(ip, 24, 56)
}

fn prefix(ip: IpAddr, of_v4: u32, of_v6: u32) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & u32::MAX << (32 - of_v4)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & u128::MAX << (128 - of_v6)).into(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    #[test]
    fn idle_time_shrinks_from_half_full() {
        let (idle, idle_min) = (Duration::from_secs(10), Duration::from_millis(200));
        let times = TcpTimes { idle, idle_min, ..TcpTimes::default() };
        let at = [0.0, 0.5, 0.75, 1.0, 1.7].map(|load| times.idle_at(load));
        assert_eq!(at, [idle, idle, idle / 2, idle_min, idle_min]);
        let short = TcpTimes { idle: idle_min / 2, ..times };
        assert_eq!(short.idle_at(1.0), idle_min / 2);
    }

    /// Limits, with a clock of their own.
    struct Trial {
        limits: TcpLimits,
        clock: u64,
        open: Vec<Opened>,
    }

    struct Opened {
        from: &'static str,
        id: u64,
        entry: Arc<Entry>,
        events: UnboundedReceiver<ConnectionEvent>,
    }

    impl Trial {
        fn new(max: usize) -> Trial {
            Trial { limits: TcpLimits::new(max, max, &TcpTimes::default()), clock: 0, open: Vec::new() }
        }

        /// Opens a connection, a millisecond later than the last.
        fn open(&mut self, from: &'static str) -> Result<(), TurnedAway> {
            self.clock += 1;
            let (sender, events) = unbounded_channel();
            let shared = Arc::clone(&self.limits.shared);
            let (mut table, peer) = (self.limits.table(), from.parse().expect("an address"));
            table.check(peer, &shared)?;
            let (id, entry) = table.admit(peer, sender, &shared, self.clock)?;
            drop(table);
            self.open.push(Opened { from, id, entry, events });
            Ok(())
        }

        fn open_many(&mut self, from: &'static str, count: usize) -> &mut Self {
            (0..count).for_each(|_| assert_eq!(self.open(from), Ok(()), "{from}"));
            self
        }

        /// Sets what the connections from an address do.
        fn set(&mut self, from: &str, activity: Activity) -> &mut Self {
            for opened in self.open.iter().filter(|opened| opened.from == from) {
                let stamp = activity.to_stamp(self.limits.shared.start, self.clock);
                opened.entry.stamp.store(stamp, Ordering::Relaxed);
            }
            self
        }

        /// Returns the addresses of evicted connections, with their numbers, and removes these.
        fn evicted(&mut self) -> Vec<(&'static str, u64)> {
            let (gone, open) = std::mem::take(&mut self.open)
                .into_iter()
                .map(|mut opened| (opened.events.try_recv().is_ok(), opened))
                .partition::<Vec<_>, _>(|(is_evicted, _)| *is_evicted);
            self.open = open.into_iter().map(|(_, opened)| opened).collect();
            gone.into_iter().map(|(_, opened)| (opened.from, opened.id)).collect()
        }
    }

    #[test]
    fn the_longest_idle_one_of_the_heaviest_network_goes_first() {
        let mut trial = Trial::new(10);
        // The longest idle one of all is that of another network.
        trial.open_many("198.51.100.1", 1).open_many("192.0.2.1", 5).open_many("192.0.2.2", 3);
        trial.open_many("203.0.113.1", 1);
        assert_eq!(trial.open("203.0.113.2"), Ok(()));
        // Of the heaviest client in it.
        assert_eq!(trial.evicted(), [("192.0.2.1", 1)]);
        assert_eq!(trial.open("203.0.113.2"), Ok(()));
        assert_eq!(trial.evicted(), [("192.0.2.1", 2)]);
        // Both clients have three: the longest idle one.
        trial.set("192.0.2.1", Activity::Idle);
        assert_eq!(trial.open("203.0.113.2"), Ok(()));
        assert_eq!(trial.evicted(), [("192.0.2.2", 6)]);
    }

    #[test]
    fn a_network_that_takes_all_room_gives_way_to_every_other() {
        let mut trial = Trial::new(1000);
        trial.open_many("192.0.2.1", 1000);
        // Also while it keeps opening more.
        for _ in 0..300 {
            assert_eq!(trial.open("198.51.100.1"), Ok(()));
            assert_eq!(trial.open("192.0.2.9"), Ok(()));
        }
        assert!(trial.evicted().iter().all(|(from, _)| from.starts_with("192.0.2.")));
        assert_eq!(trial.open.iter().filter(|opened| opened.from == "198.51.100.1").count(), 300);
        assert_eq!(trial.limits.current(), 1000);
    }

    #[test]
    fn a_heavy_network_takes_no_room_from_lighter_ones() {
        let mut trial = Trial::new(100);
        trial.open_many("198.51.100.1", 30).open_many("192.0.2.1", 70).set("192.0.2.1", Activity::Busy);
        assert_eq!(trial.open("192.0.2.2"), Err(TurnedAway::Full));
        // A lighter one gets room from the one that is idle, if that is not lighter still.
        assert_eq!(trial.open("203.0.113.1"), Ok(()));
        assert_eq!(trial.evicted(), [("198.51.100.1", 0)]);
        // Its own connections are evicted for it.
        trial.set("192.0.2.1", Activity::Idle).clock += NEXT_PASS;
        assert_eq!(trial.open("192.0.2.2"), Ok(()));
        assert_eq!(trial.evicted(), [("192.0.2.1", 30)]);
    }

    #[test]
    fn a_connection_that_is_answered_or_read_is_never_evicted() {
        let mut trial = Trial::new(10);
        trial.open_many("192.0.2.1", 5).open_many("192.0.2.2", 5);
        trial.clock = milliseconds(STALL) * 5;
        let start = trial.limits.shared.start;
        let reads = Activity::Unread(start + Duration::from_millis(trial.clock - 1));
        trial.set("192.0.2.1", Activity::Busy).set("192.0.2.2", reads);
        assert_eq!(trial.open("198.51.100.1"), Err(TurnedAway::Full));
        // A client that does not read its answers.
        trial.clock += milliseconds(STALL) + NEXT_PASS;
        assert_eq!(trial.open("198.51.100.1"), Ok(()));
        assert_eq!(trial.evicted(), [("192.0.2.2", 5)]);
    }

    #[test]
    fn one_pass_serves_many_and_a_vain_one_is_not_repeated_at_once() {
        let mut trial = Trial::new(5000);
        trial.open_many("192.0.2.1", 5000);
        trial.open_many("198.51.100.1", 1);
        assert_eq!(trial.limits.table().candidates.len(), EVICTION_CANDIDATES - 1);
        trial.open_many("198.51.100.1", 10);
        assert_eq!(trial.limits.table().candidates.len(), EVICTION_CANDIDATES - 11);
        trial.set("192.0.2.1", Activity::Busy).set("198.51.100.1", Activity::Busy);
        assert_eq!(trial.open("203.0.113.1"), Err(TurnedAway::Full));
        // There is one now, but no pass is made yet.
        trial.set("198.51.100.1", Activity::Idle);
        assert_eq!(trial.open("203.0.113.1"), Err(TurnedAway::Full));
        trial.clock += NEXT_PASS;
        assert_eq!(trial.open("203.0.113.1"), Ok(()));
    }

    #[test]
    fn while_too_many_bytes_wait_those_that_are_not_read_are_given_up() {
        let mut trial = Trial::new(10);
        trial.open_many("192.0.2.1", 1).open_many("192.0.2.2", 2).open_many("192.0.2.3", 1);
        let since = |clock| Activity::Unread(trial.limits.shared.start + Duration::from_millis(clock));
        let (stalled, reads) = (since(10), since(milliseconds(STALL)));
        trial.set("192.0.2.2", stalled).set("192.0.2.3", reads);
        trial.limits.relieve(milliseconds(STALL) + 20);
        assert_eq!(trial.evicted(), [("192.0.2.2", 1), ("192.0.2.2", 2)]);
        assert_eq!(trial.limits.current(), 2);
        // A pass over all connections is not made for each that is polled.
        trial.set("192.0.2.3", stalled).limits.relieve(milliseconds(STALL) + 21);
        assert_eq!(trial.evicted(), []);
        trial.limits.relieve(milliseconds(STALL) + 20 + NEXT_PASS);
        assert_eq!(trial.evicted(), [("192.0.2.3", 3)]);
    }

    #[test]
    fn bytes_that_wait_are_counted_over_all_connections() {
        let limits = TcpLimits::new(10, 10, &TcpTimes::default());
        limits.set_waiting(100);
        let admit = || limits.admit(([192, 0, 2, 1], 1).into(), unbounded_channel().0);
        let (Ok(mut one), Ok(mut other)) = (admit(), admit()) else { panic!("there is room") };
        one.note_waiting(60);
        other.note_waiting(40);
        assert_eq!((limits.waiting(), one.is_crowded()), (100, false));
        other.note_waiting(41);
        assert!(one.is_crowded());
        one.note_waiting(10);
        assert_eq!((limits.waiting(), other.is_crowded()), (51, false));
        drop(other);
        assert_eq!(limits.waiting(), 10);
        drop(one);
        assert_eq!(limits.waiting(), 0);
    }

    #[test]
    fn clients_and_networks_have_limits_and_nothing_stays_of_them() {
        let mut trial = Trial::new(100);
        trial.limits.set(100, 3);
        trial.limits.set_per_network(5);
        trial.open_many("192.0.2.1", 3).open_many("192.0.2.2", 2);
        assert_eq!(trial.open("192.0.2.1"), Err(TurnedAway::Client));
        assert_eq!(trial.open("192.0.2.3"), Err(TurnedAway::Network));
        trial.open_many("192.0.3.3", 1).open_many("::ffff:192.0.3.3", 2);
        assert_eq!(trial.open("192.0.3.3"), Err(TurnedAway::Client));
        // A /64 is a client, a /56 a network.
        trial.open_many("2001:db8::1", 1).open_many("2001:db8::2", 2);
        assert_eq!(trial.open("2001:db8::3"), Err(TurnedAway::Client));
        trial.open_many("2001:db8:0:1::1", 2);
        assert_eq!(trial.open("2001:db8:0:ff::1"), Err(TurnedAway::Network));
        trial.open_many("2001:db8:0:100::1", 1);
        let mut table = trial.limits.table();
        trial.open.iter().for_each(|opened| table.remove(opened.id));
        assert!(table.clients.0.is_empty() && table.networks.0.is_empty() && table.connections.is_empty());
    }

    /// In the first second of the process nothing has stalled yet.
    #[test]
    fn unread_answers_have_stalled_after_a_second_only() {
        let second = milliseconds(STALL);
        for (stamp, clock, expected) in [
            (UNREAD, 2, false),
            (UNREAD, second - 1, false),
            (UNREAD, second, true),
            (5 << 1 | UNREAD, second + 4, false),
            (5 << 1 | UNREAD, second + 5, true),
            (5 << 1, 5, true),
            (BUSY, u64::MAX, false),
        ] {
            assert_eq!(is_evictable(stamp, clock), expected, "{stamp} {clock}");
        }
    }
}
