//! A handler that does what each query's thirteenth byte says, and its clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use net::{Context, Listener, ListenerConfig, Running};
use transport::{Batch, Handler, LateReplies, MessageStream, Next, Outcome, Transport, WorkerContext};

use crate::later::{self, LateAnswers, Queues, Settlement, WaitingQuery};

/// Timeout of a test for something that must happen, on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a test waits for something that must not happen.
pub(crate) const SILENCE: Duration = Duration::from_millis(150);

/// What a query asks the scripted handler to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Reply with the query, QR set.
    Echo,
    /// Reply with this many bytes.
    Large(u32),
    /// Do not reply.
    Drop,
    /// Set no outcome.
    Undecided,
    /// Reply from another thread at once.
    Later,
    /// Keep it pending until the test takes it.
    Hold,
    /// Keep it pending and drop it.
    Forget,
    /// Answer with this many messages of a thousand bytes.
    Stream(u32),
    /// Two messages and then a failure.
    Abort,
    /// Settle it later with a stream.
    LaterStream(u32),
    /// Settle it later with a reply longer than its buffer.
    LaterOverlong,
    /// Panic.
    Panic,
    /// Set a reply longer than its buffer.
    Overlong,
}

/// A query of `len` bytes, 17 at least, with this ID.
pub(crate) fn query(id: u16, ask: Order, len: usize) -> Vec<u8> {
    let (code, number) = match ask {
        Order::Echo => (b'e', 0),
        Order::Large(n) => (b'l', n),
        Order::Drop => (b'd', 0),
        Order::Undecided => (b'u', 0),
        Order::Later => (b'p', 0),
        Order::Hold => (b'h', 0),
        Order::Forget => (b'f', 0),
        Order::Stream(n) => (b's', n),
        Order::Abort => (b'a', 0),
        Order::LaterStream(n) => (b't', n),
        Order::LaterOverlong => (b'q', 0),
        Order::Panic => (b'x', 0),
        Order::Overlong => (b'o', 0),
    };
    let mut q = vec![id as u8; len.max(17)];
    q[..2].copy_from_slice(&id.to_be_bytes());
    q[2] = 0;
    q[12] = code;
    q[13..17].copy_from_slice(&number.to_be_bytes());
    q
}

/// The reply to an echoed query.
pub(crate) fn echoed(query: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    reply
}

/// Pending queries that the test settles.
pub(crate) type Held = Arc<Mutex<Vec<(WaitingQuery, Vec<u8>)>>>;

/// The handler.
pub(crate) struct Script {
    held: Held,
    idles: Arc<AtomicUsize>,
    queue: LateAnswers,
}

impl Handler for Script {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let (queries, replies) = batch.split();
        let promise = |i| WaitingQuery::new(queries.return_address(i), &self.queue);
        for i in 0..queries.len() {
            let packet = queries.packet(i);
            if packet.len() < 17 {
                continue;
            }
            let id = packet[0];
            let number = u32::from_be_bytes(packet[13..17].try_into().unwrap());
            let outcome = match packet[12] {
                b'e' => {
                    replies.buffer(i)[..packet.len()].copy_from_slice(&echoed(packet));
                    Outcome::Reply(packet.len())
                }
                b'l' => {
                    let n = number as usize;
                    replies.buffer(i)[..n].fill(id);
                    replies.buffer(i)[..2].copy_from_slice(&packet[..2]);
                    Outcome::Reply(n)
                }
                b'd' => Outcome::Drop,
                b'p' => {
                    let (promise, reply) = (promise(i), echoed(packet));
                    std::thread::spawn(move || promise.send(&reply));
                    Outcome::Pending
                }
                b'h' => {
                    self.held.lock().unwrap().push((promise(i), packet.to_vec()));
                    Outcome::Pending
                }
                b'f' => {
                    drop(promise(i));
                    Outcome::Pending
                }
                b'q' => {
                    promise(i).settle(Settlement::Overlong);
                    Outcome::Pending
                }
                b's' => Outcome::Stream(Box::new(Numbers { next: 0, end: number })),
                b'a' => Outcome::Stream(Box::new(Failing(2))),
                b't' => {
                    promise(i).settle(Settlement::Stream(Box::new(Numbers { next: 0, end: number })));
                    Outcome::Pending
                }
                b'x' => panic!("as the script says"),
                b'o' => Outcome::Reply(replies.room + 1),
                _ => continue,
            };
            replies.set(i, outcome);
        }
    }

    fn late(&mut self, replies: &mut LateReplies<'_>) -> bool {
        later::write(&self.queue, replies)
    }

    fn idle(&mut self) {
        self.idles.fetch_add(1, Ordering::Relaxed);
    }
}

/// Messages of a thousand bytes that begin with their number.
struct Numbers {
    next: u32,
    end: u32,
}

