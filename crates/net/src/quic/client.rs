//! The client of a connection: what its worker shares with it, what it has in flight, and the limits on that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use transport::{Client, HandlerFactory};

use crate::config::{HttpCacheTime, KeepaliveCheck, ListenerConfig, TcpConfig};
use crate::oblivious::ObliviousTarget;
use crate::stats::WorkerStats;
use crate::tcp::{Activity, Close, ConnectionEvent, Events, Permit, SharedBuffers, TcpTimes};

/// A client, and what its worker shares with it.
pub(super) struct QuicClient<F: HandlerFactory> {
    pub(super) buffers: Rc<RefCell<SharedBuffers<F>>>,
    pub(super) config: Rc<ListenerConfig>,
    pub(super) stats: Arc<WorkerStats>,
    /// Where late answers are sent, by the number of their query.
    pub(super) events: Events,
    /// The number of the worker's next connection or query.
    pub(super) next_id: Rc<Cell<u64>>,
    pub(super) client: Client,
    pub(super) keepalive: Option<KeepaliveCheck>,
    pub(super) fresh: Option<HttpCacheTime>,
    pub(super) oblivious: Option<Arc<dyn ObliviousTarget>>,
    /// The name that the client has written for itself in the server name of TLS.
    pub(super) name: Option<Arc<str>>,
    pub(super) state: QuicState,
}

/// The state of a connection.
pub(super) struct QuicState {
    permit: RefCell<Permit>,
    /// Queries that are being read or answered.
    active: Cell<usize>,
    /// Bytes of answers that the client has not acknowledged, and of queries that are not complete.
    unsent: Cell<usize>,
    partial: Cell<usize>,
    /// A query was received.
    greeted: Cell<bool>,
    /// The last time a query began or was answered; until the first one was received, the opening.
    since: Cell<Instant>,
    /// The last time that the client was seen to read answers.
    progress: Cell<Instant>,
    /// Wakes the connection when its deadline or its room for streams has changed.
    changed: Notify,
    /// Wakes queries that wait until answers are read.
    drained: Notify,
}

impl QuicState {
    pub(super) fn new(permit: Permit, now: Instant) -> Self {
        QuicState {
            permit: RefCell::new(permit),
            active: Cell::new(0),
            unsent: Cell::new(0),
            partial: Cell::new(0),
            greeted: Cell::new(false),
            since: Cell::new(now),
            progress: Cell::new(now),
            changed: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Notes that a query begins or was answered. Before the first whole query it is none: streams that are
    /// reset do not put off the end of a connection that asks nothing.
    fn touch(&self) {
        if self.greeted.get() {
            self.since.set(Instant::now());
        }
    }

    /// Notes what the connection does, for the limits that all connections share.
    fn note(&self) {
        let activity = match (self.active.get(), self.unsent.get()) {
            (0, 0) => Activity::Idle,
            (_, 0) => Activity::Busy,
            _ => Activity::Unread(self.progress.get()),
        };
        let mut permit = self.permit.borrow_mut();
        permit.note(activity);
        permit.note_waiting(self.unsent.get() + self.partial.get());
    }
}

/// A query that is being read or answered.
pub(super) struct ActiveQuery<'s>(&'s QuicState);

impl Drop for ActiveQuery<'_> {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
        self.0.touch();
        self.0.note();
        self.0.changed.notify_one();
    }
}

/// Bytes that wait in a connection.
pub(super) struct Waiting<'s> {
    state: &'s QuicState,
    count: &'s Cell<usize>,
    len: usize,
}

impl Waiting<'_> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn set(&mut self, len: usize) {
        self.count.set(self.count.get() - self.len + len);
        self.len = len;
        self.state.note();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.set(0);
        self.state.changed.notify_one();
        // The queries run on this thread, so that none is about to wait.
        self.state.drained.notify_waiters();
    }
}

/// A query that late answers may be sent to, for as long as this exists.
pub(super) struct Expected<'e> {
    events: &'e Events,
    id: u64,
}

impl<'e> Expected<'e> {
    pub(super) fn new(events: &'e Events, id: u64, sender: UnboundedSender<ConnectionEvent>) -> Self {
        events.borrow_mut().insert(id, sender);
        Expected { events, id }
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.events.borrow_mut().remove(&self.id);
    }
}

impl<F: HandlerFactory> QuicClient<F> {
    /// Returns the number of a new query.
    pub(super) fn number(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    pub(super) fn times(&self) -> TcpTimes {
        self.state.permit.borrow().times()
    }

    /// Notes a stream that is to be read and answered, until its [`active`](Self::active) is dropped.
    pub(super) fn begin(&self) {
        let state = &self.state;
        state.active.set(state.active.get() + 1);
        state.touch();
        state.note();
    }

    /// Returns what ends the activity of a stream.
    pub(super) fn active(&self) -> ActiveQuery<'_> {
        ActiveQuery(&self.state)
    }

    /// Notes a complete query.
    pub(super) fn greeted(&self) {
        self.state.greeted.set(true);
        self.state.touch();
    }

    /// Notes that the client reads its answers.
    pub(super) fn progressed(&self) {
        self.state.progress.set(Instant::now());
        self.state.note();
    }

    /// Counts bytes of a query that is not complete, none at first.
    pub(super) fn partial(&self) -> Waiting<'_> {
        Waiting { state: &self.state, count: &self.state.partial, len: 0 }
    }

    /// Counts bytes of an answer.
    pub(super) fn unsent(&self, len: usize) -> Waiting<'_> {
        if self.state.unsent.get() == 0 {
            self.state.progress.set(Instant::now());
        }
        let mut unsent = Waiting { state: &self.state, count: &self.state.unsent, len: 0 };
        unsent.set(len);
        unsent
    }

    /// Returns the limits of this connection at present.
    fn tcp(&self) -> TcpConfig {
        let config = self.config.tcp;
        if self.state.permit.borrow().is_crowded() { config.crowded() } else { config }
    }

    /// Whether one more stream may be taken now.
    pub(super) fn has_room(&self) -> bool {
        self.state.active.get() < self.tcp().max_in_flight.max(1) && self.may_answer()
    }

    fn may_answer(&self) -> bool {
        self.state.unsent.get() <= self.tcp().max_unsent
    }

    /// Waits until so much of the answers before has been read that a query may be answered.
    pub(super) async fn room_for_answer(&self) {
        while !self.may_answer() {
            self.state.drained.notified().await;
        }
    }

    /// Whether nothing is answered and no answer is on its way.
    pub(super) fn is_quiet(&self) -> bool {
        self.state.active.get() == 0 && self.state.unsent.get() == 0
    }

    /// Waits until the deadline, or the room for streams, may have changed.
    pub(super) async fn changed(&self) {
        self.state.changed.notified().await;
    }

    /// Returns when the connection is to be closed, as it is now, and why.
    pub(super) fn deadline(&self) -> (Instant, Close) {
        let (times, state) = (self.times(), &self.state);
        if !self.is_quiet() {
            // Each stream has its own time limits; this is when to look again.
            return (Instant::now() + times.write, Close::Write);
        }
        let idle = times.idle_at(state.permit.borrow().load());
        match state.greeted.get() {
            false => (state.since.get() + times.first_message.min(idle), Close::First),
            true => (state.since.get() + idle, Close::Idle),
        }
    }
}
