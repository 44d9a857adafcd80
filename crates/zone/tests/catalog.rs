//! Compares the catalog with a plain map: random steps; every version of it is checked again at the end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use testkit::model::longest_match;
use testkit::random;
use wire::hash::{HashKey, HashedName};
use wire::{Name, NameBuf, Ttl, Type};
use zone::store::{Zone, ZoneBuilder};
use zone::{Catalog, Change};

fn key() -> HashKey {
    HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7])
}

/// A key under which a label that begins with `aaaaaaaa` hides all labels right of it from the hash: the word
/// times the key is 0.
fn weak_key() -> HashKey {
    HashKey::new([u64::from_le_bytes(*b"aaaaaaaa"), 0xfedc_ba98_7654_3210, 7])
}

fn zone(key: &HashKey, apex: Name<'_>, serial: u32) -> Arc<Zone> {
    let mut builder = ZoneBuilder::new(apex, key);
    builder.add(apex, Type::SOA, Ttl::from_secs(60), &random::soa(Name::ROOT, serial)).expect("a record");
    Arc::new(builder.finish().expect("a zone"))
}

/// The expected content of a catalog for one zone.
#[derive(Clone, Default)]
struct Entry {
    serial: Option<u32>,
    queries: Rc<Cell<u64>>,
}

type Model = BTreeMap<NameBuf, Entry>;

/// The effect of a step on a name.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Serve,
    Unload,
    Remove,
}

/// Indexes of names, and the change of each.
type Batch = Vec<(usize, Kind)>;

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Serve, Kind::Unload, Kind::Remove])
}

/// From one change to so many that shards become pages and pages become shards.
fn batch() -> impl Strategy<Value = Batch> {
    let one = || (any::<usize>(), kind());
    let mass = |kind: Kind| prop::collection::vec((any::<usize>(), Just(kind)), 300..2000);
    prop_oneof![
        4 => prop::collection::vec(one(), 1..2),
        2 => prop::collection::vec(one(), 0..20),
        1 => prop::collection::vec(one(), 100..600),
        2 => mass(Kind::Serve),
        2 => mass(Kind::Remove),
    ]
}

/// Whether to use the weak key, and names for zones: of any depth; many of one depth, as usual; many whose
/// hashes share the lowest byte or are equal.
fn weak_and_names() -> impl Strategy<Value = (bool, Vec<NameBuf>)> {
    let name = |text: String| text.parse::<NameBuf>().expect("a name");
    let plain = (0..300).map(move |i| name(format!("z{i}.Example.")));
    let hash = |name: &NameBuf| key().name(name.as_name().to_lower().as_lower()).bits();
    let alike = (0..).map(move |i| name(format!("y{i}.example."))).filter(move |n| hash(n) as u8 == 0);
    let colliding = (0..300).map(move |i| name(format!("aaaaaaaa.z{i}.example.")));
    let strong: Vec<NameBuf> = plain.clone().chain(alike.take(300)).collect();
    let weak: Vec<NameBuf> = plain.chain(colliding).collect();
    let many = prop_oneof![Just((false, strong)), Just((true, weak))];
    let few = prop::collection::vec(random::name_below(NameBuf::ROOT), 1..80);
    (many, few).prop_map(|((weak, mut names), few)| {
        names.extend(few);
        (weak, names)
    })
}

fn lower(name: NameBuf) -> NameBuf {
    name.as_name().to_lower().into()
}

/// Applies a batch to `model`, and returns the catalog with the same changes after `catalog`.
fn step(catalog: &Catalog, model: &mut Model, names: &[NameBuf], batch: &Batch, serial: &mut u32) -> Catalog {
    let changes = changes(catalog.key(), model, names, batch, serial);
    catalog.with(changes).expect("zones of the catalog's key")
}

/// Applies a batch to `model`, and returns its changes.
fn changes(
    hash_key: &HashKey,
    model: &mut Model,
    names: &[NameBuf],
    batch: &Batch,
    serial: &mut u32,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for &(number, kind) in batch {
        let name = names[number % names.len()];
        let key = lower(name);
        match kind {
            Kind::Serve => {
                *serial += 1;
                model.entry(key).or_default().serial = Some(*serial);
                changes.push(Change::Serve(zone(hash_key, name.as_name(), *serial)));
            }
            Kind::Unload => {
                model.entry(key).or_default().serial = None;
                changes.push(Change::Unload(Box::new(name)));
            }
            Kind::Remove => {
                model.remove(&key);
                changes.push(Change::Remove(Box::new(name)));
            }
        }
    }
    changes
}

/// Counts a query for every seventh zone, in both.
fn count(catalog: &Catalog, model: &Model) {
    for (name, entry) in model.iter().step_by(7) {
        catalog.get(name.as_name()).expect("a zone of the model").count_query();
        entry.queries.set(entry.queries.get() + 1);
    }
}

