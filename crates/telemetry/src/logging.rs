//! Logs: their destinations and formats. A thread writes the lines from a bounded queue, so logging never
//! waits for a disk or a terminal. The query log has its own queue (`querylog`), and its own file if
//! configured.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use tracing::{Metadata, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, fmt, reload};

use crate::repeated::log_repeated;
use crate::trail::{AUDIT, set_audit_file};
use config::Adopt;
use config::Settings;
use config::log::{LogFormat, LogLevel, LogSection, LogTarget};
use threads::sync::lock;
use wording::reason;

/// Largest number of queued log lines; further lines are dropped and counted.
const QUEUE_LINES: usize = 16_384;

/// Target of the query log's events.
pub const QUERIES: &str = "queries";

/// Bytes of query log lines that are written before a round is over.
const QUERY_LINES: usize = 64 * 1024;

/// The running log.
pub struct Logging {
    dropped: ErrorCounter,
    target: LogTarget,
    /// The log file, if the log goes to a file.
    file: Option<LogFile>,
    /// The file of the query log, if it has its own.
    queries: Option<QueryFile>,
    /// The file of the audit trail, if there is one.
    audit: Option<(PathBuf, LogFile, ErrorCounter)>,
    level: reload::Handle<LevelFilter, tracing_subscriber::Registry>,
}

impl Logging {
    /// Returns the number of lines dropped because the writer was too slow.
    pub fn dropped(&self) -> usize {
        self.dropped.dropped_lines()
    }

    /// Returns the number of audit lines dropped because the writer was too slow.
    pub fn audit_dropped(&self) -> usize {
        self.audit.as_ref().map_or(0, |(_, _, dropped)| dropped.dropped_lines())
    }

    /// Returns the destination of the log as text.
    pub fn target(&self) -> String {
        match &self.target {
            LogTarget::Stderr => "stderr".into(),
            LogTarget::Stdout => "stdout".into(),
            LogTarget::File(path) => path.display().to_string(),
        }
    }

    /// Returns the file of the query log, if it has its own.
    pub fn query_file(&self) -> Option<&QueryFile> {
        self.queries.as_ref()
    }

    /// Returns the file of the audit trail, if there is one.
    pub fn audit_file(&self) -> Option<&Path> {
        self.audit.as_ref().map(|(path, ..)| path.as_path())
    }

    /// Reopens the files of the log, the query log and the audit trail, for example after they were moved
    /// away. Queued lines go to the new file.
    ///
    /// # Errors
    /// If a file cannot be opened: lines then still go to the old one.
    pub fn reopen(&self) -> Result<(), LogFault> {
        let log = match (&self.file, &self.target) {
            (Some(file), LogTarget::File(path)) => file.reopen(path),
            _ => Ok(()),
        };
        let queries = self.queries.as_ref().map_or(Ok(()), QueryFile::reopen);
        let audit = self.audit.as_ref().map_or(Ok(()), |(path, file, _)| file.reopen(path));
        log.and(queries).and(audit)
    }

    /// Sets the least severe level that is logged.
    pub fn set_level(&self, level: LogLevel) {
        // Fails only if the subscriber is gone, and then nothing is logged anyway.
        let _ = self.level.reload(filter(level));
    }
}

impl Adopt for Logging {
    fn adopt(&self, settings: &Settings) {
        self.set_level(*settings.log.level);
        crate::repeated::set_interval(settings.log.repeat_interval.0);
        crate::repeated::set_audit_refusals(settings.log.audit_refusals.0);
    }
}

/// Why the log cannot be written.
#[derive(Debug)]
pub enum LogFault {
    /// The file cannot be opened.
    File(PathBuf, io::Error),
    /// Another log was installed earlier.
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

/// A log file that can be replaced while it is written. The lock is not held during a write: a FIFO's reader
/// may block the write, and a reload must still be able to reopen the files.
#[derive(Clone)]
struct LogFile(Arc<Mutex<Arc<File>>>);

impl LogFile {
    fn open(path: &Path) -> Result<Self, LogFault> {
        Ok(LogFile(Arc::new(Mutex::new(open_file(path)?))))
    }

    fn reopen(&self, path: &Path) -> Result<(), LogFault> {
        let file = open_file(path)?;
        *lock(&self.0) = file;
        Ok(())
    }

    fn current(&self) -> Arc<File> {
        Arc::clone(&lock(&self.0))
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.current()).write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&*self.current()).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.current()).flush()
    }
}

/// The file of the query log, written by the thread that formats its lines.
#[derive(Clone)]
pub struct QueryFile {
    path: Arc<Path>,
    lines: Arc<Mutex<QueryLines>>,
    lost: Arc<AtomicU64>,
}

/// Lines that are not written yet, and their file.
struct QueryLines {
    file: Arc<File>,
    waiting: Vec<u8>,
    /// Whether the last write failed.
    failing: bool,
}

impl QueryFile {
    fn open(path: &Path) -> Result<Self, LogFault> {
        let lines = QueryLines { file: open_file(path)?, waiting: Vec::new(), failing: false };
        Ok(QueryFile { path: path.into(), lines: Arc::new(Mutex::new(lines)), lost: Arc::default() })
    }

