//! The key of a lookup, the source of an answer, and the agent for error reports.

use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use wire::{Class, LowerNameBuf, Type};

/// A query with the two bits that affect its answer. Requests with equal keys share one lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKey {
    /// QNAME.
    pub name: LowerNameBuf,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// DO: DNSSEC records are requested (RFC 3225).
    pub dnssec_ok: bool,
    /// CD: unvalidated data is acceptable (RFC 4035 §3.2.2).
    pub checking_disabled: bool,
}

impl Hash for QueryKey {
    /// Hashes the name in one piece, for speed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.name.as_lower().as_wire());
        let bits = u8::from(self.dnssec_ok) | u8::from(self.checking_disabled) << 1;
        state.write_u64(u64::from(self.qtype.0) << 24 | u64::from(self.qclass.0) << 8 | u64::from(bits));
    }
}

/// The source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The server at this address.
    Server(SocketAddr),
    /// The [local copy](crate::LocalCopy) of the zone.
    Copy,
}

impl AnsweredBy {
    /// Returns the server's address; `None` for a copy.
    pub fn server(self) -> Option<SocketAddr> {
        match self {
            AnsweredBy::Server(address) => Some(address),
            AnsweredBy::Copy => None,
        }
    }
}

/// The agent that a zone's servers name for reports of failed lookups and validations there (RFC 9567). It is
/// not validated: OPT is not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAgent {
    /// The agent domain; never the root.
    pub domain: LowerNameBuf,
    /// The zone whose servers name it.
    pub zone: LowerNameBuf,
}
