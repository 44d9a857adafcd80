//! Recent queries: answers to queries that are sent only once are not worth caching.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

use resolver::QueryKey;

/// Most queries remembered, four bytes each.
const MAX_REMEMBERED_QUERIES: usize = 1 << 14;

/// Recent queries. A query replaces another one in its slot; clients cannot choose which, since the hash is
/// keyed.
pub(crate) struct Repeats<K = RandomState> {
    key: K,
    /// Upper half of each query's hash; the lower half selects the slot.
    seen: Box<[AtomicU32]>,
}

impl<K: Default> Default for Repeats<K> {
    fn default() -> Self {
        Repeats {
            key: K::default(),
            seen: (0..MAX_REMEMBERED_QUERIES).map(|_| AtomicU32::default()).collect(),
        }
    }
}

impl<K: BuildHasher> Repeats<K> {
    /// Records a query, and returns whether it was there. One in four billion is a false positive.
    pub(crate) fn has_come(&self, query_key: &QueryKey) -> bool {
        let hash = self.key.hash_one(query_key);
        let upper = (hash >> 32) as u32;
        let slot = self.seen.get(hash as usize % MAX_REMEMBERED_QUERIES);
        slot.is_some_and(|slot| slot.swap(upper, Ordering::Relaxed) == upper)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use resolver::Partition;
    use wire::{Class, Type};

    use super::*;

    /// With a fixed key: with another one, two of the queries might share a slot.
    type Fixed = Repeats<BuildHasherDefault<DefaultHasher>>;

    fn query_key(name: &str, dnssec_ok: bool) -> QueryKey {
        let name: wire::NameBuf = name.parse().expect("a name");
        let (qtype, qclass) = (Type::A, Class::IN);
        QueryKey {
            name: name.as_name().to_lower(),
            qtype,
            qclass,
            dnssec_ok,
            checking_disabled: false,
            partition: Partition::SHARED,
        }
    }

    #[test]
    fn a_question_that_came_is_known_and_those_that_differ_are_not() {
        let repeats = Fixed::default();
        assert!(!repeats.has_come(&query_key("a.example.", false)));
        assert!(!repeats.has_come(&query_key("b.example.", false)));
        assert!(!repeats.has_come(&query_key("a.example.", true)));
        assert!(repeats.has_come(&query_key("a.example.", false)));
        assert!(repeats.has_come(&query_key("a.example.", true)));
    }

    #[test]
    fn of_a_flood_of_questions_that_differ_none_is_known_and_what_is_remembered_has_a_bound() {
        let repeats = Fixed::default();
        let all = |n: usize| {
            (0..n).filter(|i| repeats.has_come(&query_key(&format!("n{i}.example."), false))).count()
        };
        assert_eq!(all(8 * MAX_REMEMBERED_QUERIES), 0);
        // Most of these have replaced one another.
        let known = all(8 * MAX_REMEMBERED_QUERIES);
        assert!(known < MAX_REMEMBERED_QUERIES, "{known}");
    }
}
