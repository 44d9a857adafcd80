//! State shared by the threads that drive a core: its own thread, which always exists, and the datagram
//! workers that bring requests.
//!
//! The thread that holds the lock drives the core. The core's thread waits for the lock; all others only try
//! it, so that no thread that answers clients waits here. Requests of workers have a queue of their own: a
//! worker that brought one marks that on its own thread, and takes turns until it has seen with the lock held
//! that the queue is empty. So no wake-up is needed, and none can be lost.

use std::cell::RefCell;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use transport::{Counter, wake_together};

use super::client_queues::{ClientQueue, Waiting};
use super::links::WorkerLinks;
use super::sync::{AtomicBool, Events, Mutex, MutexGuard, Poll, Waker, fence, thread_local};

/// Most requests that other threads act on during one sleep of the core's thread. For more they wake it,
/// since they have other work.
const MAX_REQUESTS_ASLEEP: usize = 4;

/// A sleep of the core's thread.
#[derive(Default)]
pub(super) struct Sleep {
    /// When it wakes without an event, if set.
    until: Option<Instant>,
    /// Requests that other threads have acted on meanwhile.
    brought: usize,
}

impl Sleep {
    /// Returns a sleep that has just begun.
    pub(super) fn until(until: Option<Instant>) -> Sleep {
        Sleep { until, brought: 0 }
    }

    /// Returns the number of requests that other threads may still act on.
    pub(super) fn left(&self) -> usize {
        MAX_REQUESTS_ASLEEP.saturating_sub(self.brought)
    }

    /// Counts `taken` requests that other threads have acted on. Returns whether the thread may sleep on;
    /// `deadline` is the core's next one.
    pub(super) fn goes_on(&mut self, taken: usize, deadline: Option<Instant>) -> bool {
        self.brought += taken;
        self.brought < MAX_REQUESTS_ASLEEP && self.ends_by(deadline)
    }

    /// Whether the sleeping thread wakes without an event before the core's deadline.
    pub(super) fn ends_by(&self, deadline: Option<Instant>) -> bool {
        let in_time = |deadline| self.until.is_some_and(|until| until <= deadline);
        deadline.is_none_or(in_time)
    }
}

/// The queues that requests wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// For the core's thread, and for other threads while it sleeps.
    Thread,
    /// For workers.
    Workers,
}

/// The result of a worker's turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turned {
    /// There may be more to act on at once.
    pub(super) more: bool,
    /// The thread has to wake for an earlier deadline of the core.
    pub(super) rouse: bool,
    /// The core has been dropped.
    pub(super) gone: bool,
}

/// Drives a core; the lock of [`Shared`] protects it.
pub(super) trait SharedDriver: Send {
    /// Prepares the thread's sleep: acts on a request that came before it; a later one wakes it, or the
    /// thread that brings it acts. Returns for how long it may sleep.
    fn lie_down(&mut self, waiting: &Waiting) -> Option<Duration>;

    /// Acts on all events and waiting requests, on the core's thread.
    fn work(&mut self, events: &Events, waiting: &Waiting);

    /// Acts on waiting requests while the thread sleeps. Returns whether it may sleep on.
    fn act_while_asleep(&mut self, waiting: &Waiting) -> bool;

    /// Acts on the events of a worker's links, and on requests of workers: up to `most` in all, but at least
    /// one request. Actions of the core for the worker's links are queued in `worker`.
    fn turn(&mut self, worker: &mut WorkerLinks, most: usize, waiting: &Waiting) -> Turned;

    /// Moves the links of a worker that ends, and all requests that workers have brought, to the core's
    /// thread.
    fn leave(&mut self, worker: &mut WorkerLinks, waiting: &Waiting);
}

/// Counters of a driver.
#[derive(Debug, Default)]
pub struct OutgoingCounts {
    /// Links opened.
    pub opened: Counter,
    /// Links that could not be opened, including those beyond the limit.
    pub refused: Counter,
    /// Refused links for which no file descriptor was left.
    pub exhausted: Counter,
    /// Links that ended by an error or were closed by the remote end.
    pub ended: Counter,
    /// Links open now.
    pub open: Counter,
    /// Messages sent.
    pub sent: Counter,
    /// Messages received.
    pub received: Counter,
}

/// State that the threads share; the last field is the driver.
pub(super) struct Shared<D: ?Sized> {
    pub(super) waker: Waker,
    /// Set while the core's thread waits or is about to: a thread with a request then acts on it or wakes the
    /// core's thread.
    pub(super) asleep: AtomicBool,
    pub(super) stop: AtomicBool,
    /// Requests that the core has not taken yet.
    pub(super) waiting: Waiting,
    pub(super) counts: Arc<OutgoingCounts>,
    pub(super) driver: Mutex<D>,
}

