//! The progress of a verb that goes through many zones: a bar on a terminal, after the first second.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Work that takes longer than this shows its progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Shows how many zones are done, until dropped.
pub(super) struct ZoneProgress {
    what: &'static str,
    total: usize,
    done: usize,
    begun: Instant,
    bar: Option<ProgressBar>,
}

impl ZoneProgress {
    pub(super) fn new(what: &'static str, total: usize) -> Self {
        ZoneProgress { what, total, done: 0, begun: Instant::now(), bar: None }
    }

    /// One more zone is done.
    pub(super) fn step(&mut self) {
        self.done += 1;
        if self.begun.elapsed() < SHOWN_AFTER || !std::io::stderr().is_terminal() {
            return;
        }
        let (what, total) = (self.what, self.total);
        let bar = self.bar.get_or_insert_with(|| {
            let template = format!("{{spinner}} {what} {{wide_bar}} {{pos}}/{{len}} zones, {{elapsed}}");
            let style = ProgressStyle::with_template(&template);
            ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(self.done as u64);
    }

    /// Prints a line to standard error, beside the bar.
    pub(super) fn report(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for ZoneProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
