//! The parts that catalogs share, and colliding hashes: properties without an effect on results.
//! `tests/catalog.rs` compares the results with a plain map.

use std::sync::Arc;

use wire::hash::{HashKey, HashedName};
use wire::{NameBuf, Ttl, Type};

use super::trie::{MAX_SHARD_ZONES, MIN_PAGE_ZONES, ROOT_NODES};
use super::{Catalog, Change};
use crate::store::{Zone, ZoneBuilder};

fn key() -> HashKey {
    HashKey::new([0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211, 42])
}

/// A key with which a label that begins with `aaaaaaaa` hides all labels right of it from the hash: the word
/// times the key is 0.
fn weak_key() -> HashKey {
    HashKey::new([u64::from_le_bytes(*b"aaaaaaaa"), 0xfedc_ba98_7654_3211, 42])
}

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn numbered(number: usize) -> NameBuf {
    name(&format!("z{number}.example."))
}

fn zone(key: &HashKey, apex: NameBuf) -> Arc<Zone> {
    let mut builder = ZoneBuilder::new(apex.as_name(), key);
    let soa = [[0; 2].as_slice(), &[0; 20]].concat();
    builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
    Arc::new(builder.finish().expect("a zone"))
}

fn with(catalog: &Catalog, changes: impl IntoIterator<Item = Change>) -> Catalog {
    catalog.with(changes).expect("zones of the catalog's key")
}

/// A catalog of the first `zones` numbered names.
fn catalog(zones: usize) -> Catalog {
    with(&Catalog::new(&key()), (0..zones).map(numbered).map(Box::new).map(Change::Unload))
}

/// Pages and shards of `new` that are not in `old`.
fn copied(old: &Catalog, new: &Catalog) -> usize {
    new.trie.parts().difference(&old.trie.parts()).count()
}

fn find<'c>(catalog: &'c Catalog, name: &NameBuf) -> Option<(&'c super::ZoneEntry, usize)> {
    let mut hashed = HashedName::new();
    hashed.set(catalog.key(), name.as_name());
    catalog.find(&hashed)
}

#[test]
fn a_change_copies_a_shard_and_a_page_of_a_hundred_thousand_zones() {
    const ZONES: usize = 100_000;
    let old = catalog(ZONES);
    assert!(old.trie.parts().len() > 1000);
    for number in (0..ZONES).step_by(ZONES / 100) {
        let replaced = with(&old, [Change::Serve(zone(&key(), numbered(number)))]);
        assert!(copied(&old, &replaced) <= 2, "{}", copied(&old, &replaced));
        assert_eq!(replaced.len(), ZONES);
        let removed = with(&old, [Change::Remove(Box::new(numbered(number)))]);
        assert!(copied(&old, &removed) <= 2);
        assert_eq!(removed.len(), ZONES - 1);
        assert!(removed.get(numbered(number).as_name()).is_none());
        let added = with(&old, [Change::Unload(Box::new(numbered(ZONES + number)))]);
        // Now and then a shard becomes a page of 32.
        assert!(copied(&old, &added) <= 34);
        assert_eq!(added.len(), ZONES + 1);
    }
    assert!(old.iter().all(|entry| entry.zone().is_none()));
}

#[test]
fn a_step_of_many_changes_copies_nothing_twice() {
    let old = catalog(100_000);
    let new = with(&old, (0..1000).map(|i| Change::Serve(zone(&key(), numbered(i * 100)))));
    assert!(copied(&old, &new) <= 2 * 1000);
    // Intermediate parts are dropped: both catalogs hold all zones.
    assert_eq!(new.len(), 100_000);
    assert_eq!(new.iter().filter(|entry| entry.zone().is_some()).count(), 1000);
}

#[test]
fn a_step_that_changes_nothing_shares_everything() {
    for zones in [0, 1, 100, 1000] {
        let served = (0..zones).map(|i| zone(&key(), numbered(i))).collect::<Vec<_>>();
        let serve = || served.iter().cloned().map(Change::Serve);
        let unloaded = (zones..2 * zones).map(numbered).map(Box::new).map(Change::Unload);
        let old = with(&Catalog::new(&key()), serve().chain(unloaded.clone()));
        let absent = (2 * zones..3 * zones).map(numbered).map(Box::new).map(Change::Remove);
        assert_eq!(copied(&old, &with(&old, serve().chain(unloaded).chain(absent))), 0, "{zones} zones");
    }
}

#[test]
fn a_shard_is_split_when_it_is_full_and_joined_when_few_are_left() {
    let full = catalog(MAX_SHARD_ZONES);
    assert_eq!(full.trie.parts().len(), 1);
    let split = with(&full, [Change::Unload(Box::new(numbered(MAX_SHARD_ZONES)))]);
    assert!(split.trie.parts().len() > 1);
    let mut catalog = split;
    for number in (MIN_PAGE_ZONES..=MAX_SHARD_ZONES).rev() {
        assert!(catalog.trie.parts().len() > 1, "{} zones", catalog.len());
        catalog = with(&catalog, [Change::Remove(Box::new(numbered(number)))]);
    }
    assert_eq!((catalog.len(), catalog.trie.parts().len()), (MIN_PAGE_ZONES, 1));
}

