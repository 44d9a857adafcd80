//! [`changed_owners`]: the names at which two versions with one base may differ.

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::NameBuf;

use super::Overlay;
use super::slots::Slots;
use crate::store::{Zone, blob};

/// Returns the names, in lower case and in canonical order, whose records may differ between `old` and `new`:
/// all that do, and a few more. Returns `None` if the versions have different bases, which only [`diff`]
/// compares, or if there are more than `most` names.
///
/// The parts that both versions share are skipped: the cost depends on what changed between them, and not on
/// the size of the zone.
///
/// [`diff`]: fn@super::diff
pub fn changed_owners(old: &Zone, new: &Zone, most: usize) -> Option<Vec<NameBuf>> {
    // The order of a base is computed before its first change, and all its versions share it.
    let has_same_base = match (old.all.get(), new.all.get()) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        _ => false,
    };
    if !has_same_base {
        return None;
    }
    let mut owners: BTreeSet<NameBuf> = BTreeSet::new();
    let mut add = |blob: &[u8]| {
        if !blob.is_empty() {
            owners.insert(blob::owner(blob).to_buf().into());
        }
        owners.len() <= most
    };
    let (before, after) = (old.overlay(), new.overlay());
    let slots = |overlay: Option<&Overlay>| overlay.map_or_else(Slots::new, |overlay| overlay.slots.clone());
    // A node that changed has another blob in its slot, or has come into a slot or left it; ...
    let mut is_all = slots(before).differences(&slots(after), &mut add);
    // ... or it was in the base alone, and is gone now.
    let gone = |overlay: Option<&Overlay>| overlay.map(|overlay| overlay.all.clone()).unwrap_or_default();
    for run in gone(before).gone_in_one(&gone(after)) {
        for at in old.order().nodes().get(run).unwrap_or_default() {
            is_all = is_all && add(old.arena.blob(*at));
        }
    }
    is_all.then(|| owners.into_iter().collect())
}
