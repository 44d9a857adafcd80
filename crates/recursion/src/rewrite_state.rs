//! What response policy zones do to one client's query: the state between its steps.

use std::net::IpAddr;

use policy::PolicyQuery;
use resolver::QueryKey;
use transport::Client;
use wire::hash::HashedName;
use wire::message::Parser;
use wire::{LowerNameBuf, Malformed, Name, Type};

use crate::message::Piece;

/// The state of rewriting for one query.
pub(crate) struct RewriteState {
    /// The client.
    pub(crate) client: Client,
    /// The first name that rules were looked up for; rules about the client belong to it.
    pub(crate) first: Option<LowerNameBuf>,
    /// Whether no further rule applies: one has rewritten the answer, or exempts the query.
    pub(crate) is_over: bool,
    /// Whether a rule has rewritten the answer.
    pub(crate) is_rewritten: bool,
    /// The answer that waits for lookups of name servers.
    pub(crate) held: Option<Box<HeldAnswer>>,
    /// Lookups of name servers so far.
    pub(crate) servers: Vec<ServerFacts>,
}

/// An answer that waits for lookups of name servers.
pub(crate) struct HeldAnswer {
    /// The query that it answers.
    pub(crate) next: QueryKey,
    pub(crate) piece: Piece,
    pub(crate) leads_to: Option<LowerNameBuf>,
}

/// The result of one lookup of name servers or of their addresses.
#[derive(Clone, Debug)]
pub(crate) struct ServerFacts {
    pub(crate) name: LowerNameBuf,
    pub(crate) rtype: Type,
    /// The names of the servers, for NS.
    pub(crate) names: Vec<LowerNameBuf>,
    /// Their addresses, for A and AAAA.
    pub(crate) addresses: Vec<IpAddr>,
}

impl RewriteState {
    pub(crate) fn of(client: &Client) -> Self {
        RewriteState {
            client: *client,
            first: None,
            is_over: false,
            is_rewritten: false,
            held: None,
            servers: Vec::new(),
        }
    }

    /// Returns what rules may depend on, for the next name or a target of its aliases.
    pub(crate) fn query<'n>(&self, name: &'n HashedName, qtype: Type) -> PolicyQuery<'n> {
        let is_first = self.first.is_none_or(|first| first.as_lower() == name.as_lower());
        // A rule for certain types is about the records that a client gets of a name.
        let qtype = if is_first { qtype } else { Type::CNAME };
        PolicyQuery { name, qtype, client: Some(self.client.peer.ip()), is_first }
    }

    /// Whether the query waits for a lookup of name servers.
    pub(crate) fn awaits_servers(&self) -> bool {
        self.held.is_some()
    }
}

impl ServerFacts {
    /// No name or address is known.
    pub(crate) fn none(name: LowerNameBuf, rtype: Type) -> Self {
        ServerFacts { name, rtype, names: Vec::new(), addresses: Vec::new() }
    }

    /// Reads the answer to a query for these records.
    pub(crate) fn read(name: LowerNameBuf, rtype: Type, message: &[u8]) -> Self {
        let mut facts = ServerFacts::none(name, rtype);
        // A malformed message is no answer of ours; what was read before the fault is as good as nothing.
        let _ = facts.fill(message);
        facts
    }

    fn fill(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (header, mut parser) = Parser::new(message)?;
        parser.question()?;
        let [_, answers, ..] = header.counts();
        let mut rdata = Vec::new();
        for _ in 0..answers {
            let record = parser.record()?;
            rdata.clear();
            parser.expand_rdata(&record, &mut rdata)?;
            let owner = parser.name_at(record.owner_at)?.as_name().to_lower();
            if record.rtype != self.rtype {
                continue;
            }
            if record.rtype == Type::NS && owner == self.name {
                self.names.push(Name::from_wire(&rdata).map_err(|_| Malformed)?.to_lower());
            }
            self.addresses.extend(address(record.rtype, &rdata));
        }
        Ok(())
    }
}

/// Returns the address in the data of an A or AAAA record.
pub(crate) fn address(rtype: Type, rdata: &[u8]) -> Option<IpAddr> {
    match rtype {
        Type::A => <[u8; 4]>::try_from(rdata).ok().map(IpAddr::from),
        Type::AAAA => <[u8; 16]>::try_from(rdata).ok().map(IpAddr::from),
        _ => None,
    }
}
