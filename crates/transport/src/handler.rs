//! Handlers, which transports call; each worker has one.

use std::net::SocketAddr;
use std::task::Waker;

use crate::{Batch, LateReplies, Transport};

/// Answers queries. Every worker thread owns one, built on that thread by a [`HandlerFactory`], so it needs
/// no locks and need not be `Send`.
pub trait Handler: 'static {
    /// Answers a batch: reads all queries, then sets an outcome for each. Must not block, since the worker
    /// does nothing else meanwhile.
    ///
    /// A panic costs the query that caused it: the worker builds a new handler and passes it the undecided
    /// queries of the batch again one by one.
    fn batch(&mut self, batch: &mut Batch<'_>);

    /// Writes answers to queries with the outcome [`Outcome::Pending`](crate::Outcome::Pending) that are
    /// ready now, as many as `replies` has room for. Returns whether more are ready. The worker calls it
    /// after its waker was woken.
    fn late(&mut self, replies: &mut LateReplies<'_>) -> bool;

    /// Continues with at most `_most` deferred queries, the oldest first: queries of a batch that [allowed
    /// it](Batch::may_put_off), with the outcome [`Outcome::Pending`](crate::Outcome::Pending). Writes the
    /// answers that are ready now; the rest stays pending. Returns whether more queries are deferred. So the
    /// quick answers of a large batch are sent before the slow ones are worked on.
    fn resume(&mut self, _replies: &mut LateReplies<'_>, _most: usize) -> bool {
        false
    }

    /// Releases snapshots that were kept between batches. The worker calls it when it has nothing to do: for
    /// datagrams a few times a second while no queries arrive, for streams about once a second.
    fn idle(&mut self) {}
}

/// The worker that a handler is built for.
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

/// Builds one [`Handler`] for each worker, on the worker's own thread. Any
/// `Fn(&WorkerContext) -> impl Handler` is one.
pub trait HandlerFactory: Send + Sync + 'static {
    /// The type of the handlers.
    type Handler: Handler;

    /// Builds the handler of one worker. The worker calls it again only after its handler has panicked: state
    /// that must outlive that, such as pending answers, belongs to the factory.
    fn make(&self, worker_context: &WorkerContext) -> Self::Handler;
}

impl<H: Handler, F: Fn(&WorkerContext) -> H + Send + Sync + 'static> HandlerFactory for F {
    type Handler = H;

    fn make(&self, worker_context: &WorkerContext) -> H {
        self(worker_context)
    }
}
