//! Fair shares of an overloaded socket. While more queries arrive than are answered, they wait in the
//! socket's queue until it is full, and each one behind it waits for all of them. This drops those of the
//! networks that send the most, before they are answered, so that the queue stays short and the queries of
//! other networks lose neither time nor answers.
//!
//! The worker looks at the queue only after many full batches. If it is long, each network may have so many
//! queries per second answered, a number that is lowered while the queue is long and raised while it is
//! short. Nothing is dropped while all queries come from one network: no other would gain from it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rate_limits::{PrefixFactors, PrefixHashes, RateLimit, RateTable, Ticks};

use super::datagrams::{Datagrams, QueueFill};
use crate::stats::WorkerStats;

/// Full batches in a row after which the queue is looked at, and again after as many.
const FULL_BATCHES: u32 = 16;
/// Time between two changes of the share.
const STEP: Duration = Duration::from_millis(5);
/// Time without a batch after which the overload has ended.
const LULL: Duration = Duration::from_millis(100);
/// A queue is long if it takes this part of its room, or [`LONG_BYTES`] if that is more.
const LONG_PART: usize = 8;
/// Bytes of a long queue with little room; of small datagrams about 700, with what the kernel adds.
const LONG_BYTES: usize = 512 << 10;
/// A queue is short below this part of a long one.
const SHORT_PART: usize = 4;
/// At least one in so many queries is answered, whatever the queue.
const LEAST_ANSWERED_PART: usize = 4;
/// The share at the beginning of an overload, and at its end, in queries per second.
const LARGEST_SHARE: u32 = 1 << 20;
/// The least share.
const LEAST_SHARE: u32 = 1;
/// Longest time whose share a network may use at once.
const SHARE_BURST: Duration = Duration::from_secs(1);
/// What an IPv4 /24, /20 and /18 and an IPv6 /64, /56 and /48 may have, as multiples of the share.
const NETWORK_FACTORS: [PrefixFactors; 2] = [PrefixFactors([1, 4, 8]), PrefixFactors([1, 2, 4])];
/// Bytes of the counters of one worker; a network needs one or two of eight bytes while its share is in use.
const TABLE_BYTES: usize = 1 << 20;

/// The shares of one socket.
pub(super) struct Shares {
    enabled: bool,
    /// Datagrams of a full batch.
    batch: usize,
    /// Full batches in a row since the queue was looked at.
    full: u32,
    overload: Option<Overload>,
    /// Made when the socket is overloaded for the first time.
    table: Option<RateTable>,
    stats: Arc<WorkerStats>,
}

/// What holds while the socket is overloaded.
struct Overload {
    share: u32,
    limit: RateLimit,
    /// When the share is changed next.
    next: Instant,
    /// Queries of the present step, and those of them that are answered.
    received: usize,
    kept: usize,
    /// A network of the present step, and whether there is another in it and was one in the last step.
    network: Option<u64>,
    several: bool,
    several_before: bool,
}

impl Overload {
    fn new(now: Instant) -> Self {
        Overload {
            share: LARGEST_SHARE,
            limit: limit(LARGEST_SHARE),
            next: now + STEP,
            received: 0,
            kept: 0,
            network: None,
            several: false,
            several_before: false,
        }
    }

    fn set(&mut self, share: u32) {
        self.share = share.max(LEAST_SHARE);
        self.limit = limit(self.share);
    }

    /// Changes the share, if it is time. Returns whether the overload has ended.
    fn step(&mut self, fill: Option<QueueFill>, now: Instant) -> bool {
        let Some(fill) = fill.filter(|_| now < self.next + LULL) else { return true };
        self.next = now + STEP;
        self.several_before = std::mem::take(&mut self.several);
        self.network = None;
        // To drop more would hardly receive more: what is dropped takes as long as what is answered. The
        // queue then stays long, and the system drops what finds no room.
        let drops_enough = self.kept < self.received / LEAST_ANSWERED_PART;
        (self.received, self.kept) = (0, 0);
        match fill {
            fill if drops_enough || fill.is_short() => self.set(self.share + self.share / 8 + 1),
            fill if fill.is_longer_than(2) => self.set(self.share / 2),
            fill if fill.is_long() => self.set(self.share - self.share / 4),
            _ => {}
        }
        self.share > LARGEST_SHARE
    }

    /// Notes a query of a network. Returns whether there are several.
    fn sees(&mut self, hashes: &PrefixHashes) -> bool {
        let network = hashes.network();
        self.several |= *self.network.get_or_insert(network) != network;
        self.several || self.several_before
    }
}

/// Returns empty counters. Without random keys, clients could choose networks that share one.
fn new_table(now: Instant) -> Option<RateTable> {
    let mut keys = [0; 4];
    for key in &mut keys {
        *key = getrandom::u64().ok()?;
    }
    Some(RateTable::new(TABLE_BYTES, keys, now))
}

/// Returns the limit of a network with this share.
fn limit(share: u32) -> RateLimit {
    let [v4, v6] = NETWORK_FACTORS;
    RateLimit::of_networks(share, v4, v6, SHARE_BURST)
}

