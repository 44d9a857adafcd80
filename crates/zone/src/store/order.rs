//! Canonical order (RFC 4034 §6.1): the sort key of a name, and the order of all nodes.
//!
//! Each node is stored with the first eight bytes of its name in a form that sorts in canonical order, so
//! that a search seldom has to read a node.

use wire::{LowerName, Name};

use super::arena::{Arena, NodeAddress};
use super::node::{DEAD, NodeFlags};
use super::sorted::{KeyedNode, KeyedNodes, address, key as key_of};
use super::version::{Merge, Overlay};
use super::{Node, Zone, blob};
use crate::prefetch;

/// The sort key of a name: the first eight bytes of its order-preserving form below the apex.
///
/// The form has the labels from right to left in lower case, each followed by a zero byte. Bytes 0 and 1
/// inside labels become two bytes (1 1 and 1 2), so that they cannot be confused with the end of a label.
#[inline]
pub(super) fn key(name: LowerName<'_>, apex_len: usize) -> u64 {
    let wire = name.as_wire();
    let below = wire.len().saturating_sub(apex_len);
    let (mut starts, mut count, mut at) = ([0u8; 128], 0, 0);
    while at < below {
        starts[count] = at as u8;
        count += 1;
        at += wire[at] as usize + 1;
    }
    let (mut key, mut bytes) = (0u64, 0);
    let mut push = |byte: u8| {
        if bytes < 8 {
            key |= (byte as u64) << (56 - 8 * bytes);
            bytes += 1;
        }
        bytes < 8
    };
    'labels: for &start in starts[..count].iter().rev() {
        let start = start as usize;
        for &byte in &wire[start + 1..=start + wire[start] as usize] {
            let more = match byte {
                0 | 1 => push(1) && push(byte + 1),
                _ => push(byte),
            };
            if !more {
                break 'labels;
            }
        }
        if !push(0) {
            break;
        }
    }
    key
}

/// Sorts nodes into canonical order. Checks first whether they are sorted already, as in dumped zones.
pub(super) fn sort(nodes: &mut [KeyedNode], arena: &Arena) {
    let owner = |node: &KeyedNode| Node::new(arena, address(node)).owner().as_name();
    let order = |a: &KeyedNode, b: &KeyedNode| {
        key_of(a).cmp(&key_of(b)).then_with(|| owner(a).canonical_cmp(owner(b)))
    };
    if !nodes.is_sorted_by(|a, b| order(a, b).is_le()) {
        nodes.sort_unstable_by(order);
    }
}

/// All nodes of a base in canonical order.
pub(super) struct Order {
    nodes: Box<[NodeAddress]>,
    wildcards: u64,
}

impl Order {
    /// The addresses of the nodes.
    pub(super) fn nodes(&self) -> &[NodeAddress] {
        &self.nodes
    }

    /// Number of wildcards among them.
    pub(super) fn wildcards(&self) -> u64 {
        self.wildcards
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Order>() + size_of_val(&*self.nodes)
    }
}

/// Returns the node whose owner comes later in canonical order.
pub(super) fn later<'a>(a: Option<Node<'a>>, b: Option<Node<'a>>) -> Option<Node<'a>> {
    match (a, b) {
        (Some(one), Some(other)) if one.owner().as_name() < other.owner().as_name() => b,
        _ => a.or(b),
    }
}

/// Sorts all nodes of a zone's base.
pub(super) fn all(zone: &Zone) -> Order {
    let apex_len = zone.apex().len();
    let live = zone.arena.walk().filter(|(_, blob)| blob::flags(blob) & DEAD == 0);
    let mut nodes = KeyedNodes::growing(zone.nodes as usize);
    let mut wildcards = 0;
    live.for_each(|(at, blob)| {
        wildcards += u64::from(blob::flags(blob) & NodeFlags::WILDCARD.0 != 0);
        nodes.push(key(blob::owner(blob), apex_len), at);
    });
    sort(nodes.as_mut(), &zone.arena);
    Order { nodes: nodes.as_mut().iter().map(address).collect(), wildcards }
}

/// An iteration over a zone with at most this many nodes sorts them itself and does not store the order.
const MAX_UNSTORED_NODES: u64 = 64;

/// The rest of an iteration over the nodes of a base in canonical order.
#[derive(Clone)]
pub(super) enum Ordered<'a> {
    Kept(std::slice::Iter<'a, NodeAddress>),
    Made(std::vec::IntoIter<NodeAddress>),
}

impl Iterator for Ordered<'_> {
    type Item = NodeAddress;
    fn next(&mut self) -> Option<NodeAddress> {
        match self {
            Ordered::Kept(rest) => rest.next().copied(),
            Ordered::Made(rest) => rest.next(),
        }
    }
}

/// Iterates over the nodes of a zone in canonical order; made by [`Zone::iter`].
#[derive(Clone)]
pub struct Iter<'a> {
    zone: &'a Zone,
    rest: Ordered<'a>,
    /// Number of nodes left.
    left: usize,
    changed: Option<Merge<'a>>,
}

