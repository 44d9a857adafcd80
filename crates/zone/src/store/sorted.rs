//! Nodes in the order of a key of eight bytes, and the search among them. Both chains are built on it.
//!
//! A plain binary search among a million nodes waits for memory a dozen times. So every 16th key is copied to
//! `middle`, and every 16th key of `middle` to `top`. A search has three steps. Each reads a few cache lines,
//! and the step before it determines which, so that they can be prefetched.
//!
//! ```text
//! step  searches            lines   of a million nodes, bytes
//! 0     `top`                hot        31 000
//! 1     16 keys of `middle`  2         500 000
//! 2     16 nodes             3      12 000 000
//! ```
//!
//! For example, with a stride of 3 instead of 16 and the keys 1 to 9, `middle` is 1 4 7 and `top` is 1. A
//! search for 5 finds one key of `top` that is not above it, so it reads the first three keys of `middle`.
//! Two of those are not above 5, so it reads the second three nodes: 4, 5 and 6. Two of these are not above
//! 5, so five nodes in total are not above it.

use bytes::Bytes;

use super::arena::NodeAddress;
use super::memory::{self, Region};
use crate::prefetch::{self, Part};

/// Bytes of a keyed node: the key (`u64`) and a node's address (`u32`), little-endian.
pub(crate) const KEYED_NODE: usize = 12;
/// Nodes per key of `middle`, and keys of `middle` per key of `top`.
const STRIDE: usize = 16;

/// A key, little-endian.
type Key = [u8; 8];
/// A key and the address of a node.
pub(super) type KeyedNode = [u8; KEYED_NODE];

/// The key of a node.
#[inline]
pub(super) fn key(node: &KeyedNode) -> u64 {
    node.first_chunk().map_or(0, |&key| u64::from_le_bytes(key))
}

/// The address of a keyed node.
#[inline]
pub(super) fn address(node: &KeyedNode) -> NodeAddress {
    let [.., a, b, c, d] = *node;
    NodeAddress::of([a, b, c, d])
}

/// The addresses in a list of keyed nodes.
pub(super) fn addresses(nodes: &[u8]) -> impl Iterator<Item = NodeAddress> {
    nodes.as_chunks().0.iter().map(address)
}

/// Keyed nodes while they are collected.
pub(super) struct KeyedNodes(Region);

impl KeyedNodes {
    /// Creates an empty list for at most about `limit` nodes.
    pub(super) fn growing(limit: usize) -> Self {
        KeyedNodes(Region::growing(limit.saturating_mul(KEYED_NODE)))
    }

    /// Adds a node.
    pub(super) fn push(&mut self, key: u64, at: NodeAddress) {
        let mut node = [0; KEYED_NODE];
        let (front, back) = node.split_at_mut(8);
        front.copy_from_slice(&key.to_le_bytes());
        back.copy_from_slice(&at.stored());
        self.0.extend(&node);
    }

    /// All nodes, for sorting.
    pub(super) fn as_mut(&mut self) -> &mut [KeyedNode] {
        self.0.as_mut().as_chunks_mut().0
    }

    /// Makes the nodes, which must be sorted, searchable.
    pub(super) fn freeze(self) -> Sorted {
        Sorted::of(self.0.freeze())
    }
}

/// Keyed nodes in the order of their keys.
pub(super) struct Sorted {
    nodes: Bytes,
    /// The keys of nodes 0, 16, 32, ..., eight bytes each.
    middle: Bytes,
    /// The keys of nodes 0, 256, 512, ...
    top: Box<[u64]>,
}

impl Sorted {
    /// Makes the list from sorted nodes. If they are not sorted, searches return wrong results, but end.
    pub(super) fn of(nodes: Bytes) -> Self {
        let (all, _) = nodes.as_chunks();
        let mut middle = Region::growing(all.len().div_ceil(STRIDE) * size_of::<Key>());
        all.iter().step_by(STRIDE).for_each(|node| middle.extend(&key(node).to_le_bytes()));
        let top = all.iter().step_by(STRIDE * STRIDE).map(key).collect();
        Sorted { nodes, middle: middle.freeze(), top }
    }

    #[inline]
    pub(super) fn nodes(&self) -> &[KeyedNode] {
        self.nodes.as_chunks().0
    }

    #[inline]
    fn middle(&self) -> &[Key] {
        self.middle.as_chunks().0
    }

