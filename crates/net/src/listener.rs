//! Binding of listeners, separate from serving: sockets are opened first, perhaps as root, and served later
//! without privileges.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use transport::{HandlerFactory, Transport};

use crate::config::ListenerConfig;
use crate::fault::{WorkerFaultKind, WorkerId};
use crate::job::Job;
use crate::quic::QuicShared;
use crate::refusal::{BindError, BindFault, BindRefusal};
use crate::running::{Context, Running};
use crate::xdp::{XdpConfig, XdpListener, XdpMode};
use crate::{quic, tcp, udp, xdp};

/// Opens listening sockets.
pub struct Listener;

impl Listener {
    /// Opens the sockets of one address: one per worker. With port 0 the system picks a port, the same for
    /// all.
    ///
    /// Queries queue up in the sockets from here on and are answered once [`Bound::serve`] is called.
    ///
    /// # Errors
    /// [`BindError`]: the address, the transport and the reason. Sockets opened before the fault are closed.
    pub fn bind(addr: SocketAddr, transport: Transport, config: &ListenerConfig) -> Result<Bound, BindError> {
        let fail = |refusal: BindRefusal| refusal.at(addr, transport);
        match transport {
            Transport::Udp => {
                let open = |addr, shared| udp::open(addr, config, shared).map_err(fail);
                let (addr, sockets) =
                    open_all(addr, config, open, UdpSocket::local_addr).map_err(|e| match e {
                        OpenError::Bind(e) => e,
                        OpenError::Io(e) => fail(BindRefusal::from_io(e)),
                    })?;
                Ok(Bound { addr, config: config.clone(), sockets: Sockets::Udp(sockets), passed: None })
            }
            Transport::Quic | Transport::H3 => {
                let open = |addr, shared| quic::open(addr, config, shared).map_err(fail);
                let (addr, sockets) =
                    open_all(addr, config, open, UdpSocket::local_addr).map_err(|e| match e {
                        OpenError::Bind(e) => e,
                        OpenError::Io(e) => fail(BindRefusal::from_io(e)),
                    })?;
                Ok(Bound {
                    addr,
                    config: config.clone(),
                    sockets: Sockets::Quic(sockets, transport),
                    passed: None,
                })
            }
            Transport::Tcp | Transport::Tls | Transport::Https | Transport::Http => {
                let open = |addr, shared| tcp::open(addr, config, shared).map_err(fail);
                let (addr, sockets) =
                    open_all(addr, config, open, TcpListener::local_addr).map_err(|e| match e {
                        OpenError::Bind(e) => e,
                        OpenError::Io(e) => fail(BindRefusal::from_io(e)),
                    })?;
                let sockets = Sockets::Tcp(sockets, transport);
                Ok(Bound { addr, config: config.clone(), sockets, passed: None })
            }
        }
    }

    /// Takes over datagram sockets that another process bound, such as systemd. All must be bound to one
    /// address. There are as many workers as sockets, or [`ListenerConfig::workers`] sharing them if that is
    /// more.
    ///
    /// Options are set as on sockets of our own; buffers are only made larger. When the listener stops,
    /// queries that its workers have not read stay in the sockets, for the process that they are passed to
    /// next.
    ///
    /// # Errors
    /// [`BindError`] if there is no socket, their addresses differ, or an option is refused.
    pub fn from_udp(sockets: Vec<UdpSocket>, config: &ListenerConfig) -> Result<Bound, BindError> {
        let addr = common_address(&sockets, UdpSocket::local_addr, Transport::Udp)?;
        let fail = |refusal: BindRefusal| refusal.at(addr, Transport::Udp);
        for socket in &sockets {
            udp::take_over(socket, config).map_err(fail)?;
        }
        let passed = Some(sockets.len());
        let sockets = multiply(sockets, config.workers, UdpSocket::try_clone)
            .map_err(|e| fail(BindRefusal::from_io(e)))?;
        Ok(Bound { addr, config: config.clone(), sockets: Sockets::Udp(sockets), passed })
    }

