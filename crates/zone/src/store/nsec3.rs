//! The NSEC3 chain of a snapshot (RFC 5155): its nodes in the order of their owner hashes.
//!
//! This module computes no hashes: callers pass the 20 bytes of a SHA-1 hash.

use std::cmp::Ordering;

use wire::rdata::view::{Nsec3, Nsec3Param};
use wire::{LowerName, Type};

use super::arena::{Arena, NodeAddress};
use super::parts::Nsec3Parts;
use super::sorted::{KeyedNodes, Search, Sorted, address, key};
use super::version::Overlay;
use super::{Node, Zone, blob, order};

/// Bytes of a SHA-1 hash, the only NSEC3 hash algorithm (RFC 5155 §11).
pub(super) const HASH: usize = 20;

/// One chain: its parameters and its nodes in the order of the hashes. The key of a node is the first eight
/// bytes of its hash.
pub(super) struct StoredChain {
    iterations: u16,
    salt: Box<[u8]>,
    row: Sorted,
}

impl StoredChain {
    /// Builds the chain that the NSEC3PARAM at `apex` describes from `owners`: hash prefix and address of
    /// every node with NSEC3. Of several NSEC3PARAM records, the first whose chain has a member is used.
    pub(super) fn new(
        arena: &Arena,
        apex: Node<'_>,
        mut owners: Vec<(u64, NodeAddress)>,
    ) -> Option<StoredChain> {
        let order = |a: &(u64, NodeAddress), b: &(u64, NodeAddress)| {
            a.0.cmp(&b.0).then_with(|| hash_at(arena, a.1).cmp(&hash_at(arena, b.1)))
        };
        if !owners.is_sorted_by(|a, b| order(a, b).is_le()) {
            owners.sort_unstable_by(order);
        }
        usable(apex).find_map(|param| Self::of(arena, &param, &owners))
    }

    fn of(arena: &Arena, param: &Nsec3Param<'_>, owners: &[(u64, NodeAddress)]) -> Option<StoredChain> {
        let belongs = |at: NodeAddress| belongs(Node::new(arena, at), param);
        let mut nodes = KeyedNodes::growing(owners.len());
        owners.iter().filter(|&&(_, at)| belongs(at)).for_each(|&(prefix, at)| nodes.push(prefix, at));
        let (iterations, salt, row) = (param.iterations, param.salt.into(), nodes.freeze());
        (!row.is_empty()).then_some(StoredChain { iterations, salt, row })
    }

    /// Whether `param` has the same parameters as this chain.
    pub(super) fn is_of(&self, param: &Nsec3Param<'_>) -> bool {
        param.hashes_as(&self.param())
    }

    /// Whether a node has an NSEC3 of this chain.
    pub(super) fn holds(&self, node: Node<'_>) -> bool {
        belongs(node, &self.param())
    }

    fn param(&self) -> Nsec3Param<'_> {
        let (iterations, salt) = (self.iterations, &*self.salt);
        Nsec3Param { algorithm: Nsec3Param::SHA1, flags: 0, iterations, salt }
    }

    /// The nodes.
    pub(super) fn row(&self) -> &Sorted {
        &self.row
    }

    /// Makes a chain from verified parts.
    pub(super) fn of_parts(parts: Nsec3Parts) -> StoredChain {
        let Nsec3Parts { iterations, salt, nodes } = parts;
        StoredChain { iterations, salt, row: Sorted::of(nodes) }
    }

    /// Returns the parts of the chain.
    pub(super) fn parts(&self) -> Nsec3Parts {
        let (salt, nodes) = (self.salt.clone(), self.row.bytes().clone());
        Nsec3Parts { iterations: self.iterations, salt, nodes }
    }

    pub(super) fn memory(&self) -> usize {
        self.salt.len() + self.row.memory()
    }
}

