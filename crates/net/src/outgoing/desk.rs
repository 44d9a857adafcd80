//! What the threads that act on a core's requests share: its own thread, which is always there, and the
//! datagram workers that bring requests.
//!
//! The thread that holds the lock acts. The core's thread waits for the lock; all others only try it, so that
//! no thread that answers clients waits here. What a worker brings is kept for workers: it remembers on its
//! own thread that there is something, and takes its turn until it has seen with the lock held that nothing
//! is left. So no wake-up is needed, and none can be lost.

use std::cell::RefCell;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use exchange::{Counter, wake_together};

use super::client_queues::{ClientQueue, Waiting};
use super::links::WorkerLinks;
use super::sync::{AtomicBool, Events, Mutex, MutexGuard, Poll, Waker, fence, thread_local};

/// Requests that other threads act on during one sleep of the core's thread. More are worth waking it: the
/// threads that bring them have other work.
const BROUGHT: usize = 4;

/// The thread's sleep.
#[derive(Default)]
pub(super) struct Sleep {
    /// When it wakes by itself, if it does.
    until: Option<Instant>,
    /// Requests that others have acted on meanwhile.
    brought: usize,
}

impl Sleep {
    /// One that has just begun.
    pub(super) fn until(until: Option<Instant>) -> Sleep {
        Sleep { until, brought: 0 }
    }

    /// How many requests others may still act on.
    pub(super) fn left(&self) -> usize {
        BROUGHT.saturating_sub(self.brought)
    }

    /// Others have acted on so many more. Returns whether the thread may sleep on, the core's next deadline
    /// being this.
    pub(super) fn goes_on(&mut self, taken: usize, deadline: Option<Instant>) -> bool {
        self.brought += taken;
        self.brought < BROUGHT && self.ends_by(deadline)
    }

    /// Whether the thread, if it sleeps, wakes by itself before the core's deadline.
    pub(super) fn ends_by(&self, deadline: Option<Instant>) -> bool {
        let in_time = |deadline| self.until.is_some_and(|until| until <= deadline);
        deadline.is_none_or(in_time)
    }
}

/// The queues that requests wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// For the core's thread, and for the thread that acts while it sleeps.
    Thread,
    /// For workers.
    Workers,
}

/// What a worker's turn has left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turned {
    /// There may be more to act on at once.
    pub(super) more: bool,
    /// The thread has to look when the core's next deadline is.
    pub(super) rouse: bool,
    /// The core is gone.
    pub(super) gone: bool,
}

/// Where requests are acted on.
pub(super) trait Desk: Send {
    /// The thread is about to sleep: what it would wake for is seen now or leads to another waking from here
    /// on. Returns for how long it may sleep.
    fn lie_down(&mut self, waiting: &Waiting) -> Option<Duration>;

    /// The thread acts on everything that has happened.
    fn work(&mut self, events: &Events, waiting: &Waiting);

    /// Acts on the requests that are there while the thread sleeps. Returns whether it may sleep on.
    fn act_while_asleep(&mut self, waiting: &Waiting) -> bool;

    /// Acts on the events of a worker's links, and on requests of workers: up to `most` in all, but one
    /// request at the least. What the core decides about the worker's links is left to it.
    fn turn(&mut self, worker: &mut WorkerLinks, most: usize, waiting: &Waiting) -> Turned;

    /// A worker waits for nothing any more: the thread takes its links and all that workers have brought.
    fn leave(&mut self, worker: &mut WorkerLinks, waiting: &Waiting);
}

/// What has been done.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) opened: Counter,
    pub(super) refused: Counter,
    pub(super) exhausted: Counter,
    pub(super) ended: Counter,
    pub(super) open: Counter,
    pub(super) sent: Counter,
    pub(super) received: Counter,
}

/// What the threads share; the last field is the driver.
pub(super) struct Shared<D: ?Sized> {
    pub(super) waker: Waker,
    /// The core's thread waits, or is about to: a thread with a request acts on it or wakes the core's
    /// thread.
    pub(super) asleep: AtomicBool,
    pub(super) stop: AtomicBool,
    /// Requests that the core has not seen yet.
    pub(super) waiting: Waiting,
    pub(super) counts: Arc<Counts>,
    pub(super) driver: Mutex<D>,
}

