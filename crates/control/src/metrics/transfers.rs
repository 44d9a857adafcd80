//! Transfers to other servers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Figures, MetricType, Printer, labelled};
use zone_manager::stores::differences::{DifferenceCounts, Differences};
use zone_manager::transfers::{TransferCounts, Transfers};

/// Counters of outgoing transfers.
pub struct TransferFigures {
    /// The transfers.
    pub transfers: Arc<Transfers>,
    /// Stored differences of zone files, if any are stored.
    pub differences: Option<Arc<Differences>>,
}

impl Figures for TransferFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let TransferCounts { axfr, ixfr, same, broken_off, stalled, slow, refused, too_many, bytes } =
            self.transfers.counts();
        let series = |label: &'static str, all: [(&'static str, &AtomicU64); 2]| {
            labelled(label, all.map(|(word, count)| (word, count.load(Relaxed))))
        };
        let help = "Transfers to other servers completed, by type: whole zones (axfr) or differences (ixfr)";
        out.family(
            "transfers_sent",
            help,
            MetricType::Counter,
            series("type", [("axfr", axfr), ("ixfr", ixfr)]),
        )?;
        let help = "IXFR over TCP from clients that have the newest version; not counted as transfers";
        out.counter("transfers_unchanged", help, same.load(Relaxed))?;
        let help = "Transfers to other servers cancelled by the client or a timeout";
        out.counter("transfers_broken_off", help, broken_off.load(Relaxed))?;
        let help = "Transfers to other servers cancelled because they stalled (outgoing-stall) or were slow \
            (outgoing-min-rate) and others needed their places";
        let reasons = series("reason", [("stalled", stalled), ("slow", slow)]);
        out.family("transfers_evicted", help, MetricType::Counter, reasons)?;
        let help = "Requests for transfers refused, by reason: access denied or a limit reached";
        let reasons = series("reason", [("access", refused), ("limit", too_many)]);
        out.family("transfers_refused", help, MetricType::Counter, reasons)?;
        out.counter(
            "transfers_sent_bytes",
            "Bytes of messages of transfers to other servers",
            bytes.load(Relaxed),
        )?;
        out.gauge(
            "transfers_in_flight",
            "Transfers to other servers in progress",
            self.transfers.under_way() as f64,
        )?;
        let Some(DifferenceCounts { kept, failed }) = self.differences.as_ref().map(|of| of.counts()) else {
            return Ok(());
        };
        let help = "Differences between versions of zone files stored for IXFR";
        out.counter("differences_kept", help, kept.load(Relaxed))?;
        let help = "Differences between versions of zone files that could not be written to disk";
        out.counter("differences_failed", help, failed.load(Relaxed))
    }
}
