//! The key of a lookup, the partition that it is in, the source of an answer, and the agent for error
//! reports.

use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use wire::{Class, LowerNameBuf, Type};

/// Clients with the same set of rules of their own. For the names that such a rule covers, lookups and cached
/// answers of different partitions are kept apart; all other names belong to [`SHARED`](Self::SHARED).
///
/// The number is derived from the rules, so it stays the same across reloads and restarts, and no other rules
/// ever have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(u32);

impl Partition {
    /// The partition of clients without rules of their own, and of all names that no such rule covers.
    pub const SHARED: Partition = Partition(0);

    /// Returns the partition with this number; 0 is [`SHARED`](Self::SHARED).
    pub fn numbered(number: u32) -> Partition {
        Partition(number)
    }

    /// Returns its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Whether it is that of clients without rules of their own.
    #[inline]
    pub fn is_shared(self) -> bool {
        self == Partition::SHARED
    }
}

/// A query with the two bits that affect its answer, and whose rules count. Requests with equal keys share
/// one lookup.
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
    /// The partition of the client, if a rule of the partition covers the name; otherwise
    /// [`Partition::SHARED`].
    pub partition: Partition,
}

impl Hash for QueryKey {
    /// Hashes the name in one piece, for speed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.name.as_lower().as_wire());
        let bits = u8::from(self.dnssec_ok) | u8::from(self.checking_disabled) << 1;
        let asked = u64::from(self.qtype.0) << 24 | u64::from(self.qclass.0) << 8 | u64::from(bits);
        // One word for all of it: the upper 24 bits of the query are free, and the hash function mixes the
        // rest.
        state.write_u64(asked ^ u64::from(self.partition.0).rotate_right(24));
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
