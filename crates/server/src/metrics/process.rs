//! The process and its log.

use std::fmt;
use std::sync::Arc;

use prometheus_client::metrics::MetricType;

use super::{Figures, Printer, unix};
use crate::logging::Logging;
use crate::process::{Process, resident_memory};

/// What is known of the process.
pub struct ProcessFigures {
    /// When it started.
    pub process: Process,
    /// Its log.
    pub logging: Arc<Logging>,
}

impl Figures for ProcessFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let dropped = self.logging.dropped() as u64;
        out.counter("log_dropped", "Log lines that the log could not take", dropped)?;
        let mut info = out.0.encode_descriptor("build", "This program", None, MetricType::Info)?;
        let labels: &[(&str, &str)] = &[("version", env!("CARGO_PKG_VERSION"))];
        info.encode_info(&labels)?;
        out.gauge("start_time_seconds", "When the process started", unix(self.process.started))?;
        out.gauge("uptime_seconds", "Time since then", self.process.since.elapsed().as_secs_f64())?;
        if let Some(bytes) = resident_memory() {
            out.gauge("resident_memory_bytes", "Memory of the process in RAM", bytes as f64)?;
        }
        Ok(())
    }
}
