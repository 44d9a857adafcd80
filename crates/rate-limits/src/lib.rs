//! Rates of replies to networks, in a fixed table of counters that all workers share. No I/O, no lock, no
//! allocation after the table is made, and no clock: the caller passes the time.
//!
//! # Counters
//!
//! A counter is a leaky bucket that drains with time. It is stored as the time at which it will be empty: its
//! load is that time less the present. A unit of a rate of `r` a second adds `1 / r` seconds; a counter that
//! would exceed the burst, a time as well, is over its limit. So a counter takes one number, nothing is
//! updated while time passes, and counters of different rates compare: a network whose limit is twice that of
//! an address adds half as much for each unit. In any `t` seconds a counter admits at most `burst + t` worth
//! of units.
//!
//! Queries beyond the limit count, too: they keep a counter at its burst. So nothing is admitted while twice
//! the rate or more arrives, and between the rate and twice the rate, little; once the flood ends, the
//! counter drains. A query that is over the limit of one prefix does not count in the others: a flood from
//! one address takes nothing from its neighbours, and one from a whole network nothing from a larger network.
//!
//! # Table
//!
//! An address is counted in four prefixes ([`LENGTHS_V4`], [`LENGTHS_V6`]). A keyed hash of the prefix leads
//! to a bucket: one cache line of eight counters with an identifier each. The bucket depends on the prefix
//! alone, so it can be prefetched before the kind of the reply is known; the identifier depends on the kind
//! as well. If no counter has the identifier, the one with the least load is taken over, with its load. So
//! counters with much load stay, as in Space-Saving, and a flood of random addresses cannot displace them. A
//! counter without load is free at once: the table is large enough if it has more counters than units arrive
//! in the time of one unit.
//!
//! Workers read and write counters without synchronization. If two change the same counter at the same
//! moment, one change may be lost: then a unit is not counted. The same happens to a new prefix whose shorter
//! prefix is new as well and in the same bucket.
//!
//! Two prefixes share a counter only if 16 bits of identifier and the bucket are equal. The hash has random
//! keys, and its values never leave the process, so that no client can choose such prefixes.

#![forbid(unsafe_code)]

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Prefixes that an address is counted in.
pub const LEVELS: usize = 4;
/// Lengths of the prefixes of IPv4 addresses, the address itself first.
pub const LENGTHS_V4: [u8; LEVELS] = [32, 24, 20, 18];
/// Lengths of the prefixes of IPv6 addresses, the address itself first.
pub const LENGTHS_V6: [u8; LEVELS] = [128, 64, 56, 48];
/// Largest burst: the largest load of a counter.
pub const MOST_BURST: Duration = Duration::from_secs(60);

/// Counters in a bucket, which is one cache line.
const SLOTS: usize = 8;
/// Bytes of a bucket.
const BUCKET_BYTES: usize = SLOTS * size_of::<AtomicU64>();
/// Bits of a counter that are its time; the others are its identifier.
const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// Binary logarithm of the nanoseconds of a tick. In 48 bits ticks count 2.2 years, and then wrap.
const TICK_SHIFT: u32 = 8;
/// Ticks beyond which a load is not one: the counter was last used long ago. Twice the largest burst.
const MOST_LOAD: u64 = 2 * (MOST_BURST.as_nanos() as u64 >> TICK_SHIFT);
/// The longest time of a unit: none exceeds the largest burst in a way that matters.
const MOST_PRICE: u64 = MOST_BURST.as_nanos() as u64;

/// A time, as the counters of a table have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(u64);

impl Ticks {
    /// Returns their number: 256 ns each.
    #[inline]
    pub fn count(self) -> u64 {
        self.0
    }
}

/// The hashes of the prefixes of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixHashes {
    hashes: [u64; LEVELS],
    is_v4: bool,
}

impl PrefixHashes {
    /// Returns the hash of the longest network that the address is in: an IPv4 /24, or an IPv6 /64.
    #[inline]
    pub fn network(&self) -> u64 {
        self.hashes[1]
    }
}

/// Factors of the limits of prefixes over the limit of an address, the next longer prefix first. 0 is no
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixFactors(pub [u32; LEVELS - 1]);

/// A limit of one kind of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Nanoseconds that one unit adds to the counter of each prefix, for IPv6 and for IPv4; 0 is no limit.
    prices: [[u64; LEVELS]; 2],
    /// In ticks.
    burst: u64,
}

