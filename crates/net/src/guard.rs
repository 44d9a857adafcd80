//! Runs a handler so that its panic costs one query, not the worker. Neither sockets nor framing here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::batch::Batch;
use crate::handler::{Handler, HandlerFactory, Worker};
use crate::running::{FaultKind, Reporter};
use crate::stats::WorkerStats;

/// A worker's handler and the means to replace it.
pub(crate) struct Guarded<F: HandlerFactory> {
    factory: Arc<F>,
    worker: Worker,
    handler: F::Handler,
    stats: Arc<WorkerStats>,
    reporter: Reporter,
}

impl<F: HandlerFactory> Guarded<F> {
    pub(crate) fn new(factory: Arc<F>, worker: Worker, stats: Arc<WorkerStats>, reporter: Reporter) -> Self {
        let handler = factory.make(worker);
        Guarded { factory, worker, handler, stats, reporter }
    }

    /// Hands the batch to the handler. If that panics, the handler is made anew and every query left undecided is
    /// offered once more, alone; one that makes the handler panic again is dropped.
    #[inline]
    pub(crate) fn batch(&mut self, batch: &mut Batch<'_>) {
        if self.attempt(batch) {
            return;
        }
        for i in 0..batch.len() {
            if let Some(mut one) = batch.undecided(i) {
                self.attempt(&mut one);
            }
        }
    }

    /// True if the handler returned.
    #[inline]
    fn attempt(&mut self, batch: &mut Batch<'_>) -> bool {
        let handler = &mut self.handler;
        // The handler is thrown away if it unwinds, and outcomes are only ever whole values, so nothing half done
        // can be seen afterwards.
        if catch_unwind(AssertUnwindSafe(|| handler.batch(batch))).is_ok() {
            return true;
        }
        self.renew();
        false
    }

    pub(crate) fn idle(&mut self) {
        let handler = &mut self.handler;
        if catch_unwind(AssertUnwindSafe(|| handler.idle())).is_err() {
            self.renew();
        }
    }

    #[cold]
    fn renew(&mut self) {
        self.stats.own.panics.add(1);
        self.reporter.report(FaultKind::HandlerPanicked);
        self.handler = self.factory.make(self.worker);
    }
}
