//! The NSEC3 chain of a snapshot (RFC 5155): sorted hashes, searched by interpolation.
//!
//! Computes no hashes: callers bring the 20 bytes of SHA-1 and get the node.

use bytes::Bytes;
use wire::rdata::view::{Nsec3, Nsec3Param};
use wire::{LowerName, Type};

use super::arena::{Arena, NodeAddress};
use super::memory::{self, Memory};
use super::parts::ChainParts;
use super::{Node, Zone, blob};

/// Bytes of a SHA-1 hash, the only NSEC3 hash algorithm (RFC 5155 §11).
pub(super) const HASH: usize = 20;

/// One chain: parameters and, in the order of the hashes, their first eight bytes (as little-endian `u64`)
/// and the addresses of their nodes (as little-endian `u32`).
pub(super) struct Chain {
    iterations: u16,
    salt: Box<[u8]>,
    prefixes: Bytes,
    nodes: Bytes,
}

impl Chain {
    /// The chain among the nodes at `owners` (hash prefix and address of every node with NSEC3) that the
    /// NSEC3PARAM at `apex` tells of; the first one with members if there are several.
    pub(super) fn new(arena: &Arena, apex: Node<'_>, mut owners: Vec<(u64, NodeAddress)>) -> Option<Chain> {
        let params = apex.rrset(Type::NSEC3PARAM)?;
        let order = |a: &(u64, NodeAddress), b: &(u64, NodeAddress)| {
            a.0.cmp(&b.0).then_with(|| hash_at(arena, a.1).cmp(&hash_at(arena, b.1)))
        };
        if !owners.is_sorted_by(|a, b| order(a, b).is_le()) {
            owners.sort_unstable_by(order);
        }
        let params = params.rdatas().filter_map(|rdata| Nsec3Param::read(rdata.compiled()).ok());
        // FLAGS other than zero mean that the chain is not to be used (RFC 5155 §4.1.2).
        let mut usable = params.filter(|param| param.flags == 0 && param.algorithm == Nsec3Param::SHA1);
        usable.find_map(|param| Self::of(arena, &param, &owners))
    }

    fn of(arena: &Arena, param: &Nsec3Param<'_>, owners: &[(u64, NodeAddress)]) -> Option<Chain> {
        let belongs = |at: NodeAddress| {
            let set = Node::new(arena, at).rrset(Type::NSEC3);
            let params = set.into_iter().flat_map(|set| set.rdatas());
            let mut params = params.filter_map(|rdata| Nsec3::read_param(rdata.compiled()).ok());
            params.any(|its| its.hashes_as(param))
        };
        let mut prefixes = Memory::growing(8 * owners.len());
        let mut nodes = Memory::growing(4 * owners.len());
        for &(prefix, at) in owners.iter().filter(|&&(_, at)| belongs(at)) {
            prefixes.extend(&prefix.to_le_bytes());
            nodes.extend(&at.stored());
        }
        let (iterations, salt) = (param.iterations, param.salt.into());
        let (prefixes, nodes) = (prefixes.freeze(), nodes.freeze());
        (!nodes.is_empty()).then_some(Chain { iterations, salt, prefixes, nodes })
    }

    /// A chain of verified parts.
    pub(super) fn of_parts(parts: ChainParts) -> Chain {
        let ChainParts { iterations, salt, prefixes, nodes } = parts;
        Chain { iterations, salt, prefixes, nodes }
    }

    /// What the chain is made of.
    pub(super) fn parts(&self) -> ChainParts {
        ChainParts {
            iterations: self.iterations,
            salt: self.salt.clone(),
            prefixes: self.prefixes.clone(),
            nodes: self.nodes.clone(),
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.salt.len() + memory::taken(self.prefixes.len()) + memory::taken(self.nodes.len())
    }

    /// First bytes of the hashes.
    fn prefixes(&self) -> &[[u8; 8]] {
        self.prefixes.as_chunks().0
    }

    /// Addresses of the nodes.
    fn nodes(&self) -> &[[u8; 4]] {
        self.nodes.as_chunks().0
    }
}

/// The hash that a node's first label spells in base 32 with the extended hex alphabet (RFC 4648 §7).
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
    chain: &'a Chain,
}

