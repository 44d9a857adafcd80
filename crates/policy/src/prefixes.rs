//! Which rules an address has.
//!
//! The address space is cut into ranges whose addresses are in the same prefixes. The starts of the ranges
//! are sorted, and an index by the first 16 bits of an address bounds the search.

use std::net::IpAddr;

use wire::Prefix;

use crate::rule::{Rule, RuleSets, SetId};

/// Length of the prefix of IPv4-mapped IPv6 addresses (RFC 4291 §2.5.5.2).
const MAPPED_LEN: u8 = 96;

/// Returns the length of a prefix as one of IPv6, in which all lengths compare (draft, §5.5).
pub(crate) fn comparable_len(prefix: &Prefix) -> u8 {
    if prefix.address().is_ipv4() { MAPPED_LEN + prefix.len() } else { prefix.len() }
}

/// Prefixes and their rules, in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefixEntries(Vec<(Prefix, SetId)>);

impl PrefixEntries {
    /// Adds rules to a prefix. IPv4-mapped prefixes are those of IPv4.
    pub(crate) fn push(&mut self, prefix: Prefix, set: SetId) {
        self.0.push((prefix.to_canonical(), set));
    }
}

/// The rules of prefixes. Where prefixes of one source contain each other, the longest counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefixTable {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    prefixes: usize,
}

impl PrefixTable {
    /// Compiles prefixes.
    pub(crate) fn new(entries: PrefixEntries, sets: &mut RuleSets) -> Self {
        let PrefixEntries(entries) = entries;
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (prefix, set) in &entries {
            match (prefix.address(), prefix.last()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => v4.push((first.to_bits(), last.to_bits(), *set)),
                (IpAddr::V6(first), IpAddr::V6(last)) => v6.push((first.to_bits(), last.to_bits(), *set)),
                _ => {}
            }
        }
        PrefixTable { v4: Ranges::new(v4, sets), v6: Ranges::new(v6, sets), prefixes: entries.len() }
    }

    /// Number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.prefixes
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }

    /// Returns the rules of an address: of each source the one with the longest prefix. IPv4-mapped addresses
    /// are those of IPv4.
    #[inline]
    pub(crate) fn find(&self, address: IpAddr) -> Option<SetId> {
        match address.to_canonical() {
            IpAddr::V4(v4) => self.v4.find(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.find(v6.to_bits()),
        }
    }
}

/// The bits of an address.
trait AddressBits: Copy + Ord + Default {
    /// The first 16 bits.
    fn high(self) -> usize;
    /// The next address; `None` after the last one.
    fn next(self) -> Option<Self>;
}