/// The parameters of the usable chains, in order of preference.
pub(super) fn usable(apex: Node<'_>) -> impl Iterator<Item = Nsec3Param<'_>> {
    let params = apex.rrset(Type::NSEC3PARAM).into_iter().flat_map(|set| set.rdatas());
    let params = params.filter_map(|rdata| Nsec3Param::read(rdata.compiled()).ok());
    // Flags other than zero mean that the chain must not be used (RFC 5155 §4.1.2).
    params.filter(|param| param.flags == 0 && param.algorithm == Nsec3Param::SHA1)
}

/// Whether a node has an NSEC3 of the chain with these parameters.
pub(super) fn belongs(node: Node<'_>, param: &Nsec3Param<'_>) -> bool {
    let params = node.rrset(Type::NSEC3).into_iter().flat_map(|set| set.rdatas());
    let mut params = params.filter_map(|rdata| Nsec3::read_param(rdata.compiled()).ok());
    params.any(|its| its.hashes_as(param))
}

/// Decodes the hash in a node's first label: base 32 with the extended hex alphabet (RFC 4648 §7).
pub(super) fn hash_of(owner: LowerName<'_>) -> Option<[u8; HASH]> {
    let label = owner.labels().next().filter(|label| label.len() == 32)?;
    let mut hash = [0; HASH];
    for (digits, bytes) in label.chunks_exact(8).zip(hash.chunks_exact_mut(5)) {
        let mut value = 0u64;
        for &digit in digits {
            let digit = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'v' => digit - b'a' + 10,
                _ => return None,
            };
            value = value << 5 | digit as u64;
        }
        bytes.copy_from_slice(&value.to_be_bytes()[3..]);
    }
    Some(hash)
}

/// The first eight bytes of a hash as a number.
pub(super) fn prefix(hash: &[u8; HASH]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_be_bytes(first)
}

fn hash_at(arena: &Arena, at: NodeAddress) -> Option<[u8; HASH]> {
    hash_of(blob::owner(arena.from(at)))
}

/// The NSEC3 chain of a zone. Copied freely.
#[derive(Clone, Copy)]
pub struct Nsec3Chain<'a> {
    zone: &'a Zone,
    chain: &'a StoredChain,
}

impl<'a> Nsec3Chain<'a> {
    pub(super) fn new(zone: &'a Zone, chain: &'a StoredChain) -> Self {
        Nsec3Chain { zone, chain }
    }

    /// Number of additional iterations.
    pub fn iterations(self) -> u16 {
        self.chain.iterations
    }

