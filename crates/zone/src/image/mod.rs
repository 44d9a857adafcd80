//! Images: snapshots in files, ready to be served without parsing text, sorting or hashing.
//!
//! An image holds the parts of a [`Zone`](crate::Zone) in their memory layout, after a header with their
//! provenance. It is read into memory and verified by all CPUs at once, not mapped: pages of a file cannot be
//! huge, a mapped file that is truncated would kill the process, and verifying reads everything anyway. This
//! module does not decide whether a zone needs an image, and where images are stored.
//!
//! ```text
//! header     magic, version of the format, length, checksum; then program and provenance, and the
//!            parts (kind, offset, length), with the checksum of each MiB of them
//! parts      each from a multiple of 4096 on: chunks of the arena, index, NSEC order, NSEC3 chain
//! ```
//!
//! Numbers are little-endian; checksums are XXH3 with 64 bits. An image is written to a temporary name,
//! synced to the disk and then renamed, so that it exists either as a whole or not at all.
//!
//! An image that was damaged by accident fails its checksums. A malicious one may have right checksums, so
//! every length, offset and address in it is verified, too (`store/verify.rs`): an accepted image may hold a
//! wrong zone, as any text may, but nothing that breaks a lookup.
//!
//! Large parts are read into huge pages.

mod format;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::io;
use std::path::PathBuf;

pub use read::Image;
pub use write::{TEMPORARY, remove_leftovers, write, write_to};

use crate::stamp::SourceFile;

/// The origin of a snapshot. An image holds it beside the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The files that were read, the zone's own first, with absolute paths.
    pub sources: Vec<SourceFile>,
    /// Number of warnings about them.
    pub warnings: u64,
}

/// The reason why an image cannot be used.
#[derive(Debug)]
pub enum ImageError {
    /// It does not exist.
    Missing,
    /// It cannot be read.
    Io(io::Error),
    /// It is no image, or another version of nomen wrote it.
    OtherFormat,
    /// It holds another zone.
    OtherZone,
    /// It was built with another hash key.
    OtherKey,
    /// This file has changed since the image was built from it.
    Changed(PathBuf),
    /// It was built from another file than this.
    OtherFile(PathBuf),
    /// It is damaged; the text says how.
    Damaged(String),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is none"),
            Self::Io(error) => write!(f, "it cannot be read: {error}"),
            Self::OtherFormat => f.write_str("it was not made by this version of nomen"),
            Self::OtherZone => f.write_str("it holds another zone"),
            Self::OtherKey => f.write_str("it was made under another hash key"),
            Self::Changed(path) => write!(f, "{} has changed since", path.display()),
            Self::OtherFile(path) => write!(f, "it was not made from {}", path.display()),
            Self::Damaged(what) => write!(f, "it is damaged: {what}"),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl ImageError {
    /// Returns a keyword for counters: `missing`, `stale` (built from other text, with another key or by
    /// another version) or `damaged` (which includes unreadable).
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Io(_) | Self::Damaged(_) => "damaged",
            Self::OtherFormat | Self::OtherZone | Self::OtherKey | Self::Changed(_) | Self::OtherFile(_) => {
                "stale"
            }
        }
    }
}

fn damaged(what: impl Into<String>) -> ImageError {
    ImageError::Damaged(what.into())
}
