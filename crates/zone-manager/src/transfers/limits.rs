//! Slots for outgoing transfers: how many may run at a time, in total, per address and per network, and which
//! of them is evicted when another needs its slot.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use threads::sync::lock;

/// Period of a rate measurement, in milliseconds.
const RATE_OVER: u64 = 3_000;
/// Milliseconds during which clients of a network evict no others after one of its transfers was evicted.
/// Otherwise a slow client would take each slot that another one has to give up.
const EVICTED_FOR: u64 = 60_000;
/// Most networks for which the last eviction is recorded.
const MAX_EVICTED_NETWORKS: usize = 4096;

/// Limits of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SlotLimits {
    /// In total.
    pub(super) all: usize,
    /// Per address.
    pub(super) per_client: usize,
    /// Per network: an IPv4 /24 or an IPv6 /56.
    pub(super) per_network: usize,
    /// Time without progress after which a transfer may be evicted. `None`: never.
    pub(super) stall: Option<Duration>,
    /// Bytes per second below which a transfer may be evicted. 0: never.
    pub(super) min_rate: u64,
}

/// Why a transfer was evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    /// It made no progress.
    Stalled,
    /// It was slower than the least rate.
    Slow,
}

/// The slots of all transfers.
#[derive(Debug)]
pub(super) struct Slots {
    taken: Mutex<Taken>,
    /// Times are counted in milliseconds from here.
    start: Instant,
}

#[derive(Debug, Default)]
struct Taken {
    limits: SlotLimits,
    by_client: HashMap<IpAddr, usize>,
    by_network: HashMap<IpAddr, usize>,
    holders: HashMap<u64, Arc<Holder>>,
    last: u64,
    /// Networks with an evicted transfer, and the time of the last eviction in milliseconds.
    evicted: HashMap<IpAddr, u64>,
}

/// A transfer that has a slot.
#[derive(Debug)]
struct Holder {
    client: IpAddr,
    pace: Mutex<Pace>,
    /// Why the transfer was evicted, if it was.
    evicted: OnceLock<Eviction>,
}

/// Progress of a transfer. Times are in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// When it last made progress.
    progress: u64,
    /// Start of the current measurement, and the bytes since then.
    since: u64,
    bytes: u64,
    /// Rate of the measurement before, in bytes per second.
    before: Option<u64>,
}

impl Pace {
    fn new(at: u64) -> Self {
        Pace { progress: at, since: at, bytes: 0, before: None }
    }

    fn goes_on(&mut self, at: u64) {
        self.progress = at;
        if at.saturating_sub(self.since) >= RATE_OVER {
            (self.before, self.since, self.bytes) = (self.rate(at), at, 0);
        }
    }

    /// Returns the recent rate in bytes per second; `None` if the transfer has just begun.
    fn rate(&self, at: u64) -> Option<u64> {
        let over = at.saturating_sub(self.since);
        if over < RATE_OVER { self.before } else { Some(self.bytes.saturating_mul(1000) / over) }
    }
}

/// Returns the network of a client, as its first address.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(v4) => IpAddr::from((u32::from(v4) & !0xff).to_be_bytes()),
        IpAddr::V6(v6) => IpAddr::from((u128::from(v6) >> 72 << 72).to_be_bytes()),
    }
}

impl Default for Slots {
    fn default() -> Self {
        Slots { taken: Mutex::default(), start: Instant::now() }
    }
}

impl Slots {
    /// Sets the limits. Transfers in progress continue.
    pub(super) fn set(&self, limits: SlotLimits) {
        lock(&self.taken).limits = limits;
    }

