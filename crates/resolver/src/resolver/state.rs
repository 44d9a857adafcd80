//! What is in flight: lookups, tries, connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use exchange::{Link, Transport};
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
use crate::servers::ServerId;
use crate::trace::{Tracer, TryChange};

/// The number of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LookupId(pub(super) u64);

/// The number of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TryId(pub(super) u64);

/// The number of a client whose outcome is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct HeldId(pub(super) u64);

/// What happens at a time if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The first of a lookup's clients has waited long enough.
    Client(LookupId),
    /// A lookup goes on to its next try.
    Resume(LookupId),
    /// The address of a server that a lookup waits for has been long in coming.
    Seek(LookupId),
    /// No server of a lookup has replied, and all of them were dead when it began.
    Hopeless(LookupId),
    /// A try has not been answered.
    Try(TryId),
    /// A connection has been without traffic.
    Idle(Link),
    /// A client gets its outcome.
    Held(HeldId),
}

/// A client that waits.
pub(super) struct Client<W> {
    pub(super) waiter: W,
    pub(super) prefix: ClientPrefix,
    /// When it came.
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    /// What it pays from, where it pays.
    pub(super) budget: Option<Budget>,
    pub(super) tracer: Option<Tracer>,
}

/// A question that is being resolved.
pub(super) struct Lookup<W> {
    pub(super) query_key: QueryKey,
    pub(super) rule: usize,
    /// Who waits.
    pub(super) clients: Vec<Client<W>>,
    /// When [`Timer::Client`] is set to: the earliest of their deadlines.
    pub(super) first_deadline: Option<Instant>,
    /// Lookups that wait for this one, since it finds the address of a server.
    pub(super) dependents: Vec<LookupId>,
    /// How many lookups wait for each other in a row, up to this one.
    pub(super) depth: u8,
    /// What it is paid from, if its client's query has a budget: see `payers`.
    pub(super) budget: Option<Budget>,
    /// Nothing else was paid from that before.
    pub(super) paid_in_full: bool,
    /// It is to begin again, now that it is paid from another.
    pub(super) begins_again: bool,
    /// Which part of it is spent.
    pub(super) overspent: Option<Overspent>,
    /// Whose answer is not wanted.
    pub(super) other_than: Option<AnsweredBy>,
    /// What referrals on the way said of DS.
    pub(super) referrals: Vec<ReferralProof>,
    /// How far it has come, if it goes step by step.
    pub(super) walk: Option<Box<Walk>>,
    /// The zone whose parent's servers are asked again at the moment.
    pub(super) recheck: Option<Box<Recheck>>,
    /// Questions so far to parents' servers for zones whose servers failed.
    pub(super) parent_questions: u8,
    /// The servers of its rule, or of the zone that it has come to.
    pub(super) asked: Vec<Asked>,
    pub(super) tries_left: u8,
    /// Servers asked less often than this are asked at once where another is of no help: 1, until links to
    /// all have failed and they are asked again.
    pub(super) round: u32,
    /// Tries that may still be answered.
    pub(super) tries: Vec<TryId>,
    /// When [`Timer::Resume`] is set to.
    pub(super) resume: Option<Instant>,
    /// When [`Timer::Hopeless`] is set to.
    pub(super) hopeless_at: Option<Instant>,
    /// Why the last reply could not be used.
    pub(super) fault: Option<ReplyFault>,
    /// The limit that kept an address it needs from being found. It is no failure of servers.
    pub(super) hindered: Option<LookupFailure>,
    /// The agent that the servers asked at the moment name for reports of failures, and which of them named
    /// it last.
    pub(super) agent: Option<(ServerId, Box<ReportAgent>)>,
}

impl<W> Lookup<W> {
    /// A lookup by a rule that has not begun, without clients.
    pub(super) fn new(query_key: QueryKey, rule: usize) -> Self {
        Lookup {
            query_key,
            rule,
            clients: Vec::new(),
            first_deadline: None,
            dependents: Vec::new(),
            depth: 0,
            budget: None,
            paid_in_full: false,
            begins_again: false,
            overspent: None,
            other_than: None,
            referrals: Vec::new(),
            walk: None,
            recheck: None,
            parent_questions: 0,
            asked: Vec::new(),
            tries_left: 0,
            round: 1,
            tries: Vec::new(),
            resume: None,
            hopeless_at: None,
            fault: None,
            hindered: None,
            agent: None,
        }
    }

