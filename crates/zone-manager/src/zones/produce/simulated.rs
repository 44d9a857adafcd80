//! The producer of catalog zones, for simulations: its background work ends when the simulation says so.

use std::path::Path;
use std::sync::RwLock;
use std::sync::mpsc::{Receiver, channel};

use journal::Disk;

use super::*;

/// The producer of one catalog zone on a simulated disk.
pub(crate) struct SimulatedProducer {
    producer: Producer,
    catalog: ZoneName,
    events: Receiver<ProducerEvent>,
}

impl SimulatedProducer {
    /// Opens the stores on a disk, and the catalog zone, which lists these zones.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        key: &HashKey,
        background: &Arc<Background>,
        catalog: ZoneName,
        zones: impl Iterator<Item = ZoneName>,
    ) -> Result<SimulatedProducer, StoreFault> {
        let (sender, events) = channel();
        let send: OnProducerEvent = Arc::new(move |event| drop(sender.send(event)));
        let stores = ZoneStores::open(disk, Path::new("/"), FOLDER, Arc::clone(background))?;
        let produced = ProducedStores { zones: RwLock::default(), stores: stores.into() };
        let producer = Producer::open(None, Arc::new(produced), Arc::clone(background), send);
        let mut opened = SimulatedProducer { producer, catalog, events };
        let plan = ProducedPlan { apex: opened.catalog.clone(), max_removed: 1.0 };
        let listings = zones.map(|zone| (zone, opened.listing())).collect();
        opened.producer.configure(vec![plan], listings, key);
        Ok(opened)
    }

    fn listing(&self) -> Arc<Listing> {
        Arc::new(Listing { catalog: self.catalog.clone(), group: None, new_owner: None })
    }

    /// Adds a zone to the list, or removes it.
    pub(crate) fn list(&mut self, zone: &ZoneName, is_listed: bool) {
        let listing = is_listed.then(|| self.listing());
        self.producer.list(zone, listing);
    }

    /// Makes the version that follows from the list. Returns the version to serve or the fault, if any.
    pub(crate) fn produce(&mut self) -> Vec<Produced> {
        self.producer.produce(Removal::HoldBack).into_iter().map(|(_, made)| made).collect()
    }

    /// Whether versions are being stored.
    pub(crate) fn is_storing(&self) -> bool {
        !self.producer.has_stored(self.producer.last_order())
    }

    /// Handles the next event. Returns `None` if there is none.
    pub(crate) fn run(&mut self) -> Option<Vec<Produced>> {
        let event = self.events.try_recv().ok()?;
        Some(self.producer.ended(event).into_iter().map(|(_, made)| made).collect())
    }
}
