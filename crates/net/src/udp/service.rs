//! The loop of a datagram worker: receive, answer, send, with any back end. Between batches it sends late
//! answers that are ready, continues with deferred queries, and takes its turn at driving a core. At the end
//! it drains the queries already received.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use transport::{HandlerFactory, WorkerContext};

use super::datagrams::Datagrams;
use super::shares::Shares;
use crate::alarm::{Alarm, NOTHING, Wait};
use crate::fault::WorkerFaultKind;
use crate::guard::Guarded;
use crate::job::Job;
use crate::outgoing::WorkerOutbound;
use crate::stats::WorkerStats;
use crate::sys;

/// Consecutive errors after which a socket is given up. Some errors are left over from earlier replies and go
/// away by being read.
const ERRORS_TOLERATED: u32 = 8;
/// Interval at which a stopping worker checks whether all replies are sent.
const DRAIN_STEP: Duration = Duration::from_millis(5);
/// Batch size from which on slow queries are deferred, while others are answered from memory: these would be
/// delayed.
const DEFERRING_BATCH: usize = 8;
/// Most consecutive full batches before other work: in the middle of a burst it shows whether other clients
/// send queries that memory answers.
const MAX_FULL_BATCHES: u32 = 4;
/// Most deferred queries continued at a time.
const MAX_RESUMED: usize = 8;

/// A datagram worker without its back end.
pub(crate) struct DatagramService<F: HandlerFactory> {
    guarded: Guarded<F>,
    alarm: Arc<Alarm>,
    /// Number of pending queries.
    due: u64,
    /// Its part in upstream queries.
    outbound: WorkerOutbound,
    /// The last batch had several queries: more may have arrived by now.
    several: bool,
    /// The handler may have deferred queries.
    put_off: bool,
    /// Consecutive full batches.
    full: u32,
    shares: Shares,
    pub(crate) job: Job,
}

impl<F: HandlerFactory> DatagramService<F> {
    /// Returns the service of a worker on this thread, which is pinned if the configuration says so.
    pub(crate) fn new(factory: Arc<F>, alarm: Arc<Alarm>, job: Job) -> Self {
        if job.config.pin_cpus
            && let Err(e) = sys::pin_thread(job.id.index)
        {
            job.reporter.report(WorkerFaultKind::Pin(e));
        }
        let worker_context: WorkerContext = job.id.worker_context(Arc::clone(&alarm).into());
        let guarded = Guarded::new(factory, worker_context, Arc::clone(&job.stats), job.reporter.clone());
        DatagramService {
            guarded,
            alarm,
            due: 0,
            outbound: WorkerOutbound::new(),
            several: false,
            put_off: false,
            full: 0,
            shares: Shares::new(job.config.udp.fair_shares, job.config.udp.batch, Arc::clone(&job.stats)),
            job,
        }
    }

    /// Serves until a stop is requested. An error means that the socket is unusable.
    pub(crate) fn serve<D: Datagrams>(&mut self, datagrams: &mut D) -> io::Result<()> {
        self.outbound.begin();
        let end = self.serve_until_told(datagrams);
        self.outbound.end();
        end
    }

