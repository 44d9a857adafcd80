//! The last versions of documents on disk. Each is one file, which a new version replaces as a whole: two
//! lines with the type and a SHA-256 checksum of all that follows, lines about the version, an empty line,
//! and the text. The file's modification time is when the server last confirmed the version.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_lc_rs::digest::{Context, SHA256, digest};
use url::Url;
use wording::reason;
use zone::regular;

use crate::client::Validators;

/// The first line of a file.
const HEAD: &str = "nomen document 1\n";
/// Most bytes before the text.
const MAX_HEAD: u64 = 64 * 1024;
/// The end of the names of files.
const SUFFIX: &str = ".txt";

/// Documents in a folder.
#[derive(Debug, Clone)]
pub struct DocumentStore {
    folder: PathBuf,
}

/// A version of a document on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// What identifies it.
    pub validators: Validators,
    /// When its server last sent or confirmed it.
    pub confirmed: SystemTime,
    /// Its text.
    pub text: Vec<u8>,
}

/// Why a file in the folder cannot be used.
#[derive(Debug)]
pub enum DocumentFault {
    /// An I/O error.
    Io(io::Error),
    /// The file has another type or version.
    Foreign,
    /// The checksum does not match.
    Damaged,
    /// The document is of another URL.
    OtherUrl,
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => f.write_str(&reason(error)),
            Self::Foreign => f.write_str("it is not of this version of nomen"),
            Self::Damaged => f.write_str("its checksum is wrong"),
            Self::OtherUrl => f.write_str("it is of another URL"),
        }
    }
}
impl std::error::Error for DocumentFault {}

impl DocumentStore {
    /// Returns the store in this folder, which the first [`write`](Self::write) makes.
    pub fn new(folder: PathBuf) -> Self {
        DocumentStore { folder }
    }

    /// Returns the file of the document with this name and URL.
    pub fn path(&self, name: &str, url: &Url) -> PathBuf {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(64).collect();
        let identity = hex(digest(&SHA256, format!("{name}\n{url}").as_bytes()).as_ref());
        self.folder.join(format!("{plain}-{}{SUFFIX}", &identity[..16]))
    }

    /// Reads the version of a document, of at most `max_size` bytes of text; `None` if there is none.
    ///
    /// # Errors
    /// [`DocumentFault`].
    pub fn read(
        &self,
        name: &str,
        url: &Url,
        max_size: usize,
    ) -> Result<Option<StoredDocument>, DocumentFault> {
        let path = self.path(name, url);
        let mut bytes = match regular::read(&path, max_size as u64 + MAX_HEAD) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(DocumentFault::Io)?,
        };
        let confirmed = fs::metadata(&path).and_then(|about| about.modified());
        let confirmed = confirmed.map_err(DocumentFault::Io)?.min(SystemTime::now());
        let summed = bytes.strip_prefix(HEAD.as_bytes()).ok_or(DocumentFault::Foreign)?;
        let (sum, summed) = line(summed).ok_or(DocumentFault::Damaged)?;
        if sum != sum_of(&[summed]) {
            return Err(DocumentFault::Damaged);
        }
        let (mut rest, mut validators, mut of) = (summed, Validators::default(), "");
        loop {
            let (about, after) = line(rest).ok_or(DocumentFault::Damaged)?;
            rest = after;
            match about.split_once(' ') {
                Some(("url", value)) => of = value,
                Some(("etag", value)) => validators.etag = Some(value.to_owned()),
                Some(("last-modified", value)) => validators.last_modified = Some(value.to_owned()),
                _ if about.is_empty() => break,
                _ => return Err(DocumentFault::Foreign),
            }
        }
        if of != url.as_str() {
            return Err(DocumentFault::OtherUrl);
        }
        if rest.len() > max_size {
            let fault = io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than allowed");
            return Err(DocumentFault::Io(fault));
        }
        let text = bytes.split_off(bytes.len() - rest.len());
        Ok(Some(StoredDocument { validators, confirmed, text }))
    }

    /// Replaces the version of a document, once the new one is on disk.
    ///
    /// # Errors
    /// The system's; the old version is then still there.
    pub fn write(&self, name: &str, url: &Url, validators: &Validators, text: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut about = format!("url {url}\n");
        for (key, value) in [("etag", &validators.etag), ("last-modified", &validators.last_modified)] {
            about.extend(value.iter().map(|value| format!("{key} {value}\n")));
        }
        about.push('\n');
        let head = format!("{HEAD}{}\n{about}", sum_of(&[about.as_bytes(), text]));
        regular::replace(&self.path(name, url), &[head.as_bytes(), text].concat())
    }

    /// Notes that the server has confirmed the version at this time.
    ///
    /// # Errors
    /// The system's.
    pub fn confirm(&self, name: &str, url: &Url, time: SystemTime) -> io::Result<()> {
        let file = regular::open_with(OpenOptions::new().write(true), &self.path(name, url))?;
        file.set_modified(time)
    }

    /// Removes the files of all other documents than those at these paths. Returns the removed files.
    ///
    /// # Errors
    /// The system's; other files may be removed then.
    pub fn retain(&self, paths: &BTreeSet<PathBuf>) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut removed = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if !paths.contains(&path) && is_document(&path) {
                fs::remove_file(&path)?;
                removed.push(path);
            }
        }
        Ok(removed)
    }
}

