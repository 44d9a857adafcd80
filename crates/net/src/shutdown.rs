//! Stopping of workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;

/// Stops a listener's workers. Clones stop the same listener; any thread may.
#[derive(Clone)]
pub struct Shutdown {
    inner: Arc<ShutdownInner>,
}

struct ShutdownInner {
    /// UDP workers check it after every batch.
    flag: AtomicBool,
    /// TCP workers wait for it.
    watch: watch::Sender<bool>,
    /// The number of workers that receive queries.
    taking: AtomicUsize,
    /// Another server continues with the sockets.
    leaves_unread: AtomicBool,
}

impl Shutdown {
    pub(crate) fn new() -> Self {
        Shutdown {
            inner: Arc::new(ShutdownInner {
                flag: AtomicBool::new(false),
                watch: watch::Sender::new(false),
                taking: AtomicUsize::new(0),
                leaves_unread: AtomicBool::new(false),
            }),
        }
    }

    /// Requests the workers to answer the queries already received and to end, within
    /// [`crate::ListenerConfig::drain`] and one [`crate::UdpConfig::idle_wake`]. Returns at once.
    pub fn trigger(&self) {
        self.inner.flag.store(true, Ordering::Release);
        self.inner.watch.send_replace(true);
    }

    /// Whether [`Shutdown::trigger`] was called.
    #[inline]
    pub fn triggered(&self) -> bool {
        self.inner.flag.load(Ordering::Acquire)
    }

    /// Lets the workers, when they stop, leave queries that they have not read in their sockets.
    pub(crate) fn leave_unread(&self) {
        self.inner.leaves_unread.store(true, Ordering::Release);
    }

    /// Whether [`Shutdown::leave_unread`] was called.
    pub(crate) fn leaves_unread(&self) -> bool {
        self.inner.leaves_unread.load(Ordering::Acquire)
    }

    /// Counts a worker that begins to receive queries, until the returned value is dropped.
    pub(crate) fn take(&self) -> Taking {
        self.inner.taking.fetch_add(1, Ordering::Relaxed);
        Taking(self.clone())
    }

    /// Whether any worker receives queries.
    pub(crate) fn is_taking(&self) -> bool {
        self.inner.taking.load(Ordering::Acquire) > 0
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.inner.watch.subscribe()
    }
}

/// A worker that receives queries.
pub(crate) struct Taking(Shutdown);

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.inner.taking.fetch_sub(1, Ordering::Release);
    }
}
