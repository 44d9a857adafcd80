//! What the API of PowerDNS stores about a zone and nomen does not serve: comments, disabled records,
//! metadata, the account. One JSON file for each zone that has any, in the folder `api` of the state folder.
//!
//! A file is replaced as a whole and synced before the request is answered. Files are read once, at the first
//! request, and then held in memory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::warn;
use wire::rdata::{is_same, parse_text};
use wire::text::{Token, tokens};
use wire::{Name, NameBuf, Ttl, Type, ViewName, ZoneName};
use zone::regular;
use zone_manager::zones::documents::ZoneDocumentStore;

/// Folder of the documents in the state folder.
const FOLDER: &str = "api";
/// Number of locks for the requests that change documents; zones share them.
const TURNS: usize = 64;
/// Largest file of one zone, in bytes.
pub(crate) const MAX_DOCUMENT: usize = 16 << 20;

/// A comment of an RRset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RrsetComment {
    /// Its text.
    pub(crate) content: String,
    /// The account that made it.
    pub(crate) account: String,
    /// When it was changed, in seconds since 1970.
    pub(crate) modified_at: u64,
}

/// The stored document of one zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZoneDocument {
    /// The zone, as `ZONE.` or `ZONE.@VIEW`.
    zone: String,
    /// The account that the zone belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) account: String,
    /// The kind that a client has set, "Native" or "Master".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// Metadata by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, Vec<String>>,
    /// Comments and disabled records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rrsets: Vec<RrsetDocument>,
}

/// The comments and disabled records of one RRset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RrsetDocument {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    /// The TTL of the disabled records, in seconds.
    #[serde(default)]
    pub(crate) ttl: u32,
    /// The contents of the disabled records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) disabled: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) comments: Vec<RrsetComment>,
}

impl RrsetDocument {
    fn is_of(&self, owner: Name<'_>, rtype: Type) -> bool {
        self.rtype() == Some(rtype) && self.owner().is_some_and(|name| name.as_name() == owner)
    }

    /// Returns the owner name; `None` if the file was damaged.
    pub(crate) fn owner(&self) -> Option<NameBuf> {
        NameBuf::from_text(self.name.as_bytes(), None).ok()
    }

    /// Returns the type; `None` if the file was damaged.
    pub(crate) fn rtype(&self) -> Option<Type> {
        Type::from_text(self.rtype.as_bytes()).ok()
    }

    fn is_empty(&self) -> bool {
        self.disabled.is_empty() && self.comments.is_empty()
    }

    /// Returns the RDATA of the disabled records.
    pub(crate) fn disabled_rdata(&self) -> Vec<Vec<u8>> {
        let Some(rtype) = self.rtype() else { return Vec::new() };
        self.disabled.iter().filter_map(|content| rdata(rtype, content)).collect()
    }

    /// Sets the disabled records and their TTL.
    pub(crate) fn set_disabled(&mut self, ttl: Ttl, contents: Vec<String>) {
        self.ttl = if contents.is_empty() { 0 } else { ttl.as_secs() };
        self.disabled = contents;
    }

    /// Removes one disabled record.
    pub(crate) fn enable(&mut self, enabled: &[u8]) {
        let Some(rtype) = self.rtype() else { return };
        self.disabled
            .retain(|content| rdata(rtype, content).is_some_and(|old| !is_same(rtype, &old, enabled)));
    }
}

