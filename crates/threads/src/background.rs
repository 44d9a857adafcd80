//! Background work: folding and compacting zones, writing them to disk, reading stored changes, signing. A
//! bounded number of threads runs all of it, so that zones that change at once do not each start a thread.
//!
//! The lanes never wait for each other: the disk lane has reads and writes that clients or acknowledgements
//! wait for, the signing lane changes of signed zones that they wait for, the spare lane work that nothing
//! waits for and that runs at low priority.
//!
//! Metrics count the jobs by kind.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::setpriority_process;
use sandbox::kinds::{ThreadKind, confine};
use tracing::error;

use crate::starter::Starter;
use crate::sync::lock;

/// Time that an idle thread waits for a job before it ends.
const IDLE_THREAD_LIFETIME: Duration = Duration::from_secs(5);
/// Number of threads of the disk lane. Its jobs wait for the disk more than they compute.
const DISK_THREADS: usize = 8;
/// Nice value of the spare lane: its threads receive about a tenth of a contended CPU.
const SPARE_NICE: i32 = 10;

/// The kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Reads the changes of a zone for IXFR.
    History,
    /// Writes versions of zones to their stores.
    Store,
    /// Folds the changes of a zone into a new base in memory.
    Fold,
    /// Writes a new base of a zone's store.
    Compaction,
    /// Decides and signs changes of a zone.
    Sign,
    /// Renews signatures of a zone.
    Renew,
}

impl JobKind {
    /// Every kind.
    pub const ALL: [JobKind; 6] =
        [Self::History, Self::Store, Self::Fold, Self::Compaction, Self::Sign, Self::Renew];

    /// Returns the name of the kind in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Store => "store",
            Self::Fold => "fold",
            Self::Compaction => "compaction",
            Self::Sign => "sign",
            Self::Renew => "renew",
        }
    }

    fn lane(self) -> usize {
        match self {
            Self::History | Self::Store => 0,
            Self::Fold | Self::Compaction | Self::Renew => 1,
            Self::Sign => 2,
        }
    }
}

/// Counters of the jobs of one kind.
#[derive(Debug, Default)]
pub struct JobCounts {
    /// Jobs that wait for a thread.
    pub waiting: AtomicU64,
    /// Jobs that run.
    pub running: AtomicU64,
    /// Jobs that have ended.
    pub done: AtomicU64,
}

type Job = (JobKind, Box<dyn FnOnce() + Send>);

/// The threads and their jobs.
pub struct Background {
    lanes: [Lane; 3],
    counts: [JobCounts; JobKind::ALL.len()],
}

struct Lane {
    name: &'static str,
    /// Largest number of threads.
    limit: usize,
    nice: Option<i32>,
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl Lane {
    fn new(name: &'static str, limit: usize, nice: Option<i32>) -> Self {
        Lane { name, limit, nice, queue: Mutex::default(), more: Condvar::new() }
    }
}

impl Default for Background {
    fn default() -> Self {
        let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Background::limited(DISK_THREADS, cpus.div_ceil(2), cpus)
    }
}

impl Background {
    /// Returns background work without threads; each starts when there is a job for it.
    pub fn new() -> Arc<Background> {
        Arc::default()
    }

    /// One that starts no thread: jobs wait until [`run_waiting`](Self::run_waiting) runs them. For
    /// simulations, which decide in which order jobs end.
    pub fn without_threads() -> Arc<Background> {
        Arc::new(Background::limited(0, 0, 0))
    }

    /// Runs one of the waiting jobs on this thread. `choose` gets their number, and returns one from 0.
    /// Returns false if no job waits.
    pub fn run_waiting(&self, choose: impl FnOnce(usize) -> usize) -> bool {
        let waiting = self.lanes.each_ref().map(|lane| lock(&lane.queue).jobs.len());
        let all = waiting.iter().sum();
        if all == 0 {
            return false;
        }
        let mut chosen = choose(all);
        for (lane, waiting) in self.lanes.iter().zip(waiting) {
            if chosen < waiting {
                let job = lock(&lane.queue).jobs.remove(chosen);
                job.into_iter().for_each(|job| self.run_now(job));
                break;
            }
            chosen -= waiting;
        }
        true
    }

    fn limited(disk: usize, spare: usize, signing: usize) -> Background {
        let lanes = [
            Lane::new("disk", disk, None),
            Lane::new("spare", spare, Some(SPARE_NICE)),
            Lane::new("signing", signing, None),
        ];
        Background { lanes, counts: Default::default() }
    }

