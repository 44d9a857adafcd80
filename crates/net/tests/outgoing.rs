//! Outgoing links against real sockets on loopback: a core's actions are carried out, and it receives their
//! outcomes.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use net::{Outgoing, OutgoingConfig};
use transport::{
    Action, Core, EncryptedSession, Encryption, EncryptionFault, Event, Link, SessionState, Transport,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The events that a core has received.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Opened(u64),
    Message(u64, Vec<u8>),
    Ended(u64, ErrorKind),
    Secured(u64, bool),
    Insecure(u64, EncryptionFault),
    Failed(u64, u16, Option<EncryptionFault>),
    Draining(u64),
    KeyWanted(u64),
    Timeout,
    Waits,
    From(u64),
}

/// Passes on the events it receives, and carries out orders.
struct Relay {
    heard: Sender<Heard>,
    deadlines: VecDeque<Instant>,
}

enum Order {
    Act(Vec<Action>),
    Timeout(Duration),
    /// Reports that it has begun, and continues when the test signals.
    Wait(Receiver<()>),
    /// Reports that this origin's request is acted on.
    From(u64),
}

impl Core for Relay {
    type Request = Order;

    fn origin(order: &Order) -> u64 {
        match order {
            Order::From(origin) => *origin,
            _ => 0,
        }
    }

    fn request(&mut self, order: Order, now: Instant, actions: &mut Vec<Action>) {
        match order {
            Order::Act(all) => actions.extend(all),
            Order::Timeout(after) => self.deadlines.push_back(now + after),
            Order::Wait(go_on) => {
                let _ = self.heard.send(Heard::Waits);
                let _ = go_on.recv_timeout(TEST_TIMEOUT);
            }
            Order::From(origin) => {
                let _ = self.heard.send(Heard::From(origin));
            }
        }
    }

    fn event(&mut self, event: Event<'_>, _: Instant, _: &mut Vec<Action>) {
        let heard = match event {
            Event::Opened { link } => Heard::Opened(link.0),
            Event::Message { link, message } => Heard::Message(link.0, message.to_vec()),
            Event::Ended { link, error } => Heard::Ended(link.0, error),
            Event::Secured { link, resumed } => Heard::Secured(link.0, resumed),
            Event::Insecure { link, fault } => Heard::Insecure(link.0, fault),
            Event::Failed { link, id, fault } => Heard::Failed(link.0, id, fault),
            Event::Draining { link } => Heard::Draining(link.0),
            Event::KeyWanted { link } => Heard::KeyWanted(link.0),
        };
        let _ = self.heard.send(heard);
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadlines.front().copied()
    }

    fn timeout(&mut self, now: Instant, _: &mut Vec<Action>) {
        assert!(self.deadlines.pop_front().is_some_and(|at| at <= now));
        let _ = self.heard.send(Heard::Timeout);
    }
}

struct Rig {
    outgoing: Outgoing<Order>,
    heard: Receiver<Heard>,
}

impl Rig {
    fn new(links: usize) -> Rig {
        Rig::with(&OutgoingConfig { links, ..OutgoingConfig::default() })
    }

    fn with(config: &OutgoingConfig) -> Rig {
        let (sender, heard) = channel();
        let core = Relay { heard: sender, deadlines: VecDeque::new() };
        Rig { outgoing: Outgoing::start("outgoing", core, config).unwrap(), heard }
    }

    fn act(&self, actions: impl IntoIterator<Item = Action>) {
        assert!(self.outgoing.request(Order::Act(actions.into_iter().collect())));
    }

    fn next_event(&self) -> Heard {
        self.heard.recv_timeout(TEST_TIMEOUT).expect("news")
    }
}

fn open(link: u64, transport: Transport, to: SocketAddr) -> Action {
    Action::Open { link: Link(link), transport, to, from: None, encryption: None }
}

fn send(link: u64, message: &[u8]) -> Action {
    Action::Send { link: Link(link), message: message.to_vec() }
}

fn server() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    socket
}

#[test]
fn datagrams_go_out_and_only_the_other_end_is_heard() {
    let (rig, server, stranger) = (Rig::new(10), server(), server());
    let to = server.local_addr().unwrap();
    rig.act([open(1, Transport::Udp, to), send(1, b"question")]);
    let mut buffer = [0; 100];
    let (n, client) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"question");
    stranger.send_to(b"forged", client).unwrap();
    server.send_to(b"first", client).unwrap();
    server.send_to(b"second", client).unwrap();
    assert_eq!(rig.next_event(), Heard::Message(1, b"first".to_vec()));
    assert_eq!(rig.next_event(), Heard::Message(1, b"second".to_vec()));
    // Every link has a port of its own.
    rig.act([open(2, Transport::Udp, to), send(2, b"question")]);
    let (_, other) = server.recv_from(&mut buffer).unwrap();
    assert_ne!(client.port(), other.port());
    let counts = rig.outgoing.counts();
    let counts = [&counts.opened, &counts.open, &counts.sent, &counts.received].map(|count| count.get());
    assert_eq!(counts, [2; 4]);
}

