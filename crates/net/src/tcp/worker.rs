//! The TCP worker: one thread with a single-threaded runtime and one listening socket. It accepts
//! connections, also when descriptors run out.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::header::HeaderValue;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};
use transport::{Client, Counter, HandlerFactory, Transport};

use super::connection::{Bytes, Connection, SharedBuffers};
use super::event::ConnectionEvent;
use super::https::{self, HttpClient, HttpState, Opened};
use super::life::{Close, Life};
use super::limits::{Permit, TcpLimits, TurnedAway};
use super::returns::Events;
use super::secured::TlsBytes;
use super::thread::on_thread;
use crate::config::ListenerConfig;
use crate::fault::WorkerFaultKind;
use crate::handshakes::HandshakeSettings;
use crate::job::Job;
use crate::proxies::{ProxyView, fault_counter};
use crate::refusal::BindRefusal;
use crate::stats::WorkerStats;
use crate::sys;

/// Consecutive errors after which a listening socket is reopened.
const ERRORS_TOLERATED: u32 = 16;
/// First and longest pause after errors of accepting.
const ACCEPT_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Longest pause while descriptors are short: they become free as connections end, and clients are waiting.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);
/// Time without a shortage after which the next one is reported again.
const SHORTAGE_OVER: Duration = Duration::from_secs(60);
/// Interval of [`transport::Handler::idle`].
const IDLE_TICK: Duration = Duration::from_secs(1);
/// Most bytes of a connection in the kernel that were not sent yet. Without it they grow to some MiB for each
/// client that reads nothing, and all of them count against what the whole system may have. Bytes on the way
/// are not among them, so distant clients receive as much as without it.
const MAX_UNSENT: u32 = 128 * 1024;
/// Most connections taken from the kernel's queue when stopping.
const LAST_ACCEPTS: usize = 4096;

/// Opens a listening socket. A socket that is not `shared` is only bound: that shows whether the address is
/// in use.
pub(crate) fn open(
    addr: SocketAddr,
    config: &ListenerConfig,
    shared: bool,
) -> Result<TcpListener, BindRefusal> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))
        .map_err(BindRefusal::from_io)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true).map_err(BindRefusal::option("IPV6_V6ONLY"))?;
    }
    // Connections of an earlier run in TIME_WAIT must not prevent listening.
    socket.set_reuse_address(true).map_err(BindRefusal::option("SO_REUSEADDR"))?;
    if shared {
        socket.set_reuse_port(true).map_err(BindRefusal::option("SO_REUSEPORT"))?;
    }
    if config.freebind {
        sys::set_freebind(&socket, addr).map_err(BindRefusal::option("IP_FREEBIND"))?;
    }
    socket.set_nonblocking(true).map_err(BindRefusal::from_io)?;
    set_options(SockRef::from(&socket));
    socket.bind(&addr.into()).map_err(BindRefusal::from_io)?;
    if shared {
        socket.listen(i32::try_from(config.tcp.backlog).unwrap_or(i32::MAX)).map_err(BindRefusal::from_io)?;
    }
    Ok(socket.into())
}

/// Takes over a listening socket opened by another process, such as systemd, and sets its options.
pub(crate) fn take_over(socket: &TcpListener) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    set_options(SockRef::from(socket));
    Ok(())
}

/// Sets what accepted connections inherit, where the kernel has it.
fn set_options(socket: SockRef<'_>) {
    // Answers are written whole, so waiting to fill a segment gains nothing.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_notsent_lowat(MAX_UNSENT);
}

/// Starts a worker thread on `socket`.
pub(crate) fn spawn<F: HandlerFactory>(
    socket: TcpListener,
    factory: Arc<F>,
    job: Job,
    limits: TcpLimits,
) -> io::Result<JoinHandle<()>> {
    on_thread(
        format!("tcp-{}-{}", job.id.local.port(), job.id.index),
        factory,
        job,
        move |job, buffers, events| {
            let acceptor = Acceptor {
                buffers,
                config: Rc::new(job.config.clone()),
                stats: Arc::clone(&job.stats),
                connections: JoinSet::new(),
                events,
                next_id: Rc::new(Cell::new(1)),
                reserve: reserve(),
                shortage: None,
                limits,
                proxies: job.proxies.view(),
                alt_svc: https::alt_svc(job.id, &job.config),
                job,
            };
            acceptor.run(socket)
        },
    )
}

