//! Canonical order (RFC 4034 §6.1): the NSEC chain and the order of all nodes.
//!
//! Each node is held with the first eight octets of its name in a form that sorts as the canonical order
//! does, so that a search seldom has to read a node.

use std::cmp::Ordering;

use wire::Name;

use super::arena::{Arena, NOWHERE};
use super::node::DEAD;
use super::{Node, Zone, blob};

/// Sort key (upper half, lower half) and address of a node: twelve octets.
#[derive(Clone, Copy)]
pub(super) struct Place([u32; 3]);

impl Place {
    pub(super) fn new(owner: &[u8], apex_len: usize, at: u32) -> Self {
        let key = key(owner, apex_len);
        Place([(key >> 32) as u32, key as u32, at])
    }

    fn key(self) -> u64 {
        (self.0[0] as u64) << 32 | self.0[1] as u64
    }

    fn at(self) -> u32 {
        self.0[2]
    }
}

/// The first eight octets of a name's order-preserving form, of the part below the apex.
///
/// Labels from the right, lower case, each followed by a zero octet; octets 0 and 1 inside labels become two
/// octets (1 1 and 1 2), so that no label is taken for the end of another.
pub(super) fn key(wire: &[u8], apex_len: usize) -> u64 {
    let below = wire.len().saturating_sub(apex_len);
    let (mut starts, mut count, mut at) = ([0u8; 128], 0, 0);
    while at < below {
        starts[count] = at as u8;
        count += 1;
        at += wire[at] as usize + 1;
    }
    let (mut key, mut octets) = (0u64, 0);
    let mut push = |octet: u8| {
        if octets < 8 {
            key |= (octet as u64) << (56 - 8 * octets);
            octets += 1;
        }
        octets < 8
    };
    'labels: for &start in starts[..count].iter().rev() {
        let start = start as usize;
        for &octet in &wire[start + 1..=start + wire[start] as usize] {
            let more = match octet {
                0 | 1 => push(1) && push(octet + 1),
                _ => push(octet.to_ascii_lowercase()),
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
        a.key().cmp(&b.key()).then_with(|| owner(arena, a.at()).canonical_cmp(owner(arena, b.at())))
    };
    if !places.is_sorted_by(|a, b| order(a, b) != Ordering::Greater) {
        places.sort_unstable_by(order);
    }
}

fn owner(arena: &Arena, at: u32) -> Name<'_> {
    Node::new(arena, at).owner()
}

/// Nodes with NSEC in canonical order.
#[derive(Default)]
pub(super) struct Order(Box<[Place]>);

impl Order {
    pub(super) fn new(mut places: Vec<Place>, arena: &Arena) -> Self {
        sort(&mut places, arena);
        Order(places.into_boxed_slice())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val::<[Place]>(&self.0)
    }

    /// The last node whose name is `name` or comes before it.
    pub(super) fn at_or_before<'a>(&self, zone: &'a Zone, name: Name<'_>) -> Option<Node<'a>> {
        let wanted = key(name.as_wire(), zone.apex_node().owner_wire().len());
        let after = self.0.partition_point(|place| match place.key().cmp(&wanted) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => owner(&zone.arena, place.at()).canonical_cmp(name) != Ordering::Greater,
        });
        let place = self.0.get(after.checked_sub(1)?)?;
        Some(zone.node(place.at()))
    }
}

/// The addresses of all nodes in canonical order.
pub(super) fn all(zone: &Zone) -> Box<[u32]> {
    let apex_len = zone.apex().len();
    let live = zone.arena.walk().filter(|(_, blob)| blob::flags(blob) & DEAD == 0);
    let mut places: Vec<Place> = live.map(|(at, blob)| Place::new(blob::owner(blob), apex_len, at)).collect();
    sort(&mut places, &zone.arena);
    places.into_iter().map(Place::at).collect()
}

/// The nodes of a zone in canonical order; made by [`Zone::iter`].
#[derive(Clone)]
pub struct Iter<'a> {
    zone: &'a Zone,
    rest: std::slice::Iter<'a, u32>,
}

impl<'a> Iter<'a> {
    pub(super) fn new(zone: &'a Zone, all: &'a [u32]) -> Self {
        debug_assert!(!all.contains(&NOWHERE));
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
        let octet = prop_oneof![Just(0u8), Just(1), Just(2), Just(b'A'), Just(b'a'), Just(b'b'), any::<u8>()];
        let label = prop::collection::vec(octet, 1..6);
        prop::collection::vec(label, 0..5).prop_map(|labels| {
            let apex: NameBuf = "z.".parse().expect("a name");
            labels.iter().fold(apex, |name, l| NameBuf::prepend(l, name.as_name()).expect("short"))
        })
    }

    proptest! {
        #[test]
        fn keys_never_contradict_the_canonical_order(a in name(), b in name()) {
            let (ka, kb) = (key(a.as_name().as_wire(), 3), key(b.as_name().as_wire(), 3));
            if ka != kb {
                prop_assert_eq!(ka.cmp(&kb), a.cmp(&b));
            }
        }
    }
}
