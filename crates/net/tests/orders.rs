//! Every order in which threads may drive a core, as far as the memory model allows it: the protocol of
//! `src/outgoing/desk.rs` and `src/outgoing/outbound.rs`, compiled against locks and atomics that try all
//! orders. Time passes only for a thread that sleeps with a timeout; a thread that sleeps without one and
//! should have been woken is a deadlock, which the model reports.

/// The synchronization primitives, in the model.
mod sync {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use loom::sync::Condvar;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread_local;

    /// The model has no links.
    pub(crate) struct Events;

    impl Events {
        pub(crate) fn with_capacity(_: usize) -> Events {
            Events
        }
    }

    /// What wakes a sleeping thread.
    struct Bell {
        rung: Mutex<bool>,
        heard: Condvar,
    }

    pub(crate) struct Waker(Arc<Bell>);

    impl Waker {
        pub(crate) fn wake(&self) -> io::Result<()> {
            *self.0.rung.lock().expect("no thread panics") = true;
            self.0.heard.notify_one();
            Ok(())
        }
    }

    /// The core's thread sleeps here.
    pub(crate) struct Poll(Arc<Bell>);

    impl Poll {
        pub(crate) fn with_waker() -> (Poll, Waker) {
            let bell = Arc::new(Bell { rung: Mutex::new(false), heard: Condvar::new() });
            (Poll(Arc::clone(&bell)), Waker(bell))
        }

        /// Sleeps until the waker has been called, or until the timeout if there is one.
        pub(crate) fn poll(&mut self, _: &mut Events, wait: Option<Duration>) -> io::Result<()> {
            let bell = &self.0;
            let mut rung = bell.rung.lock().expect("no thread panics");
            while !*rung && wait.is_none() {
                rung = bell.heard.wait(rung).expect("no thread panics");
            }
            *rung = false;
            Ok(())
        }
    }
}

/// All requests are alike, and only counted.
mod client_queues {
    use super::sync::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    #[derive(Clone, Copy)]
    pub(crate) struct ClientQueue;

    pub(crate) struct Waiting(AtomicUsize);

    impl Default for Waiting {
        fn default() -> Waiting {
            Waiting(AtomicUsize::new(0))
        }
    }

    impl Waiting {
        pub(crate) fn add(&self, _: ClientQueue) {
            self.0.fetch_add(1, Relaxed);
        }

        pub(crate) fn remove(&self, _: ClientQueue) {
            self.0.fetch_sub(1, Relaxed);
        }

        pub(crate) fn all(&self) -> usize {
            self.0.load(Relaxed)
        }
    }
}

/// The model has no links: a worker receives nothing and has nothing to carry out.
mod links {
    use std::io;
    use std::os::fd::RawFd;

    use crate::ready::Ready;

    pub(crate) struct WorkerLinks;

    impl WorkerLinks {
        pub(crate) fn new() -> io::Result<WorkerLinks> {
            Ok(WorkerLinks)
        }

        pub(crate) fn is_open(&self) -> bool {
            false
        }

        pub(crate) fn read_links(&mut self, _most: usize) {}

        pub(crate) fn carry_out(&mut self, goes_on: bool) -> bool {
            goes_on
        }

        pub(crate) fn forget(&mut self) {}

        pub(crate) fn tidy(&mut self) {}

        pub(crate) fn idle(&mut self) {}

        pub(crate) fn look(&mut self) {}

        pub(crate) fn found(&mut self, _: Ready) {}

        pub(crate) fn descriptors(&self) -> &[RawFd] {
            &[]
        }
    }
}

#[path = "../src/outgoing/desk.rs"]
#[allow(dead_code, unreachable_pub, reason = "the test needs a part of it")]
mod desk;
#[path = "../src/outgoing/outbound.rs"]
#[allow(dead_code, reason = "the test needs a part of it")]
mod outbound;
#[path = "../src/ready.rs"]
#[allow(dead_code, reason = "the test needs a part of it")]
mod ready;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use client_queues::{ClientQueue, Waiting};
use desk::{Desk, Queue, Shared, Sleep, Turned};
use links::WorkerLinks;
use loom::sync::Condvar;
use loom::thread;
use outbound::WorkerOutbound;
use sync::{AtomicBool, AtomicUsize, Events, Mutex, Poll};

/// A queue of requests that are all alike. It orders nothing by itself: a thread that reads it may see an
/// older state.
struct Line(AtomicUsize);

