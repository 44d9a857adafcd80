//! What the server plugs in: handlers, their factory, and sources of many-message answers.

use std::net::SocketAddr;

use crate::batch::{Batch, Transport};

/// Answers queries. Every worker thread owns one, made on that thread by a [`HandlerFactory`], so it needs no
/// locks and need not be `Send`.
pub trait Handler: 'static {
    /// Answers a batch: look at all queries, then set an outcome for each. Must not block, since nothing else on
    /// this worker proceeds meanwhile. State that should be looked up once per batch (a snapshot of the zones, the
    /// time) is taken here and let go on return.
    ///
    /// A panic costs the query that caused it: the worker makes a new handler and offers the undecided queries of
    /// the batch again one by one.
    fn batch(&mut self, batch: &mut Batch<'_>);

    /// Called when the worker found nothing to do: on UDP a few times a second while no queries come, on TCP
    /// about once a second. The place to let go of snapshots that were kept between batches.
    fn idle(&mut self) {}
}

/// Which worker a handler is made for.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// Number of the worker within its listener, from 0.
    pub index: usize,
    /// Transport of the listener.
    pub transport: Transport,
    /// Address the listener is bound to.
    pub local: SocketAddr,
}

/// Makes one [`Handler`] per worker, on the worker's own thread. Any `Fn(Worker) -> impl Handler` is one.
pub trait HandlerFactory: Send + Sync + 'static {
    /// The handler made.
    type Handler: Handler;

    /// Makes the handler of one worker. Called again for the same worker only after its handler panicked.
    fn make(&self, worker: Worker) -> Self::Handler;
}

impl<H: Handler, F: Fn(Worker) -> H + Send + Sync + 'static> HandlerFactory for F {
    type Handler = H;

    fn make(&self, worker: Worker) -> H {
        self(worker)
    }
}

/// What a [`MessageStream`] has next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A message of this many octets was written to the start of the buffer.
    Message(usize),
    /// The last message has been given.
    End,
    /// The source failed. The connection is closed, so that the client cannot take what it got for all there is.
    Abort,
}

/// An answer of many messages, such as a zone transfer (RFC 5936). Messages are pulled as the client reads them,
/// so a slow client holds back only its own stream.
pub trait MessageStream: Send {
    /// Writes the next message to `out`, which holds 65,535 octets. Must not block.
    fn next(&mut self, out: &mut [u8]) -> Next;
}
