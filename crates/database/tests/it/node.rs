//! A node of a test: a [`Database`] with a sink that keeps all versions, and calls that wait for their end.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use database::{
    CommitEnd, CommitStep, Database, DatabaseAdmin, DatabaseFault, DatabaseNode, DatabaseSettings,
    DatabaseSink, DatabaseUrl, KeySetVersion, ListedZone, NewZone, SchemaKind, SectionSet, ZoneCommit,
    ZoneContent, ZoneId, ZoneKeySet,
};
use testkit::postgres::{PostgresDatabase, PostgresServer};
use wire::hash::HashKey;
use wire::{NameBuf, Serial, ZoneName};
use zone::Zone;
use zone::load::{LoadConfig, load};
use zone::scan::TextSource;
use zone::store::diff;

/// Longest wait of a test for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The hash key of all tests.
pub(crate) fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

/// Settings for a node with this name.
pub(crate) fn settings(url: &str, node: &str) -> DatabaseSettings {
    DatabaseSettings {
        url: DatabaseUrl::parse(url).expect("a URL"),
        schema: SchemaKind::Own,
        poll: Duration::from_millis(200),
        node: node.into(),
        timeout: Duration::from_secs(10),
        keep_changes: Duration::from_secs(86_400),
        tls: None,
        key: key(),
        hosts: None,
        state: None,
    }
}

/// Returns a database with the schema.
pub(crate) fn fresh() -> PostgresDatabase {
    let database = PostgresServer::shared().database();
    assert_eq!(admin(&database).init(), Ok((0, database::SCHEMA_VERSION)));
    database
}

/// Connects as an operator's command does.
pub(crate) fn admin(database: &PostgresDatabase) -> DatabaseAdmin {
    DatabaseAdmin::connect(settings(&database.url(), "admin")).expect("a connection")
}

/// Builds a zone from records besides SOA and NS.
pub(crate) fn zone(name: &str, serial: u32, records: &str) -> Arc<Zone> {
    let text = format!("$TTL 60\n@ SOA ns1 admin {serial} 1 2 3 4\n@ NS ns1\nns1 A 192.0.2.1\n{records}\n");
    let origin: NameBuf = name.parse().expect("a name");
    let source = TextSource::bytes("test", text.as_bytes());
    let loaded =
        load(source, origin.as_name(), &key(), &LoadConfig::default(), |_| ControlFlow::Continue(()));
    Arc::new(loaded.expect("a zone").zone)
}

/// A zone to be created.
pub(crate) fn new_zone(content: &Arc<Zone>) -> NewZone {
    NewZone {
        apex: content.apex().into(),
        template: None,
        content: Arc::clone(content),
        author: "test".into(),
    }
}

/// The commit of one step from one version to another.
pub(crate) fn commit(id: ZoneId, before: &Arc<Zone>, after: &Arc<Zone>) -> ZoneCommit {
    let step = CommitStep { change: Arc::new(diff(before, after)), author: "key update-key.".into() };
    let (before, after) = (Arc::clone(before), Arc::clone(after));
    ZoneCommit {
        zone: id,
        apex: before.apex().into(),
        before,
        after,
        steps: vec![step],
        keys: None,
        since: Instant::now(),
    }
}

/// Asserts that two zones have the same records.
pub(crate) fn assert_same(a: &Zone, b: &Zone) {
    let change = diff(a, b);
    assert!(change.is_empty(), "{a:?} and {b:?} differ: {change:?}");
}

/// What a node has of a zone.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) apex: ZoneName,
    pub(crate) template: Option<String>,
    pub(crate) version: Option<Arc<Zone>>,
    pub(crate) unfit: Option<String>,
}

/// What a sink was called with, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Listed(usize),
    Created(ZoneId),
    Removed(ZoneId),
    Steps(ZoneId, usize),
    Whole(ZoneId, Serial),
    Unfit(ZoneId),
    Reached(bool, Option<String>),
}

/// A sink that keeps versions.
#[derive(Default)]
pub(crate) struct Sink {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    zones: HashMap<ZoneId, Held>,
    sections: SectionSet,
    keys: HashMap<ZoneId, ZoneKeySet>,
    /// Whether the node has zones to sign, and whether it is the one that signs them.
    has_zones_to_sign: bool,
    signs: bool,
    events: Vec<Event>,
}

