//! What the stores need of a disk: [`Disk`] and [`DiskFile`], implemented by [`RealDisk`].
//!
//! The guarantees are those of POSIX. Bytes and file lengths are on the disk once [`DiskFile::sync_data`] has
//! returned; before, any part of them may be, in any order. Names are on the disk once [`Disk::sync_folder`]
//! has returned. The device has to guarantee one thing more: a write changes no bytes beside its own, even if
//! the power fails.

mod real;

use std::ffi::OsString;
use std::io;
use std::path::Path;

pub use real::RealDisk;

/// An open file. Dropping it closes it.
pub trait DiskFile: Send + Sync {
    /// Reads bytes from `offset` on and returns how many: fewer than requested at the end of the file, and
    /// possibly elsewhere.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes bytes from `offset` on and returns how many were written, which may be fewer.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Length of the file in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Truncates the file, or extends it with zeros, to this length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns once all written bytes and the length are on the disk (fdatasync). After an error, nothing
    /// written since the last success is guaranteed, whatever a later call returns.
    fn sync_data(&self) -> io::Result<()>;
}

/// Default for [`Disk::written_together`], in bytes.
pub const WRITTEN_TOGETHER: usize = 256 << 10;

/// A file system.
pub trait Disk: Send + Sync {
    /// Bytes of changes that are held in memory, approximately, before they are written together.
    fn written_together(&self) -> usize {
        WRITTEN_TOGETHER
    }
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Creates an empty file, replacing an existing one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, replacing an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a folder, if it does not exist.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Returns once the file names in a folder are on the disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// The file names in a folder, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Locks the file, creating it if necessary, until the returned guard is dropped or the process ends.
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if another process holds the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}
