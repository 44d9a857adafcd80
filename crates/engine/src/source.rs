//! Sources beyond memory, and how they answer.

use std::sync::Arc;

use exchange::MessageStream;
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::message::Builder;

use crate::asked::Asked;
use crate::late::Responder;
use crate::refusal::Refusal;

/// What a query wants done, by its opcode and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An ordinary question (RFC 1034 §3.7).
    Query,
    /// All of a zone, or what changed in it: AXFR (RFC 5936), IXFR (RFC 1995).
    Transfer,
    /// News that a zone has changed (RFC 1996).
    Notify,
    /// A change to a zone (RFC 2136).
    Update,
}

/// How a source answered.
pub enum SourceReply {
    /// The sections are written and the flags set; an extended error may go with them.
    Ready(Option<ErrorInfo>),
    /// There is no ordinary answer; what was written does not count.
    Refused(Refusal),
    /// The source has taken a [`Responder`] and settles it later. Nothing is sent now.
    Pending(Promise),
    /// Many messages follow: only streams can carry them.
    Stream(Box<dyn MessageStream>),
}

/// Proof that a responder was taken: the source that returns [`SourceReply::Pending`] has one to settle.
#[derive(Debug)]
#[must_use = "a question whose ticket was taken is pending"]
pub struct Promise(pub(crate) ());

/// Where a source gets the one responder for the question that it is asked.
pub struct Responders<'t> {
    pub(crate) issue: &'t mut dyn FnMut() -> Responder,
}

impl Responders<'_> {
    /// The responder, to be settled later from any thread, and the proof that it was taken.
    pub fn take(self) -> (Responder, Promise) {
        ((self.issue)(), Promise(()))
    }
}

/// Something to ask that is not data in memory. Shared by all workers, which it must not block.
pub trait Source: Send + Sync {
    /// Answers into `b`, or takes a responder and answers later.
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, responders: Responders<'_>) -> SourceReply;

    /// Answers a request whose signature is not good here, for which `refusal` is the answer unless another
    /// server is to judge it. Only the source of updates is asked this, which may pass them on (RFC 2136 §6).
    fn unverified(&self, refusal: Refusal, _asked: &Asked<'_>, _responders: Responders<'_>) -> SourceReply {
        SourceReply::Refused(refusal)
    }

    /// Goes on where memory has come to an end: the message `links` is a chain that leads to `target`. The
    /// answer is that and what is found there; it is an answer by itself, too (RFC 1034 §3.6.2). In `b`
    /// stands nothing of it.
    ///
    /// Only the source of other names is asked this: no chain leads to what the others do.
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

/// The sources that are asked for what memory does not answer, where they are set.
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
    /// Who does this.
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
