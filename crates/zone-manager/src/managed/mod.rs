//! One zone that the server manages: its name and its entry in the configuration, its state, and the messages
//! by which its sources report new versions.
//!
//! | file | holds |
//! |---|---|
//! | `state` | the state of one zone, and what is to be done when something happens to it |
//! | `table` | the states of all zones |
//! | `examination` | what is found out about a version in service |
//! | `publishing` | messages to the thread that puts versions into service |

pub mod examination;
pub mod publishing;
pub mod state;
pub mod table;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use config::peers::{ZonemdPolicy, too_many_iterations};
use examination::Examination;
use journal::DEFAULT_HISTORY;
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
    pub(crate) fn most_text(&self) -> u64 {
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

/// Records of a zone from which on its differences are kept, unless configured otherwise: a smaller one is a
/// message or a few.
pub const LEAST_RECORDS: u64 = 1000;

/// Of which versions of a zone it is kept what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DifferenceRule {
    /// Of those with so many records at least; `None`: of none.
    pub from_records: Option<u64>,
    /// Bytes of changes that are kept. On the disk are at most twice as many.
    pub bytes: u64,
}

impl DifferenceRule {
    /// Whether it is to be kept what leads to this version.
    pub fn wants(&self, zone: &Zone) -> bool {
        self.from_records.is_some_and(|least| zone.record_count() >= least)
    }
}

impl Default for DifferenceRule {
    /// Nothing is kept.
    fn default() -> Self {
        DifferenceRule { from_records: None, bytes: DEFAULT_HISTORY }
    }
}