    /// Returns a slot, if one is free or a stalled or slow transfer can be evicted, with the reasons of the
    /// evictions.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr, now: Instant) -> Option<(Slot, Vec<Eviction>)> {
        let at = self.millis(now);
        let mut taken = lock(&self.taken);
        let mut evicted = Vec::new();
        while let Some(full) = taken.full_for(client) {
            if matches!(full, Full::All) && taken.was_evicted(client, at) {
                return None;
            }
            let (victim, why) = taken.stalled(at, &full).or_else(|| taken.slowest(at, &full))?;
            taken.evict(victim, why, at);
            evicted.push(why);
        }
        taken.last += 1;
        let number = taken.last;
        let holder = Arc::new(Holder { client, pace: Mutex::new(Pace::new(at)), evicted: OnceLock::new() });
        *taken.by_client.entry(client).or_default() += 1;
        *taken.by_network.entry(network(client)).or_default() += 1;
        taken.holders.insert(number, Arc::clone(&holder));
        Some((Slot { slots: Arc::clone(self), number, holder }, evicted))
    }

    /// Returns the number of slots in use.
    pub(super) fn taken(&self) -> usize {
        lock(&self.taken).holders.len()
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_millis() as u64
    }
}

/// The limit that keeps a client from a slot: a transfer that counts for it must end first.
enum Full {
    Client(IpAddr),
    Network(IpAddr),
    All,
}

impl Taken {
    fn full_for(&self, client: IpAddr) -> Option<Full> {
        let of = |count: Option<&usize>| count.copied().unwrap_or(0);
        let (limits, network) = (&self.limits, network(client));
        if of(self.by_client.get(&client)) >= limits.per_client {
            Some(Full::Client(client))
        } else if of(self.by_network.get(&network)) >= limits.per_network {
            Some(Full::Network(network))
        } else {
            (self.holders.len() >= limits.all).then_some(Full::All)
        }
    }

    /// Returns the transfers that count for a limit, with their progress.
    fn counting(&self, full: &Full) -> impl Iterator<Item = (u64, Pace)> {
        let counts = move |holder: &Holder| match full {
            Full::Client(client) => holder.client == *client,
            Full::Network(of) => network(holder.client) == *of,
            Full::All => true,
        };
        let counting = self.holders.iter().filter(move |(_, holder)| counts(holder));
        counting.map(|(number, holder)| (*number, *lock(&holder.pace)))
    }

    /// Returns the transfer without progress for the longest time, among those that count for a limit, if it
    /// has stalled.
    fn stalled(&self, at: u64, full: &Full) -> Option<(u64, Eviction)> {
        let stall = self.limits.stall?.as_millis() as u64;
        let idle = self.counting(full).map(|(number, pace)| (at.saturating_sub(pace.progress), number));
        idle.max().filter(|(idle, _)| *idle >= stall).map(|(_, number)| (number, Eviction::Stalled))
    }

    /// Returns the slowest transfer, among those that count for a limit, if it is slower than the least rate.
    fn slowest(&self, at: u64, full: &Full) -> Option<(u64, Eviction)> {
        let rates = self.counting(full).filter_map(|(number, pace)| Some((pace.rate(at)?, number)));
        rates
            .min()
            .filter(|(rate, _)| *rate < self.limits.min_rate)
            .map(|(_, number)| (number, Eviction::Slow))
    }

    fn evict(&mut self, number: u64, why: Eviction, at: u64) {
        let Some(holder) = self.free(number) else { return };
        // It cannot be set yet: the transfer had its slot until now.
        let _ = holder.evicted.set(why);
        if self.evicted.len() >= MAX_EVICTED_NETWORKS {
            self.evicted.retain(|_, evicted| at.saturating_sub(*evicted) < EVICTED_FOR);
        }
        let network = network(holder.client);
        if self.evicted.len() < MAX_EVICTED_NETWORKS || self.evicted.contains_key(&network) {
            self.evicted.insert(network, at);
        }
    }

    /// Whether a transfer to the client's network was evicted recently.
    fn was_evicted(&self, client: IpAddr, at: u64) -> bool {
        let evicted = self.evicted.get(&network(client));
        evicted.is_some_and(|evicted| at.saturating_sub(*evicted) < EVICTED_FOR)
    }

    fn free(&mut self, number: u64) -> Option<Arc<Holder>> {
        let holder = self.holders.remove(&number)?;
        one_less(&mut self.by_client, holder.client);
        one_less(&mut self.by_network, network(holder.client));
        Some(holder)
    }
}

fn one_less<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// The slot of one transfer; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    holder: Arc<Holder>,
}

impl Slot {
    /// Records progress of the transfer. Returns whether it still has its slot.
    pub(super) fn goes_on(&self, now: Instant) -> bool {
        lock(&self.holder.pace).goes_on(self.slots.millis(now));
        self.evicted().is_none()
    }

