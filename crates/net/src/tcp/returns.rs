//! Late answers on their way to their connections.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Wake;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use transport::{Clock, HandlerFactory, LateLayout, LateReplies, MAX_MESSAGE, Outcome, ReturnAddress};

use super::connection::SharedBuffers;
use super::event::{ConnectionEvent, Late};
use crate::stats::WorkerStats;

/// Most late answers written together.
const MAX_LATE_BATCH: usize = 16;

/// The event sender of each connection of a worker, by its number.
pub(crate) type Events = Rc<RefCell<HashMap<u64, UnboundedSender<ConnectionEvent>>>>;

/// The waker of a TCP worker, for late answers that are ready.
pub(crate) struct Bell(Notify);

impl Bell {
    pub(crate) fn new() -> Arc<Bell> {
        Arc::new(Bell(Notify::new()))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

/// Calls the handler for late answers and passes them to their connections.
pub(crate) struct Returns<F: HandlerFactory> {
    buffers: Rc<RefCell<SharedBuffers<F>>>,
    events: Events,
    stats: Arc<WorkerStats>,
    replies: Vec<(ReturnAddress, Outcome)>,
}

impl<F: HandlerFactory> Returns<F> {
    pub(crate) fn new(
        buffers: Rc<RefCell<SharedBuffers<F>>>,
        events: Events,
        stats: Arc<WorkerStats>,
    ) -> Self {
        Returns { buffers, events, stats, replies: Vec::new() }
    }

    /// Passes on late answers whenever the bell rings.
    pub(crate) async fn run(mut self, bell: Arc<Bell>) {
        loop {
            bell.0.notified().await;
            while self.some() {
                // Other tasks run between two batches.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Passes on up to [`MAX_LATE_BATCH`] answers. Returns whether more are ready.
    fn some(&mut self) -> bool {
        let mut buffers = self.buffers.borrow_mut();
        let stage = buffers.stage();
        let layout = LateLayout { stride: MAX_MESSAGE, room: MAX_MESSAGE, most: MAX_LATE_BATCH };
        let mut replies = LateReplies::new(&mut stage.output, layout, &mut self.replies, Clock::System);
        let more = stage.guarded.late(&mut replies);
        let events = self.events.borrow();
        for (i, (to, outcome)) in self.replies.drain(..).enumerate() {
            let late = match outcome {
                Outcome::Reply(len) if (1..=MAX_MESSAGE).contains(&len) => {
                    Late::Message(stage.output[i * MAX_MESSAGE..][..len].to_vec())
                }
                Outcome::Stream(stream) => Late::Stream(stream),
                Outcome::Reply(_) => {
                    self.stats.bad_replies.add(1);
                    Late::Nothing
                }
                Outcome::Drop | Outcome::Pending => {
                    self.stats.dropped.add(1);
                    Late::Nothing
                }
            };
            let counted = late.len();
            match events.get(&to.connection).map(|connection| connection.send(ConnectionEvent::Late(late))) {
                Some(Ok(())) => count(&self.stats, counted),
                _ => self.stats.late_lost.add(1),
            }
        }
        more
    }
}

/// Counts an answer of `len` bytes, or a stream if there is no length.
fn count(stats: &WorkerStats, len: Option<usize>) {
    match len {
        Some(0) => {}
        Some(len) => {
            stats.replies.add(1);
            stats.late_replies.add(1);
            stats.bytes_out.add(len as u64);
        }
        None => stats.streams.add(1),
    }
}
