//! Dynamic updates.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{Bucket, Buckets, Figures, MetricType, Printer, labelled};
use zone_manager::changes::{Changes, RCODES, RepeatedCounts, SYNC_BOUNDS, UpdateCounts};

/// Counters of dynamic updates.
pub struct UpdateFigures(pub Arc<Changes>);

impl Figures for UpdateFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let counts = self.0.counts();
        let answered = RCODES.iter().zip(&counts.answered);
        let answered = answered.map(|((_, word), count)| (*word, count.load(Relaxed)));
        let help = "Dynamic updates answered, by response code";
        out.family("updates", help, MetricType::Counter, labelled("rcode", answered))?;
        let help = "Edits of zones by programs, by result";
        let results = [
            ("changed", &counts.edits_made),
            ("unchanged", &counts.edits_unchanged),
            ("refused", &counts.edits_refused),
        ];
        let edits = results.map(|(result, count)| (result, count.load(Relaxed)));
        out.family("zone_edits", help, MetricType::Counter, labelled("result", edits))?;
        let help = "Dynamic updates and edits that wait for the disk";
        out.gauge("updates_waiting", help, counts.waiting.load(Relaxed) as f64)?;
        let help = "Dynamic updates and edits refused because too many waited";
        out.counter("updates_too_many", help, counts.too_many.load(Relaxed))?;
        repeated(&self.0, out)?;
        let help = "Changes of zones written to disk";
        out.counter("journal_changes", help, counts.journalled.load(Relaxed))?;
        syncs(counts, out)?;
        let help = "Failed writes of changes to disk";
        out.counter("journal_failures", help, counts.failed.load(Relaxed))?;
        let help = "Zones with damaged journals, which answer SERVFAIL until `nomen ctl zone accept`";
        out.gauge("journal_damaged", help, self.0.damaged() as f64)?;
        let help = "Master files written after updates of their zones";
        out.counter("zone_file_writes", help, counts.files.load(Relaxed))?;
        let help = "Master files that could not be written";
        out.counter("zone_file_write_failures", help, counts.files_failed.load(Relaxed))?;
        let help = "Disk space of zones that updates have changed since the start";
        out.gauge("journal_bytes", help, self.0.bytes() as f64)
    }
}

/// Signed updates that came again.
fn repeated(changes: &Changes, out: &mut Printer<'_>) -> fmt::Result {
    let RepeatedCounts { answered, attached, ignored, stale } = changes.repeated();
    let results = [("answered", answered), ("waiting", attached), ("dropped", ignored), ("badtime", stale)];
    let help =
        "Signed updates that came again, or too late to tell, by what happened to them: none is executed";
    let results = labelled("result", results.map(|(word, count)| (word, count.load(Relaxed))));
    out.family("updates_repeated", help, MetricType::Counter, results)?;
    let (remembered, forgotten) = changes.remembered();
    let help = "Signed updates that are remembered, so that none is executed twice";
    out.gauge("updates_remembered", help, remembered as f64)?;
    let help = "Signed updates forgotten before their signatures expired, beyond `remembered-requests`";
    out.counter("updates_forgotten", help, forgotten)
}

fn syncs(counts: &UpdateCounts, out: &mut Printer<'_>) -> fmt::Result {
    let help = "Duration of one sync to disk, which stores all changes waiting for it";
    let bounds = SYNC_BOUNDS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
    let bucket = |(bound, count): (f64, &AtomicU64)| Bucket { bound, count: count.load(Relaxed) };
    let counts_of = bounds.zip(&counts.syncs).map(bucket).collect();
    let sum = Duration::from_micros(counts.sync_time.load(Relaxed)).as_secs_f64();
    out.histogram("journal_sync_seconds", help, std::iter::once(([], Buckets { counts: counts_of, sum })))
}
