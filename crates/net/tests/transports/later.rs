//! Late answers that tests settle: the queue that each worker's handler takes them from, and the pending
//! queries that go into it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use transport::{Client, LateQueue, LateReplies, MessageStream, Outcome, ReturnAddress, WorkerContext};

/// How a pending query is settled: with a message, a stream or nothing.
pub(crate) enum Settlement {
    Message(Vec<u8>),
    Stream(Box<dyn MessageStream>),
    Nothing,
    /// What a faulty handler might do.
    Overlong,
}

pub(crate) type LateAnswers = Arc<LateQueue<(ReturnAddress, Settlement)>>;

/// The queues of all workers of a listener, by their number: they outlive handlers that panic.
#[derive(Clone, Default)]
pub(crate) struct Queues(Arc<Mutex<HashMap<usize, LateAnswers>>>);

impl Queues {
    pub(crate) fn of(&self, worker_context: &WorkerContext) -> LateAnswers {
        let new = || Arc::new(LateQueue::new(worker_context.waker.clone()));
        Arc::clone(self.0.lock().unwrap().entry(worker_context.index).or_insert_with(new))
    }
}

/// Writes the answers that are ready, as a handler does.
pub(crate) fn write(queue: &LateAnswers, replies: &mut LateReplies<'_>) -> bool {
    while let Some(buffer) = replies.buffer() {
        let Some((to, settled)) = queue.pop() else { return false };
        let outcome = match settled {
            Settlement::Message(message) => {
                buffer[..message.len()].copy_from_slice(&message);
                Outcome::Reply(message.len())
            }
            Settlement::Stream(stream) => Outcome::Stream(stream),
            Settlement::Nothing => Outcome::Drop,
            Settlement::Overlong => Outcome::Reply(buffer.len() + 1),
        };
        replies.push(to, outcome);
    }
    !queue.is_empty()
}

/// A pending query. Dropping it settles it without an answer.
pub(crate) struct WaitingQuery {
    pub(crate) to: ReturnAddress,
    queue: Option<LateAnswers>,
}

impl WaitingQuery {
    pub(crate) fn new(to: ReturnAddress, queue: &LateAnswers) -> Self {
        WaitingQuery { to, queue: Some(Arc::clone(queue)) }
    }

    pub(crate) fn client(&self) -> Client {
        self.to.client
    }

    pub(crate) fn settle(mut self, settled: Settlement) {
        if let Some(queue) = self.queue.take() {
            queue.push((self.to, settled));
        }
    }

    pub(crate) fn send(self, message: &[u8]) {
        self.settle(Settlement::Message(message.to_vec()));
    }
}

impl Drop for WaitingQuery {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.push((self.to, Settlement::Nothing));
        }
    }
}
