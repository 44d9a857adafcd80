//! Transfers to other servers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Figures, MetricType, Printer};
use crate::transfers::{TransferCounts, Transfers};

/// What transfers to others have come to.
pub struct TransferFigures(pub Arc<Transfers>);

impl Figures for TransferFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let TransferCounts { axfr, ixfr, broken_off, refused, too_many, bytes } = self.0.counts();
        let series = |label: &'static str, all: [(&'static str, &AtomicU64); 2]| {
            all.map(|(word, count)| ([(label, word.into())], count.load(Relaxed))).into_iter()
        };
        let help = "Transfers to other servers that were sent to the end, by type";
        out.family(
            "transfers_sent",
            help,
            MetricType::Counter,
            series("type", [("axfr", axfr), ("ixfr", ixfr)]),
        )?;
        let help = "Transfers to other servers that the client or a timeout broke off";
        out.counter("transfers_broken_off", help, broken_off.load(Relaxed))?;
        let help = "Requests for transfers refused, to clients who may not have the zone or beyond a limit";
        let reasons = series("reason", [("access", refused), ("limit", too_many)]);
        out.family("transfers_refused", help, MetricType::Counter, reasons)?;
        out.counter(
            "transfers_sent_bytes",
            "Bytes of messages of transfers to other servers",
            bytes.load(Relaxed),
        )?;
        out.gauge("transfers_in_flight", "Transfers to other servers under way", self.0.under_way() as f64)
    }
}