/// Returns the RDATA of a stored content.
fn rdata(rtype: Type, content: &str) -> Option<Vec<u8>> {
    let (all, mut out) = (tokens(content).collect::<Vec<Token<'_>>>(), Vec::new());
    parse_text(rtype, &all, None, &mut out).ok()?;
    Some(out)
}

impl ZoneDocument {
    /// Returns the document of a zone of which nothing is stored.
    pub(crate) fn of(apex: &ZoneName) -> ZoneDocument {
        ZoneDocument { zone: apex.to_string(), ..ZoneDocument::default() }
    }

    /// Whether there is nothing to store.
    fn is_empty(&self) -> bool {
        self.account.is_empty() && self.kind.is_none() && self.metadata.is_empty() && self.rrsets.is_empty()
    }

    /// Returns the RRsets with comments or disabled records.
    pub(crate) fn rrsets(&self) -> &[RrsetDocument] {
        &self.rrsets
    }

    /// Returns what is stored about an RRset.
    pub(crate) fn rrset(&self, owner: Name<'_>, rtype: Type) -> Option<&RrsetDocument> {
        self.rrsets.iter().find(|set| set.is_of(owner, rtype))
    }

    /// Changes what is stored about an RRset.
    pub(crate) fn change(&mut self, owner: Name<'_>, rtype: Type, change: impl FnOnce(&mut RrsetDocument)) {
        let at = self.rrsets.iter().position(|set| set.is_of(owner, rtype));
        let at = at.unwrap_or_else(|| {
            let (name, rtype) = (owner.to_string(), rtype.to_string());
            self.rrsets.push(RrsetDocument { name, rtype, ..RrsetDocument::default() });
            self.rrsets.len() - 1
        });
        change(&mut self.rrsets[at]);
        self.rrsets.retain(|set| !set.is_empty());
    }
}

/// Why a document is not stored.
#[derive(Debug)]
pub(crate) enum DocumentFault {
    /// There is no state folder.
    NoFolder,
    /// It would have more than [`MAX_DOCUMENT`] bytes.
    TooLarge,
    /// It cannot be written.
    Disk(io::Error),
}

impl std::fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoFolder => f.write_str(
                "comments, disabled records and metadata need a state folder: set `state-dir` in [server]",
            ),
            Self::TooLarge => {
                write!(
                    f,
                    "comments, disabled records and metadata of a zone have at most {MAX_DOCUMENT} bytes"
                )
            }
            Self::Disk(error) => write!(f, "the zone's comments and metadata cannot be stored: {error}"),
        }
    }
}

impl std::error::Error for DocumentFault {}

/// The documents of all zones.
#[derive(Debug)]
pub struct ZoneDocuments {
    /// `None`: there is no state folder.
    folder: Option<PathBuf>,
    /// `None`: not read yet.
    zones: Mutex<Option<HashMap<ZoneName, Arc<ZoneDocument>>>>,
    /// Held while a file is written. The lock of `zones` is taken under it, and never over a write.
    writing: Mutex<()>,
    /// Requests that change documents, one at a time for each zone.
    turns: [tokio::sync::Mutex<()>; TURNS],
}

impl ZoneDocuments {
    /// Returns the documents in a state folder, which are read later.
    pub fn new(state: Option<&Path>) -> ZoneDocuments {
        ZoneDocuments {
            folder: state.map(|state| absolute(state).join(FOLDER)),
            zones: Mutex::default(),
            writing: Mutex::default(),
            turns: std::array::from_fn(|_| tokio::sync::Mutex::default()),
        }
    }

