//! The state of lookups, tries and connections.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use transport::{EncryptionFault, Link};
use wire::{LowerNameBuf, NameBuf, Type};

use crate::budget::{Budget, Overspent, Seeking};
use crate::delegations::Cut;
use crate::extended::UpstreamError;
use crate::outcome::{LookupFailure, NetworkFault};
use crate::query::Opt;
use crate::query_key::{AnsweredBy, QueryKey, ReportAgent};
use crate::request::ClientPrefix;
use crate::scrub::{ReferralProof, ReplyFault};
use crate::select::Asked;
use crate::server_id::ServerId;
use crate::trace::{Tracer, TryChange};

/// The number of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LookupId(pub(super) u64);

/// The number of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TryId(pub(super) u64);

/// The number of a client whose outcome is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct HeldId(pub(super) u64);

/// What to do when a timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// End the wait of a lookup's clients whose deadline passed.
    Client(LookupId),
    /// Start a lookup's next try.
    Resume(LookupId),
    /// Look up another server's address, since the awaited one takes long.
    Seek(LookupId),
    /// End a lookup whose servers were all dead when it began, and none has replied.
    Hopeless(LookupId),
    /// Handle a try without a reply.
    Try(TryId),
    /// Close an idle connection.
    Idle(Link),
    /// Close a connection whose encryption is not established, or that has not fetched a key.
    Handshake(Link),
    /// Deliver a client's delayed outcome.
    Held(HeldId),
}

/// A waiting client.
pub(super) struct Client<W> {
    pub(super) waiter: W,
    pub(super) prefix: ClientPrefix,
    /// Time of its request.
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    /// The budget it can be charged to, if any.
    pub(super) budget: Option<Budget>,
    pub(super) tracer: Option<Tracer>,
}

/// A query being resolved.
pub(super) struct Lookup<W> {
    pub(super) query_key: QueryKey,
    pub(super) rule: usize,
    /// The source whose answer is excluded.
    pub(super) other_than: Option<AnsweredBy>,
    /// The waiting clients.
    pub(super) clients: Vec<Client<W>>,
    /// Time of [`Timer::Client`]: the earliest of their deadlines.
    pub(super) first_deadline: Option<Instant>,
    /// Lookups that wait for this one, which finds a server's address.
    pub(super) dependents: Vec<LookupId>,
    pub(super) charge: Charge,
    pub(super) attempts: Attempts,
    pub(super) state: State,
}

/// What a lookup's queries are charged to: see `payers`.
#[derive(Default)]
pub(super) struct Charge {
    /// The budget, if the client's query has one.
    pub(super) budget: Option<Budget>,
    /// Nesting depth: number of lookups that wait for each other, up to this one.
    pub(super) depth: u8,
    /// The budget was unused when the lookup was first charged to it.
    pub(super) paid_in_full: bool,
    /// The lookup will restart, charged to another budget.
    pub(super) begins_again: bool,
    /// The exceeded limit of the budget.
    pub(super) overspent: Option<Overspent>,
}

/// The servers that a lookup may query now, and its tries at them.
pub(super) struct Attempts {
    /// The servers of its rule, or of its current zone.
    pub(super) asked: Vec<Asked>,
    pub(super) tries_left: u8,
    /// Servers with fewer tries than this are queried at once when another one fails. 1, until links to all
    /// servers have failed and a new round begins.
    pub(super) round: u32,
    /// Tries that may still get a reply.
    pub(super) tries: Vec<TryId>,
    /// Time of [`Timer::Resume`].
    pub(super) resume: Option<Instant>,
    /// Why the last reply was useless.
    pub(super) fault: Option<ReplyFault>,
    /// Why the last encrypted connection could not be opened.
    pub(super) insecure: Option<EncryptionFault>,
    /// The error-reporting agent of the servers, and the server that named it last.
    pub(super) agent: Option<(ServerId, Box<ReportAgent>)>,
}

/// How a lookup proceeds, with what only this way needs.
pub(super) enum State {
    /// It queries the servers of its rule.
    Forwarding {
        /// Time of [`Timer::Hopeless`].
        hopeless_at: Option<Instant>,
    },
    /// It queries the servers of one zone after the other.
    Iterating(Box<Iteration>),
}

