//! Reads master files (RFC 1035 §5) and hands over their records one by one.
//!
//! What lives here: the text format with `$ORIGIN`, `$TTL` (RFC 2308 §4), `$INCLUDE` and `$GENERATE`, the
//! places of faults, the limits. What does not: the text of record data (`wire::rdata`), what is done with
//! the records ([`super::store`]), whether they make a good zone.
//!
//! | module | holds |
//! |---|---|
//! | `input` | the window that moves over a file |
//! | `simd`, `index` | first stage: bytes to the places where something begins or ends |
//! | `lex` | second stage: the tokens of one entry |
//! | `words` | types, classes and TTLs by their text |
//! | `entry` | third stage: entries to records; faults; files |
//! | `directive`, `generate` | `$ORIGIN`, `$TTL`, `$INCLUDE`; `$GENERATE` |
//! | `batch` | records in batches, for another thread |
//! | `final_dot` | names that lack their final dot |
//! | `fault` | what can be wrong, and how it is shown |
//!
//! A snapshot keeps no places. Where the place of a record is wanted later, the text is scanned again and the
//! place is found by a [`Remark`].

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

/// Where the text of a zone comes from.
pub struct TextSource<'a> {
    name: Arc<str>,
    from: Input<'a>,
    include_dir: Option<PathBuf>,
}

enum Input<'a> {
    /// A regular file.
    Path(PathBuf),
    /// Anything that can be opened.
    AnyPath(PathBuf),
    Reader(Box<dyn Read + Send + 'a>, Option<u64>),
}

impl<'a> TextSource<'a> {
    /// The regular file at `path`. It may include files; a relative path is taken from the directory of the
    /// file that includes.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let include_dir = Some(path.parent().map(Path::to_path_buf).unwrap_or_default());
        TextSource { name: path.to_string_lossy().into(), from: Input::Path(path), include_dir }
    }

    /// As [`TextSource::file`], but `path` may lead to a pipe or a device, such as `/dev/stdin`, and reading
    /// it may wait.
    pub fn any_file(path: impl Into<PathBuf>) -> Self {
        let source = Self::file(path);
        match source.from {
            Input::Path(path) => TextSource { from: Input::AnyPath(path), ..source },
            from => TextSource { from, ..source },
        }
    }

    /// Text in memory, called `name` in faults. It may not include files.
    pub fn bytes(name: &str, bytes: &'a [u8]) -> Self {
        TextSource {
            name: name.into(),
            from: Input::Reader(Box::new(bytes), Some(bytes.len() as u64)),
            include_dir: None,
        }
    }

    /// Whatever `reader` returns, called `name` in faults. It may not include files.
    pub fn reader(name: &str, reader: impl Read + Send + 'a) -> Self {
        TextSource { name: name.into(), from: Input::Reader(Box::new(reader), None), include_dir: None }
    }

    /// What it is called in faults.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Its size in bytes, where known.
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

/// A source that can be read.
struct OpenSource<'a> {
    reader: Box<dyn Read + Send + 'a>,
    /// Its size in bytes, where known.
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

/// How to read a zone's master file.
#[derive(Clone, Copy, Debug)]
pub struct ScanConfig {
    /// The origin at the start of the file: the zone's name.
    pub origin: NameBuf,
    /// The zone's class; any other is an error.
    pub class: Class,
    /// TTL of records without one, until a `$TTL` says otherwise.
    pub default_ttl: Option<Ttl>,
    /// Take a string of more than 255 bytes in a TXT record as several, which readers join (RFC 7208 §3.3),
    /// with a warning; otherwise it is an error.
    pub split_strings: bool,
    /// Bounds on what one scan may take.
    pub limits: Limits,
}

impl ScanConfig {
    /// Class IN, no default TTL, default limits.
    pub fn new(origin: Name<'_>) -> Self {
        let (origin, limits) = (origin.to_buf(), Limits::default());
        ScanConfig { origin, class: Class::IN, default_ttl: None, split_strings: false, limits }
    }
}

/// Bounds on what one scan may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Errors after which the scan stops; at least 1.
    pub errors: usize,
    /// Warnings that are kept; any more are counted only.
    pub warnings: usize,
    /// Depth of files that include files; 0 allows no `$INCLUDE`, more than 64 count as 64.
    pub include_depth: usize,
    /// Files included, in all.
    pub includes: usize,
    /// Records made by `$GENERATE`, in all.
    pub generated: u64,
    /// Text of one entry in bytes, comments and line feeds inside parentheses included.
    pub entry_text: usize,
    /// Text of the file and all that it includes, in bytes.
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

