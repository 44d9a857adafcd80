//! The datagram worker: one thread, one socket, one loop of receive, answer, send, whichever back end moves the
//! datagrams. Between batches it sends what has become ready of the answers that are due later. It also mends its
//! socket and drains it at the end.

use std::io;
use std::net::UdpSocket;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exchange::{Batch, HandlerFactory, LateReplies, Seat};

use super::endpoint::Endpoint;
use super::mmsg::Mmsg;
use super::plain::Plain;
use super::socket::open;
use crate::alarm::Alarm;
use crate::config::UdpBackend;
use crate::guard::Guarded;
use crate::listener::Job;
use crate::running::FaultKind;
use crate::stats::WorkerStats;
use crate::sys;

/// Errors in a row after which a socket is given up. Some errors are leftovers of earlier replies and go away by
/// being read.
const ERRORS_TOLERATED: u32 = 8;
/// First and longest pause between attempts to make a new socket.
const REBIND_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How often a stopping worker looks whether everything is out.
const DRAIN_STEP: Duration = Duration::from_millis(5);
/// Bytes of a cache line.
const LINE: usize = 64;

/// A way of moving datagrams.
pub(crate) trait Datagrams {
    /// Receives a batch, waiting for its first datagram up to the socket's timeout if `wait`. Returns how many
    /// queries [`Datagrams::batch`] will show, which may be none.
    ///
    /// # Errors
    /// `WouldBlock` if nothing came; otherwise the socket's error.
    fn receive(&mut self, wait: bool) -> io::Result<usize>;

    /// Waits until there may be something to receive or the alarm rings, up to the socket's timeout.
    ///
    /// # Errors
    /// `WouldBlock` if neither happened; otherwise the socket's error.
    fn wait_beside(&mut self, alarm: &Alarm) -> io::Result<()>;

    /// The queries received.
    fn batch(&mut self) -> Batch<'_>;

    /// Sends the replies decided on. What cannot be sent is counted and forgotten. Returns how many queries are to be
    /// answered later.
    fn send(&mut self) -> u64;

    /// Room for late answers, while no batch is being answered.
    fn late(&mut self) -> LateReplies<'_>;

    /// Sends the late answers written. Returns how many queries that settles.
    fn send_late(&mut self) -> u64;

    /// Makes sure that nothing new arrives here, while what has arrived can still be received.
    fn leave(&mut self);

    /// True if no reply waits to be sent any more.
    fn finished(&mut self) -> bool;
}

/// The distance between buffers of `room` bytes: an odd number of cache lines, so that the starts of a batch's
/// buffers, which are what is touched most, do not all compete for the same cache sets.
pub(crate) fn stride(room: usize) -> usize {
    (room.div_ceil(LINE) | 1) * LINE
}

/// Starts a worker thread on `socket`.
pub(crate) fn spawn<F: HandlerFactory>(
    socket: UdpSocket,
    factory: Arc<F>,
    job: Job,
) -> io::Result<JoinHandle<()>> {
    // Without the timeout a blocked worker could not notice that it should stop.
    socket.set_read_timeout(Some(job.config.udp.idle_wake.max(Duration::from_millis(1))))?;
    let alarm = Alarm::new()?;
    let name = format!("udp-{}-{}", job.id.local.port(), job.id.index);
    std::thread::Builder::new().name(name).spawn(move || {
        let mut worker = Worker::new(factory, alarm, job);
        let mut socket = socket;
        // Each round serves one socket; a new round means that it failed and was replaced.
        loop {
            let Job { config, stats, id, .. } = &worker.job;
            let endpoint = Endpoint::new(socket, id.local, config.udp.max_reply);
            let end = match config.udp.backend {
                UdpBackend::Mmsg => {
                    let mut mmsg = Mmsg::new(endpoint, Arc::clone(stats), &config.udp);
                    worker.serve(&mut mmsg)
                }
                UdpBackend::Plain => {
                    let mut plain = Plain::new(endpoint, Arc::clone(stats), &config.udp);
                    worker.serve(&mut plain)
                }
            };
            let Err(error) = end else { return };
            worker.job.reporter.report(FaultKind::Socket(error));
            match rebind(&worker.job) {
                Some(new) => socket = new,
                None => return,
            }
        }
    })
}

/// A datagram worker: everything but the way its datagrams move.
pub(crate) struct Worker<F: HandlerFactory> {
    guarded: Guarded<F>,
    alarm: Arc<Alarm>,
    /// Queries that are to be answered later and are not yet.
    due: u64,
    job: Job,
}

impl<F: HandlerFactory> Worker<F> {
    /// A worker on the present thread, which is pinned if the configuration says so.
    pub(crate) fn new(factory: Arc<F>, alarm: Arc<Alarm>, job: Job) -> Self {
        if job.config.pin_cpus
            && let Err(e) = sys::pin_thread(job.id.index)
        {
            job.reporter.report(FaultKind::Pin(e));
        }
        let seat: Seat = job.id.seat(Arc::clone(&alarm).into());
        let guarded = Guarded::new(factory, seat, Arc::clone(&job.stats), job.reporter.clone());
        Worker { guarded, alarm, due: 0, job }
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

/// Makes a new socket for the same address, however long it takes; `None` once told to stop.
#[cold]
fn rebind(job: &Job) -> Option<UdpSocket> {
    let (mut pause, longest) = REBIND_PAUSE;
    let mut reported = false;
    while !job.shutdown.triggered() {
        let made = open(job.id.local, &job.config, true).map_err(|refusal| refusal.cause).and_then(|new| {
            new.set_read_timeout(Some(job.config.udp.idle_wake))?;
            Ok(new)
        });
        match made {
            Ok(new) => {
                job.stats.rebinds.add(1);
                job.reporter.report(FaultKind::Recovered);
                return Some(new);
            }
            Err(e) if !reported => {
                reported = true;
                job.reporter.report(FaultKind::Rebind(e));
            }
            Err(_) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
    None
}
