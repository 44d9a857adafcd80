//! The log of one request: each step of its lookup, for display to an operator.
//!
//! Only requests with a [`Trace`] pay for it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use transport::{EncryptionFault, Transport};
use wire::{NameBuf, Rcode, Type};

use crate::budget::Overspent;
use crate::config::{Upstream, UpstreamTransport};
use crate::extended::UpstreamError;
use crate::outcome::{LookupFailure, LookupOutcome, NetworkFault, ShedReason};
use crate::query::ReplyMismatch;
use crate::scrub::ReplyFault;

/// Most steps kept per request; forged messages could add any number.
const MAX_TRACE_STEPS: usize = 256;

/// The log of one request: see [`LookupRequest::trace`](crate::LookupRequest::trace). Clones share the steps.
/// It is complete when the request's client is settled.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<TraceStep>>>);

impl Trace {
    /// Returns the steps so far, oldest first, at most the first 256.
    pub fn steps(&self) -> Vec<TraceStep> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, step: TraceStep) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() < MAX_TRACE_STEPS {
            steps.push(step);
        }
    }
}

/// A step of a request. Displayed as `20000 µs: 192.0.2.1:53 replied NOERROR …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// Time since the request was taken.
    pub at: Duration,
    /// The event.
    pub event: TraceEvent,
}

/// An event of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A rule covers the name.
    Rule {
        /// Its domain.
        domain: Box<NameBuf>,
        /// Its servers.
        upstreams: Vec<Upstream>,
        /// RD in the queries.
        recursion_desired: bool,
    },
    /// The servers of a zone will be queried.
    Zone {
        /// The zone.
        zone: Box<NameBuf>,
        /// Number of their known addresses.
        addresses: usize,
        /// The name in the queries, which may be shorter than the requested one.
        name: Box<NameBuf>,
        /// The type in the queries.
        qtype: Type,
    },
    /// The local copy of a zone has a response.
    Copied {
        /// The zone.
        zone: Box<NameBuf>,
        /// The response code.
        rcode: Rcode,
        /// The consequence. If the response is useless, the zone's servers are queried.
        verdict: TraceVerdict,
    },
    /// The address of a zone's server is looked up.
    LookupStarted {
        /// The server.
        name: Box<NameBuf>,
        /// A or AAAA.
        qtype: Type,
    },
    /// A lookup of an address has ended.
    Found {
        /// Number of known addresses now.
        addresses: usize,
    },
    /// All servers of a zone were useless: addresses from the parent that it is not authoritative for are
    /// used.
    OutsideGlue {
        /// The zone.
        zone: Box<NameBuf>,
    },
    /// All servers of a zone were useless: the parent's servers are queried again.
    ParentAsked {
        /// The zone.
        zone: Box<NameBuf>,
    },
    /// All servers of a zone were useless: those that offer recursion are queried with RD.
    RecursionAsked {
        /// The zone.
        zone: Box<NameBuf>,
    },
    /// The request joined a lookup in flight; only its later steps are logged.
    Joined {
        /// Number of other waiting clients.
        clients: usize,
    },
    /// A query was sent.
    Asked {
        /// The server.
        server: SocketAddr,
        /// The transport.
        transport: UpstreamTransport,
        /// Number of the query in the lookup, from 1; with iteration, in this step.
        attempt: u8,
        /// The letters of QNAME are in random case.
        mixed_case: bool,
        /// The cookies in OPT; `None` without EDNS.
        edns: Option<CookieSent>,
        /// It is a probe of a failing server, sent besides the query to another server.
        probe: bool,
        /// How long the lookup waits before its next try.
        wait: Duration,
    },
    /// A reply that matches a query arrived.
    Replied {
        /// The server.
        server: SocketAddr,
        /// The transport.
        transport: UpstreamTransport,
        /// Time since the query.
        after: Duration,
        /// The response code, with the bits of OPT.
        rcode: Rcode,
        /// The extended errors.
        errors: Vec<UpstreamError>,
        /// The consequence.
        verdict: TraceVerdict,
    },
    /// A message arrived that matches no query, as off-path attackers send them. After one by UDP the query
    /// may be repeated over TCP.
    Suspected {
        /// The source address.
        server: SocketAddr,
        /// The transport.
        transport: UpstreamTransport,
        /// The mismatch.
        mismatch: ReplyMismatch,
    },
    /// No reply arrived in time. A later one still counts.
    Unanswered {
        /// The server.
        server: SocketAddr,
        /// The transport.
        transport: UpstreamTransport,
    },
    /// An encrypted transport of a server is probed, beside the query in the clear.
    Probed {
        /// The server, with the port of the transport.
        server: SocketAddr,
        /// The transport.
        transport: UpstreamTransport,
    },
    /// The link to a server failed.
    Broke {
        /// The server.
        server: SocketAddr,
        /// The transport.
        transport: UpstreamTransport,
        /// The error.
        error: io::ErrorKind,
    },
    /// All servers of the rule are known to be dead: the wait is 50 ms, or none.
    Dead,
    /// There is no encrypted connection to the server of a query.
    Insecure {
        /// The server.
        server: SocketAddr,
        /// The reason.
        fault: EncryptionFault,
    },
    /// The servers of the rule have no answer, and the name is resolved by iteration.
    Instead,
    /// New settings took effect.
    Configured,
    /// The request was answered.
    Answered {
        /// The response code.
        rcode: Rcode,
        /// Length of the message in bytes, rebuilt without OPT.
        bytes: usize,
    },
    /// The request failed.
    Failed(LookupFailure),
}