/// The state of a lookup with iteration.
#[derive(Default)]
pub(super) struct Iteration {
    /// The current step; `None` on the move from one zone to the next.
    pub(super) walk: Option<Walk>,
    /// The zone whose parent's servers are being queried again.
    pub(super) recheck: Option<Box<Recheck>>,
    /// Queries so far to parents' servers because a zone's servers failed.
    pub(super) parent_questions: u8,
    /// Proofs about DS from the referrals so far.
    pub(super) referrals: Vec<ReferralProof>,
}

impl State {
    /// Returns the current step of an iteration.
    pub(super) fn walk(&self) -> Option<&Walk> {
        self.iteration().and_then(|iteration| iteration.walk.as_ref())
    }

    /// Returns the current step of an iteration.
    pub(super) fn walk_mut(&mut self) -> Option<&mut Walk> {
        self.iteration_mut().and_then(|iteration| iteration.walk.as_mut())
    }

    pub(super) fn iteration(&self) -> Option<&Iteration> {
        match self {
            State::Forwarding { .. } => None,
            State::Iterating(iteration) => Some(iteration),
        }
    }

    pub(super) fn iteration_mut(&mut self) -> Option<&mut Iteration> {
        match self {
            State::Forwarding { .. } => None,
            State::Iterating(iteration) => Some(iteration),
        }
    }

    /// Ends the recheck of an iteration.
    pub(super) fn take_recheck(&mut self) -> Option<Box<Recheck>> {
        self.iteration_mut().and_then(|iteration| iteration.recheck.take())
    }

    /// Takes the time of [`Timer::Hopeless`].
    pub(super) fn take_hopeless(&mut self) -> Option<Instant> {
        match self {
            State::Forwarding { hopeless_at } => hopeless_at.take(),
            State::Iterating(_) => None,
        }
    }
}

impl<W> Lookup<W> {
    /// A new lookup by a rule, without clients.
    pub(super) fn new(query_key: QueryKey, rule: usize) -> Self {
        Lookup {
            query_key,
            rule,
            other_than: None,
            clients: Vec::new(),
            first_deadline: None,
            dependents: Vec::new(),
            charge: Charge::default(),
            attempts: Attempts {
                asked: Vec::new(),
                tries_left: 0,
                round: 1,
                tries: Vec::new(),
                resume: None,
                fault: None,
                insecure: None,
                agent: None,
            },
            state: State::Forwarding { hopeless_at: None },
        }
    }

    /// Returns the current query to the servers.
    pub(super) fn question(&self) -> &QueryKey {
        self.state.walk().map_or(&self.query_key, |walk| &walk.question)
    }

    /// Returns the query for a server's address that is being sent to the servers of the zone's parent.
    pub(super) fn glue_question(&self) -> Option<QueryKey> {
        self.state.iteration()?.recheck.as_ref()?.question
    }

    /// Returns the failure when all servers were useless, apart from limits of the query.
    pub(super) fn failure(&self) -> LookupFailure {
        match self.attempts.fault {
            Some(fault) => LookupFailure::BadReply(fault),
            None if self.attempts.asked.is_empty() => {
                let hindered = self.state.walk().and_then(|walk| walk.hindered);
                hindered.unwrap_or(LookupFailure::NoServers)
            }
            None if self.attempts.insecure.is_some() => self.insecurity().unwrap_or(LookupFailure::NoReply),
            None if cannot_be_reached(self) => LookupFailure::Network(network_fault(self)),
            None => LookupFailure::NoReply,
        }
    }

    /// Returns the failure of encrypted connections, if one could not be opened.
    fn insecurity(&self) -> Option<LookupFailure> {
        self.attempts.insecure.map(|fault| LookupFailure::Network(NetworkFault::Encryption(fault)))
    }

    /// Returns the failure of clients whose deadline passed.
    pub(super) fn time_is_over(&self) -> LookupFailure {
        self.insecurity().unwrap_or(LookupFailure::TimedOut)
    }

    /// Returns the excluded server; `None` if it is the copy.
    pub(super) fn unwanted_server(&self) -> Option<SocketAddr> {
        self.other_than.and_then(AnsweredBy::server)
    }

    /// Takes the error-reporting agent, if this server named it last.
    pub(super) fn agent_of(&mut self, server: ServerId) -> Option<Box<ReportAgent>> {
        self.attempts.agent.take().filter(|(by, _)| *by == server).map(|(_, agent)| agent)
    }

