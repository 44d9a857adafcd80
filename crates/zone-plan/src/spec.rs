//! One zone of the plan: its name, the source of its records, and how they are checked.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use config::peers::{ZonemdPolicy, too_many_iterations};
use journal::DEFAULT_HISTORY;
use wire::{Name, ZoneName};
use zone::Zone;

/// Where a zone's records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZoneText {
    /// A master file.
    File(Arc<Path>),
    /// Text that is part of the program.
    BuiltIn(&'static str),
    /// No text: the zone is transferred from its primaries.
    Primaries,
    /// No text: nomen produces this catalog zone.
    Produced,
    /// No text: the zone is in the database of `[database]`.
    Database,
    /// At least two files have names that map to this zone. None of them is read.
    Disputed(Arc<[Arc<Path>]>),
}

impl ZoneText {
    /// Whether the zone has a text to read.
    pub fn is_read(&self) -> bool {
        !matches!(self, Self::Primaries | Self::Produced | Self::Database)
    }

    /// The file, or the first of the disputed ones.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::BuiltIn(_) | Self::Primaries | Self::Produced | Self::Database => None,
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
            Self::Database => f.write_str("from the database"),
            Self::Disputed(files) => {
                let shown: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
                f.write_str(&shown.join(" and "))
            }
        }
    }
}

/// Why the text of a zone cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneFault {
    /// The file of the first fault; empty if no file has it.
    pub file: Arc<str>,
    /// Its line, from 1; 0 if unknown.
    pub line: u32,
    /// Its column, from 1; 0 if unknown.
    pub column: u32,
    /// The first fault, in one line.
    pub message: String,
    /// All reported faults for people: one line or more.
    pub text: String,
}

impl ZoneFault {
    /// Returns a fault without a file, line and column.
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

/// Why the server serves a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The configuration names it.
    Configuration,
    /// Its file is in a template's folder.
    Folder,
    /// It was added at run time.
    Added,
    /// This catalog zone lists it.
    Catalog(ZoneName),
    /// The database of `[database]` has it.
    Database,
    /// It is the root zone, of which the resolver uses a local copy. Clients get no answers from it.
    LocalRoot,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration => f.write_str("configuration"),
            Self::Folder => f.write_str("folder"),
            Self::Added => f.write_str("added at run time"),
            Self::LocalRoot => f.write_str("local root of the resolver"),
            Self::Database => f.write_str("database"),
            Self::Catalog(apex) => write!(f, "catalog {apex}"),
        }
    }
}

/// A zone to serve, as the configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSpec {
    /// Its name.
    pub apex: ZoneName,
    /// The source of its records.
    pub text: ZoneText,
    /// Why the server serves it.
    pub origin: Origin,
    /// Whether the changes of its file are stored.
    pub differences: DifferenceRule,
    /// How its file is checked.
    pub rules: TextRules,
    /// Whether nomen signs it: its records from `text` are then not what is served. The signed versions of a
    /// zone of the database are there.
    pub signed: bool,
}

/// How the text of a zone is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextRules {
    /// How a version's digest decides whether it is accepted; `None`: the digest is not checked.
    pub zonemd: Option<ZonemdPolicy>,
    /// Limit of NSEC3 iterations; `None`: [`MOST_NSEC3_ITERATIONS`](config::peers::MOST_NSEC3_ITERATIONS).
    pub nsec3_max_iterations: Option<u16>,
    /// Whether a character-string that is too long is split into several.
    pub split_strings: bool,
    /// Size limit of the file with all that it includes, in bytes; `None`: [`MOST_TEXT`].
    pub max_size: Option<u64>,
    /// The file was named on a command line: it may be a pipe and of any size.
    pub any_file: bool,
}

/// Default size limit of a zone file with all that it includes, in bytes.
pub const MOST_TEXT: u64 = 32 << 30;

impl TextRules {
    /// Returns the rules for a file named on a command line.
    pub fn of_command_line() -> Self {
        TextRules { any_file: true, ..TextRules::default() }
    }

    /// Size limit of the text in bytes.
    pub fn most_text(&self) -> u64 {
        if self.any_file { u64::MAX } else { self.max_size.unwrap_or(MOST_TEXT) }
    }
}

impl ZoneSpec {
    /// The zone's name.
    pub fn name(&self) -> Name<'_> {
        self.apex.as_name()
    }

    /// Returns a fault if a version has too many NSEC3 iterations to go into service, whatever its source.
    pub fn refusal(&self, zone: &Zone) -> Option<Arc<ZoneFault>> {
        let fault = too_many_iterations(zone, self.rules.nsec3_max_iterations)?;
        Some(Arc::new(ZoneFault::without_place(format!("refused: {fault}"))))
    }

    /// Returns a fault if the NSEC3 iterations or the digest of a version from a file keep it out of service.
    pub fn objection(&self, zone: &Zone) -> Option<Arc<ZoneFault>> {
        if let Some(fault) = self.refusal(zone) {
            return Some(fault);
        }
        let fault = self.rules.zonemd?.objection(zone)?;
        Some(Arc::new(ZoneFault::without_place(format!("refused, as `zonemd` says: {fault}"))))
    }
}

/// Default of the record count from which on differences of a zone are stored. A smaller zone fits into a
/// message or a few.
pub const LEAST_RECORDS: u64 = 1000;

/// The zones whose differences are stored, and how many bytes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DifferenceRule {
    /// Least record count of a zone whose differences are stored; `None`: none are stored.
    pub from_records: Option<u64>,
    /// Bytes of changes to keep. The files on disk are at most twice as large.
    pub bytes: u64,
}

impl DifferenceRule {
    /// Whether to store the change that leads to this version.
    pub fn wants(&self, zone: &Zone) -> bool {
        self.from_records.is_some_and(|least| zone.record_count() >= least)
    }
}

impl Default for DifferenceRule {
    /// Stores no differences.
    fn default() -> Self {
        DifferenceRule { from_records: None, bytes: DEFAULT_HISTORY }
    }
}