    /// Waits until no other request changes the document of a zone.
    pub(crate) async fn turn(&self, apex: &ZoneName) -> tokio::sync::MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        apex.hash(&mut hasher);
        let place = (hasher.finish() % TURNS as u64) as usize;
        self.turns[place].lock().await
    }

    /// Returns the document of a zone; an empty one if nothing is stored.
    pub(crate) fn get(&self, apex: &ZoneName) -> Arc<ZoneDocument> {
        self.with(|zones| zones.get(apex).cloned()).unwrap_or_else(|| Arc::new(ZoneDocument::of(apex)))
    }

    /// Returns all documents.
    pub(crate) fn all(&self) -> HashMap<ZoneName, Arc<ZoneDocument>> {
        self.with(|zones| zones.clone())
    }

    /// Checks that a document can be stored, before what it belongs to is changed.
    ///
    /// # Errors
    /// [`DocumentFault`].
    pub(crate) fn check(&self, document: &ZoneDocument) -> Result<(), DocumentFault> {
        if document.is_empty() { Ok(()) } else { self.file(document).map(drop) }
    }

    /// Returns the folder of a document's file, and its contents.
    fn file(&self, document: &ZoneDocument) -> Result<(&Path, Vec<u8>), DocumentFault> {
        let folder = self.folder.as_deref().ok_or(DocumentFault::NoFolder)?;
        let bytes = serde_json::to_vec(document).map_err(|error| DocumentFault::Disk(error.into()))?;
        if bytes.len() > MAX_DOCUMENT { Err(DocumentFault::TooLarge) } else { Ok((folder, bytes)) }
    }

    /// Stores the document of a zone. It is on the disk on return.
    ///
    /// # Errors
    /// [`DocumentFault`]; then the document is the one before, unless syncing the folder failed.
    pub(crate) fn put(&self, apex: &ZoneName, document: ZoneDocument) -> Result<(), DocumentFault> {
        if document.is_empty() {
            return self.remove(apex).map_err(DocumentFault::Disk);
        }
        let (folder, bytes) = self.file(&document)?;
        let _writing = self.writing();
        write(folder, &file_name(apex), &bytes).map_err(DocumentFault::Disk)?;
        self.with(|zones| zones.insert(apex.clone(), Arc::new(document)));
        Ok(())
    }

    /// Changes the document of a zone and stores it. The caller has the zone's [`turn`](Self::turn).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn change(
        &self,
        apex: &ZoneName,
        change: impl FnOnce(&mut ZoneDocument),
    ) -> Result<(), DocumentFault> {
        let mut document = ZoneDocument::clone(&self.get(apex));
        change(&mut document);
        self.put(apex, document)
    }

    fn remove(&self, apex: &ZoneName) -> io::Result<()> {
        let Some(folder) = self.folder.as_deref() else { return Ok(()) };
        let _writing = self.writing();
        let removed = match fs::remove_file(folder.join(file_name(apex))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => return Err(error),
            Ok(()) => sync_folder(folder),
        };
        // After the file, so that a reader of the folder in between does not bring the document back. Files
        // that were not read yet are not read for this.
        let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        zones.iter_mut().for_each(|zones| drop(zones.remove(apex)));
        removed
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function with the documents, which are read before if they were not.
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<ZoneName, Arc<ZoneDocument>>) -> T) -> T {
        let mut zones: MutexGuard<'_, _> = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        act(zones.get_or_insert_with(|| self.folder.as_deref().map(read_all).unwrap_or_default()))
    }
}

impl ZoneDocumentStore for ZoneDocuments {
    fn forget(&self, apex: &ZoneName) -> io::Result<()> {
        self.remove(apex)
    }
}

/// Returns a path that does not depend on the working folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Writes a file in the folder and syncs it, and the folder if it is made for it.
fn write(folder: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        folder.parent().map_or(Ok(()), sync_folder)?;
    }
    regular::replace(&folder.join(file), bytes)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// Reads all documents in a folder. A file that cannot be used is reported and left as it is.
fn read_all(folder: &Path) -> HashMap<ZoneName, Arc<ZoneDocument>> {
    let mut zones = HashMap::new();
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in entries(folder).filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        match read_one(&path) {
            Ok((apex, document)) => drop(zones.insert(apex, Arc::new(document))),
            Err(why) => warn!(
                file = %path.display(),
                "the comments and metadata in this file are not used: {why}"
            ),
        }
    }
    zones
}

fn read_one(path: &Path) -> Result<(ZoneName, ZoneDocument), String> {
    let bytes = regular::read(path, MAX_DOCUMENT as u64).map_err(|error| error.to_string())?;
    let document: ZoneDocument = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let (name, view) = ViewName::split(&document.zone).map_err(|fault| fault.to_string())?;
    let name = NameBuf::from_text(name.as_bytes(), None).map_err(|fault| fault.to_string())?;
    let apex = ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref());
    Ok((apex, document))
}

