//! Sources of answers beyond memory.

use std::sync::Arc;

use transport::MessageStream;
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::message::Builder;

use crate::asked::Asked;
use crate::late::Responder;
use crate::refusal::Refusal;

/// The operation that a query requests, by its opcode and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An ordinary query (RFC 1034 §3.7).
    Query,
    /// Transfer of a zone, whole or its changes: AXFR (RFC 5936), IXFR (RFC 1995).
    Transfer,
    /// NOTIFY (RFC 1996).
    Notify,
    /// UPDATE (RFC 2136).
    Update,
}

/// How a source answers a query.
pub enum SourceReply {
    /// The sections are written and the flags set, with an optional extended error.
    Ready(Option<ErrorInfo>),
    /// No ordinary answer; the caller discards what was written.
    Refused(Refusal),
    /// The client gets no reply.
    NoReply,
    /// The source has taken a [`Responder`] and settles it later. Nothing is sent now.
    Pending(Promise),
    /// Many messages follow, which only stream transports can carry.
    Stream(Box<dyn MessageStream>),
}

/// Proof that a responder was taken: the source that returns [`SourceReply::Pending`] must settle it.
#[derive(Debug)]
#[must_use = "a question whose ticket was taken is pending"]
pub struct Promise(pub(crate) ());

/// Issues the one responder for the query that a source is asked.
pub struct Responders<'t> {
    pub(crate) issue: &'t mut dyn FnMut() -> Responder,
}

impl Responders<'_> {
    /// Returns the responder, to be settled later from any thread, and the proof that it was taken.
    pub fn take(self) -> (Responder, Promise) {
        ((self.issue)(), Promise(()))
    }
}

/// A source of answers that are not in memory. All workers share it, and it must not block them.
pub trait Source: Send + Sync {
    /// Answers into `b`, or takes a responder and answers later.
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, responders: Responders<'_>) -> SourceReply;

    /// Answers a request whose TSIG is not valid here; `refusal` is the answer unless the request is
    /// forwarded to another server. Only the source of updates gets this call, which may forward them (RFC
    /// 2136 §6).
    fn unverified(&self, refusal: Refusal, _asked: &Asked<'_>, _responders: Responders<'_>) -> SourceReply {
        SourceReply::Refused(refusal)
    }

    /// Continues a chain of aliases that leaves memory: the message `links` is the chain, `target` its last
    /// target. The answer is the chain followed by the answer for `target`; the chain alone is a valid answer
    /// too (RFC 1034 §3.6.2). `b` does not hold the chain.
    ///
    /// Only the source for other names gets this call.
    fn follow(
        &self,
        _target: &HashedName,
        _links: Vec<u8>,
        _asked: &Asked<'_>,
        _b: &mut Builder<'_>,
        _responders: Responders<'_>,
    ) -> SourceReply {
        SourceReply::Refused(Refusal::ABANDONED)
    }
}

/// The sources for queries that memory does not answer, as far as they are set.
#[derive(Clone, Default)]
pub struct Sources {
    /// For names that are not in memory.
    pub elsewhere: Option<Arc<dyn Source>>,
    /// For zone transfers.
    pub transfer: Option<Arc<dyn Source>>,
    /// For NOTIFY.
    pub notify: Option<Arc<dyn Source>>,
    /// For UPDATE.
    pub update: Option<Arc<dyn Source>>,
}

impl Sources {
    /// Returns the source for this operation.
    #[inline]
    pub(crate) fn of(&self, operation: Operation) -> Option<&dyn Source> {
        let source = match operation {
            Operation::Query => &self.elsewhere,
            Operation::Transfer => &self.transfer,
            Operation::Notify => &self.notify,
            Operation::Update => &self.update,
        };
        source.as_deref()
    }
}
