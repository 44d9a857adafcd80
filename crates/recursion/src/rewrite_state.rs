//! What response policy zones do to one client's query: the state between its steps.

use std::net::IpAddr;
use std::sync::Arc;

use query_path::{ClientIds, GroupClient, RuleNote};
use resolver::{Budget, QueryKey};
use transport::Client;
use wire::message::Parser;
use wire::{Class, Header, LowerNameBuf, Malformed, Name, NameBuf, Ttl, Type};

use crate::message::Piece;

/// The state of rewriting for one query.
pub(crate) struct RewriteState {
    /// The client.
    pub(crate) client: Client,
    /// The TSIG key that signed its query.
    pub(crate) key: Option<Box<LowerNameBuf>>,
    /// The options of its query that may say more about it.
    pub(crate) ids: Option<Box<[u8]>>,
    /// The name that it has written for itself.
    pub(crate) name: Option<Arc<str>>,
    /// Whether no further rule applies: one has rewritten the answer, or exempts the query.
    pub(crate) is_over: bool,
    /// Whether a rule has rewritten the answer.
    pub(crate) is_rewritten: bool,
    /// The rule that decided the query so far, for logs.
    pub(crate) rule: Option<RuleNote>,
    /// The SOA record of the zone whose alias leads to the answer: owner, TTL, data.
    pub(crate) soa: Option<(NameBuf, Ttl, Box<[u8]>)>,
    /// The answer that waits for lookups of name servers.
    pub(crate) held: Option<Box<HeldAnswer>>,
    /// Pays for lookups of name servers, so that the answer does not fail for them.
    pub(crate) budget: Budget,
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
    pub(crate) fn of(client: GroupClient<'_>) -> Self {
        RewriteState {
            client: *client.client,
            key: client.key.map(|key| Box::new(key.to_buf())),
            ids: client.ids.map(|ids| ids.as_bytes().into()),
            name: client.name.map(Arc::clone),
            rule: None,
            soa: None,
            is_over: false,
            is_rewritten: false,
            held: None,
            budget: Budget::default(),
            servers: Vec::new(),
        }
    }

    /// The client, as groups see it.
    pub(crate) fn rule_client(&self) -> GroupClient<'_> {
        GroupClient {
            client: &self.client,
            key: self.key.as_deref().map(LowerNameBuf::as_lower),
            ids: self.ids.as_deref().map(ClientIds::of_bytes),
            name: self.name.as_ref(),
        }
    }

    /// Returns a message with the SOA record of the zone whose alias leads to its answer, if there is one.
    /// The message has no additional section.
    pub(crate) fn with_soa(&self, mut message: Vec<u8>) -> Vec<u8> {
        let Some((owner, ttl, rdata)) = &self.soa else { return message };
        let (Some(mut header), Ok(len)) = (Header::of(&message), u16::try_from(rdata.len())) else {
            return message;
        };
        let [questions, answers, authorities, _] = header.counts();
        header.set_counts([questions, answers, authorities, 1]);
        let bytes = header.as_bytes();
        if let Some(place) = message.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        message.extend_from_slice(owner.as_name().as_wire());
        message.extend(Type::SOA.0.to_be_bytes());
        message.extend(Class::IN.0.to_be_bytes());
        message.extend(ttl.as_secs().to_be_bytes());
        message.extend(len.to_be_bytes());
        message.extend_from_slice(rdata);
        message
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
