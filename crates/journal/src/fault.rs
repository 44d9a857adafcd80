//! [`StoreFault`]: why a zone cannot be read from the disk, or not be kept there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use wire::{NameBuf, Serial};
use zone::store::{BuildError, ChangeError, Note};

/// Why a zone cannot be read from the disk, or not be kept there.
#[derive(Debug)]
pub enum StoreFault {
    /// The disk fails.
    Io {
        /// What was to be done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the system reports.
        error: io::Error,
    },
    /// Another process has the folder.
    Locked(PathBuf),
    /// The zone's store is open already.
    AlreadyOpen(Box<NameBuf>),
    /// The file is no store of a zone, or one of another version of the format.
    OtherFormat(PathBuf),
    /// The file holds this zone, and not the one it is named after.
    OtherZone(PathBuf, Box<NameBuf>),
    /// The file is not as it was written. Nothing of it is used.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Bytes in front of what is wrong.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The file is not there, and changes of its zone were acknowledged.
    Missing {
        /// The file.
        path: PathBuf,
        /// The version that was acknowledged last, if that is known.
        acknowledged: Option<Serial>,
    },
    /// The file holds less than was acknowledged: its end is missing, or it is a copy of an earlier time.
    Older {
        /// The file.
        path: PathBuf,
        /// The newest version in it.
        found: Serial,
        /// The version that was acknowledged last.
        acknowledged: Serial,
    },
    /// The file had a mark of how far it was acknowledged, and there is none: whether it holds all that was
    /// is not known.
    MarkLost {
        /// The file.
        path: PathBuf,
        /// The newest version in it.
        found: Serial,
        /// The file of the marks.
        marks: PathBuf,
    },
    /// A stored change does not fit the version in front of it.
    BadChange {
        /// The file.
        path: PathBuf,
        /// Why it does not fit.
        error: ChangeError,
    },
    /// The stored records do not make a zone.
    NoZone(PathBuf, BuildError),
    /// The stored records make a zone that should not be served.
    BadZone(PathBuf, Box<Note>),
    /// Nothing is stored that could change.
    NoBase,
    /// The change, or the zone, is of another version than the newest in the store.
    OtherVersion {
        /// The newest version in the store.
        stored: Serial,
        /// The one that was passed in.
        found: Serial,
    },
    /// The change does not lead to a later version (RFC 1982 §3.2).
    NotLater,
    /// The change [is no difference sequence](zone::store::ChangeSet::is_difference_sequence).
    NoSequence,
    /// The change has 4 GiB or more.
    TooLarge,
    /// The disk failed before, so that its content is unknown. Nothing is taken until the zone is replaced.
    Refused,
    /// A replacement is under way already.
    AlreadyReplacing,
    /// The replacement is of a zone with another name.
    NotTheZone,
    /// The replacement has not been written.
    NotWritten,
    /// The store has gone another way since the replacement was begun.
    Overtaken,
}

/// Turns an error of the disk into a fault.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreFault {
    let path = path.to_owned();
    move |error| StoreFault::Io { action, path, error }
}

/// The fault that a file is not as it was written.
pub(crate) fn damaged(path: &Path, offset: u64, what: &'static str) -> StoreFault {
    StoreFault::Damaged { path: path.to_owned(), offset, what }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, path, error } => write!(f, "cannot {action} {}: {error}", path.display()),
            Self::Locked(path) => write!(f, "another process has the folder {}", path.display()),
            Self::AlreadyOpen(apex) => write!(f, "the store of {apex} is open already"),
            Self::OtherFormat(path) => {
                write!(f, "{} was not written by this version of nomen", path.display())
            }
            Self::OtherZone(path, apex) => write!(f, "{} holds the zone {apex}", path.display()),
            Self::Damaged { path, offset, what } => {
                write!(f, "{} is damaged at byte {offset}: {what}", path.display())
            }
            Self::Missing { path, acknowledged } => {
                write!(f, "{} is missing, which had changes", path.display())?;
                acknowledged.map_or(Ok(()), |serial| write!(f, " up to serial {serial}"))
            }
            Self::Older { path, found, acknowledged } => write!(
                f,
                "{} ends at serial {found}, but changes up to serial {acknowledged} were acknowledged",
                path.display()
            ),
            Self::MarkLost { path, found, marks } => write!(
                f,
                "{} ends at serial {found}, and its entry in {}, which says whether that was acknowledged last, is lost",
                path.display(),
                marks.display()
            ),
            Self::BadChange { path, error } => {
                write!(f, "{}: a change does not fit: {error}", path.display())
            }
            Self::NoZone(path, error) => write!(f, "{}: no zone: {error}", path.display()),
            Self::BadZone(path, note) => write!(f, "{}: no zone to be served: {note}", path.display()),
            Self::NoBase => f.write_str("nothing is stored that could change"),
            Self::OtherVersion { stored, found } => {
                write!(f, "the store has serial {stored}, this is of serial {found}")
            }
            Self::NotLater => f.write_str("the change does not lead to a later serial"),
            Self::NoSequence => f.write_str("the records of the change do not begin with both SOAs"),
            Self::TooLarge => f.write_str("the change has 4 GiB or more"),
            Self::Refused => f.write_str("the disk failed before: the zone has to be stored anew"),
            Self::AlreadyReplacing => f.write_str("the zone is being stored anew already"),
            Self::NotTheZone => f.write_str("the zone has another name than the store"),
            Self::NotWritten => f.write_str("the replacement was not written"),
            Self::Overtaken => f.write_str("the zone has changed since the replacement was begun"),
        }
    }
}

impl std::error::Error for StoreFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::BadChange { error, .. } => Some(error),
            Self::NoZone(_, error) => Some(error),
            _ => None,
        }
    }
}
