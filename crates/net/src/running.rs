//! A listener at work: stopping it, waiting for it, and what it shares with others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use exchange::Transport;

use crate::fault::{OnFault, Reporter, WorkerFault, WorkerId};
use crate::shutdown::Shutdown;
use crate::stats::ListenerStats;
use crate::tcp::TcpLimits;
use crate::xdp::XdpMode;

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

/// A listener at work. Dropping it stops the listener without waiting.
pub struct Running {
    pub(crate) local: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) shutdown: Shutdown,
    pub(crate) stats: ListenerStats,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) xdp: Option<XdpMode>,
    pub(crate) passed: Option<usize>,
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

    /// How many sockets someone else opened for this listener; none if it has sockets of its own.
    pub fn passed(&self) -> Option<usize> {
        self.passed
    }

    /// The listener's counters. They remain readable after it stopped.
    pub fn stats(&self) -> &ListenerStats {
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

    /// True until no worker takes what arrives any more, which comes soon after [`Running::stop`]; what was taken may still be
    /// answered. Workers that have not begun yet are not known of.
    pub fn is_taking(&self) -> bool {
        self.shutdown.is_taking()
    }

    /// True when every worker has ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for every worker to end, which they do only after [`Running::stop`]. Returns the final counters.
    pub fn join(mut self) -> ListenerStats {
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
