//! Reads zone files (RFC 1035 §5) and passes their records to a sink one by one.
//!
//! This module holds the text format with `$ORIGIN`, `$TTL` (RFC 2308 §4), `$INCLUDE` and `$GENERATE`, the
//! places of faults, the limits. Not here: the text of record data (`wire::rdata`), the use of the records
//! ([`super::store`]), the consistency of the zone.
//!
//! | module | holds |
//! |---|---|
//! | `input` | the window that moves over a file |
//! | `simd`, `index` | first stage: bytes to the offsets where tokens begin or end |
//! | `lex` | second stage: the tokens of one entry |
//! | `words` | parses types, classes and TTLs |
//! | `entry` | third stage: entries to records; faults; files |
//! | `directive`, `generate` | `$ORIGIN`, `$TTL`, `$INCLUDE`; `$GENERATE` |
//! | `batch` | records in batches, for another thread |
//! | `final_dot` | names that lack their final dot |
//! | `fault` | faults, and how they are shown |
//!
//! A snapshot stores no places. To find the place of a record later, the text is scanned again with a
//! [`Remark`] about the record.

mod batch;
mod directive;
mod entry;
mod fault;
mod final_dot;
mod generate;
mod index;
mod input;
mod lex;
mod simd;
mod words;

pub use batch::{RecordBatch, Records, read_pipelined};
pub use fault::{Excerpt, Fault, FaultKind, Severity};
pub(crate) use final_dot::ends_twice_in;

use entry::Scanner;
use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::Ttl;
use wire::name::{Name, NameBuf};
use wire::rr::{Class, Type};

use crate::regular;
use crate::stamp::{SourceFile, Stamp};

/// A source of a zone's text.
pub struct TextSource<'a> {
    name: Arc<str>,
    from: Input<'a>,
    include_dir: Option<PathBuf>,
}

enum Input<'a> {
    /// A regular file.
    Path(PathBuf),
    /// A file of any kind.
    AnyPath(PathBuf),
    Reader(Box<dyn Read + Send + 'a>, Option<u64>),
}

impl<'a> TextSource<'a> {
    /// The regular file at `path`. It may include files; relative paths start from the directory of the
    /// including file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let include_dir = Some(path.parent().map(Path::to_path_buf).unwrap_or_default());
        TextSource { name: path.to_string_lossy().into(), from: Input::Path(path), include_dir }
    }

    /// As [`TextSource::file`], but `path` may lead to a pipe or a device, such as `/dev/stdin`, and reading
    /// it may block.
    pub fn any_file(path: impl Into<PathBuf>) -> Self {
        let source = Self::file(path);
        match source.from {
            Input::Path(path) => TextSource { from: Input::AnyPath(path), ..source },
            from => TextSource { from, ..source },
        }
    }

    /// Text in memory, with `name` as its name in faults. It may not include files.
    pub fn bytes(name: &str, bytes: &'a [u8]) -> Self {
        TextSource {
            name: name.into(),
            from: Input::Reader(Box::new(bytes), Some(bytes.len() as u64)),
            include_dir: None,
        }
    }

    /// The text from `reader`, with `name` as its name in faults. It may not include files.
    pub fn reader(name: &str, reader: impl Read + Send + 'a) -> Self {
        TextSource { name: name.into(), from: Input::Reader(Box::new(reader), None), include_dir: None }
    }

    /// Returns its name in faults.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Returns its size in bytes, if known.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.from {
            Input::Reader(_, size) => *size,
            Input::Path(path) | Input::AnyPath(path) => {
                path.metadata().ok().filter(|about| about.is_file()).map(|about| about.len())
            }
        }
    }

    /// Opens the source.
    fn open(self) -> io::Result<OpenSource<'a>> {
        match self.from {
            Input::Reader(reader, size) => Ok(OpenSource { reader, size, file: None }),
            Input::Path(path) => OpenSource::file(regular::open(&path)?, path),
            Input::AnyPath(path) => OpenSource::file(std::fs::File::open(&path)?, path),
        }
    }
}

/// An open source.
struct OpenSource<'a> {
    reader: Box<dyn Read + Send + 'a>,
    /// Its size in bytes, if known.
    size: Option<u64>,
    /// Its path and version when it was opened, if it is a file.
    file: Option<SourceFile>,
}

impl OpenSource<'_> {
    fn file(file: std::fs::File, path: PathBuf) -> io::Result<Self> {
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let size = about.is_file().then_some(about.len());
        let version = size.map(|_| SourceFile { path, stamp: Stamp::from(&about) });
        Ok(OpenSource { reader: Box::new(file), size, file: version })
    }
}

/// Settings for reading a zone file.
#[derive(Clone, Copy, Debug)]
pub struct ScanConfig {
    /// The origin at the start of the file: the zone's name.
    pub origin: NameBuf,
    /// The zone's class; any other is an error.
    pub class: Class,
    /// TTL of records without one, until a `$TTL`.
    pub default_ttl: Option<Ttl>,
    /// Split a string of more than 255 bytes in a TXT record into several, which readers join (RFC 7208
    /// §3.3), with a warning; otherwise it is an error.
    pub split_strings: bool,
    /// Limits of one scan.
    pub limits: Limits,
}

impl ScanConfig {
    /// Returns class IN, no default TTL, default limits.
    pub fn new(origin: Name<'_>) -> Self {
        let (origin, limits) = (origin.to_buf(), Limits::default());
        ScanConfig { origin, class: Class::IN, default_ttl: None, split_strings: false, limits }
    }
}

