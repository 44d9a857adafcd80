//! The loader threads: as many as there are CPUs, at least two, while there is work, none otherwise. No load
//! delays another: large loads leave one thread to the others, and a load without progress has another thread
//! started in its place.

use sandbox::kinds::{ThreadKind, confine};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use wire::ZoneName;

use tracing::warn;
use wire::hash::HashKey;
use zone::Zone;
use zone::store::{ChangeSet, diff_within};
use zone_plan::{ZoneFault, ZoneSpec, ZoneText};

use super::images::Images;
use super::text::{self, Meter};
use crate::changes::{Changes, FileState};
use crate::managed::FileStamp;
use crate::managed::state::{FileEdit, KeptVersion, Load, Looked, Reading};
use crate::secondaries::SecondaryStore;
use threads::sync::lock;

/// The end of a load, for the state of the zone.
#[derive(Debug)]
pub(super) struct LoadEnd {
    /// The zone.
    pub(super) apex: ZoneName,
    /// The number of the load.
    pub(super) number: u32,
    /// The result.
    pub(super) looked: Looked,
}

/// Least size in bytes of a file whose load counts as large. Large loads leave one thread to the others.
const LARGE_FILE_BYTES: u64 = 64 << 20;
/// A load without progress for this long gives its thread's place to another thread.
const RELIEF_TIMEOUT: Duration = Duration::from_secs(2);
/// Most additional threads in the place of stalled ones.
const MOST_RELIEVED: usize = 256;

/// Reads zones. The last argument counts the progress.
pub(super) trait ReadZone: Send + Sync {
    /// Returns the result of a load; an image is read with `threads` threads.
    fn look(&self, load: &Load, threads: usize, progress: &AtomicU64) -> Looked;
}

/// Reads zones from text, images and stores.
pub(super) struct ZoneReader {
    key: HashKey,
    elsewhere: KeptElsewhere,
    meter: Arc<Meter>,
}

/// Sources of versions besides the text.
#[derive(Default)]
pub(super) struct KeptElsewhere {
    /// Images.
    pub(super) images: Option<Arc<Images>>,
    /// Stores of secondary zones.
    pub(super) secondaries: Option<Arc<SecondaryStore>>,
    /// Stores of zones that updates have changed.
    pub(super) changes: Option<Arc<Changes>>,
}

/// State shared by all loader threads.
struct Shared {
    reader: Arc<dyn ReadZone>,
    /// Usual number of threads, at least two.
    most: usize,
    /// [`RELIEF_TIMEOUT`].
    relief: Duration,
    queue: Mutex<LoadQueue>,
}

/// Loads to do, and those in progress. One lock guards both: a thread that finds no work has left the count
/// before work is added.
#[derive(Default)]
struct LoadQueue {
    /// Orders with loads that no thread has taken, in the order of their arrival.
    work: VecDeque<Arc<Work>>,
    /// Large loads that wait because all threads but one have large loads already.
    large: VecDeque<(Arc<Work>, usize)>,
    /// Number of running threads.
    running: usize,
    /// Loads in progress.
    under_way: Vec<UnderWay>,
    /// The number of the last load taken.
    taken: u64,
}

/// A load in progress.
struct UnderWay {
    id: u64,
    apex: ZoneName,
    number: u32,
    is_large: bool,
    progress: Arc<AtomicU64>,
    /// `progress` at the last check.
    seen: u64,
    /// When `seen` was first found.
    since: Instant,
    /// Another thread may work in the place of this one.
    relieved: bool,
    /// The load was reported as stalled.
    reported: bool,
}

impl LoadQueue {
    fn relieved(&self) -> usize {
        self.under_way.iter().filter(|load| load.relieved).count()
    }

    fn large(&self) -> usize {
        self.under_way.iter().filter(|load| load.is_large && !load.relieved).count()
    }

