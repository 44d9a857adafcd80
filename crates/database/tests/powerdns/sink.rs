//! A node of a test: a [`Database`] with a sink that keeps versions.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use database::{
    Database, DatabaseSettings, DatabaseSink, DatabaseStatus, DatabaseUrl, ListedZone, PowerDnsReader,
    SchemaKind, ZoneContent, ZoneId,
};
use testkit::postgres::{PostgresDatabase, PostgresServer};
use wire::hash::HashKey;
use wire::{Name, Serial, Type, ZoneName, rdata};
use zone::Zone;

use crate::TABLES;

/// Longest wait of a test for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

pub(crate) fn settings(url: &str) -> DatabaseSettings {
    DatabaseSettings {
        url: DatabaseUrl::parse(url).expect("a URL"),
        schema: SchemaKind::PowerDns,
        poll: Duration::from_millis(100),
        node: "test".into(),
        timeout: Duration::from_secs(10),
        keep_changes: Duration::from_secs(86_400),
        tls: None,
        key: key(),
        hosts: None,
        state: None,
    }
}

/// A database with the tables of PowerDNS.
pub(crate) fn fresh() -> PostgresDatabase {
    let database = PostgresServer::shared().database();
    database.sql(TABLES);
    database
}

/// Makes a domain with SOA, NS and an address, and returns its id.
pub(crate) fn domain(database: &PostgresDatabase, name: &str, serial: u32) -> ZoneId {
    let id =
        database.sql(&format!("INSERT INTO domains (name, type) VALUES ('{name}', 'NATIVE') RETURNING id"));
    let soa = format!("ns1.{name} h.{name} {serial} 10800 3600 604800 3600");
    for (owner, rtype, content) in [
        (name, "SOA", soa.as_str()),
        (name, "NS", &format!("ns1.{name}")),
        (&format!("ns1.{name}"), "A", "192.0.2.1"),
    ] {
        row(database, &id, owner, rtype, content);
    }
    ZoneId(id.parse().expect("a number"))
}

/// Adds a row.
pub(crate) fn row(database: &PostgresDatabase, id: &str, name: &str, rtype: &str, content: &str) {
    database.sql(&format!(
        "INSERT INTO records (domain_id, name, type, content, ttl, prio) \
         VALUES ({id}, '{name}', '{rtype}', '{}', 60, 0)",
        content.replace('\'', "''")
    ));
}

/// Returns the data of an RRset as text, sorted.
pub(crate) fn data(zone: &Zone, name: &str, rtype: Type) -> Vec<String> {
    let name: wire::NameBuf = name.parse().expect("a name");
    let find = |name: Name<'_>| zone.find_name(name).and_then(|node| node.rrset(rtype));
    let Some(set) = find(name.as_name()) else { return Vec::new() };
    let mut found: Vec<String> = set
        .rdatas()
        .map(|rdata| {
            let (mut wire, mut text) = (Vec::new(), String::new());
            rdata.copy_to(&mut wire);
            rdata::write_text(rtype, &wire, &mut text).expect("written");
            text
        })
        .collect();
    found.sort();
    found
}

/// Reads one domain as a command does.
pub(crate) fn read(database: &PostgresDatabase, id: ZoneId) -> Result<Arc<Zone>, String> {
    let mut reader = PowerDnsReader::connect(settings(&database.url())).expect("a connection");
    let listed = reader.zones().expect("a list");
    let zone: Vec<ListedZone> = listed.into_iter().filter(|zone| zone.id == id).collect();
    let mut found = Err("not listed".into());
    let read = reader.contents(&zone, &mut |_, _, content| {
        found = match content {
            ZoneContent::Whole(zone) => Ok(zone),
            ZoneContent::Unfit(why) => Err(why),
            ZoneContent::Steps(_) => panic!("no steps"),
        };
    });
    read.expect("read");
    found
}

/// What a node has of a domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    pub(crate) version: Option<Arc<Zone>>,
    pub(crate) unfit: Option<String>,
    /// How often content came.
    pub(crate) contents: usize,
}

