//! The input of an answer.

use wire::hash::{HashKey, HashedName};
use wire::{Name, Type};
use zone::catalog::{Catalog, ZoneEntry};

use crate::memo::HashingLimit;

/// The query, and the zones that answer it.
pub struct Ask<'a> {
    /// QNAME as the client wrote it; in the message it is at [`Offset::QNAME`](wire::message::Offset::QNAME).
    pub name: Name<'a>,
    /// QNAME, hashed with `key`.
    pub qname: &'a HashedName,
    /// QTYPE.
    pub qtype: Type,
    /// Whether the client requests DNSSEC records.
    pub dnssec_ok: bool,
    /// Whether the client accepts NXDOMAIN with a compact denial (CO, RFC 9824 §5.1). Few answers depend on
    /// it.
    pub compact_ok: &'a dyn Fn() -> bool,
    /// All zones in service, for chains that lead from one to another.
    pub catalog: &'a Catalog,
    /// The hash key of the zones.
    pub key: &'a HashKey,
    /// Returns whether names that a zone delegates are resolved for the client, which then gets no referral.
    /// Called only at a cut.
    pub resolves: &'a dyn Fn() -> bool,
    /// Whether a chain may continue in this zone. If not, the answer ends with the alias that leads there.
    pub may_enter: &'a dyn Fn(&ZoneEntry) -> bool,
    /// Most CNAME and DNAME links followed.
    pub max_chain: u8,
    /// Limit for hashing names of zones with many NSEC3 iterations.
    pub hashing: HashingLimit,
}
