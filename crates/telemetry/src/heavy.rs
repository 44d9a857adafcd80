//! The most frequent keys of a stream in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005).
//!
//! A table of `size` keys counts each key that it holds. A new key replaces the one with the lowest
//! count, and takes over that count: so a count is too high by at most its `error`, never too low. After
//! `n` keys no error exceeds `n / size`, and every key that came more often than `n / size` times is in
//! the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A counted key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeavyCount {
    /// The key.
    pub key: Box<[u8]>,
    /// How often it came, at most.
    pub count: u64,
    /// How many of these it may be too many.
    pub error: u64,
}

/// The table.
pub struct HeavyKeys {
    size: usize,
    entries: Vec<HeavyCount>,
    places: HashMap<Box<[u8]>, usize>,
    /// The entries by their counts.
    order: BTreeSet<(u64, usize)>,
    total: u64,
}

impl HeavyKeys {
    /// Returns a table of at most `size` keys, which is at least 1.
    pub fn new(size: usize) -> Self {
        HeavyKeys {
            size: size.max(1),
            entries: Vec::new(),
            places: HashMap::new(),
            order: BTreeSet::new(),
            total: 0,
        }
    }

    /// Counts a key.
    pub fn add(&mut self, key: &[u8]) {
        self.add_many(key, 1);
    }

    /// Counts a key that came this often.
    pub fn add_many(&mut self, key: &[u8], times: u64) {
        self.total += times;
        if let Some((place, entry)) =
            self.places.get(key).and_then(|place| Some((*place, self.entries.get_mut(*place)?)))
        {
            self.order.remove(&(entry.count, place));
            entry.count += times;
            self.order.insert((entry.count, place));
        } else if self.entries.len() < self.size {
            let place = self.entries.len();
            self.entries.push(HeavyCount { key: key.into(), count: times, error: 0 });
            self.places.insert(key.into(), place);
            self.order.insert((times, place));
        } else if let Some((least, place)) = self.order.pop_first()
            && let Some(entry) = self.entries.get_mut(place)
        {
            self.places.remove(&entry.key);
            *entry = HeavyCount { key: key.into(), count: least + times, error: least };
            self.places.insert(key.into(), place);
            self.order.insert((least + times, place));
        }
    }

    /// Number of all keys that were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The most that a key can have come without being in the table.
    fn missed(&self) -> u64 {
        if self.entries.len() < self.size { 0 } else { self.order.first().map_or(0, |(least, _)| *least) }
    }
}

/// The keys that came most often, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopList {
    /// How many keys were counted.
    pub total: u64,
    /// The keys, with their counts and how much too high these may be, the highest first.
    pub entries: Vec<(String, u64, u64)>,
    /// The most that any other can have.
    pub others: u64,
}

impl TopList {
    /// Returns the list of these tables together, of at most this many keys, which `shown` writes.
    pub(crate) fn of(tables: Vec<&HeavyKeys>, most: usize, shown: impl Fn(&[u8]) -> String) -> Self {
        let total = tables.iter().map(|table| table.total()).sum();
        let (found, others) = merged(tables, most);
        let text = |HeavyCount { key, count, error }| (shown(&key), count, error);
        TopList { total, entries: found.into_iter().map(text).collect(), others }
    }
}

/// Returns the keys with the highest counts of all tables together, the highest first, and the most that any
/// other key can have come.
pub fn merged<'t>(tables: impl IntoIterator<Item = &'t HeavyKeys>, most: usize) -> (Vec<HeavyCount>, u64) {
    let tables: Vec<&HeavyKeys> = tables.into_iter().collect();
    let missed: u64 = tables.iter().map(|table| table.missed()).sum();
    // A key that a table does not have may have come as often as its lowest count.
    let mut all: BTreeMap<&[u8], (u64, u64)> = BTreeMap::new();
    for table in &tables {
        for HeavyCount { key, count, error } in &table.entries {
            let (counts, errors) = all.entry(key).or_insert((missed, missed));
            *counts = (*counts + count).saturating_sub(table.missed());
            *errors = (*errors + error).saturating_sub(table.missed());
        }
    }
    let mut all: Vec<HeavyCount> =
        all.into_iter().map(|(key, (count, error))| HeavyCount { key: key.into(), count, error }).collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
    let left_out = all.get(most).map_or(0, |first| first.count);
    all.truncate(most);
    (all, missed.max(left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers from 0 on, small ones far more often.
    fn stream(len: u64) -> impl Iterator<Item = [u8; 2]> {
        (0..len).map(|n| {
            let dice =
                n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9)
                    >> 40;
            let key = dice % (1 + dice % 300);
            u16::try_from(key).expect("below 300").to_be_bytes()
        })
    }

    fn exact(len: u64) -> HashMap<[u8; 2], u64> {
        let mut exact = HashMap::new();
        stream(len).for_each(|key| *exact.entry(key).or_default() += 1);
        exact
    }

    /// Every count is within its error, no error exceeds the bound, and no frequent key is missing.
    fn check(found: &[HeavyCount], exact: &HashMap<[u8; 2], u64>, bound: u64) {
        for HeavyCount { key, count, error } in found {
            let real = exact.get(&**key).copied().unwrap_or(0);
            assert!((count - error..=*count).contains(&real), "{key:?}: {count} - {error}, and not {real}");
            assert!(*error <= bound, "{error} > {bound}");
        }
        for (key, count) in exact.iter().filter(|(_, count)| **count > bound) {
            assert!(found.iter().any(|found| *found.key == *key), "{key:?} came {count} times");
        }
    }

    #[test]
    fn counts_are_within_the_bound_of_space_saving() {
        let mut table = HeavyKeys::new(40);
        stream(20_000).for_each(|key| table.add(&key));
        assert_eq!((table.entries.len(), table.places.len(), table.order.len()), (40, 40, 40));
        let (found, _) = merged([&table], 100);
        check(&found, &exact(20_000), 20_000 / 40);
        assert!(found.iter().any(|found| found.error > 0), "the table was too small for all keys");
    }

    #[test]
    fn tables_together_have_the_bound_of_the_whole_stream() {
        let mut tables = [40, 40, 40].map(HeavyKeys::new);
        for (n, key) in stream(20_000).enumerate() {
            tables[n * 3 / 20_000].add(&key);
        }
        let (found, _) = merged(&tables, 1000);
        check(&found, &exact(20_000), 20_000 / 40);
        let (few, left) = merged(&tables, 3);
        assert_eq!(few[..], found[..3]);
        assert!(left >= found[3].count);
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut table = HeavyKeys::new(300);
        stream(5000).for_each(|key| table.add(&key));
        let (found, left) = merged([&table], 300);
        assert!(found.iter().all(|found| found.error == 0) && left == 0);
        check(&found, &exact(5000), 0);
    }
}
