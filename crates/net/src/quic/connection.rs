//! One connection, from its handshake to its end: it takes streams as far as the limits allow, and ends when
//! its client, a timeout, an event or an error of a stream ends it.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use quinn::{Connecting, Connection, ConnectionError, TransportErrorCode};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};
use transport::{Client, HandlerFactory};

use super::query::ProtocolFault;
use super::settings::{DoqCode, Unvalidated};
use super::stream::{self, StreamFault};
use crate::config::{KeepaliveCheck, ListenerConfig, TcpConfig};
use crate::stats::WorkerStats;
use crate::tcp::{Activity, Close, ConnectionEvent, Events, Permit, SharedBuffers, TcpTimes, idle_time};

/// The first of the error codes that are alerts of TLS (RFC 9001 §4.8), and the alerts of a client that has
/// no version, cipher suite or application protocol in common with the server.
const CRYPTO_ERRORS: u64 = 0x100;
const HANDSHAKE_FAILURE: u64 = CRYPTO_ERRORS + 40;
const PROTOCOL_VERSION: u64 = CRYPTO_ERRORS + 70;
const NO_APPLICATION_PROTOCOL: u64 = CRYPTO_ERRORS + 120;

/// A connection, and what its worker shares with it.
pub(super) struct Quic<F: HandlerFactory> {
    pub(super) buffers: Rc<RefCell<SharedBuffers<F>>>,
    pub(super) config: Rc<ListenerConfig>,
    pub(super) stats: Arc<WorkerStats>,
    /// Where late answers are sent, by the number of their query.
    pub(super) events: Events,
    /// The number of the worker's next connection or query.
    pub(super) next_id: Rc<Cell<u64>>,
    pub(super) client: Client,
    pub(super) keepalive: Option<KeepaliveCheck>,
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
    /// The last time a query began or was answered.
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
        self.0.since.set(Instant::now());
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

impl<F: HandlerFactory> Quic<F> {
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
    fn begin(&self) {
        let state = &self.state;
        state.active.set(state.active.get() + 1);
        state.since.set(Instant::now());
        state.note();
    }

    /// Returns what ends the activity of a stream.
    pub(super) fn active(&self) -> ActiveQuery<'_> {
        ActiveQuery(&self.state)
    }

    /// Notes a complete query.
    pub(super) fn greeted(&self) {
        self.state.greeted.set(true);
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
    fn has_room(&self) -> bool {
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

    /// Returns when the connection is to be closed, as it is now, and why.
    fn deadline(&self) -> (Instant, Close) {
        let (times, state) = (self.times(), &self.state);
        if state.active.get() > 0 || state.unsent.get() > 0 {
            // Each stream has its own time limits; this is when to look again.
            return (Instant::now() + times.write, Close::Write);
        }
        let idle = idle_time(times.idle, times.idle_min, state.permit.borrow().load());
        match state.greeted.get() {
            false => (state.since.get() + times.first_message.min(idle), Close::First),
            true => (state.since.get() + idle, Close::Idle),
        }
    }
}

/// Serves one connection until it ends. `unvalidated`: the place of its handshake, if the address of the
/// client may be forged.
pub(super) async fn serve<F: HandlerFactory>(
    connecting: Connecting,
    unvalidated: Option<Unvalidated>,
    quic: Quic<F>,
    mut events: UnboundedReceiver<ConnectionEvent>,
) -> Close {
    let first = Instant::now() + quic.times().first_message;
    let connected = {
        let mut connecting = pin!(timeout_at(first.into(), connecting));
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(ConnectionEvent::Late(_)) => {}
                    Some(ConnectionEvent::Evict) => return Close::Evicted,
                    // No query can follow the handshake.
                    Some(ConnectionEvent::Drain) | None => return Close::Stopped,
                },
                connected = &mut connecting => break connected,
            }
        }
    };
    drop(unvalidated);
    let connection = match connected {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            failed_handshake(&quic.stats, &error).add(1);
            return Close::Error;
        }
        Err(_) => return Close::First,
    };
    quic.stats.tls_handshakes.add(1);
    let (close, code, reason) = drive(&connection, &Rc::new(quic), &mut events).await;
    connection.close(code.value(), reason.as_bytes());
    close
}

