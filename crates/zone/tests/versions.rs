//! Versions of a zone that share what did not change: after any change, a version equals a zone built as a
//! whole from the same records.
//!
//! `PROPTEST_CASES=100000 cargo test -p zone --test versions` runs more cases.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use testkit::choices::Choices;
use testkit::key;
use testkit::versions::{assert_same, change_step_by_step};
use wire::NameBuf;
use zone::Zone;
use zone::image::{self, Image, Provenance};
use zone::store::{NodeFlags, changed_owners, diff};

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

/// Returns as many bytes of a fixed sequence.
fn next_bytes(state: &mut u64, count: usize) -> Vec<u8> {
    let next = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 56) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Checks that the property below covers every kind of change, and that most changes are kept in an overlay.
#[test]
fn every_kind_of_change_is_tried() {
    let (mut steps, mut overlays, mut nsec, mut nsec3, mut gone, mut hidden) = (0, 0, 0, 0, 0, 0);
    let mut state = 1u64;
    for _ in 0..60 {
        let bytes = next_bytes(&mut state, 1200);
        let mut names = 0;
        change_step_by_step(&mut Choices::new(&bytes), &mut |version, _| {
            steps += 1;
            overlays += usize::from(version.overlay_size().nodes > 0);
            nsec += usize::from(version.is_signed() && version.nsec().is_some());
            nsec3 += usize::from(version.is_signed() && version.nsec3().is_some());
            gone += usize::from(version.node_count() < names);
            hidden += usize::from(version.iter().any(|node| node.flags().contains(NodeFlags::OCCLUDED)));
            names = version.node_count();
        });
    }
    let all = [overlays, nsec, nsec3, gone, hidden];
    assert!(steps > 200 && all.iter().all(|&n| n > steps / 20) && overlays > steps / 2, "{steps}: {all:?}");
}

/// An image has no overlay: the version is folded for it.
#[test]
fn the_image_of_a_version_holds_what_the_version_holds() {
    let bytes: Vec<u8> = (0..1200u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut overlays = 0;
    change_step_by_step(&mut Choices::new(&bytes), &mut |version, _| {
        let mut bytes = Vec::new();
        image::write_to(&mut bytes, version, &Provenance::default()).expect("written");
        let read = Image::from_bytes(&bytes).expect("an image").read(&key(), 1).expect("the zone");
        assert_same(&read, version);
        overlays += usize::from(version.overlay_size().nodes > 0);
    });
    assert!(overlays > 1, "{overlays}");
}

/// A transfer of a changed zone used to send the records of its base.
#[test]
fn the_stored_nodes_of_a_version_were_those_of_its_base() {
    let (mut overlays, mut state) = (0, 7u64);
    for _ in 0..60 {
        let bytes = next_bytes(&mut state, 1200);
        change_step_by_step(&mut Choices::new(&bytes), &mut |version, _| {
            let addresses = |nodes: &mut dyn Iterator<Item = zone::Node<'_>>| {
                let mut all: Vec<_> = nodes.map(|node| node.address()).collect();
                all.sort_unstable();
                all
            };
            let stored = addresses(&mut version.stored_from(None));
            assert_eq!(stored, addresses(&mut version.iter()));
            let Some(middle) = version.stored_from(None).nth(stored.len() / 2) else { return };
            let rest = version.stored_from(Some(middle.address())).count();
            assert_eq!(rest, stored.len() - stored.len() / 2, "from there on");
            overlays += usize::from(version.overlay_size().nodes > 0);
        });
    }
    assert!(overlays > 100, "{overlays}");
}

/// Changes of a few names used to be found by a comparison of all nodes only.
#[test]
fn the_names_that_change_are_found_without_the_rest_of_the_zone() {
    let (mut found, mut gone, mut state) = (0, 0, 11u64);
    for _ in 0..60 {
        let bytes = next_bytes(&mut state, 1200);
        let mut kept: Vec<Arc<Zone>> = Vec::new();
        change_step_by_step(&mut Choices::new(&bytes), &mut |version, _| {
            for old in &kept {
                for (old, new) in [(old, version), (version, old)] {
                    let Some(owners) = changed_owners(old, new, usize::MAX) else { continue };
                    let change = diff(old, new);
                    let records = change.removed.iter().chain(change.added.iter());
                    let wanted: BTreeSet<NameBuf> =
                        records.map(|record| record.owner.to_lower().into()).collect();
                    assert!(wanted.iter().all(|owner| owners.contains(owner)), "{wanted:?} in {owners:?}");
                    assert!(owners.is_sorted());
                    found += wanted.len();
                    gone += wanted.iter().filter(|owner| new.find_name(owner.as_name()).is_none()).count();
                    assert_eq!(changed_owners(old, new, owners.len()), Some(owners.clone()));
                    let too_many =
                        owners.len().checked_sub(1).and_then(|most| changed_owners(old, new, most));
                    assert_eq!(too_many, None);
                }
            }
            assert!(changed_owners(version, version, 0).is_none_or(|owners| owners.is_empty()));
            kept.push(Arc::clone(version));
        });
    }
    assert!(found > 1000 && gone > 100, "{found}, {gone}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]
    #[test]
    fn a_changed_zone_is_what_it_would_be_if_it_were_built_whole(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..500), prop::collection::vec(any::<u8>(), 0..1500)],
    ) {
        change_step_by_step(&mut Choices::new(&bytes), &mut |_, _| {});
    }
}
