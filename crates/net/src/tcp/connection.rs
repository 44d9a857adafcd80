//! One TCP connection: a state machine polled by its worker. It reads, cuts messages out, has batches answered,
//! takes in later answers, pulls streams, writes, and decides when enough is enough.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Duration, Instant, Sleep};

use super::limits::Permit;
use super::output::Output;
use super::ticket::{Event, Tickets};
use crate::MIN_MESSAGE;
use crate::batch::{Batch, Origin, Outcome, Queries, Replies, Slot};
use crate::config::Config;
use crate::guard::Guarded;
use crate::handler::{HandlerFactory, MessageStream, Next};
use crate::stats::WorkerStats;

/// Octets of the longest message.
const MAX_MESSAGE: usize = 65_535;
/// Octets read at once: the longest message and its prefix.
const READ: usize = MAX_MESSAGE + 2;
/// Most messages in a batch.
const BATCH: usize = 32;
/// Rounds of reading and writing before other connections get their turn.
const ROUNDS: usize = 4;
/// Streams are pulled while fewer octets than this are unsent.
const STREAM_AHEAD: usize = 64 * 1024;
/// What a client must take within the write timeout to count as reading.
const WRITE_PROGRESS: usize = 4096;
/// A connection's first guess at the size of its answers.
const FIRST_GUESS: usize = 16 * 1024;
/// Capacity above which the buffer for half a message is not kept once empty.
const KEEP_PARTIAL: usize = 4096;

/// What the connections of one worker share. None keeps it borrowed across a poll.
pub(crate) struct Desk<F: HandlerFactory> {
    input: Vec<u8>,
    spare: Vec<u8>,
    stage: Stage<F>,
}

/// Where batches are answered.
struct Stage<F: HandlerFactory> {
    guarded: Guarded<F>,
    slots: Vec<Slot>,
    outcomes: [Option<Outcome>; BATCH],
    output: Vec<u8>,
}

impl<F: HandlerFactory> Desk<F> {
    pub(crate) fn new(guarded: Guarded<F>) -> Self {
        Desk {
            input: vec![0; READ],
            spare: Vec::with_capacity(READ),
            stage: Stage {
                guarded,
                slots: Vec::with_capacity(BATCH),
                outcomes: [const { None }; BATCH],
                // Zeroed by the system as it is touched, which for most buffers is only their beginning.
                output: vec![0; BATCH * MAX_MESSAGE],
            },
        }
    }

    pub(crate) fn idle(&mut self) {
        self.stage.guarded.idle();
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    Peer,
    Error,
    Idle,
    First,
    Message,
    Write,
    Framing,
    Stream,
    Evicted,
    Stopped,
}

/// Why a connection takes no more queries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The client closed its side.
    Eof,
    /// The client sent something that cannot be framed.
    Framing,
    /// Another connection needs the room.
    Evicted,
}

/// One connection.
pub(crate) struct Connection<F: HandlerFactory> {
    pub(crate) stream: TcpStream,
    pub(crate) desk: Rc<RefCell<Desk<F>>>,
    pub(crate) config: Rc<Config>,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) permit: Permit,
    pub(crate) tickets: Tickets,
    pub(crate) events: UnboundedReceiver<Event>,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) state: State,
}

/// What changes over a connection's life.
pub(crate) struct State {
    /// Received and not yet answered: half a message, or whole ones while too much is under way.
    partial: Vec<u8>,
    output: Output,
    streams: VecDeque<Box<dyn MessageStream>>,
    ending: Option<Ending>,
    stream_failed: bool,
    /// Set once the listener stops: when patience ends.
    drain_until: Option<Instant>,
    /// A message was received whole.
    greeted: bool,
    /// When something was last received whole, sent entirely or answered.
    active: Instant,
    /// Whether that is news to the permit.
    news: bool,
    /// Since when half a message has been waiting for its rest.
    message_since: Option<Instant>,
    /// Since when the client has not taken enough.
    write_since: Instant,
    /// What it took since then.
    written: usize,
    /// A slowly falling maximum of answer sizes, by which batches are kept from filling memory.
    largest: usize,
    sleep: Pin<Box<Sleep>>,
}

impl State {
    pub(crate) fn new(first_message: Duration) -> Self {
        let now = Instant::now();
        State {
            partial: Vec::new(),
            output: Output::default(),
            streams: VecDeque::new(),
            ending: None,
            stream_failed: false,
            drain_until: None,
            greeted: false,
            active: now,
            news: false,
            message_since: None,
            write_since: now,
            written: 0,
            largest: FIRST_GUESS,
            sleep: Box::pin(tokio::time::sleep_until(now + first_message)),
        }
    }

