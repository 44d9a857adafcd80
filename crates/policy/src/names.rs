//! Which rules a name has, by the hashes of its suffixes.
//!
//! Entries lie in the order of their hashes, without a gap between them. The hash also selects a bucket: an
//! index has the first entry of each. A lookup reads the bucket's bounds, compares one byte of the hash with
//! the byte of each entry of the bucket, eight on average, and reads an entry only if its byte is equal: for
//! a name without rules that happens in 3 of 100 lookups. The index and the bytes of a million names fit into
//! the cache of a processor.

use wire::LowerName;
use wire::hash::{HashKey, HashedName, NameHash};

use crate::rule::{RuleSets, SetId};

/// Mean number of entries of a bucket.
const BUCKET: usize = 8;

/// The keys of the two hashes of names.
#[derive(Clone, Copy)]
pub struct NameKeys {
    /// Of the hash that the query path has of each suffix of a query name.
    query: HashKey,
    /// Of the second hash, computed where the first is found.
    check: HashKey,
}

impl NameKeys {
    /// `query` is the key of the query path; the other key is generated.
    pub fn new(query: HashKey) -> Self {
        NameKeys { query, check: HashKey::random() }
    }

    /// Returns the hashes of a name.
    pub(crate) fn place(&self, name: LowerName<'_>) -> NamePlace {
        NamePlace { hash: self.query.name(name).bits(), check: self.check_of(name) }
    }

    fn check_of(&self, name: LowerName<'_>) -> u32 {
        // Each half of the hash depends on all of the name.
        self.check.name(name).bits() as u32
    }
}

/// A name and its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hash: u64,
    check: u32,
    set: SetId,
}

/// The hashes of a name, in the order of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamePlace {
    hash: u64,
    check: u32,
}

impl Entry {
    fn place(&self) -> NamePlace {
        NamePlace { hash: self.hash, check: self.check }
    }
}

/// Names and their rules, in any order, with duplicates.
#[derive(Clone, Default)]
pub(crate) struct NameEntries {
    entries: Vec<Entry>,
    depths: u128,
}

impl NameEntries {
    /// Adds rules to a name.
    pub(crate) fn push(&mut self, keys: &NameKeys, name: LowerName<'_>, set: SetId) {
        self.depths |= 1 << depth(name.label_count());
        self.push_at(keys.place(name), set);
    }

    /// Adds rules to a name of which [`include`](Self::include) has the number of labels.
    pub(crate) fn push_at(&mut self, NamePlace { hash, check }: NamePlace, set: SetId) {
        self.entries.push(Entry { hash, check, set });
    }

    /// Makes lookups search for names with as many labels as these.
    pub(crate) fn include(&mut self, depths: Depths) {
        self.depths |= depths.0;
    }

    /// Makes room for as many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.entries.reserve_exact(more);
    }

    /// Adds all of `others`.
    pub(crate) fn append(&mut self, others: NameEntries) {
        self.depths |= others.depths;
        if self.entries.is_empty() {
            self.entries = others.entries;
        } else {
            self.entries.extend(others.entries);
        }
    }
}

/// Numbers of labels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Depths(u128);

impl Depths {
    /// Adds those of `others`.
    pub(crate) fn include(&mut self, others: Depths) {
        self.0 |= others.0;
    }

    /// Returns the number of labels of a name, as it is counted here.
    pub(crate) fn depth_of(name: LowerName<'_>) -> u8 {
        depth(name.label_count()) as u8
    }

    /// Adds a number of labels.
    pub(crate) fn add_depth(&mut self, depth: u8) {
        self.0 |= 1 << depth.min(127);
    }

    /// Adds the number of labels of a name.
    pub(crate) fn add(&mut self, name: LowerName<'_>) {
        self.0 |= 1 << depth(name.label_count());
    }
}

/// A name has 127 labels at most.
fn depth(labels: usize) -> u32 {
    labels.min(127) as u32
}

/// Returns the suffixes of a name of `labels` labels that have a number of labels of `depths`, the longest
/// first: the number of labels before each, and the bit of its number of labels.
#[inline]
fn suffixes(depths: u128, labels: usize) -> impl Iterator<Item = (usize, u128)> {
    // A name has 127 labels at most.
    let mut left = depths & (u128::MAX >> (127 - depth(labels)));
    std::iter::from_fn(move || {
        let number = left.checked_ilog2()?;
        let bit = 1 << number;
        left ^= bit;
        Some((labels.saturating_sub(number as usize), bit))
    })
}

/// The rules of names.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameTable {
    /// Bit `n` is set if a name of `n` labels has rules.
    depths: u128,
    /// The first entry of each bucket, and the number of entries.
    starts: Box<[u32]>,
    /// One byte of each entry's hash.
    tags: Box<[u8]>,
    entries: Box<[Entry]>,
}

