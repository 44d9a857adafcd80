//! The process and its log.

use std::fmt;
use std::sync::Arc;

use super::{Figures, Printer, unix};
use crate::logging::Logging;
use crate::process::{Process, cpu_time, max_descriptors, open_descriptors, resident_memory, virtual_memory};

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
        out.counter("log_dropped", "Log lines lost because the log could not take them in time", dropped)?;
        let version = env!("CARGO_PKG_VERSION").into();
        out.info("build", "The version of nomen that runs; the value is always 1", [("version", version)])?;
        let started = unix(self.process.started);
        out.gauge("process_start_time_seconds", "When the process started, in seconds since 1970", started)?;
        if let Some(time) = cpu_time() {
            let help = "CPU time of the process, in its own code and in the kernel";
            out.counter("process_cpu_seconds", help, time.as_secs_f64())?;
        }
        let gauges = [
            ("process_resident_memory_bytes", "Memory of the process in RAM", resident_memory()),
            ("process_virtual_memory_bytes", "Address space of the process", virtual_memory()),
            ("process_open_fds", "File descriptors that are open", open_descriptors()),
            ("process_max_fds", "File descriptors that may be open at a time", max_descriptors()),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                out.gauge(name, help, value)?;
            }
        }
        Ok(())
    }
}
