//! Sources beyond memory, what they are asked, and the words in which a question is refused.

use std::sync::Arc;
use std::time::Instant;

use exchange::{Client, MessageStream};
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::message::Builder;
use wire::{Name, Rcode};

use crate::late::Ticket;
use crate::request::{Question, Request};

/// What is asked of a source, memory or other: all that later stages need to know of a query.
pub struct Asked<'a> {
    /// The query as it came.
    pub packet: &'a [u8],
    /// Who asks, and how.
    pub client: Client,
    /// When the batch was received.
    pub received: Instant,
    /// The query as it was read.
    pub request: &'a Request,
    /// Its question: QNAME's length, QTYPE, QCLASS. Of an update, the zone (RFC 2136 §2.3).
    pub question: Question,
    /// QNAME in lower case, and the hash of each of its suffixes.
    pub qname: &'a HashedName,
}

impl<'a> Asked<'a> {
    /// QNAME as the client wrote it.
    #[inline]
    pub fn name(&self) -> Name<'a> {
        self.question.name(self.packet)
    }
}

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

/// Why there is no ordinary answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The response code.
    pub rcode: Rcode,
    /// The extended error that goes with it (RFC 8914).
    pub info: Option<ErrorInfo>,
}

impl Refusal {
    /// The message cannot be read as its header says.
    pub const MALFORMED: Refusal = Refusal::plain(Rcode::FORMERR);
    /// OPT has a version above 0 (RFC 6891 §6.1.3).
    pub const EDNS_VERSION: Refusal = Refusal::plain(Rcode::BADVERS);
    /// Nobody here does what the opcode asks for.
    pub const OPCODE: Refusal = Refusal::plain(Rcode::NOTIMP);
    /// Signed with a key nobody here knows (RFC 8945 §5.2.1).
    pub const UNKNOWN_KEY: Refusal = Refusal::plain(Rcode::NOTAUTH);
    /// There are no data of this class.
    pub const CLASS: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::NOT_SUPPORTED);
    /// No zone here holds the name, and nobody else is asked.
    pub const NOT_AUTHORITATIVE: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::NOT_AUTHORITATIVE);
    /// This client may not do this.
    pub const PROHIBITED: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::PROHIBITED);
    /// The zone is ours but is not loaded.
    pub const NOT_LOADED: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::NOT_READY);
    /// Whoever promised an answer has let go of the question.
    pub const ABANDONED: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);
    /// The answer does not fit a message.
    pub const TOO_LARGE: Refusal = Refusal::plain(Rcode::SERVFAIL);

    /// A response code that says enough.
    pub const fn plain(rcode: Rcode) -> Refusal {
        Refusal { rcode, info: None }
    }

    /// A response code, and why.
    pub const fn because(rcode: Rcode, info: ErrorInfo) -> Refusal {
        Refusal { rcode, info: Some(info) }
    }
}

/// How a source answered.
pub enum Sourced {
    /// The sections are written and the flags set; an extended error may go with them.
    Ready(Option<ErrorInfo>),
    /// There is no ordinary answer; what was written does not count.
    Refused(Refusal),
    /// The source has taken a [`Ticket`] and settles it later. Nothing is sent now.
    Pending(Promise),
    /// Many messages follow: only streams can carry them.
    Stream(Box<dyn MessageStream>),
}

/// Proof that a ticket was taken: whoever says [`Sourced::Pending`] has one to settle.
#[derive(Debug)]
#[must_use = "a question whose ticket was taken is pending"]
pub struct Promise(pub(crate) ());

/// Where a source gets a ticket for the question at hand. There is one.
pub struct TicketOffice<'t> {
    pub(crate) issue: &'t mut dyn FnMut() -> Ticket,
}

impl TicketOffice<'_> {
    /// The ticket, to be settled later from any thread, and the proof that it was taken.
    pub fn take(self) -> (Ticket, Promise) {
        ((self.issue)(), Promise(()))
    }
}

/// Something to ask that is not data in memory. Shared by all workers, which it must not block.
pub trait Source: Send + Sync {
    /// Answers into `b`, or takes a ticket and answers later.
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, tickets: TicketOffice<'_>) -> Sourced;
}

/// Who is asked for what memory does not answer; nobody, where there is none.
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
