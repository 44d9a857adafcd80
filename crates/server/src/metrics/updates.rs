//! Dynamic updates.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::metrics::MetricType;

use super::{Figures, Printer};
use crate::changes::{Changes, RCODES};

/// What dynamic updates have come to.
pub struct UpdateFigures(pub Arc<Changes>);

impl Figures for UpdateFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let counts = self.0.counts();
        let answered = RCODES.iter().zip(&counts.answered);
        let answered = answered.map(|((_, word), count)| ([("rcode", (*word).into())], count.load(Relaxed)));
        out.family("updates", "Dynamic updates by response code", MetricType::Counter, answered)?;
        let help = "Dynamic updates that wait for the disk";
        out.gauge("updates_waiting", help, counts.waiting.load(Relaxed) as f64)?;
        let help = "Dynamic updates refused because too many waited";
        out.counter("updates_too_many", help, counts.too_many.load(Relaxed))?;
        let help = "Changes of zones that are on the disk";
        out.counter("journal_changes", help, counts.journalled.load(Relaxed))?;
        let help = "Times that the disk was waited for, each for all changes that were there";
        out.counter("journal_syncs", help, counts.syncs.load(Relaxed))?;
        let help = "Microseconds that the disk was waited for";
        out.counter("journal_sync_microseconds", help, counts.sync_time.load(Relaxed))?;
        let help = "Times that the disk did not take what it should";
        out.counter("journal_failures", help, counts.failed.load(Relaxed))?;
        let help = "Master files written with what updates have made of their zones";
        out.counter("zone_file_writes", help, counts.files.load(Relaxed))?;
        let help = "Master files that were to be written and were not";
        out.counter("zone_file_write_failures", help, counts.files_failed.load(Relaxed))?;
        let help = "Bytes on the disk of zones that updates have changed since the start";
        out.gauge("journal_bytes", help, self.0.bytes() as f64)
    }
}