impl RateLimit {
    /// Returns a limit of `rate` units a second for an address, and its multiples for IPv4 and IPv6 prefixes.
    /// At most the units of `burst`, which is at most [`MOST_BURST`], are admitted at once.
    pub fn new(rate: u32, v4: PrefixFactors, v6: PrefixFactors, burst: Duration) -> Self {
        let price = |factor: u32| {
            let per_second = u64::from(rate) * u64::from(factor);
            if per_second == 0 { 0 } else { 1_000_000_000_u64.div_ceil(per_second).min(MOST_PRICE) }
        };
        let prices = |PrefixFactors([a, b, c]): PrefixFactors| [1, a, b, c].map(price);
        let burst = (burst.min(MOST_BURST).as_nanos() as u64 >> TICK_SHIFT).max(1);
        RateLimit { prices: [prices(v6), prices(v4)], burst }
    }

    /// Returns a limit of `rate` units a second, times their factors, for prefixes, and none for addresses.
    pub fn of_networks(rate: u32, v4: PrefixFactors, v6: PrefixFactors, burst: Duration) -> Self {
        let mut limit = Self::new(rate, v4, v6, burst);
        limit.prices.iter_mut().for_each(|prices| prices[0] = 0);
        limit
    }

    /// Returns a limit of `rate` units a second for each address, and none for prefixes.
    pub fn of_addresses(rate: u32, burst: Duration) -> Self {
        Self::new(rate, PrefixFactors([0; 3]), PrefixFactors([0; 3]), burst)
    }
}

/// One counter as it was found.
#[derive(Clone, Copy, Default)]
struct Found<'t> {
    /// `None` if this prefix has no limit.
    word: Option<&'t AtomicU64>,
    /// The bits of the word that are its identifier.
    id: u64,
    load: u64,
    /// What the units add to the load.
    price: u64,
}

impl Found<'_> {
    #[inline]
    fn set(&self, load: u64, now: u64) {
        if let Some(word) = self.word {
            word.store(self.id | (now.wrapping_add(load) & TIME_MASK), Relaxed);
        }
    }
}

/// The counters of all prefixes.
pub struct RateTable {
    words: Box<[AtomicU64]>,
    /// Index of the first word at the start of a cache line.
    first: usize,
    /// Bits of a hash that are not of its bucket.
    shift: u32,
    keys: [u64; 4],
    epoch: Instant,
}

impl RateTable {
    /// Returns an empty table of at most this many bytes, or of two buckets. `keys` are random. Memory is
    /// taken from the system as buckets are used.
    pub fn new(bytes: usize, keys: [u64; 4], now: Instant) -> Self {
        let buckets = 1_usize << (bytes / BUCKET_BYTES).max(2).ilog2();
        let words: Box<[AtomicU64]> = bytemuck::zeroed_slice_box(buckets * SLOTS + SLOTS - 1);
        let first = words.as_ptr().align_offset(BUCKET_BYTES).min(SLOTS - 1);
        // A factor that is even loses bits of the product.
        let keys = [keys[0], keys[1] | 1, keys[2], keys[3] | 1];
        RateTable { words, first, shift: u64::BITS - buckets.ilog2(), keys, epoch: now }
    }

    /// Returns the number of counters.
    pub fn counters(&self) -> usize {
        self.words.len() + 1 - SLOTS
    }

