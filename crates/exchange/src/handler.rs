//! What a transport calls: handlers, one for each worker.

use std::net::SocketAddr;
use std::task::Waker;

use crate::{Batch, LateReplies, Transport};

/// Answers queries. Every worker thread owns one, made on that thread by a [`HandlerFactory`], so it needs no
/// locks and need not be `Send`.
pub trait Handler: 'static {
    /// Answers a batch: look at all queries, then set an outcome for each. Must not block, since nothing else
    /// on this worker proceeds meanwhile.
    ///
    /// A panic costs the query that caused it: the worker makes a new handler and offers the undecided
    /// queries of the batch again one by one.
    fn batch(&mut self, batch: &mut Batch<'_>);

    /// Writes answers to queries that were left [`Outcome::Pending`](crate::Outcome::Pending) and can be
    /// answered now, as many as `replies` has room for. Returns whether more are ready. Called some time
    /// after the seat's waker was woken.
    fn late(&mut self, replies: &mut LateReplies<'_>) -> bool;

    /// Goes on with queries of a batch that [may be put off](Batch::may_put_off) and that were, as
    /// [`Outcome::Pending`](crate::Outcome::Pending): with so many at the most, the oldest first. What can be
    /// answered by now is written; the rest stays pending. Returns whether others are still put off. So the
    /// quick answers of a large batch leave before the slow ones are worked on.
    fn resume(&mut self, _replies: &mut LateReplies<'_>, _most: usize) -> bool {
        false
    }

    /// Called when the worker found nothing to do: for datagrams a few times a second while no queries come,
    /// for streams about once a second. Snapshots that were kept between batches are let go of here.
    fn idle(&mut self) {}
}

/// The worker that a handler is made for.
#[derive(Clone, Debug)]
pub struct WorkerContext {
    /// Number of the worker within its listener, from 0.
    pub index: usize,
    /// Transport of the listener.
    pub transport: Transport,
    /// Address the listener is bound to.
    pub local: SocketAddr,
    /// Wakes the worker, so that it calls [`Handler::late`] soon.
    pub waker: Waker,
}

/// Makes one [`Handler`] for each worker, on the worker's own thread. Any
/// `Fn(&WorkerContext) -> impl Handler` is one.
pub trait HandlerFactory: Send + Sync + 'static {
    /// The handler made.
    type Handler: Handler;

    /// Makes the handler of one worker. Called again for the same seat only after its handler panicked: what
    /// must outlive that, such as answers under way, belongs to the factory.
    fn make(&self, worker_context: &WorkerContext) -> Self::Handler;
}

impl<H: Handler, F: Fn(&WorkerContext) -> H + Send + Sync + 'static> HandlerFactory for F {
    type Handler = H;

    fn make(&self, worker_context: &WorkerContext) -> H {
        self(worker_context)
    }
}
