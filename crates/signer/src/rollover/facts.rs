//! [`Facts`]: what the caller sees of the version of a zone in service, and of its parent.

use wire::rdata::view::SigAlgorithm;
use wire::{NameBuf, Ttl, UnixTime};

use super::state::KeyId;

/// What is in service. The caller collects it from the version of the zone that clients get, once for each
/// version, and before the next version is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The time of the collection.
    pub now: UnixTime,
    /// The zone; needed only if its KSK is offline.
    pub zone: Option<NameBuf>,
    /// TTL of the DNSKEY RRset. Zero without such a set.
    pub dnskey_ttl: Ttl,
    /// Largest TTL of all RRsets, as far as they are signed in a signed zone, and of negative answers (RFC
    /// 2308 §5).
    pub largest_ttl: Ttl,
    /// [`dnskey_ttl`](Self::dnskey_ttl) of the version before this one; zero if there is none. Only the first
    /// step after the start uses it: from then on the ring itself remembers TTLs, in the states of the keys.
    pub dnskey_ttl_before: Ttl,
    /// [`largest_ttl`](Self::largest_ttl) of the version before this one; zero if there is none. If this
    /// version is unsigned: of all versions that caches may have, as far as the caller knows, since no key
    /// remembers it.
    pub largest_ttl_before: Ttl,
    /// The keys of the ring whose DNSKEY record is in the zone, without REVOKE bit.
    pub published: Vec<KeyId>,
    /// The keys of the ring that sign the DNSKEY RRset.
    pub key_signers: Vec<KeyId>,
    /// The keys of the ring of which each RRset has a valid signature; DNSKEY, CDS and CDNSKEY not counted.
    pub complete: Vec<KeyId>,
    /// The keys of the ring of which one RRset at least has a signature; DNSKEY, CDS and CDNSKEY not counted.
    pub present: Vec<KeyId>,
    /// The keys of the ring whose CDS or CDNSKEY records are in the zone.
    pub cds: Vec<KeyId>,
    /// Algorithms of DNSKEY records whose private keys others have (RFC 8901).
    pub foreign: Vec<SigAlgorithm>,
    /// What the servers of the parent have; `None` if they were not asked, or did not all reply.
    pub parent: Option<ParentView>,
}

/// The DS RRsets on the servers of the parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParentView {
    /// When the first of the servers was asked.
    pub checked: UnixTime,
    /// The keys of the ring whose DS every server has.
    pub everywhere: Vec<KeyId>,
    /// The keys of the ring whose DS at least one server has.
    pub somewhere: Vec<KeyId>,
    /// TTL of the DS RRset; zero if no server has one.
    pub ds_ttl: Ttl,
    /// Whether a server has a DS of a key that is not in the ring.
    pub any_other_ds: bool,
}