impl<D: ?Sized> Shared<D> {
    /// The driver. A panic while another thread acted cost what that was about.
    pub(super) fn driver(&self) -> MutexGuard<'_, D> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver; `None` if another thread holds its lock.
    fn try_driver(&self) -> Option<MutexGuard<'_, D>> {
        match self.driver.try_lock() {
            Ok(driver) => Some(driver),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn rouse(&self) {
        // Only what wakes it is written: a thread that looks afterwards finds this or what the core's thread
        // has written since.
        if self.asleep.compare_exchange(true, false, Relaxed, Relaxed).is_ok() {
            // Should it fail, the core looks at its next deadline.
            let _ = self.waker.wake();
        }
    }
}

impl Shared<dyn Desk> {
    /// Passes a request of a client queue on: `send` puts it into a queue. Where workers act on what they
    /// bring, and this is one, it is theirs; otherwise it is the thread's.
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

impl<D: Desk + ?Sized> Shared<D> {
    /// Runs the core's thread until `stop` is set.
    pub(super) fn run(&self, mut poll: Poll, events: usize) {
        let mut events = Events::with_capacity(events);
        while !self.stop.load(Relaxed) {
            let wait = self.lie_down();
            // It may have been interrupted: whatever is ready is found ready again.
            let _ = poll.poll(&mut events, wait);
            self.asleep.store(false, Relaxed);
            self.driver().work(&events, &self.waiting);
        }
    }

    /// The thread is about to sleep. Requests that come from now on are acted on where they come from, or
    /// wake it.
    fn lie_down(&self) -> Option<Duration> {
        let mut driver = self.driver();
        self.asleep.store(true, Relaxed);
        fence(SeqCst);
        driver.lie_down(&self.waiting)
    }

    /// Tells the thread to stop.
    pub(super) fn tell_stop(&self) {
        self.stop.store(true, Relaxed);
        let _ = self.waker.wake();
    }

    /// Sees to it that a request that has just been queued is acted on: here, if the thread sleeps and there
    /// is little to do, which spares two changes from one thread to another; or by the thread.
    fn attend(&self) {
        // Either the thread sees the request before it waits, or it is seen to be asleep here.
        fence(SeqCst);
        if !self.asleep.load(Relaxed) {
            return;
        }
        // Who acts at the moment may have looked at the queue before.
        let acted = self.try_driver().is_some_and(|mut driver| driver.act_while_asleep(&self.waiting));
        if !acted {
            self.rouse();
        }
    }

    /// A worker's turn; `None` if another thread acts. A reply takes about half of what a request does, so
    /// twice as many are read. The lock is held only while the core acts, not for what the system does.
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

/// What the thread of a worker remembers.
#[derive(Default)]
struct Remembered {
    /// Where it acts. It acts for one core; requests to another, for which it has no links, are that one's
    /// thread's.
    desk: Option<Arc<Shared<dyn Desk>>>,
    /// It has brought something since its last turn.
    brought: bool,
}

thread_local! {
    /// Of a thread that takes turns.
    #[allow(clippy::missing_const_for_thread_local, reason = "the model's macro takes no constant blocks")]
    static REMEMBERED: RefCell<Option<Remembered>> = RefCell::new(None);
}

/// A request is about to be queued for workers. Returns whether the present thread is one, and will take its
/// turn.
fn bring(desk: &Arc<Shared<dyn Desk>>) -> bool {
    REMEMBERED.with(|remembered| {
        let mut remembered = remembered.borrow_mut();
        let Some(Remembered { desk: own, brought }) = &mut *remembered else { return false };
        // If it acts for another core, its next turn shows whether that one is still there.
        *brought = true;
        Arc::ptr_eq(own.get_or_insert_with(|| Arc::clone(desk)), desk)
    })
}

/// The present thread takes turns from here on.
pub(super) fn begin() {
    REMEMBERED.with(|it| it.replace(Some(Remembered::default())));
}

/// Whether the present thread has brought something since its last turn.
pub(super) fn has_brought() -> bool {
    REMEMBERED.with(|it| it.borrow().as_ref().is_some_and(|remembered| remembered.brought))
}

/// Has the present thread take its turn, with up to `most` requests less the replies. Returns whether there
/// may be more to act on at once, and whether another thread acted.
pub(super) fn turn(worker: &mut WorkerLinks, most: usize) -> (bool, bool) {
    // What is acted on may bring more, so nothing is borrowed meanwhile.
    let desk = REMEMBERED.with(|it| {
        let mut it = it.borrow_mut();
        let remembered = it.as_mut()?;
        remembered.brought = false;
        remembered.desk.clone()
    });
    match desk.map(|desk| desk.turn(worker, most)) {
        None => (false, false),
        Some(None) => (false, true),
        Some(Some(turned)) if turned.gone => {
            REMEMBERED.with(|it| it.borrow_mut().iter_mut().for_each(|it| it.desk = None));
            worker.forget();
            (false, false)
        }
        Some(Some(turned)) => (turned.more, false),
    }
}

/// The present thread takes no more turns.
pub(super) fn end(worker: &mut WorkerLinks) {
    // What comes from here on goes to the thread.
    let remembered = REMEMBERED.with(RefCell::take);
    if let Some(desk) = remembered.and_then(|remembered| remembered.desk) {
        desk.leave(worker);
    }
}
