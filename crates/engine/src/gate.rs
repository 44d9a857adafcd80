//! Whether a query may be asked at all, before any data is looked at. One step after the other, each a
//! function; the first that objects decides.
//!
//! | step | objects to |
//! |---|---|
//! | `form` | what cannot be read, is no query, or speaks a later EDNS |
//! | `operation` | opcodes that are not served here |
//! | `signature` | keys that are not known here, and what they did not sign |
//! | `class` | classes without data |
//! | `access` | operations that this client may not have done |
//!
//! Cookies and rate limits belong between `form` and `operation`, since a forged source is to cost nothing
//! more; policy that looks at the name comes last.

use wire::{Class, Opcode, Type};

use crate::refusal::Refusal;
use crate::request::{QueryFault, Question, Request};
use crate::signature::Signature;
use crate::source::{Operation, Sources};

/// What becomes of a query that may not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// No reply at all.
    Silence,
    /// A reply that refuses.
    Refused(Refusal),
}

impl Stopped {
    /// The refusal in the reply, if there is to be one.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Stopped::Refused(refusal) => refusal,
            Stopped::Silence => Refusal::MALFORMED,
        }
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Stopped::Refused(refusal)
    }
}

/// Takes one query through all steps. Returns what it wants done.
#[inline]
pub(crate) fn admit(
    request: &Request,
    signed: Option<&Signature>,
    sources: &Sources,
) -> Result<(Operation, Question), Stopped> {
    form(request)?;
    let (operation, question) = operation(request, sources)?;
    signature(signed)?;
    class(&question)?;
    access(operation, sources)?;
    Ok((operation, question))
}

/// Objects to what the message itself shows.
#[inline]
fn form(request: &Request) -> Result<(), Stopped> {
    match request.fault {
        None => Ok(()),
        Some(QueryFault::Silent) => Err(Stopped::Silence),
        Some(QueryFault::Format) => Err(Refusal::MALFORMED.into()),
        Some(QueryFault::Version) => Err(Refusal::EDNS_VERSION.into()),
    }
}

/// What is to be done, if anybody does it.
#[inline]
fn operation(request: &Request, sources: &Sources) -> Result<(Operation, Question), Refusal> {
    let question = request.question.ok_or(Refusal::OPCODE)?;
    let operation = match request.header.opcode() {
        Opcode::QUERY if matches!(question.qtype, Type::AXFR | Type::IXFR) => Operation::Transfer,
        Opcode::QUERY => Operation::Query,
        Opcode::NOTIFY if sources.notify.is_some() => Operation::Notify,
        Opcode::UPDATE if sources.update.is_some() => Operation::Update,
        _ => return Err(Refusal::OPCODE),
    };
    Ok((operation, question))
}

/// A signature that is not good is refused; without one nothing is wrong.
#[inline]
fn signature(signed: Option<&Signature>) -> Result<(), Refusal> {
    signed.and_then(Signature::refusal).map_or(Ok(()), Err)
}

/// Data are of class IN; what the server says of itself is of class CH.
#[inline]
fn class(question: &Question) -> Result<(), Refusal> {
    match question.qclass {
        Class::IN | Class::CH | Class::ANY => Ok(()),
        _ => Err(Refusal::CLASS),
    }
}

/// Whether this client may have it done: every client may query, and none may transfer where no source makes
/// transfers.
#[inline]
fn access(operation: Operation, sources: &Sources) -> Result<(), Refusal> {
    match operation {
        Operation::Transfer if sources.transfer.is_none() => Err(Refusal::PROHIBITED),
        _ => Ok(()),
    }
}
