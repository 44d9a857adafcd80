//! The datagram worker: one thread, one socket, one loop of receive, answer, send, whichever back end moves the
//! datagrams. It also mends its socket and drains it at the end.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::mmsg::Mmsg;
use super::plain::Plain;
use super::socket::open;
use crate::batch::Batch;
use crate::config::UdpBackend;
use crate::guard::Guarded;
use crate::handler::HandlerFactory;
use crate::listener::Job;
use crate::running::FaultKind;
use crate::stats::OwnCounters;
use crate::sys;

/// Errors in a row after which a socket is given up. Some errors are leftovers of earlier replies and go away by
/// being read.
const ERRORS_TOLERATED: u32 = 8;
/// First and longest pause between attempts to make a new socket.
const REBIND_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How often a stopping worker looks whether later answers are out.
const DRAIN_STEP: Duration = Duration::from_millis(5);
/// Octets of a cache line.
const LINE: usize = 64;

/// A way of moving datagrams.
pub(crate) trait Datagrams {
    /// Receives a batch, waiting for its first datagram up to the socket's timeout if `wait`. Returns how many
    /// queries [`Datagrams::batch`] will show, which may be none.
    ///
    /// # Errors
    /// `WouldBlock` if nothing came; otherwise the socket's error.
    fn receive(&mut self, wait: bool) -> io::Result<usize>;

    /// The queries received.
    fn batch(&mut self) -> Batch<'_>;

    /// Sends the replies decided on. What cannot be sent is counted and forgotten.
    fn send(&mut self);

    /// Makes sure that nothing new arrives here, while what has arrived can still be received.
    fn leave(&mut self);

    /// True if no answer is on its way any more: none is promised for later, and none waits to be sent.
    fn finished(&mut self) -> bool;
}

/// The distance between buffers of `room` octets: an odd number of cache lines, so that the starts of a batch's
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
    let name = format!("udp-{}-{}", job.worker.local.port(), job.worker.index);
    std::thread::Builder::new().name(name).spawn(move || {
        if job.config.pin_cpus
            && let Err(e) = sys::pin_thread(job.worker.index)
        {
            job.reporter.report(FaultKind::Pin(e));
        }
        let mut guarded = Guarded::new(factory, job.worker, Arc::clone(&job.stats), job.reporter.clone());
        let mut socket = socket;
        // Each round serves one socket; a new round means that it failed and was replaced.
        loop {
            let udp = &job.config.udp;
            let endpoint = Endpoint::new(socket, job.worker.local, udp.max_reply, Arc::clone(&job.stats));
            let (endpoint, stats) = (Arc::new(endpoint), Arc::clone(&job.stats));
            let end = match udp.backend {
                UdpBackend::Mmsg => serve(&mut Mmsg::new(endpoint, stats, udp), &mut guarded, &job),
                UdpBackend::Plain => serve(&mut Plain::new(endpoint, stats, udp), &mut guarded, &job),
            };
            let Err(error) = end else { return };
            job.reporter.report(FaultKind::Socket(error));
            match rebind(&job) {
                Some(new) => socket = new,
                None => return,
            }
        }
    })
}

/// Serves until told to stop. An error means that the socket is beyond use.
pub(crate) fn serve<D: Datagrams, F: HandlerFactory>(
    datagrams: &mut D,
    guarded: &mut Guarded<F>,
    job: &Job,
) -> io::Result<()> {
    let own = &job.stats.own;
    let mut errors = 0;
    while !job.shutdown.triggered() {
        match datagrams.receive(true) {
            Ok(n) => {
                errors = 0;
                answer(datagrams, n, guarded, own);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => guarded.idle(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                own.receive_errors.add(1);
                errors += 1;
                if errors > ERRORS_TOLERATED {
                    return Err(e);
                }
            }
        }
    }
    drain(datagrams, guarded, job);
    Ok(())
}

/// Has what was received answered.
#[inline]
fn answer<D: Datagrams, F: HandlerFactory>(
    datagrams: &mut D,
    n: usize,
    guarded: &mut Guarded<F>,
    own: &OwnCounters,
) {
    if n == 0 {
        return;
    }
    let mut batch = datagrams.batch();
    own.batches.add(1);
    own.queries.add(n as u64);
    own.bytes_in.add(batch.octets());
    guarded.batch(&mut batch);
    datagrams.send();
}

/// Answers what the socket still holds and waits for answers promised for later, both within the drain time.
#[cold]
fn drain<D: Datagrams, F: HandlerFactory>(datagrams: &mut D, guarded: &mut Guarded<F>, job: &Job) {
    let deadline = Instant::now() + job.config.drain;
    datagrams.leave();
    let mut errors = 0;
    while Instant::now() < deadline && errors <= ERRORS_TOLERATED {
        match datagrams.receive(false) {
            Ok(n) => answer(datagrams, n, guarded, &job.stats.own),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => errors += 1,
        }
    }
    while !datagrams.finished() && Instant::now() < deadline {
        std::thread::sleep(DRAIN_STEP);
    }
}

/// Makes a new socket for the same address, however long it takes; `None` once told to stop.
#[cold]
fn rebind(job: &Job) -> Option<UdpSocket> {
    let (mut pause, longest) = REBIND_PAUSE;
    let mut reported = false;
    while !job.shutdown.triggered() {
        let made =
            open(job.worker.local, &job.config, true).map_err(|refusal| refusal.cause).and_then(|new| {
                new.set_read_timeout(Some(job.config.udp.idle_wake))?;
                Ok(new)
            });
        match made {
            Ok(new) => {
                job.stats.own.rebinds.add(1);
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
