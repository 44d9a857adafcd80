//! Queries that are answered later: their state until then, and the queue back to the worker that received
//! them.
//!
//! A source takes a [`Responder`] and settles it from any thread. Settling pushes it into the worker's
//! [`WorkerState`] and wakes the worker, which finishes the reply as any other: same tail, same counters,
//! same log. Dropping a responder settles it with SERVFAIL, so every client gets a reply.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

use transport::{LateQueue, MessageStream, ReturnAddress};
use wire::message::Builder;
use wire::{Name, NameBuf, ViewName};

use crate::log::Role;
use crate::refusal::{Answered, Refusal};
use crate::reply_limits::LimitPace;
use crate::request::Request;
use crate::rule_note::RuleNote;
use crate::signature::Signature;
use crate::stats::QueryStats;
use crate::zone_facts::ZoneFacts;

/// Counters, late answers and deferred queries of one worker. The worker thread owns it for its whole life,
/// also when its handler is rebuilt after a panic.
pub struct WorkerState {
    /// The worker's counters.
    pub stats: QueryStats,
    pub(crate) limit_pace: LimitPace,
    pub(crate) ready: LateQueue<Ready>,
    put_off: Mutex<VecDeque<Deferred>>,
}

/// Largest number of deferred queries.
const MOST_PUT_OFF: usize = 1024;

/// A query that memory does not answer, as received: other queries of its batch are answered first.
pub(crate) struct Deferred {
    pub(crate) packet: Box<[u8]>,
    pub(crate) to: ReturnAddress,
    pub(crate) received: Instant,
}

impl WorkerState {
    /// Returns the state of a new worker. `waker` wakes the worker when late answers are ready.
    pub fn new(waker: Waker) -> Self {
        WorkerState {
            stats: QueryStats::default(),
            limit_pace: LimitPace::default(),
            ready: LateQueue::new(waker),
            put_off: Mutex::default(),
        }
    }

    /// Defers a query, unless [`MOST_PUT_OFF`] are deferred. Returns whether the query is deferred.
    pub(crate) fn put_off(&self, query: impl FnOnce() -> Deferred) -> bool {
        self.with_put_off(|all| {
            let fits = all.len() < MOST_PUT_OFF;
            if fits {
                all.push_back(query());
            }
            fits
        })
    }

    /// Removes and returns the query that was deferred first.
    pub(crate) fn take_put_off(&self) -> Option<Deferred> {
        self.with_put_off(VecDeque::pop_front)
    }

    /// Whether queries are deferred.
    pub(crate) fn has_put_off(&self) -> bool {
        self.with_put_off(|all| !all.is_empty())
    }

    /// Only the worker itself takes the lock, and no statement leaves the queue half changed.
    fn with_put_off<R>(&self, change: impl FnOnce(&mut VecDeque<Deferred>) -> R) -> R {
        change(&mut self.put_off.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// State of a query whose answer is pending.
pub(crate) struct Waiting {
    pub(crate) request: Request,
    /// The header and question as received, and the cookie.
    pub(crate) head: Box<[u8]>,
    pub(crate) to: ReturnAddress,
    pub(crate) received: Instant,
    pub(crate) may_recurse: bool,
    /// The role that the server answers it in, for the query log.
    pub(crate) role: Role,
    pub(crate) zone: Option<Box<NameBuf>>,
    /// The view that the query is in, for the query log.
    pub(crate) view: Option<ViewName>,
    /// EXPIRE and ZONEVERSION of the zone, if the client requests one of them.
    pub(crate) facts: Option<ZoneFacts>,
    pub(crate) signature: Option<Box<Signature>>,
    /// The server that the newest part of the answer was received from, for the query log.
    pub(crate) upstream: Option<SocketAddr>,
    /// The rule of a policy that decides the query, for logs.
    pub(crate) rule: Option<RuleNote>,
    /// The text of the extended error, if there is one (RFC 8914 §2); may be empty.
    pub(crate) error_text: &'static str,
}

/// A query whose late answer is ready.
pub(crate) struct Ready {
    pub(crate) waiting: Box<Waiting>,
    pub(crate) settled: Settled,
}

/// The late answer.
pub(crate) enum Settled {
    Sections(Box<dyn FnOnce(&mut Builder<'_>) -> Answered + Send>),
    Stream(Box<dyn MessageStream>),
    /// The response of another server, unchanged.
    Message(Vec<u8>),
    /// The client gets no reply.
    NoReply,
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

    /// Returns QNAME as the client wrote it.
    pub fn qname(&self) -> Name<'_> {
        let waiting = self.waiting.as_deref();
        waiting.map_or(Name::ROOT, |w| w.request.question.map_or(Name::ROOT, |q| q.name(&w.head)))
    }

    /// Returns the parsed query, until the responder is settled.
    pub fn request(&self) -> Option<&Request> {
        self.waiting.as_deref().map(|waiting| &waiting.request)
    }

    /// Records the server that the newest part of the answer was received from, for the query log.
    pub fn set_upstream(&mut self, upstream: Option<SocketAddr>) {
        if let Some(waiting) = &mut self.waiting {
            waiting.upstream = upstream;
        }
    }

    /// Records the rule of a policy that decides the query, for logs.
    pub fn set_rule(&mut self, rule: Option<RuleNote>) {
        if let Some(waiting) = &mut self.waiting {
            waiting.rule = rule;
        }
    }

    /// Sets the text of the extended error (RFC 8914 §2), for a refusal with one.
    pub fn set_error_text(&mut self, text: &'static str) {
        if let Some(waiting) = &mut self.waiting {
            waiting.error_text = text;
        }
    }

    /// Answers. The worker calls `fill`, which writes the sections and sets the flags, as a source that
    /// answers at once does.
    pub fn resume(mut self, fill: impl FnOnce(&mut Builder<'_>) -> Answered + Send + 'static) {
        self.settle(Settled::Sections(Box::new(fill)));
    }

    /// Answers with a refusal.
    pub fn refuse(self, refusal: Refusal) {
        self.resume(move |_| Err(refusal));
    }

    /// Answers with a stream of messages, which only stream transports can carry.
    pub fn stream(mut self, messages: Box<dyn MessageStream>) {
        self.settle(Settled::Stream(messages));
    }

    /// Answers with another server's response to the same message, TSIG included.
    pub fn pass_on(mut self, message: Vec<u8>) {
        self.settle(Settled::Message(message));
    }

    /// Ends the query without a reply.
    pub fn withhold(mut self) {
        self.settle(Settled::NoReply);
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
