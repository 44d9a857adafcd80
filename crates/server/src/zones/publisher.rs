//! Puts zones into service: gathers the steps that keepers want made and makes catalogs of them, for all zones that
//! changed at about the same time one. Nothing else changes what is served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Engine, Zones};
use zone::catalog::{Catalog, Change};

/// Longest time that a step waits for others.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes the catalogs. Belongs to the thread that keeps the zones.
pub(super) struct Publisher {
    engine: Arc<Engine<Zones>>,
    steps: Vec<Change>,
    /// When the first of them came.
    since: Option<Instant>,
    /// Catalogs that were replaced and that workers may still be reading.
    retired: Vec<Arc<Catalog>>,
}

impl Publisher {
    /// A publisher of what this engine serves.
    pub(super) fn new(engine: Arc<Engine<Zones>>) -> Self {
        Publisher { engine, steps: Vec::new(), since: None, retired: Vec::new() }
    }

    /// Takes a step, to be made with others.
    pub(super) fn add(&mut self, step: Change, now: Instant) {
        self.since.get_or_insert(now);
        self.steps.push(step);
    }

    /// When the steps taken must be made.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + PATIENCE)
    }

    /// Makes the steps taken so far: they are in service when this returns.
    pub(super) fn publish(&mut self) {
        self.since = None;
        if self.steps.is_empty() {
            return;
        }
        let old = self.engine.catalog();
        let new = Arc::new(old.with(std::mem::take(&mut self.steps)));
        self.engine.set_catalog(&new);
        self.retired.push(old);
    }

    /// Gives back the memory of replaced catalogs that no worker reads any more. Done here, so that no query waits for
    /// it. Returns whether all are gone.
    pub(super) fn release(&mut self) -> bool {
        self.retired.retain(|catalog| Arc::strong_count(catalog) > 1);
        self.retired.is_empty()
    }
}