    /// Counts sent bytes.
    pub(super) fn sends(&self, bytes: usize) {
        lock(&self.holder.pace).bytes += bytes as u64;
    }

    /// Returns why the transfer was evicted, if it was.
    pub(super) fn evicted(&self) -> Option<Eviction> {
        self.holder.evicted.get().copied()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.slots.taken).free(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(all: usize, per_client: usize, per_network: usize) -> Arc<Slots> {
        let slots = Arc::new(Slots::default());
        let stall = Some(Duration::from_secs(1));
        slots.set(SlotLimits { all, per_client, per_network, stall, min_rate: 0 });
        slots
    }

    #[test]
    fn places_are_counted_in_all_and_by_client_and_come_back() {
        let slots = slots(3, 2, 3);
        let now = Instant::now();
        let take = |client| slots.take(client, now).map(|(slot, _)| slot);
        let [one, other] = [1, 2].map(|n| IpAddr::from([192, 0, 2, n]));
        let (first, _second) = (take(one).expect("a place"), take(one).expect("a place"));
        assert!(take(one).is_none(), "two are its share");
        let third = take(other).expect("a place");
        assert!(take(other).is_none(), "three are all there are");
        drop(first);
        assert_eq!(slots.taken(), 2);
        let _again = take(one).expect("a place");
        drop(third);
        slots.set(SlotLimits { all: 1, per_client: 1, per_network: 1, ..SlotLimits::default() });
        assert!(take(other).is_none(), "more are under way than may be now");
    }

    #[test]
    fn a_full_table_of_evictions_renews_its_entries() {
        let client = |n: u32| IpAddr::from((n << 8).to_be_bytes());
        let holder =
            |n| Holder { client: client(n), pace: Mutex::new(Pace::new(0)), evicted: OnceLock::new() };
        let full = MAX_EVICTED_NETWORKS as u32;
        let mut taken = Taken::default();
        taken.evicted.extend((0..full).map(|n| (network(client(n)), 0)));
        taken.holders.extend([(1, Arc::new(holder(0))), (2, Arc::new(holder(full)))]);
        for number in [1, 2] {
            taken.evict(number, Eviction::Slow, EVICTED_FOR - 1);
        }
        let remembered = [0, 1, full].map(|n| taken.was_evicted(client(n), EVICTED_FOR));
        assert_eq!(remembered, [true, false, false]);
    }

    #[test]
    fn one_network_leaves_places_for_others() {
        let slots = slots(6, 2, 3);
        let now = Instant::now();
        let take = |client: IpAddr| slots.take(client, now).map(|(slot, _)| slot);
        let near: Vec<IpAddr> = (0..4).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        let held: Vec<Slot> = near.iter().filter_map(|client| take(*client)).collect();
        assert_eq!(held.len(), 3, "of an IPv4 /24");
        let wide = |n: u128| IpAddr::from(((0x2001_0db8 << 96) + (n << 64)).to_be_bytes());
        assert!(take(wide(0)).is_some(), "another network has places");
        let _six: Vec<Slot> = (0..3).filter_map(|n| take(wide(n))).collect();
        drop(held);
        assert!(take(wide(3)).is_none(), "of an IPv6 /56");
        assert!(take(wide(256)).is_some());
    }

    #[test]
    fn the_transfer_that_has_stalled_longest_gives_up_its_place() {
        let slots = slots(2, 2, 2);
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let [one, other, third] = [1, 2, 3].map(|n| IpAddr::from([192, 0, n, 1]));
        let (first, _) = slots.take(one, begun).expect("a place");
        let (second, _) = slots.take(other, after(100)).expect("a place");
        assert!(slots.take(third, after(999)).is_none(), "both may go on yet");
        assert!(first.goes_on(after(900)));
        // The second has been without progress for longer by now.
        let (_third, evicted) = slots.take(third, after(1200)).expect("a place");
        assert_eq!((evicted, first.evicted()), (vec![Eviction::Stalled], None));
        assert!(second.evicted().is_some() && !second.goes_on(after(1200)));
        assert_eq!(slots.taken(), 2);
        drop(second);
        assert_eq!(slots.taken(), 2, "its place was another's");
        // A client at its own limit evicts only a transfer of its own.
        let stall = Some(Duration::from_secs(1));
        slots.set(SlotLimits { all: 9, per_client: 1, per_network: 9, stall, min_rate: 0 });
        assert!(slots.take(one, after(1800)).is_none());
        assert!(slots.take(one, after(1900)).is_some() && first.evicted().is_some() && slots.taken() == 1);
    }

    #[test]
    fn the_slowest_transfer_gives_up_its_place_once_its_rate_is_known() {
        let slots = Arc::new(Slots::default());
        let limits = SlotLimits { all: 2, per_client: 2, per_network: 2, stall: None, min_rate: 50_000 };
        slots.set(limits);
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let [one, other, third] = [1, 2, 3].map(|n| IpAddr::from([192, 0, n, 1]));
        let (fast, slow) = (slots.take(one, begun), slots.take(other, begun));
        let (fast, slow) = (fast.expect("a place").0, slow.expect("a place").0);
        // The client reads fast until the system's buffers are full.
        let goes_on = |slot: &Slot, ms, bytes| {
            let goes_on = slot.goes_on(after(ms));
            slot.sends(bytes);
            goes_on
        };
        assert!(goes_on(&fast, 0, 4_000_000) && goes_on(&slow, 0, 4_000_000));
        for ms in (100..6_000).step_by(100) {
            assert!(goes_on(&fast, ms, 6_000) && goes_on(&slow, ms, 4_900));
            assert!(slots.take(third, after(ms)).is_none(), "after {ms} ms");
        }
        assert!(goes_on(&fast, 6_100, 6_000));
        let (third, evicted) = slots.take(third, after(6_100)).expect("a place");
        third.sends(100_000_000);
        assert_eq!((evicted, slow.evicted()), (vec![Eviction::Slow], Some(Eviction::Slow)));
        assert!(!goes_on(&slow, 6_200, 0) && goes_on(&fast, 6_200, 6_000));
        // For a time it evicts no other in return.
        assert!(slots.take(other, after(12_000)).is_none());
        let (_again, evicted) = slots.take(other, after(66_100)).expect("a place");
        assert_eq!((evicted, fast.evicted()), (vec![Eviction::Slow], Some(Eviction::Slow)));
        slots.set(SlotLimits { min_rate: 0, ..limits });
        assert!(slots.take(one, after(200_000)).is_none(), "any rate is good");
    }

    #[test]
    fn three_hundred_slow_readers_kept_all_others_out() {
        let slots = Arc::new(Slots::default());
        let stall = Some(Duration::from_secs(1));
        slots.set(SlotLimits { all: 100, per_client: 10, per_network: 50, stall, min_rate: 50_000 });
        let begun = Instant::now();
        // A message each 0.9 s, which is no stall; clients without a slot retry each second.
        let mut readers: Vec<Option<Slot>> = (0..300).map(|_| None).collect();
        let mut others: Vec<(u64, Slot)> = Vec::new();
        for ms in (0..60_000_u64).step_by(100) {
            let now = begun + Duration::from_millis(ms);
            for (n, reader) in (0_u64..).zip(&mut readers) {
                let client = IpAddr::from([10, (n >> 8) as u8, n as u8, 1]);
                match reader {
                    Some(slot) if (ms + n * 100) % 900 == 0 => match slot.goes_on(now) {
                        true => slot.sends(16_384),
                        false => *reader = None,
                    },
                    None if (ms + n * 100) % 1000 == 0 => {
                        *reader = slots.take(client, now).map(|(slot, _)| slot);
                    }
                    _ => {}
                }
            }
            // Beside them a client of a new network starts a transfer each second, which takes two seconds.
            if ms % 1000 == 0 && ms >= 15_000 {
                let client = IpAddr::from([192, 0, (ms / 1000) as u8, 1]);
                others.push((ms, slots.take(client, now).expect("a place").0));
            }
            others.retain(|(began, slot)| {
                assert!(slot.goes_on(now), "a client that reads gave up its place");
                slot.sends(500_000);
                ms < began + 2_000
            });
        }
    }
}