/// Cookies in a query (RFC 7873).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieSent {
    /// None.
    No,
    /// The client cookie.
    Client,
    /// The client and server cookies.
    Both,
}

/// The consequence of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceVerdict {
    /// It is the answer.
    Answer,
    /// The query is repeated with a change.
    Again(TryChange),
    /// It is useless; the server is not asked again.
    Useless(ReplyFault),
    /// It is a referral to the servers of a zone below.
    Referral,
    /// It does not exclude a deeper name: the next query has more labels.
    Deeper,
    /// It denies a part of the name or is useless: the next query has the whole name.
    Whole,
}

/// The change in a query that is repeated to the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryChange {
    /// It goes over TCP.
    OverTcp,
    /// It has no OPT.
    WithoutEdns,
    /// It has no cookie.
    WithoutCookie,
    /// It has the cookie that the reply brought.
    NewCookie,
}

/// A trace and the time when its request was taken.
pub(crate) struct Tracer {
    trace: Trace,
    since: Instant,
}

impl Tracer {
    pub(crate) fn new(trace: Trace, since: Instant) -> Self {
        Tracer { trace, since }
    }

    pub(crate) fn note(&self, now: Instant, event: TraceEvent) {
        self.trace.push(TraceStep { at: now.saturating_duration_since(self.since), event });
    }

