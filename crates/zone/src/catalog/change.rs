//! Turns changes in the order of their making into steps in the order of the trie, one for each name.

use std::fmt;
use std::sync::Arc;

use wire::hash::HashKey;
use wire::{LowerName, LowerNameBuf, NameBuf, NameHash, ZoneName};

use super::entry::ZoneEntry;
use super::trie::order;
use crate::store::Zone;

/// A change from a catalog to the next.
#[derive(Clone, Debug)]
pub enum Change {
    /// Serve this snapshot, in place of any other of the same name.
    Serve(Arc<Zone>),
    /// The server is authoritative for the zone, but cannot serve it yet: it gets a snapshot later. Boxed, as
    /// is `Remove`: there may be very many changes, and nearly all are `Serve`.
    Unload(Box<NameBuf>),
    /// The server is no longer authoritative for the zone.
    Remove(Box<NameBuf>),
}

/// A zone was built with another hash key than the catalog's: its names would not be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongKey {
    zone: Box<LowerNameBuf>,
}

impl WrongKey {
    /// The zone's name.
    pub fn zone(&self) -> LowerName<'_> {
        self.zone.as_lower()
    }
}

impl fmt::Display for WrongKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {} was built under another hash key than the catalog's", self.zone)
    }
}
impl std::error::Error for WrongKey {}

/// All changes of a catalog's step to one name.
pub(super) struct CatalogStep {
    /// The hash of the name.
    pub(super) hash: NameHash,
    to: To,
    /// The zone was removed in between: its query count starts from 0.
    anew: bool,
    /// The zone is one of a view.
    in_view: bool,
}

enum To {
    Serve(Arc<Zone>),
    Unload(Box<LowerNameBuf>),
    Remove(Box<LowerNameBuf>),
    /// The entry of another catalog.
    Like(Box<(ZoneName, Option<ZoneEntry>)>),
}

impl CatalogStep {
    fn new(key: &HashKey, change: Change, in_view: bool) -> Result<CatalogStep, WrongKey> {
        let to = match change {
            Change::Serve(zone) if zone.key() != key => {
                return Err(WrongKey { zone: Box::new(zone.apex().to_buf()) });
            }
            Change::Serve(zone) => To::Serve(zone),
            Change::Unload(name) => To::Unload(Box::new(name.as_name().to_lower())),
            Change::Remove(name) => To::Remove(Box::new(name.as_name().to_lower())),
        };
        Ok(CatalogStep { hash: key.name(to.name()), to, anew: false, in_view })
    }

    /// Returns the step to what `other` returns for the name: the entry of another catalog, or none.
    pub(super) fn like(
        name: LowerName<'_>,
        hash: NameHash,
        other: impl FnOnce(LowerName<'_>, NameHash) -> Option<ZoneEntry>,
    ) -> CatalogStep {
        let to = To::Like(Box::new((name.into(), other(name, hash))));
        CatalogStep { hash, to, anew: false, in_view: false }
    }

    /// Whether the step removes the zone.
    pub(super) fn removes(&self) -> bool {
        matches!(self.to, To::Remove(_))
    }

    pub(super) fn name(&self) -> LowerName<'_> {
        self.to.name()
    }

    /// Returns what replaces `old`: an entry, or none; `None` if nothing changes.
    pub(super) fn result(&self, old: Option<&ZoneEntry>) -> Option<Option<ZoneEntry>> {
        let zone = match (&self.to, old) {
            (To::Remove(_), old) => return old.map(|_| None),
            (To::Like(other), old) => {
                let same = match (&other.1, old) {
                    (Some(new), Some(old)) => new.is_same(old),
                    (new, old) => new.is_none() && old.is_none(),
                };
                return (!same).then(|| other.1.clone());
            }
            (To::Serve(zone), _) => Some(zone),
            (To::Unload(_), _) => None,
        };
        let kept = old.filter(|old| !self.anew && old.is_in_view() == self.in_view);
        match kept {
            Some(old) if old.zone().map(Arc::as_ptr) == zone.map(Arc::as_ptr) => None,
            Some(old) => Some(Some(old.followed_by(zone.cloned()))),
            None => Some(Some(ZoneEntry::new(self.name(), self.hash, zone.cloned(), self.in_view))),
        }
    }
}

impl To {
    fn name(&self) -> LowerName<'_> {
        match self {
            To::Serve(zone) => zone.apex(),
            To::Unload(name) | To::Remove(name) => name.as_lower(),
            To::Like(other) => other.0.as_lower(),
        }
    }
}

/// Returns the steps that result from `changes`, made one after the other. `in_view`: the zones are those of
/// a view.
pub(super) fn steps(
    key: &HashKey,
    changes: impl IntoIterator<Item = Change>,
    in_view: bool,
) -> Result<Vec<CatalogStep>, WrongKey> {
    let steps: Result<Vec<CatalogStep>, WrongKey> =
        changes.into_iter().map(|change| CatalogStep::new(key, change, in_view)).collect();
    Ok(in_order(steps?))
}

/// Sorts `steps` by [`order`], and merges those of one name.
pub(super) fn in_order(mut steps: Vec<CatalogStep>) -> Vec<CatalogStep> {
    // Stable, so that the steps of one name stay in their order.
    steps.sort_by(|a, b| {
        order(a.hash).cmp(&order(b.hash)).then_with(|| a.name().as_wire().cmp(b.name().as_wire()))
    });
    steps.dedup_by(|later, kept| {
        let same = later.hash == kept.hash && later.name() == kept.name();
        if same {
            later.anew = kept.anew || matches!(kept.to, To::Remove(_));
            std::mem::swap(later, kept);
        }
        same
    });
    steps
}
