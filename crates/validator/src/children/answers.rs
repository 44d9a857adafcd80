//! The RRset of a child zone at one of its servers, read from the response.

use std::fmt;

use wire::message::Section;
use wire::{Header, Name, Rcode, Ttl, Type};

use super::refusal::{ChildRefusal, RefusalReason};
use crate::response::{ReceivedSet, Response};

/// What one server of the child has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAnswer<T> {
    /// The server, for operators.
    pub server: String,
    /// Its answer.
    pub found: Result<T, ChildServerFault>,
}

/// Why a server has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildServerFault {
    /// It did not answer, or its addresses are not known, for this reason.
    NoAnswer(String),
    /// The response cannot be parsed.
    Malformed,
    /// The response has this code.
    Failed(Rcode),
    /// The response is not authoritative.
    NotAuthoritative,
    /// The name is an alias.
    Alias,
}

impl fmt::Display for ChildServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(why) => f.write_str(why),
            Self::Malformed => f.write_str("the response is malformed"),
            Self::Failed(rcode) => write!(f, "the response is {rcode}"),
            Self::NotAuthoritative => f.write_str("the server does not have the zone"),
            Self::Alias => f.write_str("the name is an alias"),
        }
    }
}

impl ChildServerFault {
    fn reason(&self) -> RefusalReason {
        match self {
            Self::NoAnswer(_) => RefusalReason::NoAnswer,
            Self::Malformed => RefusalReason::Malformed,
            Self::Failed(_) | Self::NotAuthoritative | Self::Alias => RefusalReason::Lame,
        }
    }
}

/// An RRset of a child zone at one server, which may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildRrset {
    /// The RRset with its signatures; `None`: there is none.
    pub(super) set: Option<ReceivedSet>,
    /// If there is none: the NSEC and NSEC3 records of the response.
    pub(super) denial: Vec<ReceivedSet>,
    /// Whether the name does not exist.
    pub(super) has_no_name: bool,
}

impl ChildRrset {
    /// Reads the response of an authoritative server to the query for an RRset.
    ///
    /// # Errors
    /// The response proves nothing.
    pub fn read(message: &[u8], owner: Name<'_>, rtype: Type) -> Result<ChildRrset, ChildServerFault> {
        let header = Header::of(message).ok_or(ChildServerFault::Malformed)?;
        let rcode = header.rcode();
        if !matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
            return Err(ChildServerFault::Failed(rcode));
        }
        if !header.authoritative() {
            return Err(ChildServerFault::NotAuthoritative);
        }
        let mut response = Response::read(message, rcode).map_err(|_| ChildServerFault::Malformed)?;
        if response.find(Section::Answer, owner, Type::CNAME).is_some() {
            return Err(ChildServerFault::Alias);
        }
        let set = response.find(Section::Answer, owner, rtype).map(|at| response.sets.swap_remove(at));
        let is_denial = |set: &ReceivedSet| {
            set.section == Section::Authority && matches!(set.rtype, Type::NSEC | Type::NSEC3)
        };
        let denial = match set {
            Some(_) => Vec::new(),
            None => response.sets.into_iter().filter(is_denial).collect(),
        };
        Ok(ChildRrset { has_no_name: rcode == Rcode::NXDOMAIN && set.is_none(), set, denial })
    }

    /// The data of the records, in canonical form and order; empty: there is no such RRset.
    pub fn rdatas(&self) -> &[Vec<u8>] {
        self.set.as_ref().map_or(&[], |set| &set.rdatas)
    }

    /// The smallest TTL of the records.
    pub fn ttl(&self) -> Option<Ttl> {
        self.set.as_ref().map(|set| set.ttl)
    }
}

/// Returns the answers of all servers.
///
/// # Errors
/// There is no server, or one has no usable answer.
pub(super) fn all<T>(servers: &[ServerAnswer<T>]) -> Result<Vec<(&str, &T)>, ChildRefusal> {
    let answer = |answer: &ServerAnswer<T>| -> Result<(), ChildRefusal> {
        let fault = answer.found.as_ref().err();
        fault.map_or(Ok(()), |fault| {
            Err(ChildRefusal::new(fault.reason(), format!("name server {}: {fault}", answer.server)))
        })
    };
    servers.iter().try_for_each(answer)?;
    let all: Vec<(&str, &T)> =
        servers.iter().filter_map(|one| Some((&*one.server, one.found.as_ref().ok()?))).collect();
    match all.is_empty() {
        true => Err(ChildRefusal::new(RefusalReason::NoAnswer, "the delegation has no name server to ask")),
        false => Ok(all),
    }
}

/// Returns the content of an RRset, which must be the same at all servers.
///
/// # Errors
/// Two servers have different records.
pub(super) fn agreed<'a>(
    rtype: Type,
    mut sets: impl Iterator<Item = (&'a str, &'a ChildRrset)>,
) -> Result<&'a [Vec<u8>], ChildRefusal> {
    let Some((first, set)) = sets.next() else { return Ok(&[]) };
    match sets.find(|(_, other)| other.rdatas() != set.rdatas()) {
        Some((other, _)) => {
            let text = format!("the {rtype} records of the name servers {first} and {other} differ");
            Err(ChildRefusal::new(RefusalReason::ServersDisagree, text))
        }
        None => Ok(set.rdatas()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children::testing::{Message, child};

    fn read(message: &Message) -> Result<ChildRrset, ChildServerFault> {
        ChildRrset::read(&message.bytes(), child().as_name(), Type::CDS)
    }

    #[test]
    fn an_rrset_is_that_of_the_name() {
        let of = |message: Message| read(&message).map(|set| set.rdatas().to_vec());
        let cds = [0, 0, 0, 0, 0];
        let authoritative = || Message::to("child.example", Type::CDS).authoritative();
        assert_eq!(of(authoritative().answer("child.example", Type::CDS, &cds)), Ok(vec![cds.to_vec()]));
        assert_eq!(of(authoritative().answer("CHILD.example", Type::CDS, &cds)), Ok(vec![cds.to_vec()]));
        assert_eq!(of(authoritative().answer("other.example", Type::CDS, &cds)), Ok(vec![]));
        assert_eq!(of(authoritative()), Ok(vec![]));
        assert_eq!(of(authoritative().rcode(Rcode::NXDOMAIN)), Ok(vec![]));
    }

    #[test]
    fn lame_servers_have_no_rrset() {
        let message = || Message::to("child.example", Type::CDS);
        assert_eq!(read(&message()), Err(ChildServerFault::NotAuthoritative));
        for rcode in [Rcode::REFUSED, Rcode::SERVFAIL, Rcode::NOTIMP] {
            assert_eq!(read(&message().authoritative().rcode(rcode)), Err(ChildServerFault::Failed(rcode)));
        }
        let alias = message().authoritative().answer("child.example", Type::CNAME, b"\x01a\0");
        assert_eq!(read(&alias), Err(ChildServerFault::Alias));
        let mut cut = message().authoritative().answer("child.example", Type::CDS, &[0, 0, 0, 0, 0]).bytes();
        cut.pop();
        assert_eq!(ChildRrset::read(&cut, child().as_name(), Type::CDS), Err(ChildServerFault::Malformed));
    }
}
