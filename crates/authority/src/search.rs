//! The search for a denial record, begun before the answer that will most likely need it.
//!
//! A negative answer carries the record that proves it, which a search through the whole chain finds: half a
//! dozen reads, each of which waits for the one before. The searches of all queries of a batch begin while it
//! is prefetched, so they wait together; and the NSEC3 hash is computed once.

use crate::memo::is_costly;
use dnssec::nsec3::{self, HASH_LEN};
use wire::LowerName;
use wire::hash::HashedName;
use zone::store::{Node, Nsec3Chain, NsecChain, Search, Zone};

/// The state of a search.
#[derive(Clone, Copy)]
pub(crate) struct DenialSearch {
    /// How many leftmost labels of QNAME the name searched for lacks.
    skip: u8,
    /// The hash searched for, if the zone has NSEC3.
    hash: [u8; HASH_LEN],
    search: Search,
}

impl DenialSearch {
    /// Begins the search for `qname` without its `skip` leftmost labels, in the zone's chain.
    pub(crate) fn new(zone: &Zone, qname: &HashedName, skip: usize) -> Option<Self> {
        let name = qname.suffix(skip);
        let (hash, search) = match zone.nsec3() {
            // Costly hashes are limited, which is decided when the answer is written.
            Some(chain) if is_costly(chain) => return None,
            Some(chain) => {
                let hash = nsec3::hash(name, chain.salt(), chain.iterations());
                (hash, chain.search(&hash))
            }
            None => ([0; HASH_LEN], zone.nsec()?.search(name)),
        };
        let mut begun = DenialSearch { skip: skip as u8, hash, search };
        begun.advance(zone);
        Some(begun)
    }

    /// Takes the search one step further.
    #[inline]
    pub(crate) fn advance(&mut self, zone: &Zone) {
        if let Some(chain) = zone.nsec3() {
            chain.advance(&mut self.search);
        } else if let Some(chain) = zone.nsec() {
            chain.advance(&mut self.search);
        }
    }
}

/// Returns the NSEC node for `qname`: its own, or that of the name before it. `begun` is used if it searches
/// for this name.
#[inline]
pub(crate) fn nsec<'z>(
    chain: NsecChain<'z>,
    qname: &HashedName,
    begun: Option<&DenialSearch>,
) -> Option<Node<'z>> {
    let name = qname.as_lower();
    match begun {
        Some(begun) if begun.skip == 0 => chain.end(name, begun.search),
        _ => chain.covering(name),
    }
}

/// Returns the NSEC3 node for `qname` without its `skip` leftmost labels, and whether it matches that name
/// rather than covers it. `begun` is used if it searches for this name; otherwise `hash` computes the hash.
#[inline]
pub(crate) fn nsec3<'z>(
    chain: Nsec3Chain<'z>,
    qname: &HashedName,
    skip: usize,
    begun: Option<&DenialSearch>,
    hash: impl FnOnce(LowerName<'_>) -> [u8; HASH_LEN],
) -> (Node<'z>, bool) {
    let (hash, search) = match begun {
        Some(begun) if usize::from(begun.skip) == skip => (begun.hash, begun.search),
        _ => {
            let hash = hash(qname.suffix(skip));
            (hash, chain.search(&hash))
        }
    };
    chain.end(&hash, search)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memo::tests::zone;
    use wire::NameBuf;
    use wire::hash::HashKey;

    #[test]
    fn hashes_that_a_long_salt_makes_costly_were_computed_before_their_limit_was_asked() {
        let name: NameBuf = "a.example.".parse().expect("a name");
        let mut qname = HashedName::new();
        qname.set(&HashKey::new([1, 2, 3]), name.as_name());
        let begins =
            |salt: &[u8], iterations| DenialSearch::new(&zone(salt, iterations), &qname, 0).is_some();
        assert!(begins(&[], 100) && begins(&[7; 255], 19));
        assert!(!begins(&[], 101) && !begins(&[7; 255], 20));
    }
}
