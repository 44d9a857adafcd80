//! Puts zones into service: collects the steps of zone states, and makes one catalog for all zones that
//! changed at about the same time. Nothing else changes the catalog of the engine.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use query_path::{Engine, WrongCatalogKey};
use serving::frontend::Served;
use wire::{UnixTime, ZoneName};
use zone::Zone;
use zone::catalog::{Catalog, Change, WrongKey};

/// Longest time that a step waits for others.
const MAX_STEP_DELAY: Duration = Duration::from_secs(1);

/// Makes the catalogs. Used by the publishing thread only.
pub(super) struct Publisher {
    engine: Arc<Engine<Served>>,
    steps: Vec<Change>,
    /// When the steps must be published.
    deadline: Option<Instant>,
    /// Expiry times of zones, to set once the steps are published.
    expiries: Vec<(ZoneName, Option<UnixTime>)>,
    /// Replaced catalogs that workers may still be reading.
    retired: Vec<Arc<Catalog>>,
}

/// Why steps were not published.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unpublished {
    /// A zone does not fit the engine's catalog.
    Zone(WrongKey),
    /// The engine does not accept the catalog.
    Catalog(WrongCatalogKey),
}

impl fmt::Display for Unpublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unpublished::Zone(fault) => fault.fmt(f),
            Unpublished::Catalog(fault) => fault.fmt(f),
        }
    }
}
impl std::error::Error for Unpublished {}

impl Publisher {
    /// Returns a publisher for this engine.
    pub(super) fn new(engine: Arc<Engine<Served>>) -> Self {
        Publisher { engine, steps: Vec::new(), deadline: None, expiries: Vec::new(), retired: Vec::new() }
    }

    /// Adds a step, to be published together with others.
    pub(super) fn add(&mut self, step: Change, now: Instant) {
        self.add_by(step, now + MAX_STEP_DELAY);
    }

    /// Adds a step that waits for no others: it is published once the queued messages are handled.
    pub(super) fn add_at_once(&mut self, step: Change, now: Instant) {
        self.add_by(step, now);
    }

    fn add_by(&mut self, step: Change, deadline: Instant) {
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        self.steps.push(step);
    }

    /// Returns when the steps must be published.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Publishes all steps: they are in service when this returns. Returns the zones that went into service.
    ///
    /// # Errors
    /// If a zone was built under another hash key than the engine's: then none of the steps is published.
    pub(super) fn publish(&mut self) -> Result<Vec<Arc<Zone>>, Unpublished> {
        self.deadline = None;
        if self.steps.is_empty() {
            return Ok(Vec::new());
        }
        let served = self.steps.iter().filter_map(|step| match step {
            Change::Serve(zone) => Some(Arc::clone(zone)),
            Change::Unload(_) | Change::Remove(_) => None,
        });
        let served = served.collect();
        let old = self.engine.catalog();
        let new = old.with(std::mem::take(&mut self.steps)).map_err(Unpublished::Zone)?;
        self.engine.set_catalog(&Arc::new(new)).map_err(Unpublished::Catalog)?;
        self.retired.push(old);
        self.note_expiries();
        Ok(served)
    }

    /// Sets when a zone expires, once the zone is in the catalog, for which the steps
    /// added so far may have to be published.
    pub(super) fn set_expires(&mut self, apex: ZoneName, at: Option<UnixTime>) {
        self.expiries.push((apex, at));
        if self.steps.is_empty() {
            self.note_expiries();
        }
    }

    fn note_expiries(&mut self) {
        let catalog = self.engine.catalog();
        for (apex, at) in self.expiries.drain(..) {
            if let Some(entry) = catalog.get(apex.as_name()) {
                entry.set_expires(at);
            }
        }
    }

    /// Frees replaced catalogs that no worker reads any more. Done here, so that no query waits for it.
    /// Returns whether all are freed.
    pub(super) fn release(&mut self) -> bool {
        self.retired.retain(|catalog| Arc::strong_count(catalog) > 1);
        self.retired.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use query_path::{EngineConfig, Sources, Zones};
    use wire::hash::HashKey;
    use wire::{NameBuf, Ttl, Type};
    use zone::ZoneBuilder;

    use super::*;

    #[test]
    fn a_zone_of_another_key_is_not_published_nor_what_was_to_go_with_it() {
        let [ours, other] = [[1, 2, 3], [4, 5, 6]].map(HashKey::new);
        let zones = serving::frontend::serving(Zones::new(Arc::new(Catalog::new(&ours))));
        let engine = Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()));
        let mut publisher = Publisher::new(Arc::clone(&engine));
        let [good, foreign] = ["good.", "foreign."].map(|name| name.parse::<NameBuf>().expect("a name"));
        let mut builder = ZoneBuilder::new(foreign.as_name(), &other);
        builder.add(foreign.as_name(), Type::SOA, Ttl::from_secs(60), &[0; 22]).expect("a record");
        let zone = Arc::new(builder.finish().expect("a zone"));
        let now = Instant::now();
        publisher.add(Change::Unload(Box::new(good)), now);
        publisher.add(Change::Serve(zone), now);
        let refused = publisher.publish();
        assert!(
            matches!(&refused, Err(Unpublished::Zone(fault)) if fault.zone().as_name() == foreign.as_name())
        );
        assert!(engine.catalog().is_empty());
        // Later steps are published as usual.
        publisher.add(Change::Unload(Box::new(good)), now);
        assert!(publisher.publish().is_ok_and(|served| served.is_empty()));
        assert_eq!(engine.catalog().len(), 1);
    }
}