impl Line {
    fn new() -> Arc<Line> {
        Arc::new(Line(AtomicUsize::new(0)))
    }

    fn push(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Takes up to `most`; one thread takes at a time.
    fn take(&self, most: usize, waiting: &Waiting) -> usize {
        let taken = self.0.load(Relaxed).min(most);
        self.0.fetch_sub(taken, Relaxed);
        (0..taken).for_each(|_| waiting.remove(ClientQueue));
        taken
    }
}

/// What has been done, for the thread that waits for it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Done {
    /// Requests acted on.
    requests: usize,
    /// Deadlines that have passed.
    deadlines: usize,
}

/// A small core and its driver: requests are counted, and each sets a deadline if the test wants that. It
/// does with `Sleep` and the queues what `Driver` in `src/outgoing/driver.rs` does, in the methods of the
/// same names; but it takes no naps, which would hide a missing wake-up.
struct ToyDriver {
    thread: Arc<Line>,
    workers: Arc<Line>,
    sleep: Sleep,
    start: Instant,
    sets_deadlines: bool,
    deadline: Option<Instant>,
    /// The end of the thread's sleep.
    until: Option<Instant>,
    done: Arc<(Mutex<Done>, Condvar)>,
}

impl ToyDriver {
    fn count(&mut self, requests: usize) -> usize {
        if requests > 0 {
            self.done.0.lock().expect("no thread panics").requests += requests;
            self.done.1.notify_one();
            if self.sets_deadlines {
                self.deadline = Some(self.start + Duration::from_secs(1));
            }
        }
        requests
    }

    fn take_requests(&mut self, most: usize, waiting: &Waiting) -> usize {
        let taken = self.thread.take(most, waiting);
        self.count(taken)
    }

    fn take_brought(&mut self, most: usize, waiting: &Waiting) -> usize {
        let taken = self.workers.take(most, waiting);
        self.count(taken)
    }
}

impl Desk for ToyDriver {
    fn lie_down(&mut self, waiting: &Waiting) -> Option<Duration> {
        let busy = (self.take_requests(1, waiting) > 0).then_some(self.start);
        self.until = [busy, self.deadline].into_iter().flatten().min();
        self.sleep = Sleep::until(self.until);
        self.until.map(|until| until.saturating_duration_since(self.start))
    }

    fn work(&mut self, _: &Events, waiting: &Waiting) {
        self.take_requests(usize::MAX, waiting);
        // It may have been woken before; then the next sleep ends without an event.
        if self.deadline.is_some() && self.until >= self.deadline {
            self.deadline = None;
            self.done.0.lock().expect("no thread panics").deadlines += 1;
            self.done.1.notify_one();
        }
    }

    fn act_while_asleep(&mut self, waiting: &Waiting) -> bool {
        let taken = self.take_requests(self.sleep.left(), waiting);
        self.sleep.goes_on(taken, self.deadline)
    }

    fn turn(&mut self, _: &mut WorkerLinks, most: usize, waiting: &Waiting) -> Turned {
        let taken = self.take_brought(most, waiting);
        Turned { more: taken == most, rouse: !self.sleep.ends_by(self.deadline), gone: false }
    }

    fn leave(&mut self, _: &mut WorkerLinks, waiting: &Waiting) {
        self.take_brought(usize::MAX, waiting);
    }
}

/// State that all threads share.
#[derive(Clone)]
struct Model {
    shared: Arc<Shared<dyn Desk>>,
    thread: Arc<Line>,
    workers: Arc<Line>,
    done: Arc<(Mutex<Done>, Condvar)>,
}

impl Model {
    fn new(sets_deadlines: bool) -> (Model, Poll) {
        let (poll, waker) = Poll::with_waker();
        let (thread, workers) = (Line::new(), Line::new());
        let done = Arc::new((Mutex::new(Done::default()), Condvar::new()));
        let driver = ToyDriver {
            thread: Arc::clone(&thread),
            workers: Arc::clone(&workers),
            sleep: Sleep::default(),
            start: Instant::now(),
            sets_deadlines,
            deadline: None,
            until: None,
            done: Arc::clone(&done),
        };
        let shared = Arc::new(Shared {
            waker,
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            waiting: Waiting::default(),
            counts: Arc::default(),
            driver: Mutex::new(driver),
        });
        (Model { shared, thread, workers, done }, poll)
    }

    /// Starts the core's thread.
    fn start(sets_deadlines: bool) -> (Model, thread::JoinHandle<()>) {
        let (model, poll) = Model::new(sets_deadlines);
        let shared = Arc::clone(&model.shared);
        (model, thread::spawn(move || shared.run(poll, 1)))
    }

