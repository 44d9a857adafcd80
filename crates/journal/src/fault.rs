//! [`StoreFault`]: why a zone cannot be read from the disk or stored there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use wire::{NameBuf, Serial};
use zone::store::{BuildError, ChangeError, Note};

/// Why a zone cannot be read from the disk or stored there.
#[derive(Debug)]
pub enum StoreFault {
    /// A disk operation failed.
    Io {
        /// The operation.
        action: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another process holds the lock of the folder.
    Locked(PathBuf),
    /// The zone's store is open already.
    AlreadyOpen(Box<NameBuf>),
    /// The file is not a zone store, or has another version of the format.
    OtherFormat(PathBuf),
    /// The file holds this zone instead of the one it is named after.
    OtherZone(PathBuf, Box<NameBuf>),
    /// The file is not as it was written. None of it is used.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damage.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// The file does not exist, although changes of its zone were acknowledged.
    Missing {
        /// The file.
        path: PathBuf,
        /// The version that was acknowledged last, if known.
        acknowledged: Option<Serial>,
    },
    /// The file holds less than was acknowledged: its end is missing, or it is an older copy.
    Older {
        /// The file.
        path: PathBuf,
        /// The newest version in it.
        found: Serial,
        /// The version that was acknowledged last.
        acknowledged: Serial,
    },
    /// The file declares a mark, and the mark is missing: whether the file holds all acknowledged changes is
    /// unknown.
    MarkLost {
        /// The file.
        path: PathBuf,
        /// The newest version in it.
        found: Serial,
        /// The marks file.
        marks: PathBuf,
    },
    /// A stored change does not apply to the version before it.
    BadChange {
        /// The file.
        path: PathBuf,
        /// Why it does not apply.
        error: ChangeError,
    },
    /// The stored records do not form a zone.
    NoZone(PathBuf, BuildError),
    /// The stored records form a zone that should not be served.
    BadZone(PathBuf, Box<Note>),
    /// The store is empty, so there is nothing to change.
    NoBase,
    /// The change or the zone does not match the newest version in the store.
    OtherVersion {
        /// The newest version in the store.
        stored: Serial,
        /// The version that was passed in.
        found: Serial,
    },
    /// The change does not lead to a later version (RFC 1982 §3.2).
    NotLater,
    /// The change [is not a difference sequence](zone::store::ChangeSet::is_difference_sequence).
    NoSequence,
    /// The change has 4 GiB or more.
    TooLarge,
    /// The disk failed before, and the content of the file is unknown. The store refuses changes until the
    /// zone is replaced.
    Refused,
    /// A replacement is already under way.
    AlreadyReplacing,
    /// The replacement is for a zone with another name.
    NotTheZone,
    /// The replacement has not been written.
    NotWritten,
    /// The store has lost changes or been replaced since the replacement was begun.
    Overtaken,
}

/// Returns a function that turns an I/O error into a [`StoreFault::Io`].
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
                "{} ends at serial {found}, and its entry in {}, which says whether that was acknowledged \
                 last, is lost",
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
