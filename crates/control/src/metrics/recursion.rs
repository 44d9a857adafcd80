//! Recursive service: cache, lookups, upstream servers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use query_path::RuleAction;
use recursion::{RewriteKind, Unreported};
use resolver::{OpportunisticStats, RTT_BUCKETS, ShedReason, UpstreamStats};
use transport::EncryptionFault;
use validator::AnchorState;
use wire::{NameBuf, UnixTime};

use super::{Bucket, Buckets, Figures, MetricType, Printer, labelled};
use serving::frontend::Frontend;
use serving::recursive::{
    FetchCounts, GroupFigure, ListFetches, ListStatus, LocalRootStatus, PolicyZoneStatus, Recursive,
    recursion_counts,
};

/// Metrics of recursive service.
pub struct RecursionFigures {
    /// Counts cache hits.
    pub frontend: Arc<Frontend>,
    /// The recursive service.
    pub recursive: Arc<Recursive>,
}

impl Figures for RecursionFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let Self { frontend, recursive } = self;
        let hits = frontend.accounts.sum(|s| s.cache_hits.get());
        let negative = frontend.accounts.sum(|s| s.cache_negative.get());
        out.counter("cache_hits", "Queries answered from the cache at once", hits)?;
        out.counter(
            "cache_negative_hits",
            "Queries with a negative answer from the cache; included in the hits",
            negative,
        )?;
        for (name, help, value) in recursion_counts(recursive) {
            out.counter(name, help, value)?;
        }
        let cache = recursive.service.cache();
        let stats = cache.stats();
        out.gauge("cache_entries", "Answers in the cache", stats.entries as f64)?;
        out.gauge("cache_bytes", "Memory that the answers in the cache use", stats.bytes as f64)?;
        out.gauge("cache_max_bytes", "Memory limit of the cache (cache-size)", cache.config().bytes as f64)?;
        let (denials, denial_bytes) = recursive.service.proven_denials();
        out.gauge(
            "cache_denials",
            "Cached NSEC and NSEC3 records, and RRsets of wildcards, for aggressive-nsec",
            denials as f64,
        )?;
        out.gauge(
            "cache_denial_bytes",
            "Memory that the records for aggressive-nsec use (limit: aggressive-nsec-size)",
            denial_bytes as f64,
        )?;
        let waiting = recursive.service.unvalidated();
        out.gauge("validation_waiting", "Clients whose answers wait for validation", waiting as f64)?;
        let in_flight = recursive.forward.in_flight.get();
        out.gauge("forward_in_flight", "Lookups in flight", in_flight as f64)?;
        let delegations = recursive.forward.delegation_bytes.get();
        out.gauge(
            "forward_delegation_bytes",
            "Memory of cached delegations and addresses of their servers (limit: delegations-size)",
            delegations as f64,
        )?;
        block_lists(recursive, out)?;
        policy_zones(recursive, out)?;
        groups(recursive, out)?;
        local_root(recursive, out)?;
        trust_anchors(recursive, out)?;
        failures(recursive, out)?;
        shed(recursive, out)?;
        unreported(recursive, out)?;
        opportunistic(&recursive.forward.opportunistic, out)?;
        upstreams(&recursive.forward.upstreams(), out)
    }
}

fn groups(recursive: &Recursive, out: &mut Printer<'_>) -> fmt::Result {
    let figures = recursive.lists.group_figures();
    if figures.is_empty() {
        return Ok(());
    }
    let help = "Queries of this group of clients that a rule of a response policy zone or list decided, by the \
                rule's action";
    let queries = figures.iter().flat_map(|(group, figure)| {
        RuleAction::ALL.map(|action| {
            let labels = [("group", group.clone().into()), ("action", action.label().into())];
            (labels, figure.rules.of(action).get())
        })
    });
    out.family("policy_group_queries", help, MetricType::Counter, queries)?;
    let help = "Queries of this group of clients beyond its queries-per-second";
    let over = |(group, figure): &(String, GroupFigure)| {
        ([("group", group.clone().into())], figure.over_limit.load(Relaxed))
    };
    out.family("policy_group_limited", help, MetricType::Counter, figures.iter().map(over))
}

