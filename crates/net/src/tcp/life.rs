//! The decisions of one connection: when it takes more queries, when an incomplete message or silence ends
//! it, and when it has to stop. No I/O and no clock: the owner passes the time in, so that tests can replay a
//! connection.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use transport::{MessageStream, ProxyHeaderFault};

use super::event::{ConnectionEvent, Late};
use super::limits::{Activity, STALL, TcpTimes, TurnedAway};
use super::output::Output;
use crate::config::TcpConfig;
use crate::framing::{Framed, frame};

/// Most messages in a batch.
pub(super) const BATCH: usize = 32;
/// Bytes that a client must read within the write timeout.
const WRITE_PROGRESS: usize = 4096;
/// First estimate of the size of a connection's answers, in bytes.
const FIRST_GUESS: usize = 16 * 1024;
/// Longest wait for a client that has sent nothing yet, once the listener stops: it connected just before,
/// and its query may be on the way.
const FIRST_GRACE: Duration = Duration::from_millis(250);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// The client closed it, in order.
    Peer,
    /// The socket failed.
    Error,
    /// No query was received within the idle timeout.
    Idle,
    /// No complete message was received in time.
    First,
    /// A message was not completed in time.
    Message,
    /// The client read too slowly.
    Write,
    /// A message is shorter than a DNS header.
    Framing,
    /// A client broke the rules of DNS over QUIC (RFC 9250 §4.3.3).
    Protocol,
    /// A proxy sent no valid header.
    Header(ProxyHeaderFault),
    /// A proxy named a client that has too many connections.
    Refused(TurnedAway),
    /// A stream of messages failed.
    Stream,
    /// The connection was closed to make room for another.
    Evicted,
    /// The listener stops.
    Stopped,
}

/// The reason why a connection takes no more queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The client closed its side of the connection.
    Eof,
    /// The client sent a message that cannot be framed.
    Framing,
    /// A proxy sent no valid header.
    Header(ProxyHeaderFault),
    /// A proxy named a client that has too many connections.
    Refused(TurnedAway),
    /// Another connection needs its place.
    Evicted,
}

/// The state of a connection.
pub(super) struct Life {
    /// Received and not yet answered: an incomplete message, or complete ones while too many queries are in
    /// flight.
    pub(super) partial: Vec<u8>,
    pub(super) output: Output,
    pub(super) streams: VecDeque<Box<dyn MessageStream>>,
    /// Number of pending queries.
    pending: usize,
    ending: Option<Ending>,
    stream_failed: bool,
    /// It was evicted while its client read nothing: what is unsent is given up.
    is_cut: bool,
    /// Set once the listener stops: the deadlines for a client that has sent nothing, and for all others.
    drain_until: Option<(Instant, Instant)>,
    /// The length of the longest header, while a proxy has to send one before the first message.
    pub(super) header: Option<usize>,
    /// A complete message was received.
    greeted: bool,
    /// The last time a message was received or a query answered, or all output was sent.
    active: Instant,
    /// Whether activity has changed since [`take_news`](Self::take_news).
    news: bool,
    /// When the first byte of the incomplete message was received.
    message_since: Option<Instant>,
    /// Start of the present write timeout.
    write_since: Instant,
    /// Bytes that the client has read since then.
    written: usize,
    /// A slowly falling maximum of answer sizes, which keeps batches from filling memory.
    largest: usize,
}

impl Life {
    /// Returns the state of a connection just accepted; with `header` it begins with one of at most so many
    /// bytes.
    pub(super) fn new(header: Option<usize>, now: Instant) -> Self {
        Life {
            partial: Vec::new(),
            output: Output::default(),
            streams: VecDeque::new(),
            pending: 0,
            ending: None,
            stream_failed: false,
            is_cut: false,
            drain_until: None,
            header,
            greeted: false,
            active: now,
            news: false,
            message_since: None,
            write_since: now,
            written: 0,
            largest: FIRST_GUESS,
        }
    }

    /// Returns the number of queries that will still be answered.
    pub(super) fn in_flight(&self) -> usize {
        self.pending + self.streams.len()
    }

    /// Returns how many queries may be answered now: fewer if many are in flight, or if answers are so large
    /// that a whole batch of them would take much memory.
    pub(super) fn batch_room(&self, config: &TcpConfig) -> usize {
        let is_refused =
            matches!(self.ending, Some(Ending::Framing | Ending::Header(_) | Ending::Refused(_)));
        if self.output.unsent() > config.max_unsent || is_refused {
            return 0;
        }
        let by_size = (config.max_unsent / self.largest.max(1)).max(1);
        config.max_in_flight.max(1).saturating_sub(self.in_flight()).min(by_size).min(BATCH)
    }

    /// Whether the connection reads more. If not, an incomplete message is not the client's fault.
    pub(super) fn wants_input(&mut self, config: &TcpConfig) -> bool {
        let wanted = self.ending.is_none() && self.batch_room(config) > 0;
        if !wanted {
            self.message_since = None;
        }
        wanted
    }

    /// Notes that `n` bytes were received, 0 at the end of the stream; `answered`: complete messages came
    /// with them.
    pub(super) fn received(&mut self, n: usize, answered: bool, now: Instant) {
        if n == 0 {
            self.ending = Some(Ending::Eof);
        }
        self.message_since = match self.message_since {
            _ if self.partial.is_empty() => None,
            // Still the same message.
            Some(since) if !answered => Some(since),
            _ => Some(now),
        };
    }

    /// Notes a message that cannot be framed: no more is read from this client.
    pub(super) fn bad_framing(&mut self) {
        self.ending = Some(Ending::Framing);
    }

