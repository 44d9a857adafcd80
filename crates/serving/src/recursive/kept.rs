//! Text files in the state folder: a first line with type and version, lines, and a checksum over all of it.
//! The file is written next to the old one and renamed over it once it is on disk, so it is always whole; the
//! checksum detects damage.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use wording::reason;
use zone::regular::replace;

/// A text file in the state folder.
#[derive(Debug)]
pub(super) struct KeptText {
    path: PathBuf,
    /// Its first line.
    head: String,
}

/// Why a file cannot be read.
#[derive(Debug)]
pub(super) enum KeptFault {
    /// An I/O error.
    Io(io::Error),
    /// The file has another type or version.
    Foreign,
    /// The checksum does not match.
    Damaged,
    /// This line of the file cannot be parsed; the first is 1.
    Line(usize),
}

impl fmt::Display for KeptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => f.write_str(&reason(e)),
            Self::Foreign => f.write_str("it is not of this version of nomen"),
            Self::Damaged => f.write_str("it is not what was written"),
            Self::Line(line) => write!(f, "line {line} cannot be read"),
        }
    }
}

impl KeptText {
    /// Returns the file of this name in the state folder.
    pub(super) fn new(state: &Path, name: &str) -> Self {
        KeptText { path: state.join(name), head: format!("nomen {name} 1\n") }
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the lines that were last written; `None` if the file does not exist.
    ///
    /// # Errors
    /// [`KeptFault`].
    pub(super) fn read(&self) -> Result<Option<String>, KeptFault> {
        let text = match zone::regular::read(&self.path, u64::MAX) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(KeptFault::Io)?,
        };
        let text = String::from_utf8(text).map_err(|_| KeptFault::Damaged)?;
        if !text.starts_with(&self.head) {
            return Err(KeptFault::Foreign);
        }
        let (all, sum) = text.rsplit_once("sum ").ok_or(KeptFault::Damaged)?;
        let lines = all.strip_prefix(&self.head).filter(|_| sum == sum_of(all)).ok_or(KeptFault::Damaged)?;
        Ok(Some(lines.to_owned()))
    }

    /// Replaces the file with these lines.
    ///
    /// # Errors
    /// The system's error; the old file is then unchanged.
    pub(super) fn write(&self, lines: &str) -> io::Result<()> {
        let all = format!("{}{lines}", self.head);
        replace(&self.path, format!("{all}sum {}", sum_of(&all)).as_bytes())
    }

    /// Renames an unusable file, so that the operator can inspect it.
    pub(super) fn put_aside(&self) {
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(".bad");
        // If that fails, the next write overwrites the file.
        let _ = std::fs::rename(&self.path, aside);
    }
}

/// Returns the 64-bit FNV-1a hash of a text, with a line feed. It detects accidental damage only.
fn sum_of(text: &str) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}\n", text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = KeptText::new(folder.path(), "things");
        assert!(matches!(kept.read(), Ok(None)));
        for lines in ["", "a\nb\n", "sum 5\n"] {
            kept.write(lines).expect("written");
            assert_eq!(kept.read().expect("read").as_deref(), Some(lines));
        }
        kept.write("one line\n").expect("written");
        let good = std::fs::read(kept.path()).expect("read");
        // Every truncated file, and every file with one bit inverted.
        for len in 0..good.len() {
            std::fs::write(kept.path(), &good[..len]).expect("written");
            assert!(kept.read().is_err(), "{len}");
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(kept.path(), &bad).expect("written");
            assert!(kept.read().is_err(), "{bit}");
        }
        std::fs::write(kept.path(), "nomen things 2\n").expect("written");
        assert!(matches!(kept.read(), Err(KeptFault::Foreign)));
        kept.put_aside();
        assert!(matches!(kept.read(), Ok(None)));
        assert!(folder.path().join("things.bad").exists());
    }
}