#[derive(Debug, Default)]
struct State {
    zones: HashMap<ZoneId, Held>,
    connects: usize,
    fault: Option<String>,
}

/// A sink that keeps versions.
#[derive(Default)]
pub(crate) struct Sink {
    state: Mutex<State>,
    changed: Condvar,
}

impl Sink {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.state.lock().expect("no panic"));
        self.changed.notify_all();
        done
    }
}

impl DatabaseSink for Sink {
    fn listed(&self, zones: Vec<ListedZone>) -> Vec<Option<Serial>> {
        self.change(|state| {
            state.zones.retain(|id, _| zones.iter().any(|zone| zone.id == *id));
            let held = |zone: &ListedZone| {
                state.zones.entry(zone.id).or_default().version.as_ref().map(|v| v.serial())
            };
            zones.iter().map(held).collect()
        })
    }

    fn created(&self, zone: ListedZone) {
        self.change(|state| state.zones.insert(zone.id, Held::default()));
    }

    fn removed(&self, zone: ZoneId, _: &ZoneName) {
        self.change(|state| state.zones.remove(&zone));
    }

    fn content(&self, zone: ZoneId, _: &ZoneName, content: ZoneContent) {
        self.change(|state| {
            let held = state.zones.get_mut(&zone).expect("`created` or `listed` comes before content");
            held.contents += 1;
            match content {
                ZoneContent::Whole(version) => (held.version, held.unfit) = (Some(version), None),
                ZoneContent::Unfit(why) => held.unfit = Some(why),
                ZoneContent::Steps(_) => panic!("PowerDNS has no steps"),
            }
        });
    }

    fn reached(&self, connected: bool, why: Option<&str>) {
        self.change(|state| match connected {
            true => state.connects += 1,
            false => state.fault = why.map(str::to_owned),
        });
    }
}

/// A node.
pub(crate) struct Node {
    pub(crate) database: Arc<Database>,
    pub(crate) sink: Arc<Sink>,
}

impl Node {
    pub(crate) fn start(url: &str) -> Node {
        let sink = Arc::new(Sink::default());
        let database = Database::start(settings(url), Arc::clone(&sink) as Arc<dyn DatabaseSink>);
        Node { database: database.expect("a thread"), sink }
    }

    fn wait<T>(&self, what: &str, mut test: impl FnMut(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.sink.state.lock().expect("no panic");
        loop {
            if let Some(found) = test(&state) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} did not happen: {state:?}");
            state = self.sink.changed.wait_timeout(state, left).expect("no panic").0;
        }
    }

    /// Waits until a domain is held so.
    pub(crate) fn until(&self, what: &str, id: ZoneId, mut test: impl FnMut(&Held) -> bool) -> Held {
        self.wait(what, |state| state.zones.get(&id).filter(|held| test(held)).cloned())
    }

    /// Waits for a version with this serial.
    pub(crate) fn version(&self, id: ZoneId, serial: u32) -> Arc<Zone> {
        let is_it =
            |held: &Held| held.version.as_ref().is_some_and(|version| version.serial() == Serial(serial));
        self.until(&format!("serial {serial}"), id, is_it).version.expect("a version")
    }

    pub(crate) fn gone(&self, id: ZoneId) {
        self.wait("the removal", |state| (!state.zones.contains_key(&id)).then_some(()));
    }

    pub(crate) fn connects(&self, count: usize) {
        self.wait("a connection", |state| (state.connects >= count).then_some(()));
    }

    /// Waits for a reason why there is no connection that has this text.
    pub(crate) fn fault(&self, text: &str) {
        self.wait(text, |state| state.fault.as_ref().filter(|why| why.contains(text)).map(|_| ()));
    }

    /// Waits for a status.
    pub(crate) fn status(&self, what: &str, test: impl Fn(&DatabaseStatus) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.database.status();
            if test(&status) {
                return;
            }
            assert!(Instant::now() < deadline, "{what}: {status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