    /// Whether a load waits for a thread.
    fn is_waiting(&self, most: usize) -> bool {
        let untaken = |work: &Arc<Work>| work.next.load(Ordering::Relaxed) < work.loads.len();
        self.work.iter().any(untaken) || !self.large.is_empty() && self.large() + 1 < most
    }

    /// Checks which loads have progressed.
    fn look_at_progress(&mut self, now: Instant) {
        for load in &mut self.under_way {
            let progress = load.progress.load(Ordering::Relaxed);
            if progress != load.seen {
                (load.seen, load.since) = (progress, now);
            }
        }
    }
}

/// Loads that were ordered together.
struct Work {
    loads: Vec<Load>,
    next: AtomicUsize,
    /// Threads per image; more than one if there are fewer loads than CPUs.
    threads: usize,
}

/// A load without progress for a long time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StalledLoad {
    /// The zone.
    pub(super) apex: ZoneName,
    /// The number of the load.
    pub(super) number: u32,
}

/// Orders loads.
pub(super) struct Loaders {
    shared: Arc<Shared>,
    reader: Arc<ZoneReader>,
}

impl Loaders {
    /// Returns loaders that build zones under `key`, and count in `meter`.
    pub(super) fn new(key: HashKey, elsewhere: KeptElsewhere, meter: Arc<Meter>) -> Self {
        let reader = Arc::new(ZoneReader { key, elsewhere, meter });
        Loaders { shared: Shared::new(Arc::clone(&reader) as Arc<dyn ReadZone>, RELIEF_TIMEOUT), reader }
    }

    /// Returns loaders with this reader, which start threads in the place of stalled ones at once.
    #[cfg(test)]
    pub(super) fn with(by: Arc<dyn ReadZone>) -> Self {
        let reader = Arc::new(ZoneReader::of_text(HashKey::new([1, 2, 3])));
        Loaders { shared: Shared::new(by, Duration::ZERO), reader }
    }

    /// Progress of all loads together.
    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.reader.meter
    }

    /// Whether a load is in progress.
    pub(super) fn is_busy(&self) -> bool {
        !lock(&self.shared.queue).under_way.is_empty()
    }

    /// Orders `loads`. Each result goes to `done`, wrapped by `wrap`.
    pub(super) fn order<M: Send + 'static>(
        &self,
        loads: Vec<Load>,
        done: &Sender<M>,
        wrap: impl Fn(LoadEnd) -> M + Copy + Send + 'static,
    ) {
        let threads = (self.shared.most / loads.len().max(1)).max(1);
        let wanted = loads.len().min(self.shared.most);
        let work = Arc::new(Work { loads, next: AtomicUsize::new(0), threads });
        lock(&self.shared.queue).work.push_back(work);
        for _ in 0..wanted {
            if !self.start(done, wrap) {
                return;
            }
        }
    }

    /// Starts another thread, unless the limit is reached. Returns whether it did.
    fn start<M: Send + 'static>(
        &self,
        done: &Sender<M>,
        wrap: impl Fn(LoadEnd) -> M + Copy + Send + 'static,
    ) -> bool {
        {
            let mut queue = lock(&self.shared.queue);
            if queue.running >= self.shared.most + queue.relieved() {
                return false;
            }
            queue.running += 1;
        }
        let (shared, theirs) = (Arc::clone(&self.shared), done.clone());
        let work = move || {
            confine(ThreadKind::Files);
            shared.work(&|outcome| theirs.send(wrap(outcome)).is_ok());
        };
        let started = std::thread::Builder::new().name("loader".into()).spawn(work).is_ok();
        if !started {
            // The system refused a thread: the caller does the work.
            self.shared.work(&|outcome| done.send(wrap(outcome)).is_ok());
        }
        started
    }

    /// Starts threads in the place of those whose loads make no progress, so that these delay no others.
    /// Returns the loads without progress for `longest`, each once.
    pub(super) fn watch<M: Send + 'static>(
        &self,
        now: Instant,
        longest: Duration,
        done: &Sender<M>,
        wrap: impl Fn(LoadEnd) -> M + Copy + Send + 'static,
    ) -> Vec<StalledLoad> {
        let (mut stalled, mut wanted) = (Vec::new(), 0);
        {
            let mut queue = lock(&self.shared.queue);
            queue.look_at_progress(now);
            let (mut relieved, is_waiting) = (queue.relieved(), queue.is_waiting(self.shared.most));
            for load in &mut queue.under_way {
                let without = now.saturating_duration_since(load.since);
                if without >= self.shared.relief && !load.relieved && is_waiting && relieved < MOST_RELIEVED {
                    load.relieved = true;
                    relieved += 1;
                }
                if without >= longest && !std::mem::replace(&mut load.reported, true) {
                    stalled.push(StalledLoad { apex: load.apex.clone(), number: load.number });
                }
            }
            if queue.is_waiting(self.shared.most) {
                wanted = (self.shared.most + relieved).saturating_sub(queue.running);
            }
        }
        self.reader.meter.stalled.fetch_add(stalled.len() as u64, Ordering::Relaxed);
        for _ in 0..wanted {
            if !self.start(done, wrap) {
                break;
            }
        }
        stalled
    }
}