fn is_document(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // A write that was cut short leaves a file with another end.
    name.trim_end_matches(".new").ends_with(SUFFIX)
}

/// Splits off the first line, if it is text.
fn line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 1..]))
}

/// Returns the SHA-256 checksum of a text.
pub fn checksum(text: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    let digest = digest(&SHA256, text);
    sum.iter_mut().zip(digest.as_ref()).for_each(|(to, byte)| *to = *byte);
    sum
}

/// Returns the line with the checksum of these parts.
fn sum_of(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    format!("sha256 {}", hex(context.finish().as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    fn validators() -> Validators {
        Validators { etag: Some("\"1\"".into()), last_modified: None }
    }

    #[test]
    fn a_version_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, of) = (DocumentStore::new(folder.path().join("lists")), url("https://l.example/a"));
        assert!(store.read("ads", &of, 100).expect("nothing is wrong").is_none());
        for text in [&b"a.example\n"[..], b"", b"\n\nurl x\n"] {
            store.write("ads", &of, &validators(), text).expect("written");
            let read = store.read("ads", &of, 100).expect("good").expect("there");
            assert_eq!((read.validators, &read.text[..]), (validators(), text));
        }
        assert!(store.read("ads", &url("https://l.example/b"), 100).expect("good").is_none());
        assert!(store.read("ads", &of, 8).is_ok() && store.read("ads", &of, 7).is_err(), "its size");
        assert!(store.read("a/../ds", &of, 100).expect("good").is_none(), "no path of another folder");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, of) = (DocumentStore::new(folder.path().to_owned()), url("https://l.example/a"));
        store.write("ads", &of, &validators(), b"a.example\n").expect("written");
        let path = store.path("ads", &of);
        let good = fs::read(&path).expect("read");
        for len in 0..good.len() {
            fs::write(&path, &good[..len]).expect("written");
            assert!(store.read("ads", &of, 100).is_err(), "{len}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).expect("written");
            assert!(store.read("ads", &of, 100).is_err(), "{at}");
        }
        fs::write(store.path("ads", &url("https://l.example/b")), &good).expect("written");
        let other = store.read("ads", &url("https://l.example/b"), 100);
        assert!(matches!(other, Err(DocumentFault::OtherUrl)), "{other:?}");
    }

    #[test]
    fn a_confirmation_changes_the_time_alone_and_a_time_to_come_is_now() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, of) = (DocumentStore::new(folder.path().to_owned()), url("https://l.example/a"));
        store.write("ads", &of, &validators(), b"a.example\n").expect("written");
        let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        store.confirm("ads", &of, past).expect("confirmed");
        assert_eq!(store.read("ads", &of, 100).expect("good").expect("there").confirmed, past);
        let future = SystemTime::now() + Duration::from_secs(1_000_000);
        store.confirm("ads", &of, future).expect("confirmed");
        let confirmed = store.read("ads", &of, 100).expect("good").expect("there").confirmed;
        assert!(confirmed <= SystemTime::now());
    }

    #[test]
    fn files_of_other_documents_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = DocumentStore::new(folder.path().to_owned());
        let [kept, gone] = ["https://l.example/a", "https://l.example/b"].map(url);
        for of in [&kept, &gone] {
            store.write("ads", of, &validators(), b"a.example\n").expect("written");
        }
        fs::write(folder.path().join("notes"), "").expect("written");
        let removed = store.retain(&BTreeSet::from([store.path("ads", &kept)])).expect("removed");
        assert_eq!(removed, [store.path("ads", &gone)]);
        assert!(store.path("ads", &kept).exists() && folder.path().join("notes").exists());
        let none = DocumentStore::new(folder.path().join("none"));
        assert_eq!(none.retain(&BTreeSet::new()).expect("no folder"), [""; 0].map(PathBuf::from));
    }
}
