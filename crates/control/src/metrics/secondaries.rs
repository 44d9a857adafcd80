//! Secondary zones, and NOTIFY sent and received.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Figures, MetricType, Printer, labelled};
use zone_manager::secondaries::{LIMITS, Secondaries, SecondaryCounts};

/// Counters of incoming transfers and of NOTIFY.
pub struct SecondaryFigures(pub Arc<Secondaries>);

impl Figures for SecondaryFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        if !self.0.has_peers() {
            return Ok(());
        }
        let counts: &SecondaryCounts = self.0.counts();
        out.family(
            "secondary_zones",
            "Zones taken from primaries, by state",
            MetricType::Gauge,
            labelled("state", self.0.states().words()),
        )?;
        let help = "Transfers from primaries received, by result: whole zones (axfr) or differences (ixfr)";
        let received = [("axfr", &counts.axfr), ("ixfr", &counts.ixfr)];
        let received = received.map(|(word, count)| (word, count.load(Relaxed)));
        out.family("transfers_received", help, MetricType::Counter, labelled("result", received))?;
        let help = "Checks of primaries, by SOA query or IXFR, that found no newer version; not counted as \
            transfers";
        out.counter("secondary_polls_unchanged", help, counts.unchanged.load(Relaxed))?;
        out.counter(
            "transfers_received_failed",
            "Transfers from primaries that failed",
            counts.failed.load(Relaxed),
        )?;
        let help = "Versions of zones from primaries refused by their digest (ZONEMD)";
        out.counter("transfers_received_digest_failed", help, counts.zonemd.load(Relaxed))?;
        let help = "Transfers from primaries that failed at a limit, by limit";
        let limits = LIMITS.iter().zip(&counts.limits).map(|((_, word), count)| (*word, count.load(Relaxed)));
        out.family("transfers_received_limited", help, MetricType::Counter, labelled("limit", limits))?;
        let memory = self.0.memory();
        let help = "Memory for the records of transfers from primaries in progress";
        out.gauge("transfers_received_memory_bytes", help, memory.taken() as f64)?;
        let help = "Memory limit of all transfers from primaries together (incoming-memory)";
        out.gauge("transfers_received_memory_limit_bytes", help, memory.most() as f64)?;
        let help = "Bytes of messages of transfers from primaries";
        out.counter("transfers_received_bytes", help, counts.bytes.load(Relaxed))?;
        let help = "Records in transfers from primaries";
        out.counter("transfers_received_records", help, counts.records.load(Relaxed))?;
        out.counter(
            "zones_expired",
            "Times that a zone from primaries expired and went out of service",
            counts.expired.load(Relaxed),
        )?;
        let stored = [("kept", &counts.stored), ("failed", &counts.unstored)];
        let stored = stored.map(|(word, count)| (word, count.load(Relaxed)));
        let help = "Versions of zones from primaries written to disk, by result";
        out.family("secondary_zone_writes", help, MetricType::Counter, labelled("result", stored))?;
        out.counter(
            "secondary_history_read_failures",
            "Differences of zones from primaries that could not be read from disk for IXFR",
            counts.unread.load(Relaxed),
        )?;
        let forwarded = [
            ("answered", counts.forwarded.load(Relaxed)),
            ("failed", counts.forward_failed.load(Relaxed)),
            ("too-many", counts.forward_too_many.load(Relaxed)),
        ];
        let help = "Dynamic updates forwarded to primaries, by result";
        out.family("updates_forwarded", help, MetricType::Counter, labelled("result", forwarded))?;
        let help = "Forwarded dynamic updates that wait for the answer of a primary";
        out.gauge("updates_forwarding", help, counts.forwarding.load(Relaxed) as f64)?;
        notify(counts, out)
    }
}

/// Prints the counters of NOTIFY sent and received.
fn notify(counts: &SecondaryCounts, out: &mut Printer<'_>) -> fmt::Result {
    let taken = counts.notify_taken.load(Relaxed);
    let joined = counts.notify_joined.load(Relaxed);
    let notify = [
        ("taken", taken.saturating_sub(joined)),
        ("joined", joined),
        ("refused", counts.notify_refused.load(Relaxed)),
        ("unknown", counts.notify_unknown.load(Relaxed)),
    ];
    let help = "NOTIFY messages received, by result: accepted, joined to one still pending, refused, for \
        unknown zones";
    out.family("notify_received", help, MetricType::Counter, labelled("result", notify))?;
    out.counter(
        "notify_sent",
        "NOTIFY messages sent to secondaries, repeated ones included",
        counts.notify_sent.load(Relaxed),
    )?;
    let replies = [
        ("acknowledged", counts.notify_acknowledged.load(Relaxed)),
        ("declined", counts.notify_declined.load(Relaxed)),
        ("unanswered", counts.notify_unanswered.load(Relaxed)),
    ];
    out.family(
        "notify_replies",
        "NOTIFY messages sent, by outcome",
        MetricType::Counter,
        labelled("result", replies),
    )
}
