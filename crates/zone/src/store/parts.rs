//! Splits a snapshot into parts and rebuilds it: the contents of an image.
//!
//! [`crate::image`] defines the layout of the parts in a file. Parts from a file are verified before they are
//! in service: see [`super::verify`].

use std::sync::OnceLock;

use bytes::Bytes;
use wire::LowerName;
use wire::hash::HashKey;
use wire::rdata::view::Nsec3Param;

use super::Zone;
use super::arena::{Arena, NodeAddress};
use super::chains::Chains;
use super::finish::read_soa;
use super::index::Index;
use super::node::Node;
use super::nsec3::StoredChain;
use super::sorted::Sorted;
use super::verify::{self, Unsound, ZoneCounts};

/// Incremented whenever the meaning of a part's bytes changes, so that older images are not read.
pub(crate) const LAYOUT: u32 = 3;

/// The parts of a snapshot. Clones share them.
#[derive(Clone)]
pub(crate) struct ZoneParts {
    /// The chunks of the arena.
    pub(crate) chunks: Vec<Bytes>,
    /// The buckets of the index.
    pub(crate) index: Bytes,
    /// The nodes with NSEC, in canonical order and with their sort keys.
    pub(crate) nsec: Bytes,
    /// The NSEC3 chain.
    pub(crate) nsec3: Option<Nsec3Parts>,
    /// The address of the apex node.
    pub(crate) apex: NodeAddress,
    /// Counts of the arena.
    pub(crate) counts: ZoneCounts,
}

/// The parts of an NSEC3 chain.
#[derive(Clone)]
pub(crate) struct Nsec3Parts {
    pub(crate) iterations: u16,
    pub(crate) salt: Box<[u8]>,
    /// The addresses of its nodes.
    pub(crate) nodes: Bytes,
}

impl Zone {
    /// Returns the parts of the snapshot's base.
    pub(crate) fn parts(&self) -> ZoneParts {
        let counts = ZoneCounts { records: self.records, nodes: self.nodes, wildcards: self.wildcards };
        ZoneParts {
            chunks: self.arena.chunks().cloned().collect(),
            index: self.index.bytes(),
            nsec: self.chains.nsec.bytes().clone(),
            nsec3: self.chains.nsec3.as_ref().map(StoredChain::parts),
            apex: self.apex,
            counts,
        }
    }

    /// Returns the snapshot of the zone `apex` from `parts`, after verifying them on `threads` threads; `key`
    /// is the hash key of the index.
    pub(crate) fn from_parts(
        parts: ZoneParts,
        apex: LowerName<'_>,
        key: &HashKey,
        threads: usize,
    ) -> Result<Zone, Unsound> {
        verify::parts(&parts, apex, threads)?;
        let ZoneParts { chunks, index, nsec, nsec3, apex, counts } = parts;
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
            signed: false,
            chainless: false,
            chains: Chains::shared(Sorted::of(nsec), nsec3.map(StoredChain::of_parts)),
            all: OnceLock::new(),
        }
        .knowing_if_signed())
    }
}
