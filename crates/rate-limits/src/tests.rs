//! Tests of the table against a model that keeps an exact counter for each prefix.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const KEYS: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
const V4: PrefixFactors = PrefixFactors([2, 16, 48]);
const V6: PrefixFactors = PrefixFactors([2, 3, 4]);

fn table(bytes: usize) -> RateTable {
    RateTable::new(bytes, KEYS, Instant::now())
}

fn limit(rate: u32, seconds: u64) -> RateLimit {
    RateLimit::new(rate, V4, V6, Duration::from_secs(seconds))
}

/// The time this many microseconds after the table was made.
fn at(table: &RateTable, micros: u64) -> Ticks {
    table.ticks(table.epoch + Duration::from_micros(micros))
}

/// Charges a unit for an address; returns whether it is admitted.
fn admits(table: &RateTable, address: impl Into<IpAddr>, limit: &RateLimit, micros: u64) -> bool {
    table.charge(&table.hashes(address.into()), 0, limit, 1, at(table, micros)).is_none()
}

/// The network of an address, by the length of the prefix.
fn network(address: IpAddr, level: usize) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => u128::from(v4.to_bits() >> (32 - LENGTHS_V4[level])),
        IpAddr::V6(v6) => v6.to_bits() >> (128 - LENGTHS_V6[level]),
    }
}

/// Exact counters, in nanoseconds, of each prefix and kind.
#[derive(Default)]
struct Model(HashMap<(bool, usize, u128, u8), u64>);

impl Model {
    /// As [`RateTable::charge`], from its documentation.
    fn charge(
        &mut self,
        address: IpAddr,
        kind: u8,
        (rate, burst): (u32, u64),
        units: u32,
        now: u64,
    ) -> Option<usize> {
        let is_v4 = address.to_canonical().is_ipv4();
        let PrefixFactors(factors) = if is_v4 { V4 } else { V6 };
        let mut levels = Vec::new();
        for (level, factor) in [1].into_iter().chain(factors).enumerate() {
            let key = (is_v4, level, network(address, level), kind);
            let price = (1_000_000_000 * u64::from(units) / u64::from(rate * factor)).min(burst);
            let load = self.0.get(&key).map_or(0, |empty| empty.saturating_sub(now)).min(burst);
            levels.push((key, price, load));
        }
        let is_over = |(_, price, load): &(_, u64, u64)| load + price > burst;
        let over = levels.iter().position(is_over);
        for level @ (key, price, load) in &levels {
            match over {
                None => {
                    self.0.insert(*key, now + load + price);
                }
                Some(_) if is_over(level) && burst - load > price / 4 => {
                    self.0.insert(*key, now + burst);
                }
                Some(_) => {}
            }
        }
        over
    }
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|bytes| IpAddr::from(bytes.map(|byte| byte & 0x41))),
        any::<[u8; 4]>()
            .prop_map(|bytes| IpAddr::from(Ipv4Addr::from(bytes.map(|byte| byte & 0x41)).to_ipv6_mapped())),
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| {
            let [a, b, c, d] = [a, b, c, d].map(|byte| u16::from(byte & 1));
            IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, a, b << 8 | c, 0, 0, 0, d))
        }),
    ]
}