impl QueueFill {
    fn is_longer_than(&self, times: usize) -> bool {
        self.used > times * (self.room / LONG_PART).max(LONG_BYTES)
    }

    fn is_long(&self) -> bool {
        self.is_longer_than(1)
    }

    fn is_short(&self) -> bool {
        self.used < (self.room / LONG_PART).max(LONG_BYTES) / SHORT_PART
    }
}

impl Shares {
    pub(super) fn new(enabled: bool, batch: usize, stats: Arc<WorkerStats>) -> Self {
        Shares { enabled, batch, full: 0, overload: None, table: None, stats }
    }

    /// Drops queries of a batch of `n` if the socket is overloaded. Returns how many are left.
    #[inline]
    pub(super) fn trim<D: Datagrams>(&mut self, datagrams: &mut D, n: usize) -> usize {
        if self.overload.is_none() && n < self.batch {
            self.full = 0;
            return n;
        }
        self.trim_busy(datagrams, n, Instant::now)
    }

    #[inline(never)]
    fn trim_busy<D: Datagrams>(&mut self, datagrams: &mut D, n: usize, now: impl Fn() -> Instant) -> usize {
        if self.overload.is_none() {
            self.full += 1;
            if self.full < FULL_BATCHES {
                return n;
            }
            self.full = 0;
            if !self.enabled || !datagrams.queue().is_some_and(|fill| fill.is_long()) {
                return n;
            }
            self.overload = Some(Overload::new(now()));
        }
        let now = now();
        if self.overload.as_mut().is_some_and(|one| one.next <= now && one.step(datagrams.queue(), now)) {
            self.overload = None;
        }
        let Some(overload) = &mut self.overload else { return n };
        if self.table.is_none() {
            self.table = new_table(now);
        }
        let Some(table) = &self.table else { return n };
        let ticks = table.ticks(now);
        let left = datagrams.keep(&mut |client| admits(table, overload, client, ticks));
        overload.received += n;
        overload.kept += left;
        self.stats.shed.add((n - left) as u64);
        left
    }
}