    fn request(&self) {
        self.shared.pass(ClientQueue, true, |queue| match queue {
            Queue::Thread => self.thread.push(),
            Queue::Workers => self.workers.push(),
        });
    }

    /// A worker that answers `requests` queries and waits for nothing while it has a duty. It does not end:
    /// that would hand over.
    fn worker(&self, requests: usize) -> WorkerOutbound {
        let mut duty = WorkerOutbound::new();
        duty.begin();
        (0..requests).for_each(|_| self.request());
        while duty.is_busy() {
            if duty.patience().is_some() {
                // A moment later.
                thread::yield_now();
            }
            duty.look();
            if duty.is_due() {
                duty.turn();
            }
        }
        duty
    }

    /// Waits until this much is done.
    fn wait_for(&self, requests: usize, deadlines: usize) {
        let wanted = Done { requests, deadlines };
        let mut done = self.done.0.lock().expect("no thread panics");
        while *done != wanted {
            done = self.done.1.wait(done).expect("no thread panics");
        }
    }

    fn assert_done(&self, requests: usize) {
        assert_eq!(self.done.0.lock().expect("no thread panics").requests, requests);
        assert_eq!(self.shared.waiting.all(), 0);
    }

    fn stop(&self, thread: thread::JoinHandle<()>) {
        self.shared.tell_stop();
        thread.join().expect("the thread ends");
    }
}

/// Tries every order of the threads with at most `turns` preemptions.
fn every_order(turns: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(turns);
    // Workers that do not get the lock try again and again.
    model.max_branches = 20_000;
    model.check(run);
}

/// Runs `run` on a thread of its own.
fn beside<T: 'static>(model: &Model, run: impl FnOnce(&Model) -> T + 'static) -> thread::JoinHandle<T> {
    let model = model.clone();
    thread::spawn(move || run(&model))
}

fn a_request_is_acted_on_whatever_the_thread_does() {
    every_order(3, || {
        let (model, thread) = Model::start(false);
        let other = beside(&model, Model::request);
        model.request();
        other.join().expect("it ends");
        model.wait_for(2, 0);
        model.stop(thread);
    });
}

fn more_requests_than_others_act_on_wake_the_thread() {
    every_order(2, || {
        let (model, thread) = Model::start(false);
        (0..6).for_each(|_| model.request());
        model.wait_for(6, 0);
        model.stop(thread);
    });
}

fn a_deadline_that_a_request_sets_wakes_the_thread() {
    every_order(3, || {
        let (model, thread) = Model::start(true);
        let worker = beside(&model, |model| model.worker(1));
        worker.join().expect("it ends");
        model.wait_for(1, 1);
        model.stop(thread);
        let (model, thread) = Model::start(true);
        model.request();
        model.wait_for(1, 1);
        model.stop(thread);
    });
}

/// Runs without the core's thread, which would not take the workers' requests.
fn workers_wait_for_nothing_before_all_they_brought_is_acted_on() {
    every_order(3, || {
        let (model, _poll) = Model::new(false);
        let other = beside(&model, |model| model.worker(5));
        let own = model.worker(1);
        let other = other.join().expect("it ends");
        model.assert_done(6);
        drop((own, other));
    });
}

fn a_worker_that_ends_hands_over_what_it_brought() {
    every_order(3, || {
        let (model, _poll) = Model::new(false);
        let ending = beside(&model, |model| {
            let mut duty = WorkerOutbound::new();
            duty.begin();
            model.request();
            duty.end();
        });
        let own = model.worker(1);
        ending.join().expect("it ends");
        model.assert_done(2);
        drop(own);
    });
}

fn a_worker_and_others_leave_nothing_to_each_other() {
    every_order(2, || {
        let (model, thread) = Model::start(false);
        let other = beside(&model, Model::request);
        let own = model.worker(1);
        other.join().expect("it ends");
        model.wait_for(2, 0);
        model.stop(thread);
        drop(own);
    });
}

fn main() {
    a_request_is_acted_on_whatever_the_thread_does();
    more_requests_than_others_act_on_wake_the_thread();
    a_deadline_that_a_request_sets_wakes_the_thread();
    workers_wait_for_nothing_before_all_they_brought_is_acted_on();
    a_worker_that_ends_hands_over_what_it_brought();
    a_worker_and_others_leave_nothing_to_each_other();
}