    fn reopen(&self) -> Result<(), LogFault> {
        let file = open_file(&self.path)?;
        lock(&self.lines).file = file;
        Ok(())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of lines that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Writes the waiting lines. Counts those that cannot be written.
    pub fn flush(&self) {
        let (file, mut waiting) = {
            let mut lines = lock(&self.lines);
            (Arc::clone(&lines.file), std::mem::take(&mut lines.waiting))
        };
        if waiting.is_empty() {
            return;
        }
        // As in `LogFile`, the lock is not held during the write.
        let written = (&*file).write_all(&waiting);
        if written.is_err() {
            let count = waiting.iter().filter(|byte| **byte == b'\n').count();
            self.lost.fetch_add(count as u64, Relaxed);
        }
        waiting.clear();
        let mut lines = lock(&self.lines);
        if lines.waiting.is_empty() {
            lines.waiting = waiting;
        }
        let failed_before = std::mem::replace(&mut lines.failing, written.is_err());
        drop(lines);
        if let (Err(e), false) = (written, failed_before) {
            let about = ("query log", &*self.path.display().to_string());
            log_repeated!(
                warn,
                WARN,
                about,
                "the query log {} cannot be written: {}",
                self.path.display(),
                reason(&e)
            );
        }
    }
}

impl Write for QueryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = {
            let waiting = &mut lock(&self.lines).waiting;
            waiting.extend_from_slice(bytes);
            waiting.len()
        };
        if len >= QUERY_LINES {
            QueryFile::flush(self);
        }
        Ok(bytes.len())
    }

    /// Does nothing: lines are written at the end of a round.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Installs the log for the whole process. Dropping the guards writes the queued lines; they must be dropped
/// last.
///
/// # Errors
/// [`LogFault`].
pub fn start(config: &LogSection) -> Result<(Logging, Vec<WorkerGuard>), LogFault> {
    let target = config.target.value.clone();
    let file = match &target {
        LogTarget::File(path) => Some(LogFile::open(path)?),
        LogTarget::Stderr | LogTarget::Stdout => None,
    };
    let builder =
        |name| NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUE_LINES).thread_name(name);
    let (writer, guard) = match (&file, &target) {
        (Some(file), _) => builder("log").finish(file.clone()),
        (None, LogTarget::Stdout) => builder("log").finish(io::stdout()),
        (None, _) => builder("log").finish(io::stderr()),
    };
    let mut guards = vec![guard];
    let dropped = writer.error_counter();
    let (level, handle) = reload::Layer::new(filter(*config.level));
    let colour = match config.target.value {
        LogTarget::Stderr => io::stderr().is_terminal(),
        LogTarget::Stdout => io::stdout().is_terminal(),
        LogTarget::File(_) => false,
    };
    let queries = match &config.queries_file.value {
        Some(path) => Some(QueryFile::open(path)?),
        None => None,
    };
    let mut audit = None;
    let audit_lines = match &config.audit_file.value {
        Some(path) => {
            let file = LogFile::open(path)?;
            let (writer, guard) = builder("audit-log").finish(file.clone());
            guards.push(guard);
            audit = Some((path.clone(), file, writer.error_counter()));
            let layer = in_form(config, fmt::layer().with_writer(writer).with_ansi(false));
            Some(layer.with_filter(filter_fn(is_audit).with_max_level_hint(LevelFilter::INFO)))
        }
        None => None,
    };
    set_audit_file(audit.is_some());
    crate::repeated::set_interval(config.repeat_interval.0);
    crate::repeated::set_audit_refusals(config.audit_refusals.0);
    let apart = queries.is_some();
    let others = filter_fn(move |metadata| {
        !(apart && is_query(metadata) || is_audit(metadata) || is_of_quic(metadata))
    });
    let lines = in_form(config, fmt::layer().with_writer(writer).with_ansi(colour))
        .with_filter(level.and(others.with_max_level_hint(LevelFilter::TRACE)));
    let query_lines = queries.clone().map(|file| {
        let layer = fmt::layer().with_writer(move || file.clone()).with_ansi(false);
        in_form(config, layer).with_filter(filter_fn(is_query).with_max_level_hint(LevelFilter::INFO))
    });
    let result = tracing_subscriber::registry().with(lines).with(query_lines).with(audit_lines).try_init();
    result.map_err(|e| LogFault::Installed(e.to_string()))?;
    Ok((Logging { dropped, target, file, queries, audit, level: handle }, guards))
}

fn is_query(metadata: &Metadata<'_>) -> bool {
    metadata.target() == QUERIES
}

fn is_audit(metadata: &Metadata<'_>) -> bool {
    metadata.target() == AUDIT
}

/// Whether a line is one of the library of QUIC, which warns of packets that clients send: they could fill
/// the log. The listeners count and report what matters.
fn is_of_quic(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("quinn")
}

/// Returns a layer that writes lines in the configured format.
fn in_form<S, W>(
    config: &LogSection,
    layer: fmt::Layer<S, fmt::format::DefaultFields, fmt::format::Format, W>,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = layer.with_target(false);
    match *config.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
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

fn open_file(path: &Path) -> Result<Arc<File>, LogFault> {
    append_to(path).map(Arc::new).map_err(|e| LogFault::File(path.to_owned(), e))
}

/// Opens a file for appending, and creates it if it is missing. Never blocks: a FIFO without a reader, which
/// would block `open`, is an error. Accepts a FIFO with a reader, and devices such as `/dev/stderr`.
fn append_to(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path).map(|about| about.file_type()).ok();
    if kind.is_some_and(|kind| kind.is_block_device()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a block device"));
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path).map_err(|e| match kind {
        Some(kind) if kind.is_fifo() && e.raw_os_error() == Some(libc::ENXIO) => {
            io::Error::new(e.kind(), "it is a FIFO that no process reads")
        }
        _ => e,
    })?;
    if !file.metadata()?.is_file() {
        // Lines wait for a slow reader and are dropped when the queue is full, as on standard error.
        let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
        fcntl(&file, FcntlArg::F_SETFL(flags.difference(OFlag::O_NONBLOCK)))?;
    }
    Ok(file)
}
