//! The NSEC chain of a snapshot (RFC 4034 §4): its nodes in canonical order.

use wire::LowerName;

use super::arena::Arena;
use super::order;
use super::sorted::{KeyedNode, KeyedNodes, Search, Sorted, address, key};
use super::version::Overlay;
use super::{Node, Zone};

/// Sorts the nodes with NSEC.
pub(super) fn chain(mut owners: KeyedNodes, arena: &Arena) -> Sorted {
    order::sort(owners.as_mut(), arena);
    owners.freeze()
}

/// The NSEC chain of a zone: the NSEC records that are not below zone cuts.
#[derive(Clone, Copy)]
pub struct NsecChain<'a> {
    zone: &'a Zone,
    row: &'a Sorted,
}

impl<'a> NsecChain<'a> {
    pub(super) fn new(zone: &'a Zone, row: &'a Sorted) -> Self {
        NsecChain { zone, row }
    }

    /// Returns a search for the record that covers `name`, which is at or below the apex.
    #[inline]
    pub fn search(self, name: LowerName<'_>) -> Search {
        Search::new(order::key(name, self.zone.apex().len()))
    }

    /// Takes a search one step further and prefetches what the next one reads. After [`Search::STEPS`] steps
    /// the node that will very likely be found is prefetched.
    #[inline]
    pub fn advance(self, search: &mut Search) {
        if let Some(at) = self.row.advance(search) {
            self.zone.prefetch_at(at);
        }
    }

    /// Returns the node whose owner is `name` or the closest before it in canonical order (RFC 4034 §6.1).
    /// `None` if all are after it: a chain begins at the apex.
    pub fn covering(self, name: LowerName<'_>) -> Option<Node<'a>> {
        self.end(name, self.search(name))
    }

    /// Returns the result of [`covering`](Self::covering) from a search for that name at any step.
    pub fn end(self, name: LowerName<'_>, search: Search) -> Option<Node<'a>> {
        let after = not_after(self.zone, self.row, name, search);
        match self.zone.overlay() {
            None => Some(self.zone.node(address(self.row.nodes().get(after.checked_sub(1)?)?))),
            Some(overlay) => self.end_changed(overlay, after, name, search.key()),
        }
    }

    /// Ends a search in a zone with an overlay: `after` nodes of the base are not after the name.
    #[cold]
    fn end_changed(self, overlay: &Overlay, after: usize, name: LowerName<'_>, key: u64) -> Option<Node<'a>> {
        let old = overlay.old_nsec(after).and_then(|at| self.row.nodes().get(at));
        let old = old.and_then(|node| overlay.redirect(address(node)));
        let new = overlay.new_nsec(key, name.as_name());
        order::later(old.map(|at| self.zone.node(at)), new.map(|at| self.zone.node(at)))
    }
}

/// Returns how many nodes of a row of the base are not after `name`; `search` is one for that name.
pub(super) fn not_after(zone: &Zone, row: &Sorted, name: LowerName<'_>, search: Search) -> usize {
    let nodes = row.nodes();
    let after = row.end(search);
    // For names with the same key the order of the names decides.
    let Some(same) = nodes[..after].last().map(key).filter(|&last| last == search.key()) else {
        return after;
    };
    let first = same.checked_sub(1).map_or(0, |below| row.end(Search::new(below)));
    let not_after = |node: &KeyedNode| {
        let owner = zone.node(address(node)).owner().as_name();
        owner.canonical_cmp(name.as_name()).is_le()
    };
    first + nodes[first..after].partition_point(not_after)
}

impl std::fmt::Debug for NsecChain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NsecChain({} nodes)", self.row.nodes().len())
    }
}