impl MessageStream for Numbers {
    fn next(&mut self, out: &mut [u8]) -> Next {
        if self.next == self.end {
            return Next::End;
        }
        out[..1000].fill(0);
        out[..4].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        Next::Message(1000)
    }
}

/// This many messages, then a failure.
struct Failing(u32);

impl MessageStream for Failing {
    fn next(&mut self, out: &mut [u8]) -> Next {
        if self.0 == 0 {
            return Next::Abort;
        }
        self.0 -= 1;
        out[..20].fill(9);
        Next::Message(20)
    }
}

/// A listener with the scripted handler.
pub(crate) struct ScriptedServer {
    pub(crate) running: Running,
    pub(crate) held: Held,
    pub(crate) idles: Arc<AtomicUsize>,
}

impl ScriptedServer {
    pub(crate) fn start(addr: &str, transport: Transport, config: &ListenerConfig) -> ScriptedServer {
        ScriptedServer::start_with(addr, transport, config, &Context::default())
    }

    pub(crate) fn start_with(
        addr: &str,
        transport: Transport,
        config: &ListenerConfig,
        context: &Context,
    ) -> ScriptedServer {
        let bound = Listener::bind(addr.parse().unwrap(), transport, config).unwrap();
        ScriptedServer::serve(bound, context)
    }

    pub(crate) fn serve(bound: net::Bound, context: &Context) -> ScriptedServer {
        let (held, idles) = (Held::default(), Arc::<AtomicUsize>::default());
        let (h, n) = (Arc::clone(&held), Arc::clone(&idles));
        let queues = Queues::default();
        let factory = move |worker_context: &WorkerContext| Script {
            held: Arc::clone(&h),
            idles: Arc::clone(&n),
            queue: queues.of(worker_context),
        };
        ScriptedServer { running: bound.serve(factory, context).unwrap(), held, idles }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.running.local_addr()
    }

    pub(crate) fn totals(&self) -> net::Totals {
        self.running.stats().totals()
    }

    /// Waits for a query that is held, and takes it.
    pub(crate) fn next_held(&self) -> (WaitingQuery, Vec<u8>) {
        wait_until("a held query", || !self.held.lock().unwrap().is_empty());
        self.held.lock().unwrap().pop().unwrap()
    }

    /// Waits until the counters satisfy a condition.
    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn(&net::Totals) -> bool) {
        wait_until(what, || condition(&self.totals()));
    }

    /// Stops the server, releasing held queries, and returns its last counters.
    pub(crate) fn stop(self) -> net::Totals {
        self.held.lock().unwrap().clear();
        self.running.stop();
        self.running.join().totals()
    }
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a UDP socket connected to `server`, so that only replies from that address arrive.
pub(crate) fn udp_client(server: SocketAddr) -> UdpSocket {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    socket
}

/// Receives the next datagram.
pub(crate) fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 70_000];
    let n = socket.recv(&mut buffer).expect("a reply");
    buffer.truncate(n);
    buffer
}

/// Asserts that no datagram arrives.
pub(crate) fn silent(socket: &UdpSocket) {
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    assert!(socket.recv(&mut [0; 100]).is_err(), "an unexpected reply");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
}

/// A TCP client.
pub(crate) struct TcpClient(pub(crate) TcpStream);

impl TcpClient {
    pub(crate) fn connect(server: SocketAddr) -> TcpClient {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        TcpClient(stream)
    }

    /// Sends messages in one write.
    pub(crate) fn send(&mut self, messages: &[Vec<u8>]) {
        self.0.write_all(&framed(messages)).unwrap();
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut prefix = [0; 2];
        match self.0.read(&mut prefix[..1]) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return None,
            Err(e) => panic!("no message: {e}"),
        }
        self.0.read_exact(&mut prefix[1..]).unwrap();
        let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
        self.0.read_exact(&mut message).unwrap();
        Some(message)
    }

    /// Asserts that the server closes the connection, and returns after how long.
    pub(crate) fn closed(&mut self) -> Duration {
        let start = Instant::now();
        assert_eq!(self.receive(), None);
        start.elapsed()
    }

    /// Asserts that nothing arrives and the connection stays open.
    pub(crate) fn silent(&mut self) {
        self.0.set_read_timeout(Some(SILENCE)).unwrap();
        match self.0.read(&mut [0; 1]) {
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            other => panic!("expected silence, got {other:?}"),
        }
        self.0.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    }

    /// Sends one echo query and checks its reply.
    pub(crate) fn echo(&mut self, id: u16) {
        let q = query(id, Order::Echo, 40);
        self.send(std::slice::from_ref(&q));
        assert_eq!(self.receive(), Some(echoed(&q)));
    }
}

/// Messages after their length prefixes.
pub(crate) fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        bytes.extend_from_slice(message);
    }
    bytes
}

/// Returns a frame of HTTP/2.
pub(crate) fn http2_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes()[..], payload].concat()
}
