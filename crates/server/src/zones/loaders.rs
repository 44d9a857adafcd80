//! The threads that read zones: as many as there are CPUs while there is work, none otherwise.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Instant, SystemTime};

use wire::hash::HashKey;
use zone::Zone;
use zone::store::{ChangeSet, diff_within};

use super::images::Images;
use super::keeper::{Load, Looked, Reading};
use super::text::{self, Meter};
use super::{Apex, FileStamp, ZoneFault, ZoneText};
use crate::changes::Changes;
use crate::secondaries::SecondaryStore;
use crate::sync::lock;

/// What a load came to, for the keeper of this zone.
#[derive(Debug)]
pub(super) struct LoadEnd {
    /// The zone.
    pub(super) apex: Apex,
    /// The number of the load.
    pub(super) number: u32,
    /// What it came to.
    pub(super) looked: Looked,
}

/// What all loader threads need.
struct Shared {
    key: HashKey,
    images: Option<Arc<Images>>,
    /// Where zones from primaries are kept, if they are.
    store: OnceLock<Arc<SecondaryStore>>,
    /// Where zones are that updates have changed.
    changes: OnceLock<Arc<Changes>>,
    meter: Meter,
    queue: Mutex<LoadQueue>,
}

/// What is to be done and who does it. In one lock: a thread that finds no work is gone by the time that work comes.
#[derive(Default)]
struct LoadQueue {
    /// Work that is not all taken yet, in the order in which it came.
    work: VecDeque<Arc<Work>>,
    /// Threads at work.
    running: usize,
}

/// Loads that were ordered together.
struct Work {
    loads: Vec<Load>,
    next: AtomicUsize,
    /// Threads for one image, where there are fewer loads than CPUs.
    threads: usize,
}

/// Orders loads.
pub(super) struct Loaders {
    shared: Arc<Shared>,
    most: usize,
}

impl Loaders {
    /// Loaders that build zones under `key`, from images where they may.
    pub(super) fn new(key: HashKey, images: Option<Arc<Images>>) -> Self {
        let (store, changes) = (OnceLock::new(), OnceLock::new());
        let shared = Shared { key, images, store, changes, meter: Meter::default(), queue: Mutex::default() };
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        Loaders { shared: Arc::new(shared), most }
    }

    /// Zones from primaries are kept here.
    pub(super) fn read_from(&self, store: Arc<SecondaryStore>) {
        self.shared.store.get_or_init(|| store);
    }

    /// Zones that updates have changed are kept here.
    pub(super) fn read_changed_from(&self, changes: Arc<Changes>) {
        self.shared.changes.get_or_init(|| changes);
    }

    /// How far all loads together have come.
    pub(super) fn meter(&self) -> &Meter {
        &self.shared.meter
    }

    /// Has `loads` done. What each comes to goes to `done`, wrapped by `wrap`.
    pub(super) fn order<M: Send + 'static>(
        &self,
        loads: Vec<Load>,
        done: &Sender<M>,
        wrap: impl Fn(LoadEnd) -> M + Copy + Send + 'static,
    ) {
        let threads = (self.most / loads.len().max(1)).max(1);
        let wanted = loads.len().min(self.most);
        let work = Arc::new(Work { loads, next: AtomicUsize::new(0), threads });
        lock(&self.shared.queue).work.push_back(work);
        for _ in 0..wanted {
            {
                let mut queue = lock(&self.shared.queue);
                if queue.running == self.most {
                    return;
                }
                queue.running += 1;
            }
            let (shared, theirs) = (Arc::clone(&self.shared), done.clone());
            let work = move || shared.work(&|outcome| theirs.send(wrap(outcome)).is_ok());
            if std::thread::Builder::new().name("loader".into()).spawn(work).is_err() {
                // No thread to be had: the work is done here, and whoever ordered it waits.
                return self.shared.work(&|outcome| done.send(wrap(outcome)).is_ok());
            }
        }
    }
}

