//! Update messages: builds them from the records of a script, sends them to the server, and verifies the
//! answer. If the script names no zone or no server, SOA queries find them, as in nsupdate.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use transfer::tsig::TsigKey;
use wire::message::{Builder, Compressor, Full, Header, MAX_MESSAGE, Malformed, Owner, Parser};
use wire::rdata::view::Soa;
use wire::{Class, NameBuf, Opcode, Rcode, Type};

use super::script::UpdateRecord;
use crate::query::ask::{ReceivedResponse, ask};
use crate::query::words::{Wanted, WordFault, read_server};
use crate::query::{located, server};
use crate::signing::{self, SignatureFault};
use config::exit_status::{EXIT_FAULTS, EXIT_OUTSIDE};
use message::{QuerySpec, print};

/// Longest message sent over UDP, in bytes (RFC 1035 §2.3.4); longer ones are sent over TCP (RFC 2136 §2.1).
const LONGEST_DATAGRAM: usize = 512;

/// Collects the records of a message, and sends it.
pub struct Sender {
    /// The zone, if the script names it.
    pub zone: Option<NameBuf>,
    /// Its class.
    pub class: Class,
    /// The key to sign with.
    pub key: Option<Arc<TsigKey>>,
    /// The records to send.
    pub records: Vec<UpdateRecord>,
    /// The last answer.
    pub answer: Option<Vec<u8>>,
    /// The server, if it was named.
    server: Option<Wanted>,
    /// The options of the exchange.
    how: Wanted,
}

/// The result of an update message.
pub struct UpdateOutcome {
    /// The zone.
    pub zone: NameBuf,
    /// The server that answered.
    pub server: SocketAddr,
    /// Its response code.
    pub rcode: Rcode,
    received: ReceivedResponse,
}

impl UpdateOutcome {
    /// Returns whether nothing was changed.
    pub fn is_refused(&self) -> bool {
        self.rcode != Rcode::NOERROR
    }

    /// Returns the answer as JSON, as `nomen query` prints it.
    pub fn json(&self) -> Result<Value, Malformed> {
        print::json(&self.received.message).map(|parts| crate::query::with_origin(parts, &self.received))
    }
}

/// Why there is no authentic answer.
#[derive(Debug)]
pub enum SendFault {
    /// The update does not fit into a message.
    TooLong,
    /// No server answered, or a message did not answer the query.
    Link(String),
    /// No zone was found for a name.
    NoZone(Box<NameBuf>),
    /// The signature of the answer is bad, or the server refuses that of the update.
    Tsig(SocketAddr, SignatureFault),
    /// The answer cannot be parsed.
    Malformed(SocketAddr),
}

impl SendFault {
    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::TooLong | Self::NoZone(_) => EXIT_FAULTS,
            Self::Tsig(_, fault) => fault.exit_code(),
            Self::Link(_) | Self::Malformed(_) => EXIT_OUTSIDE,
        }
    }
}

impl fmt::Display for SendFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the update does not fit into a message; send it in parts"),
            Self::Link(words) => f.write_str(words),
            Self::NoZone(name) => write!(f, "no server knows which zone {name} is in; say so with `zone`"),
            Self::Tsig(server, fault) if fault.is_refusal() => {
                write!(f, "{server} refuses the signature of the update: {fault}")
            }
            Self::Tsig(server, fault) => write!(
                f,
                "the answer of {server} cannot be trusted: {fault}; whether the zone was changed is not \
                known"
            ),
            Self::Malformed(server) => write!(f, "{server} sent a malformed answer"),
        }
    }
}

impl Sender {
    /// Returns a sender without a zone, a server or records, with these options of the exchange.
    pub fn new(key: Option<Arc<TsigKey>>, how: Wanted) -> Self {
        Self { zone: None, class: Class::IN, key, records: Vec::new(), answer: None, server: None, how }
    }

    /// Sets the server: an address or a name, with a port after `#` or `@`.
    pub fn set_server(&mut self, text: &str) -> Result<(), WordFault> {
        let mut wanted = self.how.clone();
        read_server(&mut wanted, text)?;
        wanted.choose_port();
        self.server = Some(wanted);
        Ok(())
    }

    /// Returns the message so far, without a signature. If no zone is named, it has the root.
    pub fn message(&self) -> Result<Vec<u8>, SendFault> {
        self.message_for(self.zone.unwrap_or(NameBuf::ROOT))
    }

