//! Queries and replies, as the engine's workers count them.

use std::fmt;
use std::sync::Arc;

use query_path::stats::{
    COOKIE_STANDINGS, INFO_CODES, LATENCY_BOUNDS, RCODES, SIZE_BOUNDS, TYPES, place_label,
};
use query_path::{LimitAction, ReplyKind};
use transport::Transport;
use wire::Rcode;
use wire::edns::ErrorInfo;

use super::{Bucket, Buckets, Figures, MetricType, Printer};
use serving::frontend::{Accounts, Frontend};

/// Counters of the workers, the query log and dnstap.
pub struct QueryFigures(pub Arc<Frontend>);

impl Figures for QueryFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        queries(&self.0.accounts, out)?;
        let dropped = self.0.query_logger.dropped();
        out.counter(
            "query_log_dropped",
            "Queries missing from the query log because its queue was full or its file could not be written",
            dropped,
        )?;
        out.counter(
            "policy_top_dropped",
            "Blocked queries missing from `nomen ctl policy top` because its queue was full",
            self.0.policy_top.dropped(),
        )?;
        out.counter(
            "limits_top_dropped",
            "Limited replies missing from `nomen ctl limits top` because its queue was full",
            self.0.limits_top.dropped(),
        )?;
        if let Some(dnstap) = &self.0.dnstap {
            out.counter(
                "dnstap_frames",
                "Frames written by dnstap to its file or collector",
                dnstap.written(),
            )?;
            let help =
                "Messages dropped by dnstap because its queue was full, or lost on the way to the collector";
            out.counter("dnstap_dropped", help, dnstap.dropped())?;
            let connected = f64::from(u8::from(dnstap.is_connected()));
            out.gauge("dnstap_connected", "1 while dnstap has a file or a collector to write to", connected)?;
        }
        histograms(&self.0.accounts, out)
    }
}

fn queries(accounts: &Accounts, out: &mut Printer<'_>) -> fmt::Result {
    let queries = Transport::ALL.iter().enumerate().flat_map(|(t, transport)| {
        (0..TYPES).filter_map(move |place| {
            let count = accounts.sum(|s| s.queries[t][place].get());
            let labels = [("transport", transport.label().into()), ("type", place_label(place).into())];
            (count > 0).then_some((labels, count))
        })
    });
    out.family("queries", "Queries received, by transport and query type", MetricType::Counter, queries)?;
    let replies = Transport::ALL.iter().enumerate().flat_map(|(t, transport)| {
        (0..RCODES).filter_map(move |rcode| {
            let count = accounts.sum(|s| s.replies[t][rcode].get());
            let label = match u16::try_from(rcode) {
                Ok(n) if rcode + 1 < RCODES => Rcode(n).to_string(),
                _ => "other".into(),
            };
            // The usual codes are present from the start, so that rates can be computed from the first query
            // on.
            (count > 0 || rcode <= 5)
                .then(|| ([("transport", transport.label().into()), ("rcode", label.into())], count))
        })
    });
    out.family("replies", "Replies sent, by transport and response code", MetricType::Counter, replies)?;
    failures(accounts, out)?;
    let one = |figure: fn(&query_path::QueryStats) -> u64| accounts.sum(figure);
    out.counter(
        "truncated",
        "Replies with TC set, so that the client retries over TCP",
        one(|s| s.truncated.get()),
    )?;
    let cookies = COOKIE_STANDINGS.iter().enumerate().map(|(place, standing)| {
        ([("cookie", standing.label().into())], accounts.sum(|s| s.cookies[place].get()))
    });
    out.family(
        "cookies",
        "Replies with a server cookie, by the cookie of the query: valid; a client cookie only; or one that is \
        too old, for another address or of an unknown secret",
        MetricType::Counter,
        cookies,
    )?;
    access(accounts, out)?;
    limited(accounts, out)?;
    out.counter(
        "nsec3_refused",
        "Denials refused with SERVFAIL because a zone has many NSEC3 iterations and the worker's \
        nsec3-rounds were spent; nomen_zone_nsec3_iterations names such zones",
        one(|s| s.hashing_refused.get()),
    )?;
    out.counter(
        "unanswered",
        "Messages without a reply, such as responses and messages shorter than a DNS header",
        one(|s| s.dropped.get()),
    )?;
    out.counter(
        "deferred",
        "Queries answered later, because another server is queried or a zone is sent",
        one(|s| s.pending.get()),
    )?;
    out.counter("deferred_answered", "Deferred queries that have been answered", one(|s| s.late.get()))?;
    out.counter("dnssec_ok", "Queries that asked for DNSSEC records (the DO bit)", one(|s| s.dnssec_ok.get()))
}