/// Returns the path of a zone's file in the folder.
fn file_name(apex: &ZoneName) -> PathBuf {
    let mut path = OsString::from(journal::zone_file_name(apex.as_lower()));
    if let Some(view) = apex.view() {
        path.push("@");
        path.push(view);
    }
    path.push(".json");
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apex(text: &str) -> ZoneName {
        let (name, view) = ViewName::split(text).expect("a view");
        let name = NameBuf::from_text(name.as_bytes(), None).expect("a name");
        ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref())
    }

    fn with_account(apex: &ZoneName, account: &str) -> ZoneDocument {
        ZoneDocument { account: account.to_owned(), ..ZoneDocument::of(apex) }
    }

    #[test]
    fn documents_are_there_after_a_restart() {
        let state = tempfile::tempdir().expect("a folder");
        let documents = ZoneDocuments::new(Some(state.path()));
        let zones = ["example.", ".", "example.@inside", r"odd\.name.example."].map(apex);
        for zone in &zones {
            documents.put(zone, with_account(zone, &zone.to_string())).expect("stored");
        }
        let again = ZoneDocuments::new(Some(state.path()));
        assert_eq!(again.all().len(), zones.len());
        for zone in &zones {
            assert_eq!(again.get(zone).account, zone.to_string());
        }
    }

    #[test]
    fn a_removed_document_is_gone_from_the_disk() {
        let state = tempfile::tempdir().expect("a folder");
        let zone = apex("example.");
        let documents = ZoneDocuments::new(Some(state.path()));
        documents.put(&zone, with_account(&zone, "a")).expect("stored");
        documents.forget(&zone).expect("removed");
        assert_eq!(*documents.get(&zone), ZoneDocument::of(&zone));
        assert!(ZoneDocuments::new(Some(state.path())).all().is_empty());
        // An empty document is no file.
        documents.put(&zone, with_account(&zone, "a")).expect("stored");
        documents.put(&zone, ZoneDocument::of(&zone)).expect("removed");
        assert!(ZoneDocuments::new(Some(state.path())).all().is_empty());
    }

    #[test]
    fn a_document_that_was_not_read_is_removed() {
        let state = tempfile::tempdir().expect("a folder");
        let [zone, other] = ["example.", "other."].map(apex);
        let documents = ZoneDocuments::new(Some(state.path()));
        for one in [&zone, &other] {
            documents.put(one, with_account(one, "a")).expect("stored");
        }
        let again = ZoneDocuments::new(Some(state.path()));
        again.forget(&zone).expect("removed");
        again.forget(&zone).expect("it is gone");
        assert_eq!(again.all().into_keys().collect::<Vec<_>>(), [other]);
        // A zone whose file cannot be removed keeps its document.
        fs::create_dir_all(state.path().join(FOLDER).join(file_name(&zone)).join("x")).expect("a folder");
        assert!(again.forget(&zone).is_err());
    }

    #[test]
    fn a_large_document_is_refused_and_the_old_one_stays() {
        let state = tempfile::tempdir().expect("a folder");
        let zone = apex("example.");
        let documents = ZoneDocuments::new(Some(state.path()));
        documents.put(&zone, with_account(&zone, "a")).expect("stored");
        let large = with_account(&zone, &"x".repeat(MAX_DOCUMENT));
        assert!(matches!(documents.check(&large), Err(DocumentFault::TooLarge)));
        assert!(matches!(documents.put(&zone, large), Err(DocumentFault::TooLarge)));
        assert_eq!(documents.get(&zone).account, "a");
    }

    #[test]
    fn without_a_state_folder_only_empty_documents_are_taken() {
        let zone = apex("example.");
        let documents = ZoneDocuments::new(None);
        assert!(documents.put(&zone, ZoneDocument::of(&zone)).is_ok());
        assert!(matches!(documents.put(&zone, with_account(&zone, "a")), Err(DocumentFault::NoFolder)));
    }

    #[test]
    fn damaged_files_leave_the_others_in_use() {
        let state = tempfile::tempdir().expect("a folder");
        let documents = ZoneDocuments::new(Some(state.path()));
        let (good, bad) = (apex("good."), apex("bad."));
        for zone in [&good, &bad] {
            documents.put(zone, with_account(zone, "a")).expect("stored");
        }
        fs::write(state.path().join(FOLDER).join(file_name(&bad)), b"{\"zone\":").expect("written");
        let again = ZoneDocuments::new(Some(state.path()));
        assert_eq!(again.all().into_keys().collect::<Vec<_>>(), [good]);
    }

    #[test]
    fn rrsets_without_comments_and_disabled_records_are_not_stored() {
        let mut document = ZoneDocument::of(&apex("example."));
        let owner: NameBuf = "www.example.".parse().expect("a name");
        document.change(owner.as_name(), Type::A, |set| {
            set.set_disabled(Ttl::from_secs(5), vec!["192.0.2.1".into(), "192.0.2.2".into()]);
        });
        assert_eq!(document.rrset(owner.as_name(), Type::A).expect("an RRset").disabled.len(), 2);
        document.change(owner.as_name(), Type::A, |set| set.enable(&[192, 0, 2, 1]));
        assert_eq!(document.rrsets()[0].disabled, ["192.0.2.2"]);
        document.change(owner.as_name(), Type::A, |set| set.enable(&[192, 0, 2, 2]));
        assert!(document.rrsets().is_empty());
    }
}