/// Opens a spare descriptor, so that one connection can still be accepted, and closed, when there are no
/// others.
fn reserve() -> Option<Socket> {
    // No file: threads that answer queries need not be able to open any.
    Socket::new(Domain::UNIX, Type::DGRAM, None).ok()
}

/// What a connection comes from.
enum Source {
    Client,
    /// A proxy; `header`: the length of the longest PROXY header, if it has to send one.
    Proxy {
        header: Option<usize>,
    },
    /// None of the proxies, to which alone HTTP without TLS is served.
    Unlisted,
}

/// Accepts connections and keeps track of them.
struct Acceptor<F: HandlerFactory> {
    buffers: Rc<RefCell<SharedBuffers<F>>>,
    config: Rc<ListenerConfig>,
    stats: Arc<WorkerStats>,
    connections: JoinSet<()>,
    /// The event sender of each connection.
    events: Events,
    next_id: Rc<Cell<u64>>,
    reserve: Option<Socket>,
    /// When descriptors were last short.
    shortage: Option<Instant>,
    limits: TcpLimits,
    proxies: ProxyView,
    /// Where HTTP/3 is, for the responses of HTTPS.
    alt_svc: Option<HeaderValue>,
    job: Job,
}

impl<F: HandlerFactory> Acceptor<F> {
    async fn run(mut self, socket: TcpListener) {
        let mut stop = self.job.shutdown.subscribe();
        let mut tick = tokio::time::interval(IDLE_TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A passed socket is kept, whatever error it reports.
        let kept = if self.job.passed { socket.try_clone().ok() } else { None };
        let taking = self.job.shutdown.take();
        let mut socket = Some(socket);
        while let Some(current) = socket.take() {
            match (self.serve(current, &mut stop, &mut tick).await, &kept) {
                (Ok(last), _) => {
                    self.take_last(last);
                    break;
                }
                (Err(error), Some(kept)) => {
                    self.job.reporter.report(WorkerFaultKind::Passed(error));
                    socket = again(kept, &mut stop).await;
                }
                (Err(error), None) => {
                    self.job.reporter.report(WorkerFaultKind::Socket(error));
                    socket = self.rebind(&mut stop).await;
                }
            }
        }
        drop(taking);
        self.drain().await;
    }

    /// Accepts until a stop is requested, and then returns the socket. An error means that the socket is
    /// unusable.
    async fn serve(
        &mut self,
        socket: TcpListener,
        stop: &mut watch::Receiver<bool>,
        tick: &mut Interval,
    ) -> io::Result<TcpListener> {
        let listener = sys::watch_listener(socket)?;
        let mut errors = 0;
        loop {
            let mut ready = tokio::select! {
                biased;
                _ = stop.wait_for(|&stopped| stopped) => return Ok(listener.into_inner()),
                _ = tick.tick() => {
                    self.buffers.borrow_mut().stage().guarded.idle();
                    continue;
                }
                Some(_) = self.connections.join_next() => continue,
                ready = listener.readable() => ready?,
            };
            let pause = match self.accept(listener.get_ref()) {
                Ok((stream, peer)) => {
                    errors = 0;
                    self.take_in(stream, peer);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready.clear_ready();
                    continue;
                }
                Err(error) => {
                    self.stats.receive_errors.add(1);
                    errors += 1;
                    pause_after(error, errors)?
                }
            };
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stopped| stopped) => return Ok(listener.into_inner()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Accepts one connection, if necessary with the reserved descriptor: the system reports that descriptors
    /// are short even if no connection waits, so this also shows whether one does. If one does, another
    /// connection is evicted for it; if none may be, it is closed at once, so that its client need not wait.
    fn accept(&mut self, listener: &TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
        if self.reserve.is_none() {
            self.reserve = reserve();
        }
        let short = match sys::accept(listener) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => e,
            other => return other,
        };
        let Some(spare) = self.reserve.take() else { return Err(short) };
        drop(spare);
        let accepted = sys::accept(listener)?;
        let now = Instant::now();
        if self.shortage.replace(now).is_none_or(|last| now - last > SHORTAGE_OVER) {
            self.job.reporter.report(WorkerFaultKind::OutOfDescriptors(short));
        }
        if self.limits.evict_for(accepted.1) {
            return Ok(accepted);
        }
        drop(accepted);
        self.reserve = reserve();
        self.stats.tcp_refused_descriptors.add(1);
        // The next connection in the queue is tried next.
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Starts serving a connection, if the limits allow it.
    fn take_in(&mut self, stream: std::net::TcpStream, peer: SocketAddr) {
        let Ok(stream) = TcpStream::from_std(stream) else {
            return self.stats.receive_errors.add(1);
        };
        let (sender, receiver) = unbounded_channel();
        let (is_proxy, header) = match self.source(peer) {
            Source::Client => (false, None),
            Source::Proxy { header } => (true, header),
            Source::Unlisted => return self.stats.http_unlisted.add(1),
        };
        let admitted = match is_proxy {
            false => self.limits.admit(peer, sender.clone()),
            true => self.limits.admit_proxy(peer, sender.clone()),
        };
        let (own, transport) = (&self.stats, self.job.id.transport);
        let permit = match admitted {
            Ok(permit) => permit,
            Err(reason) => return refusal_counter(own, reason).add(1),
        };
        own.tcp_accepted.add(1);
        let local = if self.job.id.local.ip().is_unspecified() {
            stream.local_addr().unwrap_or(self.job.id.local)
        } else {
            self.job.id.local
        };
        let (ends, channel) = ((peer, local), (sender, receiver));
        let secured = |tls: &HandshakeSettings, stream| {
            let identify = self.job.identify.clone();
            let (config, stats) = (Rc::clone(&self.config), Arc::clone(&self.stats));
            TlsBytes::new(stream, tls.clone(), identify, config, header.is_some(), stats)
        };
        match (&self.job.tls, transport) {
            (Some(tls), Transport::Https) => {
                let open = https::open_secured(secured(tls, stream), header);
                self.serve_https(open, ends, permit, channel);
            }
            (_, Transport::Http) => {
                self.serve_https(https::open_clear(stream, header), ends, permit, channel);
            }
            (Some(tls), _) => self.serve_over(secured(tls, stream), ends, permit, header, channel),
            (None, _) => self.serve_over(stream, ends, permit, header, channel),
        }
    }

    /// Returns the number of a new connection.
    fn number(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    /// Returns what a connection from this address comes from, by the lists of proxies.
    fn source(&mut self, peer: SocketAddr) -> Source {
        let rules = self.proxies.rules();
        let has_proxies = rules.is_some();
        if let Some(rules) = rules.filter(|rules| rules.has(peer.ip())) {
            return Source::Proxy { header: Some(rules.longest()) };
        }
        let transport = self.job.id.transport;
        if !matches!(transport, Transport::Http | Transport::Https) {
            return Source::Client;
        }
        let rules = self.job.http_proxies.rules();
        // Without any list, HTTP without TLS is for programs on this host.
        let is_own = !has_proxies && rules.is_empty() && peer.ip().to_canonical().is_loopback();
        match rules.has(peer.ip()) {
            true => Source::Proxy { header: None },
            false if transport == Transport::Https || is_own => Source::Client,
            false => Source::Unlisted,
        }
    }

    /// Starts serving a connection with HTTP, which `open` opens.
    fn serve_https<S: AsyncRead + AsyncWrite + Unpin + 'static>(
        &mut self,
        open: impl Future<Output = Result<Opened<S>, Close>> + 'static,
        (peer, local): (SocketAddr, SocketAddr),
        permit: Permit,
        (sender, receiver): (UnboundedSender<ConnectionEvent>, UnboundedReceiver<ConnectionEvent>),
    ) {
        let client = HttpClient {
            buffers: Rc::clone(&self.buffers),
            config: Rc::clone(&self.config),
            stats: Arc::clone(&self.stats),
            events: Rc::clone(&self.events),
            next_id: Rc::clone(&self.next_id),
            client: Client { peer, local, transport: self.job.id.transport },
            fresh: self.job.fresh,
            oblivious: self.job.oblivious.clone(),
            alt_svc: self.alt_svc.clone(),
            http_proxies: self.job.http_proxies.rules(),
            name: None,
            state: HttpState::new(permit, Instant::now()),
        };
        self.spawn(self.number(), sender, https::serve(open, client, receiver));
    }

    /// Starts the task of a connection, which `sender` sends events to.
    fn spawn(
        &mut self,
        id: u64,
        sender: UnboundedSender<ConnectionEvent>,
        serve: impl Future<Output = Close> + 'static,
    ) {
        self.events.borrow_mut().insert(id, sender);
        let (events, stats) = (Rc::clone(&self.events), Arc::clone(&self.stats));
        self.connections.spawn_local(async move {
            let close = serve.await;
            events.borrow_mut().remove(&id);
            count_close(&stats, close);
        });
    }

    /// Starts serving a connection over these bytes.
    fn serve_over<S: Bytes>(
        &mut self,
        stream: S,
        (peer, local): (SocketAddr, SocketAddr),
        permit: Permit,
        header: Option<usize>,
        (sender, receiver): (UnboundedSender<ConnectionEvent>, UnboundedReceiver<ConnectionEvent>),
    ) {
        let id = self.number();
        let connection = Connection {
            stream,
            buffers: Rc::clone(&self.buffers),
            config: Rc::clone(&self.config),
            stats: Arc::clone(&self.stats),
            permit,
            events: receiver,
            id,
            peer,
            local,
            transport: self.job.id.transport,
            life: Life::new(header, Instant::now()),
            paused: None,
        };
        self.spawn(id, sender, connection.serve());
    }

    /// Accepts the connections in the kernel's queue. Those of a passed socket stay there for the next
    /// server.
    fn take_last(&mut self, socket: TcpListener) {
        let last = if self.job.leaves_unread() { 0 } else { LAST_ACCEPTS };
        for _ in 0..last {
            let Ok((stream, peer)) = sys::accept(&socket) else { break };
            self.take_in(stream, peer);
        }
    }

    /// Waits until all connections have ended.
    async fn drain(&mut self) {
        for events in self.events.borrow().values() {
            let _ = events.send(ConnectionEvent::Drain);
        }
        while self.connections.join_next().await.is_some() {}
    }

    /// Opens a new socket for the same address, however long it takes; `None` once a stop is requested.
    async fn rebind(&self, stop: &mut watch::Receiver<bool>) -> Option<TcpListener> {
        let (mut pause, longest) = ACCEPT_PAUSE;
        let mut reported = false;
        self.job.socket.clear();
        loop {
            match open(self.job.id.local, &self.config, true) {
                Ok(new) => {
                    self.stats.rebinds.add(1);
                    self.job.socket.set(&new);
                    self.job.reporter.report(WorkerFaultKind::Recovered);
                    return Some(new);
                }
                Err(refusal) if !reported => {
                    reported = true;
                    self.job.reporter.report(WorkerFaultKind::Rebind(refusal.cause));
                }
                Err(_) => {}
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stopped| stopped) => return None,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(longest);
        }
    }
}

/// Returns the same socket after a pause; `None` once a stop is requested, or if no descriptor is left.
async fn again(kept: &TcpListener, stop: &mut watch::Receiver<bool>) -> Option<TcpListener> {
    tokio::select! {
        biased;
        _ = stop.wait_for(|&stopped| stopped) => None,
        () = tokio::time::sleep(ACCEPT_PAUSE.1) => kept.try_clone().ok(),
    }
}

/// Returns the pause after an error of accepting, the `errors`-th in a row; or the error, if the socket must
/// be reopened.
fn pause_after(error: io::Error, errors: u32) -> io::Result<Duration> {
    let (first, longest) = ACCEPT_PAUSE;
    let pause = first.saturating_mul(1 << errors.min(8)).min(longest);
    match error.raw_os_error() {
        None => Ok(Duration::ZERO),
        Some(libc::EMFILE | libc::ENFILE) => Ok(pause.min(SHORTAGE_PAUSE)),
        // The system is short of memory; the socket is usable.
        Some(libc::ENOBUFS | libc::ENOMEM) => Ok(pause),
        // A connection failed before it was accepted: the next one may be waiting.
        Some(_) if errors == 1 => Ok(Duration::ZERO),
        Some(_) if errors <= ERRORS_TOLERATED => Ok(pause),
        Some(_) => Err(error),
    }
}

pub(crate) fn refusal_counter(stats: &WorkerStats, reason: TurnedAway) -> &Counter {
    match reason {
        TurnedAway::Full => &stats.tcp_refused_full,
        TurnedAway::Client => &stats.tcp_refused_client,
        TurnedAway::Network => &stats.tcp_refused_network,
    }
}

pub(crate) fn count_close(stats: &WorkerStats, close: Close) {
    stats.tcp_closed.add(1);
    let counter = match close {
        Close::Peer => &stats.tcp_closed_by_peer,
        Close::Error => &stats.tcp_closed_error,
        Close::Idle => &stats.tcp_timeout_idle,
        Close::First => &stats.tcp_timeout_first,
        Close::Message => &stats.tcp_timeout_message,
        Close::Write => &stats.tcp_timeout_write,
        Close::Framing => &stats.tcp_bad_framing,
        Close::Protocol => &stats.quic_protocol_errors,
        Close::Header(fault) => fault_counter(stats, fault),
        Close::Refused(reason) => refusal_counter(stats, reason),
        Close::Stream => &stats.tcp_stream_failed,
        Close::Evicted => &stats.tcp_evicted,
        Close::Stopped => &stats.tcp_stopped,
    };
    counter.add(1);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn accepted_connections_neither_block_nor_delay() -> io::Result<()> {
        let config = ListenerConfig::default();
        let passed = TcpListener::bind("127.0.0.1:0")?;
        take_over(&passed)?;
        let own = ["127.0.0.1:0", "[::1]:0"]
            .into_iter()
            .filter_map(|addr| open(addr.parse().ok()?, &config, true).ok());
        for listener in own.chain([passed]) {
            let client = std::net::TcpStream::connect(listener.local_addr()?)?;
            let (mut stream, peer) = sys::accept(&listener)?;
            assert_eq!(peer, client.local_addr()?);
            assert!(stream.nodelay()?);
            let read = stream.read(&mut [0; 1]);
            assert_eq!(read.map_err(|e| e.kind()), Err(io::ErrorKind::WouldBlock));
        }
        Ok(())
    }

    /// The kernel takes little for a client that reads nothing.
    #[test]
    fn what_the_kernel_keeps_unsent_is_bounded() -> io::Result<()> {
        let listener = open((std::net::Ipv4Addr::LOCALHOST, 0).into(), &ListenerConfig::default(), true)
            .expect("a free port");
        let client = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        client.set_recv_buffer_size(4096)?;
        client.connect(&listener.local_addr()?.into())?;
        let (mut stream, _) = sys::accept(&listener)?;
        let mut taken = 0;
        while let Ok(bytes) = stream.write(&[0; 65536]) {
            taken += bytes;
        }
        assert!(taken < 4 * MAX_UNSENT as usize, "{taken} bytes");
        Ok(())
    }
}
