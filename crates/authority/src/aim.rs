//! What answering a batch of questions will read, prefetched pass by pass: a dependent read of a large zone costs a
//! hundred nanoseconds and more, but those of a batch can be under way together.
//!
//! | pass | reads | prefetches |
//! |---|---|---|
//! | 0 | the zone | the lines of its index for the name and for its parent |
//! | 1 | those lines | the nodes they name, and the apex |
//! | 2 | those nodes | the addresses of the hosts a cut delegates to |

use wire::hash::HashedName;
use wire::{NameHash, Type};
use zone::catalog::{Catalog, Located};
use zone::store::{NodeAhead, Zone};

use crate::lookup::zone_for;

/// Passes over a batch.
pub const PASSES: usize = 3;

/// Names whose nodes are prefetched for one question: the name itself and its parent, the usual cut or encloser.
const NAMES: usize = 2;

/// Where in which zone a question's answer will be looked for.
pub struct Aim {
    located: Located,
    /// Hashes of the names, as far as they lie below the apex.
    hashes: [NameHash; NAMES],
    nodes: [Option<NodeAhead>; NAMES],
}

impl Aim {
    /// The aim of a question, if a zone of `catalog` holds its name. Prefetches the zone.
    #[inline]
    pub fn find(catalog: &Catalog, qname: &HashedName, qtype: Type, _dnssec_ok: bool) -> Option<Self> {
        let located = zone_for(catalog, qname, qtype)?;
        if catalog.is_large() {
            catalog.ahead_located(located);
        }
        let hashes = std::array::from_fn(|skip| qname.hash(skip));
        Some(Aim { located, hashes, nodes: [None; NAMES] })
    }

    /// The zone.
    #[inline]
    pub fn located(&self) -> Located {
        self.located
    }

    #[inline]
    fn hashes(&self) -> impl Iterator<Item = NameHash> {
        self.hashes.into_iter().take(self.located.below as usize)
    }

    #[inline]
    fn nodes_in(&self, zone: &Zone) -> [Option<NodeAhead>; NAMES] {
        let mut hashes = self.hashes();
        std::array::from_fn(|_| hashes.next().and_then(|hash| zone.ahead_node(hash)))
    }
}

/// Does one pass for all aims of a batch. All aims are of `catalog`.
#[inline]
pub fn prefetch(catalog: &Catalog, pass: usize, aims: &mut [Aim]) {
    for aim in aims {
        let Some(zone) = catalog.zone(aim.located) else { continue };
        match pass {
            0 => aim.hashes().for_each(|hash| zone.ahead(hash)),
            1 => {
                aim.nodes = aim.nodes_in(zone);
                zone.ahead_apex();
            }
            _ => aim.nodes.into_iter().flatten().for_each(|node| zone.ahead_glue(node)),
        }
    }
}
