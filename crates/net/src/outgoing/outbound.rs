//! A datagram worker's part in upstream queries: it drives the core for the requests that its queries lead
//! to, waits for the replies beside its own socket, and reads them. In the common case a query, the upstream
//! query, its response and the answer so pass through one thread. Between turns, which are short while it
//! also answers from memory, the worker reads its socket: answers from memory do not wait.

use std::os::fd::RawFd;
use std::time::Duration;

use super::links::WorkerLinks;
use super::shared_driver;
use crate::ready::Ready;

/// Requests that a worker acts on in one turn, minus the replies: more would delay queries answered from
/// memory.
const REQUESTS_PER_TURN: usize = 4;
/// The same while memory answers no queries: datagrams sent together cost less.
const LONG_TURN: usize = 32;

/// Pause before a worker tries its turn again after another thread held the lock.
const KEPT_OUT: Duration = Duration::from_micros(100);
/// Turns after the last answer from memory from which on they are long: some milliseconds, so that a client
/// with a few hundred cache hits per second never meets a long one.
const CALM_TURNS: u32 = 64;

/// Outgoing state of one worker, used on the thread that it was created on.
pub(crate) struct WorkerOutbound {
    /// `None` if the system refused it: then the core's thread does everything.
    links: Option<WorkerLinks>,
    /// There may be more to act on at once.
    more: bool,
    /// Another thread held the lock in this worker's turn.
    kept_out: bool,
    /// A link may be readable.
    ready: bool,
    /// Turns since the last answer from memory.
    calm: u32,
}

impl WorkerOutbound {
    /// Returns the state of a worker without links. If the system refuses a descriptor, it stays without.
    pub(crate) fn new() -> WorkerOutbound {
        WorkerOutbound { links: WorkerLinks::new().ok(), more: false, kept_out: false, ready: false, calm: 0 }
    }

    /// Lets this thread act on the requests that it brings, until [`end`](Self::end).
    pub(crate) fn begin(&self) {
        if self.links.is_some() {
            shared_driver::begin();
        }
    }

    /// Whether the worker should take a turn.
    pub(crate) fn is_due(&self) -> bool {
        self.is_urgent() || self.kept_out || (self.ready && self.is_open())
    }

    /// Whether this worker has links.
    fn is_open(&self) -> bool {
        self.links.as_ref().is_some_and(WorkerLinks::is_open)
    }

    /// Whether there is something to act on at once.
    pub(crate) fn is_urgent(&self) -> bool {
        self.more || shared_driver::has_brought()
    }

    /// Whether the worker has to wait for more than its socket, if it waits at all.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_open() || self.kept_out || self.is_urgent()
    }

    /// Returns the descriptors that are readable when links are readable; empty if there is none to wait for.
    pub(crate) fn links(&self) -> &[RawFd] {
        // A worker that did not get the lock would find the same descriptors readable again at once.
        let waits = self.is_open() && !self.kept_out;
        self.links.as_ref().filter(|_| waits).map_or(&[], WorkerLinks::descriptors)
    }

    /// Returns the longest wait, if it is limited.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.kept_out.then_some(KEPT_OUT)
    }

    /// Marks all links as possibly readable.
    pub(crate) fn look(&mut self) {
        self.ready = true;
        if let Some(links) = &mut self.links {
            links.look();
        }
    }

    /// Sets which of the links waited for last are readable.
    pub(crate) fn set_readable(&mut self, ready: Ready) {
        self.ready = ready.any();
        if let Some(links) = &mut self.links {
            links.set_readable(ready);
        }
    }

    /// Notes that memory has answered a query: more such queries may follow.
    pub(crate) fn answered(&mut self) {
        self.calm = 0;
    }

    /// Whether memory has answered no query in the last turns.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm > CALM_TURNS
    }

    /// Runs a turn: acts on a few replies and a few requests.
    pub(crate) fn turn(&mut self) {
        self.calm = self.calm.saturating_add(1);
        let most = if self.is_calm() { LONG_TURN } else { REQUESTS_PER_TURN };
        let Some(links) = &mut self.links else { return };
        // If it panics, the rest is for the next turn.
        self.more = true;
        (self.more, self.kept_out) = shared_driver::turn(links, most);
    }

    /// Closes the sockets of closed links, once there are several, and opens as many for later links. Called
    /// when the answers are sent.
    pub(crate) fn tidy(&mut self) {
        if let Some(links) = &mut self.links {
            links.tidy();
        }
    }

    /// Closes the sockets of closed links. Called when the worker has nothing else to do.
    pub(crate) fn idle(&mut self) {
        if let Some(links) = &mut self.links {
            links.idle();
        }
    }

    /// Passes all links and requests to the core's thread.
    pub(crate) fn end(&mut self) {
        if let Some(links) = &mut self.links {
            shared_driver::end(links);
        }
        (self.more, self.kept_out) = (false, false);
    }
}

impl Drop for WorkerOutbound {
    fn drop(&mut self) {
        self.end();
    }
}