    /// Puts the servers' error-reporting agent into the charged budget, after a failure.
    pub(super) fn tell_of_agent(&mut self) {
        if let (Some(budget), Some((_, agent))) = (&self.charge.budget, self.attempts.agent.take())
            && !self.clients.is_empty()
        {
            budget.failed_at(agent);
        }
    }

    /// Whether addresses of servers are being looked up for it.
    pub(super) fn seeks(&self) -> bool {
        !self.waits().is_empty()
    }

    /// Returns the lookups of servers' addresses that it waits for.
    pub(super) fn waits(&self) -> &[Wait] {
        self.state.walk().map_or(&[], |walk| &walk.waits)
    }

    /// Returns the one of these that started last.
    pub(super) fn newest_wait(&self) -> Option<LookupId> {
        self.waits().last().map(|wait| wait.on)
    }
}

/// The current step of a lookup with iteration.
pub(super) struct Walk {
    /// The zone whose servers are queried.
    pub(super) cut: Arc<Cut>,
    /// The query to them: the query key, or an ancestor of its name.
    pub(super) question: QueryKey,
    /// Number of labels in this query.
    pub(super) shown: usize,
    /// The whole name is shown, here and in zones below.
    pub(super) whole: bool,
    /// Pending lookups of servers' addresses, the newest at the end. The others are set aside: they accept
    /// replies, but send no further queries.
    pub(super) waits: Vec<Wait>,
    /// Time of [`Timer::Seek`].
    pub(super) seek_at: Option<Instant>,
    /// The zone's servers, by index, whose addresses of a family were looked up.
    pub(super) sought: Vec<(usize, Type)>,
    /// Index of the zone's server whose address is looked up first.
    pub(super) turn: usize,
    /// Addresses from the parent that it is not authoritative for are in use.
    pub(super) outside: bool,
    /// Servers that offer recursion are queried with RD, and need not be authoritative.
    pub(super) recursion: bool,
    /// The limit that prevented the lookup of a needed address, which is no failure of servers.
    pub(super) hindered: Option<LookupFailure>,
}

/// A zone whose servers failed, while its parent's servers are queried again.
pub(super) struct Recheck {
    /// The cached cut of the zone.
    pub(super) child: Arc<Cut>,
    /// Its servers, with the lookup's tries.
    pub(super) asked: Vec<Asked>,
    /// Why they were useless.
    pub(super) failure: LookupFailure,
    /// Its servers whose addresses were requested from the parent's servers.
    pub(super) sought: Vec<LowerNameBuf>,
    /// The delegation is old enough to be requested from the parent's servers again.
    pub(super) due: bool,
    /// The query for a server's address; `None` for the delegation.
    pub(super) question: Option<QueryKey>,
}

/// Whether links failed, and every silent try is due to that.
fn cannot_be_reached<W>(lookup: &Lookup<W>) -> bool {
    let all = &lookup.attempts.asked;
    all.iter().any(|asked| asked.broken > 0) && all.iter().all(|asked| asked.broken == asked.silent)
}

/// Returns why links failed.
fn network_fault<W>(lookup: &Lookup<W>) -> NetworkFault {
    match lookup.attempts.asked.iter().all(|asked| asked.refused == asked.broken) {
        true => NetworkFault::Refused,
        false => NetworkFault::Unreachable,
    }
}

/// A pending lookup of a server's address.
pub(super) struct Wait {
    pub(super) on: LookupId,
    /// Charges the budget: as pending, and for good if fruitless.
    pub(super) seeking: Seeking,
}

/// Changes since the first try at a server in this lookup. Each is made only once, so that there is no loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Over TCP.
    pub(super) stream: bool,
    /// Without EDNS.
    pub(super) plain: bool,
    /// Without a cookie.
    pub(super) bare: bool,
    /// With the cookie from BADCOOKIE.
    pub(super) cookie_again: bool,
    /// Again, since the server closed a kept connection.
    pub(super) reconnected: bool,
    /// In the clear, since an encrypted transport of the server brought no useful reply.
    pub(super) in_clear: Option<InClear>,
}

/// Why a query goes in the clear to a server with an encrypted transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InClear {
    /// No reply came over it in time, or its connection failed.
    NoReply,
    /// The reply over the transport at this place was useless. If the one in the clear is useful, the
    /// transport leads to another server.
    Useless(usize),
}