    pub(crate) fn settled(&self, now: Instant, outcome: &LookupOutcome) {
        self.note(
            now,
            match outcome {
                LookupOutcome::Answered(answer) => {
                    TraceEvent::Answered { rcode: answer.rcode, bytes: answer.message.len() }
                }
                LookupOutcome::Failed(failure) => TraceEvent::Failed(*failure),
            },
        );
    }
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} µs: {}", self.at.as_micros(), self.event)
    }
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEvent::Rule { domain, upstreams, recursion_desired } => {
                let upstreams: Vec<String> = upstreams.iter().map(ToString::to_string).collect();
                write!(f, "the rule for {domain} has {}", upstreams.join(", "))?;
                f.write_str(if *recursion_desired { "" } else { ", asked without RD" })
            }
            TraceEvent::Zone { zone, addresses, name, qtype } => {
                write!(
                    f,
                    "the servers of {zone} are asked for {name} {qtype}, {addresses} addresses are known"
                )
            }
            TraceEvent::Copied { zone, rcode, verdict } => {
                write!(f, "the copy of {zone} on this machine says {rcode}: {verdict}")
            }
            TraceEvent::LookupStarted { name, qtype } => {
                write!(f, "the {qtype} records of the server {name} are looked up")
            }
            TraceEvent::Found { addresses } => {
                write!(f, "that lookup has ended, {addresses} addresses are known")
            }
            TraceEvent::OutsideGlue { zone } => {
                write!(f, "no server of {zone} was of use: addresses from outside its parent's zone are used")
            }
            TraceEvent::ParentAsked { zone } => {
                write!(f, "no server of {zone} was of use: its parent's servers are asked about it again")
            }
            TraceEvent::RecursionAsked { zone } => {
                write!(f, "no server of {zone} was of use: those that offer recursion are asked with RD")
            }
            TraceEvent::Joined { clients } => write!(f, "joined a lookup that {clients} wait for already"),
            TraceEvent::Asked { server, transport, attempt, mixed_case, edns, probe, wait } => {
                let what = if *probe { "probed" } else { "asked" };
                write!(f, "{what} {server} by {transport}, query {attempt} of the lookup")?;
                f.write_str(if *mixed_case { ", mixed case" } else { "" })?;
                f.write_str(match edns {
                    None => ", no EDNS",
                    Some(CookieSent::No) => ", no cookie",
                    Some(CookieSent::Client) => ", client cookie",
                    Some(CookieSent::Both) => ", both cookies",
                })?;
                write!(f, ", waiting {} ms", wait.as_millis())
            }
            TraceEvent::Replied { server, transport, after, rcode, errors, verdict } => {
                let after = after.as_micros();
                write!(f, "{server} replied {rcode} by {transport} after {after} µs")?;
                errors.iter().try_for_each(|error| write!(f, ", {error}"))?;
                write!(f, ": {verdict}")
            }
            TraceEvent::Suspected { server, transport, mismatch } => {
                write!(f, "a message from {server} by {transport} was passed over: {mismatch}")
            }
            TraceEvent::Unanswered { server, transport } => {
                write!(f, "{server} has not replied by {transport} in time")
            }
            TraceEvent::Probed { server, transport } => write!(f, "{transport} to {server} is probed"),
            TraceEvent::Broke { server, transport, error } => {
                write!(f, "the {transport} link to {server} failed: {error}")
            }
            TraceEvent::Insecure { server, fault } => write!(f, "no connection to {server}: {fault}"),
            TraceEvent::Instead => {
                f.write_str("the servers of the rule have no answer: the name is resolved from the root")
            }
            TraceEvent::Dead => f.write_str("no server of the rule has answered for some time"),
            TraceEvent::Configured => f.write_str("other settings are in force"),
            TraceEvent::Answered { rcode, bytes } => write!(f, "answered {rcode}, {bytes} bytes"),
            TraceEvent::Failed(failure) => write!(f, "failed: {failure}"),
        }
    }
}

impl fmt::Display for TraceVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceVerdict::Answer => f.write_str("this is the answer"),
            TraceVerdict::Again(TryChange::OverTcp) => f.write_str("once more over TCP"),
            TraceVerdict::Again(TryChange::WithoutEdns) => f.write_str("once more without EDNS"),
            TraceVerdict::Again(TryChange::WithoutCookie) => f.write_str("once more without a cookie"),
            TraceVerdict::Again(TryChange::NewCookie) => f.write_str("once more with its new cookie"),
            TraceVerdict::Useless(fault) => write!(f, "of no use: {fault}"),
            TraceVerdict::Referral => f.write_str("a referral"),
            TraceVerdict::Deeper => f.write_str("more of the name is asked"),
            TraceVerdict::Whole => f.write_str("the whole name is asked"),
        }
    }
}

