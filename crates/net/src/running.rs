//! A listener at work: stopping it, waiting for it, and what it shares with others.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use exchange::Transport;

use crate::fault::{OnFault, Reporter, WorkerFault, WorkerId};
use crate::job::SocketSlot;
use crate::shutdown::Shutdown;
use crate::stats::ListenerStats;
use crate::tcp::TcpLimits;
use crate::xdp::XdpMode;

/// What listeners share: connection limits, and the callback for faults.
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
    pub(crate) sockets: Vec<Weak<SocketSlot>>,
}

impl Running {
    /// A listener that has no workers yet.
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

    /// Keeps a descriptor of the socket of worker `index` for [`Running::sockets`]. Workers that share a
    /// passed socket share the descriptor of the first of them.
    pub(crate) fn keep_socket(&mut self, index: usize, slot: &Arc<SocketSlot>, socket: &impl AsFd) {
        if self.passed.is_none_or(|apart| index < apart) {
            slot.set(socket);
        }
        self.sockets.push(Arc::downgrade(slot));
    }

    /// The address the listener is bound to, its port known even if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The listener's transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// What the system granted, if this is an AF_XDP front; its address is also that of the sockets behind
    /// it.
    pub fn xdp_mode(&self) -> Option<XdpMode> {
        self.xdp
    }

    /// How many sockets someone else opened for this listener; none if it has sockets of its own.
    pub fn passed(&self) -> Option<usize> {
        self.passed
    }

    /// Descriptors of the listener's sockets, for another server that goes on with them (see
    /// [`Running::leave_unread`]); none of an AF_XDP front.
    ///
    /// # Errors
    /// The system's, if it refuses descriptors.
    pub fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let slots = self.sockets.iter().filter_map(Weak::upgrade);
        slots.filter_map(|slot| slot.get().transpose()).collect()
    }

    /// Has the workers leave in the sockets what they have not read when they stop, as with sockets that were
    /// passed.
    pub fn leave_unread(&self) {
        self.shutdown.leave_unread();
    }

    /// Whether what is not read when the listener stops stays in its sockets.
    pub fn leaves_unread(&self) -> bool {
        self.passed.is_some() || self.shutdown.leaves_unread()
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

    /// True until no worker takes what arrives any more, which comes soon after [`Running::stop`]; what was
    /// taken may still be answered. Workers that have not begun yet are not known of.
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
