//! A thread that counts what workers report in tables of a size that can change; a size of 0 ends it.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use threads::sync::lock;

use crate::worker_queue::{RecordWriter, WorkerQueue, WriterThread};

/// Approximate size of the queue, in bytes.
const QUEUE_BYTES: usize = 256 << 10;
/// Longest wait for the thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// The thread, if there is one.
pub(crate) struct TopThread<R, W> {
    name: &'static str,
    running: Mutex<Option<Running<R, W>>>,
}

struct Running<R, W> {
    size: usize,
    queue: Arc<WorkerQueue<R>>,
    thread: WriterThread<R, W>,
}

impl<R: Send + 'static, W: RecordWriter<R>> TopThread<R, W> {
    /// Returns no thread yet, whose name will be `name`.
    pub(crate) fn new(name: &'static str) -> Self {
        TopThread { name, running: Mutex::default() }
    }

    /// Makes the tables this large, with `new`; another size than that of now empties them. Returns the
    /// engine's end of the queue.
    ///
    /// # Errors
    /// The system's error if it refuses the thread.
    pub(crate) fn resize(
        &self,
        size: usize,
        new: impl FnOnce(usize) -> W,
    ) -> io::Result<Option<Arc<WorkerQueue<R>>>> {
        let mut running = lock(&self.running);
        if running.as_ref().map_or(0, |running| running.size) != size {
            *running = None;
            if size > 0 {
                let (queue, thread) = WriterThread::start(self.name, QUEUE_BYTES, new(size))?;
                *running = Some(Running { size, queue, thread });
            }
        }
        Ok(running.as_ref().map(|running| Arc::clone(&running.queue)))
    }

    /// Returns what `what` returns of the tables. `None`: there are none, or the thread does not reply in
    /// time.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut W) -> T + Send + 'static,
    ) -> Option<T> {
        lock(&self.running).as_ref()?.thread.ask(PATIENCE, what)
    }

    /// Returns the size of the tables; 0 is off.
    pub(crate) fn size(&self) -> usize {
        lock(&self.running).as_ref().map_or(0, |running| running.size)
    }

    /// Returns the number of records that found the queue full.
    pub(crate) fn dropped(&self) -> u64 {
        lock(&self.running).as_ref().map_or(0, |running| running.queue.dropped())
    }
}
