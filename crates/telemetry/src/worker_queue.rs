//! A queue from workers to a writing thread. A worker neither blocks nor allocates: it copies a record and
//! its bytes onto a pile that no other thread holds, and drops and counts records that find no room. The
//! thread takes whole piles, up to some hundred times a second while there are records; a worker wakes it
//! only for the first record after a pause.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use threads::sync::lock;

/// Number of piles that a worker tries before it drops a record.
const PILE_TRIES: usize = 4;
/// Fewest piles, and most. More than workers, so that the first one is nearly always free.
const PILE_LIMITS: (usize, usize) = (4, 64);
/// Average bytes of a record besides itself, which determine how many records fit.
const TYPICAL_BYTES: usize = 64;
/// Time between two rounds while records arrive.
const ROUND_INTERVAL: Duration = Duration::from_millis(5);
/// Records in one round after which the next round follows at once.
const FULL_ROUND_RECORDS: usize = 4096;
/// Time without records after which the thread sleeps until it is woken.
const IDLE_BEFORE_SLEEP: Duration = Duration::from_secs(1);
/// Interval between checks whether the writer is ready again.
const WRITER_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Records with their bytes, in the same order. A pile never grows beyond its capacity.
struct Pile<R> {
    records: Vec<(R, usize)>,
    bytes: Vec<u8>,
}

impl<R> Pile<R> {
    /// Returns a pile of about `room` bytes.
    fn new(room: usize) -> Self {
        let most = room / (size_of::<(R, usize)>() + TYPICAL_BYTES) + 1;
        Pile { records: Vec::with_capacity(most), bytes: Vec::with_capacity(room) }
    }

    /// Adds a record with these bytes, if there is room; returns whether there was.
    fn push(&mut self, record: impl FnOnce() -> R, parts: &[&[u8]]) -> bool {
        let len = parts.iter().map(|part| part.len()).sum();
        let fits =
            self.records.len() < self.records.capacity() && len <= self.bytes.capacity() - self.bytes.len();
        if fits {
            self.records.push((record(), len));
            parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        }
        fits
    }
}

/// A pile on its own cache lines.
#[repr(align(128))]
struct Place<R>(Mutex<Pile<R>>);