    /// What the servers are asked at the moment.
    pub(super) fn question(&self) -> &QueryKey {
        self.walk.as_ref().map_or(&self.query_key, |walk| &walk.question)
    }

    /// The question for a server's address that the servers of its zone's parent are asked at the moment.
    pub(super) fn glue_question(&self) -> Option<QueryKey> {
        self.recheck.as_ref().and_then(|recheck| recheck.question)
    }

    /// Why no server that was asked was of use, limits of the query aside.
    pub(super) fn failure(&self) -> LookupFailure {
        match self.fault {
            Some(fault) => LookupFailure::BadReply(fault),
            None if self.asked.is_empty() => self.hindered.unwrap_or(LookupFailure::NoServers),
            None if cannot_be_reached(self) => LookupFailure::Network(network_fault(self)),
            None => LookupFailure::NoReply,
        }
    }

    /// The server whose answer is not wanted, if it is one's.
    pub(super) fn unwanted_server(&self) -> Option<SocketAddr> {
        self.other_than.and_then(AnsweredBy::server)
    }

    /// Takes the error-reporting agent of this server, if it is the server that named one last.
    pub(super) fn agent_of(&mut self, server: ServerId) -> Option<Box<ReportAgent>> {
        self.agent.take().filter(|(by, _)| *by == server).map(|(_, agent)| agent)
    }

    /// It has failed: the budget of the client that pays gets the servers' error-reporting agent.
    pub(super) fn tell_of_agent(&mut self) {
        if let (Some(budget), Some((_, agent))) = (&self.budget, self.agent.take())
            && !self.clients.is_empty()
        {
            budget.failed_at(agent);
        }
    }

    /// Whether the addresses of servers are being looked up for it.
    pub(super) fn seeks(&self) -> bool {
        !self.waits().is_empty()
    }

    /// Lookups of servers' addresses that it waits for.
    pub(super) fn waits(&self) -> &[Wait] {
        self.walk.as_ref().map_or(&[], |walk| &walk.waits)
    }

    /// The one of them that was begun last.
    pub(super) fn newest_wait(&self) -> Option<LookupId> {
        self.waits().last().map(|wait| wait.on)
    }
}

/// How far a lookup has come that goes step by step.
pub(super) struct Walk {
    /// The zone whose servers are asked.
    pub(super) cut: Arc<Cut>,
    /// What they are asked: the query key, or an ancestor of its name.
    pub(super) question: QueryKey,
    /// Labels of the name that this shows.
    pub(super) shown: usize,
    /// It shows the whole name, here and in zones below.
    pub(super) whole: bool,
    /// Lookups of servers' addresses that are waited for, the one begun last at the end. The others are set
    /// aside: they take the replies that come, but send no further query.
    pub(super) waits: Vec<Wait>,
    /// When [`Timer::Seek`] is set to.
    pub(super) seek_at: Option<Instant>,
    /// The zone's servers, by their place, whose addresses of a family were looked up.
    pub(super) sought: Vec<(usize, Type)>,
    /// Which of the zone's servers is the first whose address is looked up.
    pub(super) turn: usize,
    /// Addresses are used that the parent gave without being authoritative for them.
    pub(super) outside: bool,
    /// Servers that offer recursion are asked with RD, and need not be authoritative.
    pub(super) recursion: bool,
}

/// A zone whose servers failed, while its parent's servers are asked about it again.
pub(super) struct Recheck {
    /// The zone as it was known.
    pub(super) child: Arc<Cut>,
    /// Its servers, as the lookup has asked them.
    pub(super) asked: Vec<Asked>,
    /// Why they were of no use.
    pub(super) failure: LookupFailure,
    /// Its servers whose addresses the parent's servers were asked for.
    pub(super) sought: Vec<LowerNameBuf>,
    /// The delegation was learned some time ago, and the parent's servers were not asked for it since.
    pub(super) due: bool,
    /// The question for a server's address, if it is not the delegation that is asked for.
    pub(super) question: Option<QueryKey>,
}

