//! Identifies the version of a file without reading it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};

/// The version of a file, as the file system reports it.
///
/// The device is left out: its number may change when the system restarts, with the same file on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Inode number.
    pub inode: u64,
    /// Last change of the content: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Last change of content or metadata (ctime), which no program can set back.
    pub changed: (i64, u32),
}

impl Stamp {
    /// Returns the present version of the file at `path`.
    pub fn of(path: &Path) -> io::Result<Stamp> {
        fs::metadata(path).map(|about| Stamp::from(&about))
    }
}

/// A file and the version that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path.
    pub path: PathBuf,
    /// The version.
    pub stamp: Stamp,
}

impl SourceFile {
    /// Whether the file at the path still has the version that was read.
    pub fn is_current(&self) -> bool {
        Stamp::of(&self.path).is_ok_and(|now| now == self.stamp)
    }

    /// Returns the same file with a path that does not depend on the working directory.
    pub fn absolute(self) -> io::Result<SourceFile> {
        Ok(SourceFile { path: path::absolute(self.path)?, stamp: self.stamp })
    }
}

impl From<&Metadata> for Stamp {
    fn from(about: &Metadata) -> Stamp {
        Stamp {
            size: about.size(),
            inode: about.ino(),
            modified: (about.mtime(), about.mtime_nsec() as u32),
            changed: (about.ctime(), about.ctime_nsec() as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_current_until_it_is_changed_replaced_or_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "some text").expect("written");
        let file = SourceFile { stamp: Stamp::of(&path).expect("a stamp"), path: path.clone() };
        assert!(file.is_current());
        fs::write(&path, "more text than before").expect("written");
        assert!(!file.is_current(), "another size");
        let file = SourceFile { stamp: Stamp::of(&path).expect("a stamp"), path: path.clone() };
        let other = folder.path().join("other");
        fs::write(&other, "more text than before").expect("written");
        let time = fs::metadata(&path).and_then(|about| about.modified()).expect("a time");
        let opened = fs::File::options().write(true).open(&other).expect("opened");
        opened.set_modified(time).expect("the same time");
        fs::rename(&other, &path).expect("moved");
        assert!(!file.is_current(), "another file of the same size and time");
        fs::remove_file(&path).expect("removed");
        assert!(!file.is_current());
    }
}