    /// The salt, up to 255 bytes.
    pub fn salt(self) -> &'a [u8] {
        &self.chain.salt
    }

    /// Returns the hash that the first label of an NSEC3 owner encodes.
    pub fn owner_hash(owner: LowerName<'_>) -> Option<[u8; HASH]> {
        hash_of(owner)
    }

    /// Starts a search for the record that matches or covers `hash`.
    #[inline]
    pub fn search(self, hash: &[u8; HASH]) -> Search {
        Search::new(prefix(hash))
    }

    /// Does the next step of a search and prefetches what the step after it reads. After [`Search::STEPS`]
    /// steps it prefetches the node that the search will very likely find.
    #[inline]
    pub fn advance(self, search: &mut Search) {
        if let Some(at) = self.chain.row.advance(search) {
            self.zone.prefetch_at(at);
        }
    }

    /// The node whose owner encodes exactly `hash`.
    pub fn matching(self, hash: &[u8; HASH]) -> Option<Node<'a>> {
        let (node, matches) = self.end(hash, self.search(hash));
        matches.then_some(node)
    }

    /// The node with the owner hash `hash` or the closest one before it, else the last node of the chain.
    ///
    /// If the node does not [match](Self::matching), its NSEC3 covers `hash` (RFC 5155 §1.3), provided that
    /// the chain is complete.
    pub fn covering(self, hash: &[u8; HASH]) -> Node<'a> {
        self.end(hash, self.search(hash)).0
    }

    /// Finishes a search for `hash`, started or not, as [`covering`](Self::covering) does. Also returns
    /// whether the node [matches](Self::matching).
    pub fn end(self, hash: &[u8; HASH], search: Search) -> (Node<'a>, bool) {
        let (after, matches) = not_after(self.zone, &self.chain.row, hash, search);
        if let Some(overlay) = self.zone.overlay() {
            return self.end_changed(overlay, after, hash, search.key());
        }
        let nodes = self.chain.row.nodes();
        let last = nodes.len() - 1;
        (self.zone.node(address(&nodes[after.checked_sub(1).unwrap_or(last)])), matches)
    }

    /// Finishes a search in a zone with an overlay: `after` nodes of the base are not above the hash.
    #[cold]
    fn end_changed(
        self,
        overlay: &Overlay,
        after: usize,
        hash: &[u8; HASH],
        prefix: u64,
    ) -> (Node<'a>, bool) {
        let of_blob = |blob: &[u8]| hash_of(blob::owner(blob));
        let order =
            |key: u64, blob: &[u8]| key.cmp(&prefix).then_with(|| of_blob(blob).as_ref().cmp(&Some(hash)));
        let before = self.later(overlay, after, order);
        let last = || self.later(overlay, self.chain.row.nodes().len(), |_, _| Ordering::Less);
        // A version never has a chain without nodes.
        let node = before.or_else(last).unwrap_or_else(|| self.zone.apex_node());
        (node, hash_of(node.owner()).as_ref() == Some(hash))
    }

    /// The last node not above the wanted one, among the first `end` nodes of the base and the nodes of the
    /// overlay. `order` compares a node of the overlay with the wanted one.
    fn later(
        self,
        overlay: &Overlay,
        end: usize,
        order: impl Fn(u64, &[u8]) -> Ordering,
    ) -> Option<Node<'a>> {
        let old = overlay.old_nsec3(end).and_then(|at| self.chain.row.nodes().get(at));
        let old = old.and_then(|node| overlay.redirect(address(node)));
        let new = overlay.new_nsec3(order);
        // Hashes sort as the names that encode them (RFC 4648 §7).
        order::later(old.map(|at| self.zone.node(at)), new.map(|at| self.zone.node(at)))
    }
}

/// Number of nodes of a base row that are not above `hash`, and whether the last of them has exactly this
/// hash. `search` is a search for that hash.
pub(super) fn not_after(zone: &Zone, row: &Sorted, hash: &[u8; HASH], search: Search) -> (usize, bool) {
    let nodes = row.nodes();
    let mut after = row.end(search);
    // Among equal keys the rest of the hash decides. Equal keys are rare.
    while let Some(node) = after.checked_sub(1).map(|before| &nodes[before]) {
        if key(node) != search.key() {
            break;
        }
        let its = hash_at(&zone.arena, address(node));
        if its.as_ref() <= Some(hash) {
            return (after, its.as_ref() == Some(hash));
        }
        after -= 1;
    }
    (after, false)
}

impl std::fmt::Debug for Nsec3Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nsec3Chain({} iterations, {} nodes)", self.chain.iterations, self.chain.row.nodes().len())
    }
}

#[cfg(test)]
mod tests {
    use wire::NameBuf;

    use super::*;

    #[test]
    fn hashes_are_read_from_labels() {
        // RFC 5155 appendix A: H(example) with its parameters.
        let hash_of = |text: &str| {
            let owner: NameBuf = text.parse().expect("a name");
            hash_of(owner.as_name().to_lower().as_lower())
        };
        let hash = hash_of("0P9mhaveqvm6t7vbl5lop2u3t2rp3tom.example.").expect("a hash");
        assert_eq!(hash[..4], [0x06, 0x53, 0x68, 0xab]);
        assert_eq!(hash_of("0p9mhaveqvm6t7vbl5lop2u3t2rp3tow."), None, "w is no digit");
        assert_eq!(hash_of("www."), None);
    }
}