impl Load {
    /// Whether the zone's file is large.
    fn is_large(&self) -> bool {
        let size = |path: &Arc<Path>| path.metadata().map_or(0, |about| about.len());
        matches!(&self.spec.text, ZoneText::File(path) if size(path) >= LARGE_FILE_BYTES)
    }

    /// Returns the difference between the earlier version and this one if it is cheap to compute: an empty
    /// one, looked for only if the serial number is the same, or a short one if differences are stored.
    fn step(&self, served: Option<&Zone>, zone: &Zone) -> Option<ChangeSet> {
        let served = served?;
        let most = match self.spec.differences.wants(zone) {
            true => served.record_count() as usize / 8,
            false if served.serial() == zone.serial() => 0,
            false => return None,
        };
        diff_within(served, zone, most)
    }
}

impl Shared {
    fn new(reader: Arc<dyn ReadZone>, relief: Duration) -> Arc<Self> {
        // A single thread would be held up by one large zone.
        let most = std::thread::available_parallelism().map_or(1, usize::from).max(2);
        Arc::new(Shared { reader, most, relief, queue: Mutex::default() })
    }

    /// Does loads until there are none, or `done` returns false.
    fn work(&self, done: &dyn Fn(LoadEnd) -> bool) {
        while let Some(taken) = self.take() {
            let load = &taken.work.loads[taken.load];
            if !taken.may_be_large && load.is_large() && !self.may_go_on(&taken) {
                continue;
            }
            // A panic is a bug in nomen. It fails the load of this zone only.
            let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.reader.look(load, taken.work.threads, &taken.progress)
            }));
            let looked = looked.unwrap_or_else(|_| Looked::Bad {
                fault: Arc::new(ZoneFault::without_place(
                    "reading the zone failed inside nomen; this is a bug",
                )),
                stamps: Arc::new([]),
            });
            let goes_on = done(LoadEnd { apex: load.spec.apex.clone(), number: load.number, looked });
            let mut queue = lock(&self.queue);
            queue.under_way.retain(|load| load.id != taken.id);
            // A thread may have been started in the place of this one.
            if !goes_on || queue.running > self.most + queue.relieved() {
                queue.running -= 1;
                return;
            }
        }
    }

    /// Takes the next load. If there is none, the calling thread no longer counts as running.
    fn take(&self) -> Option<Taken> {
        let mut queue = lock(&self.queue);
        if queue.large() + 1 < self.most
            && let Some((work, i)) = queue.large.pop_front()
        {
            return Some(queue.take(work, i, true));
        }
        while let Some(work) = queue.work.front() {
            let i = work.next.fetch_add(1, Ordering::Relaxed);
            if i < work.loads.len() {
                let work = Arc::clone(work);
                return Some(queue.take(work, i, false));
            }
            queue.work.pop_front();
        }
        queue.running -= 1;
        None
    }

    /// Whether a load that turned out to be large may run now. If not, it waits until a large one has ended.
    fn may_go_on(&self, taken: &Taken) -> bool {
        let mut queue = lock(&self.queue);
        if queue.large() + 1 < self.most {
            queue
                .under_way
                .iter_mut()
                .filter(|load| load.id == taken.id)
                .for_each(|load| load.is_large = true);
            return true;
        }
        queue.under_way.retain(|load| load.id != taken.id);
        queue.large.push_back((Arc::clone(&taken.work), taken.load));
        false
    }
}