/// Where a record stands: a file of [`ScanReport::files`], and the line its entry starts on.
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
    /// The owner, absolute, letters as written.
    pub owner: Name<'a>,
    /// The owner is, byte for byte, that of the record handed over before.
    pub same_owner: bool,
    /// The TTL.
    pub ttl: Ttl,
    /// The zone's class.
    pub class: Class,
    /// The type, which is no meta type.
    pub rtype: Type,
    /// Uncompressed wire form, valid for the type, at most 65535 bytes.
    pub rdata: &'a [u8],
    /// Where it was read.
    pub place: Place,
}

/// Why a [`Sink`] rejects a record; becomes a [`Fault`] at the record's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Error, or warning where the record is left out and all is well.
    pub severity: Severity,
    /// One line, in lower case, no full stop at the end.
    pub message: Cow<'static, str>,
    /// Whether the scan ends here.
    pub stop: bool,
}

impl Rejection {
    /// The record is wrong.
    pub fn error(message: impl Into<Cow<'static, str>>) -> Self {
        Rejection { severity: Severity::Error, message: message.into(), stop: false }
    }

    /// The record is left out, and the zone can do without.
    pub fn warning(message: impl Into<Cow<'static, str>>) -> Self {
        Rejection { severity: Severity::Warning, ..Self::error(message) }
    }

    /// As [`Rejection::error`], and the scan ends.
    pub fn stop(message: impl Into<Cow<'static, str>>) -> Self {
        Rejection { stop: true, ..Self::error(message) }
    }
}

/// How far a scan has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read, of all files.
    pub read: u64,
    /// Bytes of all files opened so far; less than `read` if the size of one is unknown.
    pub total: u64,
    /// Records handed over.
    pub records: u64,
}

/// What a [`Sink`] has to say of a record that it takes; becomes a [`Fault`] of [`ScanReport::remarks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How bad it is.
    pub severity: Severity,
    /// One line, in lower case, no full stop at the end.
    pub message: String,
    /// The word of the entry that is meant.
    pub at: RemarkAt,
}

/// A word of an entry. One that is not there, as the owner on a line that begins with a blank, has the type
/// in its place; in a record that `$GENERATE` made it is the directive's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there are a few, for people to read")]
pub enum RemarkAt {
    /// The owner.
    Owner,
    /// The type.
    Type,
    /// This word of the data, from 0.
    Data(usize),
    /// The first word of the data that is this name.
    Name(NameBuf),
}

/// Takes the records of a scan.
pub trait Sink {
    /// Takes one record, or rejects it.
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection>;

    /// What there is to say of a record of the file that is called so, before it is taken. Only [`read`] asks
    /// for it.
    fn remarks(&mut self, record: &Record<'_>, file: &str) -> Vec<Remark> {
        let _ = (record, file);
        Vec::new()
    }

    /// Called once for each block of a file, every few hundred KiB; `Break` ends the scan.
    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        let _ = progress;
        ControlFlow::Continue(())
    }
}

/// The result of a scan.
#[derive(Clone, Debug, Default)]
pub struct ScanReport {
    /// The faults, in the order they were found, as far as the limits go.
    pub faults: Vec<Fault>,
    /// What the sink had to say of records that it took. No limit holds for these.
    pub remarks: Vec<Fault>,
    /// Errors found.
    pub errors: u64,
    /// Warnings found, those not kept included.
    pub warnings: u64,
    /// Records handed over and taken.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Names of the files read, in the order they were opened.
    pub files: Vec<Arc<str>>,
    /// The version of each of those when it was opened; `None` for what is no file.
    pub sources: Vec<Option<SourceFile>>,
    /// The end was not reached: too many errors, or the sink broke off.
    pub stopped: bool,
}

impl ScanReport {
    /// Whether every file was read to its end without an error.
    pub fn is_clean(&self) -> bool {
        self.errors == 0 && !self.stopped
    }
}

/// Reads `source` and hands its records to `sink`, on the caller's thread.
///
/// Faults do not end the scan, unless they reach their limit: it goes on with the next record.
pub fn read(source: TextSource<'_>, config: &ScanConfig, sink: &mut impl Sink) -> ScanReport {
    Scanner::new(config, sink).run(source)
}

#[cfg(test)]
mod tests;
