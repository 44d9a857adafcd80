//! The order of last uses, and a map by name that is bounded in bytes and evicts the least recently used
//! entry first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wire::LowerName;

/// Bytes of an entry besides its name and its value: its places in both maps.
const ENTRY: usize = 128;

/// Keys by their last use.
pub(crate) struct UseOrder<K> {
    keys: BTreeMap<u64, K>,
    /// The number of the last use.
    last: u64,
}

impl<K> Default for UseOrder<K> {
    fn default() -> Self {
        UseOrder { keys: BTreeMap::new(), last: 0 }
    }
}

impl<K> UseOrder<K> {
    /// Records a use of a key, which has no earlier one in the order, and returns its number.
    pub(crate) fn record(&mut self, key: K) -> u64 {
        self.last += 1;
        self.keys.insert(self.last, key);
        self.last
    }

    /// Removes the key with this last use.
    pub(crate) fn remove(&mut self, last_use: u64) -> Option<K> {
        self.keys.remove(&last_use)
    }

    /// Removes the key that was used longest ago.
    pub(crate) fn pop_oldest(&mut self) -> Option<K> {
        self.keys.pop_first().map(|(_, key)| key)
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

/// Values by the wire form of a name in lower case. The hash is keyed, since attackers can choose names.
pub(crate) struct Bounded<V> {
    entries: HashMap<Arc<[u8]>, Entry<V>>,
    order: UseOrder<Arc<[u8]>>,
    bytes: usize,
}

struct Entry<V> {
    value: V,
    used: u64,
    bytes: usize,
}

impl<V> Default for Bounded<V> {
    fn default() -> Self {
        Bounded { entries: HashMap::new(), order: UseOrder::default(), bytes: 0 }
    }
}

impl<V> Bounded<V> {
    /// Returns the value of a name, without counting as a use.
    pub(crate) fn peek(&self, name: LowerName<'_>) -> Option<&V> {
        self.entries.get(name.as_wire()).map(|entry| &entry.value)
    }

    /// Returns the value of a name, and counts as a use.
    pub(crate) fn get(&mut self, name: LowerName<'_>) -> Option<&mut V> {
        let entry = self.entries.get_mut(name.as_wire())?;
        if let Some(key) = self.order.remove(entry.used) {
            entry.used = self.order.record(key);
        }
        Some(&mut entry.value)
    }

    /// Inserts a value of `bytes` bytes, and evicts entries until at most `most` bytes are in use.
    pub(crate) fn insert(&mut self, name: LowerName<'_>, value: V, bytes: usize, most: usize) {
        self.remove(name);
        let bytes = bytes + name.len() + ENTRY;
        let key: Arc<[u8]> = name.as_wire().into();
        self.bytes += bytes;
        let used = self.order.record(Arc::clone(&key));
        self.entries.insert(key, Entry { value, used, bytes });
        while self.bytes > most
            && let Some(key) = self.order.pop_oldest()
        {
            self.bytes -= self.entries.remove(&key).map_or(0, |entry| entry.bytes);
        }
    }

    /// Removes a value.
    pub(crate) fn remove(&mut self, name: LowerName<'_>) {
        if let Some(entry) = self.entries.remove(name.as_wire()) {
            self.order.remove(entry.used);
            self.bytes -= entry.bytes;
        }
    }

    /// Returns the bytes of all entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use wire::{LowerNameBuf, NameBuf};

    use super::*;

    fn name(text: &str) -> LowerNameBuf {
        text.parse::<NameBuf>().expect("a name").as_name().to_lower()
    }

    #[test]
    fn the_bound_holds_and_what_was_used_longest_ago_goes() {
        let mut map = Bounded::default();
        let most = 3 * (ENTRY + 3 + 100);
        for text in ["a.", "b.", "c."] {
            map.insert(name(text).as_lower(), text, 100, most);
        }
        assert_eq!(map.get(name("a.").as_lower()), Some(&mut "a."));
        map.insert(name("d.").as_lower(), "d.", 100, most);
        let held = ["a.", "b.", "c.", "d."].map(|text| map.peek(name(text).as_lower()).is_some());
        assert_eq!(held, [true, false, true, true]);
        assert_eq!(map.bytes(), most);
        map.insert(name("e.").as_lower(), "e.", most, most);
        assert_eq!((map.bytes(), map.entries.len(), map.order.len()), (0, 0, 0), "one that is too large");
    }

    #[test]
    fn a_value_that_is_replaced_counts_once() {
        let mut map = Bounded::default();
        for n in 0..10 {
            map.insert(name("a.").as_lower(), n, 10, 1000);
        }
        assert_eq!((map.bytes(), map.order.len()), (ENTRY + 13, 1));
        map.remove(name("a.").as_lower());
        assert_eq!(map.bytes(), 0);
    }
}
