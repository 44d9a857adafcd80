//! [`relink`]: which records of a chain have another next member after members came and went.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// Returns the next member of each member whose next member changes. Chains are cyclic: the last member is
/// before the first one. A key in both `came` and `gone` is one whose record is written anew.
///
/// `before` returns the closest member before a key, and `next` the one after a member, both in a chain that
/// has all members of the old one except, maybe, those that are `gone`. Returns `None` if they do not lead
/// to a member that stays: then the chain is incomplete.
pub(super) fn relink<K: Ord + Copy>(
    came: &BTreeSet<K>,
    gone: &BTreeSet<K>,
    before: impl Fn(&K) -> Option<K>,
    next: impl Fn(&K) -> Option<K>,
) -> Option<BTreeMap<K, K>> {
    // The closest member that stays before each one that goes: runs of members that go are passed once.
    let mut staying = BTreeMap::<K, K>::new();
    let mut starts = BTreeSet::new();
    for key in gone.iter().chain(came) {
        let mut at = before(key)?;
        for _ in 0..=gone.len() {
            match staying.get(&at) {
                Some(found) => at = *found,
                None if gone.contains(&at) => at = before(&at)?,
                None => break,
            }
        }
        if gone.contains(&at) {
            return None;
        }
        if gone.contains(key) {
            staying.insert(*key, at);
        }
        starts.insert(at);
    }
    let mut links = BTreeMap::new();
    for start in starts {
        let mut end = next(&start)?;
        for _ in 0..gone.len() {
            if !gone.contains(&end) {
                break;
            }
            end = next(&end)?;
        }
        if gone.contains(&end) {
            return None;
        }
        let mut last = start;
        let mut link = |key: K| {
            links.insert(last, key);
            last = key;
        };
        match start < end {
            true => came.range((Excluded(start), Excluded(end))).for_each(|key| link(*key)),
            false => {
                came.range((Excluded(start), Unbounded)).for_each(|key| link(*key));
                came.range(..end).for_each(|key| link(*key));
            }
        }
        link(end);
    }
    Some(links)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn next_in(chain: &BTreeSet<u8>, key: &u8) -> Option<u8> {
        chain.range((Excluded(*key), Unbounded)).chain(chain).next().copied()
    }

    fn before_in(chain: &BTreeSet<u8>, key: &u8) -> Option<u8> {
        chain.range(..*key).next_back().or(chain.last()).copied()
    }

    proptest! {
        #[test]
        fn links_that_change_are_those_of_the_new_chain(
            old in prop::collection::btree_set(0u8..40, 0..30),
            came in prop::collection::btree_set(0u8..40, 0..20),
            gone in prop::collection::btree_set(0u8..40, 0..30),
            is_gone_from_search in any::<bool>(),
        ) {
            let old: BTreeSet<u8> = old.into_iter().chain([20]).collect();
            let gone: BTreeSet<u8> = gone.intersection(&old).copied().filter(|key| *key != 20).collect();
            let came: BTreeSet<u8> =
                came.into_iter().filter(|key| !old.contains(key) || gone.contains(key)).collect();
            let left: BTreeSet<u8> = old.difference(&gone).copied().collect();
            let new: BTreeSet<u8> = left.union(&came).copied().collect();
            let searched = if is_gone_from_search { &left } else { &old };
            let links = relink(&came, &gone, |key| before_in(searched, key), |key| next_in(&old, key))
                .expect("a member stays");
            for key in &new {
                let (is, was) = (next_in(&new, key), next_in(&old, key));
                match links.get(key) {
                    Some(next) => prop_assert_eq!(Some(*next), is),
                    None => prop_assert!(is == was && !came.contains(key), "{} has no link", key),
                }
            }
            prop_assert!(links.keys().all(|key| new.contains(key)));
        }
    }

    #[test]
    fn an_incomplete_chain_is_noticed() {
        let (none, one) = (BTreeSet::new(), BTreeSet::from([1u8]));
        assert_eq!(relink(&one, &none, |_| None, |_| Some(1)), None);
        assert_eq!(relink(&one, &none, |_| Some(0), |_| None), None);
        assert_eq!(relink(&none, &one, |_| Some(1), |_| Some(1)), None, "no member stays");
        assert_eq!(relink(&none, &one, |_| Some(0), |_| Some(1)), None);
        assert_eq!(relink(&none, &none, |_| None, |_| None), Some(BTreeMap::<u8, u8>::new()));
    }
}
