//! Zones on this machine: copies, which are asked in place of the zones' servers (RFC 8806), and zones that
//! are served to clients.
//!
//! A lookup of a name that a served zone delegates begins at that delegation.

use std::fmt;
use std::sync::Arc;

use wire::{LowerName, LowerNameBuf};

use crate::query_key::QueryKey;

/// A copy of a zone. It answers at once, and is quick about it.
pub trait ZoneCopy: Send + Sync {
    /// Puts the response into `message` that an authoritative server of the zone would send to this question:
    /// whole, however long, without OPT, with AA where it is an answer. Returns whether there is one; if not,
    /// the zone's servers are asked.
    fn respond(&self, query_key: &QueryKey, message: &mut Vec<u8>) -> bool;
}

/// A [`ZoneCopy`] of the zone that a rule begins with. What it says is judged as what the zone's servers say,
/// and it may say no more than they. Two are equal if they are the same.
#[derive(Clone)]
pub struct LocalCopy(Arc<dyn ZoneCopy>);

impl LocalCopy {
    /// This copy.
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

/// Zones that are served on this machine. Names in them are answered from them before a resolver is asked;
/// those that they delegate are resolved from the servers that they name, whatever servers elsewhere say of
/// them.
pub trait ServedZones: Send + Sync {
    /// Puts into `message` what the closest of these zones says of `name`: a referral, if it delegates that.
    /// Returns the zone's name, or nothing if no zone holds the name.
    fn refer(&self, name: LowerName<'_>, message: &mut Vec<u8>) -> Option<LowerNameBuf>;
}

/// [`ServedZones`] of this machine. Two are equal if they are the same.
#[derive(Clone)]
pub struct OwnZones(Arc<dyn ServedZones>);

impl OwnZones {
    /// These zones.
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
