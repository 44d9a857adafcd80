//! The checks that a query passes before any data is read. Each step is a function; the first step that
//! refuses decides.
//!
//! | step | refuses |
//! |---|---|
//! | `rules` | messages that the server's access rules do not accept |
//! | `cookie` | queries without a valid cookie, from networks that need one |
//! | `limit` | queries over the limit of their client's group |
//! | `form` | malformed messages, responses, and EDNS versions above 0 |
//! | `operation` | opcodes that no source implements |
//! | `signature` | TSIG with an unknown key or a wrong MAC |
//! | `class` | classes without data |
//! | `access` | zone transfers, where no source implements them |
//!
//! `rules`, `cookie` and `limit` decide whatever the other steps say. `cookie` decides about well-formed
//! queries: one with a forged source address gets no answer of any kind, and a message that a rule drops gets
//! none either. `limit` counts queries that no other step stops. Policy that depends on the name comes last.

use std::time::Instant;

use cookies::CookieStanding;
use transfer::tsig::TsigKey;
use transport::Client;
use wire::{Class, Opcode, Rcode, Type};

use crate::client_groups::GroupClient;
use crate::group_limits::GroupLimits;
use crate::query_access::{QueryAction, QueryTraits};
use crate::refusal::Refusal;
use crate::request::{QueryFault, QueryQuestion, Request};
use crate::settings::EngineConfig;
use crate::signature::Signature;
use crate::source::{Operation, Sources};
use crate::stats::QueryStats;

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
    let required = config.cookies.as_ref().and(config.cookies_required_from.as_ref())?;
    let is_free = client.transport.is_stream()
        || request.fault.is_some()
        || request.header.opcode() != Opcode::QUERY
        || signed.is_some_and(|signature| signature.verified().is_some())
        || required.mask(client.peer.ip().to_canonical()) == 0;
    if is_free {
        return None;
    }
    match request.edns.and_then(|edns| config.checked_cookie(&edns, packet, client)) {
        Some(checked) if checked.standing == CookieStanding::Valid => None,
        Some(_) => Some(Refusal::plain(Rcode::BADCOOKIE).into()),
        None => Some(Stopped::Truncated),
    }
}

/// Returns how a query over the limit of its client's group is stopped. A client on a stream would wait for
/// the reply.
#[cold]
pub(crate) fn limit(limits: &GroupLimits, client: GroupClient<'_>, now: Instant) -> Option<Stopped> {
    let is_stream = client.client.transport.is_stream();
    limits.refuses(client, now).then(|| match is_stream {
        true => Refusal::PROHIBITED.into(),
        false => Stopped::Silence,
    })
}

/// Returns how the server's access rules stop a message, if they do. A response is never answered.
#[cold]
pub(crate) fn rules(
    request: &Request,
    key: Option<&TsigKey>,
    client: &Client,
    config: &EngineConfig,
    stats: &QueryStats,
) -> Option<Stopped> {
    let rules = config.access.as_ref().filter(|_| request.fault != Some(QueryFault::Silent))?;
    let (stopped, counter) = match rules.action(&QueryTraits::of(request, client, key.map(TsigKey::name)))? {
        QueryAction::Refuse => (Refusal::PROHIBITED.into(), &stats.access_refused),
        QueryAction::Drop => (Stopped::Silence, &stats.access_dropped),
        QueryAction::Truncate if !client.transport.is_stream() => {
            (Stopped::Truncated, &stats.access_truncated)
        }
        QueryAction::Allow | QueryAction::Truncate => return None,
    };
    counter.add(1);
    Some(stopped)
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use cookies::{CookieSecret, CookieSecrets};
    use transport::Transport;
    use wire::Prefix;
    use wire::message::Header;

    use super::*;
    use crate::prefix::PrefixMasks;

    #[test]
    fn an_ipv4_client_of_a_socket_for_both_families_needs_the_cookie_too() {
        let network: Prefix = "192.0.2.0/24".parse().expect("a network");
        let config = EngineConfig {
            cookies: Some(Arc::new(CookieSecrets::new(vec![CookieSecret::new([1; 16])]))),
            cookies_required_from: Some(PrefixMasks::new([(0, &network)].into_iter())),
            ..EngineConfig::default()
        };
        let mut header = Header::query(7);
        header.set_counts([1, 0, 0, 0]);
        let packet = [header.as_bytes().as_slice(), b"\x01a\0\0\x01\0\x01"].concat();
        let stopped = |peer: &str, transport| {
            let peer: SocketAddr = peer.parse().expect("an address");
            let client = Client { peer, local: peer, transport };
            cookie(&Request::read(&packet), None, &packet, &client, &config)
        };
        assert_eq!(stopped("192.0.2.1:1024", Transport::Udp), Some(Stopped::Truncated));
        assert_eq!(stopped("[::ffff:192.0.2.1]:1024", Transport::Udp), Some(Stopped::Truncated));
        assert_eq!(stopped("[::ffff:192.0.3.1]:1024", Transport::Udp), None);
        assert_eq!(stopped("192.0.2.1:1024", Transport::Tcp), None);
    }
}
