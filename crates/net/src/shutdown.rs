//! Stopping workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;

/// Stops a listener's workers. Clones stop the same listener; any thread may.
#[derive(Clone)]
pub struct Shutdown {
    inner: Arc<ShutdownInner>,
}

struct ShutdownInner {
    /// What UDP workers look at after every batch.
    flag: AtomicBool,
    /// What TCP workers wait for.
    watch: watch::Sender<bool>,
    /// Workers that take what arrives.
    taking: AtomicUsize,
    /// Another server goes on with the sockets.
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

    /// Asks the workers to answer what already reached them and end, within [`crate::ListenerConfig::drain`]
    /// and one [`crate::UdpConfig::idle_wake`]. Returns at once.
    pub fn trigger(&self) {
        self.inner.flag.store(true, Ordering::Release);
        self.inner.watch.send_replace(true);
    }

    /// True once [`Shutdown::trigger`] was called.
    #[inline]
    pub fn triggered(&self) -> bool {
        self.inner.flag.load(Ordering::Acquire)
    }

    /// Has the workers leave in their sockets what they have not read when they stop.
    pub(crate) fn leave_unread(&self) {
        self.inner.leaves_unread.store(true, Ordering::Release);
    }

    /// True once [`Shutdown::leave_unread`] was called.
    pub(crate) fn leaves_unread(&self) -> bool {
        self.inner.leaves_unread.load(Ordering::Acquire)
    }

    /// A worker begins to take what arrives, until the value returned is dropped.
    pub(crate) fn take(&self) -> Taking {
        self.inner.taking.fetch_add(1, Ordering::Relaxed);
        Taking(self.clone())
    }

    /// Whether any worker takes what arrives.
    pub(crate) fn is_taking(&self) -> bool {
        self.inner.taking.load(Ordering::Acquire) > 0
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.inner.watch.subscribe()
    }
}

/// A worker that takes what arrives.
pub(crate) struct Taking(Shutdown);

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.inner.taking.fetch_sub(1, Ordering::Release);
    }
}