impl Sink {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.state.lock().expect("no panic"));
        self.changed.notify_all();
        done
    }

    /// Waits until something holds.
    fn wait<T>(&self, what: &str, mut test: impl FnMut(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state.lock().expect("no panic");
        loop {
            if let Some(found) = test(&state) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} did not happen; events: {:?}", state.events);
            state = self.changed.wait_timeout(state, left).expect("no panic").0;
        }
    }

    /// Waits for a version of a zone.
    pub(crate) fn version(&self, id: ZoneId, serial: u32) -> Arc<Zone> {
        self.wait(&format!("serial {serial} of zone {id}"), |state| {
            let version = state.zones.get(&id)?.version.clone()?;
            (version.serial() == Serial(serial)).then_some(version)
        })
    }

    /// Waits for a zone that cannot be served, and returns the reason.
    pub(crate) fn unfit(&self, id: ZoneId) -> String {
        self.wait(&format!("zone {id} without use"), |state| state.zones.get(&id)?.unfit.clone())
    }

    /// Waits for the removal of a zone.
    pub(crate) fn gone(&self, id: ZoneId) {
        self.wait(&format!("removal of zone {id}"), |state| (!state.zones.contains_key(&id)).then_some(()));
    }

    /// Waits for the sections after this change.
    pub(crate) fn sections(&self, number: i64) -> SectionSet {
        self.wait(&format!("sections {number}"), |state| {
            (state.sections.number == number).then(|| state.sections.clone())
        })
    }

    /// Waits for keys of a zone with this number.
    pub(crate) fn keys(&self, id: ZoneId, number: i64) -> ZoneKeySet {
        self.wait(&format!("keys {number} of zone {id}"), |state| {
            state.keys.get(&id).filter(|keys| keys.version.number == number).cloned()
        })
    }

    /// Forgets the keys of all zones.
    pub(crate) fn forget_keys(&self) {
        self.change(|state| state.keys.clear());
    }

    /// Sets whether the node has zones to sign.
    pub(crate) fn set_has_zones_to_sign(&self, has: bool) {
        self.change(|state| state.has_zones_to_sign = has);
    }

    /// Waits until the node is the one that signs, or is not.
    pub(crate) fn signs(&self, signs: bool) {
        self.wait(&format!("signing {signs}"), |state| (state.signs == signs).then_some(()));
    }

    /// Waits for an event.
    pub(crate) fn event(&self, event: &Event) {
        self.wait(&format!("{event:?}"), |state| state.events.contains(event).then_some(()));
    }

    /// Waits until the database is not reached, and returns the reason.
    pub(crate) fn fault(&self) -> String {
        self.wait("a fault", |state| {
            state.events.iter().rev().find_map(|event| match event {
                Event::Reached(false, why) => why.clone(),
                _ => None,
            })
        })
    }

    /// Returns the events so far and forgets them.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        self.change(|state| std::mem::take(&mut state.events))
    }

    /// Returns what is held of a zone.
    pub(crate) fn held(&self, id: ZoneId) -> Option<Held> {
        self.state.lock().expect("no panic").zones.get(&id).cloned()
    }

    /// How many zones have a version.
    pub(crate) fn count(&self) -> usize {
        let state = self.state.lock().expect("no panic");
        state.zones.values().filter(|held| held.version.is_some()).count()
    }

    /// Waits until this many zones have a version.
    pub(crate) fn has(&self, count: usize) {
        self.wait(&format!("{count} zones"), |state| {
            (state.zones.len() >= count && state.zones.values().all(|held| held.version.is_some()))
                .then_some(())
        });
    }
}

impl DatabaseSink for Sink {
    fn listed(&self, zones: Vec<ListedZone>) -> Vec<Option<Serial>> {
        self.change(|state| {
            state.events.push(Event::Listed(zones.len()));
            state.zones.retain(|id, _| zones.iter().any(|zone| zone.id == *id));
            let mut at_hand = Vec::new();
            for ListedZone { id, apex, template, .. } in zones {
                let held =
                    state.zones.entry(id).or_insert(Held { apex, template, version: None, unfit: None });
                at_hand.push(held.version.as_ref().map(|version| version.serial()));
            }
            at_hand
        })
    }

    fn created(&self, zone: ListedZone) {
        self.change(|state| {
            state.events.push(Event::Created(zone.id));
            let ListedZone { id, apex, template, .. } = zone;
            let held =
                state.zones.entry(id).or_insert(Held { apex, template: None, version: None, unfit: None });
            held.template = template;
        });
    }

    fn removed(&self, zone: ZoneId, _: &ZoneName) {
        self.change(|state| {
            state.events.push(Event::Removed(zone));
            state.zones.remove(&zone);
        });
    }

