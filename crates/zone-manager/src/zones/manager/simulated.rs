//! The publishing thread and the states of zones, for simulations: they run only when the simulation says so.

use std::sync::mpsc::Receiver;

use query_path::{EngineConfig, Sources, Zones};
use zone::catalog::Catalog;

use super::*;
use crate::managed::state::ZoneAction;

/// The states of zones, and the publishing thread.
pub(crate) struct SimulatedZones {
    thread: PublishingThread,
    executor: Arc<Executor>,
    engine: Arc<Engine<Served>>,
    pub(crate) handle: PublishHandle,
    pub(crate) table: Arc<ZoneTable>,
    _messages: Receiver<Message>,
}

impl SimulatedZones {
    /// Returns a manager without zones. The stores of `differences` hold the changes of zone files.
    pub(crate) fn new(
        key: &HashKey,
        differences: Arc<Differences>,
        background: &Arc<Background>,
    ) -> SimulatedZones {
        let zones = serving::frontend::serving(Zones::new(Arc::new(Catalog::new(key))));
        let engine = Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()));
        let (handle, inbox) = ZoneManagerHandle::new();
        let table = Arc::<ZoneTable>::default();
        let executor = Arc::new(Executor {
            publishing: handle.publishing.clone(),
            manager: handle.messages.clone(),
            examiner: None,
            secondaries: None,
            changes: None,
            differences: Some(differences),
            background: Arc::clone(background),
            special: RwLock::default(),
            policy_zones: None,
        });
        let ZoneManagerInbox { messages, publishing } = inbox;
        let publisher = Publisher::new(Arc::clone(&engine)).signed_by(table.states.online());
        let (of_thread, states) = (Arc::clone(&executor), Arc::clone(&table));
        let thread = PublishingThread::new(states, of_thread, publisher, None, publishing);
        SimulatedZones { thread, executor, engine, handle: handle.publishing(), table, _messages: messages }
    }

    /// Adds a zone, and begins its load.
    pub(crate) fn want(&self, spec: ZoneSpec) {
        let (apex, text) = (spec.apex.clone(), spec.text.clone());
        write(&self.table.states.zones).insert(apex.clone(), ManagedZone::new(spec));
        self.event(&apex, ZoneEvent::Wanted(text, ReadWhen::IfChanged));
    }

    /// Reloads a zone, and begins its load.
    pub(crate) fn want_again(&self, apex: &ZoneName) {
        let text = self.table.get(apex).map(|status| status.spec.text.clone());
        text.into_iter().for_each(|text| self.event(apex, ZoneEvent::Wanted(text, ReadWhen::Anyway)));
    }

    /// Ends the load of a zone in progress.
    pub(crate) fn loaded(&self, apex: &ZoneName, number: u32, looked: Looked) {
        self.event(apex, ZoneEvent::Looked(number, looked));
    }

    /// Reports a version of a produced catalog zone, or why there is none.
    pub(crate) fn produced(&self, apex: &ZoneName, made: Result<Arc<Zone>, impl std::fmt::Display>) {
        let made = made.map_err(|fault| Arc::new(ZoneFault::without_place(fault.to_string())));
        self.event(apex, ZoneEvent::Produced(made, SystemTime::UNIX_EPOCH));
    }

    fn event(&self, apex: &ZoneName, event: ZoneEvent) {
        let mut states = write(&self.table.states.zones);
        let Some(zone) = states.get_mut(apex) else { return };
        let actions: Vec<ZoneAction> = zone.state.handle(event);
        let _ = self.executor.carry_out(apex, actions);
    }

    /// Runs the publishing thread on the queued messages, and publishes all steps.
    pub(crate) fn run(&mut self) {
        self.thread.turn_from(None);
        let (reply, _replied) = sync_channel(1);
        self.thread.turn_from(Some(Publishing::Flush(reply)));
        self.thread.turn_from(None);
    }

    /// Returns the version in service.
    pub(crate) fn served(&self, apex: &ZoneName) -> Option<Arc<Zone>> {
        let catalog = self.engine.catalog();
        catalog.get(apex.as_name())?.zone().cloned()
    }
}
