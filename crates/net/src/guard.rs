//! Runs a handler so that its panic costs one query, not the worker. No sockets and no framing here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use transport::{Batch, Handler, HandlerFactory, LateReplies, SuspectMessage, WorkerContext};

use crate::fault::{Reporter, WorkerFaultKind};
use crate::stats::WorkerStats;

/// A worker's handler and the means to replace it.
pub(crate) struct Guarded<F: HandlerFactory> {
    factory: Arc<F>,
    worker_context: WorkerContext,
    handler: F::Handler,
    stats: Arc<WorkerStats>,
    reporter: Reporter,
}

impl<F: HandlerFactory> Guarded<F> {
    pub(crate) fn new(
        factory: Arc<F>,
        worker_context: WorkerContext,
        stats: Arc<WorkerStats>,
        reporter: Reporter,
    ) -> Self {
        let handler = factory.make(&worker_context);
        Guarded { factory, worker_context, handler, stats, reporter }
    }

    /// Passes the batch to the handler. If it panics, the handler is rebuilt and gets every undecided query
    /// once more, alone; a query that makes it panic again is dropped.
    #[inline]
    pub(crate) fn batch(&mut self, batch: &mut Batch<'_>) {
        if self.attempt(|handler| handler.batch(batch)).is_some() {
            return;
        }
        for i in 0..batch.len() {
            if let Some(mut one) = batch.undecided(i)
                && self.attempt(|handler| handler.batch(&mut one)).is_none()
            {
                let query = one.queries().get(0);
                self.report(SuspectMessage { client: query.client, message: query.packet.to_vec() });
            }
        }
    }

    /// Calls the handler to write late answers. Returns whether more are ready.
    pub(crate) fn late(&mut self, replies: &mut LateReplies<'_>) -> bool {
        // After a panic more may be ready; the answer that caused it is lost.
        self.attempt(|handler| handler.late(replies)).unwrap_or_else(|| self.lost())
    }

    /// Calls the handler to continue with deferred queries. Returns whether there are more.
    pub(crate) fn resume(&mut self, replies: &mut LateReplies<'_>, most: usize) -> bool {
        // After a panic there may be more; the query that caused it is lost.
        self.attempt(|handler| handler.resume(replies, most)).unwrap_or_else(|| self.lost())
    }

    /// Runs work outside the handler, which may use state that the handler left behind. Catches its panics.
    pub(crate) fn beside(&mut self, work: impl FnOnce()) {
        let _ = self.attempt(|_| work());
    }

    pub(crate) fn idle(&mut self) {
        let _ = self.attempt(Handler::idle);
    }

    /// Returns the result of `work`; `None` if it panicked.
    #[inline]
    fn attempt<R>(&mut self, work: impl FnOnce(&mut F::Handler) -> R) -> Option<R> {
        let handler = &mut self.handler;
        // The handler is discarded if it unwinds, and outcomes are only ever whole values, so no half-done
        // state can be seen afterwards.
        let done = catch_unwind(AssertUnwindSafe(|| work(handler))).ok();
        if done.is_none() {
            self.renew();
        }
        done
    }

    /// Reports the query that a panic has cost. Returns true.
    #[cold]
    fn lost(&self) -> bool {
        SuspectMessage::take().into_iter().for_each(|suspect| self.report(suspect));
        true
    }

    #[cold]
    fn report(&self, suspect: SuspectMessage) {
        self.reporter.report(WorkerFaultKind::QueryPanicked(Box::new(suspect)));
    }

    #[cold]
    fn renew(&mut self) {
        self.stats.panics.add(1);
        self.reporter.report(WorkerFaultKind::HandlerPanicked);
        self.handler = self.factory.make(&self.worker_context);
    }
}
