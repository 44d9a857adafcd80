//! State folder and zone images: their paths, whether an image is used, and the thread that writes images
//! once their zones are in service. `zone::image` has the format.
//!
//! The folder also holds the hash key, since an image is valid only under the key with which it was made.
//!
//! An image is a copy made from the operator's text. It is used only while all files it was made from are
//! unchanged, its layout and key are those of this server and its checksums match; otherwise the text is
//! read, and the image rebuilt. If differences are stored, the text is compared with that image at a start,
//! since the image holds the version served before.

use sandbox::kinds::{ThreadKind, confine};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use wire::ZoneName;

use tracing::{debug, info, warn};
use wire::hash::HashKey;
use zone::Zone;
use zone::image::{self, Image, ImageError, Provenance};
use zone::regular;
use zone_plan::{ZoneSpec, ZoneText};

use crate::managed::state::ImageOrder;
use telemetry::process::UserIds;
use telemetry::repeated::log_repeated;
use threads::spare::{CpuShare, spare};
use wording::reason;

/// File with the hash key.
const KEY_FILE: &str = "hash-key";
/// Folder of the images.
const IMAGES: &str = "images";
/// Length of a hash key in bytes.
const HASH_KEY_BYTES: usize = 24;
/// Suffix of image files.
const SUFFIX: &str = ".image";
/// Longest name of an image without its suffix; systems allow 255 bytes, and writing needs some more.
const MAX_NAME_BYTES: usize = 180;

/// Why a state folder cannot be used.
#[derive(Debug)]
pub enum StateFault {
    /// A folder cannot be created.
    Folder(PathBuf, io::Error),
    /// The file with the hash key cannot be created or read.
    Key(PathBuf, io::Error),
    /// Users other than its owner may read or write the key.
    ExposedKey(PathBuf),
    /// The key is too short or too long.
    KeyLength(PathBuf),
}

impl fmt::Display for StateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path, e) => write!(f, "cannot make the folder {}: {}", path.display(), reason(e)),
            Self::Key(path, e) => write!(f, "cannot use the hash key {}: {}", path.display(), reason(e)),
            Self::ExposedKey(path) => write!(
                f,
                "the hash key {} is not used: others than its owner may read or write it; remove it, and a \
                 new one is made",
                path.display()
            ),
            Self::KeyLength(path) => write!(
                f,
                "the hash key {} is not used: it does not have {HASH_KEY_BYTES} bytes; remove it, and a new one is \
                made",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StateFault {}

/// A usable state folder.
pub struct StateFolder {
    folder: PathBuf,
    /// The hash key, which is the same in each run.
    pub key: HashKey,
}

/// Creates the folder if it is missing, owned by `owner` if given. To be called before the
/// process drops its privileges.
///
/// # Errors
/// [`StateFault::Folder`].
pub fn make_folder(folder: &Path, owner: Option<UserIds>) -> Result<(), StateFault> {
    let fault = |e| StateFault::Folder(folder.to_owned(), e);
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => match owner {
            Some(UserIds { uid, gid }) => chown(folder, Some(uid), Some(gid)).map_err(fault),
            None => Ok(()),
        },
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(fault(e)),
    }
}

impl StateFolder {
    /// Opens the folder: reads its key, or creates one if there is none.
    ///
    /// # Errors
    /// [`StateFault`] if it cannot be used.
    pub fn open(folder: &Path) -> Result<StateFolder, StateFault> {
        let images = folder.join(IMAGES);
        match fs::DirBuilder::new().mode(0o700).create(&images) {
            Ok(()) => own(&images, folder),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(StateFault::Folder(images, e)),
        }
        let path = folder.join(KEY_FILE);
        let fault = |e| StateFault::Key(path.clone(), e);
        if !path.exists() {
            make_key(folder, &path).map_err(fault)?;
        }
        let mut file = regular::open(&path).map_err(fault)?;
        let about = file.metadata().map_err(fault)?;
        if about.mode() & 0o077 != 0 {
            return Err(StateFault::ExposedKey(path));
        }
        let mut secret = [0; HASH_KEY_BYTES];
        if about.len() != HASH_KEY_BYTES as u64 || file.read_exact(&mut secret).is_err() {
            return Err(StateFault::KeyLength(path));
        }
        let mut words = secret.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word));
        let mut word = || words.next().unwrap_or_default();
        let key = HashKey::new([word(), word(), word()]);
        Ok(StateFolder { folder: folder.to_owned(), key })
    }

    /// Returns the path of a zone's image.
    pub fn path(&self, spec: &ZoneSpec) -> PathBuf {
        self.folder.join(IMAGES).join(file_name(spec))
    }

    /// Writes the image of a zone and returns its path and its size in bytes.
    pub fn write(
        &self,
        spec: &ZoneSpec,
        zone: &Zone,
        provenance: &Provenance,
    ) -> Result<(PathBuf, u64), String> {
        let path = self.path(spec);
        let written = image::write(&path, zone, provenance);
        let size =
            written.map_err(|e| format!("cannot write the image {}: {}", path.display(), reason(&e)))?;
        own(&path, &self.folder);
        Ok((path, size))
    }
}

