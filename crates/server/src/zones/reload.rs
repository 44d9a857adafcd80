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

/// Reads every zone of `specs` that is new, changed or forced, and returns the new table.
pub fn load_all(
    specs: Vec<ZoneSpec>,
    old: &ZoneTable,
    key: &HashKey,
    force: impl Fn(&Apex) -> bool + Sync,
) -> (ZoneTable, Summary) {
    let begun = Instant::now();
    let mut summary = Summary { zones: specs.len(), ..Summary::default() };
    summary.removed = old.len() - specs.iter().filter(|s| old.contains_key(&s.apex)).count();
    let next = AtomicUsize::new(0);
    let (done, meter) = (AtomicUsize::new(0), Meter::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(specs.len().max(1));
    let results: Vec<Vec<(Arc<ZoneState>, Outcome)>> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            while let Some(spec) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
                mine.push(load_one(spec, old.get(&spec.apex), key, force(&spec.apex), &meter));
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
    for (state, outcome) in results.into_iter().flatten() {
        match outcome {
            Outcome::Loaded => summary.loaded += 1,
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
    (table, summary)
}

enum Outcome {
    Loaded,
    Unchanged,
    Failed,
}

fn load_one(
    spec: &ZoneSpec,
    old: Option<&Arc<ZoneState>>,
    key: &HashKey,
    force: bool,
    meter: &Meter,
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
    match load::load(spec, key, meter) {
        Ok(loaded) => {
            let state = accept(spec, loaded, stamps);
            (Arc::new(state), Outcome::Loaded)
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
