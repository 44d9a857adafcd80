//! Canonical order (RFC 4034 §6.1): the NSEC chain and the order of all nodes.
//!
//! Each node is held with the first eight bytes of its name in a form that sorts as the canonical order
//! does, so that a search seldom has to read a node.

use std::cmp::Ordering;

use bytes::Bytes;
use wire::{LowerName, Name};

use super::arena::{Arena, NodeAddress};
use super::memory::{self, Memory};
use super::node::DEAD;
use super::{Node, Zone, blob};

/// Bytes of a place: the sort key (`u64`) and the address of a node (`u32`), little-endian.
pub(crate) const PLACE: usize = 12;

/// A node in the canonical order.
type Place = [u8; PLACE];

fn key_of(place: &Place) -> u64 {
    place.first_chunk().map_or(0, |&key| u64::from_le_bytes(key))
}

fn at(place: &Place) -> NodeAddress {
    let [.., a, b, c, d] = *place;
    NodeAddress::of([a, b, c, d])
}

/// The addresses in a row of places.
pub(super) fn addresses(places: &[u8]) -> impl Iterator<Item = NodeAddress> {
    places.as_chunks().0.iter().map(at)
}

/// Places that are being gathered.
pub(super) struct Places(Memory);

impl Places {
    /// None yet, and not more than about `limit` to come.
    pub(super) fn growing(limit: usize) -> Self {
        Places(Memory::growing(limit.saturating_mul(PLACE)))
    }

    /// Adds a node: its owner and its address.
    pub(super) fn push(&mut self, owner: LowerName<'_>, apex_len: usize, at: NodeAddress) {
        let mut place = [0; PLACE];
        let (front, back) = place.split_at_mut(8);
        front.copy_from_slice(&key(owner.as_name(), apex_len).to_le_bytes());
        back.copy_from_slice(&at.stored());
        self.0.extend(&place);
    }

    /// Brings the places into canonical order.
    pub(super) fn in_order(mut self, arena: &Arena) -> Order {
        sort(self.0.as_mut().as_chunks_mut().0, arena);
        Order(self.0.freeze())
    }
}

/// The first eight bytes of a name's order-preserving form, of the part below the apex.
///
/// Labels from the right, lower case, each followed by a zero byte; bytes 0 and 1 inside labels become two
/// bytes (1 1 and 1 2), so that no label is taken for the end of another.
pub(super) fn key(name: Name<'_>, apex_len: usize) -> u64 {
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
                _ => push(byte.to_ascii_lowercase()),
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

/// Sorts places into canonical order; finds out first whether they already are, as dumped zones come sorted.
fn sort(places: &mut [Place], arena: &Arena) {
    let order = |a: &Place, b: &Place| {
        key_of(a).cmp(&key_of(b)).then_with(|| owner(arena, at(a)).canonical_cmp(owner(arena, at(b))))
    };
    if !places.is_sorted_by(|a, b| order(a, b) != Ordering::Greater) {
        places.sort_unstable_by(order);
    }
}

fn owner(arena: &Arena, at: NodeAddress) -> Name<'_> {
    Node::new(arena, at).owner().as_name()
}

/// Nodes with NSEC in canonical order.
pub(super) struct Order(Bytes);

impl Order {
    fn places(&self) -> &[Place] {
        self.0.as_chunks().0
    }

    /// An order of verified places.
    pub(super) fn of(bytes: Bytes) -> Order {
        Order(bytes)
    }

    /// The places, which may be shared.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        memory::taken(self.0.len())
    }

    /// The last node whose name is `name` or comes before it.
    pub(super) fn at_or_before<'a>(&self, zone: &'a Zone, name: Name<'_>) -> Option<Node<'a>> {
        let wanted = key(name, zone.apex().len());
        let places = self.places();
        let after = places.partition_point(|place| match key_of(place).cmp(&wanted) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => owner(&zone.arena, at(place)).canonical_cmp(name) != Ordering::Greater,
        });
        let place = places.get(after.checked_sub(1)?)?;
        Some(zone.node(at(place)))
    }
}

/// The addresses of all nodes in canonical order.
pub(super) fn all(zone: &Zone) -> Box<[NodeAddress]> {
    let apex_len = zone.apex().len();
    let live = zone.arena.walk().filter(|(_, blob)| blob::flags(blob) & DEAD == 0);
    let mut places = Places::growing(zone.nodes as usize);
    live.for_each(|(at, blob)| places.push(blob::owner(blob), apex_len, at));
    addresses(places.in_order(&zone.arena).bytes()).collect()
}

/// The nodes of a zone in canonical order; made by [`Zone::iter`].
#[derive(Clone)]
pub struct Iter<'a> {
    zone: &'a Zone,
    rest: std::slice::Iter<'a, NodeAddress>,
}

impl<'a> Iter<'a> {
    pub(super) fn new(zone: &'a Zone, all: &'a [NodeAddress]) -> Self {
        Iter { zone, rest: all.iter() }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Node<'a>;
    fn next(&mut self) -> Option<Node<'a>> {
        self.rest.next().map(|&at| self.zone.node(at))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rest.size_hint()
    }
}
impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::NameBuf;

    use super::key;

    fn name() -> impl Strategy<Value = NameBuf> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(2), Just(b'A'), Just(b'a'), Just(b'b'), any::<u8>()];
        let label = prop::collection::vec(byte, 1..6);
        prop::collection::vec(label, 0..5).prop_map(|labels| {
            let apex: NameBuf = "z.".parse().expect("a name");
            labels.iter().fold(apex, |name, l| NameBuf::prepend(l, name.as_name()).expect("short"))
        })
    }

    proptest! {
        #[test]
        fn keys_never_contradict_the_canonical_order(a in name(), b in name()) {
            let (ka, kb) = (key(a.as_name(), 3), key(b.as_name(), 3));
            if ka != kb {
                prop_assert_eq!(ka.cmp(&kb), a.cmp(&b));
            }
        }
    }
}
