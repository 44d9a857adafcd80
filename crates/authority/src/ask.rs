//! What is asked.

use wire::hash::{HashKey, HashedName};
use wire::{Name, Type};
use zone::catalog::Catalog;

use crate::memo::HashingLimit;

/// What is asked, and of whom.
pub struct Ask<'a> {
    /// QNAME as the client wrote it; it stands in the message at
    /// [`Offset::QNAME`](wire::message::Offset::QNAME).
    pub name: Name<'a>,
    /// QNAME, hashed under `key`.
    pub qname: &'a HashedName,
    /// QTYPE.
    pub qtype: Type,
    /// Whether DNSSEC records are wanted.
    pub dnssec_ok: bool,
    /// All zones served, for chains that lead from one to another.
    pub catalog: &'a Catalog,
    /// The key under which zones were built.
    pub key: &'a HashKey,
    /// Says whether names that a zone delegates are resolved for the client, who then gets no referral. Asked
    /// at a cut only.
    pub resolves: &'a dyn Fn() -> bool,
    /// CNAME and DNAME links followed, at the most.
    pub max_chain: u8,
    /// What hashing names for zones with many NSEC3 iterations may cost.
    pub hashing: HashingLimit,
}
