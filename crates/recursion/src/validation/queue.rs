//! The queue to the validating threads: answers from the thread that asks other servers, and what validating
//! has asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use dnssec::{Need, Response};
use resolver::{Answer, Budget, ClientPrefix, LookupOutcome, QueryKey};

use super::quota::ValidationQuota;
use crate::completion::Who;

/// An answer whose waiter is not to have it before it is validated.
pub(crate) struct Candidate {
    pub(crate) answer: Arc<Answer>,
    /// What was asked, with CD clear.
    pub(crate) query_key: QueryKey,
    /// Where the client is.
    pub(crate) client: ClientPrefix,
    /// What DS and DNSKEY are paid from, if no other candidate came first.
    pub(crate) budget: Budget,
    /// What the work is paid from, likewise.
    pub(crate) quota: ValidationQuota,
    /// The waiter.
    pub(crate) who: Who,
    /// Its place among all that wait.
    pub(crate) _place: Place,
}

/// DS or DNSKEY that validating has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) need: Need,
    /// Those that came first are bogus: another server is asked.
    pub(crate) again: bool,
}

/// DS or DNSKEY that came.
pub(crate) struct Came {
    pub(crate) response: Response,
    /// The same as it came.
    pub(crate) answer: Arc<Answer>,
}

/// What there is to do.
pub(crate) enum Task {
    /// An answer came.
    Validate(Box<Candidate>),
    /// What was needed came, or cannot be had.
    Found(Wanted, LookupOutcome),
    /// The same for one of the validations that need it: another has learned from it already, most likely.
    Resume(u64, Wanted, Arc<Came>),
    /// The second answer of a validation came, or cannot be had.
    Second(u64, LookupOutcome),
}

/// What a thread that waits for a task gets.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Next {
    /// A task.
    Task(Task),
    /// The time has come, and there is no task.
    Late,
    /// There will be none any more.
    Closed,
}

/// Tasks, in the order of their coming. Clients have a bounded number of places; what validating has asked
/// for always finds one, since without it those places would never be free again.
#[derive(Default)]
pub(crate) struct Queue {
    tasks: Mutex<Tasks>,
    came: Condvar,
    taken: Arc<Mutex<Taken>>,
}

/// The places that are taken: a zone whose keys are long in coming must not let one network take them all.
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
    /// Of these, those that were called and have not looked yet.
    called: usize,
}

/// The place of one who waits, from the queue to the end of the validation.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// A place for one who waits, if fewer than `most` have one, and of its network fewer than
    /// `most_of_network`.
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

    /// How many have a place.
    pub(crate) fn clients(&self) -> usize {
        lock(&self.taken).all
    }

    /// Has an answer validated.
    pub(crate) fn put(&self, candidate: Candidate) {
        self.push(Task::Validate(Box::new(candidate)));
    }

    /// The outcome of a question for DS or DNSKEY.
    pub(crate) fn found(&self, wanted: Wanted, outcome: LookupOutcome) {
        self.push(Task::Found(wanted, outcome));
    }

    /// The same, for one more validation that needs it.
    pub(crate) fn resume(&self, id: u64, wanted: Wanted, came: Arc<Came>) {
        self.push(Task::Resume(id, wanted, came));
    }

    /// The outcome of a question for a second answer.
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
        // A call is a system call. Threads that work look for the next task by themselves, and those that
        // were called take all that there is by then.
        let calls = tasks.called < tasks.idle.min(tasks.waiting.len());
        tasks.called += usize::from(calls);
        drop(tasks);
        if calls {
            self.came.notify_one();
        }
    }

    /// The next task, if there is one.
    pub(crate) fn next(&self) -> Option<Task> {
        lock(&self.tasks).waiting.pop_front()
    }

    /// The next task, as soon as there is one before `until`.
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
            // If it was another that was called, that one finds nothing, or is called once more.
            (tasks.idle, tasks.called) = (tasks.idle - 1, tasks.called.saturating_sub(1));
        }
    }

    /// Nothing is taken any more, and what is there is dropped.
    pub(crate) fn close(&self) {
        let mut tasks = lock(&self.tasks);
        tasks.closed = true;
        let dropped = std::mem::take(&mut tasks.waiting);
        drop(tasks);
        self.came.notify_all();
        drop(dropped);
    }
}
