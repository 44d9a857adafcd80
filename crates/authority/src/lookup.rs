//! Finds the zone that answers a query, and what a name is in a zone (RFC 1034 §4.3.2 steps 2 and 3, RFC 4592
//! §3.3, RFC 6672 §3.2).
//!
//! Every ancestor of a name in the zone exists in it, at least as an empty non-terminal, so existence is
//! monotonic: the closest encloser is found by bisection over the labels, and one probe is enough in the
//! usual case.

use wire::Type;
use wire::hash::{HashKey, HashedName};
use wire::name::MAX_NAME;
use zone::catalog::{Catalog, Located};
use zone::store::{Node, NodeFlags, Zone};

/// Returns the zone that answers a query: the closest one, but for DS at an apex the one above, if it is
/// served here (RFC 4035 §3.1.4.1).
#[inline]
pub fn zone_for(catalog: &Catalog, name: &HashedName, qtype: Type) -> Option<Located> {
    let found = catalog.locate(name, 0)?;
    if qtype == Type::DS && found.below() == 0 && name.label_count() > 0 {
        return Some(catalog.locate(name, 1).unwrap_or(found));
    }
    Some(found)
}

/// The result of looking up a name in a zone.
#[derive(Clone, Copy, Debug)]
pub enum LookupResult<'z> {
    /// A name of the zone with authoritative data.
    Exact(Node<'z>),
    /// At or below a zone cut.
    Cut {
        /// The cut: the one closest to the apex.
        node: Node<'z>,
        /// Number of labels of the name below it.
        skip: usize,
    },
    /// Below a DNAME.
    Dname {
        /// Its owner.
        node: Node<'z>,
        /// Number of labels of the name below it.
        skip: usize,
    },
    /// The name does not exist, but a wildcard matches it.
    Wildcard {
        /// The wildcard's node.
        node: Node<'z>,
        /// Number of labels of the name below the closest encloser.
        skip: usize,
    },
    /// The name does not exist, and no wildcard matches it.
    Nothing {
        /// Number of labels of the name below the closest encloser.
        skip: usize,
    },
}

/// Looks up `name`, which has `below` labels below the apex of `zone`.
///
/// With `parent_side`, a cut at the name itself is returned as [`LookupResult::Exact`]: DS is there.
#[inline]
pub fn find<'z>(
    zone: &'z Zone,
    key: &HashKey,
    name: &HashedName,
    below: usize,
    parent_side: bool,
) -> LookupResult<'z> {
    let stop = NodeFlags::CUT | NodeFlags::OCCLUDED;
    if let Some(node) = probe(zone, name, 0) {
        let flags = node.flags();
        if !flags.intersects(stop) || (parent_side && !flags.contains(NodeFlags::OCCLUDED)) {
            return LookupResult::Exact(node);
        }
        if !flags.contains(NodeFlags::OCCLUDED) {
            return LookupResult::Cut { node, skip: 0 };
        }
        return topmost(zone, name, 0, below).unwrap_or(LookupResult::Exact(node));
    }
    let (node, skip) = closest_encloser(zone, name, below);
    let flags = node.flags();
    // The usual cases first: no cut or DNAME is above an encloser that is not occluded.
    if flags.contains(NodeFlags::OCCLUDED) {
        if let Some(found) = topmost(zone, name, skip, below) {
            return found;
        }
    } else if flags.contains(NodeFlags::CUT) {
        return LookupResult::Cut { node, skip };
    } else if flags.contains(NodeFlags::DNAME) {
        return LookupResult::Dname { node, skip };
    }
    if flags.contains(NodeFlags::WILDCARD_CHILD)
        && let Some(node) = wildcard(zone, key, name, skip)
    {
        return LookupResult::Wildcard { node, skip };
    }
    LookupResult::Nothing { skip }
}

/// Returns the wildcard directly below `name` without its `skip` leftmost labels.
fn wildcard<'z>(zone: &'z Zone, key: &HashKey, name: &HashedName, skip: usize) -> Option<Node<'z>> {
    let mut buf = [0; MAX_NAME];
    let wildcard = name.suffix(skip).wildcard(&mut buf).ok()?;
    zone.find(wildcard, key.child(name.hash(skip), b"*"))
}

#[inline]
fn probe<'z>(zone: &'z Zone, name: &HashedName, skip: usize) -> Option<Node<'z>> {
    zone.find(name.suffix(skip), name.hash(skip))
}

/// Returns the closest encloser of a name that does not exist, and how many labels the name has below it.
#[inline]
fn closest_encloser<'z>(zone: &'z Zone, name: &HashedName, below: usize) -> (Node<'z>, usize) {
    // Does not exist: `absent`; exists: `skip`, with its node.
    let (mut absent, mut skip, mut node) = (0, below, zone.apex_node());
    while skip - absent > 1 {
        let middle = absent + (skip - absent) / 2;
        match probe(zone, name, middle) {
            Some(found) => (skip, node) = (middle, found),
            None => absent = middle,
        }
    }
    (node, skip)
}

/// Returns the cut or DNAME closest to the apex among the ancestors of `name` from `lowest` labels up. A
/// DNAME applies to names below it, not to its owner.
#[cold]
fn topmost<'z>(zone: &'z Zone, name: &HashedName, lowest: usize, below: usize) -> Option<LookupResult<'z>> {
    for skip in (lowest..=below).rev() {
        let node = probe(zone, name, skip)?;
        let flags = node.flags();
        // At a name with both, the parent's cut takes precedence over the child's DNAME.
        if flags.contains(NodeFlags::CUT) {
            return Some(LookupResult::Cut { node, skip });
        }
        if flags.contains(NodeFlags::DNAME) && skip > 0 {
            return Some(LookupResult::Dname { node, skip });
        }
    }
    None
}
