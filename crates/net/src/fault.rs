//! Faults of a worker, and the callback that receives them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use transport::{SuspectMessage, Transport, WorkerContext};

/// A worker of a listener.
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
    /// Returns the context that the worker's handler is built with.
    pub(crate) fn worker_context(self, waker: Waker) -> WorkerContext {
        let WorkerId { index, transport, local } = self;
        WorkerContext { index, transport, local, waker }
    }
}

/// A fault in a worker. The worker continues unless the kind says otherwise.
#[derive(Debug)]
pub struct WorkerFault {
    /// The worker.
    pub worker: WorkerId,
    /// The kind of fault.
    pub kind: WorkerFaultKind,
}

/// The kinds of faults in a worker.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerFaultKind {
    /// The socket failed; the worker tries to open a new one.
    Socket(io::Error),
    /// A socket that was passed failed; the worker tries it again after a pause.
    Passed(io::Error),
    /// Opening a new socket failed; the worker retries at growing intervals. Reported once per outage.
    Rebind(io::Error),
    /// A new socket was opened after an error.
    Recovered,
    /// The handler panicked and was replaced.
    HandlerPanicked,
    /// A query made the handler panic and was dropped: this one, as far as is known.
    QueryPanicked(Box<SuspectMessage>),
    /// No file descriptor was left for a new connection. Reported once per shortage.
    OutOfDescriptors(io::Error),
    /// The thread could not be pinned to its CPU; it runs unpinned.
    Pin(io::Error),
    /// The system refused the configured spread of datagrams; the kernel's hash spreads them.
    Spread(io::Error),
    /// A receive queue of an AF_XDP front failed and its worker ended; the sockets receive its queries.
    Xdp(io::Error),
}

impl fmt::Display for WorkerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerId { index, transport, local } = self.worker;
        write!(f, "{transport} {local} worker {index}: ")?;
        match &self.kind {
            WorkerFaultKind::Socket(e) => write!(f, "the socket failed and is reopened: {e}"),
            WorkerFaultKind::Passed(e) => {
                write!(f, "the socket that was passed fails, it is tried again: {e}")
            }
            WorkerFaultKind::Rebind(e) => write!(f, "cannot make a new socket, still trying: {e}"),
            WorkerFaultKind::Recovered => f.write_str("serving again on a new socket"),
            WorkerFaultKind::HandlerPanicked => {
                f.write_str("a query made the handler panic; it was replaced")
            }
            WorkerFaultKind::QueryPanicked(suspect) => {
                write!(f, "a query of {} that made the handler panic was dropped", suspect.client.peer)
            }
            WorkerFaultKind::OutOfDescriptors(e) => write!(f, "no file descriptor for a new connection: {e}"),
            WorkerFaultKind::Pin(e) => write!(f, "cannot pin the thread to its CPU: {e}"),
            WorkerFaultKind::Xdp(e) => write!(f, "the AF_XDP queue failed, the sockets take over: {e}"),
            WorkerFaultKind::Spread(e) => write!(f, "datagrams are spread by hash, not as configured: {e}"),
        }
    }
}

pub(crate) type OnFault = Arc<dyn Fn(&WorkerFault) + Send + Sync>;

/// Reports faults of one worker.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) on_fault: Option<OnFault>,
    pub(crate) worker: WorkerId,
}

impl Reporter {
    #[cold]
    pub(crate) fn report(&self, kind: WorkerFaultKind) {
        if let Some(on_fault) = &self.on_fault {
            on_fault(&WorkerFault { worker: self.worker, kind });
        }
    }
}
