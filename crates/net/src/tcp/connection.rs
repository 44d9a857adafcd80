//! One connection, polled by its worker: it reads, answers complete messages in batches, takes late answers,
//! pulls streams and writes, over any stream of bytes. Its decisions are in `life`.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use transport::{
    Batch, Client, ClientCertificate, Clock, Envelope, HandlerFactory, MAX_MESSAGE, Next, Outcome,
    ProxyHeader, Queries, Replies, Transport,
};

use super::event::ConnectionEvent;
use super::life::{BATCH, Close, Life};
use super::limits::Permit;
use crate::config::{ListenerConfig, TcpConfig};
use crate::framing::{Framed, frame};
use crate::guard::Guarded;
use crate::stats::WorkerStats;

/// Bytes read at once: the longest message and its length prefix.
const READ_BUFFER_BYTES: usize = MAX_MESSAGE + 2;
/// Rounds of reading and writing before other connections are polled.
const ROUNDS_PER_POLL: usize = 4;
/// Unsent bytes up to which streams are pulled.
const STREAM_AHEAD: usize = 64 * 1024;
/// Bytes of an incomplete message beyond which no more are read while too many bytes wait in all connections.
const CROWDED_MESSAGE: usize = 4096;
/// Time after which such a message is read on, if fewer bytes wait then.
const CROWDED_PAUSE: Duration = Duration::from_millis(50);
/// Capacity above which the buffer for incomplete messages is freed once empty.
const KEEP_PARTIAL: usize = 4096;

/// The clock of a batch, and when its data was received.
#[derive(Clone, Copy)]
struct BatchTime {
    clock: Clock,
    now: Instant,
}

/// A stream of bytes that a connection can be served on.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Whether no bytes are waiting to be read, as far as the system reports now.
    fn is_quiet(&self) -> bool;

    /// Returns the certificate that the client has shown, if it has.
    fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        None
    }

    /// Returns the name that the client has written for itself, if it has.
    fn client_name(&self) -> Option<&Arc<str>> {
        None
    }
}

impl Bytes for TcpStream {
    /// Asks the system itself: the runtime may not have received the event yet.
    fn is_quiet(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        match SockRef::from(self).recv_with_flags(&mut byte, flags) {
            Ok(n) => n == 0,
            Err(_) => true,
        }
    }
}

/// State that the connections of one worker share. No connection keeps it borrowed across a poll.
pub(crate) struct SharedBuffers<F: HandlerFactory> {
    input: Vec<u8>,
    spare: Vec<u8>,
    stage: Stage<F>,
}

/// The handler, and the buffers of a batch.
pub(crate) struct Stage<F: HandlerFactory> {
    pub(crate) guarded: Guarded<F>,
    envelopes: Vec<Envelope>,
    outcomes: [Option<Outcome>; BATCH],
    pub(super) output: Vec<u8>,
}

impl<F: HandlerFactory> Stage<F> {
    /// Passes one message to the handler; `name` is that which the client has written for itself. Returns the
    /// outcome, and the reply if that is one.
    pub(crate) fn answer_one(
        &mut self,
        message: &[u8],
        client: Client,
        name: Option<&Arc<str>>,
        connection: u64,
    ) -> (Outcome, Vec<u8>) {
        let envelopes = [Envelope { start: 0, len: message.len(), client, raw: 0 }];
        let mut outcomes = [None];
        let queries = Queries {
            input: message,
            envelopes: &envelopes,
            transport: client.transport,
            connection,
            routes: &[],
        };
        let replies = Replies {
            output: &mut self.output,
            outcomes: &mut outcomes,
            stride: MAX_MESSAGE,
            room: MAX_MESSAGE,
        };
        let mut batch = Batch::new(queries, replies, Clock::System);
        batch.set_client_name(name);
        self.guarded.batch(&mut batch);
        let [outcome] = outcomes;
        match outcome.unwrap_or_default() {
            Outcome::Reply(len) if len <= MAX_MESSAGE => (Outcome::Reply(len), self.output[..len].to_vec()),
            other => (other, Vec::new()),
        }
    }
}

