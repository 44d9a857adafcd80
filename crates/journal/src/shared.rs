//! State shared by the stores of a folder: the disk, the marks, and which zones are open.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::LowerName;

use crate::disk::Disk;
use crate::fault::{StoreFault, failed};
use crate::marks::{Mark, Marks, Noted};
use crate::names::Paths;

/// State shared by the stores of a folder.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    /// Names of the zones whose stores are open.
    pub(crate) open: Mutex<HashSet<Box<[u8]>>>,
    /// The marks, if the folder has a marks file.
    pub(crate) marks: Option<Marks>,
    pub(crate) _lock: Box<dyn Send + Sync>,
}

impl Shared {
    pub(crate) fn paths(&self, apex: LowerName<'_>) -> Paths {
        Paths::new(&self.root, apex)
    }

    fn open_zones(&self) -> MutexGuard<'_, HashSet<Box<[u8]>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records how far a zone is acknowledged.
    pub(crate) fn mark(&self, apex: LowerName<'_>, mark: Mark) {
        self.marks.iter().for_each(|marks| marks.set(apex, mark));
    }

    /// Syncs the marks. [`StoreFolder::sync_marks`](crate::StoreFolder::sync_marks), which is called again,
    /// reports a failure.
    pub(crate) fn sync_marks(&self) {
        let _ = self.marks.as_ref().map(Marks::sync);
    }

    /// The marks, if there are any.
    pub(crate) fn marks(&self) -> Option<&Marks> {
        self.marks.as_ref()
    }

    /// The mark of a zone, or why there is none.
    pub(crate) fn noted(&self, apex: LowerName<'_>) -> Noted {
        self.marks.as_ref().map_or(Noted::Nothing, |marks| marks.get(apex))
    }

    /// Whether a zone's new file may declare that the zone has a mark, because the zone's slot is on the
    /// disk. `is_marked`: the file in use declares it already.
    pub(crate) fn reserve_mark(&self, apex: LowerName<'_>, is_marked: bool) -> bool {
        let Some(marks) = &self.marks else { return false };
        is_marked && marks.get(apex) != Noted::Nothing || marks.reserve(apex)
    }

    /// Renames a zone's file, if it exists, to a name not in use, and returns that name.
    pub(crate) fn put_aside(&self, paths: &Paths) -> Result<Option<PathBuf>, StoreFault> {
        let there = match self.disk.list(&paths.shard) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            listed => listed.map_err(failed("list", &paths.shard))?,
        };
        let is_there = |path: &Path| there.iter().any(|name| Some(&**name) == path.file_name());
        if !is_there(&paths.store) {
            return Ok(None);
        }
        let later = |number: u32| {
            let mut path = paths.aside.clone().into_os_string();
            path.push(format!("-{number}"));
            PathBuf::from(path)
        };
        let mut names = std::iter::once(paths.aside.clone()).chain((2..).map(later));
        let aside = names.find(|path| !is_there(path)).unwrap_or_else(|| paths.aside.clone());
        self.disk.rename(&paths.store, &aside).map_err(failed("rename", &paths.store))?;
        self.disk.sync_folder(&paths.shard).map_err(failed("sync the folder", &paths.shard))?;
        Ok(Some(aside))
    }

    /// Removes the file of an unfinished replacement. A file that cannot be removed does no harm.
    pub(crate) fn remove_unfinished(&self, paths: &Paths) {
        let _ = self.disk.remove(&paths.unfinished);
    }
}

/// Marks a zone's store as open until dropped.
pub(crate) struct OpenZone {
    pub(crate) shared: Arc<Shared>,
    apex: Box<[u8]>,
}

impl OpenZone {
    pub(crate) fn new(shared: &Arc<Shared>, apex: LowerName<'_>) -> Result<OpenZone, StoreFault> {
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
