//! Putting zones into service: reading what changed over all CPUs, keeping the last good version of what
//! failed, and swapping the catalog once. One thread does this, one reload at a time; requests that come in
//! meanwhile are answered by one further reload together.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::oneshot;
use tracing::{error, info, warn};
use wire::hash::HashKey;
use zone::Zone;
use zone::image::Making;

use super::images::{self, Images};
use super::load::{self, Loaded, Meter};
use super::{Apex, FileStamp, Origin, ZoneSpec, ZoneState, ZoneTable};
use crate::app::App;

/// Loads that take longer than this show how far they are.
const QUIET: Duration = Duration::from_secs(1);

/// How often replaced catalogs are looked at, to see whether workers have let go of them.
const RETIREMENT: Duration = Duration::from_millis(100);

/// What a reload did, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Zones that are served or should be.
    pub zones: usize,
    /// Zones whose file was read with success.
    pub loaded: usize,
    /// Zones that look unchanged and were not read.
    pub unchanged: usize,
    /// Zones whose file is bad: served in their last good version, if there is one.
    pub failed: usize,
    /// Zones that are no longer served.
    pub removed: usize,
    /// Time it took, in milliseconds.
    pub milliseconds: u64,
}

/// What a load came to.
pub struct Outcomes {
    /// Every zone.
    pub table: ZoneTable,
    /// The same in numbers.
    pub summary: Summary,
    /// Images that should be written once the table is in service.
    pub orders: Vec<images::Order>,
}

/// Reads every zone of `specs` that is new, changed or forced, from its image where that is current and nothing is
/// forced.
pub fn load_all(
    specs: Vec<ZoneSpec>,
    old: &ZoneTable,
    key: &HashKey,
    images: Option<&Images>,
    force: impl Fn(&Apex) -> bool + Sync,
) -> Outcomes {
    let begun = Instant::now();
    let mut summary = Summary { zones: specs.len(), ..Summary::default() };
    summary.removed = old.len() - specs.iter().filter(|s| old.contains_key(&s.apex)).count();
    let next = AtomicUsize::new(0);
    let (done, meter) = (AtomicUsize::new(0), Meter::default());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = cpus.min(specs.len().max(1));
    let loader = Loader { key, images, meter: &meter, threads: cpus / workers };
    let results: Vec<Vec<(Arc<ZoneState>, Outcome)>> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            while let Some(spec) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
                mine.push(loader.load_one(spec, old.get(&spec.apex), force(&spec.apex)));
                done.fetch_add(1, Ordering::Relaxed);
            }
            mine
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        show_progress(begun, &done, &meter, specs.len(), || threads.iter().all(|t| t.is_finished()));
        // A loader that panicked loses its share; those zones keep their last version below.
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    });
    let mut table = ZoneTable::with_capacity(specs.len());
    let mut orders = Vec::new();
    for (state, outcome) in results.into_iter().flatten() {
        match outcome {
            Outcome::Loaded(order) => {
                summary.loaded += 1;
                orders.extend(order);
            }
            Outcome::Unchanged => summary.unchanged += 1,
            Outcome::Failed => summary.failed += 1,
        }
        table.insert(state.spec.apex.clone(), state);
    }
    for spec in specs {
        if let Entry::Vacant(missing) = table.entry(spec.apex.clone()) {
            summary.failed += 1;
            let fault: Arc<str> = "reading the zone failed inside nomen; this is a bug".into();
            error!("zone {}: {fault}", spec.name());
            missing.insert(Arc::new(failed(&spec, old.get(&spec.apex), fault, Vec::new())));
        }
    }
    summary.milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Outcomes { table, summary, orders }
}

enum Outcome {
    /// With the image to be written.
    Loaded(Option<images::Order>),
    Unchanged,
    Failed,
}

/// What reading a zone takes.
struct Loader<'l> {
    key: &'l HashKey,
    images: Option<&'l Images>,
    meter: &'l Meter,
    /// Threads for one image.
    threads: usize,
}

impl Loader<'_> {
    fn load_one(
        &self,
        spec: &ZoneSpec,
        old: Option<&Arc<ZoneState>>,
        force: bool,
    ) -> (Arc<ZoneState>, Outcome) {
        if let Some(old) = old
            && !force
            && old.spec == *spec
            && !old.is_stale()
        {
            return (Arc::clone(old), Outcome::Unchanged);
        }
        // Looked at before reading: a file that changes meanwhile is read again next time.
        let stamps = match &spec.origin {
            Origin::File(path) => vec![FileStamp::of(path)],
            Origin::BuiltIn(_) => Vec::new(),
        };
        let image = self.images.filter(|_| !force).and_then(|images| images.load(spec, self.threads));
        if let Some((zone, making)) = image {
            return (Arc::new(from_image(spec, zone, &making)), Outcome::Loaded(None));
        }
        match load::load(spec, self.key, self.meter) {
            Ok(mut loaded) => {
                let making = loaded.making.take();
                let state = accept(spec, loaded, stamps);
                let order = making.and_then(|making| self.order(&state, making));
                (Arc::new(state), Outcome::Loaded(order))
            }
            Err(fault) => {
                let served = old.and_then(|o| o.zone.as_ref());
                let consequence = match served {
                    Some(zone) => format!("serial {} stays in service", zone.serial()),
                    None => "it is answered with SERVFAIL".into(),
                };
                error!("zone {} is bad, {consequence}:\n{fault}", spec.name());
                let state = failed(spec, old, fault.into(), stamps);
                (Arc::new(state), Outcome::Failed)
            }
        }
    }

    /// The image that a zone read from text should have.
    fn order(&self, state: &ZoneState, making: Making) -> Option<images::Order> {
        let zone =
            state.zone.as_ref().filter(|zone| self.images.is_some_and(|i| i.wants(&state.spec, zone)))?;
        Some(images::Order { spec: state.spec.clone(), zone: Arc::clone(zone), making })
    }
}