impl<F: HandlerFactory> SharedBuffers<F> {
    pub(crate) fn new(guarded: Guarded<F>) -> Self {
        SharedBuffers {
            input: vec![0; READ_BUFFER_BYTES],
            spare: Vec::with_capacity(READ_BUFFER_BYTES),
            stage: Stage {
                guarded,
                envelopes: Vec::with_capacity(BATCH),
                outcomes: [const { None }; BATCH],
                // The system zeroes pages as they are touched, which for most buffers is only their
                // beginning.
                output: vec![0; BATCH * MAX_MESSAGE],
            },
        }
    }

    pub(crate) fn stage(&mut self) -> &mut Stage<F> {
        &mut self.stage
    }
}

/// One connection.
pub(crate) struct Connection<F: HandlerFactory, S: Bytes> {
    pub(super) stream: S,
    pub(super) buffers: Rc<RefCell<SharedBuffers<F>>>,
    pub(super) config: Rc<ListenerConfig>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) permit: Permit,
    pub(super) events: UnboundedReceiver<ConnectionEvent>,
    /// The connection's number in its worker.
    pub(super) id: u64,
    /// The client: the other end, or the address that its header names.
    pub(super) peer: SocketAddr,
    /// The address that the client connected to.
    pub(super) local: SocketAddr,
    pub(super) transport: Transport,
    pub(super) life: Life,
    /// Until when no more of an incomplete message is read.
    pub(super) paused: Option<Instant>,
}