    /// Takes over datagram sockets that another process bound, for connections of `transport`, which is QUIC
    /// or HTTP/3; otherwise as [`Listener::from_udp`]. Datagrams of connections are spread over workers that
    /// share a socket, so each socket has one worker only.
    ///
    /// # Errors
    /// [`BindError`] if there is no socket, or their addresses differ, or an option cannot be set.
    pub fn from_quic(
        sockets: Vec<UdpSocket>,
        transport: Transport,
        config: &ListenerConfig,
    ) -> Result<Bound, BindError> {
        let addr = common_address(&sockets, UdpSocket::local_addr, transport)?;
        for socket in &sockets {
            quic::take_over(socket, config).map_err(|refusal| refusal.at(addr, transport))?;
        }
        let passed = Some(sockets.len());
        Ok(Bound { addr, config: config.clone(), sockets: Sockets::Quic(sockets, transport), passed })
    }

    /// Puts an AF_XDP front before UDP listeners that are already bound, for queries that arrive on
    /// `xdp.interface`. It has its own workers, one for each receive queue, and is served and stopped
    /// separately from the listeners, best before them. There can be one front on an interface, so all
    /// listeners served there go into one call; the front's own address, which its handlers see, is that of
    /// the first. A client's [`transport::Client::local`] is always the address that the query was sent to.
    ///
    /// For a listener on the wildcard address the front takes the queries to every address that the host has
    /// now. Replies are limited to the size of a packet: the interface's MTU over IPv4, 1280 bytes if any
    /// address is of IPv6 (see [`transport::Replies::room`]).
    ///
    /// # Errors
    /// [`BindError`]: the reason. The listeners are unchanged, and serve without a front.
    pub fn xdp(listeners: &[&Bound], config: &ListenerConfig, xdp: &XdpConfig) -> Result<Bound, BindError> {
        let addr = listeners.first().map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |bound| bound.addr);
        let fail = |refusal: BindRefusal| refusal.at(addr, Transport::Udp);
        let mut sockets = Vec::new();
        for bound in listeners {
            if let Sockets::Udp(own) = &bound.sockets
                && let Some(socket) = own.first()
            {
                let clone = socket.try_clone().map_err(|e| fail(BindRefusal::from_io(e)))?;
                sockets.push((bound.addr, clone));
            }
        }
        let front = XdpListener::open(sockets, config, xdp).map_err(fail)?;
        Ok(Bound { addr, config: config.clone(), sockets: Sockets::Xdp(front), passed: None })
    }

    /// Takes over listening TCP sockets that another process opened, for connections of `transport`, which is
    /// TCP, TLS, HTTPS or HTTP; otherwise as [`Listener::from_udp`].
    ///
    /// # Errors
    /// [`BindError`] if there is no socket or their addresses differ.
    pub fn from_tcp(
        sockets: Vec<TcpListener>,
        transport: Transport,
        config: &ListenerConfig,
    ) -> Result<Bound, BindError> {
        let addr = common_address(&sockets, TcpListener::local_addr, transport)?;
        let fail = |e| BindRefusal::from_io(e).at(addr, transport);
        for socket in &sockets {
            tcp::take_over(socket).map_err(fail)?;
        }
        let passed = Some(sockets.len());
        let sockets = multiply(sockets, config.workers, TcpListener::try_clone).map_err(fail)?;
        let sockets = Sockets::Tcp(sockets, transport);
        Ok(Bound { addr, config: config.clone(), sockets, passed })
    }
}

enum OpenError {
    Bind(BindError),
    Io(io::Error),
}

