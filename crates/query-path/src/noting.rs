//! What logs and counters receive of a query and its reply.

use std::net::SocketAddr;
use std::time::Instant;

use wire::{Name, Rcode, ViewName};

use crate::log::{LoggedQuery, LoggedReply, QueryLog, Role};
use crate::refusal::{Answered, Refusal};
use crate::rule_note::RuleNote;
use crate::settings::Shared;
use crate::signature::Signature;
use crate::stats::QueryStats;
use crate::tail::{FinishedReply, ReplyFrame};

/// Whether zones or the resolver answer a query, the zone, and the view that the query is in.
pub(crate) struct Served<'a> {
    pub(crate) role: Role,
    pub(crate) zone: Option<Name<'a>>,
    pub(crate) view: Option<&'a ViewName>,
}

/// A query for the query log.
pub(crate) fn logged<'a>(frame: &ReplyFrame<'a>, received: Instant, served: Served<'a>) -> LoggedQuery<'a> {
    let ReplyFrame { request, packet, client, signed, .. } = *frame;
    let key = signed.and_then(Signature::verified).map(|verified| &**verified.key());
    let Served { role, zone, view } = served;
    LoggedQuery { request, packet, client: *client, received, role, zone, view, key }
}

/// A reply for the query log. It lies at the start of `out`.
pub(crate) fn logged_reply(
    reply: FinishedReply,
    out: &[u8],
    upstream: Option<SocketAddr>,
    rule: Option<RuleNote>,
) -> LoggedReply<'_> {
    let FinishedReply { rcode, truncated, info, len } = reply;
    let rule = rule.filter(|rule| rule.is_logged);
    LoggedReply { message: &out[..len], rcode, truncated, info, upstream, rule }
}

/// Logs a query that gets no reply by a rule.
#[cold]
pub(crate) fn log_withheld(log: &dyn QueryLog, query: &LoggedQuery<'_>, rule: &RuleNote) {
    log.withheld(query, Some(rule).filter(|rule| rule.is_logged));
}

/// Counts a query that a rule of a policy decides.
#[cold]
pub(crate) fn count_rule<M>(shared: &Shared<M>, frame: &ReplyFrame<'_>, rule: &RuleNote) {
    if let Some(log) = &shared.rules {
        let qname = frame.request.question.map_or(Name::ROOT, |question| question.name(frame.packet));
        log.decided(frame.client, qname, rule);
    }
}

/// Returns the refusal if it is one that is logged as a failure.
#[inline]
pub(crate) fn to_note(answered: Answered, signed: Option<&Signature>) -> Option<Refusal> {
    answered.err().filter(|refusal| refusal.rcode == Rcode::SERVFAIL || signed.is_some())
}

/// Counts and logs a query that is refused with SERVFAIL or for its TSIG.
#[cold]
pub(crate) fn note_failure<'q, M>(
    Refusal { rcode, info }: Refusal,
    signed: Option<&Signature>,
    stats: &QueryStats,
    shared: &Shared<M>,
    query: impl FnOnce() -> LoggedQuery<'q>,
) {
    if rcode == Rcode::SERVFAIL {
        stats.failure(info);
    }
    match (&shared.failures, signed) {
        (Some(log), _) if rcode == Rcode::SERVFAIL => log.failed(&query(), info),
        (Some(log), Some(Signature::Bad(error))) if rcode == error.rcode() => {
            log.bad_signature(&query(), error);
        }
        _ => {}
    }
}