fn limited(accounts: &Accounts, out: &mut Printer<'_>) -> fmt::Result {
    let counts = ReplyKind::ALL.into_iter().flat_map(|kind| {
        LimitAction::ALL.into_iter().map(move |action| {
            let count = accounts.sum(|s| s.limited[kind.index()][action.index()].get());
            ([("kind", kind.label().into()), ("action", action.label().into())], count)
        })
    });
    out.family(
        "rate_limited",
        "Replies over a limit of [rate-limits], by kind (answer, referral, nxdomain, error) and what happened: \
        dropped; truncated or bad-cookie, sent short; sent, an error that is short; dry-run, sent since limits \
        are only tried",
        MetricType::Counter,
        counts,
    )
}

/// What access rules decided.
fn access(accounts: &Accounts, out: &mut Printer<'_>) -> fmt::Result {
    let one = |figure: fn(&query_path::QueryStats) -> u64| accounts.sum(figure);
    let of_server = [
        ("refuse", one(|s| s.access_refused.get())),
        ("drop", one(|s| s.access_dropped.get())),
        ("truncate", one(|s| s.access_truncated.get())),
    ];
    out.family(
        "access",
        "Messages that [[server.access]] does not accept, by action: refuse, drop or truncate",
        MetricType::Counter,
        of_server.into_iter().map(|(action, count)| ([("action", action.into())], count)),
    )?;
    out.counter(
        "zone_refused",
        "Queries refused because `allow-query` of the zone does not allow the client",
        one(|s| s.zone_refused.get()),
    )?;
    out.counter(
        "zone_chains_cut",
        "Answers that end with an alias because `allow-query` of the zone that it leads to does not allow the client",
        one(|s| s.zone_chains_ended.get()),
    )
}

fn failures(accounts: &Accounts, out: &mut Printer<'_>) -> fmt::Result {
    let failures = (0..INFO_CODES + 2).filter_map(|place| {
        let label = match place {
            place if place < INFO_CODES => place.to_string(),
            INFO_CODES => "other".into(),
            _ => "none".into(),
        };
        let count = accounts.sum(|s| s.failures[place].get());
        // The codes that this server itself sends are present from the start, so that rates can be computed.
        let is_usual = [ErrorInfo::OTHER, ErrorInfo::NO_REACHABLE_AUTHORITY, ErrorInfo::INVALID_DATA]
            .iter()
            .any(|info| usize::from(info.0) == place);
        (count > 0 || is_usual).then(|| ([("extended_error", label.into())], count))
    });
    out.family(
        "servfail",
        "Replies with SERVFAIL of this server, by INFO-CODE of their extended error (RFC 8914)",
        MetricType::Counter,
        failures,
    )
}

fn histograms(accounts: &Accounts, out: &mut Printer<'_>) -> fmt::Result {
    let sizes = Transport::ALL.iter().enumerate().map(|(t, transport)| {
        let bounds = SIZE_BOUNDS.iter().map(|b| *b as f64).chain([f64::INFINITY]);
        let bucket =
            |(i, bound): (usize, f64)| Bucket { bound, count: accounts.sum(|s| s.sizes[t][i].get()) };
        let counts = bounds.enumerate().map(bucket);
        let sum = accounts.sum(|s| s.bytes_out[t].get()) as f64;
        ([("transport", transport.label().into())], Buckets { counts: counts.collect(), sum })
    });
    out.histogram("response_size_bytes", "Size of replies, by transport", sizes)?;
    let help = "Time from the receipt of a batch of queries to its replies, once for each query";
    let bounds = LATENCY_BOUNDS.iter().map(|b| *b as f64 / 1e9).chain([f64::INFINITY]);
    let bucket = |(i, bound): (usize, f64)| Bucket { bound, count: accounts.sum(|s| s.latency[i].get()) };
    let counts = bounds.enumerate().map(bucket);
    let sum = accounts.sum(|s| s.latency_sum.get()) as f64 / 1e9;
    out.histogram("latency_seconds", help, std::iter::once(([], Buckets { counts: counts.collect(), sum })))
}