    fn content(&self, zone: ZoneId, apex: &ZoneName, content: ZoneContent) {
        self.change(|state| {
            let held = state.zones.get_mut(&zone).expect("`created` or `listed` comes before content");
            assert_eq!(&held.apex, apex);
            state.events.push(match content {
                ZoneContent::Steps(steps) => {
                    let count = steps.len();
                    for step in steps {
                        let version = held.version.take().expect("a version before steps");
                        // Steps that the version has are skipped.
                        let is_next = version.serial() == step.before;
                        let next =
                            if is_next { Arc::new(version.apply(&step).expect("it fits")) } else { version };
                        held.version = Some(next);
                    }
                    Event::Steps(zone, count)
                }
                ZoneContent::Whole(version) => {
                    let serial = version.serial();
                    (held.version, held.unfit) = (Some(version), None);
                    Event::Whole(zone, serial)
                }
                ZoneContent::Unfit(why) => {
                    held.unfit = Some(why);
                    Event::Unfit(zone)
                }
            });
        });
    }

    fn keys_listed(&self, versions: &HashMap<ZoneId, KeySetVersion>) -> Vec<ZoneId> {
        self.change(|state| {
            state.keys.retain(|id, keys| versions.get(id) == Some(&keys.version));
            versions.keys().filter(|id| !state.keys.contains_key(id)).copied().collect()
        })
    }

    fn keys(&self, zone: ZoneId, apex: &ZoneName, keys: ZoneKeySet) {
        self.change(|state| {
            assert!(state.zones.get(&zone).is_none_or(|held| held.apex == *apex));
            state.keys.insert(zone, keys);
        });
    }

    fn has_zones_to_sign(&self) -> bool {
        self.state.lock().expect("no panic").has_zones_to_sign
    }

    fn signs(&self, signs: bool) {
        self.change(|state| state.signs = signs);
    }

    fn sections(&self, set: SectionSet, _: bool) {
        self.change(|state| state.sections = set);
    }

    fn reached(&self, connected: bool, why: Option<&str>) {
        self.change(|state| state.events.push(Event::Reached(connected, why.map(str::to_owned))));
    }
}

/// A node.
pub(crate) struct Node {
    pub(crate) database: Arc<Database>,
    pub(crate) sink: Arc<Sink>,
}

impl Node {
    /// Starts a node.
    pub(crate) fn start(url: &str, name: &str) -> Node {
        Node::with(settings(url, name), Arc::default())
    }

    /// Starts a node with what it held before.
    pub(crate) fn with(settings: DatabaseSettings, sink: Arc<Sink>) -> Node {
        let database =
            Database::start(settings, Arc::clone(&sink) as Arc<dyn DatabaseSink>).expect("a thread");
        Node { database, sink }
    }

    /// Waits until all of the database is handed on.
    pub(crate) fn current(&self) {
        self.until("all is read", |node| {
            let status = node.database.status();
            status.connected && status.current_at.is_some() && status.unread == 0
        });
    }

    /// Waits until something holds that has no event.
    pub(crate) fn until(&self, what: &str, test: impl Fn(&Node) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !test(self) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.database.status());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Reads the table of nodes until it is as expected. A connection that was just closed fails a question,
    /// and a node that was just started or stopped is not in the table or still in it.
    pub(crate) fn until_nodes(
        &self,
        what: &str,
        test: impl Fn(&[DatabaseNode]) -> bool,
    ) -> Vec<DatabaseNode> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (done, end) = channel();
            self.database.nodes(Box::new(move |rows| done.send(rows).expect("a receiver")));
            let rows = end.recv_timeout(PATIENCE).expect("an end");
            match rows {
                Ok(rows) if test(&rows) => return rows,
                rows => assert!(Instant::now() < deadline, "{what}: {rows:?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Creates a zone.
    pub(crate) fn create(&self, content: &Arc<Zone>) -> Result<ZoneId, DatabaseFault> {
        let (done, end) = channel();
        self.database.create(new_zone(content), Box::new(move |made| done.send(made).expect("a receiver")));
        end.recv_timeout(PATIENCE).expect("an end")
    }

    /// Removes a zone.
    pub(crate) fn remove(&self, id: ZoneId) -> Result<(), DatabaseFault> {
        let (done, end) = channel();
        self.database.remove(id, "test".into(), Box::new(move |made| done.send(made).expect("a receiver")));
        end.recv_timeout(PATIENCE).expect("an end")
    }

    /// Commits and waits for the end.
    pub(crate) fn commit(&self, commit: ZoneCommit) -> CommitEnd {
        self.commit_later(commit)()
    }

    /// Commits; the result waits for the end.
    pub(crate) fn commit_later(&self, commit: ZoneCommit) -> impl FnOnce() -> CommitEnd + use<> {
        let (done, end) = channel();
        self.database.commit(commit, Box::new(move |made| done.send(made).expect("a receiver")));
        move || end.recv_timeout(PATIENCE).expect("an end")
    }
}
