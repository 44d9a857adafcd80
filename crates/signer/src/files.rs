//! Files of keys on disk: the only module that opens files.
//!
//! A key is two files with the names of BIND's tools, `.private` and `.key`. Both are new files, synced
//! before they get their name; none replaces another. That with the private key has mode 0600. A third file,
//! `.state`, has the state of its rollovers, and is replaced at once when that changes.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use wire::rdata::view::{Dnskey, SigAlgorithm};
use wire::{Name, Ttl, UnixTime};
use wording::reason;
use zeroize::Zeroizing;
use zone::regular;

use crate::key::pair::BadKey;
use crate::key::pem::{self, PemFault};
use crate::key::text::{KeyTextFault, PrivateText, PublicText};
use crate::key::times::KeyTimes;
use crate::key::{self, ZoneKey};
use crate::rollover::offline::{ExchangeFault, SignedKeyResponse};
use crate::rollover::text::{StateText, StateTextFault};

/// Largest file that is read as a key, in bytes. An RSA key of 4096 bits takes 4 KiB.
pub const MAX_KEY_FILE: u64 = 64 * 1024;

const PRIVATE: &str = ".private";
const PUBLIC: &str = ".key";
const STATE: &str = ".state";
/// End of the name of the file with the signed key responses of a zone.
const RESPONSES: &str = "skr";
/// Largest such file, in bytes.
pub const MAX_RESPONSES: u64 = 16 * 1024 * 1024;

/// Why a key was not read from its files, or not written to them.
#[derive(Debug)]
pub struct KeyFolderFault {
    /// The file, or the folder.
    pub path: PathBuf,
    /// The kind of fault.
    pub kind: KeyFolderFaultKind,
}

/// Kinds of [`KeyFolderFault`].
#[derive(Debug)]
pub enum KeyFolderFaultKind {
    /// The system's error.
    Io(io::Error),
    /// The file has more than [`MAX_KEY_FILE`] bytes.
    TooLong,
    /// The file is not text.
    NotText,
    /// The text has this fault.
    Text(KeyTextFault),
    /// The text of a `.state` file has this fault.
    State(StateTextFault),
    /// The `.state` file is that of a key of another algorithm.
    OtherAlgorithm(SigAlgorithm),
    /// The text of signed key responses has this fault.
    Response(ExchangeFault),
    /// The text in PEM has this fault.
    Pem(PemFault),
    /// The key is wrong.
    Key(BadKey),
    /// The file is there already.
    Exists,
}

impl fmt::Display for KeyFolderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            KeyFolderFaultKind::Io(error) => write!(f, "{path}: {}", reason(error)),
            KeyFolderFaultKind::TooLong => {
                write!(f, "{path}: not a key, it has more than {MAX_KEY_FILE} bytes")
            }
            KeyFolderFaultKind::NotText => write!(f, "{path}: not a key, it is not UTF-8 text"),
            KeyFolderFaultKind::Text(fault) => write!(f, "{path}:{fault}"),
            KeyFolderFaultKind::State(fault) => write!(f, "{path}:{fault}"),
            KeyFolderFaultKind::OtherAlgorithm(algorithm) => {
                write!(f, "{path}: the state of a key of another algorithm, {algorithm}")
            }
            KeyFolderFaultKind::Response(fault) => write!(f, "{path}:{fault}"),
            KeyFolderFaultKind::Pem(fault) => match fault.line() {
                Some(line) => write!(f, "{path}:{line}: {fault}"),
                None => write!(f, "{path}: {fault}"),
            },
            KeyFolderFaultKind::Key(bad) => write!(f, "{path}: {bad}"),
            KeyFolderFaultKind::Exists => write!(f, "{path}: the file is there already"),
        }
    }
}
impl std::error::Error for KeyFolderFault {}

fn fault(path: &Path, kind: KeyFolderFaultKind) -> KeyFolderFault {
    KeyFolderFault { path: path.into(), kind }
}

fn io_fault(path: &Path) -> impl FnOnce(io::Error) -> KeyFolderFault + use<'_> {
    move |error| fault(path, KeyFolderFaultKind::Io(error))
}