fn policy_zones(recursive: &Recursive, out: &mut Printer<'_>) -> fmt::Result {
    let (zones, in_force) = recursive.lists.zones();
    let Some(in_force) = in_force.filter(|_| !zones.is_empty()) else { return Ok(()) };
    let help = "Queries to which a rule of this response policy zone applied, by its action";
    let queries = in_force.zones().iter().flat_map(|zone| {
        RewriteKind::ALL.map(|(kind, label)| {
            let labels = [("zone", zone.name.to_string().into()), ("action", label.into())];
            (labels, zone.counts.of(kind).get())
        })
    });
    out.family("policy_zone_queries", help, MetricType::Counter, queries)?;
    let series = |read: fn(&PolicyZoneStatus) -> u64| {
        zones.iter().map(move |zone| ([("zone", zone.config.name.to_string().into())], read(zone)))
    };
    let help = "Rules of this response policy zone that are in force";
    out.family("policy_zone_rules", help, MetricType::Gauge, series(|zone| zone.report.rules as u64))?;
    let help = "Owners of this response policy zone that are no triggers";
    let faults = series(|zone| zone.report.faults as u64);
    out.family("policy_zone_unusable_owners", help, MetricType::Gauge, faults)?;
    let help =
        "Serial number of the version of this response policy zone that is in force; 0 if there is none";
    let serials = series(|zone| zone.serial.map_or(0, |serial| serial.0.into()));
    out.family("policy_zone_serial", help, MetricType::Gauge, serials)
}

fn block_lists(recursive: &Recursive, out: &mut Printer<'_>) -> fmt::Result {
    let Some(in_force) = recursive.lists.in_force() else { return Ok(()) };
    let help = "Memory that the rules of response policy zones and block lists use";
    out.gauge("policy_bytes", help, in_force.rules().bytes() as f64)?;
    let lists = recursive.lists.status();
    let series = |read: fn(&(ListStatus, u64)) -> u64| {
        lists.iter().map(move |list| ([("list", list.0.config.name.clone().into())], read(list)))
    };
    let help = "Queries that this list blocked";
    out.family("policy_blocked", help, MetricType::Counter, series(|(_, blocked)| *blocked))?;
    let help = "Rules of this list that are in force";
    let rules = series(|(list, _)| list.report.as_ref().map_or(0, |report| report.rules as u64));
    out.family("policy_rules", help, MetricType::Gauge, rules)?;
    let help = "Lines of this list that cannot be used";
    let lines = series(|(list, _)| list.report.as_ref().map_or(0, |report| report.faults as u64));
    out.family("policy_unusable_lines", help, MetricType::Gauge, lines)?;
    let help = "1 if this list cannot be read or fetched; its last good version is in force, if there is one";
    let failed = series(|(list, _)| u64::from(list.fault.is_some()));
    out.family("policy_list_failed", help, MetricType::Gauge, failed)?;
    let help = "When the server of this list last sent or confirmed the version in force, in seconds since \
                1970; 0 if never";
    let fetched =
        lists.iter().filter_map(|(list, _)| Some((list.config.name.clone(), list.fetches.as_ref()?)));
    let confirmed = fetched
        .clone()
        .map(|(name, fetches)| ([("list", name.into())], fetches.confirmed.map_or(0, UnixTime::as_secs)));
    out.family("policy_list_confirmed_timestamp_seconds", help, MetricType::Gauge, confirmed)?;
    let fetches = fetched.flat_map(|(name, ListFetches { counts, .. })| {
        let FetchCounts { updated, unchanged, refused, failed } = *counts;
        let words =
            [("updated", updated), ("unchanged", unchanged), ("refused", refused), ("failed", failed)];
        words.map(|(word, count)| ([("list", name.clone().into()), ("outcome", word.into())], count))
    });
    let help = "Fetches of this list by outcome; what was fetched and is not a list is refused";
    out.family("policy_list_fetches", help, MetricType::Counter, fetches)
}

fn local_root(recursive: &Recursive, out: &mut Printer<'_>) -> fmt::Result {
    let now = recursive.local_root.status().map_or("off", |status| status.word);
    let words = LocalRootStatus::WORDS.into_iter().chain(["off"]);
    let series = words.map(|word| (word, u64::from(word == now)));
    out.family(
        "local_root",
        "1 for the state of the copy of the root zone: ok, missing, refused, off (local-root); 0 for the \
        others",
        MetricType::Gauge,
        labelled("state", series),
    )
}

/// The words of the states of keys, in printing order.
const ANCHOR_STATES: [&str; 5] = ["pending", "valid", "missing", "revoked", "removed"];