impl fmt::Display for ReplyMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReplyMismatch::Unreadable => "it is no response that can be read",
            ReplyMismatch::Id => "it has another ID",
            ReplyMismatch::Question => "it has another question",
            ReplyMismatch::Case => "the name has another letter case",
            ReplyMismatch::Cookie => "it has not the cookie that it must have",
        })
    }
}

impl fmt::Display for ReplyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyFault::Malformed => f.write_str("it is malformed"),
            ReplyFault::SetTooLarge => f.write_str("it has too many records"),
            ReplyFault::Referral => f.write_str("it refers to other servers"),
            ReplyFault::Lame => f.write_str("the server does not serve the zone"),
            ReplyFault::Chain => f.write_str("its chain of aliases is too long"),
            ReplyFault::Rcode(rcode) => write!(f, "its response code is {rcode}"),
            ReplyFault::Contradiction(rcode) => write!(f, "its records contradict its response code {rcode}"),
            ReplyFault::Truncated => f.write_str("it is truncated over TCP, too"),
        }
    }
}

impl fmt::Display for ShedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShedReason::ClientPrefix => "too many clients of its network wait",
            ShedReason::Clients => "too many clients wait for the lookup",
            ShedReason::Rule => "too many lookups by the rule are in flight",
            ShedReason::Lookups => "too many lookups are in flight",
            ShedReason::Zone => "too many lookups at the servers of one zone are in flight",
            ShedReason::Queue => "too many questions wait to be looked at",
        })
    }
}

impl fmt::Display for LookupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupFailure::NoRecursion => f.write_str("the client did not ask for recursion"),
            LookupFailure::NoRule => f.write_str("no rule with servers covers the name"),
            LookupFailure::Shed(reason) => reason.fmt(f),
            LookupFailure::TimedOut => f.write_str("the client's time is over"),
            LookupFailure::NoReply => f.write_str("no server has replied"),
            LookupFailure::BadReply(fault) => write!(f, "no reply is of use: {fault}"),
            LookupFailure::Network(NetworkFault::Refused) => {
                f.write_str("no server of the zone can be reached: connection refused")
            }
            LookupFailure::Network(NetworkFault::Unreachable) => {
                f.write_str("no server of the zone can be reached")
            }
            LookupFailure::Network(NetworkFault::Encryption(fault)) => {
                write!(f, "no server can be reached: {fault}")
            }
            LookupFailure::NoServers => f.write_str("no server of the zone has an address that can be found"),
            LookupFailure::Overspent(what) => write!(f, "the query has cost enough: {what}"),
            LookupFailure::NoOtherServer => f.write_str("no other server of the zone has an answer"),
        }
    }
}

impl fmt::Display for Overspent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Overspent::Queries => "queries to other servers",
            Overspent::ZoneQueries => "queries to the servers of one zone",
            Overspent::Bytes => "bytes of replies",
            Overspent::Time => "time",
            Overspent::Aliases => "aliases followed",
            Overspent::Addresses => "servers whose address cannot be found",
            Overspent::Depth => "lookups that wait for each other",
        })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reach {
            crate::config::Reach::UdpThenTcp => self.address.fmt(f),
            crate::config::Reach::Tcp => write!(f, "{} over TCP", self.address),
            crate::config::Reach::Encrypted(encryption) => {
                let transport = match encryption.transport() {
                    _ if encryption.is_oblivious() => "ODoH",
                    Transport::Https => "HTTPS",
                    Transport::Quic => "QUIC",
                    _ => "TLS",
                };
                write!(f, "{} over {transport} ({encryption})", self.address)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_does_not_grow_for_ever() {
        let (trace, now) = (Trace::default(), Instant::now());
        let tracer = Tracer::new(trace.clone(), now);
        for _ in 0..MAX_TRACE_STEPS * 4 {
            tracer.note(now, TraceEvent::Configured);
        }
        tracer.settled(now, &LookupOutcome::Failed(LookupFailure::NoReply));
        assert_eq!(trace.steps().len(), MAX_TRACE_STEPS);
    }
}
