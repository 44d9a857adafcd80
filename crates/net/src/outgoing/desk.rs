//! What the threads that act on a core's requests share: its own thread, which is always there, and the datagram workers that
//! bring requests.
//!
//! Whoever has the lock acts. The core's thread waits for it; all others only try, so that nobody who answers clients waits
//! here. What a worker brings is kept for workers: it remembers on its own thread that there is something, and takes its turn
//! until it has seen with the lock held that nothing is left. So no wake-up is needed, and none can be lost.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use exchange::Counter;

use super::lanes::{Lane, Waiting};
use super::socket::LinkSocket;
use super::sync::{AtomicBool, AtomicUsize, Events, Mutex, MutexGuard, Poll, Waker, fence, thread_local};

/// Replies and requests that a worker acts on in one turn: with more of them, whoever asks for what is in memory would notice.
pub(super) const TURN: usize = 4;
/// The same while nobody does: what goes out together costs less.
pub(super) const LONG_TURN: usize = 32;

/// Where links are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    /// At the core's thread.
    pub(super) const THREAD: Place = Place(0);
}

/// The links that one worker waits for.
pub(super) struct WorkerLinks {
    pub(super) place: Place,
    /// How many; whoever closes one of them counts it.
    pub(super) open: Arc<AtomicUsize>,
    pub(super) poll: Poll,
    pub(super) events: Events,
    /// Those that are closed and not let go of yet: that can wait until the answers are out.
    pub(super) closed: Vec<LinkSocket>,
}

impl WorkerLinks {
    /// For one more worker.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub(super) fn new() -> io::Result<WorkerLinks> {
        static LAST: AtomicU64 = AtomicU64::new(Place::THREAD.0);
        let place = Place(LAST.fetch_add(1, Relaxed) + 1);
        let events = Events::with_capacity(LONG_TURN);
        Ok(WorkerLinks { place, open: Arc::default(), poll: Poll::new()?, events, closed: Vec::new() })
    }
}

/// Requests that are acted on without the core's thread while it sleeps once. More are worth waking it: whoever brings them
/// has other things to do.
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

    /// Others have acted on so many more. Returns whether the thread may sleep on, the core's next deadline being this.
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
    /// For the thread, and for whoever acts while it sleeps.
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
    /// The thread is about to sleep: what it would wake for is seen now or leads to another waking from here on. Returns for how
    /// long it may sleep.
    fn lie_down(&mut self, waiting: &Waiting) -> Option<Duration>;

    /// The thread acts on everything that has happened.
    fn work(&mut self, events: &Events, waiting: &Waiting);

    /// Acts on the requests that are there while the thread sleeps. Returns whether it may sleep on.
    fn act_while_asleep(&mut self, waiting: &Waiting) -> bool;

    /// Acts on up to `most` replies; where there are fewer, on requests of workers instead, on one at the least.
    fn turn(&mut self, worker: &mut WorkerLinks, most: usize, waiting: &Waiting) -> Turned;

    /// A worker waits for nothing any more: the thread takes its links and all that workers have brought.
    fn leave(&mut self, worker: &mut WorkerLinks, waiting: &Waiting);
}

/// What has been done.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) opened: Counter,
    pub(super) refused: Counter,
    pub(super) ended: Counter,
    pub(super) open: Counter,
    pub(super) sent: Counter,
    pub(super) received: Counter,
}

/// What the threads share; the last field is the driver.
pub(super) struct Shared<D: ?Sized> {
    pub(super) waker: Waker,
    /// The thread waits, or is about to, and whoever has a request acts on it or wakes it.
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

    /// The same, unless somebody has it.
    fn try_driver(&self) -> Option<MutexGuard<'_, D>> {
        match self.driver.try_lock() {
            Ok(driver) => Some(driver),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn rouse(&self) {
        // Only what wakes it is written: whoever looks afterwards finds this or what the thread has written since.
        if self.asleep.compare_exchange(true, false, Relaxed, Relaxed).is_ok() {
            // Should it fail, the core looks at its next deadline.
            let _ = self.waker.wake();
        }
    }
}

impl Shared<dyn Desk> {
    /// Passes a request of a lane on: `send` puts it into a queue. Where workers act on what they bring, and this is one, it is theirs;
    /// otherwise it is the thread's.
    pub(super) fn pass<T>(
        self: &Arc<Self>,
        lane: Lane,
        by_workers: bool,
        send: impl FnOnce(Queue) -> T,
    ) -> T {
        self.waiting.add(lane);
        if by_workers && bring(self) {
            return send(Queue::Workers);
        }
        let sent = send(Queue::Thread);
        self.attend();
        sent
    }
}

impl<D: Desk + ?Sized> Shared<D> {
    /// The life of the core's thread, until it is told to stop.
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

    /// The thread is about to sleep. Requests that come from now on are acted on where they come from, or wake it.
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

    /// Sees to it that a request that has just been queued is acted on: here, if the thread sleeps and there is little to
    /// do, which spares two changes from one thread to another; or by the thread.
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

    /// A worker's turn; `None` if another thread acts.
    fn turn(&self, worker: &mut WorkerLinks, most: usize) -> Option<Turned> {
        let turned = self.try_driver()?.turn(worker, most, &self.waiting);
        if turned.rouse {
            self.rouse();
        }
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
    /// Where it has brought something.
    desks: Vec<Arc<Shared<dyn Desk>>>,
    /// It has done so since its last turn.
    brought: bool,
}

thread_local! {
    /// Of a thread that takes turns.
    #[allow(clippy::missing_const_for_thread_local, reason = "the model's macro takes no constant blocks")]
    static REMEMBERED: RefCell<Option<Remembered>> = RefCell::new(None);
}

/// A request is about to be queued for workers. Returns whether the present thread is one, and will take its turn.
fn bring(desk: &Arc<Shared<dyn Desk>>) -> bool {
    REMEMBERED.with(|remembered| {
        let mut remembered = remembered.borrow_mut();
        let Some(Remembered { desks, brought }) = &mut *remembered else { return false };
        *brought = true;
        if !desks.iter().any(|known| Arc::ptr_eq(known, desk)) {
            desks.push(Arc::clone(desk));
        }
        true
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

/// Has the present thread take its turn everywhere, of `most` replies and requests each. Returns whether there may be more to act
/// on at once, and whether another thread acted somewhere.
pub(super) fn turn_everywhere(worker: &mut WorkerLinks, most: usize) -> (bool, bool) {
    let (mut more, mut kept_out, mut at) = (false, false, 0);
    REMEMBERED.with(|it| it.borrow_mut().iter_mut().for_each(|it| it.brought = false));
    // What is acted on may bring more, so nothing is borrowed meanwhile.
    while let Some(desk) = REMEMBERED.with(|it| it.borrow().as_ref()?.desks.get(at).cloned()) {
        match desk.turn(worker, most) {
            None => kept_out = true,
            Some(turned) if turned.gone => {
                REMEMBERED.with(|it| it.borrow_mut().iter_mut().for_each(|it| drop(it.desks.remove(at))));
                continue;
            }
            Some(turned) => more |= turned.more,
        }
        at += 1;
    }
    (more, kept_out)
}

/// The present thread takes no more turns.
pub(super) fn end(worker: &mut WorkerLinks) {
    // What comes from here on goes to the thread.
    let remembered = REMEMBERED.with(RefCell::take);
    for desk in remembered.into_iter().flat_map(|remembered| remembered.desks) {
        desk.leave(worker);
    }
}
