//! `nomen ctl stats`: every counter, and every metric of `/metrics`.

use query_path::stats::{LATENCY_BOUNDS, RCODES, SIZE_BOUNDS, TYPES, place_label};
use query_path::{LimitAction, ReplyKind};
use serde_json::{Map, Value};
use transport::Transport;
use wire::Rcode;

use crate::metrics::{AllFigures, Format, render};
use crate::parts::ServerParts;
use serving::recursive::counts;

/// Returns every counter, and every series of `/metrics` under its own name except buckets of histograms.
pub(super) fn stats(parts: &ServerParts, figures: &AllFigures) -> Value {
    let mut all = counters(parts);
    all.extend(series(&render(figures, Format::Prometheus).unwrap_or_default()));
    Value::Object(all)
}

/// Returns the counters as one flat object: names are paths, so that text output can be searched.
fn counters(parts: &ServerParts) -> Map<String, Value> {
    let ServerParts { frontend, images, recursive, logging, .. } = parts;
    let accounts = &frontend.accounts;
    let mut all = Map::new();
    let mut put = |name: String, value: u64| {
        all.insert(name, value.into());
    };
    for (t, transport) in Transport::ALL.iter().enumerate() {
        put(format!("{transport}.queries"), accounts.sum(|s| s.queries[t].iter().map(|c| c.get()).sum()));
        for place in 0..TYPES {
            let count = accounts.sum(|s| s.queries[t][place].get());
            if count > 0 {
                put(format!("{transport}.type.{}", place_label(place)), count);
            }
        }
        for rcode in 0..RCODES {
            let count = accounts.sum(|s| s.replies[t][rcode].get());
            if count > 0 {
                let label = u16::try_from(rcode).map_or_else(|_| "other".into(), |n| Rcode(n).to_string());
                put(format!("{transport}.rcode.{label}"), count);
            }
        }
        for i in 0..=SIZE_BOUNDS.len() {
            let label = SIZE_BOUNDS.get(i).map_or("more".into(), |b| b.to_string());
            put(format!("{transport}.size.{label}"), accounts.sum(|s| s.sizes[t][i].get()));
        }
        put(format!("{transport}.bytes.in"), accounts.sum(|s| s.bytes_in[t].get()));
        put(format!("{transport}.bytes.out"), accounts.sum(|s| s.bytes_out[t].get()));
    }
    for i in 0..=LATENCY_BOUNDS.len() {
        let label = LATENCY_BOUNDS.get(i).map_or("more".into(), |b| format!("{}us", b / 1000));
        put(format!("latency.{label}"), accounts.sum(|s| s.latency[i].get()));
    }
    for kind in ReplyKind::ALL {
        for action in LimitAction::ALL {
            let count = accounts.sum(|s| s.limited[kind.index()][action.index()].get());
            put(format!("limited.{}.{}", kind.label(), action.label()), count);
        }
    }
    put("truncated".into(), accounts.sum(|s| s.truncated.get()));
    put("unanswered".into(), accounts.sum(|s| s.dropped.get()));
    put("deferred".into(), accounts.sum(|s| s.pending.get()));
    put("deferred_answered".into(), accounts.sum(|s| s.late.get()));
    put("dnssec_ok".into(), accounts.sum(|s| s.dnssec_ok.get()));
    if let Some(images) = images {
        images.counts().loads().iter().for_each(|(word, count)| put(format!("images.load.{word}"), *count));
        images.counts().writes().iter().for_each(|(word, count)| put(format!("images.write.{word}"), *count));
    }
    if let Some(recursive) = recursive {
        put("cache.hits".into(), accounts.sum(|s| s.cache_hits.get()));
        put("cache.hits.negative".into(), accounts.sum(|s| s.cache_negative.get()));
        counts(recursive).into_iter().for_each(|(name, value)| put(name.replace('_', "."), value));
    }
    put("log.dropped".into(), logging.dropped() as u64);
    put("query_log.dropped".into(), frontend.query_logger.dropped());
    if let Some(dnstap) = &frontend.dnstap {
        put("dnstap.written".into(), dnstap.written());
        put("dnstap.dropped".into(), dnstap.dropped());
    }
    for listener in frontend.listeners() {
        let (addr, carrier) = (listener.local, listener.carrier);
        for (name, value) in listener.totals.iter().filter(|(_, value)| *value > 0) {
            put(format!("net.{addr}.{carrier}.{name}"), value);
        }
    }
    all
}

/// Parses the series of a text in the format of Prometheus.
fn series(text: &str) -> impl Iterator<Item = (String, Value)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit_once(' ')).filter_map(|(name, value)| {
        let is_bucket = name.split('{').next().is_some_and(|name| name.ends_with("_bucket"));
        let number = value.parse::<u64>().map(Value::from).or_else(|_| value.parse::<f64>().map(Value::from));
        number.ok().filter(|_| !is_bucket).map(|number| (name.to_owned(), number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_but_buckets_is_a_counter() {
        let text = "# HELP a_total x y\n# TYPE a_total counter\na_total{zone=\"b c\"} 7\nd_bucket{le=\"1\"} 2\nd_sum 0.5\n";
        let found: Vec<_> = series(text).collect();
        assert_eq!(found, [("a_total{zone=\"b c\"}".to_owned(), 7.into()), ("d_sum".to_owned(), 0.5.into())]);
    }
}
