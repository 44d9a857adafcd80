//! What is asked for, what has answered, and the agent for reports of failures.

use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use wire::{Class, LowerNameBuf, Type};

/// A question, with the two bits that make the answer another one. Those that are equal share one lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKey {
    /// QNAME.
    pub name: LowerNameBuf,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// DO: DNSSEC records are wanted (RFC 3225).
    pub dnssec_ok: bool,
    /// CD: unvalidated data is wanted, too (RFC 4035 §3.2.2).
    pub checking_disabled: bool,
}

impl Hash for QueryKey {
    /// The name in one piece, for speed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.name.as_lower().as_wire());
        let bits = u8::from(self.dnssec_ok) | u8::from(self.checking_disabled) << 1;
        state.write_u64(u64::from(self.qtype.0) << 24 | u64::from(self.qclass.0) << 8 | u64::from(bits));
    }
}

/// Who has given an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The server at this address.
    Server(SocketAddr),
    /// The [copy](crate::LocalCopy) of the zone on this machine.
    Copy,
}

impl AnsweredBy {
    /// The server's address, if it was one.
    pub fn server(self) -> Option<SocketAddr> {
        match self {
            AnsweredBy::Server(address) => Some(address),
            AnsweredBy::Copy => None,
        }
    }
}

/// The agent that the servers of a zone name for reports of what cannot be resolved or validated there
/// (RFC 9567). It is not validated: OPT is not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAgent {
    /// The agent domain; never the root.
    pub domain: LowerNameBuf,
    /// The zone whose servers say so.
    pub zone: LowerNameBuf,
}