impl<F: HandlerFactory, S: Bytes> Connection<F, S> {
    /// Serves the connection until it ends.
    pub(crate) async fn serve(mut self) -> Close {
        let first = Instant::now() + self.permit.times().first_message;
        let mut timer = pin!(tokio::time::sleep_until(first.into()));
        std::future::poll_fn(move |cx| {
            loop {
                if let Poll::Ready(close) = self.poll(cx, Clock::System) {
                    return Poll::Ready(close);
                }
                let Some(deadline) = self.deadline() else { return Poll::Pending };
                // A timer that fires early costs less than resetting it with every query.
                if tokio::time::Instant::from(deadline) < timer.deadline() {
                    timer.as_mut().reset(deadline.into());
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                timer.as_mut().reset(deadline.into());
            }
        })
        .await
    }

    /// Does the work that is possible at this time. Returns the reason once the connection is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, clock: Clock) -> Poll<Close> {
        let now = clock.now();
        let mut moved = true;
        let mut rounds = 0;
        while moved {
            if rounds == ROUNDS_PER_POLL {
                cx.waker().wake_by_ref();
                break;
            }
            rounds += 1;
            self.poll_events(cx, now);
            moved = self.answer_partial(clock, now);
            let read = match self.poll_read(cx, clock, now) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(_)) => return Poll::Ready(Close::Error),
                Poll::Pending => false,
            };
            moved |= read | self.pull_streams(now);
            match self.poll_flush(cx, now) {
                Poll::Ready(Ok(wrote)) => moved |= wrote,
                Poll::Ready(Err(_)) => return Poll::Ready(Close::Error),
                Poll::Pending => {}
            }
            if let Some(close) = self.life.finished(|| !read && self.stream.is_quiet()) {
                return Poll::Ready(close);
            }
        }
        if let Some(activity) = self.life.take_news() {
            self.permit.note(activity);
        }
        self.permit.note_waiting(self.life.output.unsent() + self.life.partial.len());
        match self.life.deadline(&self.permit.times(), self.permit.load()) {
            Some((deadline, close)) if deadline <= now => Poll::Ready(close),
            _ => Poll::Pending,
        }
    }

    /// Returns when to poll again if nothing happens before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let close = self.life.deadline(&self.permit.times(), self.permit.load()).map(|(at, _)| at);
        close.into_iter().chain(self.paused).min()
    }

    /// Returns the limits of this connection at present.
    fn tcp(&self) -> TcpConfig {
        let config = self.config.tcp;
        if self.permit.is_crowded() { config.crowded() } else { config }
    }

    /// Handles late answers, eviction and drain.
    fn poll_events(&mut self, cx: &mut Context<'_>, now: Instant) {
        while let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            self.life.event(event, self.config.drain, now);
        }
    }

    /// Answers complete messages left over from earlier reads. Returns whether there were any.
    fn answer_partial(&mut self, clock: Clock, now: Instant) -> bool {
        if self.life.partial.is_empty() || self.life.batch_room(&self.tcp()) == 0 {
            return false;
        }
        let buffers = Rc::clone(&self.buffers);
        let mut buffers = buffers.borrow_mut();
        self.answer_in_place(&mut buffers, clock, now)
    }

    /// Answers from the connection's own buffer.
    fn answer_in_place(&mut self, buffers: &mut SharedBuffers<F>, clock: Clock, now: Instant) -> bool {
        let mut partial = std::mem::take(&mut self.life.partial);
        let used = self.answer(&partial, &mut buffers.stage, &mut buffers.spare, BatchTime { clock, now });
        partial.drain(..used);
        if partial.is_empty() && partial.capacity() > KEEP_PARTIAL {
            partial = Vec::new();
        }
        self.life.partial = partial;
        used > 0
    }

    /// Reads once and answers the complete messages. Also `Pending` if the connection takes no more queries
    /// now.
    fn poll_read(&mut self, cx: &mut Context<'_>, clock: Clock, now: Instant) -> Poll<io::Result<()>> {
        if !self.life.wants_input(&self.tcp()) {
            return Poll::Pending;
        }
        let is_paused = self.life.partial.len() > CROWDED_MESSAGE && self.permit.is_crowded();
        self.paused = is_paused.then(|| now + CROWDED_PAUSE);
        if is_paused {
            return Poll::Pending;
        }
        let buffers = Rc::clone(&self.buffers);
        let mut buffers = buffers.borrow_mut();
        let buffers = &mut *buffers;
        let before = self.life.partial.len();
        let (n, used) = if before == 0 {
            // The worker's buffer: idle connections need none of their own.
            let mut buffer = ReadBuf::new(&mut buffers.input);
            let poll = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            let n = buffer.filled().len();
            std::task::ready!(poll)?;
            let used = self.answer(
                &buffers.input[..n],
                &mut buffers.stage,
                &mut buffers.spare,
                BatchTime { clock, now },
            );
            self.life.partial.extend_from_slice(&buffers.input[used..n]);
            (n, used > 0)
        } else {
            // Grows with the bytes received, not with the announced length.
            let room = before.clamp(512, READ_BUFFER_BYTES);
            self.life.partial.resize(before + room, 0);
            let mut buffer = ReadBuf::new(&mut self.life.partial[before..]);
            let poll = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            let n = buffer.filled().len();
            self.life.partial.truncate(before + n);
            std::task::ready!(poll)?;
            (n, self.answer_in_place(buffers, clock, now))
        };
        self.life.received(n, used, now);
        Poll::Ready(Ok(()))
    }

    /// Answers the complete messages at the start of `input`, batch by batch, as long as there is room for
    /// answers. Returns how many bytes they took.
    fn answer(&mut self, input: &[u8], stage: &mut Stage<F>, spare: &mut Vec<u8>, time: BatchTime) -> usize {
        let mut at = 0;
        if let Some(longest) = self.life.header {
            at = self.take_header(input, longest);
            if at == 0 {
                return 0;
            }
        }
        loop {
            let room = self.life.batch_room(&self.tcp());
            stage.envelopes.clear();
            while stage.envelopes.len() < room {
                match frame(&input[at..]) {
                    Framed::Whole(len) => {
                        let Connection { peer, local, transport, .. } = *self;
                        let client = Client { peer, local, transport };
                        stage.envelopes.push(Envelope { start: at + 2, len, client, raw: 0 });
                        at += 2 + len;
                    }
                    Framed::Partial => break,
                    Framed::Bad => {
                        self.stats.runts.add(1);
                        self.life.bad_framing();
                        break;
                    }
                }
            }
            if stage.envelopes.is_empty() {
                return at;
            }
            self.run_batch(input, stage, spare, time);
        }
    }

    /// Takes the header of a proxy off the start of `input`, if it is whole: the connection is then one
    /// of the client that it names. Returns its length, or 0.
    #[cold]
    fn take_header(&mut self, input: &[u8], longest: usize) -> usize {
        let header = match ProxyHeader::read(input, longest) {
            Ok(None) => return 0,
            Ok(Some(header)) => header,
            Err(fault) => {
                self.life.bad_header(fault);
                return 0;
            }
        };
        if let Some(ends) = header.ends {
            if let Err(reason) = self.permit.pass_to(ends.source.ip()) {
                self.life.turned_away(reason);
                return 0;
            }
            (self.peer, self.local) = (ends.source, ends.destination);
        }
        self.life.header = None;
        header.len
    }

    /// Answers one batch and handles the outcomes.
    fn run_batch(
        &mut self,
        input: &[u8],
        stage: &mut Stage<F>,
        spare: &mut Vec<u8>,
        BatchTime { clock, now }: BatchTime,
    ) {
        let stats = &self.stats;
        let n = stage.envelopes.len();
        let (envelopes, transport, connection) = (&stage.envelopes[..], self.transport, self.id);
        let mut batch = Batch::new(
            Queries { input, envelopes, transport, connection, routes: &[] },
            Replies {
                output: &mut stage.output,
                outcomes: &mut stage.outcomes[..n],
                stride: MAX_MESSAGE,
                room: MAX_MESSAGE,
            },
            clock,
        );
        batch.set_certificate(self.stream.certificate());
        batch.set_client_name(self.stream.client_name());
        stats.batches.add(1);
        stats.queries.add(n as u64);
        stats.bytes_in.add(batch.bytes());
        stage.guarded.batch(&mut batch);
        self.life.next_guess();
        if self.life.output.unsent() == 0 {
            self.life.output.borrow_from(spare);
        }
        let mut pending = 0;
        for (i, outcome) in stage.outcomes[..n].iter_mut().enumerate() {
            match outcome.take() {
                Some(Outcome::Reply(len)) if (1..=MAX_MESSAGE).contains(&len) => {
                    let start = i * MAX_MESSAGE;
                    self.life.send(&stage.output[start..start + len], now);
                    stats.replies.add(1);
                    stats.bytes_out.add(len as u64);
                }
                Some(Outcome::Reply(_)) => stats.bad_replies.add(1),
                Some(Outcome::Pending) => pending += 1,
                Some(Outcome::Stream(stream)) => {
                    stats.streams.add(1);
                    self.life.streams.push_back(stream);
                }
                Some(Outcome::Drop) | None => stats.dropped.add(1),
            }
        }
        stats.pending.add(pending);
        self.life.answered(pending as usize, now);
    }

    /// Pulls one message from each stream in turn while the client keeps up. Returns whether there was a
    /// stream.
    fn pull_streams(&mut self, now: Instant) -> bool {
        let mut pulled = false;
        let ahead = if self.permit.is_crowded() { 1 } else { STREAM_AHEAD };
        while self.life.output.unsent() < ahead {
            let Some(mut stream) = self.life.streams.pop_front() else { break };
            pulled = true;
            self.life.output.borrow_from(&mut self.buffers.borrow_mut().spare);
            self.life.touch_output(now);
            let mut next = Next::End;
            self.life.output.write(|room| {
                next = stream.next(room);
                // Any other length is invalid.
                let Next::Message(len) = next else { return None };
                u16::try_from(len).ok().filter(|&len| len > 0)
            });
            match next {
                Next::Message(len) if (1..=MAX_MESSAGE).contains(&len) => {
                    self.stats.replies.add(1);
                    self.stats.bytes_out.add(len as u64);
                    self.life.streams.push_back(stream);
                }
                Next::End => self.life.stream_over(false),
                Next::Message(_) | Next::Abort => {
                    self.life.stream_over(true);
                    break;
                }
            }
        }
        pulled
    }

    /// Writes as much as the system takes. Returns whether it took any bytes.
    fn poll_flush(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<bool>> {
        let n = std::task::ready!(self.life.output.poll_write(&mut self.stream, cx))?;
        if self.life.output.unsent() == 0 {
            self.life.output.return_to(&mut self.buffers.borrow_mut().spare);
        }
        self.life.wrote(n, now);
        Poll::Ready(Ok(n > 0))
    }
}