    /// Starts the clock on the client's reading, if nothing was unsent before.
    fn touch_output(&mut self) {
        if self.output.unsent() == 0 {
            self.write_since = Instant::now();
            self.written = 0;
        }
    }
}

/// The next message in `input`.
enum Frame {
    /// This many octets, after their prefix.
    Whole(usize),
    Partial,
    /// Shorter than a DNS header.
    Bad,
}

fn frame(input: &[u8]) -> Frame {
    let [high, low, rest @ ..] = input else { return Frame::Partial };
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    match len {
        ..MIN_MESSAGE => Frame::Bad,
        _ if rest.len() < len => Frame::Partial,
        _ => Frame::Whole(len),
    }
}

impl<F: HandlerFactory> Connection<F> {
    /// Serves the connection until it ends.
    pub(crate) async fn serve(mut self) -> Close {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Close> {
        let mut moved = true;
        let mut rounds = 0;
        while moved {
            if rounds == ROUNDS {
                cx.waker().wake_by_ref();
                break;
            }
            rounds += 1;
            self.poll_events(cx);
            moved = self.answer_partial();
            let read = match self.poll_read(cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(_)) => return Poll::Ready(Close::Error),
                Poll::Pending => false,
            };
            moved |= read | self.pull_streams();
            match self.poll_flush(cx) {
                Poll::Ready(Ok(wrote)) => moved |= wrote,
                Poll::Ready(Err(_)) => return Poll::Ready(Close::Error),
                Poll::Pending => {}
            }
            if let Some(close) = self.finished(read) {
                return Poll::Ready(close);
            }
        }
        self.tell_permit();
        self.poll_deadline(cx)
    }