/// A load, for the thread that took it.
struct Taken {
    id: u64,
    work: Arc<Work>,
    /// Its index in the loads of `work`.
    load: usize,
    progress: Arc<AtomicU64>,
    /// Whether the load is known to be large, and there is room for it.
    may_be_large: bool,
}

impl LoadQueue {
    fn take(&mut self, work: Arc<Work>, i: usize, is_large: bool) -> Taken {
        self.taken += 1;
        let (id, load) = (self.taken, &work.loads[i]);
        let progress = Arc::new(AtomicU64::new(0));
        self.under_way.push(UnderWay {
            id,
            apex: load.spec.apex.clone(),
            number: load.number,
            is_large,
            progress: Arc::clone(&progress),
            seen: 0,
            since: Instant::now(),
            relieved: false,
            reported: false,
        });
        Taken { id, work, load: i, progress, may_be_large: is_large }
    }
}

impl ZoneReader {
    /// Returns a reader of text only.
    #[cfg(test)]
    pub(super) fn of_text(key: HashKey) -> Self {
        ZoneReader { key, elsewhere: KeptElsewhere::default(), meter: Arc::default() }
    }

    /// Loads the version that updates have made, if there is one.
    fn stored(&self, load: &Load, begun: Instant) -> Option<Looked> {
        let file = match &load.spec.text {
            ZoneText::File(path) => Some(path),
            ZoneText::Primaries if load.spec.signed => None,
            _ => return None,
        };
        let changes = self.elsewhere.changes.as_ref().filter(|_| load.stored)?;
        let stamps: Arc<[FileStamp]> = file.map(|path| FileStamp::of(Arc::clone(path))).into_iter().collect();
        let loaded = changes.load(&load.spec, &self.key)?;
        let refusal = loaded.as_ref().ok().and_then(|zone| load.spec.refusal(zone));
        if let Some(fault) = refusal {
            return Some(Looked::Bad { fault, stamps });
        }
        let is_edited =
            file.is_some_and(|path| changes.file_state(&load.spec.apex, path) == Some(FileState::Edited));
        let edit = if is_edited { FileEdit::Edited } else { FileEdit::Known };
        Some(match loaded {
            Ok(zone) => {
                let reading = Reading {
                    stamps,
                    at: SystemTime::now(),
                    took: begun.elapsed(),
                    // That no record has changed, if the version is in service.
                    step: load.step(load.serving.as_deref(), &zone).map(Arc::new),
                    zone,
                    warnings: Vec::new(),
                    warning_count: 0,
                    provenance: None,
                };
                Looked::Stored(Box::new(reading), edit)
            }
            Err(fault) => Looked::Bad { fault: Arc::new(ZoneFault::without_place(fault)), stamps },
        })
    }

    /// Loads the stored version of a zone of the database; of a secondary zone also the one with signatures
    /// of this server.
    fn kept(&self, load: &Load, begun: Instant) -> Looked {
        if load.spec.text == ZoneText::Database {
            let database = self.elsewhere.changes.as_ref().and_then(|changes| changes.database());
            return Looked::Local(database.and_then(|of| of.load(&load.spec.apex, &self.key)));
        }
        let store = self.elsewhere.secondaries.as_ref();
        let kept = store.and_then(|store| store.load(&load.spec.apex, &self.key));
        let kept = kept.filter(|kept| may_be_served(&load.spec, kept));
        match self.stored(load, begun) {
            Some(Looked::Stored(signed, _)) => Looked::Kept(kept, Some(signed)),
            Some(bad) => bad,
            None => Looked::Kept(kept, None),
        }
    }