#[test]
fn a_closed_link_hears_nothing_more() {
    let (rig, server) = (Rig::new(10), server());
    rig.act([open(1, Transport::Udp, server.local_addr().unwrap()), send(1, b"question")]);
    let (_, client) = server.recv_from(&mut [0; 100]).unwrap();
    rig.act([Action::Close { link: Link(1) }]);
    // Closing happens on the other thread; a second link shows that it has happened.
    rig.act([open(2, Transport::Udp, server.local_addr().unwrap()), send(2, b"question")]);
    let (_, second) = server.recv_from(&mut [0; 100]).unwrap();
    let _ = server.send_to(b"late", client);
    server.send_to(b"right", second).unwrap();
    assert_eq!(rig.next_event(), Heard::Message(2, b"right".to_vec()));
    assert_eq!(rig.outgoing.counts().open.get(), 1);
}

#[test]
fn an_unreachable_port_is_reported() {
    let rig = Rig::new(10);
    let closed = server().local_addr().unwrap();
    rig.act([open(1, Transport::Udp, closed), send(1, b"question")]);
    assert_eq!(rig.next_event(), Heard::Ended(1, ErrorKind::ConnectionRefused));
    rig.act([open(2, Transport::Tcp, closed), send(2, b"question")]);
    assert_eq!(rig.next_event(), Heard::Ended(2, ErrorKind::ConnectionRefused));
    assert_eq!(rig.outgoing.counts().open.get(), 0);
}

#[test]
fn a_connection_carries_messages_both_ways_in_any_pieces() {
    let rig = Rig::new(10);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Messages sent before the connection is open are queued.
    rig.act([
        open(7, Transport::Tcp, listener.local_addr().unwrap()),
        send(7, b"before"),
        send(7, &[9; 60_000]),
    ]);
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(rig.next_event(), Heard::Opened(7));
    let mut got = vec![0; 2 + 6 + 2 + 60_000];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(&got[..8], b"\0\x06before");
    let answers = [vec![1; 12], vec![2; 300], vec![3; 65_535]];
    for answer in &answers {
        let framed = [&(answer.len() as u16).to_be_bytes()[..], answer].concat();
        for piece in framed.chunks(7001) {
            stream.write_all(piece).unwrap();
        }
        assert_eq!(rig.next_event(), Heard::Message(7, answer.clone()));
    }
    drop(stream);
    assert_eq!(rig.next_event(), Heard::Ended(7, ErrorKind::UnexpectedEof));
}

#[test]
fn a_message_shorter_than_a_header_ends_the_connection() {
    let rig = Rig::new(10);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rig.act([open(1, Transport::Tcp, listener.local_addr().unwrap())]);
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(rig.next_event(), Heard::Opened(1));
    stream.write_all(&[0, 11]).unwrap();
    assert_eq!(rig.next_event(), Heard::Ended(1, ErrorKind::InvalidData));
}

#[test]
fn a_flood_on_one_link_does_not_keep_others_waiting() {
    let (rig, server) = (Rig::new(10), server());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rig.act([open(1, Transport::Tcp, listener.local_addr().unwrap())]);
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(rig.next_event(), Heard::Opened(1));
    let flood = std::thread::spawn(move || {
        let message = [&[0xff, 0xff][..], &[7; 65_535]].concat();
        while stream.write_all(&message).is_ok() {}
    });
    rig.act([open(2, Transport::Udp, server.local_addr().unwrap()), send(2, b"question")]);
    let (_, client) = server.recv_from(&mut [0; 100]).unwrap();
    server.send_to(b"answer", client).unwrap();
    let others = std::iter::repeat_with(|| rig.next_event())
        .take_while(|heard| *heard != Heard::Message(2, b"answer".to_vec()));
    assert!(others.take(1_000_000).all(|heard| matches!(heard, Heard::Message(1, _))));
    rig.act([Action::Close { link: Link(1) }]);
    flood.join().unwrap();
}

