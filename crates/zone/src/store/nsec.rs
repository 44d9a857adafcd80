//! The NSEC chain of a snapshot (RFC 4034 §4): its nodes in canonical order.

use wire::LowerName;

use super::arena::Arena;
use super::order;
use super::sorted::{KeyedNode, KeyedNodes, Search, Sorted, address, key};
use super::{Node, Zone};

/// Puts the nodes with NSEC in order.
pub(super) fn chain(mut owners: KeyedNodes, arena: &Arena) -> Sorted {
    order::sort(owners.as_mut(), arena);
    owners.freeze()
}

/// The NSEC chain of a zone: of the NSEC records that are not below zone cuts. Copied freely.
#[derive(Clone, Copy)]
pub struct NsecChain<'a> {
    zone: &'a Zone,
    row: &'a Sorted,
}

impl<'a> NsecChain<'a> {
    pub(super) fn new(zone: &'a Zone, row: &'a Sorted) -> Self {
        NsecChain { zone, row }
    }

    /// A search for the record that covers `name`, which is at or below the apex.
    #[inline]
    pub fn search(self, name: LowerName<'_>) -> Search {
        Search::new(order::key(name, self.zone.apex().len()))
    }

    /// Takes a search one step further and prefetches what the next one reads. After
    /// [`Search::STEPS`] of them the node that will very likely be found is prefetched.
    #[inline]
    pub fn advance(self, search: &mut Search) {
        if let Some(at) = self.row.advance(search) {
            self.zone.prefetch_at(at);
        }
    }

    /// The node whose owner is `name` or comes closest before it in canonical order (RFC 4034 §6.1). `None` if there is
    /// none that early: a chain begins at the apex.
    pub fn covering(self, name: LowerName<'_>) -> Option<Node<'a>> {
        self.end(name, self.search(name))
    }

    /// [`covering`](Self::covering) by a search for that name, which may be under way.
    pub fn end(self, name: LowerName<'_>, search: Search) -> Option<Node<'a>> {
        let nodes = self.row.nodes();
        let mut after = self.row.end(search);
        // Of names with the same key the order of the names decides.
        if let Some(same) = nodes[..after].last().map(key).filter(|&last| last == search.key()) {
            let first = same.checked_sub(1).map_or(0, |below| self.row.end(Search::new(below)));
            let not_after = |node: &KeyedNode| {
                let owner = self.zone.node(address(node)).owner().as_name();
                owner.canonical_cmp(name.as_name()).is_le()
            };
            after = first + nodes[first..after].partition_point(not_after);
        }
        Some(self.zone.node(address(nodes.get(after.checked_sub(1)?)?)))
    }
}

impl std::fmt::Debug for NsecChain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NsecChain({} nodes)", self.row.nodes().len())
    }
}