impl<'a> Nsec3Chain<'a> {
    pub(super) fn new(zone: &'a Zone, chain: &'a Chain) -> Self {
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

    /// The node whose owner spells exactly `hash`.
    pub fn matching(self, hash: &[u8; HASH]) -> Option<Node<'a>> {
        let node = self.covering(hash);
        (hash_of(node.owner()).as_ref() == Some(hash)).then_some(node)
    }

    /// The node whose owner hash is `hash` or comes closest before it; the last of the chain if none does.
    ///
    /// If [`matching`](Self::matching) has no node for `hash`, this one's NSEC3 is the one that covers it
    /// (RFC 5155 §1.3), provided that the chain is whole.
    pub fn covering(self, hash: &[u8; HASH]) -> Node<'a> {
        let wanted = prefix(hash);
        let (prefixes, nodes) = (self.chain.prefixes(), self.chain.nodes());
        let mut after = first_above(prefixes, wanted);
        // Among equal prefixes the rest of the hash decides; there is hardly ever more than one.
        while let Some(before) = after.checked_sub(1) {
            let same = u64::from_le_bytes(prefixes[before]) == wanted;
            let at = NodeAddress::of(nodes[before]);
            let later = same && hash_at(&self.zone.arena, at).as_ref() > Some(hash);
            if !later {
                break;
            }
            after = before;
        }
        let last = nodes.len() - 1;
        self.zone.node(NodeAddress::of(nodes[after.checked_sub(1).unwrap_or(last)]))
    }
}

impl std::fmt::Debug for Nsec3Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nsec3Chain({} iterations, {} nodes)", self.chain.iterations, self.chain.nodes().len())
    }
}

/// The first position whose value is greater than `wanted`.
///
/// Three steps of interpolation come close if the values are spread evenly, as hashes are; then the window is
/// doubled until it holds the place, so that uneven values cost a binary search and no more.
fn first_above(values: &[[u8; 8]], wanted: u64) -> usize {
    let len = values.len();
    let scale = |difference: u64| ((difference as u128 * len as u128) >> 64) as usize;
    let mut guess = scale(wanted).min(len.saturating_sub(1));
    for _ in 0..2 {
        let Some(&value) = values.get(guess) else { return 0 };
        let value = u64::from_le_bytes(value);
        guess = match wanted.checked_sub(value) {
            Some(more) => (guess + scale(more)).min(len - 1),
            None => guess.saturating_sub(scale(value - wanted)),
        };
    }
    let (mut low, mut high, mut step) = (guess, guess, 4);
    while low > 0 && u64::from_le_bytes(values[low - 1]) > wanted {
        low = low.saturating_sub(step);
        step *= 2;
    }
    step = 4;
    while high < len && u64::from_le_bytes(values[high]) <= wanted {
        high = (high + step).min(len);
        step *= 2;
    }
    low + values[low..high].partition_point(|&value| u64::from_le_bytes(value) <= wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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

    proptest! {
        #[test]
        fn interpolation_finds_what_a_plain_search_finds(
            mut values in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..9, Just(u64::MAX)], 0..200),
            wanted in prop_oneof![any::<u64>(), 0u64..9, Just(u64::MAX)],
            pick: prop::sample::Index,
        ) {
            values.sort_unstable();
            let exact = if values.is_empty() { wanted } else { values[pick.index(values.len())] };
            let stored: Vec<[u8; 8]> = values.iter().map(|v| v.to_le_bytes()).collect();
            for wanted in [wanted, exact, exact.saturating_sub(1), exact.saturating_add(1)] {
                prop_assert_eq!(first_above(&stored, wanted), values.partition_point(|&v| v <= wanted));
            }
        }
    }
}