    /// Returns a time as counters have it.
    #[inline]
    pub fn ticks(&self, now: Instant) -> Ticks {
        let since = now.saturating_duration_since(self.epoch);
        let nanos = since.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(since.subsec_nanos()));
        Ticks((nanos >> TICK_SHIFT) & TIME_MASK)
    }

    /// Returns the hashes of an address's prefixes. An IPv4-mapped address is that IPv4 address.
    #[inline]
    pub fn hashes(&self, address: IpAddr) -> PrefixHashes {
        let [k0, k1, k2, k3] = self.keys;
        let mix = |a: u64, b: u64| fold(fold(a ^ k0, b ^ k1) ^ k2, k3);
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let bits = v4.to_bits();
                let hash = |level: usize| {
                    let len = LENGTHS_V4[level];
                    mix(u64::from(bits >> (32 - len)) | u64::from(len) << 32, 0)
                };
                PrefixHashes { hashes: std::array::from_fn(hash), is_v4: true }
            }
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                let (high, low) = ((bits >> 64) as u64, bits as u64);
                let hash = |level: usize| match LENGTHS_V6[level] {
                    128 => mix(high, low.rotate_left(8) ^ 0x80),
                    len => mix(high >> (64 - len), u64::from(len) << 32),
                };
                PrefixHashes { hashes: std::array::from_fn(hash), is_v4: false }
            }
        }
    }

    /// Starts to load the counters of these prefixes.
    #[inline]
    pub fn prefetch(&self, hashes: &PrefixHashes) {
        for hash in hashes.hashes {
            if let Some(word) = self.words.get(self.bucket(hash)) {
                prefetch::fetch(std::ptr::from_ref(word).cast());
            }
        }
    }

    /// Counts a reply of this kind, which costs so many units, if no prefix is over its limit. Returns the
    /// index of the longest prefix that is over it; the reply then counts in those that are.
    #[inline]
    pub fn charge(
        &self,
        hashes: &PrefixHashes,
        kind: u8,
        limit: &RateLimit,
        units: u32,
        Ticks(now): Ticks,
    ) -> Option<usize> {
        let (found, over) = self.weigh(hashes, kind, limit, units, now);
        for found in &found {
            let load = found.load + found.price;
            match over {
                None => found.set(load, now),
                // Less would not be worth a write to a line that all workers read.
                Some(_) if load > limit.burst && limit.burst - found.load > found.price / 4 => {
                    found.set(limit.burst, now);
                }
                Some(_) => {}
            }
        }
        over
    }

    /// Counts a unit, if no prefix is then over its limit. Returns whether it counted it: one that it does
    /// not count leaves the counters as they are, so that each prefix has its rate whatever it sends.
    #[inline]
    pub fn admit(&self, hashes: &PrefixHashes, limit: &RateLimit, Ticks(now): Ticks) -> bool {
        let (found, over) = self.weigh(hashes, 0, limit, 1, now);
        if over.is_none() {
            found.iter().for_each(|found| found.set(found.load + found.price, now));
        }
        over.is_none()
    }

    /// Whether a unit would take a prefix over its limit. Nothing is counted.
    #[inline]
    pub fn is_over(&self, hashes: &PrefixHashes, limit: &RateLimit, Ticks(now): Ticks) -> bool {
        self.weigh(hashes, 0, limit, 1, now).1.is_some()
    }

    /// Returns the counters of all prefixes with a limit, and the index of the longest prefix that the units
    /// would take over its limit.
    #[inline]
    fn weigh(
        &self,
        hashes: &PrefixHashes,
        kind: u8,
        limit: &RateLimit,
        units: u32,
        now: u64,
    ) -> ([Found<'_>; LEVELS], Option<usize>) {
        let prices = &limit.prices[usize::from(hashes.is_v4)];
        let mut found = [Found::default(); LEVELS];
        let mut over = None;
        for (level, (found, (&hash, &price))) in
            found.iter_mut().zip(hashes.hashes.iter().zip(prices)).enumerate()
        {
            if price == 0 {
                continue;
            }
            let price = (price.saturating_mul(u64::from(units)) >> TICK_SHIFT).clamp(1, limit.burst);
            *found = self.find(hash, kind, price, limit.burst, now);
            if over.is_none() && found.load + price > limit.burst {
                over = Some(level);
            }
        }
        (found, over)
    }

    /// Returns the index of the first word of a hash's bucket.
    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        self.first + (hash >> self.shift) as usize * SLOTS
    }

    /// Finds the counter of a prefix and a kind of replies, or the one that it takes over.
    #[inline]
    fn find(&self, hash: u64, kind: u8, price: u64, burst: u64, now: u64) -> Found<'_> {
        let bucket = self.words.get(self.bucket(hash)..).and_then(|words| words.first_chunk::<SLOTS>());
        let Some(bucket) = bucket else { return Found::default() };
        // Different for each kind of one prefix, and spread over all identifiers.
        let id = (hash ^ u64::from(kind).wrapping_mul(0x9e37)) << TIME_BITS;
        let load = |value| load_at(value, now).min(burst);
        // Most replies go to networks that have a counter, which takes a comparison for each slot.
        for word in bucket {
            let value = word.load(Relaxed);
            if value & !TIME_MASK == id {
                return Found { word: Some(word), id, load: load(value), price };
            }
        }
        let least = bucket.iter().map(|word| (word, load(word.load(Relaxed)))).min_by_key(|&(_, load)| load);
        least.map_or_else(Found::default, |(word, load)| Found { word: Some(word), id, load, price })
    }
}

/// Returns the load of a counter in ticks.
#[inline]
fn load_at(value: u64, now: u64) -> u64 {
    let load = value.wrapping_sub(now) & TIME_MASK;
    // A time that has passed, or a counter that was last used before ticks wrapped.
    if load > MOST_LOAD { 0 } else { load }
}

/// Multiplies, and joins both halves of the product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl fmt::Debug for RateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateTable").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
