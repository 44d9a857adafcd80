//! Threads for work that waits, each kept for a while after its work: many short tasks in a row share a few
//! threads and their memory. A new thread needs memory for itself, which costs more than the transfer of a
//! small zone.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::starter::Starter;
use crate::sync::lock;

/// Time that an idle thread waits for more work before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

type Work = Box<dyn FnOnce() + Send>;

/// A pool of threads without an upper bound.
pub struct KeptThreads {
    name: &'static str,
    kept: Duration,
    waiting: Mutex<Waiting>,
    more: Condvar,
}

/// Queued work and idle threads.
#[derive(Default)]
struct Waiting {
    /// Work that idle threads will take; never more than there are idle threads.
    work: VecDeque<Work>,
    /// Number of idle threads.
    threads: usize,
}

impl KeptThreads {
    /// Returns a pool without threads. Work must not panic: a thread whose work panics is lost, but nothing
    /// else.
    pub fn new(name: &'static str) -> Arc<Self> {
        Self::kept_for(name, IDLE_TIMEOUT)
    }

    fn kept_for(name: &'static str, kept: Duration) -> Arc<Self> {
        Arc::new(KeptThreads { name, kept, waiting: Mutex::default(), more: Condvar::new() })
    }

    /// Runs work at once, on an idle thread or on a new one; returns false if the system refuses a thread.
    pub fn run(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.threads > waiting.work.len() {
            waiting.work.push_back(Box::new(work));
            drop(waiting);
            self.more.notify_one();
            return true;
        }
        drop(waiting);
        let all = Arc::clone(self);
        let begun = Starter::start(self.name, move || {
            work();
            while let Some(work) = all.next() {
                work();
            }
        });
        begun.is_ok()
    }

    /// Returns more work; `None` if none arrives in time.
    fn next(&self) -> Option<Work> {
        let mut waiting = lock(&self.waiting);
        waiting.threads += 1;
        let wait = self.more.wait_timeout_while(waiting, self.kept, |waiting| waiting.work.is_empty());
        let (mut waiting, _) = wait.unwrap_or_else(PoisonError::into_inner);
        waiting.threads -= 1;
        waiting.work.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn work_that_follows_is_done_by_the_same_thread() {
        // However slow the machine is, no thread ends in between.
        let threads = KeptThreads::kept_for("kept", Duration::from_secs(3600));
        let mut seen = HashSet::new();
        for _ in 0..100 {
            let (done, is_done) = channel();
            assert!(threads.run(move || done.send(thread::current().id()).expect("the receiver waits")));
            seen.insert(is_done.recv().expect("it is done"));
            // A thread counts as idle only once it has registered itself.
            while lock(&threads.waiting).threads == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(seen.len(), 1);
    }

    #[test]
    fn work_that_waits_holds_no_other_up() {
        let threads = KeptThreads::new("kept");
        let (sender, receivers) = channel::<u8>();
        let receivers = Arc::new(Mutex::new(receivers));
        // Each task but the last waits for a message of the next one.
        let (ended, all_ended) = channel();
        for number in 0..8 {
            let (sender, receivers, ended) = (sender.clone(), Arc::clone(&receivers), ended.clone());
            threads.run(move || {
                match number {
                    7 => (0..7).for_each(|_| sender.send(1).expect("sent")),
                    _ => drop(lock(&receivers).recv()),
                }
                ended.send(number).expect("the receiver counts");
            });
        }
        let mut all: Vec<i32> = (0..8).map(|_| all_ended.recv().expect("it ended")).collect();
        all.sort_unstable();
        assert_eq!(all, (0..8).collect::<Vec<_>>());
    }
}