/// A byte of the hash that does not depend on the bucket.
#[inline]
fn tag(hash: u64) -> u8 {
    hash as u8
}

/// Returns the bucket of a hash. Buckets are in the order of hashes.
#[inline]
fn bucket(hash: u64, buckets: usize) -> usize {
    ((u128::from(hash) * buckets as u128) >> 64) as usize
}

impl NameTable {
    /// Compiles entries; the rules of equal names are joined.
    pub(crate) fn new(from: NameEntries, sets: &mut RuleSets) -> Self {
        let NameEntries { mut entries, depths } = from;
        entries.sort_unstable_by_key(|entry| (entry.hash, entry.check));
        entries.dedup_by(|next, kept| {
            let same = (next.hash, next.check) == (kept.hash, kept.check);
            if same {
                kept.set = sets.union(kept.set, next.set);
            }
            same
        });
        let buckets = entries.len().div_ceil(BUCKET);
        let mut starts = Vec::with_capacity(buckets + 1);
        for (at, entry) in (0u32..).zip(&entries) {
            // Empty buckets start where the next one does.
            starts.resize(bucket(entry.hash, buckets) + 1, at);
        }
        starts.resize(buckets + 1, entries.len() as u32);
        let tags = entries.iter().map(|entry| tag(entry.hash)).collect();
        NameTable { depths, starts: starts.into(), tags, entries: entries.into() }
    }

    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.tags) + size_of_val(&*self.entries)
    }

    /// The numbers of labels that names here have.
    pub(crate) fn depths(&self) -> Depths {
        Depths(self.depths)
    }

    /// All names and their rules, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NamePlace, SetId)> {
        self.entries.iter().map(|entry| (entry.place(), entry.set))
    }

    /// Returns the rules of the name with these hashes.
    pub(crate) fn at(&self, place: NamePlace) -> Option<SetId> {
        self.found_at(place).map(|(_, set)| set)
    }

    /// Returns the position of the name with these hashes in [`iter`](Self::iter), and its rules.
    #[inline]
    pub(crate) fn found_at(&self, place: NamePlace) -> Option<(usize, SetId)> {
        let bucket = bucket(place.hash, self.starts.len().checked_sub(1)?);
        let [start, end] = [self.starts.get(bucket)?, self.starts.get(bucket + 1)?].map(|at| *at as usize);
        let entries = self.entries.get(start..end)?;
        let (at, entry) = entries.iter().enumerate().find(|(_, entry)| entry.place() == place)?;
        Some((start + at, entry.set))
    }

    /// Calls `each` with the rules of every name that is not in `except`; adds those that it returns to `to`.
    pub(crate) fn copy(
        &self,
        to: &mut NameEntries,
        except: Option<&NameTable>,
        mut each: impl FnMut(SetId) -> Option<SetId>,
    ) {
        to.depths |= self.depths;
        let is_left_out = |entry: &Entry| except.is_some_and(|except| except.at(entry.place()).is_some());
        to.entries.extend(self.entries.iter().filter_map(|entry| {
            let set = each(entry.set)?;
            (!is_left_out(entry)).then_some(Entry { set, ..*entry })
        }));
    }

    /// Calls `each` with every suffix of a name that has rules, the longest first: the number of labels
    /// before it, and its rules.
    #[inline]
    pub(crate) fn suffixes(&self, keys: &NameKeys, name: &HashedName, mut each: impl FnMut(usize, SetId)) {
        for (skip, _) in suffixes(self.depths, name.label_count()) {
            if let Some(set) = self.find(keys, name.hash(skip), || name.suffix(skip)) {
                each(skip, set);
            }
        }
    }

    /// As [`suffixes`](Self::suffixes) with the rules of `over` for the names that it has. `each` gets also
    /// whether the rules are of `over`.
    #[inline]
    pub(crate) fn suffixes_under(
        &self,
        over: &NameTable,
        keys: &NameKeys,
        name: &HashedName,
        mut each: impl FnMut(usize, bool, SetId),
    ) {
        for (skip, bit) in suffixes(self.depths | over.depths, name.label_count()) {
            let find = |table: &NameTable| match table.depths & bit {
                0 => None,
                _ => table.find(keys, name.hash(skip), || name.suffix(skip)),
            };
            if let Some(set) = find(over) {
                each(skip, true, set);
            } else if let Some(set) = find(self) {
                each(skip, false, set);
            }
        }
    }

    /// Returns the rules of the name with this hash.
    #[inline]
    fn find<'n>(
        &self,
        keys: &NameKeys,
        hash: NameHash,
        name: impl FnOnce() -> LowerName<'n>,
    ) -> Option<SetId> {
        let hash = hash.bits();
        let bucket = bucket(hash, self.starts.len().checked_sub(1)?);
        let [start, end] = [self.starts.get(bucket)?, self.starts.get(bucket + 1)?].map(|at| *at as usize);
        let tags = self.tags.get(start..end)?;
        if !tags.contains(&tag(hash)) {
            return None;
        }
        let same: &[Entry] = self.entries.get(start..end)?;
        let mut same = same.iter().filter(|entry| entry.hash == hash).peekable();
        same.peek()?;
        let check = keys.check_of(name());
        same.find(|entry| entry.check == check).map(|entry| entry.set)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use wire::NameBuf;

    use super::*;
    use crate::conditions::ConditionId;
    use crate::rule::{Rule, RuleEffect, RuleReach, SourceId};

    fn keys() -> NameKeys {
        NameKeys { query: HashKey::new([1, 2, 3]), check: HashKey::new([4, 5, 6]) }
    }

    fn rule(source: u8) -> Rule {
        let effect = RuleEffect::Block { important: false };
        let condition = ConditionId::NONE;
        Rule { source: SourceId(source), reach: RuleReach::Name, effect, prefix_len: 0, condition }
    }

    fn hashed(keys: &NameKeys, name: &NameBuf) -> HashedName {
        let mut hashed = HashedName::new();
        hashed.set(&keys.query, name.as_name());
        hashed
    }

    /// Names of few different labels, so that they are suffixes of each other.
    fn name() -> impl Strategy<Value = NameBuf> {
        prop::collection::vec(prop_oneof!["[ab]", "[AB]", "[a-c]{1,12}"], 0..6)
            .prop_map(|labels| format!("{}.", labels.join(".")).parse().expect("a name"))
    }

    proptest! {
        #[test]
        fn a_table_has_the_rules_that_were_added(
            added in prop::collection::vec((name(), 0..4u8), 0..60),
            asked in name(),
        ) {
            let (keys, mut sets, mut entries) = (keys(), RuleSets::default(), NameEntries::default());
            let mut wanted: BTreeMap<Vec<u8>, Vec<Rule>> = BTreeMap::new();
            for (name, source) in &added {
                let (lower, rule) = (name.as_name().to_lower(), rule(*source));
                let set = sets.single(rule);
                entries.push(&keys, lower.as_lower(), set);
                let rules = wanted.entry(lower.as_lower().as_wire().to_vec()).or_default();
                rules.push(rule);
                rules.sort();
                rules.dedup();
            }
            let table = NameTable::new(entries, &mut sets);
            prop_assert_eq!(table.len(), wanted.len());
            for asked in added.iter().map(|(name, _)| name).chain([&asked]) {
                let mut found = Vec::new();
                let name = hashed(&keys, asked);
                table.suffixes(&keys, &name, |skip, set| found.push((skip, sets.rules(set).to_vec())));
                let all = (0..=name.label_count()).filter_map(|skip| {
                    Some((skip, wanted.get(name.suffix(skip).as_wire())?.clone()))
                });
                prop_assert_eq!(&found, &all.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn names_with_one_hash_are_told_apart_by_the_second() {
        let (keys, mut sets) = (keys(), RuleSets::default());
        let [a, b] = ["a.", "b."].map(|text| text.parse::<NameBuf>().expect("a name").as_name().to_lower());
        let mut entries = NameEntries::default();
        let set = sets.single(rule(1));
        entries.push(&keys, a.as_lower(), set);
        let table = NameTable::new(entries, &mut sets);
        let hash = keys.query.name(a.as_lower());
        assert_eq!(table.find(&keys, hash, || a.as_lower()), Some(set));
        assert_eq!(table.find(&keys, hash, || b.as_lower()), None);
    }

    #[test]
    fn a_name_takes_less_than_eighteen_bytes() {
        let (keys, mut sets, mut entries) = (keys(), RuleSets::default(), NameEntries::default());
        let set = sets.single(rule(0));
        for number in 0..20_000 {
            let name: NameBuf = format!("n{number}.example.").parse().expect("a name");
            entries.push(&keys, name.as_name().to_lower().as_lower(), set);
        }
        let table = NameTable::new(entries, &mut sets);
        assert_eq!(table.len(), 20_000);
        assert!(table.bytes() < 18 * 20_000, "{}", table.bytes());
    }

    #[test]
    fn an_empty_table_has_no_rules() {
        let (keys, table) = (keys(), NameTable::default());
        let name = hashed(&keys, &"a.example.".parse().expect("a name"));
        table.suffixes(&keys, &name, |_, _| panic!("there is no rule"));
        let empty = NameTable::new(NameEntries::default(), &mut RuleSets::default());
        empty.suffixes(&keys, &name, |_, _| panic!("there is no rule"));
    }
}