/// Returns the counter of a handshake that ended with this error.
fn failed_handshake<'s>(stats: &'s WorkerStats, error: &ConnectionError) -> &'s transport::Counter {
    match error {
        ConnectionError::TransportError(error) => match u64::from(error.code) {
            HANDSHAKE_FAILURE | PROTOCOL_VERSION | NO_APPLICATION_PROTOCOL => &stats.tls_incompatible,
            _ => &stats.tls_malformed,
        },
        ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) >= CRYPTO_ERRORS => {
            &stats.tls_refused
        }
        _ => &stats.tls_broken,
    }
}

/// The end of a connection: why, and what the client gets as the reason.
type End = (Close, DoqCode, &'static str);

/// Takes streams until the connection ends.
async fn drive<F: HandlerFactory>(
    connection: &Connection,
    quic: &Rc<Quic<F>>,
    events: &mut UnboundedReceiver<ConnectionEvent>,
) -> End {
    // Dropped with the connection, which ends the streams.
    let mut streams: JoinSet<Result<(), StreamFault>> = JoinSet::new();
    let mut ending: Option<Instant> = None;
    loop {
        let at = ending.unwrap_or_else(|| quic.deadline().0);
        let is_over = ending.is_some() && quic.state.active.get() == 0 && quic.state.unsent.get() == 0;
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(ConnectionEvent::Late(_)) => {}
                Some(ConnectionEvent::Evict) => {
                    return (Close::Evicted, DoqCode::ExcessiveLoad, "too many connections");
                }
                Some(ConnectionEvent::Drain) | None => {
                    ending.get_or_insert(Instant::now() + quic.config.drain);
                }
            },
            Some(served) = streams.join_next() => if let Ok(Err(fault)) = served {
                return end_of(fault);
            },
            stream = connection.accept_bi(), if quic.has_room() => match stream {
                Ok((to_client, from_client)) => {
                    // It counts from now on, not from its first poll.
                    quic.begin();
                    let quic = Rc::clone(quic);
                    streams.spawn_local(async move { stream::serve(&quic, to_client, from_client).await });
                }
                Err(error) => return (lost(&error), DoqCode::NoError, ""),
            },
            _ = connection.accept_uni() => match connection.close_reason() {
                None => return end_of(StreamFault::Protocol(ProtocolFault::Unidirectional)),
                Some(error) => return (lost(&error), DoqCode::NoError, ""),
            },
            () = std::future::ready(()), if is_over => {
                return (Close::Stopped, DoqCode::NoError, "the server stops");
            },
            () = quic.state.changed.notified() => {}
            () = sleep_until(at.into()) => match (ending, quic.deadline()) {
                (Some(_), _) => return (Close::Stopped, DoqCode::NoError, "the server stops"),
                (None, (at, close)) if at <= Instant::now() => return (close, DoqCode::NoError, "idle"),
                (None, _) => {}
            },
        }
    }
}

/// Returns the end of a connection by one of its streams.
fn end_of(fault: StreamFault) -> End {
    match fault {
        StreamFault::Protocol(fault) => (Close::Protocol, DoqCode::Protocol, fault.reason()),
        StreamFault::Timeout => {
            (Close::Message, DoqCode::Protocol, "a query or the end of its stream did not come in time")
        }
        StreamFault::Write => (Close::Write, DoqCode::ExcessiveLoad, "answers are not read"),
    }
}

/// Returns why a connection has ended that this side did not close.
fn lost(error: &ConnectionError) -> Close {
    match error {
        ConnectionError::ApplicationClosed(_) => Close::Peer,
        ConnectionError::ConnectionClosed(close) if close.error_code == TransportErrorCode::NO_ERROR => {
            Close::Peer
        }
        ConnectionError::TimedOut => Close::Idle,
        ConnectionError::TransportError(_) => Close::Protocol,
        _ => Close::Error,
    }
}