/// Reads a small file as text, whose memory is erased.
///
/// # Errors
/// The file cannot be read, is too long or is not text.
pub fn read_secret_text(path: &Path) -> Result<Zeroizing<String>, KeyFolderFault> {
    let file = regular::open(path).map_err(io_fault(path))?;
    // Memory that is erased must not be moved by growing.
    let mut bytes = Vec::with_capacity(MAX_KEY_FILE as usize + 2);
    let read = file.take(MAX_KEY_FILE + 1).read_to_end(&mut bytes);
    let bytes = Zeroizing::new(bytes);
    read.map_err(io_fault(path))?;
    if bytes.len() as u64 > MAX_KEY_FILE {
        return Err(fault(path, KeyFolderFaultKind::TooLong));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| fault(path, KeyFolderFaultKind::NotText))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Returns the path of a key's files without `.key` or `.private`.
fn stem(path: &Path) -> PathBuf {
    let text = path.as_os_str().as_encoded_bytes();
    let ends = [PRIVATE, PUBLIC, STATE].into_iter().find(|end| text.ends_with(end.as_bytes()));
    match (ends, path.file_name().and_then(|name| name.to_str())) {
        (Some(end), Some(name)) => path.with_file_name(&name[..name.len() - end.len()]),
        _ => path.into(),
    }
}

fn with_end(stem: &Path, end: &str) -> PathBuf {
    let mut path = OsString::from(stem);
    path.push(end);
    path.into()
}

/// Reads the key with files of this name: with `.key` or `.private` at its end, or without.
///
/// # Errors
/// The first fault of either file.
pub fn read_key(path: &Path) -> Result<ZoneKey, KeyFolderFault> {
    let stem = stem(path);
    let (public_path, private_path) = (with_end(&stem, PUBLIC), with_end(&stem, PRIVATE));
    let public = read_public_key(&public_path)?;
    let text = read_secret_text(&private_path)?;
    let private = PrivateText::parse(&text);
    let private = private.map_err(|text| fault(&private_path, KeyFolderFaultKind::Text(text)))?;
    let joined = ZoneKey::join(public, private.key, private.times);
    joined.map_err(|bad| fault(&private_path, KeyFolderFaultKind::Key(bad)))
}

/// Reads a private key alone, of which no `.key` file is needed: in the format of BIND, as `pdnsutil
/// export-zone-key` prints it, or PKCS#8 in PEM. An RSA key in PEM gets the algorithm `rsa`.
///
/// # Errors
/// The first fault of the file.
pub fn read_private_key(path: &Path, rsa: SigAlgorithm) -> Result<PrivateText, KeyFolderFault> {
    let text = read_secret_text(path)?;
    if pem::is_pem(&text) {
        let key = pem::parse(&text, rsa).map_err(|pem| fault(path, KeyFolderFaultKind::Pem(pem)))?;
        return Ok(PrivateText { key, times: KeyTimes::default() });
    }
    PrivateText::parse(&text).map_err(|text| fault(path, KeyFolderFaultKind::Text(text)))
}

/// Reads the `.key` file of this name, with `.key` or `.private` at its end, or without.
///
/// # Errors
/// The first fault of the file.
pub fn read_public_key(path: &Path) -> Result<PublicText, KeyFolderFault> {
    let path = with_end(&stem(path), PUBLIC);
    let text = read_secret_text(&path)?;
    PublicText::parse(&text).map_err(|text| fault(&path, KeyFolderFaultKind::Text(text)))
}

/// Returns the paths of all `.private` files in a folder whose names are those of keys, sorted.
///
/// # Errors
/// The folder cannot be read.
pub fn private_files(folder: &Path) -> Result<Vec<PathBuf>, KeyFolderFault> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_fault(folder))? {
        let entry = entry.map_err(io_fault(folder))?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(b"K") && name.ends_with(PRIVATE.as_bytes()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Reads all keys of a zone in a folder. Files of other zones are not opened.
///
/// # Errors
/// The folder cannot be read, or a key of the zone has a fault.
pub fn read_zone_keys(folder: &Path, zone: Name<'_>) -> Result<Vec<ZoneKey>, KeyFolderFault> {
    let prefix = key::file_prefix(zone);
    let is_of_zone = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    private_files(folder)?.iter().filter(|path| is_of_zone(path)).map(|path| read_key(path)).collect()
}

/// Reads the `.key` files of a zone in a folder that have no `.private` file beside them.
///
/// # Errors
/// The folder cannot be read, or a file of the zone has a fault.
pub fn read_public_only(folder: &Path, zone: Name<'_>) -> Result<Vec<PublicText>, KeyFolderFault> {
    let prefix = key::file_prefix(zone);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_fault(folder))? {
        let path = entry.map_err(io_fault(folder))?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_key = name.starts_with(prefix.as_bytes()) && name.ends_with(PUBLIC.as_bytes());
        if is_key && fs::symlink_metadata(with_end(&stem(&path), PRIVATE)).is_err() {
            found.push(path);
        }
    }
    found.sort();
    found.iter().map(|path| read_public_key(path)).collect()
}

/// Writes the `.key` file of a key whose private part is elsewhere, unless it is there.
///
/// # Errors
/// The file cannot be written.
pub fn write_public(folder: &Path, zone: Name<'_>, dnskey: &[u8], ttl: Ttl) -> Result<(), KeyFolderFault> {
    let Ok(key) = Dnskey::read(dnskey) else { return Ok(()) };
    let stem = folder.join(key::file_stem(zone, key.algorithm, dnssec::key::tag(&key)));
    let path = with_end(&stem, PUBLIC);
    if fs::symlink_metadata(&path).is_ok() {
        return Ok(());
    }
    write_new(&path, key::public_record(zone, dnskey, ttl).as_bytes(), 0o644)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_fault(folder))
}