/// Opens one socket per worker, all on the port that the first one got.
fn open_all<S>(
    addr: SocketAddr,
    config: &ListenerConfig,
    open: impl Fn(SocketAddr, bool) -> Result<S, BindError>,
    local_addr: impl Fn(&S) -> io::Result<SocketAddr>,
) -> Result<(SocketAddr, Vec<S>), OpenError> {
    let workers = config.workers.max(1);
    let mut addr = addr;
    if addr.port() != 0 && !config.share_port {
        // Binding without SO_REUSEPORT shows whether the address is in use. Sockets that share it would not:
        // two servers started by mistake would each get half of the queries.
        drop(open(addr, false).map_err(OpenError::Bind)?);
    }
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = open(addr, true).map_err(OpenError::Bind)?;
        addr = local_addr(&socket).map_err(OpenError::Io)?;
        sockets.push(socket);
    }
    Ok((addr, sockets))
}

/// Returns the address that all these sockets are bound to.
fn common_address<S>(
    sockets: &[S],
    local_addr: impl Fn(&S) -> io::Result<SocketAddr>,
    transport: Transport,
) -> Result<SocketAddr, BindError> {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let wrong = |addr, why: &str| {
        BindRefusal { fault: BindFault::Sockets, cause: io::Error::new(io::ErrorKind::InvalidInput, why) }
            .at(addr, transport)
    };
    let mut common = None;
    for socket in sockets {
        let addr = local_addr(socket).map_err(|e| BindRefusal::from_io(e).at(nowhere, transport))?;
        if *common.get_or_insert(addr) != addr {
            return Err(wrong(addr, "the sockets passed in are bound to different addresses"));
        }
    }
    common.ok_or_else(|| wrong(nowhere, "no socket was passed in"))
}

/// Returns at least `workers` handles, sharing sockets if there are fewer.
fn multiply<S>(
    mut sockets: Vec<S>,
    workers: usize,
    clone: impl Fn(&S) -> io::Result<S>,
) -> io::Result<Vec<S>> {
    let given = sockets.len();
    for i in given..workers {
        sockets.push(clone(&sockets[i % given])?);
    }
    Ok(sockets)
}

/// Bound sockets of a listener without workers.
pub struct Bound {
    addr: SocketAddr,
    config: ListenerConfig,
    sockets: Sockets,
    /// The number of sockets that another process opened, perhaps without SO_REUSEPORT: workers may share
    /// one.
    passed: Option<usize>,
}

enum Sockets {
    Udp(Vec<UdpSocket>),
    /// And the transport of its connections: QUIC or HTTP/3.
    Quic(Vec<UdpSocket>, Transport),
    /// And the transport of its connections: TCP, TLS, HTTPS or HTTP.
    Tcp(Vec<TcpListener>, Transport),
    Xdp(XdpListener),
}

impl Sockets {
    /// Returns the number of workers that serve them.
    fn len(&self) -> usize {
        match self {
            Sockets::Udp(sockets) | Sockets::Quic(sockets, _) => sockets.len(),
            Sockets::Tcp(sockets, _) => sockets.len(),
            Sockets::Xdp(front) => front.len(),
        }
    }
}

/// Starting the workers failed: the system refused a thread or a per-thread resource.
#[derive(Debug)]
pub struct ServeError {
    /// The listener's address.
    pub addr: SocketAddr,
    /// The listener's transport.
    pub transport: Transport,
    /// The system's error.
    pub cause: io::Error,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start serving {} {}: {}", self.transport, self.addr, self.cause)
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// Returns the parameters of a worker of a listener.
fn worker_job(id: WorkerId, config: &ListenerConfig, running: &Running, context: &Context) -> Job {
    Job {
        id,
        config: config.clone(),
        shutdown: running.shutdown.clone(),
        stats: Arc::clone(&running.stats.workers[id.index]),
        reporter: context.reporter(id),
        proxies: context.proxies.clone(),
        http_proxies: context.http_proxies.clone(),
        tls: context.tls.as_ref().and_then(|tls| tls.of(id.transport)),
        identify: context.tls.as_ref().and_then(|tls| tls.identify.clone()),
        fresh: context.fresh,
        oblivious: context.oblivious.clone(),
        keepalive: context.keepalive,
        passed: running.passed.is_some(),
        socket: Arc::default(),
    }
}

impl Bound {
    /// Returns the address that the sockets are bound to, with the port that the system picked for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The listener's transport.
    pub fn transport(&self) -> Transport {
        match self.sockets {
            Sockets::Udp(_) | Sockets::Xdp(_) => Transport::Udp,
            Sockets::Quic(_, transport) | Sockets::Tcp(_, transport) => transport,
        }
    }

