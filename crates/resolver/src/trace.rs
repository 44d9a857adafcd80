//! What was done about a client's request, step by step, for a person who asks why.
//!
//! Only requests that bring a [`Trace`] pay for it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use exchange::Transport;
use wire::{NameBuf, Rcode, Type};

use crate::budget::Overspent;
use crate::config::Upstream;
use crate::extended::UpstreamError;
use crate::outcome::{LookupFailure, LookupOutcome, NetworkFault, ShedReason};
use crate::query::ReplyMismatch;
use crate::scrub::ReplyFault;

/// Steps kept of one request; a forger could make any number of them.
const STEPS: usize = 256;

/// The log of one request, which goes along with it: see
/// [`LookupRequest::trace`](crate::LookupRequest::trace). Its clones share the steps. It is complete when the
/// request's client is settled.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<TraceStep>>>);

impl Trace {
    /// The steps so far, the earliest first, the first 256 at most.
    pub fn steps(&self) -> Vec<TraceStep> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, step: TraceStep) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() < STEPS {
            steps.push(step);
        }
    }
}

/// Something that was done or that happened. Displayed as `20000 µs: 192.0.2.1:53 replied NOERROR …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// When, since the request was taken.
    pub at: Duration,
    /// What.
    pub event: TraceEvent,
}

/// What was done, or what happened.
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
    /// The servers of a zone are to be asked.
    Zone {
        /// The zone.
        zone: Box<NameBuf>,
        /// How many addresses of them are known.
        addresses: usize,
        /// What they are asked, which may be less than what the request asks.
        name: Box<NameBuf>,
        /// The type of it.
        qtype: Type,
    },
    /// The copy of a zone on this machine has a response.
    Copied {
        /// The zone.
        zone: Box<NameBuf>,
        /// The response code.
        rcode: Rcode,
        /// What that led to. If it is of no use, the zone's servers are asked.
        verdict: TraceVerdict,
    },
    /// The address of a zone's server is looked up.
    LookupStarted {
        /// The server.
        name: Box<NameBuf>,
        /// A or AAAA.
        qtype: Type,
    },
    /// Such a lookup has ended.
    Found {
        /// Addresses by now that can be asked.
        addresses: usize,
    },
    /// No server of a zone was of use: addresses are used that its parent gave without being authoritative
    /// for them.
    OutsideGlue {
        /// The zone.
        zone: Box<NameBuf>,
    },
    /// No server of a zone was of use: its parent's servers are asked about it again.
    ParentAsked {
        /// The zone.
        zone: Box<NameBuf>,
    },
    /// No server of a zone was of use: those that offer recursion are asked with RD.
    RecursionAsked {
        /// The zone.
        zone: Box<NameBuf>,
    },
    /// Others wait for the same question: the request shares their lookup, of which only the steps from here
    /// on are seen.
    Joined {
        /// How many others.
        clients: usize,
    },
    /// A query was sent.
    Asked {
        /// To whom.
        server: SocketAddr,
        /// How.
        transport: Transport,
        /// Which of the lookup's queries it is, from 1; of a lookup that goes step by step, at this step.
        attempt: u8,
        /// The letters of the name are in random case.
        mixed_case: bool,
        /// What its OPT has; `None` without EDNS.
        edns: Option<CookieSent>,
        /// It goes to a failing server besides the one that is asked, to see whether it answers again.
        probe: bool,
        /// How long a reply is waited for before the lookup moves on.
        wait: Duration,
    },
    /// A reply that fits a query came.
    Replied {
        /// From whom.
        server: SocketAddr,
        /// How.
        transport: Transport,
        /// How long after its query.
        after: Duration,
        /// Its response code, with the bits of OPT.
        rcode: Rcode,
        /// Its extended errors.
        errors: Vec<UpstreamError>,
        /// What that led to.
        verdict: TraceVerdict,
    },
    /// A message came that fits no query, as a forger sends them. By UDP the query may be sent again over
    /// TCP.
    Suspected {
        /// From whose address.
        server: SocketAddr,
        /// How.
        transport: Transport,
        /// What does not fit.
        mismatch: ReplyMismatch,
    },
    /// No reply came in time. One that comes later still counts.
    Unanswered {
        /// From whom.
        server: SocketAddr,
        /// How it was asked.
        transport: Transport,
    },
    /// The link to a server failed.
    Broke {
        /// Whose.
        server: SocketAddr,
        /// How it was asked.
        transport: Transport,
        /// Why.
        error: io::ErrorKind,
    },
    /// All servers of the rule are known not to answer: a reply is waited for 50 ms, or not at all.
    Dead,
    /// The servers of the rule have no answer, and the name is resolved step by step.
    Instead,
    /// Other settings are in force: what follows is done by them.
    Configured,
    /// The request has its answer.
    Answered {
        /// The response code.
        rcode: Rcode,
        /// Bytes of the message, rebuilt without OPT.
        bytes: usize,
    },
    /// The request has none.
    Failed(LookupFailure),
}

/// Cookies in a query (RFC 7873).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieSent {
    /// None.
    No,
    /// Ours alone.
    Client,
    /// Ours and the server's.
    Both,
}

/// What a reply led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceVerdict {
    /// It is the answer.
    Answer,
    /// The query is sent once more, changed.
    Again(TryChange),
    /// It is of no use; the server is not asked again.
    Useless(ReplyFault),
    /// It refers to the servers of a zone below.
    Referral,
    /// It does not rule out what is asked next: more of the name.
    Deeper,
    /// It denies a part of the name, or has no use for it: the servers are asked for the whole.
    Whole,
}

/// What is changed in a query that is sent once more to the same server.
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

/// A trace and when its request was taken.
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
                write!(f, "the rule for {domain} has")?;
                for (n, upstream) in upstreams.iter().enumerate() {
                    write!(f, "{} {upstream}", if n == 0 { "" } else { "," })?;
                }
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
            TraceEvent::Broke { server, transport, error } => {
                write!(f, "the {transport} link to {server} failed: {error}")
            }
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
        match self.reach {
            crate::config::Reach::UdpThenTcp => self.address.fmt(f),
            crate::config::Reach::Tcp => write!(f, "{} over TCP", self.address),
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
        for _ in 0..STEPS * 4 {
            tracer.note(now, TraceEvent::Configured);
        }
        tracer.settled(now, &LookupOutcome::Failed(LookupFailure::NoReply));
        assert_eq!(trace.steps().len(), STEPS);
    }
}
