//! Which rules an address has.
//!
//! The address space is cut into ranges whose addresses are in the same prefixes. The starts of the ranges
//! are sorted, and an index by the first 16 bits of an address bounds the search.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::Prefix;

use crate::rule::{Rule, RuleSets, SetId, SourceId};

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
    /// Adds a rule to a prefix: the set that consists of it. IPv4-mapped prefixes are those of IPv4.
    pub(crate) fn push(&mut self, prefix: Prefix, single: SetId) {
        self.0.push((prefix.to_canonical(), single));
    }
}

/// The rules of prefixes. Where prefixes of one source contain each other, the longest counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefixTable {
    v4: Family<u32>,
    v6: Family<u128>,
}

impl PrefixTable {
    /// Compiles prefixes.
    pub(crate) fn new(PrefixEntries(entries): PrefixEntries, sets: &mut RuleSets) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (prefix, set) in &entries {
            match prefix.address() {
                IpAddr::V4(first) => v4.push((Block { first: first.to_bits(), len: prefix.len() }, *set)),
                IpAddr::V6(first) => v6.push((Block { first: first.to_bits(), len: prefix.len() }, *set)),
            }
        }
        PrefixTable { v4: Family::new(v4, sets), v6: Family::new(v6, sets) }
    }

    /// Number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.v4.blocks.len() + self.v6.blocks.len()
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
            IpAddr::V4(v4) => self.v4.ranges.find(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.ranges.find(v6.to_bits()),
        }
    }

    /// Returns the sets, of one rule each, that were added to a prefix. It is canonical.
    fn added(&self, prefix: &Prefix) -> &[SetId] {
        let len = prefix.len();
        match prefix.address() {
            IpAddr::V4(first) => self.v4.added(Block { first: first.to_bits(), len }),
            IpAddr::V6(first) => self.v6.added(Block { first: first.to_bits(), len }),
        }
    }
}

/// The rules of prefixes in place of those of a table: in ranges of addresses around the prefixes that
/// differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefixOverlay {
    edits: Edits,
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    /// Number of prefixes, with those of the table.
    len: usize,
}

/// By prefix and source, the rule in place of that of a table; `None`: no rule.
type Edits = BTreeMap<(Prefix, SourceId), Option<Rule>>;

impl PrefixOverlay {
    /// Number of prefixes, with those of the table.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of prefixes that differ.
    pub(crate) fn edited(&self) -> usize {
        self.edits.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes() + self.edits.len() * size_of::<(Prefix, SourceId, Option<Rule>)>()
    }

    /// Returns the rules of an address; `None`: those of the table count.
    #[inline]
    pub(crate) fn find(&self, address: IpAddr) -> Option<SetId> {
        match address.to_canonical() {
            IpAddr::V4(v4) => self.v4.find(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.find(v6.to_bits()),
        }
    }
}

/// The next overlay of a table, while prefixes change.
pub(crate) struct PrefixEdits<'t> {
    table: (&'t PrefixTable, &'t RuleSets),
    edits: Edits,
    len: usize,
}

impl<'t> PrefixEdits<'t> {
    /// Begins with an earlier overlay; `carry` makes its rules those of the next one.
    pub(crate) fn new(
        table: (&'t PrefixTable, &'t RuleSets),
        from: Option<&PrefixOverlay>,
        mut carry: impl FnMut(&Rule) -> Rule,
    ) -> Self {
        let mut edits = from.map_or_else(Edits::new, |from| from.edits.clone());
        edits.values_mut().flatten().for_each(|rule| *rule = carry(rule));
        PrefixEdits { table, edits, len: from.map_or(table.0.len(), PrefixOverlay::len) }
    }

    /// Replaces the rule that a source has for a prefix; `had` is whether it had one. Returns `false` if that
    /// is not so: the source has several owners for the prefix.
    pub(crate) fn replace(&mut self, prefix: Prefix, source: SourceId, had: bool, by: Option<Rule>) -> bool {
        let prefix = prefix.to_canonical();
        let (table, sets) = self.table;
        let of_table = || {
            let rules = table.added(&prefix).iter().flat_map(|set| sets.rules(*set));
            rules.filter(|rule| rule.source == source)
        };
        let has = match self.edits.get(&(prefix, source)) {
            Some(rule) => usize::from(rule.is_some()),
            None => of_table().count(),
        };
        if has != usize::from(had) {
            return false;
        }
        self.len = self.len + usize::from(by.is_some()) - usize::from(had);
        if of_table().eq(&by) {
            self.edits.remove(&(prefix, source));
        } else {
            self.edits.insert((prefix, source), by);
        }
        true
    }

