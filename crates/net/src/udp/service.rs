//! The loop of a datagram worker: receive, answer, send, whichever back end moves the datagrams. Between batches it sends
//! what has become ready of the answers that are due later. At the end it drains what has arrived.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange::{HandlerFactory, Seat};

use super::datagrams::Datagrams;
use crate::alarm::Alarm;
use crate::fault::WorkerFaultKind;
use crate::guard::Guarded;
use crate::job::Job;
use crate::stats::WorkerStats;
use crate::sys;

/// Errors in a row after which a socket is given up. Some errors are leftovers of earlier replies and go away by
/// being read.
const ERRORS_TOLERATED: u32 = 8;
/// How often a stopping worker looks whether everything is out.
const DRAIN_STEP: Duration = Duration::from_millis(5);

/// A datagram worker: everything but the way its datagrams move.
pub(crate) struct DatagramService<F: HandlerFactory> {
    guarded: Guarded<F>,
    alarm: Arc<Alarm>,
    /// Queries that are to be answered later and are not yet.
    due: u64,
    pub(crate) job: Job,
}

impl<F: HandlerFactory> DatagramService<F> {
    /// The service of a worker on the present thread, which is pinned if the configuration says so.
    pub(crate) fn new(factory: Arc<F>, alarm: Arc<Alarm>, job: Job) -> Self {
        if job.config.pin_cpus
            && let Err(e) = sys::pin_thread(job.id.index)
        {
            job.reporter.report(WorkerFaultKind::Pin(e));
        }
        let seat: Seat = job.id.seat(Arc::clone(&alarm).into());
        let guarded = Guarded::new(factory, seat, Arc::clone(&job.stats), job.reporter.clone());
        DatagramService { guarded, alarm, due: 0, job }
    }

    /// Serves until told to stop. An error means that the socket is beyond use.
    pub(crate) fn serve<D: Datagrams>(&mut self, datagrams: &mut D) -> io::Result<()> {
        let mut errors = 0;
        while !self.job.shutdown.triggered() {
            match self.receive(datagrams) {
                Ok(n) => {
                    errors = 0;
                    self.answer(datagrams, n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.guarded.idle(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.job.stats.receive_errors.add(1);
                    errors += 1;
                    if errors > ERRORS_TOLERATED {
                        return Err(e);
                    }
                }
            }
            self.answer_late(datagrams);
        }
        self.drain(datagrams);
        Ok(())
    }

    /// Receives a batch. While answers are due later, the worker waits for those as well as for queries.
    #[inline]
    fn receive<D: Datagrams>(&mut self, datagrams: &mut D) -> io::Result<usize> {
        if self.due == 0 {
            return datagrams.receive(true);
        }
        match datagrams.receive(false) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                datagrams.wait_beside(&self.alarm)?;
                match datagrams.receive(false) {
                    // It was the alarm.
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
                    received => received,
                }
            }
            received => received,
        }
    }

    /// Has what was received answered.
    #[inline]
    fn answer<D: Datagrams>(&mut self, datagrams: &mut D, n: usize) {
        if n == 0 {
            return;
        }
        let stats: &WorkerStats = &self.job.stats;
        let mut batch = datagrams.batch();
        stats.batches.add(1);
        stats.queries.add(n as u64);
        stats.bytes_in.add(batch.bytes());
        self.guarded.batch(&mut batch);
        self.due += datagrams.send();
    }

    /// Sends the late answers that are ready.
    #[inline]
    fn answer_late<D: Datagrams>(&mut self, datagrams: &mut D) {
        if self.due > 0 && self.alarm.rang() {
            while self.guarded.late(&mut datagrams.late()) {
                self.settle(datagrams);
            }
            self.settle(datagrams);
        }
    }

    fn settle<D: Datagrams>(&mut self, datagrams: &mut D) {
        // A handler that panicked may have settled a query twice.
        self.due = self.due.saturating_sub(datagrams.send_late());
    }

    /// Answers what the socket still holds and waits for answers that are due later, both within the drain time.
    #[cold]
    fn drain<D: Datagrams>(&mut self, datagrams: &mut D) {
        let deadline = Instant::now() + self.job.config.drain;
        datagrams.leave();
        let mut errors = 0;
        while Instant::now() < deadline && errors <= ERRORS_TOLERATED {
            match datagrams.receive(false) {
                Ok(n) => self.answer(datagrams, n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => errors += 1,
            }
        }
        while Instant::now() < deadline && (self.due > 0 || !datagrams.finished()) {
            self.alarm.wait_beside(NOTHING, DRAIN_STEP);
            self.answer_late(datagrams);
        }
    }
}

/// The descriptor that `poll` passes over.
const NOTHING: RawFd = -1;
