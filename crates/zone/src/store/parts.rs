//! A snapshot taken apart and put together again: what an image holds of it.
//!
//! How the parts lie in a file is told in [`crate::image`]. What comes from there is verified before it is
//! served: see [`super::verify`].

use bytes::Bytes;
use wire::LowerName;
use wire::hash::HashKey;
use wire::rdata::view::Nsec3Param;

use super::Zone;
use super::arena::{Arena, NodeAddress};
use super::finish::read_soa;
use super::index::Index;
use super::node::Node;
use super::nsec3::Chain;
use super::sorted::Sorted;
use super::verify::{self, Counts, Unsound};

/// Raised whenever what the bytes of a part mean changes, so that older images are not read.
pub(crate) const LAYOUT: u32 = 2;

/// The parts of a snapshot. Cloning shares them.
#[derive(Clone)]
pub(crate) struct Parts {
    /// The chunks of the arena.
    pub(crate) chunks: Vec<Bytes>,
    /// The buckets of the index.
    pub(crate) index: Bytes,
    /// The places of the nodes with NSEC.
    pub(crate) nsec: Bytes,
    /// The NSEC3 chain.
    pub(crate) nsec3: Option<ChainParts>,
    /// The address of the apex node.
    pub(crate) apex: NodeAddress,
    /// What is in the arena.
    pub(crate) counts: Counts,
}

/// The parts of an NSEC3 chain.
#[derive(Clone)]
pub(crate) struct ChainParts {
    pub(crate) iterations: u16,
    pub(crate) salt: Box<[u8]>,
    /// The places of its nodes.
    pub(crate) places: Bytes,
}

impl Zone {
    /// What the snapshot is made of.
    pub(crate) fn parts(&self) -> Parts {
        let counts = Counts { records: self.records, nodes: self.nodes, wildcards: self.wildcards };
        Parts {
            chunks: self.arena.chunks().cloned().collect(),
            index: self.index.bytes().clone(),
            nsec: self.nsec.bytes().clone(),
            nsec3: self.nsec3.as_ref().map(Chain::parts),
            apex: self.apex,
            counts,
        }
    }

    /// The snapshot of the zone `apex` made of `parts`, if they fit together; `key` is the one the index was
    /// made under. Verified by `threads` threads.
    pub(crate) fn from_parts(
        parts: Parts,
        apex: LowerName<'_>,
        key: &HashKey,
        threads: usize,
    ) -> Result<Zone, Unsound> {
        verify::parts(&parts, apex, threads)?;
        let Parts { chunks, index, nsec, nsec3, apex, counts } = parts;
        if nsec3.as_ref().is_some_and(|chain| chain.salt.len() > Nsec3Param::MAX_SALT) {
            return Err(Unsound("the salt of the NSEC3 chain is too long"));
        }
        let arena = Arena::of(chunks);
        let (soa, negative_ttl) = read_soa(Node::new(&arena, apex))
            .ok_or(Unsound("the apex has no SOA record that can be read"))?;
        Ok(Zone {
            key: *key,
            arena,
            index: Index::of(index),
            apex,
            soa,
            negative_ttl,
            records: counts.records,
            nodes: counts.nodes,
            wildcards: counts.wildcards,
            nsec: Sorted::of(nsec),
            nsec3: nsec3.map(Chain::of_parts),
            all: std::sync::OnceLock::new(),
        })
    }
}
