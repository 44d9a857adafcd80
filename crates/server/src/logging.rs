//! Logs: where lines go and in what form. Writing happens on a thread of its own behind a bounded queue, so
//! nothing that logs ever waits for a disk or a terminal. The query log has a queue of its own (`querylog`).

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::Path;

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{fmt, reload};

use crate::config::Settings;
use crate::config::log::{Log, LogFormat, LogLevel, LogTarget};
use crate::in_force::Adopt;

/// Log lines that may wait for the writer before further ones are dropped and counted.
const QUEUE_LINES: usize = 16_384;

/// The running log.
pub struct Logging {
    dropped: ErrorCounter,
    level: reload::Handle<LevelFilter, tracing_subscriber::Registry>,
}

impl Logging {
    /// Lines lost because the writer was too slow.
    pub fn dropped(&self) -> usize {
        self.dropped.dropped_lines()
    }

    /// Changes the least severe level that is logged.
    fn set_level(&self, level: LogLevel) {
        // Fails only if the subscriber is gone, and then nothing is logged anyway.
        let _ = self.level.reload(filter(level));
    }
}

impl Adopt for Logging {
    fn adopt(&self, settings: &Settings) {
        self.set_level(*settings.log.level);
    }
}

/// Installs the log for the whole process. Dropping the guard writes out what still waits; it must be the last
/// thing to go.
pub fn start(config: &Log) -> Result<(Logging, WorkerGuard), String> {
    let (writer, guard) = open(&config.target)?;
    let dropped = writer.error_counter();
    let (level, handle) = reload::Layer::new(filter(*config.level));
    let colour = match config.target.value {
        LogTarget::Stderr => io::stderr().is_terminal(),
        LogTarget::Stdout => io::stdout().is_terminal(),
        LogTarget::File(_) => false,
    };
    let lines = fmt::layer().with_writer(writer).with_target(false).with_ansi(colour);
    let registry = tracing_subscriber::registry().with(level);
    let result = match *config.format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    result.map_err(|e| format!("cannot start the log: {e}"))?;
    Ok((Logging { dropped, level: handle }, guard))
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

fn open(target: &LogTarget) -> Result<(NonBlocking, WorkerGuard), String> {
    let builder =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUE_LINES).thread_name("log");
    Ok(match target {
        LogTarget::Stderr => builder.finish(io::stderr()),
        LogTarget::Stdout => builder.finish(io::stdout()),
        LogTarget::File(path) => builder.finish(open_file(path)?),
    })
}

fn open_file(path: &Path) -> Result<std::fs::File, String> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|e| format!("cannot open the log file {}: {}", path.display(), crate::words::reason(&e)))
}