#[test]
fn a_page_becomes_a_shard_when_few_are_left() {
    const LEFT: usize = 5000;
    let full = catalog(200_000);
    let less = with(&full, (LEFT..200_000).map(numbered).map(Box::new).map(Change::Remove));
    assert!(full.trie.parts().len() > 2 * ROOT_NODES);
    assert_eq!((less.len(), less.trie.parts().len()), (LEFT, ROOT_NODES));
}

#[test]
fn nothing_is_left_of_zones_that_are_removed() {
    let empty = Catalog::new(&key());
    let long = |i: usize| name(&format!("z{i}.{}.example.", ["a"; 40].join(".")));
    for zones in [1, 100, 10_000, 40_000] {
        let names: Vec<NameBuf> = (0..zones).flat_map(|i| [numbered(i), long(i)]).collect();
        let full = with(&empty, names.iter().copied().map(Box::new).map(Change::Unload));
        assert_eq!(full.len(), 2 * zones);
        assert!(full.memory() - empty.memory() > 2 * zones * 128, "{}", full.memory());
        let again = with(&full, names.iter().copied().map(Box::new).map(Change::Remove));
        assert_eq!((again.len(), again.memory(), again.depths), (0, empty.memory(), 0));
        assert_eq!(again.iter().count(), 0);
    }
}

#[test]
fn a_depth_is_searched_while_a_zone_has_it() {
    let all = ["a.b.c.", "x.y.z.", "c.", "."].map(name);
    let mut catalog = with(&Catalog::new(&key()), all.map(Box::new).map(Change::Unload));
    let depths =
        |catalog: &Catalog| (0..128).filter(|depth| catalog.depths >> (127 - depth) & 1 == 1).collect();
    let expected: [Vec<i32>; 4] = [vec![0, 1, 3], vec![0, 1], vec![0], vec![]];
    for (removed, expected) in all.into_iter().zip(expected) {
        catalog = with(&catalog, [Change::Remove(Box::new(removed))]);
        let found: Vec<i32> = depths(&catalog);
        assert_eq!(found, expected, "without {removed}");
    }
}

#[test]
fn names_whose_hashes_collide_are_told_apart() {
    let key = weak_key();
    let colliding = |i: usize| name(&format!("aaaaaaaa.z{i}.example."));
    let hash = |i: usize| key.name(colliding(i).as_name().to_lower().as_lower());
    assert_eq!(hash(1), hash(2));
    for zones in [2, MAX_SHARD_ZONES, 3 * MAX_SHARD_ZONES] {
        let full = with(&Catalog::new(&key), (0..zones).map(|i| Change::Serve(zone(&key, colliding(i)))));
        // And some with ordinary hashes, so that their shard is far below the root.
        let full = with(&full, (0..1000).map(numbered).map(Box::new).map(Change::Unload));
        let all_found = |catalog: &Catalog, there: &dyn Fn(usize) -> bool| {
            for i in 0..zones + 5 {
                let found = find(catalog, &name(&format!("www.{}", colliding(i))));
                let expected = (i < zones && there(i)).then(|| colliding(i));
                let exact = found.filter(|(_, below)| *below == 1);
                assert_eq!(exact.map(|(entry, _)| entry.name().as_name().to_buf()), expected);
                let zone = found.and_then(|(entry, _)| entry.zone());
                assert_eq!(zone.map(|zone| zone.apex().as_name().to_buf()), expected);
            }
        };
        all_found(&full, &|_| true);
        let odd = (0..zones).filter(|i| i % 2 == 1).map(|i| Change::Remove(Box::new(colliding(i))));
        let half = with(&full, odd);
        all_found(&half, &|i| i % 2 == 0);
        assert_eq!(half.len(), zones.div_ceil(2) + 1000);
        all_found(&full, &|_| true);
        let none = with(&half, (0..zones).map(|i| Change::Remove(Box::new(colliding(i)))));
        all_found(&none, &|_| false);
        assert_eq!(none.len(), 1000);
    }
}

#[test]
fn the_last_change_of_a_name_counts_even_if_hashes_collide() {
    let key = weak_key();
    let [a, b] = ["aaaaaaaa.a.", "aaaaaaaa.b."].map(name);
    let served = zone(&key, a);
    let changes = [
        Change::Unload(Box::new(b)),
        Change::Serve(Arc::clone(&served)),
        Change::Unload(Box::new(a)),
        Change::Remove(Box::new(b)),
        Change::Serve(served),
        Change::Unload(Box::new(b)),
        Change::Remove(Box::new(b)),
    ];
    let catalog = with(&Catalog::new(&key), changes);
    assert_eq!(catalog.len(), 1);
    assert!(catalog.get(a.as_name()).is_some_and(|entry| entry.zone().is_some()));
}