/// Creates a new key. If two processes do so at the same time, both use the key that was stored first.
fn make_key(folder: &Path, path: &Path) -> io::Result<()> {
    let mut secret = [0; HASH_KEY_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    let fresh = folder.join(format!(".{KEY_FILE}-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let made = regular::open_with(&mut options, &fresh);
    let made = made.and_then(|mut file| file.write_all(&secret).and_then(|()| file.sync_all()));
    let made = made.and_then(|()| match fs::hard_link(&fresh, path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => {
            own(path, folder);
            Ok(())
        }
    });
    // The file may not exist.
    let _ = fs::remove_file(&fresh);
    made
}

/// If running as root, gives a file in the state folder the folder's owner.
fn own(path: &Path, folder: &Path) {
    if telemetry::process::is_root()
        && let Ok(about) = fs::metadata(folder)
    {
        // If this fails, the process that cannot read the file reports it.
        let _ = chown(path, Some(about.uid()), Some(about.gid()));
    }
}

/// Returns the file name for a zone: the zone's name, as far as it can be one, and its view after an `@`.
fn file_name(spec: &ZoneSpec) -> OsString {
    let text = spec.name().to_string();
    let mut name = String::new();
    for byte in text.trim_end_matches('.').bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
            b'A'..=b'Z' => name.push(byte.to_ascii_lowercase().into()),
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.is_empty() {
        name.push('@');
    }
    if name.len() > MAX_NAME_BYTES {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        name.truncate(MAX_NAME_BYTES);
        name.push_str(&format!("~{:016x}", hasher.finish()));
    }
    // No name of a zone has an `@` in this form, but the root zone, which has nothing else.
    if let Some(view) = spec.apex.view() {
        name = name + "@" + view;
    }
    (name + SUFFIX).into()
}

/// Counters of images.
#[derive(Debug, Default)]
pub struct ImageCounts {
    /// Zones loaded from their image.
    pub used: AtomicU64,
    /// Zones without an image.
    pub missing: AtomicU64,
    /// Images of another text, another key or another version.
    pub stale: AtomicU64,
    /// Images that could not be read or had changed since they were written.
    pub damaged: AtomicU64,
    /// Images written.
    pub written: AtomicU64,
    /// Images that could not be written.
    pub unwritten: AtomicU64,
}

impl ImageCounts {
    /// Returns the results of looking for images in loads; all but the used ones led to reading the text.
    pub fn loads(&self) -> [(&'static str, u64); 4] {
        let all = [
            ("used", &self.used),
            ("missing", &self.missing),
            ("stale", &self.stale),
            ("damaged", &self.damaged),
        ];
        all.map(|(word, count)| (word, count.load(Relaxed)))
    }

    /// Returns the results of writing images.
    pub fn writes(&self) -> [(&'static str, u64); 2] {
        [("written", &self.written), ("failed", &self.unwritten)]
            .map(|(word, count)| (word, count.load(Relaxed)))
    }
}

/// A task of the writing thread.
enum Task {
    Write(ImageOrder),
    /// The names of the images to keep; all others are removed.
    Keep(HashSet<OsString>),
}

/// The images of a running server.
pub struct Images {
    state: Arc<StateFolder>,
    /// Least record count of a zone that gets an image in any case.
    least: u64,
    counts: Arc<ImageCounts>,
    tasks: Sender<Task>,
}

impl Images {
    /// Starts the thread that writes images of zones with at least `least` records.
    pub fn start(state: StateFolder, least: u64) -> io::Result<Images> {
        let (state, counts) = (Arc::new(state), Arc::new(ImageCounts::default()));
        let (tasks, queue) = channel();
        let (theirs, counted) = (Arc::clone(&state), Arc::clone(&counts));
        std::thread::Builder::new().name("images".into()).spawn(move || {
            confine(ThreadKind::Files);
            work(&theirs, &counted, &queue);
        })?;
        Ok(Images { state, least, counts, tasks })
    }

    /// The counters.
    pub fn counts(&self) -> &ImageCounts {
        &self.counts
    }

    /// Loads a zone from its image, with `threads` threads, if the image is current and undamaged.
    pub fn read(&self, spec: &ZoneSpec, threads: usize) -> Option<(Zone, Provenance)> {
        let ZoneText::File(text) = &spec.text else { return None };
        let begun = Instant::now();
        let read = Image::open(&self.state.path(spec)).and_then(|image| {
            image.check_current(spec.name(), text, &self.state.key)?;
            Ok((image.read(&self.state.key, threads)?, image.provenance().clone()))
        });
        let name = &spec.apex;
        match read {
            Ok((zone, provenance)) => {
                self.counts.used.fetch_add(1, Relaxed);
                let milliseconds = begun.elapsed().as_millis() as u64;
                info!(
                    serial = zone.serial().0,
                    records = zone.record_count(),
                    milliseconds,
                    "zone {name}: from image"
                );
                if provenance.warnings > 0 {
                    warn!(
                        "zone {name}: {} warnings when its image was made; `nomen zone check` shows them",
                        provenance.warnings
                    );
                }
                Some((zone, provenance))
            }
            Err(error) => {
                match error.word() {
                    "missing" => {
                        self.counts.missing.fetch_add(1, Relaxed);
                        debug!("zone {name}: no image");
                    }
                    "stale" => {
                        self.counts.stale.fetch_add(1, Relaxed);
                        info!("zone {name}: its image is not used: {error}");
                    }
                    _ => {
                        self.counts.damaged.fetch_add(1, Relaxed);
                        let path = self.state.path(spec);
                        let about = ("image not used", &*name.to_string());
                        let (path, why) = (path.display(), in_words(&error));
                        log_repeated!(warn, WARN, about, "zone {name}: its image {path} is not used: {why}");
                    }
                }
                None
            }
        }
    }

    /// Loads the version that an earlier run has served, even if the text has changed since.
    pub fn read_earlier(&self, spec: &ZoneSpec, threads: usize) -> Option<Zone> {
        let zone = Image::open(&self.state.path(spec)).and_then(|image| image.read(&self.state.key, threads));
        zone.ok().filter(|zone| zone.apex().as_name() == spec.name())
    }

    /// Whether a zone gets an image. A zone that has one keeps it. If the operator wants differences of the
    /// zone whatever its size, the image lets the next run compute the difference to the version that this
    /// run has served.
    pub fn wants(&self, spec: &ZoneSpec, zone: &Zone) -> bool {
        zone.record_count() >= self.least
            || spec.differences.from_records == Some(0)
            || self.state.path(spec).exists()
    }

    /// Queues writing of images.
    pub fn write(&self, orders: Vec<ImageOrder>) {
        for order in orders {
            // The thread runs as long as the process.
            let _ = self.tasks.send(Task::Write(order));
        }
    }

    /// Removes the images that belong to none of these zones.
    pub fn keep<'a>(&self, specs: impl Iterator<Item = &'a ZoneSpec>) {
        let _ = self.tasks.send(Task::Keep(specs.map(file_name).collect()));
    }
}

fn in_words(error: &ImageError) -> String {
    match error {
        ImageError::Io(e) => format!("it cannot be read: {}", reason(e)),
        other => other.to_string(),
    }
}

/// Works on tasks until the server ends. Not on the spare threads of background work: the images of all zones
/// that a start has loaded would keep folds waiting, which bound memory.
fn work(state: &StateFolder, counts: &ImageCounts, queue: &Receiver<Task>) {
    let folder = state.folder.join(IMAGES);
    if let Err(e) = image::remove_leftovers(&folder) {
        warn!("cannot clean up the folder {}: {}", folder.display(), reason(&e));
    }
    while let Ok(first) = queue.recv() {
        // Of several versions of a zone only the last is written.
        let mut orders: HashMap<ZoneName, ImageOrder> = HashMap::new();
        let mut kept = None;
        for task in std::iter::once(first).chain(queue.try_iter()) {
            match task {
                Task::Write(order) => drop(orders.insert(order.spec.apex.clone(), order)),
                Task::Keep(names) => kept = Some(names),
            }
        }
        if let Some(names) = kept {
            remove_others(&folder, &names);
        }
        orders.into_values().for_each(|order| write_one(state, counts, &order));
    }
}

fn write_one(state: &StateFolder, counts: &ImageCounts, order: &ImageOrder) {
    let name = &order.spec.apex;
    if !order.provenance.sources.iter().all(|source| source.is_current()) {
        debug!("zone {name}: no image written, its text has changed since");
        return;
    }
    let begun = Instant::now();
    match spare(CpuShare::Tenth, || state.write(&order.spec, &order.zone, &order.provenance)) {
        Ok((path, bytes)) => {
            counts.written.fetch_add(1, Relaxed);
            let milliseconds = begun.elapsed().as_millis() as u64;
            info!(bytes, milliseconds, "zone {name}: image written to {}", path.display());
        }
        Err(fault) => {
            counts.unwritten.fetch_add(1, Relaxed);
            let about = ("image not written", &*name.to_string());
            log_repeated!(warn, WARN, about, "zone {name}: {fault}");
        }
    }
}

/// Removes the images with other names than these.
fn remove_others(folder: &Path, names: &HashSet<OsString>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_image = Path::new(&name).extension().is_some_and(|end| end == SUFFIX.trim_start_matches('.'));
        if is_image && !names.contains(&name) {
            match fs::remove_file(entry.path()) {
                Ok(()) => info!("{} removed: there is no such zone", entry.path().display()),
                Err(e) => {
                    let path = entry.path();
                    let about = ("image not removed", &*path.display().to_string());
                    log_repeated!(warn, WARN, about, "cannot remove {}: {}", path.display(), reason(&e));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use zone_plan::Origin;

    use super::*;

    fn spec(name: &str) -> ZoneSpec {
        let name: wire::NameBuf = name.parse().expect("a name");
        ZoneSpec {
            apex: name.as_name().into(),
            text: ZoneText::BuiltIn(""),
            origin: Origin::Configuration,
            differences: zone_plan::DifferenceRule::default(),
            rules: zone_plan::TextRules::default(),
            signed: false,
        }
    }

    #[test]
    fn every_zone_has_a_file_name_of_its_own() {
        let long = format!("{}.", [&"x/".repeat(30)[..]; 4].join("."));
        let names = [".", "Example.com.", "\\.\\.", "a/b.", "a\\047.", "\\200.", "@.", &long];
        let mut seen = HashSet::new();
        for name in names {
            let file = file_name(&spec(name)).into_string().expect("text");
            assert!(!file.contains('/') && !file.starts_with('.') && file.len() < 220, "{file}");
            seen.insert(file);
        }
        // `a/b.` and `a\047.` are two names; the others differ as well.
        assert_eq!(seen.len(), names.len());
        for (name, view) in [(".", "a"), ("example.com.", "a"), ("example.com.", "b"), (&long, "a")] {
            let mut spec = spec(name);
            spec.apex =
                ZoneName::in_view(spec.apex.as_lower(), Some(&view.parse().expect("the name of a view")));
            let file = file_name(&spec).into_string().expect("text");
            assert!(file.ends_with(&format!("@{view}.image")) && file.len() < 255, "{file}");
            assert!(seen.insert(file));
        }
        assert!(seen.contains("example.com.image") && seen.contains("@.image"), "{seen:?}");
    }

    #[test]
    fn the_key_outlives_the_process_and_is_refused_when_others_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = |state: StateFolder| state.key;
        let first = key(StateFolder::open(folder.path()).expect("a new key"));
        assert!(key(StateFolder::open(folder.path()).expect("the same key")) == first);
        let path = folder.path().join(KEY_FILE);
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "key and images");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        assert!(matches!(StateFolder::open(folder.path()), Err(StateFault::ExposedKey(at)) if at == path));
        fs::remove_file(&path).expect("removed");
        assert!(key(StateFolder::open(folder.path()).expect("another key")) != first);
        fs::write(&path, "short").expect("written");
        assert!(matches!(StateFolder::open(folder.path()), Err(StateFault::KeyLength(at)) if at == path));
    }

    #[test]
    fn images_of_zones_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["a.image", "b.image", "readme"] {
            fs::write(folder.path().join(file), "").expect("written");
        }
        remove_others(folder.path(), &HashSet::from([OsString::from("a.image")]));
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, ["a.image", "readme"]);
    }
}