/// Reads the file with the signed key responses of a zone; `None` if there is none.
///
/// # Errors
/// The file cannot be read or has a fault.
pub fn read_responses(folder: &Path, zone: Name<'_>) -> Result<Option<SignedKeyResponse>, KeyFolderFault> {
    let path = folder.join(key::file_name(zone) + RESPONSES);
    let text = match regular::read_to_string(&path, MAX_RESPONSES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(io_fault(&path))?,
    };
    let response = SignedKeyResponse::parse(&text, zone);
    response.map(Some).map_err(|bad| fault(&path, KeyFolderFaultKind::Response(bad)))
}

/// Writes the file with the signed key responses of a zone, in place of the one that is there. After an
/// error, one of the two is there, whole.
///
/// # Errors
/// The file cannot be written.
pub fn write_responses(
    folder: &Path,
    zone: Name<'_>,
    response: &SignedKeyResponse,
    now: UnixTime,
) -> Result<(), KeyFolderFault> {
    let path = folder.join(key::file_name(zone) + RESPONSES);
    replace(folder, &path, &response.write(zone, now))
}

/// Removes the file with the signed key responses of a zone, if there is one.
///
/// # Errors
/// The file cannot be removed.
pub fn remove_responses(folder: &Path, zone: Name<'_>) -> Result<(), KeyFolderFault> {
    remove(&folder.join(key::file_name(zone) + RESPONSES))
}

/// Returns the algorithms and tags of all keys of a zone in a folder, by the names of their files.
///
/// # Errors
/// The folder cannot be read.
pub fn read_zone_tags(folder: &Path, zone: Name<'_>) -> Result<Vec<(SigAlgorithm, u16)>, KeyFolderFault> {
    let prefix = key::file_prefix(zone);
    let tag_of = |path: &PathBuf| {
        let (algorithm, tag) = path.file_stem()?.to_str()?.strip_prefix(&prefix)?.split_once('+')?;
        Some((SigAlgorithm(algorithm.parse().ok()?), tag.parse().ok()?))
    };
    Ok(private_files(folder)?.iter().filter_map(tag_of).collect())
}

/// Writes the two files of a key to a folder. Returns their path without `.key` and `.private`.
///
/// # Errors
/// A file is there already, or cannot be written.
pub fn write_key(folder: &Path, key: &ZoneKey) -> Result<PathBuf, KeyFolderFault> {
    let stem = folder.join(key.file_stem());
    let (public_path, private_path) = (with_end(&stem, PUBLIC), with_end(&stem, PRIVATE));
    for path in [&public_path, &private_path] {
        if fs::symlink_metadata(path).is_ok() {
            return Err(fault(path, KeyFolderFaultKind::Exists));
        }
    }
    let private = key.private_text().map_err(|bad| fault(&private_path, KeyFolderFaultKind::Key(bad)))?;
    write_new(&private_path, private.as_bytes(), 0o600)?;
    write_new(&public_path, key.public_text().as_bytes(), 0o644)?;
    // The names are in the folder, which is synced, too.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_fault(folder))?;
    Ok(stem)
}