/// The state of a zone whose image was found current: its files are those that the image was made from.
fn from_image(spec: &ZoneSpec, zone: Zone, making: &Making) -> ZoneState {
    ZoneState {
        spec: spec.clone(),
        zone: Some(Arc::new(zone)),
        stamps: making.sources.iter().map(FileStamp::of_source).collect(),
        loaded: Some(SystemTime::now()),
        fault: None,
        warnings: usize::try_from(making.warnings).unwrap_or(usize::MAX),
    }
}

fn accept(spec: &ZoneSpec, loaded: Loaded, mut stamps: Vec<FileStamp>) -> ZoneState {
    for warning in &loaded.warnings {
        warn!("zone {}: {warning}", spec.name());
    }
    stamps.extend(loaded.included.iter().map(|path| FileStamp::of(path)));
    let zone = Arc::new(loaded.zone);
    ZoneState {
        spec: spec.clone(),
        zone: Some(zone),
        stamps,
        loaded: Some(SystemTime::now()),
        fault: None,
        warnings: loaded.warnings.len(),
    }
}

fn failed(
    spec: &ZoneSpec,
    old: Option<&Arc<ZoneState>>,
    fault: Arc<str>,
    stamps: Vec<FileStamp>,
) -> ZoneState {
    ZoneState {
        spec: spec.clone(),
        zone: old.and_then(|o| o.zone.clone()),
        stamps,
        loaded: old.and_then(|o| o.loaded),
        fault: Some(fault),
        warnings: old.map_or(0, |o| o.warnings),
    }
}

/// Tells how far a long load is, as a bar on a terminal and as log lines elsewhere, until it is over.
fn show_progress(
    begun: Instant,
    done: &AtomicUsize,
    meter: &Meter,
    total: usize,
    finished: impl Fn() -> bool,
) {
    let mut bar: Option<ProgressBar> = None;
    let mut told = QUIET;
    let mut nap = Duration::from_micros(200);
    while !finished() {
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(50));
        if begun.elapsed() < QUIET {
            continue;
        }
        let now = done.load(Ordering::Relaxed);
        let records = meter.records.load(Ordering::Relaxed);
        if std::io::stderr().is_terminal() {
            let bar = bar.get_or_insert_with(|| {
                let style = ProgressStyle::with_template(
                    "{spinner} loading zones {wide_bar} {pos}/{len} zones, {msg} records, {elapsed}",
                );
                ProgressBar::new(total as u64)
                    .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            });
            bar.set_position(now as u64);
            bar.set_message(records.to_string());
        } else if begun.elapsed() >= told {
            info!(zones = now, of = total, records, "loading zones");
            told *= 4;
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

/// What can be asked of the reload thread.
pub enum Job {
    /// Read the configuration and changed zones.
    All(Option<oneshot::Sender<Result<Summary, String>>>),
    /// Read one zone whether changed or not.
    Zone(Apex, oneshot::Sender<Result<Summary, String>>),
}

/// Asks for reloads; cheap to clone.
#[derive(Clone)]
pub struct Reloader {
    jobs: Sender<Job>,
}

impl Reloader {
    /// A reloader and the queue its thread works on.
    pub fn new() -> (Self, Receiver<Job>) {
        let (jobs, queue) = channel();
        (Self { jobs }, queue)
    }

    /// Hands over a job; false if the server is stopping.
    pub fn ask(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }
}

/// Works on jobs until every [`Reloader`] is gone.
pub fn work(app: &App, queue: &Receiver<Job>) {
    loop {
        let next = match app.release_retired() {
            true => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => queue.recv_timeout(RETIREMENT),
        };
        let first = match next {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut all = Vec::new();
        let mut zones: HashMap<Apex, Vec<oneshot::Sender<_>>> = HashMap::new();
        let mut whole = false;
        for job in std::iter::once(first).chain(queue.try_iter()) {
            match job {
                Job::All(reply) => {
                    whole = true;
                    all.extend(reply);
                }
                Job::Zone(apex, reply) => zones.entry(apex).or_default().push(reply),
            }
        }
        if whole {
            let result = app.reload();
            for reply in all {
                // Whoever asked may have gone away.
                let _ = reply.send(result.clone());
            }
        }
        for (apex, replies) in zones {
            let result = app.reload_zone(&apex);
            for reply in replies {
                let _ = reply.send(result.clone());
            }
        }
    }
}
