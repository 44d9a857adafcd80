//! A datagram worker's part in asking other servers: it acts on what its queries lead to, waits for the
//! replies beside its own socket, and takes them. In the common case a query, the message to another server,
//! its reply and the answer so pass through one thread. Between turns, which are short while it answers from
//! memory as well, the worker looks at its socket: such answers do not wait.

use std::os::fd::RawFd;
use std::time::Duration;

use super::desk;
use super::links::WorkerLinks;
use crate::ready::Ready;

/// Requests that a worker acts on in one turn, less the replies: more of them would delay queries answered
/// from memory.
const TURN: usize = 4;
/// The same while no query is answered from memory: datagrams sent together cost less.
const LONG_TURN: usize = 32;

/// How long a worker waits that could not take its turn, because another thread acted.
const KEPT_OUT: Duration = Duration::from_micros(100);
/// So many turns after the last answer from memory they get long: some milliseconds, so that who asks for
/// what is there a few hundred times a second never meets a long one.
const CALM: u32 = 64;

/// What one worker does there, for the thread that it was made on.
pub(crate) struct WorkerOutbound {
    /// `None` where the system refused it: then the core's thread does everything.
    links: Option<WorkerLinks>,
    /// There may be more to act on at once.
    more: bool,
    /// Another thread acted when it was this one's turn.
    kept_out: bool,
    /// A link may have something.
    ready: bool,
    /// Turns since the last answer from memory.
    calm: u32,
}

impl WorkerOutbound {
    /// Nothing to do so far. Without a descriptor to be had there never will be.
    pub(crate) fn new() -> WorkerOutbound {
        WorkerOutbound { links: WorkerLinks::new().ok(), more: false, kept_out: false, ready: false, calm: 0 }
    }

    /// Requests that this thread brings are its own from here on, until [`end`](Self::end).
    pub(crate) fn begin(&self) {
        if self.links.is_some() {
            desk::begin();
        }
    }

    /// Whether it is this worker's turn.
    pub(crate) fn is_due(&self) -> bool {
        self.is_urgent() || self.kept_out || (self.ready && self.is_open())
    }

    /// Whether this worker has links.
    fn is_open(&self) -> bool {
        self.links.as_ref().is_some_and(WorkerLinks::is_open)
    }

    /// Whether there is something to act on at once.
    pub(crate) fn is_urgent(&self) -> bool {
        self.more || desk::has_brought()
    }

    /// Whether the worker has to wait for more than its socket, if it may wait at all.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_open() || self.kept_out || self.is_urgent()
    }

    /// What can be read from when links have something, if there are any to wait for.
    pub(crate) fn links(&self) -> &[RawFd] {
        // A worker that was kept out would find the same ready again at once.
        let waits = self.is_open() && !self.kept_out;
        self.links.as_ref().filter(|_| waits).map_or(&[], WorkerLinks::descriptors)
    }

    /// How long to wait at the most, if that is not for as long as anybody likes.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.kept_out.then_some(KEPT_OUT)
    }

    /// Any link may have something.
    pub(crate) fn look(&mut self) {
        self.ready = true;
        if let Some(links) = &mut self.links {
            links.look();
        }
    }

    /// Of the links waited for last, these have something.
    pub(crate) fn found(&mut self, ready: Ready) {
        self.ready = ready.any();
        if let Some(links) = &mut self.links {
            links.found(ready);
        }
    }

    /// A query was answered from memory, and more such queries may follow.
    pub(crate) fn answered(&mut self) {
        self.calm = 0;
    }

    /// Whether no query was answered from memory in the last turns.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm > CALM
    }

    /// Acts on a few replies and a few requests.
    pub(crate) fn turn(&mut self) {
        self.calm = self.calm.saturating_add(1);
        let most = if self.is_calm() { LONG_TURN } else { TURN };
        let Some(links) = &mut self.links else { return };
        // Should it panic, the rest is for the next turn.
        self.more = true;
        (self.more, self.kept_out) = desk::turn(links, most);
    }

    /// Closes the sockets of links that are closed, once there are some, and opens as many for those to come:
    /// when the answers are out.
    pub(crate) fn tidy(&mut self) {
        if let Some(links) = &mut self.links {
            links.tidy();
        }
    }

    /// Closes what is left of them: there is nothing else to do.
    pub(crate) fn idle(&mut self) {
        if let Some(links) = &mut self.links {
            links.idle();
        }
    }

    /// Leaves everything to others.
    pub(crate) fn end(&mut self) {
        if let Some(links) = &mut self.links {
            desk::end(links);
        }
        (self.more, self.kept_out) = (false, false);
    }
}

impl Drop for WorkerOutbound {
    fn drop(&mut self) {
        self.end();
    }
}
