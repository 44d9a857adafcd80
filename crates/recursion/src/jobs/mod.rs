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
use resolver::Partition;
use validator::{TrustTable, Validation};
use wire::{Name, UnixTime};

use crate::settings::{Policy, ValidationConfig};

/// Validation settings and cached keys.
pub(crate) struct Basis {
    pub(crate) config: ValidationConfig,
    /// The keys that clients without rules of their own have.
    shared: TrustTable,
    /// Those of partitions: the servers of a partition may have other keys for a zone, or none.
    own: Vec<(Partition, TrustTable)>,
    /// For answers of partitions that have gone. They go to clients that asked before, and not into the
    /// cache.
    gone: TrustTable,
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
    /// The settings of a policy, and no keys. Tables of partitions have equal parts of the number of names.
    pub(crate) fn new(policy: &Policy) -> Arc<Basis> {
        let config = policy.validation.clone();
        let partitions: Vec<Partition> = policy.cache_views.partitions().collect();
        let names = config.names / (1 + partitions.len());
        Arc::new(Basis {
            config,
            shared: TrustTable::new(names),
            own: partitions.into_iter().map(|partition| (partition, TrustTable::new(names))).collect(),
            gone: TrustTable::new(0),
        })
    }

    /// Whether these are the settings of a policy, and its partitions.
    pub(crate) fn fits(&self, policy: &Policy) -> bool {
        let own = self.own.iter().map(|(partition, _)| *partition);
        self.config == policy.validation && own.eq(policy.cache_views.partitions())
    }

    /// The keys of zones for the answers of a partition.
    pub(crate) fn table(&self, partition: Partition) -> &TrustTable {
        if partition.is_shared() {
            return &self.shared;
        }
        let own = self.own.iter().find(|(own, _)| *own == partition);
        own.map_or(&self.gone, |(_, table)| table)
    }

    /// Drops the keys at and below a name.
    pub(crate) fn forget(&self, name: Name<'_>) {
        let own = self.own.iter().map(|(_, table)| table);
        own.chain([&self.shared, &self.gone]).for_each(|table| table.forget(name));
    }
}
