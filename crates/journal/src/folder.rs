//! [`ZoneFolder`]: the folder in which the stores of all zones are.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::{LowerName, LowerNameBuf, Name};

use crate::disk::{Disk, DiskFile};
use crate::fault::{StoreFault, failed};
use crate::frame::read_all;
use crate::header::{Confirmed, Front, HEADER, Header};
use crate::names::{Paths, STORE, shard};
use crate::store::{Contents, ZoneStore};
use crate::stored::Stored;

/// The file that is locked.
const LOCK: &str = "lock";

/// A folder of stores, one for each zone. One process has it at a time. A clone is the same folder, which stays locked until
/// the last clone and the last of its stores are dropped.
#[derive(Clone)]
pub struct ZoneFolder(Arc<Shared>);

/// What the stores of a folder share.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    /// The zones whose stores are open, by name.
    open: Mutex<HashSet<Box<[u8]>>>,
    _lock: Box<dyn Send + Sync>,
}

impl Shared {
    pub(crate) fn paths(&self, apex: LowerName<'_>) -> Paths {
        Paths::new(&self.root, apex)
    }

    fn open_zones(&self) -> MutexGuard<'_, HashSet<Box<[u8]>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes what a replacement has left unfinished. What stays is in nobody's way.
    pub(crate) fn remove_unfinished(&self, paths: &Paths) {
        let _ = self.disk.remove(&paths.unfinished);
    }
}

/// That the store of a zone is open.
pub(crate) struct OpenZone {
    pub(crate) shared: Arc<Shared>,
    apex: Box<[u8]>,
}

impl OpenZone {
    fn new(shared: &Arc<Shared>, apex: LowerName<'_>) -> Result<OpenZone, StoreFault> {
        match shared.open_zones().insert(apex.as_wire().into()) {
            true => Ok(OpenZone { shared: Arc::clone(shared), apex: apex.as_wire().into() }),
            false => Err(StoreFault::AlreadyOpen(Box::new(apex.as_name().to_buf()))),
        }
    }

    pub(crate) fn apex(&self) -> LowerName<'_> {
        LowerName::of_checked(&self.apex)
    }

    pub(crate) fn paths(&self) -> Paths {
        self.shared.paths(self.apex())
    }
}

impl Drop for OpenZone {
    fn drop(&mut self) {
        self.shared.open_zones().remove(&self.apex);
    }
}

fn read_front(file: &dyn DiskFile, path: &Path) -> Result<Front, StoreFault> {
    let len = file.len().map_err(failed("measure", path))?;
    let mut bytes = [0; HEADER as usize];
    if len < HEADER {
        return Err(StoreFault::OtherFormat(path.to_owned()));
    }
    read_all(file, path, &mut bytes, 0)?;
    let (header, apex) = Header::read(&bytes, len, path)?;
    Ok(Front { header, apex, confirmed: Confirmed::of_header(&bytes, header.nonce), len })
}

impl ZoneFolder {
    /// Takes the folder, making it if need be; the folder around it has to be there.
    ///
    /// # Errors
    /// [`StoreFault::Locked`] if another process has it, and [`StoreFault::Io`].
    pub fn open(disk: Arc<dyn Disk>, root: &Path) -> Result<ZoneFolder, StoreFault> {
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
        let shared = Shared { disk, root: root.to_owned(), open: Mutex::new(HashSet::new()), _lock: lock };
        let folder = ZoneFolder(Arc::new(shared));
        // A process before this one may have ended when a file had its name, but not yet on the disk.
        for shard in folder.shards()? {
            folder.0.disk.sync_folder(&shard).map_err(failed("sync the folder", &shard))?;
        }
        folder.0.disk.sync_folder(root).map_err(failed("sync the folder", root))?;
        Ok(folder)
    }

    /// Opens the store of a zone, and returns what it holds, if it holds anything. The base is not read yet.
    ///
    /// # Errors
    /// [`StoreFault::AlreadyOpen`] while another [`ZoneStore`] of the zone is there, [`StoreFault::OtherFormat`],
    /// [`StoreFault::OtherZone`], [`StoreFault::Damaged`] and [`StoreFault::Io`]. Nothing of the file is used then;
    /// [`set_aside`](Self::set_aside) makes room for another.
    pub fn zone(&self, apex: Name<'_>) -> Result<(ZoneStore, Option<Stored>), StoreFault> {
        let open = OpenZone::new(&self.0, apex.to_lower().as_lower())?;
        let paths = open.paths();
        self.0.remove_unfinished(&paths);
        let file = match self.0.disk.open(&paths.store) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok((ZoneStore::new(open, None), None));
            }
            Err(error) => return Err(failed("open", &paths.store)(error)),
        };
        let front = read_front(&*file, &paths.store)?;
        if front.apex.as_lower() != open.apex() {
            let apex = Box::new(front.apex.as_name().to_buf());
            return Err(StoreFault::OtherZone(paths.store, apex));
        }
        let stored = Stored::find(file.into(), paths.store.into(), front)?;
        let contents = Contents::of_stored(&stored);
        Ok((ZoneStore::new(open, Some(contents)), Some(stored)))
    }

    /// Gives the file of a zone another name, so that the zone can be stored anew, and returns that name. A file that had
    /// been set aside before is gone then.
    ///
    /// # Errors
    /// [`StoreFault::AlreadyOpen`] while a [`ZoneStore`] of the zone is there, and [`StoreFault::Io`].
    pub fn set_aside(&self, apex: Name<'_>) -> Result<PathBuf, StoreFault> {
        let open = OpenZone::new(&self.0, apex.to_lower().as_lower())?;
        let paths = open.paths();
        let disk = &self.0.disk;
        disk.rename(&paths.store, &paths.aside).map_err(failed("rename", &paths.store))?;
        disk.sync_folder(&paths.shard).map_err(failed("sync the folder", &paths.shard))?;
        Ok(paths.aside)
    }

    /// The zones that are stored, in any order: of each the name, or why its file cannot be read. Reads the front of every
    /// file.
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
                    zones.push(file.and_then(|file| Ok(read_front(&*file, &path)?.apex)));
                }
            }
        }
        Ok(zones)
    }

    /// The folders of files.
    fn shards(&self) -> Result<Vec<PathBuf>, StoreFault> {
        let root = &self.0.root;
        let there = self.0.disk.list(root).map_err(failed("list", root))?;
        let shards = (0..=u8::MAX).map(shard);
        Ok(shards.filter(|shard| there.iter().any(|name| *name == **shard)).map(|s| root.join(s)).collect())
    }
}

impl std::fmt::Debug for ZoneFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ZoneFolder({})", self.0.root.display())
    }
}