/// Reads the `.state` file of a key in a folder; `None` if there is none.
///
/// # Errors
/// The first fault of the file.
pub fn read_state(folder: &Path, key: &ZoneKey) -> Result<Option<StateText>, KeyFolderFault> {
    read_state_of(folder, key.zone(), key.algorithm(), key.tags()[0])
}

/// The same of a key with this algorithm, and this tag without the REVOKE bit.
///
/// # Errors
/// As of [`read_state`].
pub fn read_state_of(
    folder: &Path,
    zone: Name<'_>,
    algorithm: SigAlgorithm,
    tag: u16,
) -> Result<Option<StateText>, KeyFolderFault> {
    let path = with_end(&folder.join(key::file_stem(zone, algorithm, tag)), STATE);
    let text = match read_secret_text(&path) {
        Ok(text) => text,
        Err(KeyFolderFault { kind: KeyFolderFaultKind::Io(error), .. })
            if error.kind() == io::ErrorKind::NotFound =>
        {
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let state = StateText::parse(&text).map_err(|text| fault(&path, KeyFolderFaultKind::State(text)))?;
    match state.algorithm == algorithm {
        true => Ok(Some(state)),
        false => Err(fault(&path, KeyFolderFaultKind::OtherAlgorithm(state.algorithm))),
    }
}

/// Writes the `.state` file of a key to a folder, in place of the one that is there. After an error, one of
/// the two is there, whole.
///
/// # Errors
/// The file cannot be written.
pub fn write_state(folder: &Path, key: &ZoneKey, state: &StateText) -> Result<(), KeyFolderFault> {
    write_state_of(folder, key.zone(), key.tags()[0], state)
}

/// The same of a key with this tag without the REVOKE bit.
///
/// # Errors
/// As of [`write_state`].
pub fn write_state_of(
    folder: &Path,
    zone: Name<'_>,
    tag: u16,
    state: &StateText,
) -> Result<(), KeyFolderFault> {
    let path = with_end(&folder.join(key::file_stem(zone, state.algorithm, tag)), STATE);
    replace(folder, &path, &state.write(zone, tag))
}

/// Writes a file beside its place, syncs it and renames it.
fn replace(folder: &Path, path: &Path, text: &str) -> Result<(), KeyFolderFault> {
    let beside = with_end(path, ".new");
    // What a crash has left.
    let _ = fs::remove_file(&beside);
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create_new(true).mode(0o600).open(&beside).map_err(io_fault(&beside))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let named = written.and_then(|()| fs::rename(&beside, path));
    if named.is_err() {
        let _ = fs::remove_file(&beside);
    }
    named.map_err(io_fault(path))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_fault(folder))
}

/// Removes the files of a key from a folder: the private key first, so that a crash between two of them
/// leaves no key that seems to be new.
///
/// # Errors
/// A file is there and cannot be removed.
pub fn remove_key(folder: &Path, key: &ZoneKey) -> Result<(), KeyFolderFault> {
    remove_key_of(folder, key.zone(), key.algorithm(), key.tags()[0])
}

/// The same of a key with this algorithm, and this tag without the REVOKE bit.
///
/// # Errors
/// As of [`remove_key`].
pub fn remove_key_of(
    folder: &Path,
    zone: Name<'_>,
    algorithm: SigAlgorithm,
    tag: u16,
) -> Result<(), KeyFolderFault> {
    let stem = folder.join(key::file_stem(zone, algorithm, tag));
    for end in [PRIVATE, PUBLIC, STATE] {
        remove(&with_end(&stem, end))?;
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_fault(folder))
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), KeyFolderFault> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_fault(path)(error)),
        _ => Ok(()),
    }
}

