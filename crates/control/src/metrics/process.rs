//! The process and its log.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Figures, MetricType, Printer, labelled, unix};
use crate::connections::AdminConnections;
use telemetry::logging::Logging;
use telemetry::process::{
    Process, cpu_time, max_descriptors, open_descriptors, resident_memory, virtual_memory,
};
use threads::background::{Background, JobKind};

/// Metrics of the process.
pub struct ProcessFigures {
    /// Its start time.
    pub process: Process,
    /// Its log.
    pub logging: Arc<Logging>,
    /// Operators' connections.
    pub connections: Arc<AdminConnections>,
    /// Background work.
    pub background: Arc<Background>,
}

impl Figures for ProcessFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let dropped = self.logging.dropped() as u64;
        out.counter("log_dropped", "Log lines lost because the queue of the log was full", dropped)?;
        out.counter(
            "log_repeated",
            "Log lines suppressed as repetitions (repeat-interval); the next line of their kind has their \
            number",
            telemetry::repeated::held(),
        )?;
        out.counter(
            "audit_dropped",
            "Lines missing from the audit trail because its queue was full",
            self.logging.audit_dropped() as u64,
        )?;
        out.counter(
            "audit_counted",
            "Refused requests that the audit trail only counts (audit-refusals)",
            telemetry::repeated::refusals_held(),
        )?;
        let version = env!("CARGO_PKG_VERSION").into();
        out.info("build", "The version of nomen that runs; the value is always 1", [("version", version)])?;
        let help = "What the sandbox of the process bounds; the value is always 1";
        let yes = |is: bool| -> Cow<'_, str> { if is { "yes" } else { "no" }.into() };
        let now = sandbox::current();
        let files = yes(now.is_some_and(|sandbox| sandbox.landlock_version().is_some()));
        let calls = yes(now.is_some_and(|sandbox| sandbox.calls.is_ok()));
        let rights = yes(now.is_some_and(|sandbox| sandbox.no_capabilities));
        out.info("sandbox", help, [("files", files), ("system_calls", calls), ("capabilities", rights)])?;
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
        let sets = self.connections.sets();
        let open = sets.map(|(listener, set)| (listener, set.open() as u64));
        let help = "Open connections to the control socket, to the HTTP listener for metrics, to the API, and for challenges";
        out.family("admin_connections", help, MetricType::Gauge, labelled("listener", open))?;
        let evicted = sets.map(|(listener, set)| (listener, set.evicted()));
        let help = "Idle connections to the control socket, to the HTTP listener for metrics, to the API, and for challenges closed to \
            make room for others";
        out.family("admin_connections_evicted", help, MetricType::Counter, labelled("listener", evicted))?;
        background(&self.background, out)
    }
}

fn background(background: &Background, out: &mut Printer<'_>) -> fmt::Result {
    let jobs = JobKind::ALL.map(|kind| (kind.word(), background.counts(kind)));
    let states = jobs.iter().flat_map(|(kind, counts)| {
        [("waiting", &counts.waiting), ("running", &counts.running)]
            .map(|(state, count)| ([("kind", (*kind).into()), ("state", state.into())], count.load(Relaxed)))
    });
    let help = "Background jobs on zones, waiting or running, by kind";
    out.family("background_jobs", help, MetricType::Gauge, states)?;
    let done = jobs.iter().map(|(kind, counts)| (*kind, counts.done.load(Relaxed)));
    let help = "Background jobs on zones that have ended, by kind";
    out.family("background_jobs_done", help, MetricType::Counter, labelled("kind", done))
}
