//! Reading files of keys and certificates.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wording::reason;

/// Largest size of a file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Most random keys in one file.
const MAX_KEYS: usize = 16;
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

/// Why a file of random keys cannot be used.
#[derive(Debug)]
pub enum RandomKeyFault {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// Its length is not that of keys.
    Length {
        /// The file.
        path: PathBuf,
        /// What has the keys, as text.
        of: &'static str,
        /// Length of the file, in bytes.
        length: usize,
        /// Length of a key, in bytes.
        key: usize,
    },
    /// All bytes of a key are equal.
    NotRandom {
        /// The file.
        path: PathBuf,
        /// Length of a key, in bytes.
        key: usize,
    },
}

impl fmt::Display for RandomKeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "cannot read {}: {}", path.display(), reason(error)),
            Self::Length { path, of, length, key } => write!(
                f,
                "{} has {length} bytes; each key of {of} has {key}, and a file 1 to {MAX_KEYS} keys: \
                 `openssl rand -out FILE {key}` makes one",
                path.display()
            ),
            Self::NotRandom { path, key } => write!(
                f,
                "the keys in {} are not random: `openssl rand -out FILE {key}` makes one that is",
                path.display()
            ),
        }
    }
}
impl std::error::Error for RandomKeyFault {}

/// Random keys of one file, of `N` bytes each.
pub(crate) struct RandomKeys<const N: usize> {
    pub(crate) keys: Vec<[u8; N]>,
    /// Whether users other than the owner and the group may read the file.
    pub(crate) is_public: bool,
}

/// Reads a file of random keys. `of`: what has them, for messages.
///
/// # Errors
/// What is wrong, with the file.
pub(crate) fn read_keys<const N: usize>(
    path: &Path,
    of: &'static str,
) -> Result<RandomKeys<N>, RandomKeyFault> {
    let SecretFile { bytes, is_public } =
        read_secret(path).map_err(|error| RandomKeyFault::Read(path.to_owned(), error))?;
    let (keys, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() || !(1..=MAX_KEYS).contains(&keys.len()) {
        return Err(RandomKeyFault::Length { path: path.to_owned(), of, length: bytes.len(), key: N });
    }
    if !keys.iter().all(is_random) {
        return Err(RandomKeyFault::NotRandom { path: path.to_owned(), key: N });
    }
    Ok(RandomKeys { keys: keys.to_vec(), is_public })
}

/// Whether the bytes are not all equal: zeros are what a file has that was made but not filled.
pub(crate) fn is_random<const N: usize>(key: &[u8; N]) -> bool {
    key.iter().any(|&byte| byte != key[0])
}