impl Load {
    /// The step from what is or was served to this zone, if it is found cheaply: where it holds the same, which is only looked into
    /// if the serial number says so, or where differences are kept, if it is short.
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
    /// Does loads until there are none, or nobody wants to hear of them any more.
    fn work(&self, done: &dyn Fn(LoadEnd) -> bool) {
        while let Some((work, i)) = self.take() {
            let load = &work.loads[i];
            // A panic is a bug of ours, and costs this zone its load.
            let looked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.look(load, work.threads)));
            let looked = looked.unwrap_or_else(|_| Looked::Bad {
                fault: Arc::new(ZoneFault::without_place(
                    "reading the zone failed inside nomen; this is a bug",
                )),
                stamps: Arc::new([]),
            });
            if !done(LoadEnd { apex: load.spec.apex.clone(), number: load.number, looked }) {
                lock(&self.queue).running -= 1;
                return;
            }
        }
    }

    /// The next load that nobody has taken. If there is none, the thread that asks counts no longer as running.
    fn take(&self) -> Option<(Arc<Work>, usize)> {
        let mut queue = lock(&self.queue);
        while let Some(work) = queue.work.front() {
            let i = work.next.fetch_add(1, Ordering::Relaxed);
            if i < work.loads.len() {
                return Some((Arc::clone(work), i));
            }
            queue.work.pop_front();
        }
        queue.running -= 1;
        None
    }

    /// What updates have made of the zone, if they have.
    fn stored(&self, load: &Load, begun: Instant) -> Option<Looked> {
        let ZoneText::File(path) = &load.spec.text else { return None };
        let changes = self.changes.get().filter(|_| load.stored)?;
        let stamps: Arc<[FileStamp]> = [FileStamp::of(Arc::clone(path))].into();
        Some(match changes.load(&load.spec.apex, &self.key, path)? {
            Ok(zone) => Looked::Stored(Box::new(Reading {
                stamps,
                at: SystemTime::now(),
                took: begun.elapsed(),
                step: None,
                zone,
                warnings: Vec::new(),
                warning_count: 0,
                provenance: None,
            })),
            Err(fault) => {
                let fault = format!(
                    "what updates have made of the zone cannot be read, and its file is older: {fault}; with the file \
                     in the state folder removed, a reload serves the zone's own file"
                );
                Looked::Bad { fault: Arc::new(ZoneFault::without_place(fault)), stamps }
            }
        })
    }

    fn look(&self, load: &Load, threads: usize) -> Looked {
        if load.known.as_ref().is_some_and(|known| known.iter().all(FileStamp::is_current)) {
            return Looked::Unchanged;
        }
        if load.spec.text == ZoneText::Primaries {
            let store = self.store.get();
            return Looked::Kept(store.and_then(|store| store.load(&load.spec.apex, &self.key)));
        }
        let begun = Instant::now();
        if let Some(looked) = self.stored(load, begun) {
            return looked;
        }
        let images = self.images.as_ref();
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
        // Looked at before reading: a file that changes meanwhile is read again next time.
        let mut stamps: Vec<FileStamp> = match &load.spec.text {
            ZoneText::File(path) => vec![FileStamp::of(Arc::clone(path))],
            ZoneText::BuiltIn(_) | ZoneText::Disputed(_) | ZoneText::Primaries | ZoneText::Produced => {
                Vec::new()
            }
        };
        // At a start with other text: secondaries have what was served before.
        let earlier =
            match load.serving.is_none() && load.image && load.spec.differences.from_records.is_some() {
                true => images.and_then(|images| images.read_earlier(&load.spec, threads)),
                false => None,
            };
        // A zone of another key than ours is none to go on from.
        let served = load.serving.as_deref().or(earlier.as_ref()).filter(|served| *served.key() == self.key);
        match text::build(&load.spec, &self.key, served, &self.meter) {
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