fn trust_anchors(recursive: &Recursive, out: &mut Printer<'_>) -> fmt::Result {
    let anchors = recursive.trust_anchors();
    let zones: BTreeSet<NameBuf> = anchors.iter().map(|anchor| anchor.zone).collect();
    let series = zones.iter().flat_map(|zone| {
        let of_zone = anchors.iter().filter(move |anchor| anchor.zone == *zone);
        // An anchor without a stored state is valid.
        let words: Vec<&str> =
            of_zone.map(|anchor| anchor.state.unwrap_or(AnchorState::Valid).word()).collect();
        ANCHOR_STATES.map(|word| {
            let count = words.iter().filter(|one| **one == word).count() as u64;
            ([("zone", zone.to_string().into()), ("state", word.into())], count)
        })
    });
    out.family(
        "trust_anchors",
        "Trust anchors, and keys that may become some, by zone and state",
        MetricType::Gauge,
        series,
    )?;
    let seen = recursive.followed_zones();
    let seen =
        seen.iter().map(|of| ([("zone", of.zone.to_string().into())], of.seen.unwrap_or_default().as_secs()));
    out.family(
        "trust_anchor_seen_timestamp_seconds",
        "When the keys of a zone with followed trust anchors were last seen with a valid signature, in \
        seconds since 1970; 0 if never",
        MetricType::Gauge,
        seen,
    )
}

/// The reasons for shedding, with their labels.
const REASONS: [(&str, ShedReason); 6] = [
    ("client-prefix", ShedReason::ClientPrefix),
    ("clients", ShedReason::Clients),
    ("rule", ShedReason::Rule),
    ("lookups", ShedReason::Lookups),
    ("zone", ShedReason::Zone),
    ("queue", ShedReason::Queue),
];

fn shed(recursive: &Recursive, out: &mut Printer<'_>) -> fmt::Result {
    let help = "Queries answered with SERVFAIL because a limit was reached, by limit";
    let count = |reason| match recursive.forward.shed(reason) {
        Some(counter) => counter.get(),
        // Queries that find the queue full never reach the resolver.
        None => recursive.service.stats().shed.get(),
    };
    let series = REASONS.iter().map(|&(word, reason)| (word, count(reason)));
    out.family("forward_shed", help, MetricType::Counter, labelled("reason", series))
}

fn failures(recursive: &Recursive, out: &mut Printer<'_>) -> fmt::Result {
    out.family(
        "recursion_failures",
        "Clients that got SERVFAIL for names of other servers, by cause",
        MetricType::Counter,
        labelled("cause", recursive.service.stats().failures.by_cause()),
    )
}

fn unreported(recursive: &Recursive, out: &mut Printer<'_>) -> fmt::Result {
    let reports = &recursive.service.stats().reports;
    let series = Unreported::ALL.iter().map(|&(why, word)| (word, reports.unreported(why).get()));
    out.family(
        "error_reports_suppressed",
        "Failures not reported to the agent domains of zones (RFC 9567), by reason",
        MetricType::Counter,
        labelled("reason", series),
    )
}

/// Writes the figures of encryption between this server and authoritative servers.
fn opportunistic(stats: &OpportunisticStats, out: &mut Printer<'_>) -> fmt::Result {
    let transports = [("tls", &stats.tls), ("quic", &stats.quic)];
    let help = "Queries sent to authoritative servers over an encrypted transport (encrypt-to-authoritative)";
    let queries = transports.map(|(word, counts)| (word, counts.queries.get()));
    out.family("authoritative_queries", help, MetricType::Counter, labelled("transport", queries))?;
    let help =
        "Queries repeated in the clear because the encrypted transport brought no useful reply in time";
    let fallbacks = transports.map(|(word, counts)| (word, counts.fallbacks.get()));
    out.family("authoritative_fallbacks", help, MetricType::Counter, labelled("transport", fallbacks))?;
    let probes = transports.map(|(word, counts)| (word, counts.probes.get()));
    let help = "Probes of encrypted transports of authoritative servers";
    out.family("authoritative_probes", help, MetricType::Counter, labelled("transport", probes))?;
    let results = transports.into_iter().flat_map(|(word, counts)| {
        let (successes, failures) = (counts.successes.get(), counts.failures.get());
        let all = [("success", successes), ("failure", failures), ("timeout", counts.timeouts.get())];
        all.map(|(result, count)| ([("transport", word.into()), ("result", result.into())], count))
    });
    let help = "Probes of encrypted transports of authoritative servers that have ended, by result";
    out.family("authoritative_probe_results", help, MetricType::Counter, results)?;
    let help = "Probes of encrypted transports not sent because too many were in flight (encryption-probes)";
    out.counter("authoritative_probes_suppressed", help, stats.suppressed.get())?;
    let help = "Probes of encrypted transports of authoritative servers in flight";
    out.gauge("authoritative_probes_in_flight", help, stats.in_flight.get() as f64)
}