    /// The nodes as bytes, which can be shared.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.nodes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        memory::taken(self.nodes.len()) + memory::taken(self.middle.len()) + size_of_val(&*self.top)
    }

    /// Does the next step of a search and prefetches what the step after it reads. After the last step it
    /// returns the last node that is not above the key, or the last node of all if there is none.
    #[inline]
    pub(super) fn advance(&self, search: &mut Search) -> Option<NodeAddress> {
        self.step(search);
        match search.steps {
            1 => {
                prefetch::slice(block(self.middle(), search.at));
                None
            }
            2 => {
                prefetch::slice(block(self.nodes(), search.at));
                None
            }
            _ => {
                let nodes = self.nodes();
                nodes.get(search.at.wrapping_sub(1) as usize).or(nodes.last()).map(address)
            }
        }
    }

    /// The number of nodes whose key is not above that of `search`.
    #[inline]
    pub(super) fn end(&self, mut search: Search) -> usize {
        while search.steps < STEPS {
            self.step(&mut search);
        }
        search.at as usize
    }

    #[inline]
    fn step(&self, search: &mut Search) {
        let wanted = search.key;
        match search.steps {
            1 => prefetch::read(Part::Chain, block(self.middle(), search.at)),
            2 => prefetch::read(Part::Chain, block(self.nodes(), search.at)),
            _ => {}
        }
        // There are no more nodes than addresses, which have 32 bits.
        search.at = match search.steps {
            0 => self.top.partition_point(|&key| key <= wanted),
            1 => within(self.middle(), search.at, |&key| u64::from_le_bytes(key) <= wanted),
            2 => within(self.nodes(), search.at, |node| key(node) <= wanted),
            _ => return,
        } as u32;
        search.steps += 1;
    }
}

/// Steps of a search.
const STEPS: u8 = 3;

/// A search, started or not. Between its steps, steps of other searches can run while memory is fetched.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    key: u64,
    /// Steps done.
    steps: u8,
    /// Number of keys not above the wanted one in the row that was searched last.
    at: u32,
}

impl Search {
    /// Steps that a search takes.
    pub const STEPS: usize = STEPS as usize;

    /// The key that is searched for.
    pub(super) fn key(self) -> u64 {
        self.key
    }

    /// Creates a search that has not started.
    #[inline]
    pub(super) fn new(key: u64) -> Self {
        Search { key, steps: 0, at: 0 }
    }
}

/// The part of `row` that belongs to the `n`th key of the row above, counted from 1; empty for 0.
#[inline]
fn block<T>(row: &[T], n: u32) -> &[T] {
    let (start, end) = (start_of(n), n as usize * STRIDE);
    &row[row.len().min(start)..row.len().min(end)]
}

/// Number of elements of `row` that are not above the wanted one, if all before block `n` are not above it.
#[inline]
fn within<T>(row: &[T], n: u32, not_above: impl Fn(&T) -> bool) -> usize {
    start_of(n) + block(row, n).partition_point(not_above)
}

#[inline]
fn start_of(n: u32) -> usize {
    n.saturating_sub(1) as usize * STRIDE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(keys: &[u64]) -> Sorted {
        let mut nodes = KeyedNodes::growing(keys.len());
        keys.iter()
            .enumerate()
            .for_each(|(i, &key)| nodes.push(key, NodeAddress::of((i as u32).to_le_bytes())));
        nodes.freeze()
    }

    proptest! {
        #[test]
        fn a_search_in_steps_finds_what_a_plain_search_finds(
            mut keys in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..9, Just(u64::MAX)], 0..1200),
            wanted in prop_oneof![any::<u64>(), 0u64..9, Just(u64::MAX)],
            pick: prop::sample::Index,
            steps in 0..5,
        ) {
            keys.sort_unstable();
            let row = sorted(&keys);
            let exact = if keys.is_empty() { wanted } else { keys[pick.index(keys.len())] };
            for wanted in [wanted, exact, exact.saturating_sub(1), exact.saturating_add(1)] {
                let expected = keys.partition_point(|&key| key <= wanted);
                let mut search = Search::new(wanted);
                let landed = (0..steps).filter_map(|_| row.advance(&mut search)).last();
                prop_assert_eq!(row.end(search), expected);
                // The node before, or the last node if there is none.
                let last = expected.checked_sub(1).or(keys.len().checked_sub(1));
                let last = last.filter(|_| steps >= 3).map(|i| NodeAddress::of((i as u32).to_le_bytes()));
                prop_assert_eq!(landed, last);
            }
        }
    }
}
