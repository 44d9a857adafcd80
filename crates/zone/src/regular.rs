//! Opening regular files.
//!
//! If a FIFO or a device is at a path where a file is expected, `open` or a read may block forever, or the
//! read may never end. All code that opens a file by a configured name, or in the state directory, uses these
//! functions.

use std::fmt;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Bytes that one system call reads or writes at most. Linux may run no other thread on the CPU during a
/// call, and clears the pages of a new buffer meanwhile: a read of 4 MiB delays the worker that answers
/// queries there by 2 ms.
const AT_ONCE: usize = 64 << 10;

/// The path leads to something other than a regular file. The source of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRegular {
    found: &'static str,
}

impl fmt::Display for NotRegular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a regular file: it is a {}", self.found)
    }
}

impl std::error::Error for NotRegular {}

/// Opens the regular file at `path` for reading.
///
/// # Errors
/// [`NotRegular`] for anything but a file or a directory, `IsADirectory` for a directory, or the system's.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens the regular file at `path` with `options`, which may create it. Never waits for another process.
///
/// The flags `O_NONBLOCK` and `O_NOCTTY` are set, which have no effect on regular files.
///
/// # Errors
/// As [`open`].
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Opening a device may have effects of its own, so its type is checked first.
    if let Ok(about) = fs::metadata(path) {
        check(about.file_type())?;
    }
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    // Another file may have replaced it in between.
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Writes a new file next to the one at `path`, syncs it to the disk and renames it to `path`.
///
/// # Errors
/// The system's; then the old file is still there, unless syncing the directory failed.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = open_with(&mut options, Path::new(&beside))?;
    bytes.chunks(AT_ONCE).try_for_each(|part| file.write_all(part))?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads the whole regular file at `path`, of at most `most` bytes.
///
/// # Errors
/// As [`open`], and `FileTooLarge` for a file of more bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    // A file may grow while it is read.
    let most_read = most.saturating_add(1);
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len().min(most_read)).unwrap_or(0));
    loop {
        let part = most_read.saturating_sub(bytes.len() as u64).min(AT_ONCE as u64);
        if (&mut file).take(part).read_to_end(&mut bytes)? == 0 {
            break;
        }
    }
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// Reads the whole regular file at `path` as text, of at most `most` bytes.
///
/// # Errors
/// As [`read`], and `InvalidData` for bytes that are not UTF-8.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, most)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8 text"))
}

/// Returns the checksum of a text, in hexadecimal digits.
pub fn checksum(text: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text))
}

/// Writes a text as [`replace`] does, with its checksum in a last line.
///
/// # Errors
/// As [`replace`].
pub fn replace_with_checksum(path: &Path, text: &[u8]) -> io::Result<()> {
    replace(path, &[text, b"\n", checksum(text).as_bytes(), b"\n"].concat())
}

/// Reads a text of at most `most` bytes that [`replace_with_checksum`] has written.
///
/// # Errors
/// As [`read`], and `InvalidData` if the file was cut or changed.
pub fn read_with_checksum(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // The length of the last line and of the line break before it.
    const SUM: usize = 18;
    let mut text = read(path, most.saturating_add(SUM as u64))?;
    let at = text.len().checked_sub(SUM);
    let is_whole = at.is_some_and(|at| text[at..] == *format!("\n{}\n", checksum(&text[..at])).as_bytes());
    let Some(at) = at.filter(|_| is_whole) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it was cut or changed: its checksum differs",
        ));
    };
    text.truncate(at);
    Ok(text)
}

fn check(kind: FileType) -> io::Result<()> {
    let found = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        kind if kind.is_fifo() => "FIFO",
        kind if kind.is_socket() => "socket",
        _ => "device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, NotRegular { found }))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&fifo, &link).expect("a link");
        let mut writing = OpenOptions::new();
        writing.write(true).create(true).truncate(true);
        for path in [&fifo, &link, Path::new("/dev/zero")] {
            for opened in [open(path), open_with(&mut writing, path)] {
                let error = opened.expect_err("refused");
                let is_not_regular = error.get_ref().is_some_and(|source| source.is::<NotRegular>());
                assert!(is_not_regular, "{}: {error}", path.display());
            }
        }
        assert_eq!(open(folder.path()).expect_err("a folder").kind(), io::ErrorKind::IsADirectory);
        assert_eq!(open(&folder.path().join("none")).expect_err("nothing").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "text").expect("written");
        assert_eq!(read_to_string(&path, 4).expect("text"), "text");
        assert_eq!(read(&path, 3).expect_err("too large").kind(), io::ErrorKind::FileTooLarge);
        fs::write(&path, b"\xff").expect("written");
        assert_eq!(read_to_string(&path, 4).expect_err("no text").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_file_of_several_parts_is_written_and_read_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        for size in [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE, 3 * AT_ONCE + 7] {
            let bytes: Vec<u8> = (0..size).map(|at| (at / 251) as u8).collect();
            replace(&path, &bytes).expect("written");
            assert!(read(&path, size as u64).expect("read") == bytes, "{size} bytes");
            assert!(read(&path, u64::MAX).expect("read") == bytes, "{size} bytes");
            if let Some(less) = size.checked_sub(1) {
                let fault = read(&path, less as u64).expect_err("too large");
                assert_eq!(fault.kind(), io::ErrorKind::FileTooLarge);
            }
        }
    }

    #[test]
    fn a_file_with_a_checksum_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        for text in [&b""[..], b"{}", b"a\nb\n"] {
            replace_with_checksum(&path, text).expect("written");
            assert_eq!(read_with_checksum(&path, 4).expect("read"), text);
            let whole = fs::read(&path).expect("read");
            let kind = |bytes: &[u8]| {
                fs::write(&path, bytes).expect("written");
                read_with_checksum(&path, 4).map_err(|fault| fault.kind())
            };
            for at in 0..whole.len() {
                assert_eq!(kind(&whole[..at]), Err(io::ErrorKind::InvalidData), "cut at {at}");
                let mut changed = whole.clone();
                changed[at] ^= 1;
                assert_eq!(kind(&changed), Err(io::ErrorKind::InvalidData), "bit of byte {at}");
            }
        }
        replace_with_checksum(&path, b"12345").expect("written");
        let fault = read_with_checksum(&path, 4).expect_err("too large");
        assert_eq!(fault.kind(), io::ErrorKind::FileTooLarge);
    }
}
