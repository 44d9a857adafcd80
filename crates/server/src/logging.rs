//! Logs: where lines go and in what form. Writing happens on a thread of its own behind a bounded queue, so
//! nothing that logs ever waits for a disk or a terminal. The query log has a queue of its own (`querylog`).

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{fmt, reload};

use crate::config::Settings;
use crate::config::log::{Log, LogFormat, LogLevel, LogTarget};
use crate::in_force::Adopt;
use crate::sync::lock;
use crate::words::reason;

/// Log lines that may wait for the writer before further ones are dropped and counted.
const QUEUE_LINES: usize = 16_384;

/// The running log.
pub struct Logging {
    dropped: ErrorCounter,
    target: LogTarget,
    /// The file, if it goes to one.
    file: Option<LogFile>,
    level: reload::Handle<LevelFilter, tracing_subscriber::Registry>,
}

impl Logging {
    /// Lines lost because the writer was too slow.
    pub fn dropped(&self) -> usize {
        self.dropped.dropped_lines()
    }

    /// Where lines go, for people.
    pub fn target(&self) -> String {
        match &self.target {
            LogTarget::Stderr => "stderr".into(),
            LogTarget::Stdout => "stdout".into(),
            LogTarget::File(path) => path.display().to_string(),
        }
    }

    /// Opens the log file anew, as after it was moved away; does nothing if lines go elsewhere. Lines that still wait
    /// go to the new file.
    ///
    /// # Errors
    /// If the file cannot be opened: lines go on to the old one.
    pub fn reopen(&self) -> Result<(), LogFault> {
        let (Some(file), LogTarget::File(path)) = (&self.file, &self.target) else { return Ok(()) };
        *lock(&file.0) = open_file(path)?;
        Ok(())
    }

    /// Changes the least severe level that is logged.
    pub fn set_level(&self, level: LogLevel) {
        // Fails only if the subscriber is gone, and then nothing is logged anyway.
        let _ = self.level.reload(filter(level));
    }
}

impl Adopt for Logging {
    fn adopt(&self, settings: &Settings) {
        self.set_level(*settings.log.level);
    }
}

/// Why the log cannot be written.
#[derive(Debug)]
pub enum LogFault {
    /// The file cannot be opened.
    File(PathBuf, io::Error),
    /// Another log was installed before.
    Installed(String),
}

impl Display for LogFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, e) => write!(f, "cannot open the log file {}: {}", path.display(), reason(e)),
            Self::Installed(fault) => write!(f, "cannot start the log: {fault}"),
        }
    }
}

impl std::error::Error for LogFault {}

/// A log file that can be replaced while it is written. Only the thread that writes, and whoever replaces it, take the
/// lock.
#[derive(Clone)]
struct LogFile(Arc<Mutex<File>>);

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        lock(&self.0).flush()
    }
}

/// Installs the log for the whole process. Dropping the guard writes out what still waits; it must be the last
/// thing to go.
///
/// # Errors
/// [`LogFault`].
pub fn start(config: &Log) -> Result<(Logging, WorkerGuard), LogFault> {
    let target = config.target.value.clone();
    let file = match &target {
        LogTarget::File(path) => Some(LogFile(Arc::new(Mutex::new(open_file(path)?)))),
        LogTarget::Stderr | LogTarget::Stdout => None,
    };
    let builder =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUE_LINES).thread_name("log");
    let (writer, guard) = match (&file, &target) {
        (Some(file), _) => builder.finish(file.clone()),
        (None, LogTarget::Stdout) => builder.finish(io::stdout()),
        (None, _) => builder.finish(io::stderr()),
    };
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
    result.map_err(|e| LogFault::Installed(e.to_string()))?;
    Ok((Logging { dropped, target, file, level: handle }, guard))
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

fn open_file(path: &Path) -> Result<File, LogFault> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|e| LogFault::File(path.to_owned(), e))
}
