//! Answers that come later: a queue back to the worker that received their queries, which writes them a batch at a
//! time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

use crate::{Clock, Outcome, ReturnAddress};

/// Room for some late answers. A handler takes the next [`buffer`](Self::buffer), writes an answer to it and
/// [`push`](Self::push)es it with its return address, until there is no more room or no more answer.
pub struct LateReplies<'a> {
    output: &'a mut [u8],
    stride: usize,
    room: usize,
    most: usize,
    replies: &'a mut Vec<(ReturnAddress, Outcome)>,
    clock: Clock,
}

impl<'a> LateReplies<'a> {
    /// Room for `most` answers: answer `i` is written to the first `room` bytes from `i * stride` of `output`, and
    /// `replies` receives who gets what.
    ///
    /// # Panics
    /// If `output` is too short for that.
    pub fn new(
        output: &'a mut [u8],
        (stride, room, most): (usize, usize, usize),
        replies: &'a mut Vec<(ReturnAddress, Outcome)>,
        clock: Clock,
    ) -> Self {
        assert!(most == 0 || output.len() >= (most - 1) * stride + room);
        replies.clear();
        LateReplies { output, stride, room, most, replies, clock }
    }

    /// The buffer for the next answer; `None` if there is no more room.
    #[inline]
    pub fn buffer(&mut self) -> Option<&mut [u8]> {
        let start = (self.replies.len() < self.most).then(|| self.replies.len() * self.stride)?;
        self.output.get_mut(start..start + self.room)
    }

    /// Settles one query: `outcome` is about the buffer last taken. [`Outcome::Pending`] is not an answer and treated
    /// as [`Outcome::Drop`].
    #[inline]
    pub fn push(&mut self, to: ReturnAddress, outcome: Outcome) {
        self.replies.push((to, outcome));
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }
}

/// What is ready to be answered by one worker: any thread adds to it, the worker's handler takes from it in
/// [`Handler::late`](crate::Handler::late).
pub struct LateQueue<T> {
    ready: Mutex<VecDeque<T>>,
    waker: Waker,
}

impl<T> LateQueue<T> {
    /// An empty queue of the worker that `waker` wakes.
    pub fn new(waker: Waker) -> Self {
        LateQueue { ready: Mutex::default(), waker }
    }

    /// Adds an item and wakes the worker.
    pub fn push(&self, item: T) {
        self.with(|ready| ready.push_back(item));
        self.waker.wake_by_ref();
    }

    /// Takes the item that waits longest.
    pub fn pop(&self) -> Option<T> {
        self.with(VecDeque::pop_front)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.with(|ready| ready.is_empty())
    }

    /// No statement leaves the queue half changed, so a panic elsewhere while it was locked does not matter.
    fn with<R>(&self, change: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
        change(&mut self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
