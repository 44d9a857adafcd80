//! Local zones: copies, which replace the zones' servers (RFC 8806), and zones served to clients.
//!
//! A lookup of a name below a delegation of a served zone starts at that delegation.

use std::fmt;
use std::sync::Arc;

use wire::{LowerName, LowerNameBuf};

use crate::query_key::QueryKey;

/// A local copy of a zone. It responds at once, and must be fast.
pub trait ZoneCopy: Send + Sync {
    /// Writes into `message` the response of an authoritative server of the zone to the query: untruncated,
    /// without OPT, with AA in an answer. Returns whether there is a response; if not, the zone's servers are
    /// queried.
    fn respond(&self, query_key: &QueryKey, message: &mut Vec<u8>) -> bool;
}

/// A [`ZoneCopy`] of the zone that a rule starts from. Its responses are checked and limited like those of
/// the zone's servers. Two are equal if they share one object.
#[derive(Clone)]
pub struct LocalCopy(Arc<dyn ZoneCopy>);

impl LocalCopy {
    /// Wraps a copy.
    pub fn new(copy: Arc<dyn ZoneCopy>) -> Self {
        LocalCopy(copy)
    }

    pub(crate) fn respond(&self, query_key: &QueryKey, message: &mut Vec<u8>) -> bool {
        self.0.respond(query_key, message)
    }
}

impl fmt::Debug for LocalCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalCopy")
    }
}

impl PartialEq for LocalCopy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LocalCopy {}

/// Zones served by this server. Names in them are answered before a request gets to the resolver; names below
/// their delegations are resolved from the servers that the delegations name, whatever other servers say.
pub trait ServedZones: Send + Sync {
    /// Writes the closest zone's response for `name` into `message`: a referral, if the zone delegates the
    /// name. Returns the zone's name, or `None` if no zone holds the name.
    fn refer(&self, name: LowerName<'_>, message: &mut Vec<u8>) -> Option<LowerNameBuf>;
}

/// The [`ServedZones`] of this server. Two are equal if they share one object.
#[derive(Clone)]
pub struct OwnZones(Arc<dyn ServedZones>);

impl OwnZones {
    /// Wraps the zones.
    pub fn new(zones: Arc<dyn ServedZones>) -> Self {
        OwnZones(zones)
    }

    pub(crate) fn refer(&self, name: LowerName<'_>, message: &mut Vec<u8>) -> Option<LowerNameBuf> {
        self.0.refer(name, message)
    }
}

impl fmt::Debug for OwnZones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnZones")
    }
}

impl PartialEq for OwnZones {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OwnZones {}
