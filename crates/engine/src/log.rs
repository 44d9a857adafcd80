//! What a query log sees of queries and replies.

use std::net::SocketAddr;
use std::time::Instant;

use exchange::Client;
use transfer::tsig::{TsigError, TsigKey};
use wire::edns::ErrorInfo;
use wire::{Name, Rcode};

use crate::refusal::Refusal;
use crate::request::Request;

/// As what the server answers a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// For its zones, and for itself. A name in a zone here stays such a query where its CNAME leads on to
    /// other servers.
    Authority,
    /// For names of other servers.
    Recursion,
}

/// A query, as a query log sees it.
pub struct LoggedQuery<'a> {
    /// The query as it was read.
    pub request: &'a Request,
    /// The message as it came; at a late reply its header and question only.
    pub packet: &'a [u8],
    /// Who asked.
    pub client: Client,
    /// When its batch was received.
    pub received: Instant,
    /// As what it is answered.
    pub role: Role,
    /// The zone here that QNAME is in, in lower case. None of NOTIFY, UPDATE and transfers, whose question is
    /// the zone's name.
    pub zone: Option<Name<'a>>,
    /// The TSIG key that signed it, if it is signed and the signature is good.
    pub key: Option<&'a TsigKey>,
}

impl<'a> LoggedQuery<'a> {
    /// QNAME as the client wrote it; the root if there was no question.
    pub fn qname(&self) -> Name<'a> {
        self.request.question.map_or(Name::ROOT, |question| question.name(self.packet))
    }
}

/// The reply to a query, as a query log sees it.
pub struct LoggedReply<'a> {
    /// The message as it leaves.
    pub message: &'a [u8],
    /// Its response code, with the bits that OPT has.
    pub rcode: Rcode,
    /// Whether TC is set.
    pub truncated: bool,
    /// The extended error that goes with it; in the message only if the client sent OPT.
    pub info: Option<ErrorInfo>,
    /// The other server that the newest part of the answer came from, if one was asked for this query.
    pub upstream: Option<SocketAddr>,
}

/// Takes note of queries that get SERVFAIL, of signatures that are not good, and of requests that nothing
/// here takes; must neither block nor fail.
pub trait FailureLog: Send + Sync {
    /// Takes a query that is refused since its signature is not good.
    fn bad_signature(&self, query: &LoggedQuery<'_>, error: &TsigError);

    /// Takes a transfer, NOTIFY or update that is refused for what the message alone shows: its form, its
    /// class, or an opcode that nothing here takes.
    fn stopped(&self, query: &LoggedQuery<'_>, refusal: Refusal);

    /// Takes a query that gets SERVFAIL for this reason.
    fn failed(&self, query: &LoggedQuery<'_>, info: Option<ErrorInfo>);
}

/// Takes note of queries and replies; must neither block nor fail.
pub trait QueryLog: Send + Sync {
    /// Takes a query, once, before its reply. One that is met with silence is not logged.
    fn query(&self, query: &LoggedQuery<'_>);

    /// Takes the reply to a query. A query that is answered by a stream of messages has none.
    fn reply(&self, query: &LoggedQuery<'_>, reply: &LoggedReply<'_>);
}
