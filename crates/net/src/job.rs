//! A worker's part of its listener.

use std::sync::Arc;

use crate::config::ListenerConfig;
use crate::fault::{Reporter, WorkerId};
use crate::shutdown::Shutdown;
use crate::stats::WorkerStats;

/// What a worker needs to know, apart from its socket and its handler.
pub(crate) struct Job {
    pub(crate) id: WorkerId,
    pub(crate) config: ListenerConfig,
    pub(crate) shutdown: Shutdown,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) reporter: Reporter,
    /// Its socket was opened by someone else, who passes it to another server afterwards.
    pub(crate) passed: bool,
}