/// Returns whether a query is answered: its network has a part of its share left.
fn admits(table: &RateTable, overload: &mut Overload, client: IpAddr, now: Ticks) -> bool {
    let hashes = table.hashes(client);
    let several = overload.sees(&hashes);
    // Counted in any case, so that the first step with several networks has their counts.
    table.admit(&hashes, &overload.limit, now) || !several
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{IpAddr, Ipv4Addr};

    use transport::{Batch, LateReplies};

    use super::*;
    use crate::alarm::{Wait, Woken};

    /// Microseconds in which the worker receives a query, and in which it answers one.
    const RECEIVE: u64 = 1;
    const ANSWER: u64 = 4;
    /// Bytes of a datagram in the queue, and room.
    const BYTES: usize = 768;
    const ROOM: usize = 8 << 20;

    /// A socket with queries of clients, and a clock. Each client asks at even intervals.
    struct Socket {
        /// Address, microseconds between two queries, time of the next one.
        clients: Vec<(IpAddr, u64, u64)>,
        /// Client and time of arrival.
        queue: std::collections::VecDeque<(usize, u64)>,
        batch: Vec<(usize, u64)>,
        now: u64,
        lost: Vec<u64>,
    }

    impl Datagrams for Socket {
        fn receive(&mut self, _: bool) -> io::Result<usize> {
            for (number, (_, interval, next)) in self.clients.iter_mut().enumerate() {
                while *next <= self.now {
                    match (self.queue.len() + 1) * BYTES <= ROOM {
                        true => self.queue.push_back((number, *next)),
                        false => self.lost[number] += 1,
                    }
                    *next += *interval;
                }
            }
            self.queue.make_contiguous().sort_by_key(|&(_, at)| at);
            self.batch = self.queue.drain(..self.queue.len().min(64)).collect();
            self.now += RECEIVE * self.batch.len().max(1) as u64;
            Ok(self.batch.len())
        }

        fn keep(&mut self, passes: &mut dyn FnMut(IpAddr) -> bool) -> usize {
            let (clients, lost) = (&self.clients, &mut self.lost);
            self.batch.retain(|&(number, _)| {
                let is_kept = passes(clients[number].0);
                lost[number] += u64::from(!is_kept);
                is_kept
            });
            self.batch.len()
        }

        fn queue(&self) -> Option<QueueFill> {
            Some(QueueFill { used: self.queue.len() * BYTES, room: ROOM })
        }

        fn wait_beside(&mut self, _: &Wait<'_>) -> Woken {
            unreachable!()
        }
        fn batch(&mut self) -> Batch<'_> {
            unreachable!()
        }
        fn send(&mut self) -> u64 {
            unreachable!()
        }
        fn late(&mut self) -> LateReplies<'_> {
            unreachable!()
        }
        fn send_late(&mut self) -> u64 {
            unreachable!()
        }
        fn leave(&mut self) {}
        fn finished(&mut self) -> bool {
            true
        }
    }

    struct Trial {
        shares: Shares,
        socket: Socket,
        begun: Instant,
    }

    /// What a client got.
    #[derive(Debug, Default, Clone, Copy)]
    struct Service {
        answered: u64,
        lost: u64,
        /// The longest wait, in microseconds.
        longest: u64,
    }

    impl Trial {
        /// Clients by address and queries per second.
        fn new(clients: impl IntoIterator<Item = (IpAddr, u64)>) -> Trial {
            let of = |(at, (address, rate)): (u64, (IpAddr, u64))| {
                let interval = 1_000_000 / rate;
                (address, interval, at * 7919 % interval)
            };
            let clients: Vec<_> = (0..).zip(clients).map(of).collect();
            let lost = vec![0; clients.len()];
            let (queue, batch) = (std::collections::VecDeque::new(), Vec::new());
            let socket = Socket { clients, queue, batch, now: 0, lost };
            let shares = Shares::new(true, 64, Arc::default());
            Trial { shares, socket, begun: Instant::now() }
        }

        /// Serves for these milliseconds; returns what each client got.
        fn serve(&mut self, milliseconds: u64) -> Vec<Service> {
            let until = self.socket.now + milliseconds * 1000;
            let mut service = vec![Service::default(); self.socket.clients.len()];
            self.socket.lost.fill(0);
            while self.socket.now < until {
                let n = self.socket.receive(false).expect("a batch");
                let now = self.begun + Duration::from_micros(self.socket.now);
                if self.shares.overload.is_some() || n == 64 {
                    self.shares.trim_busy(&mut self.socket, n, || now);
                }
                self.socket.now += ANSWER * self.socket.batch.len() as u64;
                for &(number, at) in &self.socket.batch {
                    service[number].answered += 1;
                    service[number].longest = service[number].longest.max(self.socket.now - at);
                }
            }
            service.iter_mut().zip(&self.socket.lost).for_each(|(one, &lost)| one.lost = lost);
            service
        }
    }

    fn client(network: u32, host: u32) -> IpAddr {
        Ipv4Addr::from_bits(20 << 24 | network << 8 | host).into()
    }

    /// 200,000 queries per second are answered at most.
    #[test]
    fn a_flood_from_one_address_takes_nothing_from_others() {
        let others = (1..=20).map(|n| (client(n * 1000, 1), 50));
        let mut trial = Trial::new([(client(0, 1), 500_000)].into_iter().chain(others));
        trial.serve(300);
        let service = trial.serve(300);
        assert!(service[1..].iter().all(|one| one.lost == 0 && one.longest < 15_000), "{service:?}");
        assert!(service[0].answered > 24_000, "what is left is for the flood: {service:?}");
    }

    #[test]
    fn a_flood_from_many_networks_takes_nothing_from_those_that_send_less() {
        let flood = (0..500).map(|n| (client(n * 64, n % 200), 800));
        let others = (0..20).map(|n| (client(100_000 + n * 1000, 1), 20));
        let mut trial = Trial::new(flood.chain(others));
        trial.serve(400);
        let service = trial.serve(300);
        let others = &service[500..];
        assert!(others.iter().all(|one| one.lost == 0 && one.longest < 15_000), "{others:?}");
        let answered: u64 = service[..500].iter().map(|one| one.answered).sum();
        assert!(answered > 24_000, "{answered}");
        let counts = || service[..500].iter().map(|one| one.answered);
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        assert!(most <= 2 * least, "networks that send the same have the same share: {least} to {most}");
    }

    /// The share fell to one query per second for each network, since no share made the queue short.
    #[test]
    fn a_flood_beyond_what_can_be_received_does_not_stop_answers() {
        let mut trial = Trial::new((0..500).map(|n| (client(n * 64, 1), 4000)));
        trial.serve(300);
        let answered: u64 = trial.serve(200).iter().map(|one| one.answered).sum();
        assert!(answered > 16_000, "{answered} in 200 ms");
    }

    #[test]
    fn nothing_is_dropped_of_one_network_or_without_an_overload_and_it_ends() {
        let mut one = Trial::new((1..=10).map(|host| (client(7, host), 40_000)));
        one.serve(500);
        assert!(one.shares.full < FULL_BATCHES, "it does not grow while the socket is busy");
        assert_eq!(one.shares.stats.shed.get(), 0, "no other network would gain from it");
        let mut calm = Trial::new((0..100).map(|n| (client(n, 1), 1500)));
        calm.serve(500);
        assert_eq!(calm.shares.stats.shed.get(), 0);
        assert!(calm.shares.table.is_none());
        // A flood ends.
        let mut trial = Trial::new([(client(0, 1), 500_000), (client(9, 1), 1000)]);
        trial.serve(300);
        assert!(trial.shares.overload.is_some() && trial.shares.stats.shed.get() > 0);
        trial.socket.clients[0].1 = 100;
        trial.serve(1000);
        assert!(trial.shares.overload.is_none(), "the share is {:?}", trial.shares.overload.map(|o| o.share));
    }

    #[test]
    fn shares_can_be_turned_off() {
        let mut trial = Trial::new([(client(0, 1), 500_000), (client(9, 1), 1000)]);
        trial.shares.enabled = false;
        trial.serve(300);
        assert_eq!(trial.shares.stats.shed.get(), 0);
    }
}