/// Whether links led nowhere, and no server was silent otherwise.
fn cannot_be_reached<W>(lookup: &Lookup<W>) -> bool {
    let all = &lookup.asked;
    all.iter().any(|asked| asked.broken > 0) && all.iter().all(|asked| asked.broken == asked.silent)
}

/// Why links led nowhere.
fn network_fault<W>(lookup: &Lookup<W>) -> NetworkFault {
    match lookup.asked.iter().all(|asked| asked.refused == asked.broken) {
        true => NetworkFault::Refused,
        false => NetworkFault::Unreachable,
    }
}

/// A lookup of a server's address that is waited for.
pub(super) struct Wait {
    pub(super) on: LookupId,
    /// It is counted among those under way for as long, and if it finds nothing for ever.
    pub(super) seeking: Seeking,
}

/// What was changed since the first try of a server in this lookup. Each is done once, so none goes in a
/// circle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Over TCP.
    pub(super) stream: bool,
    /// Without EDNS.
    pub(super) plain: bool,
    /// Without a cookie.
    pub(super) bare: bool,
    /// With the cookie that BADCOOKIE brought.
    pub(super) cookie_again: bool,
    /// Again, since a kept connection was closed by the server.
    pub(super) reconnected: bool,
}

impl Steps {
    /// These and one more.
    pub(super) fn and(self, change: TryChange) -> Self {
        match change {
            TryChange::OverTcp => Steps { stream: true, ..self },
            TryChange::WithoutEdns => Steps { plain: true, ..self },
            TryChange::WithoutCookie => Steps { bare: true, ..self },
            TryChange::NewCookie => Steps { cookie_again: true, ..self },
        }
    }
}

/// A query that was sent.
pub(super) struct Try {
    /// For whom; `None` if the lookup is over and only the server's health is of interest.
    pub(super) lookup: Option<LookupId>,
    /// The server's place among those of the lookup.
    pub(super) place: usize,
    /// The server.
    pub(super) server: ServerId,
    pub(super) link: Link,
    /// Whether the link is a connection, which others may share.
    pub(super) stream: bool,
    pub(super) id: u16,
    pub(super) query_key: QueryKey,
    /// The name as it was sent.
    pub(super) name: NameBuf,
    /// Whether its letters are in random case.
    pub(super) mixed: bool,
    pub(super) opt: Option<Opt>,
    pub(super) steps: Steps,
    pub(super) sent: Instant,
    /// Whether the time to the reply is a round-trip time: no connection had to be opened.
    pub(super) measurable: bool,
    /// When [`Timer::Try`] is set to; none once that has passed.
    pub(super) timer: Option<Instant>,
    /// Only to see whether a failing server answers again.
    pub(super) probe: bool,
    /// A question of our own, for that alone.
    pub(super) check: bool,
    /// The extended errors of its reply, where a trace is kept.
    pub(super) errors: Vec<UpstreamError>,
}

impl Try {
    pub(super) fn transport(&self) -> Transport {
        if self.stream { Transport::Tcp } else { Transport::Udp }
    }
}

/// A connection to a server.
pub(super) struct Connection {
    pub(super) server: ServerId,
    pub(super) open: bool,
    /// IDs in use. They stay in use when their try is gone, until the reply comes.
    pub(super) pending: HashMap<u16, TryId>,
    /// When something came in last.
    pub(super) heard: Option<Instant>,
    /// When [`Timer::Idle`] is set to.
    pub(super) idle_at: Instant,
    /// It has left a query unanswered, and is not used for others.
    pub(super) suspect: bool,
}

/// What a link is used for.
pub(super) enum LinkUse {
    /// One datagram exchange.
    Datagram(TryId),
    /// A connection.
    Stream(Connection),
}
