//! Which zones are served, and what is known of each.
//!
//! | file | holds |
//! |---|---|
//! | `resolve` | which zones the configuration asks for |
//! | `membership` | which zones catalog zones ask for |
//! | `produce` | catalog zones that are made here |
//! | `added` | the file of the zones that were added at run time |
//! | `state` | one zone: what is known of it, and what is to be done when something happens to it |
//! | `manager` | all of them: the thread that reports to zones what the configuration wants and what loads came to |
//! | `publishing` | the thread that reports new versions to zones and puts zones into service |
//! | `executor` | what the states of zones decide, carried out for both threads |
//! | `loaders`, `text`, `images` | reading zones: the threads, a zone's text, a zone's image |
//! | `progress` | how far a long load is |
//! | `differences` | what changes in zone files, kept for IXFR |
//! | `places` | where findings about a zone as a whole stand in its text |
//! | `examiner` | versions in service: what is to be known of them, and folding them |
//! | `report` | what a reload did and found, for its requester |
//! | `publisher` | the steps from one catalog to the next |
//! | `dump`, `written` | printing a zone; writing it to a file |
//! | `shown_change` | printing what differs between two versions |
//!
//! # Who wants a zone
//!
//! Three parts want zones: the configuration (`resolve`), catalog zones (`membership`), and operators at run
//! time (`added`, a file that is read with the configuration). They meet in `manager::members`, where a
//! change of one becomes zones that come and go, and no other zone is looked at. `manager::rounds` has what
//! is reported together: rounds about one zone go on beside the one about all, and none waits for a load
//! without progress, in whose place `loaders` starts another thread.
//!
//! # Two threads
//!
//! The state of each zone decides what is to be done, and two threads report events to it: `manager`, which
//! may wait for the disk, and `publishing`, which waits for nothing but the lock of the zone table. That lock
//! is held while a zone's actions are carried out, so that they leave in the order of its events, and not
//! while a thread waits for a disk or another server: no reload delays an update or a transfer. (Where the
//! system refuses a thread for a write, the caller writes, with the lock.)

pub mod added;
pub mod differences;
pub mod dump;
pub mod examiner;
mod executor;
pub mod images;
mod loaders;
pub mod manager;
pub mod membership;
pub mod places;
pub mod produce;
mod progress;
mod publisher;
mod publishing;
pub mod report;
pub mod resolve;
pub mod shown_change;
pub mod state;
pub mod text;
pub mod written;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use config::peers::{ZonemdPolicy, too_many_iterations};
use differences::DifferenceRule;
use examiner::Examination;
use wire::Name;
use zone::{SourceFile, Stamp, Zone};

/// The name of a zone: lower-case wire form. Shorter in memory than a `NameBuf`, and shared by all who have
/// to do with the zone.
pub type Apex = Arc<[u8]>;

/// Where a zone's records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZoneText {
    /// A master file.
    File(Arc<Path>),
    /// Text that is part of the program.
    BuiltIn(&'static str),
    /// None: it is taken from its primaries.
    Primaries,
    /// None: it is a catalog zone that is made here.
    Produced,
    /// Several files, at least two, have names that stand for this zone. None of them is read.
    Disputed(Arc<[Arc<Path>]>),
}

impl ZoneText {
    /// Whether there is text to be read.
    pub fn is_read(&self) -> bool {
        !matches!(self, Self::Primaries | Self::Produced)
    }

    /// The file, or the first of those in dispute.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::BuiltIn(_) | Self::Primaries | Self::Produced => None,
            Self::Disputed(files) => files.first().map(|file| &**file),
        }
    }
}

impl fmt::Display for ZoneText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::BuiltIn(_) => f.write_str("built in"),
            Self::Primaries => f.write_str("taken from its primaries"),
            Self::Produced => f.write_str("made here"),
            Self::Disputed(files) => {
                let shown: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
                f.write_str(&shown.join(" and "))
            }
        }
    }
}

/// Why the files of a zone cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneFault {
    /// The file of the first fault; empty if none is to blame.
    pub file: Arc<str>,
    /// Its line, from 1; 0 if unknown.
    pub line: u32,
    /// Its column, from 1; 0 if unknown.
    pub column: u32,
    /// The first fault, in one line.
    pub message: String,
    /// All faults that are shown, for people: one line or more.
    pub text: String,
}

impl ZoneFault {
    /// A fault that no line of a file is to blame for.
    pub fn without_place(message: impl Into<String>) -> Self {
        let message = message.into();
        ZoneFault { file: "".into(), line: 0, column: 0, text: message.clone(), message }
    }
}

impl fmt::Display for ZoneFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ZoneFault {}

/// Who wants a zone to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The configuration names it.
    Configuration,
    /// Its file lies in a template's folder.
    Folder,
    /// It was added at run time.
    Added,
    /// This catalog zone lists it.
    Catalog(Apex),
    /// It is the root zone, of which the resolver asks a copy. No client is answered from it.
    LocalRoot,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration => f.write_str("configuration"),
            Self::Folder => f.write_str("folder"),
            Self::Added => f.write_str("added at run time"),
            Self::LocalRoot => f.write_str("local root of the resolver"),
            Self::Catalog(apex) => write!(f, "catalog {}", Name::from_wire(apex).unwrap_or(Name::ROOT)),
        }
    }
}