    /// Queues a job. Jobs of a lane start in order of arrival. If the system refuses the first thread of a
    /// lane, the caller runs the job.
    pub fn run(self: &Arc<Self>, kind: JobKind, job: impl FnOnce() + Send + 'static) {
        let lane = &self.lanes[kind.lane()];
        let mut queue = lock(&lane.queue);
        self.counts(kind).waiting.fetch_add(1, Relaxed);
        queue.jobs.push_back((kind, Box::new(job)));
        if queue.idle >= queue.jobs.len() || queue.threads >= lane.limit {
            drop(queue);
            lane.more.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let all = Arc::clone(self);
        let work = move || all.work(kind.lane());
        if Starter::start(lane.name, work).is_err() {
            let mut queue = lock(&lane.queue);
            queue.threads -= 1;
            let job = if queue.threads == 0 { queue.jobs.pop_back() } else { None };
            drop(queue);
            job.into_iter().for_each(|job| self.run_now(job));
        }
    }

    /// Returns the counters of a kind.
    pub fn counts(&self, kind: JobKind) -> &JobCounts {
        &self.counts[kind as usize]
    }

    fn work(&self, lane: usize) {
        confine(ThreadKind::Files);
        let lane = &self.lanes[lane];
        if let Some(nice) = lane.nice {
            // On Linux, the priority is that of the thread.
            let _ = setpriority_process(None, nice);
        }
        while let Some(job) = Self::next(lane) {
            self.run_now(job);
        }
    }

    fn next(lane: &Lane) -> Option<Job> {
        let mut queue = lock(&lane.queue);
        queue.idle += 1;
        let wait = lane.more.wait_timeout_while(queue, IDLE_THREAD_LIFETIME, |queue| queue.jobs.is_empty());
        let (mut queue, _) = wait.unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
        let job = queue.jobs.pop_front();
        queue.threads -= usize::from(job.is_none());
        job
    }

    fn run_now(&self, (kind, job): Job) {
        let counts = self.counts(kind);
        counts.waiting.fetch_sub(1, Relaxed);
        counts.running.fetch_add(1, Relaxed);
        // A panic is a bug in nomen. It costs this job, whose result is then missing, but no other.
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            error!("background work failed inside nomen; this is a bug kind={}", kind.word());
        }
        counts.running.fetch_sub(1, Relaxed);
        counts.done.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::{channel, sync_channel};

    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn a_thousand_zones_that_fold_at_once_share_the_threads_of_their_lane() {
        let background = Arc::new(Background::limited(1, 3, 1));
        let (ended, all_ended) = channel();
        for _ in 0..1000 {
            let ended = ended.clone();
            background.run(JobKind::Fold, move || ended.send(thread::current().id()).expect("counted"));
        }
        let threads: HashSet<_> = (0..1000).map(|_| all_ended.recv().expect("it ends")).collect();
        assert!((1..=3).contains(&threads.len()), "{} threads", threads.len());
        while background.counts(JobKind::Fold).done.load(Relaxed) < 1000 {
            thread::yield_now();
        }
        let counts = background.counts(JobKind::Fold);
        assert_eq!((counts.waiting.load(Relaxed), counts.running.load(Relaxed)), (0, 0));
    }

    #[test]
    fn a_read_does_not_wait_for_compactions() {
        let background = Arc::new(Background::limited(1, 1, 1));
        let (go, wait) = sync_channel::<()>(0);
        background.run(JobKind::Compaction, move || wait.recv().unwrap_or_default());
        while background.counts(JobKind::Compaction).running.load(Relaxed) == 0 {
            thread::yield_now();
        }
        background.run(JobKind::Compaction, || ());
        let (read, is_read) = channel();
        background.run(JobKind::History, move || read.send(7).expect("read"));
        assert_eq!(is_read.recv(), Ok(7));
        assert_eq!(background.counts(JobKind::Compaction).waiting.load(Relaxed), 1);
        go.send(()).expect("it waits");
    }

    #[test]
    fn a_job_that_panics_costs_no_other_and_spare_work_has_a_lower_priority() {
        let background = Arc::new(Background::limited(1, 1, 1));
        background.run(JobKind::Fold, || panic!("a bug"));
        let (sender, nice) = channel();
        background.run(JobKind::Fold, move || {
            sender.send(getpriority_process(None).expect("a priority")).expect("sent");
        });
        let own = getpriority_process(None).expect("a priority");
        assert_eq!(nice.recv(), Ok(own.max(SPARE_NICE)));
    }
}
