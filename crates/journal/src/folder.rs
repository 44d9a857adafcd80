//! [`StoreFolder`]: the folder that holds the stores of all zones.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use wire::{LowerNameBuf, Name, Serial};
use zone::Zone;

use crate::disk::{Disk, DiskFile};
use crate::fault::{StoreFault, damaged, failed};
use crate::frame::read_all;
use crate::header::{Confirmed, HEADER, Header, StoreHead};
use crate::marks::{Mark, Marks, Noted};
use crate::names::{Paths, STORE, apex_of, shard};
use crate::shared::{OpenZone, Shared};
use crate::store::{Contents, ZoneStore};
use crate::stored::StoreContents;

/// Name of the lock file.
const LOCK: &str = "lock";

/// A folder of stores, one for each zone. One process uses it at a time. A clone refers to the same folder,
/// which stays locked until the last clone and the last of its stores are dropped.
#[derive(Clone)]
pub struct StoreFolder(Arc<Shared>);

fn read_head(file: &dyn DiskFile, path: &Path) -> Result<StoreHead, StoreFault> {
    let len = file.len().map_err(failed("measure", path))?;
    let mut bytes = [0; HEADER as usize];
    if len < HEADER {
        let what = if len == 0 { "the file is empty" } else { "the file has been cut short" };
        return Err(damaged(path, len, what));
    }
    read_all(file, path, &mut bytes, 0)?;
    let (header, apex) = Header::read(&bytes, path)?;
    Ok(StoreHead { header, apex, confirmed: Confirmed::of_header(&bytes, header.nonce), len })
}

/// An open store file and its head.
type OpenFile = (Arc<dyn DiskFile>, StoreHead);

fn missing(path: PathBuf, mark: Option<Mark>) -> StoreFault {
    StoreFault::Missing { path, acknowledged: mark.map(|mark| mark.serial) }
}

impl StoreFolder {
    /// Opens and locks the folder, creating it if it does not exist. The parent folder must exist.
    ///
    /// # Errors
    /// [`StoreFault::Locked`] if another process holds the lock, and [`StoreFault::Io`].
    pub fn open(disk: Arc<dyn Disk>, root: &Path) -> Result<StoreFolder, StoreFault> {
        StoreFolder::open_with(disk, root, None)
    }