/// Writes a new file beside its place, syncs it and gives it its name.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), KeyFolderFault> {
    let beside = with_end(path, ".new");
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(mode);
    let mut file = options.open(&beside).map_err(io_fault(&beside))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    // Unlike a rename, a link replaces no file that has appeared meanwhile.
    let named = written.and_then(|()| match fs::hard_link(&beside, path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // A file system without links.
        Err(_) => fs::rename(&beside, path),
    });
    // After a rename it is gone.
    let _ = fs::remove_file(&beside);
    named.map_err(io_fault(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use wire::NameBuf;

    use super::*;
    use crate::key::KeyRole;
    use crate::key::pair::PrivateKey;
    use crate::rollover::{KeyGoal, KeyPurpose, KeyState};

    fn key(zone: &str) -> ZoneKey {
        let zone: NameBuf = zone.parse().expect("a name");
        let private = PrivateKey::generate(SigAlgorithm::ED25519, 0).expect("a key");
        ZoneKey::new(zone.as_name(), KeyRole::KeySigning, private, KeyTimes::default())
    }

    #[test]
    fn files_are_private_new_and_of_their_zone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (key("example."), key("b.example."));
        let stem = write_key(folder.path(), &one).expect("written");
        write_key(folder.path(), &other).expect("written");
        let mode = |end| fs::metadata(with_end(&stem, end)).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode(PRIVATE), 0o600);
        assert!(mode(PUBLIC) & 0o200 != 0 && mode(PUBLIC) & 0o022 == 0);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 4, "nothing else is left there");
        for end in ["", PRIVATE, PUBLIC] {
            assert_eq!(read_key(&with_end(&stem, end)).expect("a key").dnskey(), one.dnskey());
        }
        let of = |zone: &str| {
            let zone: NameBuf = zone.parse().expect("a name");
            let keys = read_zone_keys(folder.path(), zone.as_name()).expect("keys");
            keys.iter().map(|key| key.zone().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("EXAMPLE."), ["example."]);
        assert_eq!(of("b.example."), ["b.example."]);
        assert_eq!(of("."), Vec::<String>::new());
        let again = write_key(folder.path(), &one).expect_err("a fault");
        assert!(matches!(again.kind, KeyFolderFaultKind::Exists), "{again}");
    }

    #[test]
    fn states_are_replaced_whole_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = key("example.");
        write_key(folder.path(), &key).expect("written");
        assert!(read_state(folder.path(), &key).expect("no fault").is_none());
        let mut text = StateText {
            algorithm: key.algorithm(),
            state: KeyState::new(KeyPurpose::Csk, key.bits()),
            unknown: vec!["Colour: blue".into()],
        };
        let path = folder.path().join(key.file_stem() + STATE);
        // A crash may have left a file.
        fs::write(folder.path().join(key.file_stem() + ".state.new"), "x").expect("written");
        for goal in [KeyGoal::Omnipresent, KeyGoal::Hidden] {
            text.state.goal = goal;
            write_state(folder.path(), &key, &text).expect("written");
            assert_eq!(read_state(folder.path(), &key).expect("no fault").as_ref(), Some(&text));
            assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3, "nothing else is left there");
        let shown = || read_state(folder.path(), &key).expect_err("a fault").to_string();
        let good = fs::read_to_string(&path).expect("text");
        fs::write(&path, good.replace("Length: ", "Length: x")).expect("written");
        let place = path.display();
        assert_eq!(shown(), format!("{place}:3: the value of `Length` is not a number, or too great"));
        fs::write(&path, good.replace("Algorithm: 15", "Algorithm: 13")).expect("written");
        assert_eq!(shown(), format!("{place}: the state of a key of another algorithm, ECDSAP256SHA256"));
        remove_key(folder.path(), &key).expect("removed");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        remove_key(folder.path(), &key).expect("nothing to remove");
    }

    #[test]
    fn faults_name_the_file_and_the_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let stem = write_key(folder.path(), &key("example.")).expect("written");
        let private = with_end(&stem, PRIVATE);
        let shown = || read_key(&stem).expect_err("a fault").to_string();
        let good = fs::read_to_string(&private).expect("text");
        fs::write(&private, good.replace("PrivateKey", "Privat")).expect("written");
        assert_eq!(shown(), format!("{}:3: unknown field `Privat`", private.display()));
        fs::write(&private, vec![b'x'; MAX_KEY_FILE as usize + 1]).expect("written");
        assert!(shown().ends_with(".private: not a key, it has more than 65536 bytes"));
        fs::write(&private, [0xff]).expect("written");
        assert!(shown().ends_with(".private: not a key, it is not UTF-8 text"));
        fs::remove_file(&private).expect("removed");
        assert!(shown().ends_with(".private: there is no such file"));
    }
}
