//! Tests of a server that follows a database: which zones it serves, and from where.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ::database::{CommitEnd, OnCommit, ZoneCommit};
use journal::RealDisk;
use query_path::{Engine, EngineConfig, Sources, Zones};
use serving::frontend::{Served, serving};
use tempfile::TempDir;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;
use wire::hash::HashKey;
use wire::{NameBuf, Ttl, Type};
use zone::catalog::Catalog;
use zone::{Zone, ZoneBuilder};
use zone_plan::WantedZones;

use super::*;
use crate::changes::{ChangeAuthor, ChangesFault, EditEnd, RrsetEdit, RrsetEditKind, ZoneEdit};
use crate::database::{ZoneDatabase, ZoneTruth};
use crate::zones::manager::{Removal, ZoneManager, ZoneManagerParts, ZoneTable};
use crate::zones::resolve::resolve;
use threads::background::Background;
use threads::sync::lock;

/// Longest wait for what another thread does.
const MOST_WAIT: Duration = Duration::from_secs(60);

fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

fn apex(name: &str) -> ZoneName {
    name.parse::<NameBuf>().expect("a name").as_name().into()
}

fn version(of: &str, serial: u32) -> Arc<Zone> {
    let name: NameBuf = of.parse().expect("a name");
    let mut builder = ZoneBuilder::new(name.as_name(), &key());
    let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
    builder.add(name.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
    builder.add(name.as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("a record");
    Arc::new(builder.finish().expect("a zone"))
}

fn listed(id: i64, of: &str, serial: u32) -> ListedZone {
    ListedZone { id: ZoneId(id), apex: apex(of), template: None, serial: Serial(serial) }
}

/// A database that is never reached. It has the numbers of the zones that were asked for, and, if it is to
/// keep them, the commits that wait, each with the number of its zone.
#[derive(Default)]
struct Silent(Mutex<Vec<i64>>, Mutex<Option<Vec<(i64, OnCommit)>>>);

impl ZoneTruth for Silent {
    fn commit(&self, commit: ZoneCommit, end: OnCommit) {
        match &mut *lock(&self.1) {
            Some(waiting) => waiting.push((commit.zone.0, end)),
            None => end(CommitEnd::Unavailable("it is silent".into())),
        }
    }

    fn fetch(&self, zone: ZoneId, _: ZoneName) {
        lock(&self.0).push(zone.0);
    }
}

struct Server {
    manager: ZoneManagerHandle,
    table: Arc<ZoneTable>,
    changes: Arc<Changes>,
    follower: Arc<DatabaseFollower>,
    silent: Arc<Silent>,
    engine: Arc<Engine<Served>>,
    thread: std::thread::JoinHandle<()>,
}

/// Reads the configuration of a folder.
fn read(folder: &Path) -> (config::Settings, WantedZones) {
    let accepted = config::read_service(&folder.join("nomen.toml"), |_| None, None);
    let config = accepted.unwrap_or_else(|rejected| panic!("{rejected}")).config;
    let wanted = resolve(&config).expect("zones");
    (config.settings, wanted)
}

/// Returns a folder with a configuration: a database, and a zone of its own.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[server]\nstate-dir = \"state\"\nmax-removed = 0.5\n[database]\nurl = \"postgresql://a@b/c\"\n\
                template = \"all\"\n[template.all]\napi = true\n\
                [[zone]]\nname = \"own.\"\nfile = \"own.zone\"\napi = true\n";
    std::fs::write(folder.path().join("nomen.toml"), text).expect("written");
    std::fs::write(folder.path().join("own.zone"), "@ 60 SOA . . 7 0 0 0 0\n@ 60 NS .\n").expect("written");
    folder
}

impl Server {
    fn start(folder: &TempDir) -> Server {
        let (path, state) = (folder.path().to_owned(), folder.path().join("state"));
        let (settings, wanted) = read(&path);
        let zones = serving(Zones::new(Arc::new(Catalog::new(&key()))));
        let engine = Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()));
        let ((manager, inbox), table) = (ZoneManagerHandle::new(), Arc::<ZoneTable>::default());
        let background = Background::new();
        let changes = loop {
            let (publishing, states) = (manager.publishing(), Arc::clone(table.states()));
            match Changes::start(&engine, &settings, &state, &background, publishing, states) {
                Ok(changes) => break changes,
                // Threads of the run before still end.
                Err(ChangesFault::Folder(journal::StoreFault::Locked(_))) => std::thread::yield_now(),
                Err(fault) => panic!("{fault}"),
            }
        };
        let database = loop {
            match ZoneDatabase::open(Arc::new(RealDisk), &state, &background) {
                Ok(database) => break database,
                Err(journal::StoreFault::Locked(_)) => std::thread::yield_now(),
                Err(fault) => panic!("{fault}"),
            }
        };
        let silent = Arc::<Silent>::default();
        database.believe(silent.clone());
        changes.use_database(database);
        let parts = ZoneManagerParts {
            engine: Arc::clone(&engine),
            table: Arc::clone(&table),
            prepare: Box::new(move |accept| {
                let (_, wanted) = read(&path);
                accept(&wanted).map(|()| wanted)
            }),
            images: None,
            secondaries: None,
            transfers: None,
            changes: Some(Arc::clone(&changes)),
            differences: None,
            local_root: None,
            policy_zones: None,
            produced: Arc::default(),
            state: Some(state),
            documents: None,
            background,
        };
        let mut thread = ZoneManager::start(&manager, inbox, parts).expect("a thread");
        thread.load_first(wanted);
        let thread = std::thread::spawn(move || thread.work());
        let follower = DatabaseFollower::new(&manager, Arc::clone(&changes), Box::new(|_, _| {}));
        Server { manager, table, changes, follower, silent, engine, thread }
    }

    /// Waits until a zone is served with a serial number; `None`: until it is not served.
    fn wait_for(&self, zone: &str, serial: Option<u32>) {
        let begun = Instant::now();
        while self.serial(zone) != serial {
            assert!(begun.elapsed() < MOST_WAIT, "{zone} has serial {:?}, not {serial:?}", self.serial(zone));
            std::thread::yield_now();
        }
    }

    /// Waits for a commit. Returns the number of its zone, and what ends it.
    fn commit(&self) -> (i64, OnCommit) {
        let begun = Instant::now();
        loop {
            if let Some(commit) = lock(&self.silent.1).as_mut().and_then(Vec::pop) {
                return commit;
            }
            assert!(begun.elapsed() < MOST_WAIT, "no commit comes");
            std::thread::yield_now();
        }
    }

    fn serial(&self, zone: &str) -> Option<u32> {
        self.engine.zone_entry(&apex(zone)).and_then(|entry| entry.zone().map(|zone| zone.serial().0))
    }

    fn send(&self, id: i64, zone: &str, serial: u32) {
        self.follower.content(ZoneId(id), &apex(zone), ZoneContent::Whole(version(zone, serial)));
    }

    /// Begins a change of a zone, and returns what its end comes from.
    fn edit(&self, zone: &str, address: u8) -> Receiver<EditEnd> {
        let kind = RrsetEditKind::Replace { ttl: Ttl::from_secs(60), rdatas: vec![vec![192, 0, 2, address]] };
        let owner: NameBuf = format!("n{address}.{zone}").parse().expect("a name");
        let edits = vec![RrsetEdit { owner, rtype: Type::A, kind }];
        let by =
            ChangeAuthor::Program { token: "test".into(), address: std::net::Ipv4Addr::LOCALHOST.into() };
        self.changes.edit(&apex(zone), ZoneEdit { edits, at_serial: None, by })
    }

    fn reload(&self, removal: Removal) {
        self.manager.reload(removal).blocking_recv().expect("an answer").expect("a configuration");
    }

    fn stop(self) {
        self.changes.stop();
        self.changes.database().expect("a database").stop();
        self.manager.stop();
        self.thread.join().expect("the thread ends");
    }
}

