//! The process itself: since when it runs, and the memory it takes.

use std::time::{Instant, SystemTime};

/// When the process started.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// By the calendar.
    pub started: SystemTime,
    /// For durations.
    pub since: Instant,
}

impl Process {
    /// It starts now.
    pub fn start() -> Self {
        Process { started: SystemTime::now(), since: Instant::now() }
    }
}

/// Memory of the process in RAM, in bytes, as the kernel reports it.
pub fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
