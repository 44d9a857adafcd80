//! A running listener: stopping it, waiting for it, and the state it shares with other listeners.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use transport::Transport;

use crate::config::{HttpCacheTime, IdentifyClient, KeepaliveCheck};
use crate::fault::{OnFault, Reporter, WorkerFault, WorkerId};
use crate::handshakes::{HandshakeSettings, TlsChallenges};
use crate::job::SocketSlot;
use crate::oblivious::ObliviousTarget;
use crate::proxies::{HttpProxies, Proxies};
use crate::shutdown::Shutdown;
use crate::stats::ListenerStats;
use crate::tcp::TcpLimits;
use crate::xdp::XdpMode;

/// Settings of TLS by what is inside. They differ in the application protocols (ALPN).
#[derive(Clone)]
pub struct ListenerTls {
    /// For DNS over TLS.
    pub dot: Arc<rustls::ServerConfig>,
    /// For DNS over HTTPS.
    pub https: Arc<rustls::ServerConfig>,
    /// For DNS over QUIC and HTTP/3, whose application protocols are set where they are used.
    pub quic: Arc<rustls::ServerConfig>,
    /// Identifies clients over TLS by the certificates that they show; `None`: no client is asked for one.
    pub identify: Option<IdentifyClient>,
    /// For the challenges of a CA, on TLS and HTTPS.
    pub challenges: TlsChallenges,
}

impl ListenerTls {
    /// Returns the settings for a transport.
    pub(crate) fn of(&self, transport: Transport) -> Option<HandshakeSettings> {
        let config = match transport {
            Transport::Tls => Arc::clone(&self.dot),
            Transport::Https => Arc::clone(&self.https),
            Transport::Quic | Transport::H3 => Arc::clone(&self.quic),
            _ => return None,
        };
        Some(HandshakeSettings { config, challenges: self.challenges.clone() })
    }
}

/// State that listeners share: connection limits, proxies, and the callback for faults.
#[derive(Clone, Default)]
pub struct Context {
    /// Limits of TCP and QUIC connections, counted over all listeners with clones of them.
    pub tcp: TcpLimits,
    /// The proxies that name their clients in headers.
    pub proxies: Proxies,
    /// The proxies that pass requests on by HTTP. Without any here or in `proxies`, listeners for HTTP
    /// without TLS serve loopback addresses alone.
    pub http_proxies: HttpProxies,
    /// Settings of TLS for DNS over TLS, HTTPS and QUIC; listeners of these cannot serve without.
    pub tls: Option<ListenerTls>,
    /// For how long HTTP caches may keep replies. Without it they may not.
    pub fresh: Option<HttpCacheTime>,
    /// Decrypts queries of Oblivious DoH that come over HTTP. Without it requests with them are refused.
    pub oblivious: Option<Arc<dyn ObliviousTarget>>,
    /// Finds the option edns-tcp-keepalive, with which a query over QUIC is an error (RFC 9250 §4.3.3).
    /// Without it the handler decides about such queries.
    pub keepalive: Option<KeepaliveCheck>,
    on_fault: Option<OnFault>,
}

impl Context {
    /// A context with these connection limits.
    #[must_use]
    pub fn new(tcp: TcpLimits) -> Self {
        Context { tcp, ..Context::default() }
    }

    /// Sets the callback for faults. Worker threads call it; it must neither block nor panic.
    #[must_use]
    pub fn on_fault(mut self, on_fault: impl Fn(&WorkerFault) + Send + Sync + 'static) -> Self {
        self.on_fault = Some(Arc::new(on_fault));
        self
    }

    pub(crate) fn reporter(&self, worker: WorkerId) -> Reporter {
        Reporter { on_fault: self.on_fault.clone(), worker }
    }
}

/// A running listener. Dropping it stops the listener without waiting.
pub struct Running {
    pub(crate) local: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) shutdown: Shutdown,
    pub(crate) stats: ListenerStats,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) xdp: Option<XdpMode>,
    pub(crate) passed: Option<usize>,
    pub(crate) sockets: Vec<Weak<SocketSlot>>,
}

impl Running {
    /// Returns a listener without workers.
    pub(crate) fn new(
        local: SocketAddr,
        transport: Transport,
        workers: usize,
        xdp: Option<XdpMode>,
        passed: Option<usize>,
    ) -> Self {
        let (shutdown, stats) = (Shutdown::new(), ListenerStats::new(workers));
        Self { local, transport, shutdown, stats, threads: Vec::new(), xdp, passed, sockets: Vec::new() }
    }

    /// Stores a descriptor of the socket of worker `index` for [`Running::sockets`]. Workers that share a
    /// passed socket share the descriptor of the first of them.
    pub(crate) fn keep_socket(&mut self, index: usize, slot: &Arc<SocketSlot>, socket: &impl AsFd) {
        if self.passed.is_none_or(|apart| index < apart) {
            slot.set(socket);
        }
        self.sockets.push(Arc::downgrade(slot));
    }

    /// Returns the address that the listener is bound to, with the port that the system picked for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The listener's transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the mode that the system granted, if this is an AF_XDP front; its address is also that of the
    /// sockets behind it.
    pub fn xdp_mode(&self) -> Option<XdpMode> {
        self.xdp
    }

    /// Returns the number of passed sockets; `None` if the listener opened its own.
    pub fn passed(&self) -> Option<usize> {
        self.passed
    }

    /// Returns descriptors of the listener's sockets, for another server that continues with them (see
    /// [`Running::leave_unread`]). An AF_XDP front has none.
    ///
    /// # Errors
    /// The system's, if it refuses descriptors.
    pub fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let slots = self.sockets.iter().filter_map(Weak::upgrade);
        slots.filter_map(|slot| slot.get().transpose()).collect()
    }

    /// Lets the workers, when they stop, leave queries that they have not read in the sockets, as with passed
    /// sockets.
    pub fn leave_unread(&self) {
        self.shutdown.leave_unread();
    }

    /// Whether queries that are not read when the listener stops stay in its sockets.
    pub fn leaves_unread(&self) -> bool {
        self.passed.is_some() || self.shutdown.leaves_unread()
    }

    /// Returns the listener's counters. They remain readable after it stopped.
    pub fn stats(&self) -> &ListenerStats {
        &self.stats
    }

    /// Returns a handle that stops this listener.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Requests the workers to stop; see [`Shutdown::trigger`].
    pub fn stop(&self) {
        self.shutdown.trigger();
    }

    /// Whether any worker still receives queries, which ends soon after [`Running::stop`]; queries received
    /// before may still be answered. Does not count workers that have not begun yet.
    pub fn is_taking(&self) -> bool {
        self.shutdown.is_taking()
    }

    /// Whether every worker has ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for every worker to end, which happens only after [`Running::stop`]. Returns the final counters.
    pub fn join(mut self) -> ListenerStats {
        for thread in self.threads.drain(..) {
            // A worker catches its handler's panics; the panic hook has already reported a panic of the
            // worker's own.
            let _ = thread.join();
        }
        self.stats.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}
