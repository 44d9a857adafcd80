//! Progress display of long loads: a bar on a terminal, log lines elsewhere, nothing for short ones.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tracing::info;

use super::text::Meter;

/// Loads that take longer than this show their progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Shows the progress of one round until dropped.
pub(super) struct ProgressDisplay {
    begun: Instant,
    bar: Option<ProgressBar>,
    /// When the next line is due.
    next: Duration,
    /// Records read before the round.
    before: u64,
}

impl ProgressDisplay {
    pub(super) fn new(begun: Instant, meter: &Meter) -> Self {
        ProgressDisplay { begun, bar: None, next: SHOWN_AFTER, before: meter.records.load(Ordering::Relaxed) }
    }

    /// Shows that `done` zones of `total` are loaded, if the display is due.
    pub(super) fn show(&mut self, done: usize, total: usize, meter: &Meter) {
        let elapsed = self.begun.elapsed();
        if elapsed < SHOWN_AFTER || done == total {
            return;
        }
        let records = meter.records.load(Ordering::Relaxed) - self.before;
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| {
                let style = ProgressStyle::with_template(
                    "{spinner} loading zones {wide_bar} {pos}/{len} zones, {msg} records, {elapsed}",
                );
                ProgressBar::new(total as u64)
                    .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            });
            bar.set_position(done as u64);
            bar.set_message(records.to_string());
        } else if elapsed >= self.next {
            info!(zones = done, of = total, records, "loading zones");
            self.next *= 4;
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
