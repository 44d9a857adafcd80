//! What the handle and the thread share: settings, sink, status, counters and what waits.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::counts::{DatabaseCounts, DatabaseStatus};
use crate::interface::DatabaseSink;
use crate::queue::Queue;
use crate::settings::DatabaseSettings;

/// Shared by the handle and the thread.
pub(crate) struct Shared {
    pub(crate) settings: DatabaseSettings,
    pub(crate) sink: Arc<dyn DatabaseSink>,
    status: Mutex<DatabaseStatus>,
    pub(crate) counts: DatabaseCounts,
    pub(crate) queue: Queue,
    /// Whether the thread is to end.
    pub(crate) stop: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(settings: DatabaseSettings, sink: Arc<dyn DatabaseSink>) -> Shared {
        Shared {
            settings,
            sink,
            status: Mutex::default(),
            counts: DatabaseCounts::default(),
            queue: Queue::default(),
            stop: watch::Sender::new(false),
        }
    }

    /// Changes the status.
    pub(crate) fn note(&self, change: impl FnOnce(&mut DatabaseStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the status.
    pub(crate) fn status(&self) -> DatabaseStatus {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.waiting = self.queue.count() as u64;
        status
    }
}