impl<D: ?Sized> Shared<D> {
    /// Returns the driver. After a panic of another thread, only the request or event that caused it is lost.
    pub(super) fn driver(&self) -> MutexGuard<'_, D> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the driver; `None` if another thread holds its lock.
    fn try_driver(&self) -> Option<MutexGuard<'_, D>> {
        match self.driver.try_lock() {
            Ok(driver) => Some(driver),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn rouse(&self) {
        // The flag is written only by the thread that wakes the core's thread: a later thread sees this
        // write, or what the core's thread has written since.
        if self.asleep.compare_exchange(true, false, Relaxed, Relaxed).is_ok() {
            // If it fails, the core's thread wakes at its next deadline.
            let _ = self.waker.wake();
        }
    }
}

impl Shared<dyn SharedDriver> {
    /// Queues a request of a client queue; `send` puts it into the given queue. It goes to the workers' queue
    /// if workers drive the core and this thread is one, and otherwise to the thread's.
    pub(super) fn pass<T>(
        self: &Arc<Self>,
        client_queue: ClientQueue,
        by_workers: bool,
        send: impl FnOnce(Queue) -> T,
    ) -> T {
        self.waiting.add(client_queue);
        if by_workers && bring(self) {
            return send(Queue::Workers);
        }
        let sent = send(Queue::Thread);
        self.attend();
        sent
    }
}

impl<D: SharedDriver + ?Sized> Shared<D> {
    /// Runs the core's thread until `stop` is set.
    pub(super) fn run(&self, mut poll: Poll, events: usize) {
        let mut events = Events::with_capacity(events);
        while !self.stop.load(Relaxed) {
            let wait = self.lie_down();
            // An interrupted poll does no harm: events that are ready are reported again.
            let _ = poll.poll(&mut events, wait);
            self.asleep.store(false, Relaxed);
            self.driver().work(&events, &self.waiting);
        }
    }

    /// Marks the thread as asleep. For requests that are queued from now on, the thread that queues them acts
    /// or wakes it.
    fn lie_down(&self) -> Option<Duration> {
        let mut driver = self.driver();
        self.asleep.store(true, Relaxed);
        fence(SeqCst);
        driver.lie_down(&self.waiting)
    }

    /// Stops the core's thread.
    pub(super) fn tell_stop(&self) {
        self.stop.store(true, Relaxed);
        let _ = self.waker.wake();
    }

    /// Makes sure that a request that has just been queued is acted on: by this thread, if the core's thread
    /// sleeps and there is little to do, which saves two context switches; or else by the core's thread.
    fn attend(&self) {
        // Either the core's thread sees the request before it waits, or this thread sees that it is asleep.
        fence(SeqCst);
        if !self.asleep.load(Relaxed) {
            return;
        }
        // The thread that drives the core now may have checked the queue before.
        let acted = self.try_driver().is_some_and(|mut driver| driver.act_while_asleep(&self.waiting));
        if !acted {
            self.rouse();
        }
    }

    /// Runs a worker's turn; `None` if another thread holds the lock. A reply takes about half the time of a
    /// request, so twice as many are read. The lock is held only while the core acts, not during system
    /// calls.
    fn turn(&self, worker: &mut WorkerLinks, most: usize) -> Option<Turned> {
        worker.read_links(2 * most);
        let act = || Some(self.try_driver()?.turn(worker, most, &self.waiting));
        let mut turned = wake_together(act)?;
        if turned.rouse {
            self.rouse();
        }
        turned.more = worker.carry_out(turned.more);
        Some(turned)
    }

    fn leave(&self, worker: &mut WorkerLinks) {
        self.driver().leave(worker, &self.waiting);
        self.rouse();
    }
}

/// State of a worker's thread.
#[derive(Default)]
struct Remembered {
    /// The core that the worker drives. It drives one core; requests to another, for which it has no links,
    /// go to that one's thread.
    driver: Option<Arc<Shared<dyn SharedDriver>>>,
    /// The worker has brought a request since its last turn.
    brought: bool,
}

thread_local! {
    /// Set on threads that take turns.
    #[allow(clippy::missing_const_for_thread_local, reason = "the model's macro takes no constant blocks")]
    static REMEMBERED: RefCell<Option<Remembered>> = RefCell::new(None);
}

/// Marks that a request is about to be queued for workers. Returns whether this thread is a worker of that
/// core, and will take its turn.
fn bring(driver: &Arc<Shared<dyn SharedDriver>>) -> bool {
    REMEMBERED.with(|remembered| {
        let mut remembered = remembered.borrow_mut();
        let Some(Remembered { driver: own, brought }) = &mut *remembered else { return false };
        // If the worker drives another core, its next turn shows whether that one still exists.
        *brought = true;
        Arc::ptr_eq(own.get_or_insert_with(|| Arc::clone(driver)), driver)
    })
}

/// Lets this thread take turns from here on.
pub(super) fn begin() {
    REMEMBERED.with(|it| it.replace(Some(Remembered::default())));
}

/// Whether this thread has brought a request since its last turn.
pub(super) fn has_brought() -> bool {
    REMEMBERED.with(|it| it.borrow().as_ref().is_some_and(|remembered| remembered.brought))
}

/// Runs this thread's turn, with up to `most` requests minus the replies. Returns whether there may be more
/// to act on at once, and whether another thread held the lock.
pub(super) fn turn(worker: &mut WorkerLinks, most: usize) -> (bool, bool) {
    // The core's actions may bring more requests, so nothing is borrowed meanwhile.
    let driver = REMEMBERED.with(|it| {
        let mut it = it.borrow_mut();
        let remembered = it.as_mut()?;
        remembered.brought = false;
        remembered.driver.clone()
    });
    match driver.map(|driver| driver.turn(worker, most)) {
        None => (false, false),
        Some(None) => (false, true),
        Some(Some(turned)) if turned.gone => {
            REMEMBERED.with(|it| it.borrow_mut().iter_mut().for_each(|it| it.driver = None));
            worker.forget();
            (false, false)
        }
        Some(Some(turned)) => (turned.more, false),
    }
}

/// Ends the turns of this thread.
pub(super) fn end(worker: &mut WorkerLinks) {
    // Later requests go to the core's thread.
    let remembered = REMEMBERED.with(RefCell::take);
    if let Some(driver) = remembered.and_then(|remembered| remembered.driver) {
        driver.leave(worker);
    }
}
