//! Queries that wait: what is kept of one whose answer comes later, and its way back to the worker that
//! received it.
//!
//! A source takes a [`Responder`] and settles it from any thread. Settling puts it into the worker's
//! [`WorkerState`] and wakes the worker, which answers it as it answers anything else: same tail, same
//! counters, same log. A responder that is dropped settles itself with SERVFAIL, so that no client is left in
//! silence.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

use exchange::{LateQueue, MessageStream, ReturnAddress};
use wire::message::Builder;
use wire::{Name, NameBuf};

use crate::log::Role;
use crate::refusal::{Answered, Refusal};
use crate::request::Request;
use crate::signature::Signature;
use crate::stats::Stats;
use crate::zone_facts::ZoneFacts;

/// What a worker has done and still has to do. It belongs to a worker thread for good, also when its handler
/// is rebuilt after a panic.
pub struct WorkerState {
    /// The worker's counters.
    pub stats: Stats,
    pub(crate) ready: LateQueue<Ready>,
    put_off: Mutex<VecDeque<Deferred>>,
}

/// So many queries are put off at the most.
const MOST_PUT_OFF: usize = 1024;

/// A query that memory does not answer, as it came: others of its batch are answered first.
pub(crate) struct Deferred {
    pub(crate) packet: Box<[u8]>,
    pub(crate) to: ReturnAddress,
    pub(crate) received: Instant,
}

impl WorkerState {
    /// A new worker's account. `waker` wakes it when late answers are ready.
    pub fn new(waker: Waker) -> Self {
        WorkerState { stats: Stats::default(), ready: LateQueue::new(waker), put_off: Mutex::default() }
    }

    /// Puts a query off, unless too many are by now. Returns whether it is.
    pub(crate) fn put_off(&self, query: impl FnOnce() -> Deferred) -> bool {
        self.with_put_off(|all| {
            let fits = all.len() < MOST_PUT_OFF;
            if fits {
                all.push_back(query());
            }
            fits
        })
    }

    /// The query that was put off first.
    pub(crate) fn take_put_off(&self) -> Option<Deferred> {
        self.with_put_off(VecDeque::pop_front)
    }

    /// Whether queries are put off.
    pub(crate) fn has_put_off(&self) -> bool {
        self.with_put_off(|all| !all.is_empty())
    }

    /// Only its worker takes the lock, and no statement leaves the queue half changed.
    fn with_put_off<R>(&self, change: impl FnOnce(&mut VecDeque<Deferred>) -> R) -> R {
        change(&mut self.put_off.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is kept of a query while it waits.
pub(crate) struct Waiting {
    pub(crate) request: Request,
    /// The header and question as they came.
    pub(crate) head: Box<[u8]>,
    pub(crate) to: ReturnAddress,
    pub(crate) received: Instant,
    pub(crate) may_recurse: bool,
    /// As what it is answered, and out of which zone, for the query log.
    pub(crate) role: Role,
    pub(crate) zone: Option<Box<NameBuf>>,
    /// What the zone says of itself, if the client asks for that.
    pub(crate) facts: Option<ZoneFacts>,
    pub(crate) signature: Option<Box<Signature>>,
    /// The other server that the newest part of the answer came from, for the query log.
    pub(crate) upstream: Option<SocketAddr>,
}

/// A query that waits no longer.
pub(crate) struct Ready {
    pub(crate) waiting: Box<Waiting>,
    pub(crate) settled: Settled,
}

/// With what it was settled.
pub(crate) enum Settled {
    Sections(Box<dyn FnOnce(&mut Builder<'_>) -> Answered + Send>),
    Stream(Box<dyn MessageStream>),
    /// The answer of another server, as it came.
    Message(Vec<u8>),
}

/// A query whose source returned [`Pending`](crate::SourceReply::Pending): all that is needed to answer it
/// later, from any thread.
#[must_use = "dropping a ticket answers SERVFAIL"]
pub struct Responder {
    waiting: Option<Box<Waiting>>,
    account: Arc<WorkerState>,
}

impl Responder {
    pub(crate) fn new(waiting: Waiting, account: &Arc<WorkerState>) -> Self {
        Responder { waiting: Some(Box::new(waiting)), account: Arc::clone(account) }
    }

    /// The name asked for, as the client wrote it.
    pub fn qname(&self) -> Name<'_> {
        let waiting = self.waiting.as_deref();
        waiting.map_or(Name::ROOT, |w| w.request.question.map_or(Name::ROOT, |q| q.name(&w.head)))
    }

    /// The query as it was read.
    pub fn request(&self) -> Option<&Request> {
        self.waiting.as_deref().map(|waiting| &waiting.request)
    }

    /// Names the other server that the newest part of the answer came from, for the query log.
    pub fn set_upstream(&mut self, upstream: Option<SocketAddr>) {
        if let Some(waiting) = &mut self.waiting {
            waiting.upstream = upstream;
        }
    }

    /// Answers: `fill`, called by the worker, writes the sections and sets the flags, as a source that
    /// answers at once does.
    pub fn resume(mut self, fill: impl FnOnce(&mut Builder<'_>) -> Answered + Send + 'static) {
        self.settle(Settled::Sections(Box::new(fill)));
    }

    /// Refuses.
    pub fn refuse(self, refusal: Refusal) {
        self.resume(move |_| Err(refusal));
    }

    /// Answers with a stream of messages, which only streams can carry.
    pub fn stream(mut self, messages: Box<dyn MessageStream>) {
        self.settle(Settled::Stream(messages));
    }

    /// Answers with what another server has answered to the same message, its signature included.
    pub fn pass_on(mut self, message: Vec<u8>) {
        self.settle(Settled::Message(message));
    }

    fn settle(&mut self, settled: Settled) {
        if let Some(waiting) = self.waiting.take() {
            self.account.ready.push(Ready { waiting, settled });
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.settle(Settled::Sections(Box::new(|_| Err(Refusal::ABANDONED))));
    }
}