/// Waits for the end of a change.
fn ended(mut change: Receiver<EditEnd>) -> EditEnd {
    let begun = Instant::now();
    loop {
        match change.try_recv() {
            Ok(end) => return end,
            Err(TryRecvError::Empty) => assert!(begun.elapsed() < MOST_WAIT, "a change does not end"),
            Err(TryRecvError::Closed) => panic!("a change ends without a word"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn zones_of_a_database_come_stay_over_a_restart_and_go() {
    let folder = folder();
    let server = Server::start(&folder);
    let all = || vec![listed(1, "a.", 5), listed(2, "own.", 9), listed(3, "b.", 6)];
    // The zone of the configuration has precedence, and its content is not wanted.
    assert_eq!(server.follower.listed(all()), [None, Some(Serial(9)), None]);
    server.send(1, "a.", 5);
    server.send(3, "b.", 6);
    server.wait_for("a.", Some(5));
    server.wait_for("b.", Some(6));
    assert_eq!(server.serial("own."), Some(7));
    server.reload(Removal::HoldBack);
    assert_eq!((server.serial("a."), server.serial("b.")), (Some(5), Some(6)));
    let step = zone::store::diff(&version("a.", 5), &version("a.", 8));
    server.follower.content(ZoneId(1), &apex("a."), ZoneContent::Steps(vec![Arc::new(step)]));
    server.wait_for("a.", Some(8));
    // Content of a zone that was removed and created anew meanwhile is not of this one.
    server.send(7, "a.", 9);
    server.follower.created(listed(4, "c.", 1));
    server.send(4, "c.", 1);
    server.wait_for("c.", Some(1));
    assert_eq!(server.serial("a."), Some(8));
    server.stop();

    // Without the database.
    let server = Server::start(&folder);
    assert_eq!(["a.", "b.", "c."].map(|zone| server.serial(zone)), [Some(8), Some(6), Some(1)]);
    server.follower.removed(ZoneId(9), &apex("b."));
    assert!(server.table.get(&apex("b.")).is_some(), "it has another number");
    server.follower.removed(ZoneId(3), &apex("b."));
    assert!(server.table.get(&apex("b.")).is_none());
    server.wait_for("b.", None);
    // A zone of the same name starts without a version.
    server.follower.created(listed(5, "b.", 2));
    server.send(5, "b.", 2);
    server.wait_for("b.", Some(2));
    server.stop();
    let server = Server::start(&folder);
    assert_eq!(["a.", "b.", "c."].map(|zone| server.serial(zone)), [Some(8), Some(2), Some(1)]);
    server.stop();
}

#[test]
fn a_node_with_zones_of_the_database_alone_can_be_reloaded() {
    let folder = folder();
    let text = "[server]\nstate-dir = \"state\"\n[database]\nurl = \"postgresql://a@b/c\"\n";
    std::fs::write(folder.path().join("nomen.toml"), text).expect("written");
    let server = Server::start(&folder);
    server.follower.listed(vec![listed(1, "a.", 5)]);
    server.send(1, "a.", 5);
    server.wait_for("a.", Some(5));
    server.reload(Removal::HoldBack);
    assert_eq!(server.serial("a."), Some(5));
    server.stop();
}

#[test]
fn a_database_that_was_made_anew_ends_no_service() {
    let folder = folder();
    let server = Server::start(&folder);
    let names: Vec<String> = (0..20).map(|number| format!("z{number}.")).collect();
    let zones = |first: i64, serial| {
        let numbered = (first..).zip(&names);
        numbered.map(|(id, name)| listed(id, name, serial)).collect::<Vec<_>>()
    };
    server.follower.listed(zones(1, 50));
    (1..).zip(&names).for_each(|(id, name)| server.send(id, name, 50));
    names.iter().for_each(|name| server.wait_for(name, Some(50)));
    // An empty one removes nothing.
    assert_eq!(server.follower.listed(Vec::new()), []);
    assert!(names.iter().all(|name| server.table.get(&apex(name)).is_some()));
    assert_eq!(server.changes.database().map(|database| database.held()), Some(20));
    // Zones with other numbers stay in service, and their records are taken even if their serial is lower.
    assert_eq!(server.follower.listed(zones(101, 3)), vec![None; 20]);
    assert!(names.iter().all(|name| server.serial(name) == Some(50)));
    server.send(101, "z0.", 3);
    server.wait_for("z0.", Some(3));
    // Of the same zone, an earlier version is not taken, unless an operator asks for it.
    server.send(101, "z0.", 2);
    server.send(102, "z1.", 3);
    server.wait_for("z1.", Some(3));
    assert_eq!(server.serial("z0."), Some(3));
    assert!(server.changes.read_again(&apex("z0."), true));
    assert_eq!(*lock(&server.silent.0), [101]);
    server.send(101, "z0.", 2);
    server.wait_for("z0.", Some(2));
    // Removal by force.
    server.follower.listed(zones(101, 3)[..5].to_vec());
    assert_eq!(server.changes.database().map(|database| database.held()), Some(15));
    server.reload(Removal::Force);
    assert_eq!(names.iter().filter(|name| server.table.get(&apex(name)).is_some()).count(), 5);
    assert_eq!(server.changes.database().map(|database| database.held()), Some(0));
    server.stop();
}

#[test]
fn a_zone_of_the_configuration_is_not_changed_in_the_database() {
    let folder = folder();
    let server = Server::start(&folder);
    server.follower.listed(vec![listed(2, "own.", 7)]);
    // The database, which is never reached, is not asked.
    ended(server.edit("own.", 1)).expect("made");
    server.wait_for("own.", Some(8));
    server.stop();
}

#[test]
fn a_change_that_meets_the_removal_of_its_zone_is_not_made() {
    let folder = folder();
    let server = Server::start(&folder);
    server.follower.listed(vec![listed(1, "a.", 5)]);
    server.send(1, "a.", 5);
    server.wait_for("a.", Some(5));
    *lock(&server.silent.1) = Some(Vec::new());
    let first = server.edit("a.", 1);
    let (_, end) = server.commit();
    // It waits behind the first one, and is decided after the removal.
    let second = server.edit("a.", 2);
    server.follower.removed(ZoneId(1), &apex("a."));
    end(CommitEnd::Gone);
    assert!(ended(first).is_err());
    assert!(ended(second).is_err());
    server.wait_for("a.", None);
    server.stop();
    assert_eq!(Server::start(&folder).serial("a."), None);
}

/// The node is not connected while another one removes the zone and creates one of the same name and serial.
#[test]
fn changes_do_not_meet_the_version_of_a_zone_that_was_created_anew() {
    let folder = folder();
    let server = Server::start(&folder);
    server.follower.listed(vec![listed(1, "a.", 5)]);
    server.send(1, "a.", 5);
    server.wait_for("a.", Some(5));
    *lock(&server.silent.1) = Some(Vec::new());
    let made = server.edit("a.", 1);
    let (zone, end) = server.commit();
    end(CommitEnd::Committed);
    assert_eq!((zone, ended(made).is_ok()), (1, true));
    server.wait_for("a.", Some(6));
    assert_eq!(server.follower.listed(vec![listed(2, "a.", 6)]), [None]);
    // Its records have not come. The version in service is that of the other zone.
    for address in [2, 3] {
        assert!(ended(server.edit("a.", address)).is_err());
    }
    assert_eq!(lock(&server.silent.1).as_ref().map(Vec::len), Some(0), "a commit on records of another zone");
    server.send(2, "a.", 3);
    server.wait_for("a.", Some(3));
    let made = server.edit("a.", 4);
    let (zone, end) = server.commit();
    end(CommitEnd::Committed);
    assert_eq!((zone, ended(made).is_ok()), (2, true));
    server.wait_for("a.", Some(4));
    server.stop();
}

#[test]
fn a_zone_that_was_created_anew_is_read_whole_after_another_lost_connection_and_a_restart() {
    let folder = folder();
    let server = Server::start(&folder);
    server.follower.listed(vec![listed(1, "a.", 5)]);
    server.send(1, "a.", 5);
    server.wait_for("a.", Some(5));
    // The connection is lost before its records come.
    assert_eq!(server.follower.listed(vec![listed(2, "a.", 5)]), [None]);
    assert_eq!(server.follower.listed(vec![listed(2, "a.", 5)]), [None]);
    server.send(1, "a.", 7);
    assert_eq!(server.serial("a."), Some(5));
    server.stop();
    let server = Server::start(&folder);
    assert_eq!(server.serial("a."), None, "the stored version is of another zone");
    assert_eq!(server.follower.listed(vec![listed(2, "a.", 5)]), [None]);
    server.send(2, "a.", 5);
    server.wait_for("a.", Some(5));
    assert_eq!(server.follower.listed(vec![listed(2, "a.", 5)]), [Some(Serial(5))]);
    server.stop();
}

#[test]
fn a_commit_that_ends_after_its_zone_was_created_anew_does_not_come_into_service() {
    let folder = folder();
    let server = Server::start(&folder);
    server.follower.listed(vec![listed(1, "a.", 5)]);
    server.send(1, "a.", 5);
    server.wait_for("a.", Some(5));
    *lock(&server.silent.1) = Some(Vec::new());
    let made = server.edit("a.", 1);
    let (_, end) = server.commit();
    server.follower.removed(ZoneId(1), &apex("a."));
    server.follower.created(listed(2, "a.", 2));
    end(CommitEnd::Committed);
    assert!(ended(made).is_ok());
    assert_ne!(server.serial("a."), Some(6), "the version of the zone that was removed");
    server.send(2, "a.", 2);
    server.wait_for("a.", Some(2));
    server.stop();
    assert_eq!(Server::start(&folder).serial("a."), Some(2));
}