    /// Compiles the overlay. Returns `None` if more than `most` prefixes of the table are inside those that
    /// differ.
    pub(crate) fn finish(self, sets: &mut RuleSets, mut most: usize) -> Option<PrefixOverlay> {
        let PrefixEdits { table: (table, of_table), edits, len } = self;
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for ((prefix, source), rule) in &edits {
            let len = prefix.len();
            match prefix.address() {
                IpAddr::V4(first) => v4.push((Block { first: first.to_bits(), len }, *source, *rule)),
                IpAddr::V6(first) => v6.push((Block { first: first.to_bits(), len }, *source, *rule)),
            }
        }
        let v4 = table.v4.patched(of_table, v4, sets, &mut most)?;
        let v6 = table.v6.patched(of_table, v6, sets, &mut most)?;
        Some(PrefixOverlay { edits, v4, v6, len })
    }
}

/// The bits of an address.
trait AddressBits: Copy + Ord + Default {
    /// The first 16 bits.
    fn high(self) -> usize;
    /// The next address; `None` after the last one.
    fn next(self) -> Option<Self>;
    /// The address with zeros behind the first `len` bits.
    fn first(self, len: u8) -> Self;
    /// The address with ones behind the first `len` bits.
    fn last(self, len: u8) -> Self;
}

impl AddressBits for u32 {
    fn high(self) -> usize {
        (self >> 16) as usize
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    fn first(self, len: u8) -> Self {
        self & !u32::MAX.checked_shr(len.into()).unwrap_or(0)
    }

    fn last(self, len: u8) -> Self {
        self | u32::MAX.checked_shr(len.into()).unwrap_or(0)
    }
}

impl AddressBits for u128 {
    fn high(self) -> usize {
        (self >> 112) as usize
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    fn first(self, len: u8) -> Self {
        self & !u128::MAX.checked_shr(len.into()).unwrap_or(0)
    }

    fn last(self, len: u8) -> Self {
        self | u128::MAX.checked_shr(len.into()).unwrap_or(0)
    }
}

/// A prefix. In order, each comes after those that contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Block<T> {
    first: T,
    len: u8,
}

impl<T: AddressBits> Block<T> {
    fn last(self) -> T {
        self.first.last(self.len)
    }
}

/// The prefixes of one address family, in order, and the ranges that they make.
#[derive(Clone, Debug, Default)]
struct Family<T> {
    ranges: Ranges<T>,
    blocks: Blocks<T>,
}

/// Prefixes and their rules in order. A change of some needs the others around them.
#[derive(Clone, Debug, Default)]
struct Blocks<T> {
    firsts: Box<[T]>,
    lens: Box<[u8]>,
    sets: Box<[SetId]>,
}

impl<T: AddressBits> Blocks<T> {
    fn len(&self) -> usize {
        self.firsts.len()
    }

    fn get(&self, at: usize) -> Option<(Block<T>, SetId)> {
        let block = Block { first: *self.firsts.get(at)?, len: *self.lens.get(at)? };
        Some((block, *self.sets.get(at)?))
    }

    /// Returns the number of prefixes that come before `block`.
    fn before(&self, block: Block<T>) -> usize {
        let start = self.firsts.partition_point(|first| *first < block.first);
        let rest = self.firsts.get(start..).unwrap_or_default();
        let end = start + rest.partition_point(|first| *first == block.first);
        start + self.lens.get(start..end).unwrap_or_default().partition_point(|len| *len < block.len)
    }

    /// The prefixes from number `at` on.
    fn from(&self, at: usize) -> impl Iterator<Item = (Block<T>, SetId)> {
        (at..self.len()).map_while(|at| self.get(at))
    }
}

impl<T: AddressBits> Family<T> {
    fn new(mut blocks: Vec<(Block<T>, SetId)>, sets: &mut RuleSets) -> Self {
        blocks.sort_unstable();
        let mut ranges = RangeBuilder::default();
        for (block, set) in &blocks {
            ranges.open(*block, *set, sets);
        }
        let (firsts, rest): (Vec<T>, Vec<(u8, SetId)>) =
            blocks.into_iter().map(|(block, set)| (block.first, (block.len, set))).unzip();
        let (lens, sets): (Vec<u8>, Vec<SetId>) = rest.into_iter().unzip();
        let blocks = Blocks { firsts: firsts.into(), lens: lens.into(), sets: sets.into() };
        Family { ranges: ranges.finish(), blocks }
    }

