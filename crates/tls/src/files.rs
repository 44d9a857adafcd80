//! Reading files of keys and certificates.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Largest size of a file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Read permission of users other than the owner and the group.
const OTHERS_READ: u32 = 0o004;

/// A file that may have a secret.
pub(crate) struct SecretFile {
    pub(crate) bytes: Vec<u8>,
    /// Whether users other than the owner and the group may read it.
    pub(crate) is_public: bool,
}

/// Reads a regular file of at most 1 MiB.
pub(crate) fn read_secret(path: &Path) -> io::Result<SecretFile> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() || about.len() > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file of at most 1 MiB"));
    }
    Ok(SecretFile { bytes: std::fs::read(path)?, is_public: about.mode() & OTHERS_READ != 0 })
}
