//! [`StoreFolders`]: the folder of stores of the zones outside views, and one for each view.
//!
//! In a state folder, the stores of the zones outside views are in the folder NAME, and those of a view in
//! `views/VIEW/NAME`, each with its own lock and its own marks. So the same zone in two views has two stores,
//! and no path of a zone outside views depends on whether there are views. The name of a view
//! ([`ViewName`]) can be that of a folder.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use wire::{LowerNameBuf, ViewName, ZoneName};

use crate::disk::Disk;
use crate::fault::{StoreFault, failed};
use crate::folder::StoreFolder;

/// The folder of all views in a state folder.
const VIEWS: &str = "views";

/// The folders of one kind of stores in a state folder. Clones refer to the same folders.
#[derive(Clone)]
pub struct StoreFolders(Arc<Folders>);

struct Folders {
    disk: Arc<dyn Disk>,
    state: PathBuf,
    /// The name of the folders.
    name: String,
    /// The name of the files of marks beside them, if they have marks.
    marks: Option<String>,
    outside: StoreFolder,
    /// The folders of views that are open. Held over the opening of a folder: no thread opens one twice.
    of_views: Mutex<BTreeMap<ViewName, StoreFolder>>,
}

/// What folders hold, as [`StoreFolders::held`] returns it.
#[derive(Debug, Default)]
pub struct HeldStores {
    /// The zones that have a file or a mark.
    pub zones: Vec<ZoneName>,
    /// The files whose zone cannot be determined.
    pub unclear: Vec<PathBuf>,
}

impl StoreFolders {
    /// Opens and locks the folders of this name in a state folder: the one of the zones outside views, which
    /// is created if it does not exist, and those of views that exist. `marks` is the name of the file beside
    /// each of them that records how far each zone was acknowledged.
    ///
    /// # Errors
    /// As for [`StoreFolder::open`].
    pub fn open(
        disk: Arc<dyn Disk>,
        state: &Path,
        name: &str,
        marks: Option<&str>,
    ) -> Result<StoreFolders, StoreFault> {
        let outside = open(&disk, state, name, marks)?;
        let folders = StoreFolders(Arc::new(Folders {
            state: state.to_owned(),
            name: name.to_owned(),
            marks: marks.map(str::to_owned),
            outside,
            of_views: Mutex::default(),
            disk,
        }));
        for view in folders.views_on_disk()? {
            folders.of_view(&view)?;
        }
        Ok(folders)
    }

    /// Returns the folder with the store of a zone. Opens it, and creates it if it does not exist, for the
    /// first zone of its view.
    ///
    /// # Errors
    /// As for [`StoreFolder::open`].
    pub fn of(&self, apex: &ZoneName) -> Result<StoreFolder, StoreFault> {
        match apex.to_view() {
            None => Ok(self.0.outside.clone()),
            Some(view) => self.of_view(&view),
        }
    }

    /// Returns all open folders, each with its view.
    pub fn all(&self) -> Vec<(Option<ViewName>, StoreFolder)> {
        let of_views = self.0.of_views.lock().unwrap_or_else(PoisonError::into_inner);
        let of_views = of_views.iter().map(|(view, folder)| (Some(view.clone()), folder.clone()));
        [(None, self.0.outside.clone())].into_iter().chain(of_views).collect()
    }

    /// The zones that have a file or a mark, and the files whose zone cannot be determined.
    ///
    /// # Errors
    /// As for [`StoreFolder::held`].
    pub fn held(&self) -> Result<HeldStores, StoreFault> {
        let mut all = HeldStores::default();
        for (view, folder) in self.all() {
            let (zones, unclear) = folder.held()?;
            all.zones.extend(zones.iter().map(|name| ZoneName::in_view(name.as_lower(), view.as_ref())));
            all.unclear.extend(unclear);
        }
        Ok(all)
    }

    /// The stored zones: for each file the zone, or why the file cannot be read.
    ///
    /// # Errors
    /// As for [`StoreFolder::zones`].
    pub fn zones(&self) -> Result<Vec<Result<ZoneName, StoreFault>>, StoreFault> {
        let mut all = Vec::new();
        for (view, folder) in self.all() {
            let in_view = |name: LowerNameBuf| ZoneName::in_view(name.as_lower(), view.as_ref());
            all.extend(folder.zones()?.into_iter().map(|zone| zone.map(in_view)));
        }
        Ok(all)
    }