    fn bytes(&self) -> usize {
        let Blocks { firsts, lens, sets } = &self.blocks;
        self.ranges.bytes() + size_of_val(&**firsts) + size_of_val(&**lens) + size_of_val(&**sets)
    }

    /// Returns the sets that were added to a prefix.
    fn added(&self, block: Block<T>) -> &[SetId] {
        let start = self.blocks.before(block);
        let count = self.blocks.from(start).take_while(|(other, _)| *other == block).count();
        self.blocks.sets.get(start..start + count).unwrap_or_default()
    }

    /// Returns the rules in all prefixes that have edits, which are in order; the sets are those of `to`, and
    /// `own` are those of this table. `None`: there are more than `most` prefixes inside.
    fn patched(
        &self,
        own: &RuleSets,
        edits: Vec<(Block<T>, SourceId, Option<Rule>)>,
        to: &mut RuleSets,
        most: &mut usize,
    ) -> Option<Ranges<T>> {
        let none = to.number(&[]);
        let mut ranges = RangeBuilder::default();
        let mut edits = edits.as_slice();
        while let Some((outermost, ..)) = edits.first().copied() {
            let inside = edits.partition_point(|(block, ..)| block.first <= outermost.last());
            let (of_block, rest) = edits.split_at(inside);
            edits = rest;
            // The prefixes around it did not change.
            ranges.open(outermost, none, to);
            for len in 0..outermost.len {
                for set in self.added(Block { first: outermost.first.first(len), len }) {
                    let set = to.number(own.rules(*set));
                    ranges.open(outermost, set, to);
                }
            }
            let is_edited = |block, source| {
                of_block
                    .binary_search_by_key(&(block, source), |(block, source, _)| (*block, *source))
                    .is_ok()
            };
            let mut blocks = Vec::new();
            let start = self.blocks.before(outermost);
            for (block, set) in
                self.blocks.from(start).take_while(|(block, _)| block.first <= outermost.last())
            {
                *most = most.checked_sub(1)?;
                let rules = own.rules(set).iter().filter(|rule| !is_edited(block, rule.source));
                blocks.extend(rules.map(|rule| (block, to.single(*rule))));
            }
            let new = of_block.iter().filter_map(|(block, _, rule)| Some((*block, (*rule)?)));
            blocks.extend(new.map(|(block, rule)| (block, to.single(rule))));
            blocks.sort_unstable();
            blocks.into_iter().for_each(|(block, set)| ranges.open(block, set, to));
        }
        Some(ranges.finish())
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
#[derive(Default)]
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
    fn open(&mut self, block: Block<T>, set: SetId, sets: &mut RuleSets) {
        self.close_before(Some(block.first));
        let set = self.open.last().map_or(set, |(_, outer)| inside(*outer, set, sets));
        self.range(block.first, Some(set));
        self.open.push((block.last(), set));
    }

    fn range(&mut self, start: T, set: Option<SetId>) {
        if self.ranges.last().is_some_and(|(last, _)| *last == start) {
            self.ranges.pop();
        }
        if self.ranges.last().map(|(_, set)| *set) != Some(set) {
            self.ranges.push((start, set));
        }
    }

    fn finish(mut self) -> Ranges<T> {
        self.close_before(None);
        let (starts, found): (Vec<T>, Vec<Option<SetId>>) = self.ranges.into_iter().unzip();
        let mut index = Vec::new();
        if starts.len() >= FEW {
            let below = |high: usize| starts.partition_point(|start| start.high() < high) as u32;
            index = (0..=1 << 16).map(below).collect();
        }
        Ranges { index: index.into(), starts: starts.into(), sets: found.into() }
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
    use crate::rule::{RpzAction, RuleEffect, RuleReach};

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
        assert!(!table.v4.ranges.index.is_empty());
        for n in 0..6000 {
            let address = single(n).address();
            assert_eq!(table.find(address).is_some(), n < 3000, "{address}");
            let IpAddr::V4(v4) = address else { continue };
            let next = Ipv4Addr::from_bits(v4.to_bits().wrapping_add(1)).into();
            assert_eq!(table.find(next).is_some(), prefixes.iter().any(|(_, p)| p.contains(next)), "{next}");
        }
    }
}
