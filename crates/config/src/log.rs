//! `[log]`: what is logged and where, for `logging` and `querylog` of `telemetry`.

use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::table::keys;
use super::table::read::Reader;
use super::table::value::{Int, Time, Value, Word, quote};

/// Default of the shortest time between two lines of the same kind about the same object.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// Default of the largest number of audit lines about refused requests of one client in that time.
pub const DEFAULT_REFUSALS: usize = 100;

keys! {
    /// What is logged, and where.
    pub struct LogSection in "[log]" {
        /// Format of a line.
        restart "format" format: LogFormat = LogFormat::Text, example "json";
        /// Least severe events that are logged. `nomen ctl log level` changes it until the next reload.
        live "level" level: LogLevel = LogLevel::Info, example "warn";
        /// Where lines go: "stderr", "stdout" or a file that is appended to. SIGHUP and `nomen ctl log
        /// reopen` open the file again, for log rotation. A FIFO must have a reader when it is opened.
        restart "target" target: LogTarget = LogTarget::Stderr, example "/var/log/nomen/nomen.log";
        /// File for an audit trail, in the same format, whatever `level` is: a line for each update, with its
        /// client, key, counts and serials, for each transfer sent or cancelled, for each change that the
        /// operator commits, and for each refused transfer, update, NOTIFY and signature. It is reopened like
        /// `target`.
        restart "audit-file" audit_file: Option<PathBuf> = None, example "/var/log/nomen/audit.log";
        /// Most lines in `audit-file` about refused requests of one client in `repeat-interval`. The limit
        /// for all clients together is a hundred times as high. Further requests are counted, and at the end
        /// of the interval one line for each client has their number.
        live "audit-refusals" audit_refusals: Int<usize, 1, 1_000_000> = Int(DEFAULT_REFUSALS), example 1000;
        /// Shortest time between two lines of the same kind about the same object; lines in between are
        /// counted, and the next line has their number. Lines about requests that any client can send are
        /// logged at most once in 10 s for each kind, or in this time if it is shorter. "0s": every line is
        /// logged.
        live "repeat-interval" repeat_interval: Time<0, 86_400_000> = Time(DEFAULT_INTERVAL), example "10s";
        /// Log the query that made a worker panic, in hexadecimal, at most 4096 bytes. That is a bug in
        /// nomen, costs that query alone, and is counted (`nomen_net_panics_total`) and logged in any case.
        live "panic-messages" panic_messages: bool = true, example false;
        /// Log queries: all, none, or a share of them. Queries never wait for the log: lines beyond its speed
        /// are dropped and counted. `nomen ctl log queries` changes it until the next reload.
        live "queries" queries: LoggedQueries = LoggedQueries::None, example 0.01;
        /// File that lines of queries are appended to, in the same format, whatever `level` is. It is
        /// reopened like `target`. Unset: they go to `target`, if `level` is "info", "debug" or "trace".
        restart "queries-file" queries_file: Option<PathBuf> = None, example "/var/log/nomen/queries.log";
    }
}

/// Which queries are logged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoggedQueries {
    /// None.
    None,
    /// All, unless the log cannot keep up.
    All,
    /// About this share, above 0 and at most 1.
    Share(f64),
}

impl Value for LoggedQueries {
    fn kind() -> String {
        "true, false, or the share of queries as a number above 0 and up to 1".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::Boolean(true) => Some(Self::All),
            DeValue::Boolean(false) => Some(Self::None),
            DeValue::Float(share) => match share.as_str().parse::<f64>() {
                Ok(share) if share > 0.0 && share <= 1.0 => Some(Self::Share(share)),
                _ => {
                    reader.bad_value(node, format!("{share} is not a share above 0 and up to 1"));
                    None
                }
            },
            _ => {
                reader.wrong_type(node, &format!("{} (such as 0.01)", Self::kind()));
                None
            }
        }
    }
    fn render(&self) -> Option<String> {
        Some(match self {
            Self::None => "false".into(),
            Self::All => "true".into(),
            Self::Share(share) => format!("{share:?}"),
        })
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text per event.
    Text,
    /// One JSON object per event.
    Json,
}

impl Word for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

/// The least severe events that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Only errors that stop something from working.
    Error,
    /// Also what looks wrong.
    Warn,
    /// Also what operators need.
    Info,
    /// Also what developers need.
    Debug,
    /// Everything.
    Trace,
}

impl Word for LogLevel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

/// The destination of log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error, which systemd and container runtimes collect.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file, to which lines are appended.
    File(PathBuf),
}

impl Value for LogTarget {
    fn kind() -> String {
        "\"stderr\", \"stdout\" or path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        match String::read(node, reader)?.as_str() {
            "stderr" => Some(Self::Stderr),
            "stdout" => Some(Self::Stdout),
            path => Some(Self::File(reader.resolve(path))),
        }
    }
    fn render(&self) -> Option<String> {
        match self {
            Self::Stderr => Some(quote("stderr")),
            Self::Stdout => Some(quote("stdout")),
            Self::File(path) => path.render(),
        }
    }
}