impl Steps {
    /// Adds a change.
    pub(super) fn and(self, change: TryChange) -> Self {
        match change {
            TryChange::OverTcp => Steps { stream: true, ..self },
            TryChange::WithoutEdns => Steps { plain: true, ..self },
            TryChange::WithoutCookie => Steps { bare: true, ..self },
            TryChange::NewCookie => Steps { cookie_again: true, ..self },
        }
    }
}

/// A query in flight.
pub(super) struct Try {
    /// Its lookup; `None` if that has ended and only the server's health matters.
    pub(super) lookup: Option<LookupId>,
    /// Index of the server in the lookup's list.
    pub(super) place: usize,
    /// The server.
    pub(super) server: ServerId,
    pub(super) link: Link,
    /// Whether the link is a connection, which other tries may share.
    pub(super) stream: bool,
    pub(super) id: u16,
    pub(super) query_key: QueryKey,
    /// The name as sent.
    pub(super) name: NameBuf,
    /// Whether its letters are in random case.
    pub(super) mixed: bool,
    pub(super) opt: Option<Opt>,
    pub(super) steps: Steps,
    pub(super) sent: Instant,
    /// Whether the time to the reply is a round-trip time, without the opening of a connection.
    pub(super) measurable: bool,
    /// Time of [`Timer::Try`]; `None` once that has passed.
    pub(super) timer: Option<Instant>,
    /// It only probes whether a failing server answers again.
    pub(super) probe: bool,
    /// It is a health check, with a query of our own.
    pub(super) check: bool,
    /// For a query over an encrypted transport that the server was found to offer, and for a probe of one:
    /// the server in the clear, and the transport's place.
    pub(super) in_clear: Option<(ServerId, usize)>,
    /// The extended errors of its reply, if there is a trace.
    pub(super) errors: Vec<UpstreamError>,
}

/// Why a link has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLoss {
    /// An error of the socket.
    Io(io::ErrorKind),
    /// It could not be encrypted, or is no more, or the query on it failed.
    Encryption(EncryptionFault),
}

impl Try {
    /// Whether it probes an encrypted transport.
    pub(super) fn is_transport_probe(&self) -> bool {
        self.in_clear.is_some() && self.probe
    }
}

impl LinkLoss {
    /// Returns the loss of an encrypted connection that was not open yet.
    pub(super) fn before_open(error: io::ErrorKind) -> Self {
        EncryptionFault::before_open(error).map_or(LinkLoss::Io(error), LinkLoss::Encryption)
    }

    /// Whether no link could be opened because of our own limit.
    pub(super) fn is_ours(self) -> bool {
        self == LinkLoss::Io(io::ErrorKind::QuotaExceeded)
    }

    /// Whether no server listens at the port.
    pub(super) fn is_refusal(self) -> bool {
        matches!(
            self,
            LinkLoss::Io(io::ErrorKind::ConnectionRefused)
                | LinkLoss::Encryption(EncryptionFault::ConnectionRefused)
        )
    }
}

/// The link that a query is sent on.
pub(super) struct Carrier {
    pub(super) link: Link,
    /// The ID of the query.
    pub(super) query_id: u16,
    /// Whether its reply is measured: opening a connection takes a round trip.
    pub(super) measurable: bool,
}

/// A connection to a server.
pub(super) struct Connection {
    pub(super) server: ServerId,
    pub(super) open: bool,
    /// IDs in use. An ID stays in use when its try is gone, until the reply arrives, unless each query has a
    /// stream of its own.
    pub(super) pending: HashMap<u16, TryId>,
    /// Time of the last message received.
    pub(super) heard: Option<Instant>,
    /// Time of [`Timer::Idle`].
    pub(super) idle_at: Instant,
    /// A query on it timed out, or the server takes no more: it gets no further queries.
    pub(super) suspect: bool,
    /// Its messages are encrypted.
    pub(super) encrypted: bool,
    /// Each query has a stream of its own.
    pub(super) streamed: bool,
    /// Time of [`Timer::Handshake`].
    pub(super) handshake_until: Option<Instant>,
}

/// The use of a link.
pub(super) enum LinkUse {
    /// One datagram exchange.
    Datagram(TryId),
    /// A connection.
    Stream(Connection),
    /// A connection that fetches the key of a target.
    Key(KeyLink),
}

/// A connection to the target behind a proxy, which fetches the target's key.
pub(super) struct KeyLink {
    /// The proxy.
    pub(super) server: ServerId,
    /// Time of [`Timer::Handshake`].
    pub(super) until: Instant,
}