#[test]
fn a_zone_of_another_key_is_refused_by_name() {
    let old = with(&Catalog::new(&key()), [Change::Serve(zone(&key(), name("a.")))]);
    let foreign = zone(&weak_key(), name("b.example."));
    let changes =
        [Change::Remove(Box::new(name("a."))), Change::Serve(foreign), Change::Unload(Box::new(name("c.")))];
    let error = old.with(changes).expect_err("another key");
    assert_eq!(error.zone().as_name(), name("b.example.").as_name());
    assert!(old.get(name("a.").as_name()).is_some());
}

#[test]
fn a_zone_counts_its_queries_until_it_is_removed() {
    let apex = name("a.");
    let first = with(&Catalog::new(&key()), [Change::Unload(Box::new(apex))]);
    let queries = |catalog: &Catalog| catalog.get(apex.as_name()).map(|entry| entry.queries());
    let count = |catalog: &Catalog| catalog.get(apex.as_name()).expect("the zone").count_query();
    count(&first);
    let second = with(&first, [Change::Serve(zone(&key(), apex))]);
    count(&second);
    // A reader of the first one counts for both.
    count(&first);
    assert_eq!((queries(&first), queries(&second)), (Some(3), Some(3)));
    let split = with(&second, (0..1000).map(numbered).map(Box::new).map(Change::Unload));
    count(&split);
    assert_eq!((queries(&second), queries(&split)), (Some(4), Some(4)));
    let anew = with(
        &split,
        [Change::Remove(Box::new(apex)), Change::Unload(Box::new(apex)), Change::Serve(zone(&key(), apex))],
    );
    assert_eq!((queries(&split), queries(&anew)), (Some(4), Some(0)));
    let gone = with(&anew, [Change::Remove(Box::new(apex))]);
    let back = with(&gone, [Change::Unload(Box::new(apex))]);
    assert_eq!((queries(&gone), queries(&back)), (None, Some(0)));
}

#[test]
fn what_was_located_is_found_again_behind_any_number_of_pages() {
    for zones in [1, MAX_SHARD_ZONES, 10_000, 100_000] {
        let catalog = catalog(zones);
        let mut hashed = HashedName::new();
        for number in (0..zones).step_by(zones.div_ceil(100)) {
            hashed.set(&key(), name(&format!("a.b.{}", numbered(number))).as_name());
            let located = catalog.locate(&hashed, 1).expect("a zone");
            assert_eq!(located.below(), 2);
            let entry = catalog.entry(located).expect("an entry");
            assert_eq!(entry.name().as_name(), numbered(number).as_name());
        }
    }
}

#[test]
fn a_view_shares_all_but_the_shards_of_its_own_zones() {
    const ZONES: usize = 100_000;
    let over = |view: &Catalog, before: &Catalog, after: &Catalog, outside: &[usize], own: &[usize]| {
        let outside: Vec<_> = outside.iter().map(|number| numbered(*number).as_name().to_lower()).collect();
        let outside = outside.iter().map(|name| name.as_lower());
        let own = own.iter().map(|number| Change::Unload(Box::new(numbered(*number))));
        view.over(before, after, outside, own).expect("zones of the catalog's key")
    };
    // The view comes first, as at the start of a server; it grows with the zones outside.
    let (none, few) = (Catalog::new(&key()), catalog(10));
    let mut view = over(&none, &none, &none, &[], &[5]);
    view = over(&view, &none, &few, &(0..10).collect::<Vec<_>>(), &[]);
    let mut outside = catalog(ZONES);
    view = over(&view, &few, &outside, &(10..ZONES).collect::<Vec<_>>(), &[]);
    assert!(copied(&outside, &view) <= 2, "{}", copied(&outside, &view));
    for number in (0..ZONES).step_by(ZONES / 100) {
        let after = with(&outside, [Change::Serve(zone(&key(), numbered(number)))]);
        view = over(&view, &outside, &after, &[number], &[]);
        outside = after;
    }
    view = over(&view, &outside, &outside, &[], &[ZONES / 2, ZONES + 1]);
    assert!(copied(&outside, &view) <= 6, "{}", copied(&outside, &view));
    let beside = view.memory_beside(&outside);
    assert!(beside > 0 && beside < view.memory() / 20, "{beside} of {}", view.memory());
    assert_eq!(outside.memory_beside(&outside), size_of::<Catalog>());
    assert_eq!((view.len(), outside.len()), (ZONES + 1, ZONES));
    let own = view.iter().filter(|entry| entry.is_in_view()).count();
    assert_eq!(own, 3);
}