    /// Takes in later answers and orders.
    fn poll_events(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            match event {
                Event::Message(message) => {
                    self.tickets.returned();
                    self.state.touch_output();
                    self.state.output.push(&message);
                }
                Event::Stream(stream) => {
                    self.tickets.returned();
                    self.stats.own.streams.add(1);
                    self.state.streams.push_back(stream);
                }
                Event::Unanswered => self.tickets.returned(),
                Event::Evict => {
                    self.state.ending.get_or_insert(Ending::Evicted);
                }
                Event::Drain => {
                    self.state.drain_until.get_or_insert(Instant::now() + self.config.drain);
                }
            }
            self.state.active = Instant::now();
            self.state.news = true;
        }
    }

    /// Queries that will still be answered.
    fn in_flight(&self) -> usize {
        self.tickets.out() + self.state.streams.len()
    }

    /// How many queries may be answered now: fewer if much is under way, or if answers are so large that a whole
    /// batch of them would take much memory.
    fn batch_room(&self) -> usize {
        let tcp = &self.config.tcp;
        if self.state.output.unsent() > tcp.max_unsent || self.state.ending == Some(Ending::Framing) {
            return 0;
        }
        let by_size = (tcp.max_unsent / self.state.largest.max(1)).max(1);
        tcp.max_in_flight.max(1).saturating_sub(self.in_flight()).min(by_size).min(BATCH)
    }

    /// Answers whole messages left over from earlier reads. True if there were any.
    fn answer_partial(&mut self) -> bool {
        if self.state.partial.is_empty() || self.batch_room() == 0 {
            return false;
        }
        let desk = Rc::clone(&self.desk);
        let mut desk = desk.borrow_mut();
        self.answer_in_place(&mut desk)
    }

    /// Answers from the buffer of the connection itself.
    fn answer_in_place(&mut self, desk: &mut Desk<F>) -> bool {
        let mut partial = std::mem::take(&mut self.state.partial);
        let used = self.answer(&partial, &mut desk.stage, &mut desk.spare);
        partial.drain(..used);
        if partial.is_empty() && partial.capacity() > KEEP_PARTIAL {
            partial = Vec::new();
        }
        self.state.partial = partial;
        used > 0
    }

    /// Reads once and answers what is whole. `Pending` also if no more is wanted now.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.ending.is_some() || self.batch_room() == 0 {
            self.state.message_since = None;
            return Poll::Pending;
        }
        let desk = Rc::clone(&self.desk);
        let mut desk = desk.borrow_mut();
        let desk = &mut *desk;
        let before = self.state.partial.len();
        let (n, used) = if before == 0 {
            // The worker's buffer: idle connections need none of their own.
            let mut buffer = ReadBuf::new(&mut desk.input);
            let poll = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            let n = buffer.filled().len();
            std::task::ready!(poll)?;
            let used = self.answer(&desk.input[..n], &mut desk.stage, &mut desk.spare);
            self.state.partial.extend_from_slice(&desk.input[used..n]);
            (n, used > 0)
        } else {
            // Grows with what arrives, not with what the prefix announces.
            let room = before.clamp(512, READ);
            self.state.partial.resize(before + room, 0);
            let mut buffer = ReadBuf::new(&mut self.state.partial[before..]);
            let poll = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            let n = buffer.filled().len();
            self.state.partial.truncate(before + n);
            std::task::ready!(poll)?;
            (n, self.answer_in_place(desk))
        };
        if n == 0 {
            self.state.ending = Some(Ending::Eof);
        }
        self.state.message_since = match self.state.message_since {
            _ if self.state.partial.is_empty() => None,
            // Still the same message.
            Some(since) if !used => Some(since),
            _ => Some(Instant::now()),
        };
        Poll::Ready(Ok(()))
    }

    /// Answers the whole messages at the start of `input`, batch by batch, as long as there is room for answers.
    /// Returns how many octets they took.
    fn answer(&mut self, input: &[u8], stage: &mut Stage<F>, spare: &mut Vec<u8>) -> usize {
        let mut at = 0;
        loop {
            let room = self.batch_room();
            stage.slots.clear();
            while stage.slots.len() < room {
                match frame(&input[at..]) {
                    Frame::Whole(len) => {
                        let (peer, local) = (self.peer, self.local);
                        stage.slots.push(Slot { start: at + 2, len, peer, local, raw: 0 });
                        at += 2 + len;
                    }
                    Frame::Partial => break,
                    Frame::Bad => {
                        self.stats.own.runts.add(1);
                        self.state.ending = Some(Ending::Framing);
                        break;
                    }
                }
            }
            if stage.slots.is_empty() {
                return at;
            }
            self.run_batch(input, stage, spare);
        }
    }

    /// Has one batch answered and takes in the outcomes.
    fn run_batch(&mut self, input: &[u8], stage: &mut Stage<F>, spare: &mut Vec<u8>) {
        let own = &self.stats.own;
        let n = stage.slots.len();
        let mut batch = Batch::new(
            Queries { input, slots: &stage.slots, origin: Origin::Tcp(&self.tickets) },
            Replies {
                output: &mut stage.output,
                outcomes: &mut stage.outcomes[..n],
                stride: MAX_MESSAGE,
                room: MAX_MESSAGE,
            },
        );
        own.batches.add(1);
        own.queries.add(n as u64);
        own.bytes_in.add(batch.octets());
        stage.guarded.batch(&mut batch);
        self.state.largest -= self.state.largest / 8;
        if self.state.output.unsent() == 0 {
            self.state.touch_output();
            self.state.output.borrow_from(spare);
        }
        for (i, outcome) in stage.outcomes[..n].iter_mut().enumerate() {
            match outcome.take() {
                Some(Outcome::Reply(len)) if (1..=MAX_MESSAGE).contains(&len) => {
                    let start = i * MAX_MESSAGE;
                    self.state.output.push(&stage.output[start..start + len]);
                    self.state.largest = self.state.largest.max(len);
                    own.replies.add(1);
                    own.bytes_out.add(len as u64);
                }
                Some(Outcome::Reply(_)) => own.bad_replies.add(1),
                Some(Outcome::Pending) => own.pending.add(1),
                Some(Outcome::Stream(stream)) => {
                    own.streams.add(1);
                    self.state.streams.push_back(stream);
                }
                Some(Outcome::Drop) | None => own.dropped.add(1),
            }
        }
        self.state.greeted = true;
        self.state.active = Instant::now();
        self.state.news = true;
    }

    /// Pulls one message from each stream in turn while the client keeps up. True if there was anything.
    fn pull_streams(&mut self) -> bool {
        let mut pulled = false;
        while self.state.output.unsent() < STREAM_AHEAD {
            let Some(mut stream) = self.state.streams.pop_front() else { break };
            pulled = true;
            self.state.touch_output();
            let mut desk = self.desk.borrow_mut();
            let desk = &mut *desk;
            self.state.output.borrow_from(&mut desk.spare);
            let buffer = &mut desk.stage.output[..MAX_MESSAGE];
            match stream.next(buffer) {
                Next::Message(len) if (1..=MAX_MESSAGE).contains(&len) => {
                    self.state.output.push(&buffer[..len]);
                    self.stats.own.replies.add(1);
                    self.stats.own.bytes_out.add(len as u64);
                    self.state.streams.push_back(stream);
                }
                Next::End => self.state.news = true,
                Next::Message(_) | Next::Abort => {
                    self.state.stream_failed = true;
                    break;
                }
            }
        }
        pulled
    }

    /// Writes what the system takes. True if that was something.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let n = std::task::ready!(self.state.output.poll_write(&mut self.stream, cx))?;
        if n > 0 {
            self.state.written += n;
            if self.state.written >= WRITE_PROGRESS {
                self.state.written = 0;
                self.state.write_since = Instant::now();
            }
        }
        if self.state.output.unsent() == 0 {
            self.state.output.return_to(&mut self.desk.borrow_mut().spare);
            if n > 0 {
                self.state.active = Instant::now();
                self.state.news = true;
            }
        }
        Poll::Ready(Ok(n > 0))
    }

    /// Why the connection is over, if it is. `read` tells whether this round received anything.
    fn finished(&self, read: bool) -> Option<Close> {
        if self.state.stream_failed {
            return Some(Close::Stream);
        }
        if self.in_flight() > 0 || self.state.output.unsent() > 0 {
            return None;
        }
        match self.state.ending {
            Some(Ending::Framing) => Some(Close::Framing),
            // Whole messages that had to wait are answered first; half a one will not become whole any more.
            Some(_) if matches!(frame(&self.state.partial), Frame::Whole(_)) => None,
            Some(Ending::Eof) => Some(Close::Peer),
            Some(Ending::Evicted) => Some(Close::Evicted),
            None => {
                let stopping = self.state.drain_until.is_some() && !read && self.state.partial.is_empty();
                (stopping && self.nothing_received()).then_some(Close::Stopped)
            }
        }
    }

    /// Asks the system itself whether anything waits to be read: the runtime may not have heard of it yet.
    fn nothing_received(&self) -> bool {
        let mut octet = [MaybeUninit::uninit()];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        match SockRef::from(&self.stream).recv_with_flags(&mut octet, flags) {
            Ok(n) => n == 0,
            Err(_) => true,
        }
    }

    /// Keeps the time stamp for eviction up to date.
    fn tell_permit(&mut self) {
        if !std::mem::take(&mut self.state.news) {
            return;
        }
        if self.in_flight() > 0 || self.state.output.unsent() > 0 {
            self.permit.busy();
        } else {
            self.permit.idle();
        }
    }

    /// When patience ends, and what to call it.
    fn deadline(&self) -> Option<(Instant, Close)> {
        let tcp = &self.config.tcp;
        let state = &self.state;
        let mut earliest: Option<(Instant, Close)> = state.drain_until.map(|at| (at, Close::Stopped));
        let mut limit = |at: Instant, close| {
            if earliest.is_none_or(|(sooner, _)| at < sooner) {
                earliest = Some((at, close));
            }
        };
        if state.output.unsent() > 0 {
            limit(state.write_since + tcp.write, Close::Write);
        }
        if let Some(since) = state.message_since {
            limit(since + tcp.message, Close::Message);
        }
        if state.output.unsent() == 0 && self.in_flight() == 0 {
            let idle = idle_time(tcp.idle, tcp.idle_min, self.permit.load());
            if !state.greeted {
                limit(state.active + tcp.first_message.min(idle), Close::First);
            } else if state.message_since.is_none() {
                limit(state.active + idle, Close::Idle);
            }
        }
        earliest
    }

    /// Waits for the deadline, which may have moved since the timer was set: a timer that fires early costs less
    /// than one that is set anew with every query.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Close> {
        let Some((deadline, close)) = self.deadline() else { return Poll::Pending };
        if deadline < self.state.sleep.deadline() {
            self.state.sleep.as_mut().reset(deadline);
        }
        while self.state.sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(close);
            }
            self.state.sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

