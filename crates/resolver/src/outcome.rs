//! The outcome of a client's request: an answer, or why there is none.

use std::sync::Arc;

use crate::budget::Overspent;
use crate::scrub::{Answer, ReplyFault};

/// What came of a client's request.
#[derive(Clone, Debug)]
pub enum LookupOutcome {
    /// An upstream server has answered.
    Answered(Arc<Answer>),
    /// There is no answer.
    Failed(LookupFailure),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupFailure {
    /// The client did not ask for recursion.
    NoRecursion,
    /// No rule covers the name, or the one that does has no servers.
    NoRule,
    /// A limit was reached.
    Shed(ShedReason),
    /// The client's time was over.
    TimedOut,
    /// All tries are spent, and no server replied.
    NoReply,
    /// No server of a zone on the way could be reached.
    Network(NetworkFault),
    /// All tries are spent, and no reply could be used; why the last could not.
    BadReply(ReplyFault),
    /// A zone on the way has no server whose address can be found.
    NoServers,
    /// The client's query has cost enough.
    Overspent(Overspent),
    /// No other server than the one that is [not wanted](crate::LookupRequest::other_than) has an answer.
    NoOtherServer,
}

/// Why no server of a zone could be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkFault {
    /// Nothing listens at any of their ports: all connections are refused.
    Refused,
    /// There is no route to one of them, or a link failed in another way.
    Unreachable,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// Too many clients of its prefix wait.
    ClientPrefix,
    /// Too many clients wait for the lookup.
    Clients,
    /// Too many lookups by the rule.
    Rule,
    /// Too many lookups in all.
    Lookups,
    /// Too many lookups at the servers of one zone.
    Zone,
    /// Too many requests wait to be looked at. The owner of that queue counts them.
    Queue,
}
