//! Parameters of a worker, and the second descriptor of its socket.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{HttpCacheTime, IdentifyClient, KeepaliveCheck, ListenerConfig};
use crate::fault::{Reporter, WorkerId};
use crate::handshakes::HandshakeSettings;
use crate::oblivious::ObliviousTarget;
use crate::proxies::{HttpProxies, Proxies};
use crate::shutdown::Shutdown;
use crate::stats::WorkerStats;

/// The parameters of a worker, apart from its socket and its handler.
pub(crate) struct Job {
    pub(crate) id: WorkerId,
    pub(crate) config: ListenerConfig,
    pub(crate) shutdown: Shutdown,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) reporter: Reporter,
    pub(crate) proxies: Proxies,
    pub(crate) http_proxies: HttpProxies,
    /// Settings of TLS, for a worker whose connections have it.
    pub(crate) tls: Option<HandshakeSettings>,
    /// See [`crate::ListenerTls::identify`].
    pub(crate) identify: Option<IdentifyClient>,
    /// How long HTTP caches may keep replies.
    pub(crate) fresh: Option<HttpCacheTime>,
    /// See [`crate::Context::oblivious`].
    pub(crate) oblivious: Option<Arc<dyn ObliviousTarget>>,
    /// Finds the option edns-tcp-keepalive in queries over QUIC.
    pub(crate) keepalive: Option<KeepaliveCheck>,
    /// Its socket was opened by another process, which passes it to another server afterwards.
    pub(crate) passed: bool,
    /// Its socket, for [`crate::Running::sockets`].
    pub(crate) socket: Arc<SocketSlot>,
}

impl Job {
    /// Whether datagrams and connections that the worker has not read when it stops stay in its socket, for
    /// the next server.
    pub(crate) fn leaves_unread(&self) -> bool {
        self.passed || self.shutdown.leaves_unread()
    }
}

/// A second descriptor of a worker's socket. The worker owns it, so that the socket is closed when the worker
/// ends.
#[derive(Default)]
pub(crate) struct SocketSlot(Mutex<Option<OwnedFd>>);

impl SocketSlot {
    /// Stores a second descriptor of this socket in place of the one before. If the system refuses it, the
    /// socket cannot be handed over.
    pub(crate) fn set(&self, socket: &impl AsFd) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = socket.as_fd().try_clone_to_owned().ok();
    }

    /// Closes the descriptor: the worker closes its socket.
    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns another descriptor of the socket; `None` if there is no socket at present.
    ///
    /// # Errors
    /// The system's, if it refuses a descriptor.
    pub(crate) fn get(&self) -> std::io::Result<Option<OwnedFd>> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().map(OwnedFd::try_clone).transpose()
    }
}