/// The idle time at this load: all of it up to half full, then falling in a straight line.
fn idle_time(idle: Duration, least: Duration, load: f64) -> Duration {
    let fullness = ((load - 0.5) * 2.0).clamp(0.0, 1.0);
    idle.mul_f64(1.0 - fullness).max(least.min(idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_shrinks_from_half_full() {
        let (idle, least) = (Duration::from_secs(10), Duration::from_millis(200));
        assert_eq!(idle_time(idle, least, 0.0), idle);
        assert_eq!(idle_time(idle, least, 0.5), idle);
        assert_eq!(idle_time(idle, least, 0.75), idle / 2);
        assert_eq!(idle_time(idle, least, 1.0), least);
        assert_eq!(idle_time(idle, least, 1.7), least);
        assert_eq!(idle_time(least / 2, least, 1.0), least / 2);
    }

    #[test]
    fn frames() {
        assert!(matches!(frame(&[]), Frame::Partial));
        assert!(matches!(frame(&[0]), Frame::Partial));
        assert!(matches!(frame(&[0, 11]), Frame::Bad));
        assert!(matches!(frame(&[0, 12]), Frame::Partial));
        assert!(matches!(frame(&[&[0, 12][..], &[1; 11]].concat()), Frame::Partial));
        assert!(matches!(frame(&[&[0, 12][..], &[1; 12]].concat()), Frame::Whole(12)));
        assert!(matches!(frame(&[&[1, 0][..], &[1; 300]].concat()), Frame::Whole(256)));
    }
}