    fn serve_until_told<D: Datagrams>(&mut self, datagrams: &mut D) -> io::Result<()> {
        let taking = self.job.shutdown.take();
        let mut errors = 0;
        while !self.job.shutdown.triggered() {
            match self.receive(datagrams) {
                Ok(n) => {
                    errors = 0;
                    let left = self.shares.trim(datagrams, n);
                    self.answer(datagrams, left);
                    if self.is_in_a_burst(n) {
                        continue;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.guarded.idle();
                    self.outbound.idle();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.job.stats.receive_errors.add(1);
                    errors += 1;
                    if errors > ERRORS_TOLERATED {
                        return Err(e);
                    }
                }
            }
            self.take_turn(datagrams);
        }
        let deadline = Instant::now() + self.job.config.drain;
        if !self.job.leaves_unread() {
            self.empty(datagrams, deadline);
        }
        drop(taking);
        self.wait_for_late(datagrams, deadline);
        Ok(())
    }

    /// Receives a batch. While queries are pending, the worker waits for late answers, for links to other
    /// servers and for queries.
    #[inline]
    fn receive<D: Datagrams>(&mut self, datagrams: &mut D) -> io::Result<usize> {
        if self.due == 0 && !self.outbound.is_busy() {
            return datagrams.receive(true);
        }
        // Links are read each time, unless a wait reports that none is readable.
        self.outbound.look();
        let urgent = self.put_off || self.outbound.is_urgent();
        if self.several || urgent {
            match receive_now(datagrams) {
                Ok(0) if !urgent => {}
                received => return received,
            }
        }
        let at_most = self.outbound.patience();
        let wait = Wait { alarm: &self.alarm, links: self.outbound.links(), at_most };
        let woken = datagrams.wait_beside(&wait);
        self.outbound.set_readable(woken.links);
        match woken.socket {
            true => receive_now(datagrams),
            false if woken.is_woken() || at_most.is_some() => Ok(0),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Answers the received batch.
    #[inline]
    fn answer<D: Datagrams>(&mut self, datagrams: &mut D, n: usize) {
        self.several = n > 1;
        if n == 0 {
            return;
        }
        let stats: &WorkerStats = &self.job.stats;
        let mut batch = datagrams.batch();
        if n >= DEFERRING_BATCH && !self.outbound.is_calm() {
            batch.let_put_off();
            self.put_off = true;
        }
        stats.batches.add(1);
        stats.queries.add(n as u64);
        stats.bytes_in.add(batch.bytes());
        self.guarded.batch(&mut batch);
        let due = datagrams.send();
        if due < n as u64 {
            self.outbound.answered();
        }
        self.due += due;
    }

    /// Whether the batch was full, so that there are more queries, and they are to be received before other
    /// work.
    #[inline]
    fn is_in_a_burst(&mut self, n: usize) -> bool {
        self.full =
            if n >= self.job.config.udp.batch && self.full < MAX_FULL_BATCHES { self.full + 1 } else { 0 };
        self.full > 0
    }

    /// Continues with a few deferred queries, acts on a few requests and replies of the core; then sends the
    /// late answers that are ready.
    #[inline]
    fn take_turn<D: Datagrams>(&mut self, datagrams: &mut D) {
        if self.put_off {
            self.put_off = self.guarded.resume(&mut datagrams.late(), MAX_RESUMED);
            self.settle(datagrams);
        }
        if !self.outbound.is_due() {
            if self.due > 0 && self.alarm.rang() {
                self.answer_late(datagrams);
            }
            return;
        }
        // Answers that become ready here need no event to be noticed.
        let rang = self.alarm.hold();
        self.guarded.beside(|| self.outbound.turn());
        self.alarm.release(rang);
        if self.due > 0 {
            self.answer_late(datagrams);
        }
        self.outbound.tidy();
    }

    fn answer_late<D: Datagrams>(&mut self, datagrams: &mut D) {
        while self.guarded.late(&mut datagrams.late()) {
            self.settle(datagrams);
        }
        self.settle(datagrams);
    }

    fn settle<D: Datagrams>(&mut self, datagrams: &mut D) {
        // A handler that panicked may have settled a query twice.
        self.due = self.due.saturating_sub(datagrams.send_late());
    }

    /// Answers the queries that the socket still holds. Not called for a passed socket: its queries, now and
    /// later, are for the next server; nor can it be connected away, since the next server uses it too.
    #[cold]
    fn empty<D: Datagrams>(&mut self, datagrams: &mut D, deadline: Instant) {
        datagrams.leave();
        let mut errors = 0;
        while Instant::now() < deadline && errors <= ERRORS_TOLERATED {
            match datagrams.receive(false) {
                Ok(n) => self.answer(datagrams, n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => errors += 1,
            }
        }
    }

    /// Waits for late answers, and until all replies are sent.
    #[cold]
    fn wait_for_late<D: Datagrams>(&mut self, datagrams: &mut D, deadline: Instant) {
        while Instant::now() < deadline && (self.due > 0 || !datagrams.finished()) {
            let step = if self.put_off { Duration::ZERO } else { DRAIN_STEP };
            let wait = Wait { alarm: &self.alarm, links: self.outbound.links(), at_most: Some(step) };
            let woken = wait.beside(NOTHING, step);
            self.outbound.set_readable(woken.links);
            self.take_turn(datagrams);
        }
    }
}

/// Receives without waiting; `Ok(0)` if there is nothing.
#[inline]
fn receive_now<D: Datagrams>(datagrams: &mut D) -> io::Result<usize> {
    match datagrams.receive(false) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
        received => received,
    }
}
