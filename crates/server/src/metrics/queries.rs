//! Queries and replies, as the engine's workers count them.

use std::fmt;
use std::sync::Arc;

use engine::stats::{LATENCY_BOUNDS, RCODES, SIZE_BOUNDS, TYPES, place_label};
use exchange::Transport;
use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use wire::Rcode;

use super::{Figures, Printer};
use crate::frontend::{Accounts, Frontend};

/// What workers, the query log and dnstap count.
pub struct QueryFigures(pub Arc<Frontend>);

impl Figures for QueryFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        queries(&self.0.accounts, out)?;
        let dropped = self.0.query_logger.dropped();
        out.counter("query_log_dropped", "Queries that the query log could not take", dropped)?;
        if let Some(dnstap) = &self.0.dnstap {
            out.counter("dnstap_frames", "dnstap frames written", dnstap.written())?;
            let help = "Messages that dnstap could not take, or that got lost on the way to the collector";
            out.counter("dnstap_dropped", help, dnstap.dropped())?;
            let connected = f64::from(u8::from(dnstap.is_connected()));
            out.gauge("dnstap_connected", "1 while there is a file or a collector to write to", connected)?;
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
    out.family("queries", "Queries received, by transport and type", MetricType::Counter, queries)?;
    let replies = Transport::ALL.iter().enumerate().flat_map(|(t, transport)| {
        (0..RCODES).filter_map(move |rcode| {
            let count = accounts.sum(|s| s.replies[t][rcode].get());
            let label = match u16::try_from(rcode) {
                Ok(n) if rcode + 1 < RCODES => Rcode(n).to_string(),
                _ => "other".into(),
            };
            // The usual codes are there from the start, so that rates can be computed from the first query on.
            (count > 0 || rcode <= 5)
                .then(|| ([("transport", transport.label().into()), ("rcode", label.into())], count))
        })
    });
    out.family("replies", "Replies sent, by transport and response code", MetricType::Counter, replies)?;
    let one = |figure: fn(&engine::Stats) -> u64| accounts.sum(figure);
    out.counter("truncated", "Replies with TC set", one(|s| s.truncated.get()))?;
    out.counter("unanswered", "Messages that get no reply, such as responses", one(|s| s.dropped.get()))?;
    out.counter("deferred", "Queries left to be answered later", one(|s| s.pending.get()))?;
    out.counter("deferred_answered", "Those of them that have been answered", one(|s| s.late.get()))?;
    out.counter("dnssec_ok", "Queries that asked for DNSSEC records", one(|s| s.dnssec_ok.get()))
}

fn histograms(accounts: &Accounts, out: &mut Printer<'_>) -> fmt::Result {
    let mut metric =
        out.0.encode_descriptor("response_size_bytes", "Size of replies", None, MetricType::Histogram)?;
    for (t, transport) in Transport::ALL.iter().enumerate() {
        let bounds = SIZE_BOUNDS.iter().map(|b| *b as f64).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> =
            bounds.enumerate().map(|(i, bound)| (bound, accounts.sum(|s| s.sizes[t][i].get()))).collect();
        let bytes = accounts.sum(|s| s.bytes_out[t].get());
        let count = buckets.iter().map(|b| b.1).sum();
        let labels: &[(&str, &str)] = &[("transport", transport.label())];
        let mut one = metric.encode_family(&labels)?;
        one.encode_histogram::<NoLabelSet>(bytes as f64, count, &buckets, None)?;
    }
    let help = "Time from taking a batch of queries to having answered it, once for each query";
    let mut metric = out.0.encode_descriptor("latency_seconds", help, None, MetricType::Histogram)?;
    let bounds = LATENCY_BOUNDS.iter().map(|b| *b as f64 / 1e9).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> =
        bounds.enumerate().map(|(i, bound)| (bound, accounts.sum(|s| s.latency[i].get()))).collect();
    let seconds = accounts.sum(|s| s.latency_sum.get()) as f64 / 1e9;
    let count = buckets.iter().map(|b| b.1).sum();
    metric.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)
}
