//! Places for transfers: how many there may be at a time, in all, to one address and to one network, and which of them gives up
//! its place where another needs it.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// Bounds on places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SlotLimits {
    /// In all.
    pub(super) all: usize,
    /// To one address.
    pub(super) per_client: usize,
    /// To one network: an IPv4 /24 or an IPv6 /56.
    pub(super) per_network: usize,
    /// Time without progress after which a transfer gives up its place to another. `None`: never.
    pub(super) stall: Option<Duration>,
}

/// The places for transfers.
#[derive(Debug)]
pub(super) struct Slots {
    taken: Mutex<Taken>,
    /// Progress is counted in milliseconds from here.
    start: Instant,
}

#[derive(Debug, Default)]
struct Taken {
    limits: SlotLimits,
    by_client: HashMap<IpAddr, usize>,
    by_network: HashMap<IpAddr, usize>,
    holders: HashMap<u64, Arc<Holder>>,
    last: u64,
}

/// What is known of a transfer that has a place.
#[derive(Debug)]
struct Holder {
    client: IpAddr,
    /// When it last made progress, in milliseconds.
    progress: AtomicU64,
    /// Its place is another's.
    evicted: AtomicBool,
}

/// The network of a client, as its first address.
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
    /// These bounds hold from now on. Transfers under way go on.
    pub(super) fn set(&self, limits: SlotLimits) {
        lock(&self.taken).limits = limits;
    }

    /// Returns a place, if one is free or a stalled transfer gives up its own, and whether one did.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr, now: Instant) -> Option<(Slot, bool)> {
        let at = self.millis(now);
        let mut taken = lock(&self.taken);
        let mut evicted = false;
        while let Some(full) = taken.full_for(client) {
            let victim = taken.stalled(at, &full)?;
            taken.evict(victim);
            evicted = true;
        }
        taken.last += 1;
        let number = taken.last;
        let holder =
            Arc::new(Holder { client, progress: AtomicU64::new(at), evicted: AtomicBool::new(false) });
        *taken.by_client.entry(client).or_default() += 1;
        *taken.by_network.entry(network(client)).or_default() += 1;
        taken.holders.insert(number, Arc::clone(&holder));
        Some((Slot { slots: Arc::clone(self), number, holder }, evicted))
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        lock(&self.taken).holders.len()
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_millis() as u64
    }
}

/// The bound that keeps a client from a place: a transfer that counts for it has to end first.
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

    /// The transfer that has made no progress for the longest time, of those that count for a bound.
    fn stalled(&self, at: u64, full: &Full) -> Option<u64> {
        let stall = self.limits.stall?.as_millis() as u64;
        let counts = |holder: &Holder| match full {
            Full::Client(client) => holder.client == *client,
            Full::Network(of) => network(holder.client) == *of,
            Full::All => true,
        };
        let idle = self.holders.iter().filter(|(_, holder)| counts(holder));
        let idle = idle.map(|(number, holder)| (at.saturating_sub(holder.progress.load(Relaxed)), *number));
        idle.max().filter(|(idle, _)| *idle >= stall).map(|(_, number)| number)
    }

    fn evict(&mut self, number: u64) {
        if let Some(holder) = self.free(number) {
            holder.evicted.store(true, Relaxed);
        }
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

/// The place of one transfer; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    holder: Arc<Holder>,
}

impl Slot {
    /// Notes that the transfer goes on. Returns whether it still has its place.
    pub(super) fn goes_on(&self, now: Instant) -> bool {
        self.holder.progress.store(self.slots.millis(now), Relaxed);
        !self.is_evicted()
    }

    /// Whether the place is another's.
    pub(super) fn is_evicted(&self) -> bool {
        self.holder.evicted.load(Relaxed)
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
        slots.set(SlotLimits { all, per_client, per_network, stall: Some(Duration::from_secs(1)) });
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
        slots.set(SlotLimits { all: 1, per_client: 1, per_network: 1, stall: None });
        assert!(take(other).is_none(), "more are under way than may be now");
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
        // The second has waited for longer by now.
        let (_third, evicted) = slots.take(third, after(1200)).expect("a place");
        assert!(evicted && !first.is_evicted() && second.is_evicted() && !second.goes_on(after(1200)));
        assert_eq!(slots.taken(), 2);
        drop(second);
        assert_eq!(slots.taken(), 2, "its place was another's");
        // A client that may have no more gives up a place of its own alone.
        slots.set(SlotLimits { all: 9, per_client: 1, per_network: 9, stall: Some(Duration::from_secs(1)) });
        assert!(slots.take(one, after(1800)).is_none());
        assert!(slots.take(one, after(1900)).is_some() && first.is_evicted() && slots.taken() == 1);
    }
}
