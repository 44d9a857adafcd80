//! Puts zones into service: collects the steps of zone states, and makes one catalog for all zones that
//! changed at about the same time. Nothing else changes the catalog of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use query_path::{Engine, ViewClients, Views, WrongCatalogKey};
use serving::frontend::Served;
use wire::{UnixTime, ViewName, ZoneName};
use zone::Zone;
use zone::catalog::{Catalog, Change, WrongKey, ZoneEntry};
use zone_plan::{QueryGrants, ZoneQueries};

use super::zone_access::ZoneRules;
use crate::managed::online::OnlineSigners;

/// Longest time that a step waits for others.
const MAX_STEP_DELAY: Duration = Duration::from_secs(1);

/// Makes the catalogs. Used by the publishing thread only.
pub(super) struct Publisher {
    engine: Arc<Engine<Served>>,
    steps: Vec<(ZoneName, Change)>,
    /// When the steps must be published.
    deadline: Option<Instant>,
    /// Expiry times of zones, to set once the steps are published.
    expiries: Vec<(ZoneName, Option<UnixTime>)>,
    /// Replaced catalogs that workers may still be reading.
    retired: Vec<Arc<Catalog>>,
    /// The catalogs of views: those in service, and those whose zones come before their clients.
    views: BTreeMap<ViewName, Arc<Catalog>>,
    /// Which clients are in which view from the next catalog on.
    clients: Option<Arc<ViewClients>>,
    /// Whether that is still to be published.
    new_clients: bool,
    /// Who may query which zone.
    rules: ZoneRules,
    /// What signs the answers of zones.
    signers: Arc<OnlineSigners>,
}

