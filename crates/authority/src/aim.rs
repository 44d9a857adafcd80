//! Where an answer will be looked for, and what it will be made of, prefetched pass by pass: a dependent read
//! of a large zone costs a hundred nanoseconds and more, but those of a batch can be under way together.
//!
//! | pass | reads | prefetches |
//! |---|---|---|
//! | 0 | the zone | the lines of its index for the name and for its parent |
//! | 1 | those lines | the nodes they name, and the apex |
//! | 2 | those nodes | the addresses of the hosts a cut delegates to, and what the search for a denial record reads first |
//! | 3, 4 | what the search has come to | what it reads next, and at last the node with the record |

use wire::hash::HashedName;
use wire::{NameHash, Type};
use zone::catalog::{Catalog, Located};
use zone::store::{Node, NodeFlags, PrefetchedNode, Search, Zone};

use crate::lookup::zone_for;
use crate::search::DenialSearch;

/// Passes over a batch.
pub const PASSES: usize = 2 + Search::STEPS;

/// Names whose nodes are prefetched for one question: the name itself and its parent, the usual cut or
/// encloser.
const NAMES: usize = 2;

/// Where in which zone a question's answer will be looked for, and what the passes have found out about it.
pub struct Aim {
    located: Located,
    qtype: Type,
    dnssec_ok: bool,
    nodes: [Option<PrefetchedNode>; NAMES],
    search: Option<DenialSearch>,
}

/// A node that will most likely be read, and its flags.
type Seen = (PrefetchedNode, NodeFlags);

/// Reads the flags of a node that was prefetched. Prefetches the addresses of the hosts, if it is a cut.
#[inline]
fn see(zone: &Zone, node: PrefetchedNode) -> Seen {
    let flags = zone.candidate_flags(node);
    if flags.contains(NodeFlags::CUT) {
        prefetch_glue(zone, node);
    }
    (node, flags)
}

#[inline(never)]
fn prefetch_glue(zone: &Zone, cut: PrefetchedNode) {
    zone.prefetch_glue(zone.candidate(cut));
}

impl Aim {
    /// The aim of a question, if a zone of `catalog` holds its name. Prefetches the zone.
    #[inline]
    pub fn find(catalog: &Catalog, qname: &HashedName, qtype: Type, dnssec_ok: bool) -> Option<Self> {
        let located = zone_for(catalog, qname, qtype)?;
        if catalog.is_large() {
            catalog.prefetch_located(located);
        }
        Some(Aim { located, qtype, dnssec_ok, nodes: [None; NAMES], search: None })
    }

    /// The zone.
    #[inline]
    pub fn located(&self) -> Located {
        self.located
    }

    /// Does one pass, from 0 to [`PASSES`], for the question that this aim was found for in this catalog.
    /// Returns whether the pass after it has anything to do.
    #[inline]
    pub fn prefetch(&mut self, catalog: &Catalog, pass: usize, qname: &HashedName) -> bool {
        let Some(zone) = catalog.zone(self.located) else { return false };
        match pass {
            0 => self.hashes(qname).for_each(|hash| zone.prefetch_index(hash)),
            1 => {
                let below = self.located.below();
                for (skip, node) in self.nodes.iter_mut().enumerate().take(below) {
                    *node = zone.prefetch_node(qname.hash(skip));
                }
                zone.prefetch_apex();
            }
            2 => {
                let [own, parent] = self.nodes;
                let seen = [own.map(|node| see(zone, node)), parent.map(|node| see(zone, node))];
                if self.dnssec_ok && zone.is_signed() {
                    self.begin_search(zone, qname, seen);
                }
                return self.search.is_some();
            }
            _ => {
                let Some(search) = &mut self.search else { return false };
                search.advance(zone);
            }
        }
        true
    }

    /// Begins the search for a denial record, if one will most likely be needed.
    #[inline(never)]
    fn begin_search(&mut self, zone: &Zone, qname: &HashedName, seen: [Option<Seen>; NAMES]) {
        self.search = self.denied(zone, seen).and_then(|skip| DenialSearch::new(zone, qname, skip));
    }

    /// Hashes of the names whose nodes are prefetched, as far as they lie below the apex.
    #[inline]
    fn hashes<'n>(&self, qname: &'n HashedName) -> impl Iterator<Item = NameHash> + use<'n> {
        (0..self.located.below().min(NAMES)).map(|skip| qname.hash(skip))
    }

    /// How many labels less than the name asked for the name has that a denial record will most likely be
    /// about.
    #[inline]
    fn denied(&self, zone: &Zone, [own, parent]: [Option<Seen>; NAMES]) -> Option<usize> {
        // With NSEC a name that has records has one for itself.
        let hashed = zone.nsec3().is_some();
        let insecure = |cut| hashed && zone.candidate(cut).rrset(Type::DS).is_none();
        match (own, parent) {
            (Some((own, flags)), _) if flags.contains(NodeFlags::CUT) => insecure(own).then_some(0),
            (Some((_, flags)), _) if flags.contains(NodeFlags::EMPTY) => Some(0),
            (Some((own, _)), _) => (hashed && !self.is_answered_at(zone.candidate(own))).then_some(0),
            (None, Some((cut, flags))) if flags.contains(NodeFlags::CUT) => insecure(cut).then_some(1),
            // NSEC covers the name itself, NSEC3 the one next below what is there.
            (None, Some(_)) => Some(0),
            (None, None) => match self.located.below() {
                0 => None,
                below if !hashed || below == 1 => Some(0),
                2 => Some(1),
                _ => None,
            },
        }
    }

    /// Whether the node has something to answer the question with.
    #[inline]
    fn is_answered_at(&self, node: Node<'_>) -> bool {
        let has = |rtype| node.rrset(rtype).is_some();
        matches!(self.qtype, Type::ANY | Type::RRSIG) || has(self.qtype) || has(Type::CNAME)
    }

    /// The search that the passes have begun.
    #[inline]
    pub(crate) fn search(&self) -> Option<&DenialSearch> {
        self.search.as_ref()
    }
}
