//! Where an answer is looked up, and the data that it is written from, prefetched pass by pass: a dependent
//! read in a large zone costs a hundred nanoseconds and more, but those of a batch can overlap.
//!
//! | pass | reads | prefetches |
//! |---|---|---|
//! | 0 | the zone | the cache lines of its index for the name and for its parent |
//! | 1 | those lines | the nodes that they refer to, and the apex |
//! | 2 | those nodes | the addresses of the hosts that a cut delegates to, and what the search for a denial record reads first |
//! | 3, 4 | what the search prefetched | what the search reads next, and at last the node with the record |

use wire::hash::HashedName;
use wire::{NameHash, Type};
use zone::catalog::{Catalog, Located};
use zone::store::{Node, NodeFlags, PrefetchedNode, Search, Zone};

use crate::lookup::zone_for;
use crate::search::DenialSearch;

/// Number of passes over a batch.
pub const PASSES: usize = 2 + Search::STEPS;

/// Names per query whose nodes are prefetched: QNAME and its parent, the usual cut or closest encloser.
const NAMES: usize = 2;

/// The zone and place where the answer to a query is looked up, with the results of the passes.
pub struct AnswerLocation {
    located: Located,
    qtype: Type,
    dnssec_ok: bool,
    /// Number of the catalog, for the caller.
    catalog: u8,
    nodes: [Option<PrefetchedNode>; NAMES],
    search: Option<DenialSearch>,
}

/// A node that will most likely be read, and its flags.
type Seen = (PrefetchedNode, NodeFlags);

/// Reads the flags of a prefetched node. If it is a cut, prefetches the addresses of its hosts.
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

impl AnswerLocation {
    /// Returns the location of a query, if a zone of `catalog` covers its name. Prefetches the zone.
    #[inline]
    pub fn find(catalog: &Catalog, qname: &HashedName, qtype: Type, dnssec_ok: bool) -> Option<Self> {
        Self::find_in(catalog, 0, qname, qtype, dnssec_ok)
    }

    /// The same for callers with several catalogs, who number them; [`catalog`](Self::catalog) returns the
    /// number.
    #[inline]
    pub fn find_in(
        catalog: &Catalog,
        number: u8,
        qname: &HashedName,
        qtype: Type,
        dnssec_ok: bool,
    ) -> Option<Self> {
        let located = zone_for(catalog, qname, qtype)?;
        if catalog.is_large() {
            catalog.prefetch_located(located);
        }
        Some(AnswerLocation {
            located,
            qtype,
            dnssec_ok,
            catalog: number,
            nodes: [None; NAMES],
            search: None,
        })
    }

    /// Returns the zone's place in the catalog, and where in the zone the name is.
    #[inline]
    pub fn located(&self) -> Located {
        self.located
    }

    /// Returns the number of the catalog that the location was found in.
    #[inline]
    pub fn catalog(&self) -> u8 {
        self.catalog
    }

    /// Runs one pass, from 0 to [`PASSES`], for the query that this location was found for in this catalog.
    /// Returns whether the next pass has anything to do.
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

    /// Begins the search for a denial record, if the answer will most likely need one.
    #[inline(never)]
    fn begin_search(&mut self, zone: &Zone, qname: &HashedName, seen: [Option<Seen>; NAMES]) {
        self.search = self.denied(zone, seen).and_then(|skip| DenialSearch::new(zone, qname, skip));
    }

    /// Returns hashes of the names whose nodes are prefetched, as far as they are below the apex.
    #[inline]
    fn hashes<'n>(&self, qname: &'n HashedName) -> impl Iterator<Item = NameHash> + use<'n> {
        (0..self.located.below().min(NAMES)).map(|skip| qname.hash(skip))
    }

    /// Returns how many leftmost labels to strip from QNAME for the name that a denial record will most
    /// likely be about.
    #[inline]
    fn denied(&self, zone: &Zone, [own, parent]: [Option<Seen>; NAMES]) -> Option<usize> {
        // With NSEC, a name that has records has its own NSEC.
        let hashed = zone.nsec3().is_some();
        let insecure = |cut| hashed && zone.candidate(cut).rrset(Type::DS).is_none();
        match (own, parent) {
            (Some((own, flags)), _) if flags.contains(NodeFlags::CUT) => insecure(own).then_some(0),
            (Some((_, flags)), _) if flags.contains(NodeFlags::EMPTY) => Some(0),
            (Some((own, _)), _) => (hashed && !self.is_answered_at(zone.candidate(own))).then_some(0),
            (None, Some((cut, flags))) if flags.contains(NodeFlags::CUT) => insecure(cut).then_some(1),
            // NSEC covers the name itself, NSEC3 the next closer name.
            (None, Some(_)) => Some(0),
            (None, None) => match self.located.below() {
                0 => None,
                below if !hashed || below == 1 => Some(0),
                2 => Some(1),
                _ => None,
            },
        }
    }

    /// Whether the node has records that answer the query.
    #[inline]
    fn is_answered_at(&self, node: Node<'_>) -> bool {
        let has = |rtype| node.rrset(rtype).is_some();
        matches!(self.qtype, Type::ANY | Type::RRSIG) || has(self.qtype) || has(Type::CNAME)
    }

    /// Returns the search that the passes have begun.
    #[inline]
    pub(crate) fn search(&self) -> Option<&DenialSearch> {
        self.search.as_ref()
    }
}