    fn read(&self, load: &Load, threads: usize, progress: &AtomicU64) -> Looked {
        if load.known.as_ref().is_some_and(|known| known.iter().all(FileStamp::is_current)) {
            return Looked::Unchanged;
        }
        let begun = Instant::now();
        if matches!(load.spec.text, ZoneText::Primaries | ZoneText::Database) {
            return self.kept(load, begun);
        }
        if let Some(looked) = self.stored(load, begun) {
            return looked;
        }
        let images = self.elsewhere.images.as_ref();
        if let Some((zone, provenance)) =
            images.filter(|_| load.image).and_then(|images| images.read(&load.spec, threads))
        {
            if let Some(fault) = load.spec.objection(&zone) {
                let stamps = provenance.sources.iter().map(FileStamp::of_source).collect();
                return Looked::Bad { fault, stamps };
            }
            return Looked::Loaded(Box::new(Reading {
                stamps: provenance.sources.iter().map(FileStamp::of_source).collect(),
                at: SystemTime::now(),
                took: begun.elapsed(),
                step: load.step(load.serving.as_deref(), &zone).map(Arc::new),
                zone: Arc::new(zone),
                warnings: Vec::new(),
                warning_count: usize::try_from(provenance.warnings).unwrap_or(usize::MAX),
                provenance: None,
            }));
        }
        // The stamps are taken before reading: a file that changes meanwhile is read again next time.
        let mut stamps: Vec<FileStamp> = match &load.spec.text {
            ZoneText::File(path) => vec![FileStamp::of(Arc::clone(path))],
            ZoneText::BuiltIn(_)
            | ZoneText::Disputed(_)
            | ZoneText::Primaries
            | ZoneText::Produced
            | ZoneText::Database => Vec::new(),
        };
        // At a start with changed text: secondaries have the version that was served before.
        let earlier =
            match load.serving.is_none() && load.image && load.spec.differences.from_records.is_some() {
                true => images.and_then(|images| images.read_earlier(&load.spec, threads)),
                false => None,
            };
        // A zone with another hash key cannot be compared.
        let served = load.serving.as_deref().or(earlier.as_ref()).filter(|served| *served.key() == self.key);
        match text::build(&load.spec, &self.key, served, &self.meter, progress) {
            Ok(loaded) => {
                stamps.extend(loaded.included.iter().map(|path| FileStamp::of(path.as_path())));
                if let Some(fault) = load.spec.objection(&loaded.zone) {
                    return Looked::Bad { fault, stamps: stamps.into() };
                }
                let zone = Arc::new(loaded.zone);
                let wanted = images.is_some_and(|images| images.wants(&load.spec, &zone));
                Looked::Loaded(Box::new(Reading {
                    stamps: stamps.into(),
                    at: SystemTime::now(),
                    took: begun.elapsed(),
                    step: loaded.step.or_else(|| load.step(served, &zone)).map(Arc::new),
                    warning_count: loaded.warnings.len(),
                    warnings: loaded.warnings,
                    provenance: loaded.provenance.filter(|_| wanted),
                    zone,
                }))
            }
            Err(fault) => Looked::Bad { fault: Arc::new(fault), stamps: stamps.into() },
        }
    }
}

/// Whether a version stored in an earlier run may go into service.
fn may_be_served(spec: &ZoneSpec, kept: &KeptVersion) -> bool {
    let refusal = spec.refusal(&kept.zone);
    if let Some(fault) = &refusal {
        let serial = kept.zone.serial();
        warn!("zone {}: version {serial} in the state folder does not go into service: {fault}", spec.apex);
    }
    refusal.is_none()
}

impl ReadZone for ZoneReader {
    fn look(&self, load: &Load, threads: usize, progress: &AtomicU64) -> Looked {
        self.read(load, threads, progress)
    }
}
