//! Validations as data: those that wait for a thread, run, or have ended. Their threads are in `validation`.
//!
//! | file | holds |
//! |---|---|
//! | `queue.rs` | the queue of tasks for the validation threads |
//! | `form.rs` | a validated answer's messages for clients |
//! | `link.rs` | the first link of an alias chain as an answer |
//! | `job.rs` | one validation |
//! | `state.rs` | running and recent validations, and the cached keys of zones |

pub(crate) mod form;
pub(crate) mod job;
mod link;
pub(crate) mod queue;
pub(crate) mod state;

use std::sync::Arc;

use cache::Now;
use validator::{TrustTable, Validation};
use wire::UnixTime;

use crate::settings::{Policy, ValidationConfig};

/// Validation settings and cached keys.
pub(crate) struct Basis {
    pub(crate) config: ValidationConfig,
    pub(crate) table: TrustTable,
}

/// A point in time, by both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) cache: Now,
    pub(crate) wall: UnixTime,
}

/// The settings and time of one task.
pub(crate) struct Turn<'t> {
    pub(crate) policy: &'t Policy,
    pub(crate) basis: &'t Basis,
    pub(crate) at: Moment,
}

impl Turn<'_> {
    /// Returns the inputs of validation.
    pub(crate) fn by(&self) -> Validation<'_> {
        let ValidationConfig { settings, anchors, .. } = &self.basis.config;
        Validation { settings, anchors, now: self.at.wall }
    }
}

impl Basis {
    /// The settings, and no keys.
    pub(crate) fn new(config: &ValidationConfig) -> Arc<Basis> {
        Arc::new(Basis { config: config.clone(), table: TrustTable::new(config.names) })
    }
}