/// Checks that `catalog` answers as `model` does.
fn compare(catalog: &Catalog, model: &Model, questions: &[NameBuf]) -> Result<(), TestCaseError> {
    prop_assert_eq!((catalog.len(), catalog.is_empty()), (model.len(), model.is_empty()));
    prop_assert_eq!(catalog.iter().len(), model.len());
    let mut listed: Vec<NameBuf> = catalog.iter().map(|entry| entry.name().as_name().to_buf()).collect();
    listed.sort();
    let known: Vec<NameBuf> = model.keys().copied().collect();
    prop_assert_eq!(&listed, &known);
    for (name, expected) in model {
        let found = catalog.get(name.as_name()).expect("a zone of the model");
        prop_assert_eq!(found.zone().map(|zone| zone.serial().0), expected.serial);
        prop_assert_eq!(found.queries(), expected.queries.get());
    }
    let mut hashed = HashedName::new();
    for question in questions {
        let question = question.as_name();
        prop_assert_eq!(catalog.get(question).is_some(), model.contains_key(&lower(question.to_buf())));
        hashed.set(catalog.key(), question);
        catalog.prefetch(&hashed);
        let mut skip = 0;
        loop {
            let expected =
                longest_match(&known, question.skip(skip)).filter(|_| skip <= question.label_count());
            let found = catalog.find_skipping(&hashed, skip);
            prop_assert_eq!(found.map(|(entry, _)| entry.name().as_name().to_buf()), expected);
            let located = catalog.locate(&hashed, skip);
            let Some((entry, below)) = found else {
                prop_assert_eq!(located, None);
                break;
            };
            let located = located.expect("what was found");
            catalog.prefetch_located(located);
            prop_assert_eq!(question.skip(below), entry.name().as_name());
            prop_assert_eq!(located.below(), below);
            let serial = model[&entry.name().as_name().to_buf()].serial;
            prop_assert_eq!(catalog.zone(located).map(|zone| zone.serial().0), serial);
            skip = below + 1;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]
    #[test]
    fn every_version_answers_as_its_model(
        (weak, names) in weak_and_names(),
        batches in prop::collection::vec(batch(), 1..12),
        elsewhere in prop::collection::vec(random::name_below(NameBuf::ROOT), 10),
    ) {
        let below = names.iter().step_by(9).filter_map(|n| NameBuf::prepend(b"wwW", n.as_name()).ok());
        let questions: Vec<NameBuf> = elsewhere.into_iter().chain(below).collect();
        let key = if weak { weak_key() } else { key() };
        let (mut catalog, mut model, mut serial) = (Catalog::new(&key), Model::new(), 0);
        let mut versions = Vec::new();
        for batch in &batches {
            versions.push((catalog, model.clone()));
            let (before, _) = versions.last().expect("a version");
            catalog = step(before, &mut model, &names, batch, &mut serial);
            compare(&catalog, &model, &questions)?;
            count(&catalog, &model);
        }
        for (version, model) in &versions {
            compare(version, model, &questions)?;
        }
    }

    /// The view starts empty at any step, and has more or fewer zones than there are outside.
    #[test]
    fn the_catalog_of_a_view_answers_as_the_zones_outside_with_its_own_in_their_place(
        (weak, names) in weak_and_names(),
        batches in prop::collection::vec((batch(), batch(), any::<bool>(), any::<bool>()), 1..12),
        elsewhere in prop::collection::vec(random::name_below(NameBuf::ROOT), 10),
    ) {
        let below = names.iter().step_by(9).filter_map(|n| NameBuf::prepend(b"wwW", n.as_name()).ok());
        let questions: Vec<NameBuf> = elsewhere.into_iter().chain(below).collect();
        let key = if weak { weak_key() } else { key() };
        let (mut outside, mut model, mut serial) = (Catalog::new(&key), Model::new(), 0);
        let (mut view, mut own) = (Catalog::new(&key), Model::new());
        for (of_outside, of_view, changes_outside, changes_view) in &batches {
            let nothing = Batch::new();
            let batch = if *changes_outside { of_outside } else { &nothing };
            let after = step(&outside, &mut model, &names, batch, &mut serial);
            let changed: Vec<_> =
                batch.iter().map(|(at, _)| names[at % names.len()].as_name().to_lower()).collect();
            let changed = changed.iter().map(|name| name.as_lower());
            let batch = if *changes_view { of_view } else { &nothing };
            let changes = changes(&key, &mut own, &names, batch, &mut serial);
            view = if batch.is_empty() && !changes_outside {
                view.over(&outside, &outside, [], changes)
            } else {
                view.over(&outside, &after, changed, changes)
            }.expect("zones of the catalog's key");
            outside = after;
            let mut both = model.clone();
            both.extend(own.iter().map(|(name, entry)| (*name, entry.clone())));
            compare(&view, &both, &questions)?;
            compare(&outside, &model, &questions)?;
            for name in both.keys() {
                let entry = view.get(name.as_name()).expect("a zone of the model");
                prop_assert_eq!(entry.is_in_view(), own.contains_key(name));
            }
            // The counters of zones outside views are the same in all catalogs.
            count(&outside, &model);
            count(&view, &both);
            compare(&view, &both, &questions)?;
        }
    }
}