    fn message_for(&self, zone: NameBuf) -> Result<Vec<u8>, SendFault> {
        let id = RandomState::new().hash_one(self.records.len()) as u16;
        let mut header = *Header::query(id).as_bytes();
        header[2] = Opcode::UPDATE.0 << 3;
        let header = Header::of(&header).ok_or(SendFault::TooLong)?;
        let (mut buf, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
        let mut builder = Builder::new(&mut buf, MAX_MESSAGE, header, &mut names);
        let written = builder.question(zone.as_name(), Type::SOA, self.class).and_then(|()| {
            self.records.iter().try_for_each(|record| {
                let UpdateRecord { section, owner, rtype, class, ttl, rdata } = record;
                builder.record(*section, Owner::Name(owner.as_name()), *rtype, *class, *ttl, rdata).map(drop)
            })
        });
        written.map_err(|Full| SendFault::TooLong)?;
        let len = builder.finish();
        buf.truncate(len);
        Ok(buf)
    }

    /// Sends the collected records and clears them; returns `None` if there are none.
    pub fn send(&mut self) -> Result<Option<UpdateOutcome>, SendFault> {
        let Some(first) = self.records.first() else { return Ok(None) };
        let (zone, server) = self.destination(first.owner)?;
        let mut message = self.message_for(zone)?;
        self.records.clear();
        let verifier = signing::sign(self.key.as_ref(), &mut message).map_err(|Full| SendFault::TooLong)?;
        let wanted = Wanted { tcp: server.tcp || message.len() > LONGEST_DATAGRAM, ..server };
        let received = ask(&wanted, &message).map_err(SendFault::Link)?;
        let from = received.server;
        self.answer = Some(received.message.clone());
        let malformed = |Malformed| SendFault::Malformed(from);
        if let Some(verifier) = verifier {
            signing::verify_whole(verifier, &received.message)
                .map_err(|fault| SendFault::Tsig(from, fault))?;
        }
        let rcode = print::rcode(&received.message).map_err(malformed)?;
        Ok(Some(UpdateOutcome { zone, server: from, rcode, received }))
    }

    /// Returns the zone for an update of a name, and its server: from the script, or else from the SOA of the
    /// zone.
    fn destination(&self, name: NameBuf) -> Result<(NameBuf, Wanted), SendFault> {
        let known = self.server.clone().map(located).transpose().map_err(SendFault::Link)?;
        if let (Some(zone), Some(server)) = (self.zone, &known) {
            return Ok((zone, server.clone()));
        }
        let asked = match &known {
            Some(server) => vec![server.clone()],
            None => {
                let resolvers = server::resolvers().into_iter().map(|ip| SocketAddr::new(ip, 53));
                // The options of TLS are about the server, not about the resolvers of this machine.
                resolvers.map(|server| Wanted { server, tls: None, ..self.how.clone() }).collect()
            }
        };
        if asked.is_empty() {
            return Err(SendFault::Link(
                "/etc/resolv.conf names no server to ask; say which with `server`".into(),
            ));
        }
        let (zone, mname) = self.find_zone(self.zone.unwrap_or(name), &asked)?;
        match known {
            Some(server) => Ok((zone, server)),
            None => {
                let mut primary = self.how.clone();
                read_server(&mut primary, mname.to_string().trim_end_matches('.'))
                    .map_err(|fault| SendFault::Link(format!("the primary server of {zone}: {fault}")))?;
                primary.choose_port();
                Ok((zone, located(primary).map_err(SendFault::Link)?))
            }
        }
    }

    /// Returns the zone of a name, and the primary server in its SOA, by querying the servers one after the
    /// other.
    fn find_zone(&self, name: NameBuf, servers: &[Wanted]) -> Result<(NameBuf, NameBuf), SendFault> {
        let mut fault = SendFault::NoZone(Box::new(name));
        for candidate in name.as_name().ancestors() {
            let query = QuerySpec {
                name: candidate.to_buf(),
                qtype: Type::SOA,
                qclass: self.class,
                ..QuerySpec::default()
            };
            let query = query.message().map_err(|_| SendFault::TooLong)?;
            let (mut answer, mut words) = (None, String::new());
            for server in servers {
                match ask(server, &query) {
                    Ok(received) => {
                        answer = Some(received);
                        break;
                    }
                    Err(fault) => words = fault,
                }
            }
            let answer = answer.ok_or(SendFault::Link(words))?;
            match soa_in(&answer.message, candidate.to_buf()) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(Malformed) => fault = SendFault::Malformed(answer.server),
            }
        }
        Err(fault)
    }
}

/// Returns the zone whose SOA is in the answer or authority section, and its MNAME. It must be a zone that
/// `name` can be in.
fn soa_in(message: &[u8], name: NameBuf) -> Result<Option<(NameBuf, NameBuf)>, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, authorities, _] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    for _ in 0..u32::from(answers) + u32::from(authorities) {
        let record = parser.record()?;
        let owner = parser.name_at(record.owner_at)?;
        if record.rtype == Type::SOA && name.as_name().is_at_or_below(owner.as_name()) {
            let mut rdata = Vec::new();
            parser.expand_rdata(&record, &mut rdata)?;
            return Ok(Some((owner, Soa::read(&rdata)?.mname.to_buf())));
        }
    }
    Ok(None)
}