proptest! {
    /// In a table with room for all counters the decisions are those of exact counters. Times are whole
    /// ticks, and prices too, so that the table rounds nothing.
    #[test]
    fn decisions_are_those_of_exact_counters(
        queries in prop::collection::vec((address(), 0..3u8, 1..6u32, 0..200_000u64), 1..300),
        seconds in 1..4u64,
    ) {
        let table = table(1 << 20);
        // 1 / 5^9 seconds are 512 ns: the prices of all factors but 3 are whole ticks.
        let rate = 125;
        let limit = RateLimit::new(rate, V4, V6, Duration::from_secs(seconds));
        let (mut model, mut now, mut decisions) = (Model::default(), 0, 0);
        for (address, kind, units, pause) in queries {
            now += pause * 256;
            let ticks = table.ticks(table.epoch + Duration::from_nanos(now));
            let charged = table.charge(&table.hashes(address), kind, &limit, units, ticks);
            let exact = model.charge(address, kind, (rate, seconds * 1_000_000_000), units, now);
            decisions += u32::from(charged != exact);
        }
        // Prices are rounded by less than a tick.
        prop_assert!(decisions <= 1, "{decisions} decisions differ");
    }

    /// Whatever arrives, no prefix is sent more than its burst and its rate allow.
    #[test]
    fn no_prefix_is_sent_more_than_its_limit(
        queries in prop::collection::vec((address(), 1..6u32, 0..3_000u64), 1..500),
        bytes in prop_oneof![Just(128_usize), Just(1 << 16)],
    ) {
        let (table, limit) = (table(bytes), limit(100, 1));
        let (mut sent, mut now) = (HashMap::<_, u64>::new(), 0);
        for (address, units, pause) in queries {
            now += pause;
            let hashes = table.hashes(address);
            if table.charge(&hashes, 0, &limit, units, at(&table, now)).is_none() {
                for level in 0..LEVELS {
                    let key = (hashes.is_v4, level, network(address, level));
                    *sent.entry(key).or_default() += u64::from(units);
                }
            }
        }
        // Too small a table forgets counters without load only.
        for ((is_v4, level, _), units) in sent {
            let PrefixFactors(factors) = if is_v4 { V4 } else { V6 };
            let factor = [1, factors[0], factors[1], factors[2]][level];
            let most = 100 * u64::from(factor) * (1_000_000 + now) / 1_000_000 + 1;
            prop_assert!(units <= most, "{units} > {most} at level {level}");
        }
    }

    #[test]
    fn hashes_depend_on_the_prefix_alone(one in address(), other in address()) {
        let table = table(1 << 16);
        let (a, b) = (table.hashes(one), table.hashes(other));
        for level in 0..LEVELS {
            let same = a.is_v4 == b.is_v4 && network(one, level) == network(other, level);
            prop_assert_eq!(a.hashes[level] == b.hashes[level], same);
        }
    }
}

#[test]
fn a_burst_is_admitted_and_then_the_rate() {
    let (table, limit) = (table(1 << 16), limit(100, 2));
    let client = [192, 0, 2, 1];
    assert_eq!((0..1000).filter(|_| admits(&table, client, &limit, 0)).count(), 200);
    // A query every 10 ms is the rate.
    let drained = 2_000_000;
    assert!((0..1000).all(|n| admits(&table, client, &limit, drained + n * 10_000)));
}

#[test]
fn nothing_is_admitted_while_a_flood_lasts_and_soon_after_it_all_is() {
    let (table, limit) = (table(1 << 16), limit(100, 2));
    let client = [192, 0, 2, 1];
    let flood = |from: u64| (from..from + 1000).filter(|n| admits(&table, client, &limit, n * 5_000)).count();
    assert_eq!(flood(0), 399, "the burst, and what drains until it is used up");
    assert_eq!(flood(1000), 0);
    assert!(admits(&table, client, &limit, 2000 * 5_000 + 10_000));
}

#[test]
fn a_flood_from_one_address_takes_nothing_from_its_network() {
    let (table, limit) = (table(1 << 16), limit(100, 1));
    for n in 0..10_000 {
        admits(&table, [192, 0, 2, 1], &limit, n * 10);
    }
    assert_eq!((0..200).filter(|_| admits(&table, [192, 0, 2, 2], &limit, 100_000)).count(), 100);
}

#[test]
fn a_flood_from_a_network_stops_that_network_alone() {
    let (table, limit) = (table(1 << 20), limit(100, 1));
    let sent = (0..100_000_u64).filter(|n| admits(&table, [192, 0, 2, *n as u8], &limit, n / 10)).count();
    assert_eq!(sent, 200);
    let over = table.charge(&table.hashes([192, 0, 2, 7].into()), 0, &limit, 1, at(&table, 10_000));
    assert_eq!(over, Some(1), "the /24, and not the address");
    assert!(admits(&table, [192, 0, 3, 1], &limit, 10_000));
}