#[test]
fn links_are_limited_and_deadlines_kept() {
    let (rig, server) = (Rig::new(1), server());
    let to = server.local_addr().unwrap();
    rig.act([open(1, Transport::Udp, to), open(2, Transport::Udp, to)]);
    assert_eq!(rig.next_event(), Heard::Ended(2, ErrorKind::QuotaExceeded));
    assert!(rig.outgoing.request(Order::Timeout(Duration::from_millis(20))));
    assert_eq!(rig.next_event(), Heard::Timeout);
    let counts = rig.outgoing.counts();
    assert_eq!((counts.opened.get(), counts.refused.get()), (1, 1));
    rig.outgoing.stop();
    assert!(!rig.outgoing.request(Order::Act(Vec::new())), "the core is gone");
}

/// The thread is woken only when it sleeps. A lost wake-up would leave it asleep for ever, since it has no
/// deadline.
#[test]
fn a_request_is_taken_however_it_meets_a_thread_that_goes_to_sleep() {
    let rig = Rig::new(8);
    for n in 0..20_000 {
        assert!(rig.outgoing.request(Order::Timeout(Duration::ZERO)));
        assert_eq!(rig.next_event(), Heard::Timeout);
        // With different delays.
        (0..n % 97).for_each(|_| std::hint::spin_loop());
    }
}

/// A request may be acted on without waking the thread, which then sleeps for as long as before.
#[test]
fn a_deadline_is_kept_however_long_the_thread_meant_to_sleep() {
    let rig = Rig::new(8);
    for milliseconds in [40, 0, 3, 60, 1, 26, 2, 90, 24, 0, 10, 5] {
        // A request without a deadline comes before, and one with a later deadline after it.
        rig.act([]);
        let deadline = Instant::now() + Duration::from_millis(milliseconds);
        assert!(rig.outgoing.request(Order::Timeout(Duration::from_millis(milliseconds))));
        assert!(rig.outgoing.request(Order::Timeout(Duration::from_millis(milliseconds + 1))));
        assert_eq!([rig.next_event(), rig.next_event()], [Heard::Timeout, Heard::Timeout]);
        assert!(Instant::now() >= deadline);
    }
}

#[test]
fn of_requests_that_wait_only_so_many_are_taken() {
    let rig = Rig::with(&OutgoingConfig { queue: 3, ..OutgoingConfig::default() });
    let (go_on, waits) = channel();
    std::thread::scope(|threads| {
        threads.spawn(|| assert!(rig.outgoing.request(Order::Wait(waits))));
        assert_eq!(rig.next_event(), Heard::Waits);
        let offer = || rig.outgoing.offer(Order::Timeout(Duration::ZERO)).is_none();
        assert_eq!([offer(), offer(), offer(), offer()], [true, true, true, false]);
        // `request` does not refuse.
        assert!(rig.outgoing.request(Order::Timeout(Duration::ZERO)));
        go_on.send(()).unwrap();
        (0..4).for_each(|_| assert_eq!(rig.next_event(), Heard::Timeout));
        assert!(offer(), "there is room again");
        assert_eq!(rig.next_event(), Heard::Timeout);
    });
}

/// A client that floods the server with queries, and one with a single query, while the core is busy.
#[test]
fn who_brings_many_requests_does_not_hold_up_others() {
    let rig = Rig::with(&OutgoingConfig { queue: 64, ..OutgoingConfig::default() });
    let (go_on, waits) = channel();
    std::thread::scope(|threads| {
        threads.spawn(|| assert!(rig.outgoing.request(Order::Wait(waits))));
        assert_eq!(rig.next_event(), Heard::Waits);
        let offer = |origin| rig.outgoing.offer(Order::From(origin)).is_none();
        let flood = (0..1000).filter(|_| offer(7)).count();
        assert_eq!(flood, 64, "as many as may wait");
        // The secret may have put one of them into the same client queue, but not this many.
        let others = (100..108).filter(|&origin| offer(origin)).count();
        assert!(others >= 4, "of 8 others {others} were let in");
        go_on.send(()).unwrap();
        let order: Vec<Heard> = (0..flood + others).map(|_| rig.next_event()).collect();
        let last = order.iter().rposition(|heard| *heard != Heard::From(7)).unwrap();
        assert!(last <= 2 * others, "the others' came before most of the flood's: {order:?}");
    });
}

/// Two datagrams that come together are both read: no event reports the second one again.
#[test]
fn of_replies_that_come_together_each_is_heard() {
    let (rig, server) = (Rig::new(8), server());
    rig.act([open(1, Transport::Udp, server.local_addr().unwrap()), send(1, b"query")]);
    let mut buf = [0; 64];
    let (_, from) = server.recv_from(&mut buf).unwrap();
    let replies: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; 12]).collect();
    replies.iter().for_each(|reply| assert_eq!(server.send_to(reply, from).unwrap(), 12));
    for reply in replies {
        assert_eq!(rig.next_event(), Heard::Message(1, reply));
    }
}