/// One zone that is to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSpec {
    /// Its name.
    pub apex: Apex,
    /// Where its records are.
    pub text: ZoneText,
    /// Who wants it.
    pub origin: Origin,
    /// Whether it is kept what changes in its file.
    pub differences: DifferenceRule,
    /// How its file is judged.
    pub rules: TextRules,
}

/// How the text of a zone is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextRules {
    /// How a version's digest decides whether it is taken; `None`: it is not looked at.
    pub zonemd: Option<ZonemdPolicy>,
    /// Most NSEC3 iterations; `None`: [`MOST_NSEC3_ITERATIONS`](config::peers::MOST_NSEC3_ITERATIONS).
    pub nsec3_max_iterations: Option<u16>,
    /// A string that is too long counts as several.
    pub split_strings: bool,
    /// Most bytes of the file and all that it includes; `None`: [`MOST_TEXT`].
    pub max_size: Option<u64>,
    /// The file was named on a command line: it may be a pipe, and of any size.
    pub any_file: bool,
}

/// Most bytes of a zone's file and all that it includes, where the configuration has no other number.
pub const MOST_TEXT: u64 = 32 << 30;

impl TextRules {
    /// The rules for a file that is named on a command line.
    pub fn of_command_line() -> Self {
        TextRules { any_file: true, ..TextRules::default() }
    }

    /// Most bytes of the text.
    fn most_text(&self) -> u64 {
        if self.any_file { u64::MAX } else { self.max_size.unwrap_or(MOST_TEXT) }
    }
}

impl ZoneSpec {
    /// The zone's name.
    pub fn name(&self) -> Name<'_> {
        Name::from_wire(&self.apex).unwrap_or(Name::ROOT)
    }

    /// Why no version like this goes into service, wherever it comes from: its NSEC3 iterations are too many.
    pub(crate) fn refusal(&self, zone: &Zone) -> Option<Arc<ZoneFault>> {
        let fault = too_many_iterations(zone, self.rules.nsec3_max_iterations)?;
        Some(Arc::new(ZoneFault::without_place(format!("refused: {fault}"))))
    }

    /// Why a version in its file does not go into service, by its NSEC3 iterations or its digest.
    pub fn objection(&self, zone: &Zone) -> Option<Arc<ZoneFault>> {
        if let Some(fault) = self.refusal(zone) {
            return Some(fault);
        }
        let fault = self.rules.zonemd?.objection(zone)?;
        Some(Arc::new(ZoneFault::without_place(format!("refused, as `zonemd` says: {fault}"))))
    }
}

/// What distinguishes one version of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    path: Arc<Path>,
    /// None if the file could not be looked at.
    seen: Option<Stamp>,
}

impl FileStamp {
    /// Looks at a file.
    pub fn of(path: impl Into<Arc<Path>>) -> Self {
        let path = path.into();
        Self { seen: Stamp::of(&path).ok(), path }
    }

    /// What a file was like when it was opened to be read.
    pub fn of_source(source: &SourceFile) -> Self {
        Self { path: source.path.as_path().into(), seen: Some(source.stamp) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version, if it could be looked at.
    pub fn stamp(&self) -> Option<Stamp> {
        self.seen
    }

    /// Whether the file still looks the same. A file that cannot be looked at never does.
    pub fn is_current(&self) -> bool {
        self.seen.is_some() && Stamp::of(&self.path).ok() == self.seen
    }
}

/// What is known of one zone.
#[derive(Debug, Clone)]
pub struct ZoneStatus {
    /// What was to be loaded.
    pub spec: ZoneSpec,
    /// The version served: the last good one. None: questions get SERVFAIL.
    pub zone: Option<Arc<Zone>>,
    /// The version that is not served because no primary could be asked for longer than it may be.
    pub expired: Option<Arc<Zone>>,
    /// When the version served was read.
    pub loaded: Option<SystemTime>,
    /// Why the newest version of the file is not the one served.
    pub fault: Option<Arc<ZoneFault>>,
    /// Warnings about the version served.
    pub warnings: usize,
    /// What else was found out about it; none before that.
    pub examined: Option<Arc<Examination>>,
}

impl ZoneStatus {
    /// Every [`word`](Self::word).
    pub const WORDS: [&'static str; 5] = ["ok", "old", "failed", "empty", "expired"];

    /// One word for listings.
    pub fn word(&self) -> &'static str {
        match (&self.zone, &self.fault) {
            (None, _) if self.expired.is_some() => "expired",
            (None, _) if self.spec.text == ZoneText::Primaries => "empty",
            (Some(_), None) => "ok",
            (Some(_), Some(_)) => "old",
            (None, _) => "failed",
        }
    }
}
