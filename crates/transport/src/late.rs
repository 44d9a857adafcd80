//! Late answers: a queue back to the worker that received their queries, which sends them in batches.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

use crate::{Clock, Outcome, ReturnAddress};

/// How the buffers of late answers lie in their memory.
#[derive(Clone, Copy, Debug)]
pub struct LateLayout {
    /// Bytes from the start of one buffer to that of the next.
    pub stride: usize,
    /// Bytes of one buffer.
    pub room: usize,
    /// Number of buffers.
    pub most: usize,
}

/// Buffers for some late answers. A handler takes the next [`buffer`](Self::buffer), writes an answer to it
/// and [`push`](Self::push)es it with its return address, until buffers or answers run out.
pub struct LateReplies<'a> {
    output: &'a mut [u8],
    stride: usize,
    room: usize,
    most: usize,
    replies: &'a mut Vec<(ReturnAddress, Outcome)>,
    clock: Clock,
}

impl<'a> LateReplies<'a> {
    /// Returns buffers in `output`: answer `i` is written to the first `room` bytes from `i * stride`, and
    /// `replies` receives the return address and outcome of each.
    ///
    /// # Panics
    /// If `output` is too short.
    pub fn new(
        output: &'a mut [u8],
        LateLayout { stride, room, most }: LateLayout,
        replies: &'a mut Vec<(ReturnAddress, Outcome)>,
        clock: Clock,
    ) -> Self {
        assert!(most == 0 || output.len() >= (most - 1) * stride + room);
        replies.clear();
        LateReplies { output, stride, room, most, replies, clock }
    }

    /// Returns the buffer for the next answer; `None` if all are used.
    #[inline]
    pub fn buffer(&mut self) -> Option<&mut [u8]> {
        let start = (self.replies.len() < self.most).then(|| self.replies.len() * self.stride)?;
        self.output.get_mut(start..start + self.room)
    }

    /// Settles one query: `outcome` is about the buffer last returned. [`Outcome::Pending`] is treated as
    /// [`Outcome::Drop`].
    #[inline]
    pub fn push(&mut self, to: ReturnAddress, outcome: Outcome) {
        self.replies.push((to, outcome));
    }

    /// Returns the present time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }
}

thread_local! {
    /// Wakers that this thread wakes at the end of [`wake_together`], while it is inside.
    static HELD_BACK: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// Runs `work`, and wakes the workers whose queries it answers at the end, each once. A worker that is woken
/// for every answer would send every answer on its own.
pub fn wake_together<R>(work: impl FnOnce() -> R) -> R {
    /// Wakes the workers, also if `work` panics.
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

/// Answers that are ready for one worker: any thread adds to it, and the worker's handler takes from it in
/// [`Handler::late`](crate::Handler::late).
pub struct LateQueue<T> {
    ready: Mutex<VecDeque<T>>,
    waker: Waker,
}

impl<T> LateQueue<T> {
    /// Returns an empty queue of the worker that `waker` wakes.
    pub fn new(waker: Waker) -> Self {
        LateQueue { ready: Mutex::default(), waker }
    }

    /// Adds an item and wakes the worker; inside [`wake_together`] at its end.
    pub fn push(&self, item: T) {
        self.with(|ready| ready.push_back(item));
        HELD_BACK.with_borrow_mut(|held| match held {
            None => self.waker.wake_by_ref(),
            Some(wakers) if wakers.iter().any(|waker| waker.will_wake(&self.waker)) => {}
            Some(wakers) => wakers.push(self.waker.clone()),
        });
    }

    /// Removes and returns the oldest item.
    pub fn pop(&self) -> Option<T> {
        self.with(VecDeque::pop_front)
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.with(|ready| ready.is_empty())
    }

    /// No statement leaves the queue half changed, so a panic while it was locked does not matter.
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