/// A session for tests: it sends `H`, and is established by `S` or, resumed, by `R`; every byte is inverted
/// then. `X` is a fault, also later.
#[derive(Default)]
struct Inverting {
    output: Vec<u8>,
    early: Vec<u8>,
    resumed: Option<bool>,
}

impl EncryptedSession for Inverting {
    fn receive(&mut self, received: &[u8], plain: &mut Vec<u8>) -> Result<SessionState, EncryptionFault> {
        for byte in received {
            match (self.resumed, byte) {
                (_, b'X') => return Err(EncryptionFault::UnknownIssuer),
                (None, b'S' | b'R') => {
                    self.resumed = Some(*byte == b'R');
                    let early = std::mem::take(&mut self.early);
                    self.send(&early);
                }
                (None, _) => {}
                (Some(_), byte) => plain.push(!byte),
            }
        }
        let established = |resumed| SessionState::Established { resumed };
        Ok(self.resumed.map_or(SessionState::Handshake, established))
    }

    fn send(&mut self, plain: &[u8]) {
        match self.resumed {
            None => self.early.extend(plain),
            Some(_) => self.output.extend(plain.iter().map(|byte| !byte)),
        }
    }

    fn output(&mut self, bytes: &mut Vec<u8>) {
        bytes.append(&mut self.output);
    }

    fn close(&mut self) {
        self.output.push(b'C');
    }
}

fn open_encrypted(link: u64, to: SocketAddr) -> Action {
    let encryption = Encryption::new("inverting".into(), "inverting".into(), |_| {
        Ok(Box::new(Inverting { output: vec![b'H'], ..Inverting::default() }))
    });
    Action::Open { link: Link(link), transport: Transport::Tcp, to, from: None, encryption: Some(encryption) }
}

fn inverted(message: &[u8]) -> Vec<u8> {
    let framed = [&(message.len() as u16).to_be_bytes()[..], message].concat();
    framed.iter().map(|byte| !byte).collect()
}

#[test]
fn no_message_leaves_an_encrypted_link_before_its_handshake_ends() {
    let rig = Rig::new(10);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for (hello, resumed) in [(b'S', false), (b'R', true)] {
        rig.act([open_encrypted(7, listener.local_addr().unwrap()), send(7, b"early")]);
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let mut first = [0];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(first, [b'H']);
        // Bytes of the handshake that do not end it.
        stream.write_all(b"..").unwrap();
        // The end comes together with a message.
        stream.write_all(&[&[hello][..], &inverted(b"first answer")].concat()).unwrap();
        assert_eq!(rig.next_event(), Heard::Secured(7, resumed));
        assert_eq!(rig.next_event(), Heard::Message(7, b"first answer".to_vec()));
        rig.act([send(7, b"late")]);
        let mut got = vec![0; 7 + 6];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(got, [inverted(b"early"), inverted(b"late")].concat());
        // A link that is closed here ends in order.
        rig.act([Action::Close { link: Link(7) }]);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"C");
    }
}

#[test]
fn a_link_whose_encryption_fails_ends_with_the_fault_after_what_came_before_it() {
    let rig = Rig::new(10);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rig.act([open_encrypted(1, listener.local_addr().unwrap()), send(1, b"secret")]);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"X").unwrap();
    assert_eq!(rig.next_event(), Heard::Insecure(1, EncryptionFault::UnknownIssuer));
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"HC", "and no message");

    rig.act([open_encrypted(2, listener.local_addr().unwrap())]);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"S").unwrap();
    assert_eq!(rig.next_event(), Heard::Secured(2, false));
    stream.write_all(&[&inverted(b"the last one")[..], b"X"].concat()).unwrap();
    assert_eq!(rig.next_event(), Heard::Message(2, b"the last one".to_vec()));
    assert_eq!(rig.next_event(), Heard::Insecure(2, EncryptionFault::UnknownIssuer));

    rig.act([open_encrypted(3, listener.local_addr().unwrap())]);
    let (stream, _) = listener.accept().unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(rig.next_event(), Heard::Ended(3, ErrorKind::UnexpectedEof));
    assert_eq!(rig.outgoing.counts().open.get(), 0);
}

#[test]
fn settings_that_do_not_fit_an_address_open_no_connection() {
    let rig = Rig::new(10);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (to, fault) = (listener.local_addr().unwrap(), EncryptionFault::Protocol);
    let encryption = Encryption::new("none".into(), "none".into(), move |_| Err(fault));
    let transport = Transport::Tcp;
    rig.act([Action::Open { link: Link(1), transport, to, from: None, encryption: Some(encryption) }]);
    assert_eq!(rig.next_event(), Heard::Insecure(1, fault));
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().map(drop).map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
}
