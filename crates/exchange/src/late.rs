//! Answers that come later: a queue back to the worker that received their queries, which writes them a batch
//! at a time.

use std::cell::RefCell;
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
    /// Room for `most` answers: answer `i` is written to the first `room` bytes from `i * stride` of
    /// `output`, and `replies` receives who gets what.
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

    /// Settles one query: `outcome` is about the buffer last taken. [`Outcome::Pending`] is not an answer and
    /// treated as [`Outcome::Drop`].
    #[inline]
    pub fn push(&mut self, to: ReturnAddress, outcome: Outcome) {
        self.replies.push((to, outcome));
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }
}

thread_local! {
    /// Whom this thread is to wake later, while it holds that back.
    static HELD_BACK: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// Does some work; the workers whose queries it answers are woken when it is over, each once. A worker that
/// is woken for every answer sends every answer by itself.
pub fn wake_together<R>(work: impl FnOnce() -> R) -> R {
    /// Wakes them, also if the work panics.
    struct Hold;
    impl Drop for Hold {
        fn drop(&mut self) {
            HELD_BACK.take().into_iter().flatten().for_each(Waker::wake);
        }
    }
    let nested = HELD_BACK.with_borrow_mut(|held| {
        let nested = held.is_some();
        held.get_or_insert_default();
        nested
    });
    let _hold = (!nested).then(|| Hold);
    work()
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

    /// Adds an item and wakes the worker; within [`wake_together`] once that is over.
    pub fn push(&self, item: T) {
        self.with(|ready| ready.push_back(item));
        HELD_BACK.with_borrow_mut(|held| match held {
            None => self.waker.wake_by_ref(),
            Some(wakers) if wakers.iter().any(|waker| waker.will_wake(&self.waker)) => {}
            Some(wakers) => wakers.push(self.waker.clone()),
        });
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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn queue() -> (LateQueue<u32>, Arc<Woken>) {
        let woken = Arc::new(Woken::default());
        (LateQueue::new(Arc::clone(&woken).into()), woken)
    }

    #[test]
    fn answers_that_are_settled_together_wake_each_worker_once_afterwards() {
        let [(one, one_woken), (other, other_woken)] = [queue(), queue()];
        let woken = || [&one_woken, &other_woken].map(|woken| woken.0.load(Relaxed));
        wake_together(|| {
            one.push(1);
            wake_together(|| one.push(2));
            other.push(3);
            assert_eq!(woken(), [0, 0], "not before it is over, nor when a part of it is");
        });
        assert_eq!(woken(), [1, 1]);
        one.push(4);
        assert_eq!(woken(), [2, 1], "by itself at once");
        assert_eq!([one.pop(), one.pop(), one.pop(), other.pop()], [Some(1), Some(2), Some(4), Some(3)]);
    }

    #[test]
    fn a_panic_leaves_nobody_asleep() {
        let (queue, woken) = queue();
        let work = || {
            wake_together(|| -> () {
                queue.push(1);
                std::panic::resume_unwind(Box::new(()));
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        assert_eq!(woken.0.load(Relaxed), 1);
    }
}
