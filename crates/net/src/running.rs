//! A listener at work: stopping it, waiting for it, and how its threads report faults.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;

use exchange::{Seat, Transport};
use tokio::sync::watch;

use crate::stats::Stats;
use crate::tcp::TcpLimits;
use crate::xdp::XdpMode;

/// Which worker of which listener.
#[derive(Clone, Copy, Debug)]
pub struct WorkerId {
    /// Number of the worker within its listener, from 0.
    pub index: usize,
    /// Transport of the listener.
    pub transport: Transport,
    /// Address of the listener.
    pub local: SocketAddr,
}

impl WorkerId {
    /// The worker's seat, as its handler knows it.
    pub(crate) fn seat(self, waker: Waker) -> Seat {
        let WorkerId { index, transport, local } = self;
        Seat { index, transport, local, waker }
    }
}

/// Something went wrong in a worker. Serving goes on unless the kind says otherwise.
#[derive(Debug)]
pub struct WorkerFault {
    /// Where it happened.
    pub worker: WorkerId,
    /// What happened.
    pub kind: FaultKind,
}

/// What went wrong in a worker.
#[derive(Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// The socket failed; the worker is trying to make a new one.
    Socket(io::Error),
    /// Making a new socket failed; the worker keeps trying, more and more slowly. Reported once per outage.
    Rebind(io::Error),
    /// A new socket was made after an error.
    Recovered,
    /// The handler panicked and was replaced.
    HandlerPanicked,
    /// No file descriptor was left for a new connection. Reported once per shortage.
    OutOfDescriptors(io::Error),
    /// The thread could not be pinned to its CPU; it runs unpinned.
    Pin(io::Error),
    /// The system refused to spread datagrams as configured; its own hash spreads them.
    Spread(io::Error),
    /// A receive queue of an AF_XDP front failed and its worker ended; its queries go through the sockets.
    Xdp(io::Error),
}

impl fmt::Display for WorkerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerId { index, transport, local } = self.worker;
        write!(f, "{transport} {local} worker {index}: ")?;
        match &self.kind {
            FaultKind::Socket(e) => write!(f, "the socket failed and is made anew: {e}"),
            FaultKind::Rebind(e) => write!(f, "cannot make a new socket, still trying: {e}"),
            FaultKind::Recovered => f.write_str("serving again on a new socket"),
            FaultKind::HandlerPanicked => f.write_str("a query made the handler panic; it was replaced"),
            FaultKind::OutOfDescriptors(e) => write!(f, "no file descriptor for a new connection: {e}"),
            FaultKind::Pin(e) => write!(f, "cannot pin the thread to its CPU: {e}"),
            FaultKind::Xdp(e) => write!(f, "the AF_XDP queue failed, the sockets take over: {e}"),
            FaultKind::Spread(e) => write!(f, "datagrams are spread by hash, not as configured: {e}"),
        }
    }
}

type OnFault = Arc<dyn Fn(&WorkerFault) + Send + Sync>;

/// What listeners share: connection limits, and who hears of faults.
#[derive(Clone, Default)]
pub struct Context {
    /// How many TCP connections there may be, counted over all listeners given the same limits.
    pub tcp: TcpLimits,
    on_fault: Option<OnFault>,
}

impl Context {
    /// A context with these connection limits.
    #[must_use]
    pub fn new(tcp: TcpLimits) -> Self {
        Context { tcp, on_fault: None }
    }

    /// Has faults reported to `on_fault`, which is called on worker threads and must neither block nor panic.
    #[must_use]
    pub fn on_fault(mut self, on_fault: impl Fn(&WorkerFault) + Send + Sync + 'static) -> Self {
        self.on_fault = Some(Arc::new(on_fault));
        self
    }

    pub(crate) fn reporter(&self, worker: WorkerId) -> Reporter {
        Reporter { on_fault: self.on_fault.clone(), worker }
    }
}

/// Reports faults of one worker.
#[derive(Clone)]
pub(crate) struct Reporter {
    on_fault: Option<OnFault>,
    worker: WorkerId,
}

impl Reporter {
    #[cold]
    pub(crate) fn report(&self, kind: FaultKind) {
        if let Some(on_fault) = &self.on_fault {
            on_fault(&WorkerFault { worker: self.worker, kind });
        }
    }
}

/// Tells a listener's workers to stop. Clones stop the same listener; any thread may.
#[derive(Clone)]
pub struct Shutdown {
    inner: Arc<ShutdownInner>,
}

struct ShutdownInner {
    /// What UDP workers look at after every batch.
    flag: AtomicBool,
    /// What TCP workers wait for.
    watch: watch::Sender<bool>,
}

impl Shutdown {
    pub(crate) fn new() -> Self {
        Shutdown {
            inner: Arc::new(ShutdownInner { flag: AtomicBool::new(false), watch: watch::Sender::new(false) }),
        }
    }

    /// Asks the workers to answer what already reached them and end, within [`crate::Config::drain`] and one
    /// [`crate::UdpConfig::idle_wake`]. Returns at once.
    pub fn trigger(&self) {
        self.inner.flag.store(true, Ordering::Release);
        self.inner.watch.send_replace(true);
    }

    /// True once [`Shutdown::trigger`] was called.
    #[inline]
    pub fn triggered(&self) -> bool {
        self.inner.flag.load(Ordering::Acquire)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.inner.watch.subscribe()
    }
}

/// A listener at work. Dropping it stops the listener without waiting.
pub struct Running {
    pub(crate) local: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) shutdown: Shutdown,
    pub(crate) stats: Stats,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) xdp: Option<XdpMode>,
}

impl Running {
    /// The address the listener is bound to, its port known even if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The listener's transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// What the system granted, if this is an AF_XDP front; its address is also that of the sockets behind it.
    pub fn xdp_mode(&self) -> Option<XdpMode> {
        self.xdp
    }

    /// The listener's counters. They remain readable after it stopped.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// A handle that stops this listener.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Asks the workers to stop; see [`Shutdown::trigger`].
    pub fn stop(&self) {
        self.shutdown.trigger();
    }

    /// True when every worker has ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for every worker to end, which they do only after [`Running::stop`]. Returns the final counters.
    pub fn join(mut self) -> Stats {
        for thread in self.threads.drain(..) {
            // A worker catches its handler's panics; one of its own was already shown by the panic hook.
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