    /// Whether marks were written that [`sync_marks`](Self::sync_marks) has not synced.
    pub fn has_unsynced_marks(&self) -> bool {
        let of_views: Vec<StoreFolder> = {
            let of_views = self.0.of_views.lock().unwrap_or_else(PoisonError::into_inner);
            of_views.values().cloned().collect()
        };
        self.0.outside.has_unsynced_marks() || of_views.iter().any(StoreFolder::has_unsynced_marks)
    }

    /// Returns once all marks are on the disk: see [`StoreFolder::sync_marks`].
    ///
    /// # Errors
    /// As there, of the first folder that fails; the others are synced all the same.
    pub fn sync_marks(&self) -> Result<(), StoreFault> {
        self.all().into_iter().map(|(_, folder)| folder.sync_marks()).fold(Ok(()), Result::and)
    }

    /// Returns the views that have such a folder or such marks in the state folder.
    fn views_on_disk(&self) -> Result<Vec<ViewName>, StoreFault> {
        let Folders { disk, state, name, marks, .. } = &*self.0;
        let list = |path: &Path| match disk.list(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(failed("list", path)),
        };
        let root = state.join(VIEWS);
        let mut views = Vec::new();
        for folder in list(&root)? {
            let Some(Ok(view)) = folder.to_str().map(str::parse::<ViewName>) else { continue };
            let is_ours = |entry: &std::ffi::OsString| {
                *entry == **name || marks.as_ref().is_some_and(|marks| *entry == **marks)
            };
            if list(&root.join(view.as_str()))?.iter().any(is_ours) {
                views.push(view);
            }
        }
        Ok(views)
    }

    fn of_view(&self, view: &ViewName) -> Result<StoreFolder, StoreFault> {
        let Folders { disk, state, name, marks, .. } = &*self.0;
        let mut of_views = self.0.of_views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = of_views.get(view) {
            return Ok(folder.clone());
        }
        let root = state.join(VIEWS);
        let of_view = root.join(view.as_str());
        for (folder, parent) in [(&root, state), (&of_view, &root)] {
            disk.make_folder(folder).map_err(failed("make the folder", folder))?;
            disk.sync_folder(parent).map_err(failed("sync the folder", parent))?;
        }
        let folder = open(disk, &of_view, name, marks.as_deref())?;
        of_views.insert(view.clone(), folder.clone());
        Ok(folder)
    }
}

fn open(
    disk: &Arc<dyn Disk>,
    parent: &Path,
    name: &str,
    marks: Option<&str>,
) -> Result<StoreFolder, StoreFault> {
    let (disk, root) = (Arc::clone(disk), parent.join(name));
    match marks {
        Some(marks) => StoreFolder::open_marked(disk, &root, &parent.join(marks)),
        None => StoreFolder::open(disk, &root),
    }
}

#[cfg(test)]
mod tests {
    use wire::hash::HashKey;
    use wire::{NameBuf, Serial, Ttl, Type};
    use zone::{Zone, ZoneBuilder};

    use super::*;
    use crate::disk::RealDisk;

    fn zone(serial: u32) -> Zone {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
        builder.finish().expect("a zone")
    }

    #[test]
    fn the_same_zone_in_two_views_and_outside_has_three_stores() {
        let state = tempfile::tempdir().expect("a folder");
        let open = || {
            let disk: Arc<dyn Disk> = Arc::new(RealDisk);
            StoreFolders::open(disk, state.path(), "changes", Some("zone-marks")).expect("folders")
        };
        let name: NameBuf = "example.".parse().expect("a name");
        let of = |view: Option<&str>| {
            let view = view.map(|view| view.parse().expect("the name of a view"));
            ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref())
        };
        let zones = [None, Some("inside"), Some("lab")].map(of);
        {
            let folders = open();
            for (serial, apex) in (1..).zip(&zones) {
                let (mut store, stored) =
                    folders.of(apex).expect("a folder").zone(apex.as_name()).expect("open");
                assert!(stored.is_none());
                store.replace(&zone(serial)).expect("stored");
            }
            folders.sync_marks().expect("synced");
            assert!(!folders.has_unsynced_marks());
        }
        let folders = open();
        let mut held = folders.held().expect("listed").zones;
        held.sort_unstable();
        let mut expected = zones.to_vec();
        expected.sort_unstable();
        assert_eq!(held, expected);
        for (serial, apex) in (1..).zip(&zones) {
            let folder = folders.of(apex).expect("a folder");
            let (_store, stored) = folder.zone(apex.as_name()).expect("opened");
            assert_eq!(stored.expect("a version").serial(), Serial(serial), "{apex}");
        }
        let is_there = |path: &str| state.path().join(path).exists();
        assert!(is_there("changes") && is_there("zone-marks") && is_there("views/inside/changes"));
    }
}