    /// Returns the number of passed sockets; `None` if the listener opened its own.
    pub fn passed(&self) -> Option<usize> {
        self.passed
    }

    /// Returns the mode that the system granted, if this is an AF_XDP front.
    pub fn xdp_mode(&self) -> Option<XdpMode> {
        match &self.sockets {
            Sockets::Xdp(front) => Some(front.mode()),
            _ => None,
        }
    }

    /// Starts the workers. Each builds its handler on its own thread.
    ///
    /// To take over from a listener on the same address without losing a query: bind with
    /// [`ListenerConfig::share_port`], stop and join the old listener, then serve. Meanwhile queries wait in
    /// the sockets.
    ///
    /// # Errors
    /// [`ServeError`] if the system refuses a thread or a resource it needs; workers already started stop.
    pub fn serve<F: HandlerFactory>(self, factory: F, context: &Context) -> Result<Running, ServeError> {
        let (addr, transport, passed) = (self.addr, self.transport(), self.passed);
        let workers = self.sockets.len();
        let factory = Arc::new(factory);
        // If a thread fails to start, dropping this stops the threads already started.
        let mut running = Running::new(addr, transport, workers, self.xdp_mode(), passed);
        let fail = |cause| ServeError { addr, transport, cause };
        if transport.is_encrypted() && context.tls.is_none() {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "there are no settings of TLS")));
        }
        let config = self.config.clone();
        let job = |index: usize, running: &Running| {
            let id = WorkerId { index, transport, local: addr };
            worker_job(id, &config, running, context)
        };
        match self.sockets {
            Sockets::Udp(sockets) => {
                // Workers that share a socket count as one for the kernel. Passed sockets may lack
                // SO_REUSEPORT.
                let apart = passed.unwrap_or(sockets.len());
                let spread = sockets.first().map(|first| udp::spread(first, self.config.spread, apart));
                if let (Some(Err(e)), None) = (spread, passed) {
                    job(0, &running).reporter.report(WorkerFaultKind::Spread(e));
                }
                for (index, socket) in sockets.into_iter().enumerate() {
                    let job = job(index, &running);
                    running.keep_socket(index, &job.socket, &socket);
                    running.threads.push(udp::spawn(socket, Arc::clone(&factory), job).map_err(fail)?);
                }
            }
            Sockets::Quic(sockets, _) => {
                let shared = QuicShared::new(context.tls.as_ref()).map_err(fail)?;
                for (index, socket) in sockets.into_iter().enumerate() {
                    let job = job(index, &running);
                    running.keep_socket(index, &job.socket, &socket);
                    let shared = (context.tcp.clone(), shared.clone());
                    let thread = quic::spawn(socket, Arc::clone(&factory), job, shared).map_err(fail)?;
                    running.threads.push(thread);
                }
            }
            Sockets::Tcp(sockets, _) => {
                for (index, socket) in sockets.into_iter().enumerate() {
                    let job = job(index, &running);
                    running.keep_socket(index, &job.socket, &socket);
                    let limits = context.tcp.clone();
                    let thread = tcp::spawn(socket, Arc::clone(&factory), job, limits).map_err(fail)?;
                    running.threads.push(thread);
                }
            }
            Sockets::Xdp(front) => {
                for (index, queue) in front.into_queues().enumerate() {
                    let job = job(index, &running);
                    running.threads.push(xdp::spawn(queue, Arc::clone(&factory), job).map_err(fail)?);
                }
            }
        }
        Ok(running)
    }
}