    /// Opens the folder like [`open`](Self::open), with a file beside it that records how far each zone was
    /// acknowledged. A store that is missing or holds less than that is then detected.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_marked(disk: Arc<dyn Disk>, root: &Path, marks: &Path) -> Result<StoreFolder, StoreFault> {
        StoreFolder::open_with(disk, root, Some(marks))
    }

    fn open_with(disk: Arc<dyn Disk>, root: &Path, marks: Option<&Path>) -> Result<StoreFolder, StoreFault> {
        disk.make_folder(root).map_err(failed("make the folder", root))?;
        if let Some(parent) = root.parent() {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            disk.sync_folder(parent).map_err(failed("sync the folder", parent))?;
        }
        let path = root.join(LOCK);
        let lock = disk.lock(&path).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => StoreFault::Locked(root.to_owned()),
            _ => failed("lock", &path)(error),
        })?;
        let marks = marks.map(|path| Marks::open(&*disk, path)).transpose()?;
        let open = Mutex::new(HashSet::new());
        let shared = Shared { disk, root: root.to_owned(), open, marks, _lock: lock };
        let folder = StoreFolder(Arc::new(shared));
        // The previous process may have ended after it renamed a file and before it synced the folder.
        for shard in folder.shards()? {
            folder.0.disk.sync_folder(&shard).map_err(failed("sync the folder", &shard))?;
        }
        folder.0.disk.sync_folder(root).map_err(failed("sync the folder", root))?;
        Ok(folder)
    }

    /// Opens the store of a zone and returns what it holds, if anything. The base is not read yet.
    ///
    /// # Errors
    /// [`StoreFault::AlreadyOpen`] while another [`ZoneStore`] of the zone exists,
    /// [`StoreFault::OtherFormat`], [`StoreFault::OtherZone`], [`StoreFault::Damaged`],
    /// [`StoreFault::Missing`], [`StoreFault::Older`], [`StoreFault::MarkLost`] and [`StoreFault::Io`].
    /// Nothing of the file is used then. [`set_aside`](Self::set_aside) renames the file, and
    /// [`start_over`](Self::start_over) replaces it.
    pub fn zone(&self, apex: Name<'_>) -> Result<(ZoneStore, Option<StoreContents>), StoreFault> {
        let open = OpenZone::new(&self.0, apex.to_lower().as_lower())?;
        let paths = open.paths();
        self.0.remove_unfinished(&paths);
        let noted = self.0.noted(open.apex());
        let Some((file, head)) = self.open_file(&open, &paths)? else {
            return match noted {
                Noted::Nothing | Noted::Reserved => Ok((ZoneStore::new(open, None), None)),
                Noted::Torn | Noted::Mark(_) => Err(missing(paths.store, noted.mark())),
            };
        };
        let was_marked = head.header.marked;
        let mut stored = StoreContents::find(file, paths.store.clone().into(), head, noted.mark())?;
        // The slot was on the disk before the file was renamed, so no crash leaves a marked file without a
        // slot.
        if let (Some(marks), true, Noted::Nothing) = (&self.0.marks, was_marked, noted) {
            let (found, marks) = (stored.serial(), marks.path().to_owned());
            return Err(StoreFault::MarkLost { path: paths.store, found, marks });
        }
        stored.mark_torn = noted == Noted::Torn;
        self.0.mark(open.apex(), stored.mark());
        let contents = Contents::of_stored(&stored);
        Ok((ZoneStore::new(open, Some(contents)), Some(stored)))
    }

    /// Opens the file of a zone, if it exists, and reads its head.
    fn open_file(&self, open: &OpenZone, paths: &Paths) -> Result<Option<OpenFile>, StoreFault> {
        let file = match self.0.disk.open(&paths.store) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", &paths.store)(error)),
        };
        let head = read_head(&*file, &paths.store)?;
        if head.apex.as_lower() != open.apex() {
            let apex = Box::new(head.apex.as_name().to_buf());
            return Err(StoreFault::OtherZone(paths.store.clone(), apex));
        }
        Ok(Some((file.into(), head)))
    }

    /// Returns what is readable of a zone up to the first incomplete change, even if later changes were
    /// acknowledged.
    ///
    /// # Errors
    /// As for [`zone`](Self::zone), except for [`StoreFault::Older`], [`StoreFault::MarkLost`] and damage
    /// after the base.
    pub fn salvage(&self, apex: Name<'_>) -> Result<StoreContents, StoreFault> {
        let open = OpenZone::new(&self.0, apex.to_lower().as_lower())?;
        let paths = open.paths();
        match self.open_file(&open, &paths)? {
            Some((file, head)) => StoreContents::salvage(file, paths.store.into(), head),
            None => Err(missing(paths.store, self.0.noted(open.apex()).mark())),
        }
    }

    /// Replaces whatever is stored of a zone. An existing file is renamed, and its new name returned. What
    /// was acknowledged before is no longer required.
    ///
    /// # Errors
    /// [`StoreFault::AlreadyOpen`] and [`StoreFault::Io`]. An existing file then keeps its name or gets it
    /// back, if the rename back succeeds.
    pub fn start_over(&self, zone: &Zone) -> Result<Option<PathBuf>, StoreFault> {
        let open = OpenZone::new(&self.0, zone.apex())?;
        let paths = open.paths();
        let mut store = ZoneStore::new(open, None);
        let mut replacement = store.begin_replacement()?;
        replacement.write(zone)?;
        let aside = self.0.put_aside(&paths)?;
        let finished = store.finish(replacement);
        if let (Err(_), Some(aside)) = (&finished, &aside) {
            // The state of the new file is unknown. The mark still shows what either file lacks.
            let _ = self.0.disk.rename(aside, &paths.store);
        }
        finished.map(|()| aside)
    }

    /// Drops a zone's mark and renames its file, if it exists; returns the file's new name.
    ///
    /// # Errors
    /// [`StoreFault::AlreadyOpen`] and [`StoreFault::Io`].
    pub fn forget(&self, apex: Name<'_>) -> Result<Option<PathBuf>, StoreFault> {
        let open = OpenZone::new(&self.0, apex.to_lower().as_lower())?;
        let aside = self.0.put_aside(&open.paths())?;
        self.0.marks.as_ref().map_or(Ok(()), |marks| marks.clear(open.apex()))?;
        Ok(aside)
    }

    /// The version of a zone that was acknowledged last, according to its mark.
    pub fn acknowledged(&self, apex: Name<'_>) -> Option<Serial> {
        self.0.noted(apex.to_lower().as_lower()).mark().map(|mark| mark.serial)
    }

    /// The path of the folder.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// The path of a zone's file.
    pub fn path(&self, apex: Name<'_>) -> PathBuf {
        self.0.paths(apex.to_lower().as_lower()).store
    }

    /// The zones that have a file or a mark, and the files whose zone cannot be determined. A zone counts
    /// even if its file cannot be read.
    ///
    /// # Errors
    /// [`StoreFault::Io`] if a folder cannot be read.
    pub fn held(&self) -> Result<(HashSet<LowerNameBuf>, Vec<PathBuf>), StoreFault> {
        let mut zones: HashSet<LowerNameBuf> = self.0.marks.iter().flat_map(|marks| marks.zones()).collect();
        let mut unknown = Vec::new();
        for shard in self.shards()? {
            for name in self.0.disk.list(&shard).map_err(failed("list", &shard))? {
                let name = name.to_string_lossy();
                if !name.ends_with(STORE) {
                    continue;
                }
                let path = shard.join(&*name);
                let written = || {
                    let file = self.0.disk.open(&path).ok()?;
                    read_head(&*file, &path).ok().map(|head| head.apex)
                };
                match apex_of(&name).or_else(written) {
                    Some(apex) => drop(zones.insert(apex)),
                    None => unknown.push(path),
                }
            }
        }
        Ok((zones, unknown))
    }

    /// Number of damaged entries in the marks file.
    pub fn damaged_marks(&self) -> u64 {
        self.0.marks.as_ref().map_or(0, Marks::damaged)
    }

    /// Whether marks were written that [`sync_marks`](Self::sync_marks) has not synced.
    pub fn has_unsynced_marks(&self) -> bool {
        self.0.marks.as_ref().is_some_and(Marks::is_dirty)
    }

    /// Returns once all marks are on the disk. Until then a crash of the system may leave older marks, with
    /// which damage to the newest changes may go undetected. The changes themselves do not depend on the
    /// marks.
    ///
    /// # Errors
    /// [`StoreFault::Io`], also for a mark that could not be written earlier.
    pub fn sync_marks(&self) -> Result<(), StoreFault> {
        let Some(marks) = &self.0.marks else { return Ok(()) };
        marks.sync()?;
        marks.fault().map_or(Ok(()), Err)
    }

    /// Renames the file of a zone, so that the zone can be stored again, and returns the new name. Overwrites
    /// a file that was set aside before.
    ///
    /// # Errors
    /// [`StoreFault::AlreadyOpen`] while a [`ZoneStore`] of the zone exists, and [`StoreFault::Io`].
    pub fn set_aside(&self, apex: Name<'_>) -> Result<PathBuf, StoreFault> {
        let open = OpenZone::new(&self.0, apex.to_lower().as_lower())?;
        let paths = open.paths();
        let disk = &self.0.disk;
        disk.rename(&paths.store, &paths.aside).map_err(failed("rename", &paths.store))?;
        disk.sync_folder(&paths.shard).map_err(failed("sync the folder", &paths.shard))?;
        Ok(paths.aside)
    }

    /// The stored zones, in any order: for each file the zone's name, or why the file cannot be read. Reads
    /// the head of every file.
    ///
    /// # Errors
    /// [`StoreFault::Io`] if a folder cannot be read.
    pub fn zones(&self) -> Result<Vec<Result<LowerNameBuf, StoreFault>>, StoreFault> {
        let mut zones = Vec::new();
        for shard in self.shards()? {
            for name in self.0.disk.list(&shard).map_err(failed("list", &shard))? {
                if name.to_string_lossy().ends_with(STORE) {
                    let path = shard.join(name);
                    let file = self.0.disk.open(&path).map_err(failed("open", &path));
                    zones.push(file.and_then(|file| Ok(read_head(&*file, &path)?.apex)));
                }
            }
        }
        Ok(zones)
    }

    /// The existing shard folders.
    fn shards(&self) -> Result<Vec<PathBuf>, StoreFault> {
        let root = &self.0.root;
        let there = self.0.disk.list(root).map_err(failed("list", root))?;
        let shards = (0..=u8::MAX).map(shard);
        Ok(shards.filter(|shard| there.iter().any(|name| *name == **shard)).map(|s| root.join(s)).collect())
    }
}

impl std::fmt::Debug for StoreFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreFolder({})", self.0.root.display())
    }
}