    /// Notes that a proxy sent no valid header: no more is read from it.
    pub(super) fn bad_header(&mut self, fault: ProxyHeaderFault) {
        self.ending = Some(Ending::Header(fault));
    }

    /// Notes that the client which a proxy named has too many connections: no more is read.
    pub(super) fn turned_away(&mut self, reason: TurnedAway) {
        self.ending = Some(Ending::Refused(reason));
    }

    /// Notes an answered batch with `pending` pending queries.
    pub(super) fn answered(&mut self, pending: usize, now: Instant) {
        self.pending += pending;
        self.greeted = true;
        self.touch(now);
    }

    /// Lowers the estimate of answer sizes a little, before the answers of a batch.
    pub(super) fn next_guess(&mut self) {
        self.largest -= self.largest / 8;
    }

    /// Adds an answer to the output.
    pub(super) fn send(&mut self, message: &[u8], now: Instant) {
        self.touch_output(now);
        self.output.push(message);
        self.largest = self.largest.max(message.len());
    }

    /// Starts the write timeout, if nothing was unsent before.
    pub(super) fn touch_output(&mut self, now: Instant) {
        if self.output.unsent() == 0 {
            self.write_since = now;
            self.written = 0;
            self.news = true;
        }
    }

    fn touch(&mut self, now: Instant) {
        self.active = now;
        self.news = true;
    }

    /// Handles an event.
    pub(super) fn event(&mut self, event: ConnectionEvent, drain: Duration, now: Instant) {
        match event {
            ConnectionEvent::Late(late) => {
                self.pending = self.pending.saturating_sub(1);
                match late {
                    Late::Message(message) => self.send(&message, now),
                    Late::Stream(stream) => self.streams.push_back(stream),
                    Late::Nothing => {}
                }
            }
            ConnectionEvent::Evict => {
                // The client may have read since the decision, whose clock has milliseconds and is that of
                // another thread: it may be a moment ahead.
                self.is_cut = self.output.unsent() > 0 && now >= self.write_since + STALL / 2;
                self.ending.get_or_insert(Ending::Evicted);
            }
            ConnectionEvent::Drain => {
                self.drain_until.get_or_insert((now + drain.min(FIRST_GRACE), now + drain));
            }
        }
        self.touch(now);
    }

    /// Notes that a stream has ended or failed.
    pub(super) fn stream_over(&mut self, failed: bool) {
        self.news = true;
        self.stream_failed |= failed;
    }

    /// Notes that the system took `n` bytes of the output.
    pub(super) fn wrote(&mut self, n: usize, now: Instant) {
        if n == 0 {
            return;
        }
        self.written += n;
        if self.written >= WRITE_PROGRESS {
            self.written = 0;
            self.write_since = now;
            self.news = true;
        }
        if self.output.unsent() == 0 {
            self.touch(now);
        }
    }

    /// Returns why the connection is over, if it is. `quiet` returns whether no bytes are waiting to be read,
    /// and is called only if that matters.
    pub(super) fn finished(&self, quiet: impl FnOnce() -> bool) -> Option<Close> {
        if self.stream_failed {
            return Some(Close::Stream);
        }
        if self.is_cut {
            return Some(Close::Evicted);
        }
        if self.in_flight() > 0 || self.output.unsent() > 0 {
            return None;
        }
        match self.ending {
            Some(Ending::Framing) => Some(Close::Framing),
            Some(Ending::Header(fault)) => Some(Close::Header(fault)),
            Some(Ending::Refused(reason)) => Some(Close::Refused(reason)),
            // Only a part of a header came; a proxy that only looks whether the port is open sends nothing.
            Some(Ending::Eof) if self.header.is_some() && !self.partial.is_empty() => {
                Some(Close::Header(ProxyHeaderFault::Malformed))
            }
            // Complete messages that had to wait are answered first; an incomplete one cannot be completed
            // any more.
            Some(_) if self.header.is_none() && matches!(frame(&self.partial), Framed::Whole(_)) => None,
            Some(Ending::Eof) => Some(Close::Peer),
            Some(Ending::Evicted) => Some(Close::Evicted),
            None => {
                let stopping = self.drain_until.is_some() && self.greeted && self.partial.is_empty();
                (stopping && quiet()).then_some(Close::Stopped)
            }
        }
    }

    /// Returns what the connection does, if that may have changed since the last call.
    pub(super) fn take_news(&mut self) -> Option<Activity> {
        std::mem::take(&mut self.news).then(|| match (self.output.unsent(), self.in_flight()) {
            (0, 0) => Activity::Idle,
            (0, _) => Activity::Busy,
            _ => Activity::Unread(self.write_since),
        })
    }

    /// Returns the next timeout and its reason. `load` is the fill level of the limit of connections.
    pub(super) fn deadline(&self, times: &TcpTimes, load: f64) -> Option<(Instant, Close)> {
        let silent = !self.greeted && self.partial.is_empty();
        let drained = self.drain_until.map(|(first, last)| if silent { first } else { last });
        let mut earliest: Option<(Instant, Close)> = drained.map(|at| (at, Close::Stopped));
        let mut limit = |at: Instant, close| {
            if earliest.is_none_or(|(sooner, _)| at < sooner) {
                earliest = Some((at, close));
            }
        };
        if self.output.unsent() > 0 {
            limit(self.write_since + times.write, Close::Write);
        }
        if let Some(since) = self.message_since {
            limit(since + times.message, Close::Message);
        }
        if self.output.unsent() == 0 && self.in_flight() == 0 {
            let idle = times.idle_at(load);
            if !self.greeted {
                limit(self.active + times.first_message.min(idle), Close::First);
            } else if self.message_since.is_none() {
                limit(self.active + idle, Close::Idle);
            }
        }
        earliest
    }
}