/// Writes the figures of encrypted connections; only of servers that have them.
fn encrypted(all: &[Arc<UpstreamStats>], out: &mut Printer<'_>) -> fmt::Result {
    let encrypted = || all.iter().filter(|stats| stats.upstream.reach.encryption().is_some());
    let label = |stats: &UpstreamStats| ("server", stats.upstream.to_string().into());
    let handshakes = encrypted().flat_map(|stats| {
        let kinds = [("full", stats.handshakes.get()), ("resumed", stats.resumptions.get())];
        kinds.map(|(kind, count)| ([label(stats), ("kind", kind.into())], count))
    });
    let help = "Connections to this server that were opened over TLS, HTTPS or QUIC";
    out.family("upstream_tls_handshakes", help, MetricType::Counter, handshakes)?;
    let faults = encrypted().flat_map(|stats| {
        let counts = EncryptionFault::ALL.iter().zip(&stats.encryption_faults);
        counts.map(|(fault, count)| ([label(stats), ("reason", fault.label().into())], count.get()))
    });
    let help = "Connections to this server over TLS, HTTPS or QUIC that could not be opened or ended with a \
                fault, and queries on them without a response";
    out.family("upstream_tls_failures", help, MetricType::Counter, faults)
}

fn upstreams(all: &[Arc<UpstreamStats>], out: &mut Printer<'_>) -> fmt::Result {
    let mut counter = |name, help, read: fn(&UpstreamStats) -> u64| {
        let series = all.iter().map(|stats| ([("server", stats.upstream.to_string().into())], read(stats)));
        out.family(name, help, MetricType::Counter, series)
    };
    counter("upstream_udp_queries", "Queries sent to this server over UDP", |s| s.udp.get())?;
    counter("upstream_tcp_queries", "Queries sent to this server over TCP", |s| s.tcp.get())?;
    counter("upstream_tls_queries", "Queries sent to this server over TLS", |s| s.tls.get())?;
    counter("upstream_https_queries", "Queries sent to this server over HTTPS", |s| s.https.get())?;
    counter("upstream_quic_queries", "Queries sent to this server over QUIC", |s| s.quic.get())?;
    let help = "Queries sent by Oblivious DoH through this proxy";
    counter("upstream_odoh_queries", help, |s| s.odoh.get())?;
    let help = "Queries sent to test whether this server answers again";
    counter("upstream_probes", help, |s| s.probes.get())?;
    let help = "Queries that this server did not answer in time";
    counter("upstream_timeouts", help, |s| s.timeouts.get())?;
    let help = "Sockets and connections to this server that failed";
    counter("upstream_failures", help, |s| s.failures.get())?;
    counter("upstream_bad_replies", "Replies of this server that could not be used", |s| {
        s.bad_replies.get()
    })?;
    encrypted(all, out)?;
    let failing =
        all.iter().map(|s| ([("server", s.upstream.to_string().into())], u64::from(s.is_failing())));
    out.family("upstream_failing", "1 while this server does not answer", MetricType::Gauge, failing)?;
    let help = "Time from a query to another server to its matching reply";
    let round_trips = all.iter().map(|stats| {
        let bound = |&ms: &u64| if ms == u64::MAX { f64::INFINITY } else { ms as f64 / 1000.0 };
        let counts = RTT_BUCKETS.iter().map(bound).zip(stats.rtt.iter().map(|count| count.get()));
        let counts = counts.map(|(bound, count)| Bucket { bound, count });
        let sum = Duration::from_micros(stats.rtt_sum.get()).as_secs_f64();
        ([("server", stats.upstream.to_string().into())], Buckets { counts: counts.collect(), sum })
    });
    out.histogram("upstream_rtt_seconds", help, round_trips)
}
