//! The outcome of a client's request: an answer, or the reason why there is none.

use std::sync::Arc;

use transport::EncryptionFault;

use crate::budget::Overspent;
use crate::scrub::{ReplyFault, ScrubbedAnswer};

/// The outcome of a client's request.
#[derive(Clone, Debug)]
pub enum LookupOutcome {
    /// The answer.
    Answered(Arc<ScrubbedAnswer>),
    /// No answer.
    Failed(LookupFailure),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupFailure {
    /// The client did not ask for recursion.
    NoRecursion,
    /// No rule covers the name, or the rule has no servers.
    NoRule,
    /// A limit was reached.
    Shed(ShedReason),
    /// The client's deadline passed.
    TimedOut,
    /// No try got a reply.
    NoReply,
    /// No server of a zone on the path could be reached.
    Network(NetworkFault),
    /// No reply was useful; the fault of the last one.
    BadReply(ReplyFault),
    /// No server address could be found for a zone on the path.
    NoServers,
    /// The client's query exceeded its budget.
    Overspent(Overspent),
    /// No server other than the [excluded one](crate::LookupRequest::other_than) has an answer.
    NoOtherServer,
}

/// Why no server of a zone could be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkFault {
    /// Connection refused at every address.
    Refused,
    /// No route to an address, or a link failed in another way.
    Unreachable,
    /// No encrypted connection to a server; why the last attempt failed.
    Encryption(EncryptionFault),
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// Waiting clients of one prefix.
    ClientPrefix,
    /// Waiting clients of one lookup.
    Clients,
    /// Lookups in flight by one rule.
    Rule,
    /// Lookups in flight in total.
    Lookups,
    /// Lookups in flight at the servers of one zone.
    Zone,
    /// Requests in the queue to the resolver. The owner of that queue counts them.
    Queue,
}
