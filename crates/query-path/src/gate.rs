//! The checks that a query passes before any data is read. Each step is a function; the first step that
//! refuses decides.
//!
//! | step | refuses |
//! |---|---|
//! | `form` | malformed messages, responses, and EDNS versions above 0 |
//! | `operation` | opcodes that no source implements |
//! | `signature` | TSIG with an unknown key or a wrong MAC |
//! | `class` | classes without data |
//! | `access` | zone transfers, where no source implements them |
//!
//! `cookie` comes before them where clients need a valid cookie, so that a query with a forged source address
//! costs no more than that. Rate limits belong there, too; policy that depends on the name comes last.

use cookies::CookieStanding;
use transport::{Client, unix_now};
use wire::{Class, Opcode, Rcode, Type};

use crate::refusal::Refusal;
use crate::request::{QueryFault, QueryQuestion, Request};
use crate::settings::EngineConfig;
use crate::signature::Signature;
use crate::source::{Operation, Sources};

/// The result for a query that a step of the gate refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// No reply at all.
    Silence,
    /// A reply with this refusal.
    Refused(Refusal),
    /// A truncated reply without records, so that the client asks again over TCP.
    Truncated,
}

impl Stopped {
    /// Returns the refusal in the reply, if a reply is sent.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Stopped::Refused(refusal) => refusal,
            Stopped::Silence | Stopped::Truncated => Refusal::MALFORMED,
        }
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Stopped::Refused(refusal)
    }
}

/// Takes one query through all steps. Returns its operation and its question.
#[inline]
pub(crate) fn admit(
    request: &Request,
    signed: Option<&Signature>,
    sources: &Sources,
) -> Result<(Operation, QueryQuestion), Stopped> {
    form(request)?;
    let (operation, question) = operation(request, sources)?;
    signature(signed)?;
    class(&question)?;
    access(operation, sources)?;
    Ok((operation, question))
}

/// Checks what the parser found wrong with the message.
#[inline]
fn form(request: &Request) -> Result<(), Stopped> {
    match request.fault {
        None => Ok(()),
        Some(QueryFault::Silent) => Err(Stopped::Silence),
        Some(QueryFault::Format) => Err(Refusal::MALFORMED.into()),
        Some(QueryFault::Version) => Err(Refusal::EDNS_VERSION.into()),
        // The reply has no section but OPT with the server cookie.
        Some(QueryFault::CookieOnly) => Err(Refusal::plain(Rcode::NOERROR).into()),
    }
}

/// Returns the reply to a query that needs a valid cookie and has none (RFC 7873 §5.2.3): with a client
/// cookie BADCOOKIE, whose option has the server cookie to ask again with, and else a truncated one. Queries
/// from the configured networks need it over UDP without a valid TSIG.
#[cold]
pub(crate) fn cookie(
    request: &Request,
    signed: Option<&Signature>,
    packet: &[u8],
    client: &Client,
    config: &EngineConfig,
) -> Option<Stopped> {
    let secrets = config.cookies.as_deref()?;
    let is_free = client.transport.is_stream()
        || request.fault.is_some()
        || request.header.opcode() != Opcode::QUERY
        || signed.is_some_and(|signature| signature.verified().is_some())
        || !config.cookies_required_from.iter().any(|network| network.contains(client.peer.ip()));
    if is_free {
        return None;
    }
    let cookie = request.edns.and_then(|edns| edns.cookie(packet));
    let now = unix_now().as_secs() as u32;
    match cookie.and_then(|data| secrets.check(data, client.peer.ip(), now)) {
        Some(checked) if checked.standing == CookieStanding::Valid => None,
        Some(_) => Some(Refusal::plain(Rcode::BADCOOKIE).into()),
        None => Some(Stopped::Truncated),
    }
}

/// Returns the operation for the opcode and QTYPE, if a source implements it.
#[inline]
fn operation(request: &Request, sources: &Sources) -> Result<(Operation, QueryQuestion), Refusal> {
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

/// Refuses an invalid TSIG. A query without TSIG passes.
#[inline]
fn signature(signed: Option<&Signature>) -> Result<(), Refusal> {
    signed.and_then(Signature::refusal).map_or(Ok(()), Err)
}

/// Data are of class IN; the server's identity is of class CH.
#[inline]
fn class(question: &QueryQuestion) -> Result<(), Refusal> {
    match question.qclass {
        Class::IN | Class::CH | Class::ANY => Ok(()),
        _ => Err(Refusal::CLASS),
    }
}

/// Checks whether the operation is served: every client may query, and zone transfers are refused where no
/// source implements them.
#[inline]
fn access(operation: Operation, sources: &Sources) -> Result<(), Refusal> {
    match operation {
        Operation::Transfer if sources.transfer.is_none() => Err(Refusal::PROHIBITED),
        _ => Ok(()),
    }
}