/// Limits of one scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Errors after which the scan stops; at least 1.
    pub errors: usize,
    /// Warnings that are stored; more are counted only.
    pub warnings: usize,
    /// Depth of included files; 0 allows no `$INCLUDE`, more than 64 counts as 64.
    pub include_depth: usize,
    /// Number of included files in all.
    pub includes: usize,
    /// Number of records from `$GENERATE` in all.
    pub generated: u64,
    /// Bytes of the text of one entry, including comments and line feeds inside parentheses.
    pub entry_text: usize,
    /// Bytes of the text of the file and all included files.
    pub text: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            errors: 20,
            warnings: 100,
            include_depth: 20,
            includes: 10_000,
            generated: 1_000_000,
            entry_text: 1 << 20,
            text: u64::MAX,
        }
    }
}

/// The place of a record: a file of [`ScanReport::files`], and the line its entry starts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index into [`ScanReport::files`].
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
}

/// A record as read.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The owner, absolute, in its original letter case.
    pub owner: Name<'a>,
    /// Whether the owner is byte for byte that of the record before.
    pub same_owner: bool,
    /// The TTL.
    pub ttl: Ttl,
    /// The zone's class.
    pub class: Class,
    /// The type, which is no meta type.
    pub rtype: Type,
    /// Uncompressed wire form, valid for the type, at most 65535 bytes.
    pub rdata: &'a [u8],
    /// Its place in the text.
    pub place: Place,
}

/// The reason why a [`Sink`] rejects a record; becomes a [`Fault`] at the record's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Error, or warning if the zone is valid without the record.
    pub severity: Severity,
    /// One line, in lower case, without a final full stop.
    pub message: Cow<'static, str>,
    /// Whether the scan stops.
    pub stop: bool,
}

impl Rejection {
    /// Returns an error: the record is wrong.
    pub fn error(message: impl Into<Cow<'static, str>>) -> Self {
        Rejection { severity: Severity::Error, message: message.into(), stop: false }
    }

    /// Returns a warning: the record is left out, and the zone is valid without it.
    pub fn warning(message: impl Into<Cow<'static, str>>) -> Self {
        Rejection { severity: Severity::Warning, ..Self::error(message) }
    }

    /// Returns an error that stops the scan.
    pub fn stop(message: impl Into<Cow<'static, str>>) -> Self {
        Rejection { stop: true, ..Self::error(message) }
    }
}

/// The progress of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanProgress {
    /// Bytes read from all files.
    pub read: u64,
    /// Bytes of all files opened so far; less than `read` if the size of one is unknown.
    pub total: u64,
    /// Records passed to the sink.
    pub records: u64,
}

/// A remark of a [`Sink`] about a record that it accepts; becomes a [`Fault`] of [`ScanReport::remarks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The severity.
    pub severity: Severity,
    /// One line, in lower case, without a final full stop.
    pub message: String,
    /// The word of the entry that it is about.
    pub at: RemarkAt,
}

/// A word of an entry. If the entry lacks it, such as the owner on a line that begins with a blank, the
/// remark is shown at the type; for a record of `$GENERATE` it is shown at the directive's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there are a few, for people to read")]
pub enum RemarkAt {
    /// The owner.
    Owner,
    /// The type.
    Type,
    /// This word of the data, from 0.
    Data(usize),
    /// The first word of the data that equals this name.
    Name(NameBuf),
}

/// Receives the records of a scan.
pub trait Sink {
    /// Accepts one record, or rejects it.
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection>;

    /// Returns remarks about a record of this file, before it is accepted. Only [`read`] calls it.
    fn remarks(&mut self, record: &Record<'_>, file: &str) -> Vec<Remark> {
        let _ = (record, file);
        Vec::new()
    }

    /// Called for each block of a file, every few hundred KiB; `Break` ends the scan.
    fn progress(&mut self, progress: ScanProgress) -> ControlFlow<()> {
        let _ = progress;
        ControlFlow::Continue(())
    }
}

/// The result of a scan.
#[derive(Clone, Debug, Default)]
pub struct ScanReport {
    /// The faults, in the order they were found, within the limits.
    pub faults: Vec<Fault>,
    /// Remarks of the sink about accepted records. They are not limited.
    pub remarks: Vec<Fault>,
    /// Errors found.
    pub errors: u64,
    /// Warnings found, including those not stored.
    pub warnings: u64,
    /// Records passed to the sink and accepted.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Names of the files read, in the order they were opened.
    pub files: Vec<Arc<str>>,
    /// The version of each file when it was opened; `None` for a source that is no file.
    pub sources: Vec<Option<SourceFile>>,
    /// The end was not reached: too many errors, or the sink stopped the scan.
    pub stopped: bool,
}

impl ScanReport {
    /// Whether every file was read to its end without an error.
    pub fn is_clean(&self) -> bool {
        self.errors == 0 && !self.stopped
    }
}

/// Reads `source` and passes its records to `sink`, on the caller's thread.
///
/// Faults do not end the scan, unless they reach their limit: it continues with the next record.
pub fn read(source: TextSource<'_>, config: &ScanConfig, sink: &mut impl Sink) -> ScanReport {
    Scanner::new(config, sink).run(source)
}

#[cfg(test)]
mod tests;