impl<'a> Iter<'a> {
    pub(super) fn new(zone: &'a Zone) -> Self {
        let rest = match zone.all.get() {
            None if zone.nodes <= MAX_UNSTORED_NODES => Ordered::Made(all(zone).nodes.into_iter()),
            _ => Ordered::Kept(zone.order().nodes().iter()),
        };
        let left = zone.nodes as usize;
        Iter { zone, rest, left, changed: zone.overlay().map(Merge::new) }
    }

    /// Returns the iteration without the nodes before `name`. It does not know how many nodes are left.
    pub(super) fn starting(zone: &'a Zone, name: Name<'_>) -> Self {
        let nodes = zone.order().nodes();
        let start = nodes.partition_point(|&at| zone.node(at).owner().as_name() < name);
        let lower = name.to_lower();
        let merge =
            |overlay| Merge::starting(overlay, key(lower.as_lower(), zone.apex().len()), lower.as_name());
        let rest = Ordered::Kept(nodes[start..].iter());
        Iter { zone, rest, left: 0, changed: zone.overlay().map(merge) }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Node<'a>;
    fn next(&mut self) -> Option<Node<'a>> {
        self.left = self.left.saturating_sub(1);
        match &mut self.changed {
            None => self.rest.next().map(|at| self.zone.node(at)),
            Some(changed) => changed.next(self.zone, &mut self.rest),
        }
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
impl ExactSizeIterator for Iter<'_> {}

/// Iterates over the nodes of a zone in storage order; made by [`Zone::stored_from`].
#[derive(Clone)]
pub struct StoredNodes<'a> {
    zone: &'a Zone,
    next: Option<NodeAddress>,
}

impl<'a> StoredNodes<'a> {
    pub(super) fn new(zone: &'a Zone, from: Option<NodeAddress>) -> Self {
        StoredNodes { zone, next: from.or_else(|| zone.arena.first()) }
    }

    /// The address after `at`, of a node or not: the slots of the overlay come after the base's blobs.
    #[inline]
    fn after(&self, at: NodeAddress) -> Option<NodeAddress> {
        let slot = match at.slot() {
            None => match self.zone.arena.next(at) {
                Some(next) => return Some(next),
                None => 0,
            },
            Some(slot) => slot + 1,
        };
        let slots = self.zone.overlay().map_or(0, Overlay::slots);
        (slot < slots).then(|| NodeAddress::of_slot(slot))
    }

    /// Whether `at` holds a current node of the zone: not a dead or removed node, not the old form of a
    /// changed node, not a free slot.
    #[inline]
    fn is_node(&self, at: NodeAddress) -> bool {
        let blob = self.zone.arena.from(at);
        match (at.slot(), self.zone.overlay()) {
            (Some(_), _) => !blob.is_empty(),
            (None, None) => blob::flags(blob) & DEAD == 0,
            (None, Some(overlay)) => blob::flags(blob) & DEAD == 0 && overlay.redirect(at) == Some(at),
        }
    }
}

impl<'a> Iterator for StoredNodes<'a> {
    type Item = Node<'a>;
    #[inline]
    fn next(&mut self) -> Option<Node<'a>> {
        loop {
            let at = self.next?;
            self.next = self.after(at);
            prefetch::ahead(self.zone.arena.from(at));
            if self.is_node(at) {
                return Some(self.zone.node(at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::hash::HashKey;
    use wire::{NameBuf, Ttl, Type};

    use super::super::ZoneBuilder;
    use super::key;

    fn name() -> impl Strategy<Value = NameBuf> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(2), Just(b'A'), Just(b'a'), Just(b'b'), any::<u8>()];
        let label = prop::collection::vec(byte, 1..6);
        prop::collection::vec(label, 0..5).prop_map(|labels| {
            let apex: NameBuf = "z.".parse().expect("a name");
            labels.iter().fold(apex, |name, l| NameBuf::prepend(l, name.as_name()).expect("short"))
        })
    }

    #[test]
    fn stored_nodes_are_all_nodes_once_from_anywhere_on() {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let soa = [b"\0\0".as_slice(), &[0; 20]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::ZERO, &soa).expect("a record");
        // A name that occurs again leaves a dead node behind, and `x.y` makes an empty non-terminal.
        for owner in ["c.example.", "a.example.", "x.y.example.", "c.example."] {
            let owner: NameBuf = owner.parse().expect("a name");
            let address = [192, 0, 2, owner.as_name().len() as u8];
            builder.add(owner.as_name(), Type::A, Ttl::ZERO, &address).expect("a record");
        }
        let zone = builder.finish().expect("a zone");
        let stored: Vec<_> = zone.stored_from(None).map(|node| node.address()).collect();
        let mut sorted: Vec<_> = zone.iter().map(|node| node.address()).collect();
        sorted.sort();
        assert_eq!(stored, sorted, "the order of memory is that of the addresses");
        for (number, &at) in stored.iter().enumerate() {
            assert!(
                zone.stored_from(Some(at)).map(|node| node.address()).eq(stored[number..].iter().copied())
            );
        }
    }

    proptest! {
        #[test]
        fn keys_never_contradict_the_canonical_order(a in name(), b in name()) {
            let key = |name: NameBuf| key(name.as_name().to_lower().as_lower(), 3);
            let (ka, kb) = (key(a), key(b));
            if ka != kb {
                prop_assert_eq!(ka.cmp(&kb), a.cmp(&b));
            }
        }
    }
}
