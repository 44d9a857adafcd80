//! Replayed connections: the test controls the client's bytes, the handler's answers and the time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use transport::{
    Batch, Clock, Handler, LateReplies, MessageStream, Next, Outcome, ProxyHeaderFault, Transport,
    WorkerContext,
};

use super::connection::{Bytes, Connection, SharedBuffers};
use super::event::{ConnectionEvent, Late};
use super::life::{Close, Life};
use super::limits::{Permit, TcpLimits, TcpTimes, TurnedAway};
use crate::config::ListenerConfig;
use crate::fault::WorkerId;
use crate::guard::Guarded;
use crate::running::Context as Listening;
use crate::stats::WorkerStats;

/// The client's end of a connection.
#[derive(Default)]
struct Wire {
    to_server: VecDeque<u8>,
    closed: bool,
    from_server: Vec<u8>,
    /// Bytes that the client still reads.
    takes: usize,
}

/// The server's end.
struct Pipe(Rc<RefCell<Wire>>);

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut wire = self.0.borrow_mut();
        if wire.to_server.is_empty() && !wire.closed {
            return Poll::Pending;
        }
        let n = wire.to_server.len().min(buffer.remaining());
        wire.to_server.drain(..n).for_each(|byte| buffer.put_slice(&[byte]));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.borrow_mut();
        let n = bytes.len().min(wire.takes);
        if n == 0 {
            return Poll::Pending;
        }
        wire.takes -= n;
        wire.from_server.extend_from_slice(&bytes[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Bytes for Pipe {
    fn is_quiet(&self) -> bool {
        self.0.borrow().to_server.is_empty()
    }
}

/// Echoes a query, except for its last byte: `p` leaves it pending, `s` answers with an endless stream.
struct Echo;

impl Handler for Echo {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        for i in 0..batch.len() {
            let (query, out) = batch.parts(i);
            let outcome = match query.packet.last() {
                Some(b'p') => Outcome::Pending,
                Some(b's') => Outcome::Stream(Box::new(Endless)),
                _ => {
                    out[..query.packet.len()].copy_from_slice(query.packet);
                    Outcome::Reply(query.packet.len())
                }
            };
            batch.set(i, outcome);
        }
    }

    fn late(&mut self, _: &mut LateReplies<'_>) -> bool {
        false
    }
}

struct Endless;

impl MessageStream for Endless {
    fn next(&mut self, out: &mut [u8]) -> Next {
        out[..1000].fill(7);
        Next::Message(1000)
    }
}

type Factory = fn(&WorkerContext) -> Echo;

/// Stores whether it was woken.
struct Again(AtomicBool);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// One connection and its client, with a clock of their own.
struct Replay {
    connection: Connection<Factory, Pipe>,
    events: UnboundedSender<ConnectionEvent>,
    limits: TcpLimits,
    wire: Rc<RefCell<Wire>>,
    begun: Instant,
    now: Instant,
    over: Cell<Option<Close>>,
}

/// A message after its length prefix; its last byte selects what the handler does.
fn message(what: u8) -> Vec<u8> {
    let mut bytes = vec![0, 20];
    bytes.extend([9; 19]);
    bytes.push(what);
    bytes
}

impl Replay {
    /// A connection just accepted, which fills `1 / most` of the limit.
    fn new(times: TcpTimes, most: usize) -> Replay {
        Replay::from(TcpLimits::new(most, most, &times), None)
    }

    /// A connection of a proxy just accepted, under these limits.
    fn behind_a_proxy(limits: &TcpLimits) -> Replay {
        Replay::from(limits.clone(), Some(60))
    }

    fn from(limits: TcpLimits, header: Option<usize>) -> Replay {
        let id = WorkerId { index: 0, transport: Transport::Tcp, local: ([127, 0, 0, 1], 53).into() };
        let stats = Arc::new(WorkerStats::default());
        let make: Factory = |_| Echo;
        let reporter = Listening::default().reporter(id);
        let worker_context = id.worker_context(Waker::noop().clone());
        let guarded = Guarded::new(Arc::new(make), worker_context, Arc::clone(&stats), reporter);
        let (events, receiver) = unbounded_channel();
        let peer = ([192, 0, 2, 1], 4000).into();
        let admitted = match header {
            None => limits.admit(peer, events.clone()),
            Some(_) => limits.admit_proxy(peer, events.clone()),
        };
        let Ok(permit) = admitted else { panic!("there is room") };
        let wire = Rc::new(RefCell::new(Wire { takes: usize::MAX, ..Wire::default() }));
        let begun = Instant::now();
        let connection = Connection {
            stream: Pipe(Rc::clone(&wire)),
            buffers: Rc::new(RefCell::new(SharedBuffers::new(guarded))),
            config: Rc::new(ListenerConfig::default()),
            stats,
            permit,
            events: receiver,
            id: 1,
            peer,
            local: id.local,
            transport: Transport::Tcp,
            life: Life::new(header, begun),
            paused: None,
        };
        let replay = Replay { connection, events, limits, wire, begun, now: begun, over: Cell::new(None) };
        replay.wait(0)
    }

    /// Polls as long as the connection wakes itself.
    fn poll(&mut self) {
        let again = Arc::new(Again(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&again));
        while self.over.get().is_none() && again.0.swap(false, Relaxed) {
            if let Poll::Ready(close) =
                self.connection.poll(&mut Context::from_waker(&waker), Clock::At(self.now))
            {
                self.over.set(Some(close));
            }
        }
    }

    /// Advances the time, and polls the connection at its deadlines.
    fn wait(mut self, milliseconds: u64) -> Self {
        let until = self.now + Duration::from_millis(milliseconds);
        self.poll();
        while let Some(deadline) = self.connection.deadline().filter(|&at| at <= until) {
            if self.over.get().is_some() {
                return self;
            }
            self.now = self.now.max(deadline);
            self.poll();
        }
        if self.over.get().is_none() {
            self.now = until;
        }
        self
    }

    fn send(mut self, bytes: &[u8]) -> Self {
        self.wire.borrow_mut().to_server.extend(bytes);
        self.poll();
        self
    }

    fn take(mut self, bytes: usize) -> Self {
        self.wire.borrow_mut().takes = bytes;
        self.poll();
        self
    }

    fn event(mut self, event: ConnectionEvent) -> Self {
        assert!(self.events.send(event).is_ok());
        self.poll();
        self
    }

    /// Returns why it ended, and after how many milliseconds.
    fn end(self) -> (Option<Close>, u128) {
        (self.over.get(), (self.now - self.begun).as_millis())
    }

    fn received(&self) -> usize {
        self.wire.borrow().from_server.len()
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn times() -> TcpTimes {
    TcpTimes { first_message: ms(150), message: ms(100), idle: ms(300), idle_min: ms(50), write: ms(400) }
}

const ENOUGH: u64 = 60_000;

#[test]
fn each_silence_ends_at_its_own_time() {
    let new = || Replay::new(times(), 1000);
    assert_eq!(new().wait(ENOUGH).end(), (Some(Close::First), 150));
    assert_eq!(new().send(&[0, 30, 1, 2, 3]).wait(ENOUGH).end(), (Some(Close::Message), 100));
    assert_eq!(new().wait(20).send(&message(b'e')).wait(ENOUGH).end(), (Some(Close::Idle), 320));
    let half_later = new().send(&message(b'e')).wait(70).send(&[0]).wait(ENOUGH);
    assert_eq!(half_later.end(), (Some(Close::Message), 170));
}

#[test]
fn bytes_that_keep_coming_do_not_prolong_a_message() {
    let mut replay = Replay::new(times(), 1000).send(&[0, 200]);
    for _ in 0..50 {
        replay = replay.wait(10).send(&[7]);
    }
    assert_eq!(replay.end(), (Some(Close::Message), 100));
}

#[test]
fn a_query_that_waits_for_its_answer_is_not_idle() {
    let replay = Replay::new(times(), 1000).send(&message(b'p')).wait(10_000);
    assert_eq!(replay.over.get(), None);
    let replay = replay.event(ConnectionEvent::Late(Late::Message(vec![1; 20])));
    assert_eq!(replay.received(), 22);
    assert_eq!(replay.wait(ENOUGH).end(), (Some(Close::Idle), 10_300));
    let unanswered = Replay::new(times(), 1000).send(&message(b'p')).wait(1000);
    assert_eq!(
        unanswered.event(ConnectionEvent::Late(Late::Nothing)).wait(ENOUGH).end(),
        (Some(Close::Idle), 1300)
    );
}

#[test]
fn half_a_message_behind_too_many_queries_is_not_the_clients_fault() {
    let most = ListenerConfig::default().tcp.max_in_flight;
    let mut replay = Replay::new(times(), 1000);
    for _ in 0..most {
        replay = replay.send(&message(b'p'));
    }
    // The bytes stay unread until an answer makes room.
    let replay = replay.send(&[0, 20, 9]).wait(10_000);
    assert_eq!(replay.over.get(), None);
    let replay = replay.event(ConnectionEvent::Late(Late::Nothing)).wait(ENOUGH);
    assert_eq!(replay.end(), (Some(Close::Message), 10_100));
}

#[test]
fn idle_time_shrinks_as_connections_fill_the_limit() {
    let alone = Replay::new(times(), 4).send(&message(b'e')).wait(ENOUGH);
    assert_eq!(alone.end(), (Some(Close::Idle), 300), "a quarter full");
    let full = Replay::new(times(), 1).send(&message(b'e')).wait(ENOUGH);
    assert_eq!(full.end(), (Some(Close::Idle), 50), "the last one");
}

#[test]
fn a_client_that_does_not_read_is_cut_and_one_that_reads_slowly_is_not() {
    let cut = Replay::new(times(), 1000).take(100).send(&message(b's')).wait(ENOUGH);
    assert_eq!(cut.end(), (Some(Close::Write), 400));
    let mut slow = Replay::new(times(), 1000).take(0).send(&message(b's'));
    for _ in 0..50 {
        slow = slow.wait(390).take(4096);
    }
    assert_eq!(slow.over.get(), None);
    assert_eq!(slow.received(), 50 * 4096);
    // A little at a time is not enough.
    let mut drip = Replay::new(times(), 1000).take(0).send(&message(b's'));
    for _ in 0..50 {
        drip = drip.wait(100).take(1000);
    }
    assert_eq!(drip.over.get(), Some(Close::Write));
}

impl Replay {
    /// Another connection, in which so many bytes wait that all others get one answer at a time.
    fn crowd(&self) -> Permit {
        self.limits.set_waiting(100_000);
        let other = self.limits.admit(([192, 0, 2, 9], 4000).into(), unbounded_channel().0);
        let Ok(mut other) = other else { panic!("there is room") };
        other.note_waiting(200_000);
        other
    }
}

#[test]
fn while_too_many_bytes_wait_a_connection_gets_one_answer_at_a_time() {
    let replay = Replay::new(times(), 1000).take(0);
    let crowd = replay.crowd();
    let replay = replay.send(&message(b'e').repeat(100));
    assert_eq!(replay.connection.life.output.unsent(), 22);
    assert_eq!(replay.limits.waiting() - 200_000, 22 + replay.connection.life.partial.len());
    let replay = replay.take(usize::MAX).wait(10);
    assert_eq!(replay.received(), 100 * 22, "a client that reads gets all answers");
    let replay = replay.take(0).send(&message(b's'));
    assert_eq!(replay.connection.life.output.unsent(), 1002, "one message of the stream");
    drop(crowd);
    let limits = replay.limits.clone();
    drop(replay);
    assert_eq!(limits.waiting(), 0);
}

#[test]
fn while_too_many_bytes_wait_long_messages_are_not_read_on() {
    let replay = Replay::new(TcpTimes { first_message: ms(1000), message: ms(1000), ..times() }, 1000);
    let crowd = replay.crowd();
    let mut long = vec![0xff, 0xff];
    long.resize(2 + 65_535, b'e');
    let replay = replay.send(&long[..5000]).send(&long[5000..]).wait(200);
    assert_eq!(replay.connection.life.partial.len(), 5000);
    drop(crowd);
    let replay = replay.wait(50);
    assert_eq!((replay.received(), replay.over.get()), (long.len(), None));
}

#[test]
fn answers_are_not_made_for_a_client_that_does_not_take_them() {
    let replay = Replay::new(times(), 1000).take(0);
    let most = ListenerConfig::default().tcp.max_unsent;
    let many: Vec<u8> = message(b'e').repeat(20_000);
    let replay = replay.send(&many);
    assert!(replay.connection.life.output.unsent() < most + 64 * 1024);
    assert!(replay.wire.borrow().to_server.len() > many.len() / 4, "the rest is left to the system");
    let whole = replay.take(usize::MAX).wait(10);
    assert_eq!(whole.received(), many.len());
}

#[test]
fn the_end_of_the_listener_waits_for_answers_but_not_for_ever() {
    let drain = ListenerConfig::default().drain.as_millis() as u64;
    let idle = Replay::new(times(), 1000).send(&message(b'e')).event(ConnectionEvent::Drain);
    assert_eq!(idle.end(), (Some(Close::Stopped), 0));
    let waiting = Replay::new(times(), 1000).send(&message(b'p')).event(ConnectionEvent::Drain).wait(100);
    assert_eq!(waiting.over.get(), None);
    let answered = waiting.event(ConnectionEvent::Late(Late::Message(vec![1; 20])));
    assert_eq!(answered.received(), 22);
    assert_eq!(answered.end(), (Some(Close::Stopped), 100));
    let forgotten =
        Replay::new(times(), 1000).send(&message(b'p')).event(ConnectionEvent::Drain).wait(ENOUGH);
    assert_eq!(forgotten.end(), (Some(Close::Stopped), u128::from(drain)));
}

#[test]
fn a_client_that_connected_just_before_the_end_of_the_listener_is_answered() {
    let patient = TcpTimes { first_message: ms(5000), message: ms(5000), idle: ms(5000), ..times() };
    let new = || Replay::new(patient, 1000);
    let late = new().event(ConnectionEvent::Drain).wait(200);
    assert_eq!(late.over.get(), None);
    let late = late.send(&message(b'e'));
    assert!(late.received() > 0);
    assert_eq!(late.end(), (Some(Close::Stopped), 200));
    assert_eq!(new().event(ConnectionEvent::Drain).wait(ENOUGH).end(), (Some(Close::Stopped), 250), "silent");
    let drain = ListenerConfig::default().drain.as_millis();
    let half = new().event(ConnectionEvent::Drain).wait(200).send(&[0, 30, 1]).wait(ENOUGH);
    assert_eq!(half.end(), (Some(Close::Stopped), drain), "half a query has all the time of the others");
}

#[test]
fn new_times_hold_from_the_next_thing_a_client_does() {
    let limits = TcpLimits::new(10, 10, &times());
    limits.set_times(&TcpTimes { idle: ms(7), ..times() });
    assert_eq!(limits.times(), TcpTimes { idle: ms(7), ..times() });
}

/// A header that names this client, at the address 198.51.100.53.
fn header(client: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f".to_vec();
    header.extend(client);
    // An extension of three bytes ends it.
    header.extend([198, 51, 100, 53, 0x03, 0xe8, 0, 53, 4, 0, 0]);
    header
}

const LOCAL_HEADER: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

impl Replay {
    /// The client, and the address that it connected to.
    fn ends(&self) -> [String; 2] {
        [self.connection.peer, self.connection.local].map(|addr| addr.to_string())
    }
}

#[test]
fn a_header_names_the_client_however_its_bytes_come() {
    let all = [&header([203, 0, 113, 9])[..], &message(b'e'), &message(b'e')].concat();
    for step in 1..=all.len() {
        let limits = TcpLimits::new(10, 10, &times());
        let mut replay = Replay::behind_a_proxy(&limits);
        for part in all.chunks(step) {
            replay = replay.send(part);
        }
        assert_eq!(replay.received(), 44, "{step}");
        assert_eq!(replay.ends(), ["203.0.113.9:1000", "198.51.100.53:53"]);
        assert_eq!(replay.send(&message(b'e')).received(), 66, "one header for all");
    }
    let limits = TcpLimits::new(10, 10, &times());
    let local = Replay::behind_a_proxy(&limits).send(LOCAL_HEADER).send(&message(b'e'));
    assert_eq!((local.received(), local.ends()[0].as_str()), (22, "192.0.2.1:4000"));
}

#[test]
fn a_connection_without_a_valid_header_is_closed_at_once() {
    let limits = TcpLimits::new(10, 10, &times());
    let close = |bytes: &[u8]| Replay::behind_a_proxy(&limits).send(bytes).end();
    let of = |fault| (Some(Close::Header(fault)), 0);
    assert_eq!(close(&message(b'e')), of(ProxyHeaderFault::Missing));
    assert_eq!(close(b"\r\n\r\n\0\r\nQUIT\n\x22"), of(ProxyHeaderFault::Malformed));
    assert_eq!(close(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x2d"), of(ProxyHeaderFault::TooLong));
    assert_eq!(close(b"\r\n\r\n\0\r\nQUIT\n\x21\0"), of(ProxyHeaderFault::NoAddress));
    // A second header is a message of a length that does not come.
    let two = [header([203, 0, 113, 9]), header([203, 0, 113, 10])].concat();
    let twice = Replay::behind_a_proxy(&limits).send(&two);
    assert_eq!((twice.received(), twice.ends()[0].as_str()), (0, "203.0.113.9:1000"));
    assert_eq!(twice.wait(ENOUGH).end(), (Some(Close::Message), 100));
}

#[test]
fn a_header_that_does_not_come_ends_as_a_first_message_does() {
    let limits = TcpLimits::new(10, 10, &times());
    let new = || Replay::behind_a_proxy(&limits);
    assert_eq!(new().wait(ENOUGH).end(), (Some(Close::First), 150));
    assert_eq!(new().send(&header([203, 0, 113, 9])).wait(ENOUGH).end(), (Some(Close::First), 150));
    assert_eq!(new().send(&LOCAL_HEADER[..13]).wait(ENOUGH).end(), (Some(Close::Message), 100));
    let ended = |bytes: &[u8]| {
        let replay = new().send(bytes);
        replay.wire.borrow_mut().closed = true;
        replay.wait(0).end().0
    };
    assert_eq!(ended(&[]), Some(Close::Peer), "a look whether the port is open");
    assert_eq!(ended(&LOCAL_HEADER[..15]), Some(Close::Header(ProxyHeaderFault::Malformed)));
    assert_eq!(ended(LOCAL_HEADER), Some(Close::Peer));
}

#[test]
fn a_connection_counts_as_the_proxys_until_it_has_named_the_client() {
    let limits = TcpLimits::new(100, 2, &times());
    // More than one client may have, and each of another client.
    let open: Vec<_> = (0..10)
        .map(|client| {
            Replay::behind_a_proxy(&limits).send(&header([203, 0, 113, client])).send(&message(b'p'))
        })
        .collect();
    assert!(open.iter().all(|replay| replay.over.get().is_none()));
    let waiting: Vec<_> = (0..10).map(|_| Replay::behind_a_proxy(&limits)).collect();
    assert_eq!(limits.current(), 20);
    let second = Replay::behind_a_proxy(&limits).send(&header([203, 0, 113, 1]));
    assert_eq!(second.over.get(), None);
    let third = Replay::behind_a_proxy(&limits).send(&header([203, 0, 113, 1])).send(&message(b'e'));
    assert_eq!(third.received(), 0);
    assert_eq!(third.end(), (Some(Close::Refused(TurnedAway::Client)), 0));
    // The proxy itself has no limit but the total.
    let local = Replay::behind_a_proxy(&limits).send(LOCAL_HEADER).send(&message(b'e'));
    assert_eq!(local.received(), 22);
    // The client's direct connections count together with those through the proxy.
    let (direct, _events) = unbounded_channel();
    let peer = ([203, 0, 113, 1], 1000).into();
    assert_eq!(limits.admit(peer, direct.clone()).err(), Some(TurnedAway::Client));
    drop((open, waiting, second, local));
    assert_eq!(limits.current(), 0);
    assert!(limits.admit(peer, direct).is_ok());
}
