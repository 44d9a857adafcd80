//! Stopping workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
}

impl Shutdown {
    pub(crate) fn new() -> Self {
        Shutdown {
            inner: Arc::new(ShutdownInner { flag: AtomicBool::new(false), watch: watch::Sender::new(false) }),
        }
    }

    /// Asks the workers to answer what already reached them and end, within [`crate::ListenerConfig::drain`] and one
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
