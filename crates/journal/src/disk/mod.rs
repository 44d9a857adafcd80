//! What the stores need of a disk: [`Disk`], [`DiskFile`]; [`RealDisk`] is the one there is.
//!
//! What may be lost is what POSIX lets be lost. Bytes and lengths are on the disk once
//! [`DiskFile::sync_data`] has returned, in any order and in part before; names are once
//! [`Disk::sync_folder`] has. One thing is asked of the device: a write changes the bytes it is of and no
//! other ones, even where the power goes.

mod real;

use std::ffi::OsString;
use std::io;
use std::path::Path;

pub use real::RealDisk;

/// An open file. Dropped, it is closed.
pub trait DiskFile: Send + Sync {
    /// Reads bytes from `offset` on; returns how many, which are fewer than asked for at the end, and may be
    /// elsewhere.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes bytes from `offset` on; returns how many were written, which may be fewer.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;
    /// Whether there are none.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file, or fills it with zeros, to this length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns once all that was written, and the length, is on the disk (fdatasync). After an error nothing
    /// that was written since the last success can be relied on, whatever a later call returns.
    fn sync_data(&self) -> io::Result<()>;
}

/// Bytes of changes that are written together, unless a disk wants it otherwise.
pub const WRITTEN_TOGETHER: usize = 256 << 10;

/// Where files are.
pub trait Disk: Send + Sync {
    /// Bytes of changes that are kept in memory, about, before they are written together.
    fn written_together(&self) -> usize {
        WRITTEN_TOGETHER
    }
    /// Opens a file that is there for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes an empty file, in place of one that may be there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, in place of the file that may have it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder, if it is not there.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Returns once the names in a folder are on the disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Takes the file as a lock, making it if need be, until what is returned is dropped or the process ends.
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if another has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}