impl AddressBits for u32 {
    fn high(self) -> usize {
        (self >> 16) as usize
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl AddressBits for u128 {
    fn high(self) -> usize {
        (self >> 112) as usize
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// Ranges from 0 on; each ends where the next one starts.
#[derive(Clone, Debug, Default)]
struct Ranges<T> {
    /// For each value of the first 16 bits, the number of ranges that start below; empty for few ranges.
    index: Box<[u32]>,
    starts: Box<[T]>,
    sets: Box<[Option<SetId>]>,
}

/// Fewer ranges than this have no index.
const FEW: usize = 1024;

impl<T: AddressBits> Ranges<T> {
    /// Builds ranges from prefixes: first address, last address, rules.
    fn new(mut prefixes: Vec<(T, T, SetId)>, sets: &mut RuleSets) -> Self {
        // A prefix comes after those that contain it.
        prefixes.sort_unstable_by(|a, b| (a.0, b.1, a.2).cmp(&(b.0, a.1, b.2)));
        let mut ranges = RangeBuilder { ranges: Vec::new(), open: Vec::new() };
        for (first, last, set) in prefixes {
            ranges.close_before(Some(first));
            ranges.open(first, last, set, sets);
        }
        ranges.close_before(None);
        let (starts, found): (Vec<T>, Vec<Option<SetId>>) = ranges.ranges.into_iter().unzip();
        let mut index = Vec::new();
        if starts.len() >= FEW {
            let below = |high: usize| starts.partition_point(|start| start.high() < high) as u32;
            index = (0..=1 << 16).map(below).collect();
        }
        Ranges { index: index.into(), starts: starts.into(), sets: found.into() }
    }

    #[inline]
    fn find(&self, address: T) -> Option<SetId> {
        let high = address.high();
        let (from, to) = match (self.index.get(high), self.index.get(high + 1)) {
            (Some(from), Some(to)) => (*from as usize, *to as usize),
            _ => (0, self.starts.len()),
        };
        let behind = from + self.starts.get(from..to)?.partition_point(|start| *start <= address);
        *self.sets.get(behind.checked_sub(1)?)?
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.index) + size_of_val(&*self.starts) + size_of_val(&*self.sets)
    }
}

/// Builds ranges while it goes through prefixes in order. Two prefixes are disjoint, or one contains the
/// other.
struct RangeBuilder<T> {
    /// The start of each range, and the rules of its addresses.
    ranges: Vec<(T, Option<SetId>)>,
    /// The last address of each prefix around the current address, and the rules that count in it.
    open: Vec<(T, SetId)>,
}

impl<T: AddressBits> RangeBuilder<T> {
    /// Ends the prefixes whose last address is below `next`; `None` ends all.
    fn close_before(&mut self, next: Option<T>) {
        while let Some((last, _)) = self.open.pop_if(|(last, _)| next.is_none_or(|next| *last < next)) {
            if let Some(start) = last.next() {
                self.range(start, self.open.last().map(|(_, set)| *set));
            }
        }
    }

    /// Begins a prefix.
    fn open(&mut self, first: T, last: T, set: SetId, sets: &mut RuleSets) {
        let set = self.open.last().map_or(set, |(_, outer)| inside(*outer, set, sets));
        self.range(first, Some(set));
        self.open.push((last, set));
    }

    fn range(&mut self, start: T, set: Option<SetId>) {
        if self.ranges.last().is_some_and(|(last, _)| *last == start) {
            self.ranges.pop();
        }
        if self.ranges.last().map(|(_, set)| *set) != Some(set) {
            self.ranges.push((start, set));
        }
    }
}

/// Returns the rules that count in a prefix with the rules `inner`, inside one with the rules `outer`: of
/// each source those of the longer prefix.
fn inside(outer: SetId, inner: SetId, sets: &mut RuleSets) -> SetId {
    let own = sets.rules(inner);
    let other = sets
        .rules(outer)
        .iter()
        .filter(|rule| !own.iter().any(|own| own.source == rule.source && own.prefix_len > rule.prefix_len));
    let mut rules: Vec<Rule> = own.iter().chain(other).copied().collect();
    rules.sort_unstable();
    rules.dedup();
    sets.number(&rules)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::conditions::ConditionId;
    use crate::rule::{RpzAction, RuleEffect, RuleReach, SourceId};

    fn rule(source: u8, prefix: &Prefix) -> Rule {
        let effect = RuleEffect::Rpz(RpzAction::NxDomain);
        let (source, prefix_len) = (SourceId(source), comparable_len(&prefix.to_canonical()));
        Rule { source, reach: RuleReach::Name, effect, prefix_len, condition: ConditionId::NONE }
    }

    /// Addresses from a small set, so that prefixes of them overlap.
    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<[u8; 4]>().prop_map(|bytes| IpAddr::from(bytes.map(|byte| byte & 0x81))),
            any::<[u8; 16]>().prop_map(|bytes| IpAddr::from(bytes.map(|byte| byte & 0x81))),
            any::<[u8; 4]>()
                .prop_map(|bytes| Ipv4Addr::from(bytes.map(|byte| byte & 0x81)).to_ipv6_mapped().into()),
        ]
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        (address(), 0..=128u8).prop_map(|(address, len)| {
            let len = if address.is_ipv4() { len / 4 } else { len };
            Prefix::of(address, len).expect("as many bits as there are")
        })
    }

    /// The rules that an address has, by a walk over all prefixes.
    fn walked(prefixes: &[(u8, Prefix)], address: IpAddr) -> Vec<Rule> {
        let around = |(source, prefix): &(u8, Prefix)| {
            let canonical = prefix.to_canonical();
            canonical.contains(address.to_canonical()).then(|| rule(*source, &canonical))
        };
        let mut all: Vec<Rule> = prefixes.iter().filter_map(around).collect();
        let longest = |of: SourceId| {
            prefixes
                .iter()
                .filter_map(around)
                .filter(|rule| rule.source == of)
                .map(|rule| rule.prefix_len)
                .max()
        };
        all.retain(|rule| longest(rule.source) == Some(rule.prefix_len));
        all.sort_unstable();
        all.dedup();
        all
    }

    fn table(prefixes: &[(u8, Prefix)], sets: &mut RuleSets) -> PrefixTable {
        let mut entries = PrefixEntries::default();
        for (source, prefix) in prefixes {
            let set = sets.single(rule(*source, prefix));
            entries.push(*prefix, set);
        }
        PrefixTable::new(entries, sets)
    }

    proptest! {
        #[test]
        fn an_address_has_the_rule_of_the_longest_prefix_of_each_source(
            prefixes in prop::collection::vec((0..3u8, prefix()), 0..16),
            asked in address(),
        ) {
            let mut sets = RuleSets::default();
            let table = table(&prefixes, &mut sets);
            let edges = prefixes.iter().flat_map(|(_, prefix)| [prefix.address(), prefix.last()]);
            for address in edges.chain([asked]) {
                let found = table.find(address).map_or(Vec::new(), |set| sets.rules(set).to_vec());
                prop_assert_eq!(found, walked(&prefixes, address), "{}", address);
            }
        }
    }

    #[test]
    fn many_prefixes_are_found_through_the_index() {
        let mut sets = RuleSets::default();
        let single = |n: u32| Prefix::single(Ipv4Addr::from_bits(n.wrapping_mul(2_654_435_761)).into());
        let prefixes: Vec<_> = (0..3000).map(|n| (0, single(n))).collect();
        let table = table(&prefixes, &mut sets);
        assert!(!table.v4.index.is_empty());
        for n in 0..6000 {
            let address = single(n).address();
            assert_eq!(table.find(address).is_some(), n < 3000, "{address}");
            let IpAddr::V4(v4) = address else { continue };
            let next = Ipv4Addr::from_bits(v4.to_bits().wrapping_add(1)).into();
            assert_eq!(table.find(next).is_some(), prefixes.iter().any(|(_, p)| p.contains(next)), "{next}");
        }
    }
}