/// The catalogs after some steps, not in service yet.
struct NextCatalogs {
    outside: Arc<Catalog>,
    views: BTreeMap<ViewName, Arc<Catalog>>,
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
        Publisher {
            engine,
            steps: Vec::new(),
            deadline: None,
            expiries: Vec::new(),
            retired: Vec::new(),
            views: BTreeMap::new(),
            clients: None,
            new_clients: false,
            rules: ZoneRules::default(),
            signers: Arc::default(),
        }
    }

    /// Returns the publisher with these signers of answers.
    pub(super) fn signed_by(self, signers: &Arc<OnlineSigners>) -> Self {
        Publisher { signers: Arc::clone(signers), ..self }
    }

    /// Adds a step, to be published together with others.
    pub(super) fn add(&mut self, apex: ZoneName, step: Change, now: Instant) {
        self.add_by(apex, step, now + MAX_STEP_DELAY);
    }

    /// Adds a step that waits for no others: it is published once the queued messages are handled.
    pub(super) fn add_at_once(&mut self, apex: ZoneName, step: Change, now: Instant) {
        self.add_by(apex, step, now);
    }

    fn add_by(&mut self, apex: ZoneName, step: Change, deadline: Instant) {
        self.be_due(deadline);
        self.steps.push((apex, step));
    }

    fn be_due(&mut self, deadline: Instant) {
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    /// Sets which clients are in which view, together with the steps added so far.
    pub(super) fn set_views(&mut self, clients: Option<Arc<ViewClients>>, now: Instant) {
        (self.clients, self.new_clients) = (clients, true);
        self.be_due(now);
    }

    /// Takes who may query which zone, of all zones.
    pub(super) fn set_queries(&mut self, queries: ZoneQueries) {
        let outside = self.engine.catalog();
        self.rules.set(queries, &self.engine, &|apex| entry_of(apex, &outside, &self.views));
    }

    /// Takes who may query these zones.
    pub(super) fn change_queries(&mut self, changes: Vec<(ZoneName, Option<QueryGrants>)>, now: Instant) {
        let outside = self.engine.catalog();
        self.rules.change(changes, &self.engine, &|apex| entry_of(apex, &outside, &self.views));
        if self.rules.has_freed() {
            self.be_due(now);
        }
    }

    /// Frees zones that are in no rules any more, together with the steps added so far.
    pub(super) fn settle_queries(&mut self, now: Instant) {
        if self.rules.settle() {
            self.be_due(now);
        }
    }

    /// Returns when the steps must be published.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Publishes all steps: they are in service when this returns. Returns the zones that went into service.
    ///
    /// # Errors
    /// If a zone was built under another hash key than the engine's: then none of the steps is published.
    pub(super) fn publish(&mut self) -> Result<Vec<(ZoneName, Arc<Zone>)>, Unpublished> {
        self.deadline = None;
        if self.steps.is_empty() && !self.new_clients && !self.rules.has_freed() {
            return Ok(Vec::new());
        }
        let served = self.steps.iter().filter_map(|(apex, step)| match step {
            Change::Serve(zone) => Some((apex.clone(), Arc::clone(zone))),
            Change::Unload(_) | Change::Remove(_) => None,
        });
        let served: Vec<(ZoneName, Arc<Zone>)> = served.collect();
        let steps = std::mem::take(&mut self.steps);
        let limited: Vec<ZoneName> = match self.rules.is_empty() {
            true => Vec::new(),
            false => steps.iter().map(|(apex, _)| apex.clone()).collect(),
        };
        let old = self.engine.catalog();
        let NextCatalogs { outside, mut views } = self.next(&old, steps).map_err(Unpublished::Zone)?;
        if self.new_clients {
            // The catalog of a view without clients stays while it has zones.
            let clients = self.clients.as_ref().map_or(&[][..], |clients| clients.names());
            views.retain(|view, catalog| {
                clients.contains(view) || catalog.iter().any(|entry| entry.is_in_view())
            });
        }
        let of_clients = self.clients.as_ref().map(|clients| {
            let of_view = |view: &ViewName| Arc::clone(views.get(view).unwrap_or(&outside));
            Arc::new(Views::new(clients, of_view))
        });
        self.rules.before_service(limited.iter(), &|apex| entry_of(apex, &outside, &views));
        self.signers.before_service(&served, &|apex| entry_of(apex, &outside, &views));
        self.engine.set_catalogs(&outside, of_clients.as_ref()).map_err(Unpublished::Catalog)?;
        self.new_clients = false;
        let before = std::mem::replace(&mut self.views, views);
        let in_use = |catalog: &Arc<Catalog>| {
            self.views.values().chain([&outside]).any(|used| Arc::ptr_eq(used, catalog))
        };
        self.retired.extend(before.into_values().chain([old]).filter(|catalog| !in_use(catalog)));
        self.note_expiries();
        self.rules.once_in_service(&self.engine, &|apex| entry_of(apex, &outside, &self.views));
        Ok(served)
    }

    /// Returns the catalogs after some steps.
    fn next(&self, old: &Arc<Catalog>, steps: Vec<(ZoneName, Change)>) -> Result<NextCatalogs, WrongKey> {
        let (of_views, of_outside): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|(apex, _)| apex.is_in_view());
        let mut own: BTreeMap<ViewName, Vec<Change>> = BTreeMap::new();
        for (apex, change) in of_views {
            apex.to_view().into_iter().for_each(|view| own.entry(view).or_default().push(change.clone()));
        }
        let names = self.clients.iter().flat_map(|clients| clients.names());
        let all: BTreeSet<ViewName> = names.chain(self.views.keys()).chain(own.keys()).cloned().collect();
        let (mut changed, mut changes) = (Vec::new(), Vec::new());
        for (apex, change) in of_outside {
            // A server without views has no need of the names.
            changed.extend((!all.is_empty()).then_some(apex));
            changes.push(change);
        }
        let outside = if changes.is_empty() { Arc::clone(old) } else { Arc::new(old.with(changes)?) };
        let mut views = BTreeMap::new();
        for view in all {
            let (present, own) =
                (self.views.get(&view).unwrap_or(old), own.remove(&view).unwrap_or_default());
            let next = match own.is_empty() && Arc::ptr_eq(old, &outside) {
                true => Arc::clone(present),
                false => {
                    Arc::new(present.over(old, &outside, changed.iter().map(ZoneName::as_lower), own)?)
                }
            };
            views.insert(view, next);
        }
        Ok(NextCatalogs { outside, views })
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
        let (outside, views) = (self.engine.catalog(), &self.views);
        for (apex, at) in self.expiries.drain(..) {
            if let Some(entry) = entry_of(&apex, &outside, views) {
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

/// Returns the entry of a zone in these catalogs.
fn entry_of(
    apex: &ZoneName,
    outside: &Arc<Catalog>,
    views: &BTreeMap<ViewName, Arc<Catalog>>,
) -> Option<ZoneEntry> {
    let catalog = match apex.view() {
        None => Some(outside),
        Some(view) => views.get(view),
    };
    let entry = catalog.and_then(|catalog| catalog.get(apex.as_name()))?;
    Some(entry.clone()).filter(|entry| entry.is_in_view() == apex.is_in_view())
}

#[cfg(test)]
mod tests {
    use query_path::access::{AccessAction, AccessRule};
    use query_path::{EngineConfig, Sources, ViewRule, Zones};
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
        publisher.add(good.as_name().into(), Change::Unload(Box::new(good)), now);
        publisher.add(foreign.as_name().into(), Change::Serve(zone), now);
        let refused = publisher.publish();
        assert!(
            matches!(&refused, Err(Unpublished::Zone(fault)) if fault.zone().as_name() == foreign.as_name())
        );
        assert!(engine.catalog().is_empty());
        // Later steps are published as usual.
        publisher.add(good.as_name().into(), Change::Unload(Box::new(good)), now);
        assert!(publisher.publish().is_ok_and(|served| served.is_empty()));
        assert_eq!(engine.catalog().len(), 1);
    }

    #[test]
    fn catalogs_of_views_follow_and_those_before_are_released() {
        let key = HashKey::new([1, 2, 3]);
        let zones = serving::frontend::serving(Zones::new(Arc::new(Catalog::new(&key))));
        let engine = Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()));
        let mut publisher = Publisher::new(Arc::clone(&engine));
        let view: ViewName = "inside".parse().expect("the name of a view");
        let now = Instant::now();
        let unload = |publisher: &mut Publisher, name: &str, view: Option<&ViewName>| {
            let name: NameBuf = name.parse().expect("a name");
            let apex = ZoneName::in_view(name.as_name().to_lower().as_lower(), view);
            publisher.add(apex, Change::Unload(Box::new(name)), now);
        };
        let publish = |publisher: &mut Publisher| {
            publisher.publish().expect("zones of the engine's key");
            // No worker reads a catalog, so the publishing thread has nothing to wait for.
            assert!(publisher.release());
            let of_view = engine.catalog_of(Some("inside")).map(|catalog| catalog.len());
            (engine.catalog().len(), of_view)
        };
        // The zones of a view may come before its clients.
        unload(&mut publisher, "a.", Some(&view));
        unload(&mut publisher, "b.", None);
        assert_eq!(publish(&mut publisher), (1, None));
        let clients =
            AccessRule { action: AccessAction::Allow, from: Vec::new(), local: None, transports: None };
        let rule = ViewRule { name: view.clone(), clients, keys: Vec::new() };
        let clients = Arc::new(ViewClients::new(&[rule]).expect("one view"));
        publisher.set_views(Some(Arc::clone(&clients)), now);
        assert_eq!(publish(&mut publisher), (1, Some(2)));
        unload(&mut publisher, "c.", None);
        assert_eq!(publish(&mut publisher), (2, Some(3)));
        // The same clients again change nothing.
        publisher.set_views(Some(clients), now);
        assert_eq!(publish(&mut publisher), (2, Some(3)));
        unload(&mut publisher, "b.", Some(&view));
        assert_eq!(publish(&mut publisher), (2, Some(3)));
        publisher.set_views(None, now);
        assert_eq!(publish(&mut publisher), (2, None));
        publisher.set_views(None, now);
        assert_eq!(publish(&mut publisher), (2, None));
    }
}
