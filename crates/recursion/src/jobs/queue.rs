//! The queue to the validation threads: answers from the resolver's thread, and the data that validations
//! requested.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use resolver::{Budget, ClientPrefix, LookupOutcome, QueryKey, ScrubbedAnswer};
use validator::Response;

use crate::quota::ValidationQuota;
use crate::sync::lock;
use crate::waiter::{WaiterKind, Wanted};

/// An answer that must be validated before its waiter gets it.
pub(crate) struct Candidate {
    pub(crate) answer: Arc<ScrubbedAnswer>,
    /// The query, with CD clear.
    pub(crate) query_key: QueryKey,
    /// The client's network.
    pub(crate) client: ClientPrefix,
    /// Pays for lookups of DS and DNSKEY, if this is the job's first candidate.
    pub(crate) budget: Budget,
    /// Pays for the validation work, if this is the job's first candidate.
    pub(crate) quota: ValidationQuota,
    /// The waiter.
    pub(crate) waiter: WaiterKind,
    /// Its place in the count of waiting clients.
    pub(crate) _place: Place,
}

/// DS or DNSKEY received.
pub(crate) struct Came {
    pub(crate) response: Response,
    /// The answer that `response` was read from.
    pub(crate) answer: Arc<ScrubbedAnswer>,
}

/// A task for a validation thread.
pub(crate) enum Task {
    /// An answer to validate.
    Validate(Box<Candidate>),
    /// The outcome of a lookup of DS or DNSKEY.
    Found(Wanted, LookupOutcome),
    /// DS or DNSKEY for one of the validations that need it: most likely another one has cached its keys by
    /// now.
    Resume(u64, Wanted, Arc<Came>),
    /// The outcome of the lookup of a validation's second answer.
    Second(u64, LookupOutcome),
}

/// The result of waiting for a task.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Next {
    /// A task.
    Task(Task),
    /// The time limit passed without a task.
    Late,
    /// The queue is closed.
    Closed,
}

/// Tasks in order of arrival. The number of clients is bounded; requested data is always queued, since
/// without it the clients' places would never be free again.
#[derive(Default)]
pub(crate) struct Queue {
    tasks: Mutex<Tasks>,
    came: Condvar,
    taken: Arc<Mutex<Taken>>,
}

/// The places in use: a zone with slow servers must not let one network take all of them.
#[derive(Default)]
struct Taken {
    all: usize,
    by_network: HashMap<ClientPrefix, usize>,
}

#[derive(Default)]
struct Tasks {
    waiting: VecDeque<Task>,
    closed: bool,
    /// Threads that wait for a task.
    idle: usize,
    /// Of these, threads that were notified and have not run yet.
    called: usize,
}

/// A waiter's place, from the queue to the end of its validation.
pub(crate) struct Place {
    taken: Arc<Mutex<Taken>>,
    network: ClientPrefix,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        if let Some(own) = taken.by_network.get_mut(&self.network) {
            *own -= 1;
            if *own == 0 {
                taken.by_network.remove(&self.network);
            }
        }
    }
}

impl Queue {
    /// Takes a place, if fewer than `most` are in use, and fewer than `most_of_network` by this network.
    pub(crate) fn place(&self, network: ClientPrefix, most: usize, most_of_network: usize) -> Option<Place> {
        let mut taken = lock(&self.taken);
        let own = taken.by_network.get(&network).copied().unwrap_or_default();
        if taken.all >= most || own >= most_of_network {
            return None;
        }
        taken.all += 1;
        taken.by_network.insert(network, own + 1);
        Some(Place { taken: Arc::clone(&self.taken), network })
    }

    /// Returns the number of places in use.
    pub(crate) fn clients(&self) -> usize {
        lock(&self.taken).all
    }

    /// Queues an answer for validation.
    pub(crate) fn put(&self, candidate: Candidate) {
        self.push(Task::Validate(Box::new(candidate)));
    }

    /// Queues the outcome of a lookup of DS or DNSKEY.
    pub(crate) fn found(&self, wanted: Wanted, outcome: LookupOutcome) {
        self.push(Task::Found(wanted, outcome));
    }

    /// Queues received DS or DNSKEY for one more validation that needs them.
    pub(crate) fn resume(&self, id: u64, wanted: Wanted, came: Arc<Came>) {
        self.push(Task::Resume(id, wanted, came));
    }

    /// Queues the outcome of the lookup of a second answer.
    pub(crate) fn second(&self, id: u64, outcome: LookupOutcome) {
        self.push(Task::Second(id, outcome));
    }

    fn push(&self, task: Task) {
        let mut tasks = lock(&self.tasks);
        if tasks.closed {
            // Dropped without the lock: the drop notifies the waiter.
            drop(tasks);
            return drop(task);
        }
        tasks.waiting.push_back(task);
        // Notifying is a system call. Busy threads take the next task themselves, and notified threads take
        // every task that is queued by then.
        let calls = tasks.called < tasks.idle.min(tasks.waiting.len());
        tasks.called += usize::from(calls);
        drop(tasks);
        if calls {
            self.came.notify_one();
        }
    }

    /// Takes the next task, if there is one.
    pub(crate) fn next(&self) -> Option<Task> {
        lock(&self.tasks).waiting.pop_front()
    }

    /// Waits for the next task until `until`.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Next {
        let mut tasks = lock(&self.tasks);
        loop {
            if tasks.closed {
                return Next::Closed;
            }
            if let Some(task) = tasks.waiting.pop_front() {
                return Next::Task(task);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Next::Late;
            }
            tasks.idle += 1;
            tasks = match left {
                None => self.came.wait(tasks).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.came.wait_timeout(tasks, left).unwrap_or_else(PoisonError::into_inner).0,
            };
            // If another thread was notified, it finds no task, or is notified once more.
            (tasks.idle, tasks.called) = (tasks.idle - 1, tasks.called.saturating_sub(1));
        }
    }

    /// Closes the queue and drops all tasks.
    pub(crate) fn close(&self) {
        let mut tasks = lock(&self.tasks);
        tasks.closed = true;
        let dropped = std::mem::take(&mut tasks.waiting);
        drop(tasks);
        self.came.notify_all();
        drop(dropped);
    }
}