impl<R> Place<R> {
    /// Locks the pile, unless another thread holds it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Pile<R>>> {
        match self.0.try_lock() {
            Ok(pile) => Some(pile),
            Err(TryLockError::Poisoned(pile)) => Some(PoisonError::into_inner(pile)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The workers' end of the queue.
pub struct WorkerQueue<R> {
    places: Box<[Place<R>]>,
    dropped: AtomicU64,
    /// Whether the thread sleeps until a worker wakes it.
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

/// Returns the number of the calling thread, which determines the first pile it tries.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

impl<R> WorkerQueue<R> {
    fn new(room: usize) -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let count = (2 * threads).next_power_of_two().clamp(PILE_LIMITS.0, PILE_LIMITS.1);
        let places = (0..count).map(|_| Place(Mutex::new(Pile::new(room / count)))).collect();
        WorkerQueue {
            places,
            dropped: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// Adds a record and its bytes, which are copied from `parts` in order.
    pub fn put(&self, record: impl Fn() -> R, parts: &[&[u8]]) {
        let home = number();
        let left = (home..home + PILE_TRIES).any(|place| {
            // The number of piles is a power of two, and at least the number of tries.
            let place = &self.places[place & (self.places.len() - 1)];
            place.try_lock().is_some_and(|mut pile| pile.push(&record, parts))
        });
        if !left {
            self.dropped.fetch_add(1, Relaxed);
        } else if self.asleep.load(Relaxed) && self.asleep.swap(false, Relaxed) {
            // If the thread checked the pile before this push, the pile's lock makes `asleep` visible here;
            // if it checks the pile later, it finds the record.
            self.thread.get().map(Thread::unpark).unwrap_or_default();
        }
    }

    /// Returns the number of records dropped because no pile had room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Takes all piles in exchange for `spare`, and calls `show` with each record and its bytes. Returns the
    /// number of records.
    fn take(&self, spare: &mut Pile<R>, mut show: impl FnMut(&R, &[u8])) -> usize {
        let mut count = 0;
        for place in &self.places {
            let mut pile = lock(&place.0);
            if pile.records.is_empty() {
                continue;
            }
            mem::swap(&mut *pile, spare);
            drop(pile);
            let mut bytes = spare.bytes.as_slice();
            for (record, len) in &spare.records {
                let (of, rest) = bytes.split_at(*len);
                bytes = rest;
                show(record, of);
            }
            count += spare.records.len();
            spare.records.clear();
            spare.bytes.clear();
        }
        count
    }
}

/// Writes the records of a queue.
pub trait RecordWriter<R>: Send + 'static {
    /// Returns whether it can write now. If not, records wait while there is room.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Writes a record.
    fn write(&mut self, record: &R, bytes: &[u8]);

    /// Ends a round.
    fn settle(&mut self);

    /// Returns the time after which the next round follows even without a record.
    fn due(&self) -> Option<Duration> {
        None
    }
}

/// A function for the writing thread to run.
type Order<W> = Box<dyn FnOnce(&mut W) + Send>;

/// The handle of the writing thread, which ends when this is dropped.
pub struct WriterThread<R, W> {
    orders: Option<Sender<Order<W>>>,
    thread: Thread,
    records: PhantomData<fn(R)>,
}

impl<R: Send + 'static, W: RecordWriter<R>> WriterThread<R, W> {
    /// Starts a thread in which `writer` writes the records of the queue, whose size is about `room` bytes.
    ///
    /// # Errors
    /// The system's error if it refuses a thread.
    pub fn start(name: &str, room: usize, mut writer: W) -> io::Result<(Arc<WorkerQueue<R>>, Self)> {
        let queue = Arc::new(WorkerQueue::new(room));
        let spare = Pile::new(room / queue.places.len());
        let (orders, inbox) = channel();
        let shared = Arc::clone(&queue);
        let work = move || write(&shared, spare, &mut writer, &inbox);
        let handle = thread::Builder::new().name(name.into()).spawn(work)?;
        let thread = handle.thread().clone();
        queue.thread.get_or_init(|| thread.clone());
        Ok((queue, WriterThread { orders: Some(orders), thread, records: PhantomData }))
    }

    /// Runs a function in the thread after all records queued so far are written or dropped. Returns its
    /// result, unless that takes longer than `patience`.
    pub fn ask<T: Send + 'static>(
        &self,
        patience: Duration,
        what: impl FnOnce(&mut W) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, outcome) = channel();
        // The caller may have timed out.
        let order: Order<W> = Box::new(move |writer| drop(done.send(what(writer))));
        self.orders.as_ref()?.send(order).ok()?;
        self.thread.unpark();
        outcome.recv_timeout(patience).ok()
    }
}

impl<R, W> Drop for WriterThread<R, W> {
    fn drop(&mut self) {
        self.orders = None;
        self.thread.unpark();
    }
}

/// Runs the thread.
fn write<R, W: RecordWriter<R>>(
    queue: &WorkerQueue<R>,
    mut spare: Pile<R>,
    writer: &mut W,
    inbox: &Receiver<Order<W>>,
) {
    let mut last = Instant::now();
    loop {
        let order = inbox.try_recv();
        let ready = writer.is_ready();
        let count =
            if ready { queue.take(&mut spare, |record, bytes| writer.write(record, bytes)) } else { 0 };
        writer.settle();
        match order {
            Ok(order) => {
                order(writer);
                continue;
            }
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        if !ready {
            thread::park_timeout(WRITER_RETRY_INTERVAL);
        } else if count > 0 {
            last = Instant::now();
            if count < FULL_ROUND_RECORDS {
                thread::park_timeout(ROUND_INTERVAL);
            }
        } else if last.elapsed() < IDLE_BEFORE_SLEEP {
            thread::park_timeout(ROUND_INTERVAL);
        } else if !queue.asleep.swap(true, Relaxed) {
            // Check the piles once more: earlier records cause no wake-up.
        } else {
            writer.due().map_or_else(thread::park, thread::park_timeout);
            queue.asleep.store(false, Relaxed);
            last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Stores what is written.
    #[derive(Default)]
    struct Kept {
        written: Vec<(u32, Vec<u8>)>,
        rounds: usize,
        blocked: bool,
    }

    impl RecordWriter<u32> for Kept {
        fn is_ready(&mut self) -> bool {
            !self.blocked
        }

        fn write(&mut self, record: &u32, bytes: &[u8]) {
            self.written.push((*record, bytes.to_vec()));
        }

        fn settle(&mut self) {
            self.rounds += 1;
        }
    }

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);
    const ROOM: usize = 1 << 20;

    fn start(blocked: bool) -> (Arc<WorkerQueue<u32>>, WriterThread<u32, Kept>) {
        WriterThread::start("test", ROOM, Kept { blocked, ..Kept::default() }).expect("a thread")
    }

    fn written(thread: &WriterThread<u32, Kept>) -> Vec<(u32, Vec<u8>)> {
        thread.ask(TEST_TIMEOUT, |kept| mem::take(&mut kept.written)).expect("an answer")
    }

    #[test]
    fn what_is_left_is_written_with_its_bytes_in_the_order_of_its_worker() {
        let (queue, thread) = start(false);
        queue.put(|| 1, &[b"ab", b"", b"c"]);
        queue.put(|| 2, &[]);
        queue.put(|| 3, &[b"d"]);
        let all = [(1, b"abc".to_vec()), (2, vec![]), (3, b"d".to_vec())];
        assert_eq!(written(&thread), all);
        assert_eq!(queue.dropped(), 0);
    }

    #[test]
    fn what_many_workers_leave_at_once_is_all_written() {
        const EACH: u32 = 200;
        let (queue, thread) = start(false);
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for worker in 0..4 {
                let (queue, barrier) = (&queue, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for n in 0..EACH {
                        queue.put(|| worker * EACH + n, &[&n.to_be_bytes()]);
                    }
                });
            }
        });
        let mut written = written(&thread);
        written.sort();
        assert!(written.iter().all(|(record, bytes)| *bytes == (record % EACH).to_be_bytes()));
        assert_eq!(written.len() as u64 + queue.dropped(), u64::from(4 * EACH));
        written.dedup();
        assert_eq!(written.len() as u64 + queue.dropped(), u64::from(4 * EACH));
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted_and_the_rest_waits() {
        let (queue, thread) = start(true);
        let large = vec![7; ROOM / PILE_LIMITS.1 / 2];
        let mut put = 0;
        while queue.dropped() == 0 {
            queue.put(|| put, &[&large]);
            put += 1;
        }
        assert!(u64::from(put) * large.len() as u64 <= ROOM as u64 + large.len() as u64);
        assert_eq!(written(&thread), [], "it is not ready");
        thread.ask(TEST_TIMEOUT, |kept| kept.blocked = false).expect("an answer");
        assert_eq!(written(&thread).len() as u32, put - 1);
        queue.put(|| 0, &[&vec![0; ROOM]]);
        assert_eq!((written(&thread), queue.dropped()), (vec![], 2), "more than there is ever room for");
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_by_the_next_record() {
        let (queue, thread) = start(false);
        while !queue.asleep.load(Relaxed) {
            thread::yield_now();
        }
        let rounds = thread.ask(TEST_TIMEOUT, |kept| kept.rounds).expect("an answer");
        while !queue.asleep.load(Relaxed) {
            thread::yield_now();
        }
        queue.put(|| 1, &[]);
        // No function was sent: the record alone has woken the thread.
        while queue.places.iter().any(|place| !lock(&place.0).records.is_empty()) {
            thread::yield_now();
        }
        assert!(thread.ask(TEST_TIMEOUT, |kept| kept.rounds).expect("an answer") > rounds);
        assert_eq!(written(&thread), [(1, vec![])]);
    }

    #[test]
    fn the_thread_ends_with_its_owner() {
        let (queue, thread) = start(false);
        drop(thread);
        while Arc::strong_count(&queue) > 1 {
            thread::yield_now();
        }
    }
}