#[test]
fn kinds_are_counted_apart_and_ipv4_mapped_addresses_are_ipv4() {
    let (table, limit) = (table(1 << 16), limit(10, 1));
    let mapped: IpAddr = "::ffff:192.0.2.1".parse().expect("an address");
    let charge = |kind, address| table.charge(&table.hashes(address), kind, &limit, 10, at(&table, 0));
    assert_eq!(charge(0, mapped), None);
    assert_eq!(charge(0, [192, 0, 2, 1].into()), Some(0));
    assert_eq!(charge(1, [192, 0, 2, 1].into()), None);
}

#[test]
fn a_reply_that_costs_more_than_the_burst_needs_an_empty_counter() {
    let (table, limit) = (table(1 << 16), limit(1, 1));
    let charge = |micros| {
        table.charge(&table.hashes([192, 0, 2, 1].into()), 0, &limit, 16, at(&table, micros)).is_none()
    };
    assert_eq!([0, 10, 999_000, 2_100_000].map(charge), [true, false, false, true]);
}

#[test]
fn what_has_much_load_stays_in_a_table_that_is_too_small() {
    // Two buckets, and thousands of addresses that come once.
    let (table, limit) = (table(128), RateLimit::of_addresses(100, Duration::from_secs(1)));
    let attacked: IpAddr = [192, 0, 2, 1].into();
    let mut sent = 0;
    for n in 0..20_000_u32 {
        sent += u32::from(admits(&table, attacked, &limit, u64::from(n) * 100));
        admits(&table, Ipv4Addr::from_bits(0x0a00_0000 + n), &limit, u64::from(n) * 100);
    }
    // Two seconds: the burst is 100, and nothing is admitted once it is used up.
    assert!(sent <= 110, "{sent}");
}

#[test]
fn counters_that_were_last_used_long_ago_have_no_load() {
    let (table, limit) = (table(1 << 16), limit(1, 1));
    let years = |years: u64| years * 365 * 86_400 * 1_000_000;
    for time in [0, years(1), years(2), years(3), years(7)] {
        assert!(admits(&table, [192, 0, 2, 1], &limit, time), "{time}");
        assert!(!admits(&table, [192, 0, 2, 1], &limit, time), "{time}");
    }
}

#[test]
fn a_prefix_without_a_limit_is_not_counted() {
    let (table, limit) = (table(1 << 16), RateLimit::of_addresses(10, Duration::from_secs(1)));
    assert!((0..=255).all(|n| admits(&table, [192, 0, 2, n], &limit, 0)));
}

#[test]
fn the_size_in_bytes_bounds_the_table_and_buckets_are_whole_lines() {
    for (bytes, counters) in [(0, 16), (128, 16), (1 << 16, 8192), ((1 << 17) - 1, 8192)] {
        let table = table(bytes);
        assert_eq!(table.counters(), counters);
        let start = table.words.get(table.bucket(u64::MAX)).map(std::ptr::from_ref).expect("a bucket");
        assert_eq!(start.addr() % BUCKET_BYTES, 0);
        assert!(table.words.get(table.bucket(u64::MAX) + SLOTS - 1).is_some());
    }
}

#[test]
fn what_is_not_admitted_leaves_each_prefix_its_rate() {
    let table = table(1 << 16);
    let limit = RateLimit::of_networks(10, PrefixFactors([1, 100, 100]), V6, Duration::from_secs(1));
    let hashes = table.hashes([192, 0, 2, 1].into());
    // Ten times the rate for ten seconds: the burst, and then the rate.
    let admits = |n: u64| table.admit(&hashes, &limit, at(&table, n * 10_000));
    let admitted = (0..1000).filter(|&n| admits(n)).count();
    assert!((108..=110).contains(&admitted), "{admitted}");
    // An address has no limit of its own, and another in the network has that of the network.
    let neighbour = table.hashes([192, 0, 2, 2].into());
    assert!(!table.admit(&neighbour, &limit, at(&table, 9_990_000)));
    assert_eq!(neighbour.network(), hashes.network());
    assert_ne!(table.hashes([192, 0, 3, 1].into()).network(), hashes.network());
}
