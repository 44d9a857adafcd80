//! The queries and replies that query logs receive.

use std::net::SocketAddr;
use std::time::Instant;

use transfer::tsig::{TsigError, TsigKey};
use transport::Client;
use wire::edns::ErrorInfo;
use wire::{Name, Rcode, ViewName};

use crate::refusal::Refusal;
use crate::request::Request;
use crate::rule_note::RuleNote;

/// The role in which the server answers a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Authoritative: for its zones and for names of class CHAOS. A query for a name in a zone here stays one
    /// of this role where its CNAME leads to other servers.
    Authority,
    /// Recursive: for names of other servers.
    Recursion,
}

/// A query, as query logs receive it.
pub struct LoggedQuery<'a> {
    /// The parsed query.
    pub request: &'a Request,
    /// The message as received; for a late reply its header and question only.
    pub packet: &'a [u8],
    /// The client's address and transport.
    pub client: Client,
    /// When its batch was received.
    pub received: Instant,
    /// The role in which it is answered.
    pub role: Role,
    /// The zone here that QNAME is in, in lower case. `None` for NOTIFY, UPDATE and transfers, whose question
    /// is the zone's name.
    pub zone: Option<Name<'a>>,
    /// The view that the query is in.
    pub view: Option<&'a ViewName>,
    /// The TSIG key that signed it, if its TSIG is valid.
    pub key: Option<&'a TsigKey>,
}

impl<'a> LoggedQuery<'a> {
    /// QNAME as the client wrote it; the root if there was no question.
    pub fn qname(&self) -> Name<'a> {
        self.request.question.map_or(Name::ROOT, |question| question.name(self.packet))
    }
}

/// The reply to a query, as query logs receive it.
pub struct LoggedReply<'a> {
    /// The message as sent.
    pub message: &'a [u8],
    /// Its response code, with the upper bits from OPT.
    pub rcode: Rcode,
    /// Whether TC is set.
    pub truncated: bool,
    /// The extended error of the reply; in the message only if the client sent OPT.
    pub info: Option<ErrorInfo>,
    /// The server that the newest part of the answer was received from, if this query needed one.
    pub upstream: Option<SocketAddr>,
    /// The rule of a policy that decided the query, if logs have it.
    pub rule: Option<RuleNote>,
}

/// Logs queries that get SERVFAIL, invalid TSIG, and requests that the gate refuses. Must neither block nor
/// fail.
pub trait FailureLog: Send + Sync {
    /// Logs a query that is refused because its TSIG is invalid.
    fn bad_signature(&self, query: &LoggedQuery<'_>, error: &TsigError);

    /// Logs a transfer, NOTIFY or UPDATE that is refused before its source is asked: for its form, its class,
    /// or an opcode that no source implements.
    fn stopped(&self, query: &LoggedQuery<'_>, refusal: Refusal);

    /// Logs a query that gets SERVFAIL, with the extended error.
    fn failed(&self, query: &LoggedQuery<'_>, info: Option<ErrorInfo>);
}

/// Logs queries and replies. Must neither block nor fail.
pub trait QueryLog: Send + Sync {
    /// Logs a query, once, before its reply. A query that is dropped without a reply is not logged.
    fn query(&self, query: &LoggedQuery<'_>);

    /// Logs the reply to a query. It is not called for a query that is answered with a stream of messages.
    fn reply(&self, query: &LoggedQuery<'_>, reply: &LoggedReply<'_>);

    /// Logs a query that gets no reply by a rule; without the rule if logs do not have it.
    fn withheld(&self, query: &LoggedQuery<'_>, rule: Option<&RuleNote>) {
        let _ = (query, rule);
    }
}

/// Counts queries that a rule of a policy decides. Must neither block nor fail.
pub trait RuleLog: Send + Sync {
    /// Counts a query, by the name that the client wrote.
    fn decided(&self, client: &Client, qname: Name<'_>, rule: &RuleNote);
}
