//! The requests of child zones that were accepted last, in a file of the state folder: of CDS and CDNSKEY
//! records when they were signed, of CSYNC records the serial number of the child. None is accepted that is
//! older (RFC 7344 §6.2, RFC 7477 §2.1.1.1).
//!
//! The file has a line of JSON for each accepted request; the last one of a child counts, which has both. It
//! is rewritten with one line for each child at the start, and when most of its lines count no more. A line
//! that a crash has torn is ignored.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::{NameBuf, Serial, ZoneName};
use zone::regular::{self, replace};

/// The name of the file in the state folder.
const FILE: &str = "accepted-delegations";
/// Lines that count no more, for which the file is not rewritten.
const SPARE_LINES: usize = 1000;

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The parent zone, with its view.
    zone: String,
    child: String,
    /// The inception of the signature over CDS or CDNSKEY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inception: Option<u32>,
    /// The serial number of the child with the CSYNC record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial: Option<u32>,
}

/// The last accepted requests of a child.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LastAccepted {
    /// When its CDS and CDNSKEY records were signed.
    pub(super) inception: Option<Serial>,
    /// The serial number of the child with its CSYNC record.
    pub(super) serial: Option<Serial>,
}

/// The last accepted requests of all children.
#[derive(Debug)]
pub(super) struct AcceptedRequests {
    path: PathBuf,
    /// By parent zone and child as text, which takes less memory than names.
    children: HashMap<(Box<str>, Box<str>), LastAccepted>,
    /// Lines of the file.
    lines: usize,
}

impl AcceptedRequests {
    /// Reads the file of a state folder, if it exists.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(state: &Path) -> io::Result<AcceptedRequests> {
        let path = state.join(FILE);
        let bytes = match regular::read(&path, u64::MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let (mut children, mut lines) = (HashMap::new(), 0);
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines += 1;
            let Ok(Line { zone, child, inception, serial }) = serde_json::from_slice(line) else { continue };
            let last = LastAccepted { inception: inception.map(Serial), serial: serial.map(Serial) };
            children.insert((zone.into(), child.into()), last);
        }
        let mut accepted = AcceptedRequests { path, children, lines };
        // The next line would be appended to a torn one.
        if lines > accepted.children.len() || bytes.last().is_some_and(|last| *last != b'\n') {
            accepted.write_anew()?;
        }
        Ok(accepted)
    }

    /// Returns the last accepted requests of a child.
    pub(super) fn get(&self, zone: &ZoneName, child: &NameBuf) -> LastAccepted {
        self.children.get(&key(zone, child)).copied().unwrap_or_default()
    }

    /// Stores an accepted request, on disk first. What is `None` stays as it is.
    ///
    /// # Errors
    /// Those of the system; it is known until the end of this process then.
    pub(super) fn put(&mut self, zone: &ZoneName, child: &NameBuf, new: LastAccepted) -> io::Result<()> {
        let (key, old) = (key(zone, child), self.get(zone, child));
        let last =
            LastAccepted { inception: new.inception.or(old.inception), serial: new.serial.or(old.serial) };
        let line = line_of(&key, last)?;
        let written = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600);
            let mut file = regular::open_with(&mut options, &self.path)?;
            file.write_all(&line)?;
            file.sync_data()
        };
        let written = written();
        self.children.insert(key, last);
        self.lines += 1;
        match self.lines > 2 * self.children.len() + SPARE_LINES {
            true => self.write_anew(),
            false => written,
        }
    }

    fn write_anew(&mut self) -> io::Result<()> {
        let lines = self.children.iter().map(|(key, last)| line_of(key, *last));
        let text: io::Result<Vec<Vec<u8>>> = lines.collect();
        replace(&self.path, &text?.concat())?;
        self.lines = self.children.len();
        Ok(())
    }
}

fn key(zone: &ZoneName, child: &NameBuf) -> (Box<str>, Box<str>) {
    (zone.to_string().into(), child.as_name().to_lower().to_string().into())
}

fn line_of((zone, child): &(Box<str>, Box<str>), last: LastAccepted) -> io::Result<Vec<u8>> {
    let number = |serial: Option<Serial>| serial.map(|serial| serial.0);
    let (inception, serial) = (number(last.inception), number(last.serial));
    let line = Line { zone: zone.to_string(), child: child.to_string(), inception, serial };
    let mut text = serde_json::to_vec(&line)?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed_at(inception: u32) -> LastAccepted {
        LastAccepted { inception: Some(Serial(inception)), serial: None }
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = |text: &str| -> NameBuf { text.parse().expect("a name") };
        let (zone, child) = (ZoneName::from(&name("example")), name("child.example"));
        let path = folder.path().join(FILE);
        let mut line = line_of(&key(&zone, &child), signed_at(1)).expect("a line");
        let one = line.len();
        line = line.repeat(SPARE_LINES + 5);
        std::fs::write(&path, &line).expect("written");
        let size = || std::fs::metadata(&path).expect("a file").len() as usize;
        let mut accepted = AcceptedRequests::open(folder.path()).expect("opened");
        assert_eq!(size(), one);
        accepted.lines = SPARE_LINES + 2;
        accepted.put(&zone, &child, signed_at(2)).expect("written");
        assert_eq!((size(), accepted.get(&zone, &child)), (one, signed_at(2)));
    }

    #[test]
    fn what_was_accepted_outlives_the_process_and_a_torn_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let (zone, child): (NameBuf, NameBuf) =
            ("example".parse().expect("a name"), "Child.example".parse().expect("a name"));
        let zone = ZoneName::from(&zone);
        let mut accepted = AcceptedRequests::open(folder.path()).expect("opened");
        assert_eq!(accepted.get(&zone, &child), LastAccepted::default());
        accepted.put(&zone, &child, signed_at(7)).expect("written");
        accepted.put(&zone, &child, signed_at(9)).expect("written");
        let path = folder.path().join(FILE);
        let mut bytes = std::fs::read(&path).expect("a file");
        bytes.extend(b"{\"zone\":\"exam");
        std::fs::write(&path, bytes).expect("written");
        let mut accepted = AcceptedRequests::open(folder.path()).expect("opened");
        assert_eq!(accepted.get(&zone, &child), signed_at(9));
        accepted.put(&zone, &"b.example".parse().expect("a name"), signed_at(1)).expect("written");
        let serial = LastAccepted { serial: Some(Serial(5)), inception: None };
        accepted.put(&zone, &child, serial).expect("written");
        let accepted = AcceptedRequests::open(folder.path()).expect("opened");
        assert_eq!(accepted.children.len(), 2);
        let both = LastAccepted { serial: Some(Serial(5)), ..signed_at(9) };
        assert_eq!(accepted.get(&zone, &"child.EXAMPLE".parse().expect("a name")), both);
    }
}
