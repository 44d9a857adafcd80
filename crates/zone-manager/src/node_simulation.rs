//! Simulation of nodes that share a database: updates and edits on each node, commits, what the nodes read
//! from the database, broken connections, lost replies and crashes run on one thread, in an order that a seed
//! decides. The thread that changes zones, publishing and the stores are those of the server; the database is
//! a model.
//!
//! Invariants, for any order:
//!
//! - a change that was acknowledged is in the database, and in the end on every node;
//! - a change that was refused, except one whose commit has an unknown end, is in no version;
//! - from its start to its end, a node puts versions into service in the order of their serial numbers, and
//!   each of them is a version of the database;
//! - in the end, all nodes serve the version of the database, and their disks have it;
//! - each version of a zone that the nodes sign passes the audit, is signed by keys that the database has,
//!   and DS records of it that caches may have lead to it, whichever nodes take themselves for the one that
//!   signs.
//!
//! `SIMULATION_SEEDS=FROM..TO` runs other seeds than the few of an ordinary test; long tests
//! (`NOMEN_LONG_TESTS`) run 100,000. `SIMULATION_LOG=1` prints the server's log.

mod keys;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::database::{CommitEnd, OnCommit, ZoneCommit, ZoneContent, ZoneId};
use journal::Disk;
use signer::rollover::{KeyId, KeyPurpose, RollTarget};
use testkit::disk::{Loss, SimulatedDisk};
use update::{Update, UpdateRequest};
use wire::{Serial, Ttl, Type, ZoneName};
use zone::Zone;
use zone::store::{ChangeSet, diff};
use zone_plan::{DifferenceRule, Origin, TextRules, ZoneSigning, ZoneSpec, ZoneText};

use keys::{ModelKeys, signing};

use crate::changes::clock::simulated::{now, set_ahead};
use crate::changes::simulated::SimulatedChanges;
use crate::changes::{ChangeAuthor, RrsetEdit, RrsetEditKind, SignCommand, ZoneEdit};
use crate::database::{KnownZone, ZoneDatabase, ZoneTruth};
use crate::managed::state::Looked;
use crate::simulation::{self, Answer, Chances, host_name, hosts, key, name, seeds, zone};
use crate::stores::differences::Differences;
use crate::zones::manager::simulated::SimulatedZones;
use threads::background::Background;
use threads::sync::{lock, write};

const NODES: usize = 3;
const ZONES: [&str; 2] = ["a.", "b."];
/// The zone that is signed, if one is.
const SIGNED: usize = 0;

fn apex(zone: usize) -> ZoneName {
    simulation::apex(ZONES[zone])
}

/// The hosts that a change adds or removes.
fn hosts_of(change: &ChangeSet) -> BTreeSet<u32> {
    let records = change.added.iter().chain(change.removed.iter());
    let host = |owner: String| owner.strip_prefix('h')?.split('.').next()?.parse().ok();
    records.filter_map(|record| host(record.owner.to_string())).collect()
}

/// A zone of the model.
struct ModelZone {
    /// All versions, the newest last.
    versions: Vec<Arc<Zone>>,
    /// The changes, each with the serial number before it.
    changes: Vec<Arc<ChangeSet>>,
    /// Changes before this one were removed.
    kept_from: usize,
}

/// The model of the database.
struct Model {
    zones: Vec<ModelZone>,
    keys: Vec<ModelKeys>,
    /// All changes, in the order of their commits; `None`: the keys of the zone changed.
    feed: Vec<(usize, Option<Arc<ChangeSet>>)>,
}

impl Model {
    fn newest(&self, zone: usize) -> &Arc<Zone> {
        self.zones[zone].versions.last().expect("a version")
    }

    /// Commits a change, as the function of the database does.
    fn commit(&mut self, commit: &ZoneCommit) -> CommitEnd {
        let zone = (commit.zone.0 - 1) as usize;
        let keys = commit.keys.as_ref();
        if self.newest(zone).serial() != commit.before.serial() || !self.keys[zone].fit(keys) {
            return CommitEnd::Conflict(self.content(zone, commit.before.serial()));
        }
        assert!(diff(self.newest(zone), &commit.before).is_empty(), "another version with the same serial");
        for step in &commit.steps {
            let next = self.newest(zone).apply(&step.change).expect("a step that fits");
            self.zones[zone].versions.push(Arc::new(next));
            self.zones[zone].changes.push(Arc::clone(&step.change));
            self.feed.push((zone, Some(Arc::clone(&step.change))));
        }
        if self.keys[zone].take(keys) {
            self.feed.push((zone, None));
        }
        let first = self.zones[zone].versions.len() - commit.steps.len();
        self.zones[zone].versions[first..].iter().for_each(|version| self.keys[zone].check(version, now()));
        assert!(diff(self.newest(zone), &commit.after).is_empty(), "the steps lead elsewhere");
        CommitEnd::Committed
    }

    /// Returns what the database has after a version.
    fn content(&self, zone: usize, serial: Serial) -> ZoneContent {
        let of = &self.zones[zone];
        let from = of.changes.iter().position(|change| change.before == serial);
        match from.filter(|from| *from >= of.kept_from) {
            Some(from) => ZoneContent::Steps(of.changes[from..].to_vec()),
            None => ZoneContent::Whole(Arc::clone(self.newest(zone))),
        }
    }
}

/// What a node has asked of the database.
enum Ask {
    Commit(ZoneCommit, OnCommit),
    Fetch(usize),
}

/// Takes what the server asks of the database.
#[derive(Default)]
struct Asked(Mutex<Vec<Ask>>);

impl ZoneTruth for Asked {
    fn commit(&self, commit: ZoneCommit, end: OnCommit) {
        lock(&self.0).push(Ask::Commit(commit, end));
    }

    fn fetch(&self, zone: ZoneId, _: ZoneName) {
        lock(&self.0).push(Ask::Fetch((zone.0 - 1) as usize));
    }
}

/// A change that was sent: adds or removes one host.
struct Sent {
    zone: usize,
    node: usize,
    host: u32,
    adds: bool,
    answer: Arc<Mutex<Answer>>,
}

/// A node in one of its runs.
struct Node {
    disk: SimulatedDisk,
    background: Arc<Background>,
    zones: SimulatedZones,
    changes: SimulatedChanges,
    database: Arc<ZoneDatabase>,
    asked: Arc<Asked>,
    /// Ends of commits that are not delivered yet, in their order.
    replies: Vec<(OnCommit, CommitEnd)>,
    is_connected: bool,
    /// The changes that it has read.
    followed: usize,
    /// The serial number in service of each zone.
    served: [u32; ZONES.len()],
    signing: Option<Arc<ZoneSigning>>,
}

impl Node {
    fn start(notes: &Path, disk: SimulatedDisk, signing: Option<Arc<ZoneSigning>>) -> Node {
        let (background, on) = (Background::without_threads(), || Arc::new(disk.clone()) as Arc<dyn Disk>);
        let differences = Differences::open_on(on(), Path::new("/"), &background).expect("stores");
        let zones = SimulatedZones::new(&key(), differences, &background);
        let (handle, states) = (zones.handle.clone(), Arc::clone(zones.table.states()));
        let changes = SimulatedChanges::open(on(), notes, &background, handle, states).expect("stores");
        let database = ZoneDatabase::open_with_list(on(), Path::new("/"), notes, &background);
        let database = database.expect("stores");
        let asked = Arc::<Asked>::default();
        database.believe(asked.clone());
        changes.use_database(&database);
        signing.iter().for_each(|signing| changes.sign(&apex(SIGNED), signing));
        for zone in 0..ZONES.len() {
            database.set(&apex(zone), KnownZone { id: ZoneId(zone as i64 + 1), template: None });
            zones.want(ZoneSpec {
                apex: apex(zone),
                text: ZoneText::Database,
                origin: Origin::Database,
                differences: DifferenceRule::default(),
                rules: TextRules::default(),
                signed: false,
            });
            let local = database.load(&apex(zone), &key());
            zones.loaded(&apex(zone), 1, Looked::Local(local));
        }
        Node {
            disk,
            background,
            zones,
            changes,
            database,
            asked,
            replies: Vec::new(),
            is_connected: false,
            followed: 0,
            served: [0; ZONES.len()],
            signing,
        }
    }

    /// Runs the publishing thread, and checks the versions in service.
    fn look(&mut self, model: &Model) {
        self.zones.run();
        for (zone, of) in ZONES.iter().enumerate() {
            let Some(version) = self.zones.served(&apex(zone)) else { continue };
            let (serial, before) = (version.serial(), self.served[zone]);
            assert!(serial.0 >= before, "{of} serial {before} went back to {serial}");
            self.served[zone] = serial.0;
            let known = model.zones[zone].versions.iter().find(|known| known.serial() == serial);
            let known = known.unwrap_or_else(|| panic!("{of} serial {serial} is of nowhere"));
            assert!(diff(known, &version).is_empty(), "{of} other records with {serial}");
        }
    }

    /// Ends everything that the database was asked over a connection that is broken.
    fn disconnect(&mut self) {
        self.is_connected = false;
    }

    /// Connects, and sends the content of zones that differ, as they are at hand.
    fn connect(&mut self, model: &Model) {
        if self.is_connected {
            return;
        }
        (self.is_connected, self.followed) = (true, model.feed.len());
        let version = |(zone, keys): (usize, &ModelKeys)| (ZoneId(zone as i64 + 1), keys.set.version);
        let versions = model.keys.iter().enumerate().map(version).filter(|(_, version)| version.number > 0);
        for zone in self.database.compare_keys(&versions.collect()) {
            self.take_keys(model, (zone.0 - 1) as usize);
        }
        for zone in 0..ZONES.len() {
            let at_hand = self.zones.table.get(&apex(zone)).and_then(|state| state.zone.clone());
            match at_hand.map(|version| version.serial()) {
                Some(serial) if serial == model.newest(zone).serial() => {}
                Some(serial) => self.follow(zone, model.content(zone, serial)),
                None => {
                    let whole = ZoneContent::Whole(Arc::clone(model.newest(zone)));
                    self.follow(zone, whole);
                }
            }
        }
    }

    /// Reads so many changes.
    fn read(&mut self, model: &Model, most: usize) {
        let new = model.feed.iter().skip(self.followed).take(if self.is_connected { most } else { 0 });
        let mut count = 0;
        for (zone, change) in new {
            match change {
                Some(change) => {
                    self.follow(*zone, ZoneContent::Steps(vec![Arc::clone(change)]));
                }
                None => self.take_keys(model, *zone),
            }
            count += 1;
        }
        self.followed += count;
    }

    /// Reads all that is new at once: the keys first, as from a database.
    fn read_together(&mut self, model: &Model) {
        let new: Vec<_> = model.feed[self.followed..].to_vec();
        for (zone, _) in new.iter().filter(|(_, change)| change.is_none()) {
            self.take_keys(model, *zone);
        }
        while self.changes.run() {}
        for (zone, change) in &new {
            if let Some(change) = change {
                self.follow(*zone, ZoneContent::Steps(vec![Arc::clone(change)]));
            }
        }
        self.followed = model.feed.len();
    }

    /// Sends what the database has of a zone.
    fn follow(&self, zone: usize, content: ZoneContent) {
        self.changes.follow(&apex(zone), ZoneId(zone as i64 + 1), content);
    }

    /// Takes the keys of a zone from the database.
    fn take_keys(&self, model: &Model, zone: usize) {
        let keys = &model.keys[zone].set;
        self.changes.follow_keys(&self.database, &apex(zone), ZoneId(zone as i64 + 1), keys);
    }

    /// Commits a change. If other keys are in the way, they come before the end.
    fn commit(&self, model: &mut Model, commit: &ZoneCommit) -> CommitEnd {
        let end = model.commit(commit);
        if matches!(end, CommitEnd::Conflict(_)) && commit.keys.is_some() {
            self.take_keys(model, (commit.zone.0 - 1) as usize);
        }
        end
    }

    /// Handles the first thing that the node asks. Returns false if there is none. `luck` decides what
    /// happens to the connection. Returns the hosts of changes whose end the client does not know.
    fn serve(&mut self, model: &mut Model, luck: usize, unclear: &mut BTreeSet<(usize, u32)>) -> bool {
        let ask = {
            let mut asked = lock(&self.asked.0);
            if asked.is_empty() {
                return false;
            }
            asked.remove(0)
        };
        let why = || "the connection is broken".to_owned();
        match ask {
            Ask::Fetch(zone) if self.is_connected => {
                let whole = ZoneContent::Whole(Arc::clone(model.newest(zone)));
                self.follow(zone, whole);
            }
            // The next connection compares all zones.
            Ask::Fetch(_) => {}
            Ask::Commit(_, end) if !self.is_connected => {
                self.replies.push((end, CommitEnd::Unavailable(why())));
            }
            Ask::Commit(commit, end) => {
                let ended = match luck {
                    0 => {
                        self.disconnect();
                        CommitEnd::Unavailable(why())
                    }
                    // The reply is lost. The client may find out, or not.
                    1 | 2 => {
                        self.disconnect();
                        match self.commit(model, &commit) {
                            CommitEnd::Committed if luck == 1 => {
                                let zone = (commit.zone.0 - 1) as usize;
                                let hosts = commit.steps.iter().flat_map(|step| hosts_of(&step.change));
                                unclear.extend(hosts.map(|host| (zone, host)));
                                CommitEnd::Unclear(why())
                            }
                            CommitEnd::Committed => CommitEnd::Committed,
                            _ => CommitEnd::Unavailable(why()),
                        }
                    }
                    _ => self.commit(model, &commit),
                };
                self.replies.push((end, ended));
            }
        }
        true
    }

    /// Delivers the end of a commit. Returns false if there is none.
    fn reply(&mut self) -> bool {
        if self.replies.is_empty() {
            return false;
        }
        let (end, ended) = self.replies.remove(0);
        end(ended);
        true
    }
}

/// All nodes, the database, and the changes that were sent.
struct World {
    chances: Chances,
    model: Model,
    nodes: Vec<Node>,
    sent: Vec<Sent>,
    unclear: BTreeSet<(usize, u32)>,
    next_host: u32,
    /// How far the clock is ahead.
    ahead: Duration,
}

impl World {
    fn new(seed: u64, notes: &Path, signing: Option<Arc<ZoneSigning>>) -> World {
        set_ahead(Duration::ZERO);
        let model =
            |of: &&str| ModelZone { versions: vec![zone(of, 1, [], 0)], changes: Vec::new(), kept_from: 0 };
        let node = |node: usize| {
            let notes = notes.join(node.to_string());
            std::fs::create_dir_all(&notes).expect("a folder");
            Node::start(&notes, SimulatedDisk::new(seed * 10 + node as u64), signing.clone())
        };
        World {
            chances: Chances::new(seed),
            model: Model {
                zones: ZONES.iter().map(model).collect(),
                keys: ZONES.iter().map(|_| ModelKeys::default()).collect(),
                feed: Vec::new(),
            },
            nodes: (0..NODES).map(node).collect(),
            sent: Vec::new(),
            unclear: BTreeSet::new(),
            next_host: 0,
            ahead: Duration::ZERO,
        }
    }

    /// Does one random step.
    fn step(&mut self, notes: &Path) {
        let at = self.chances.below(NODES);
        if self.nodes[at].signing.is_some() && self.chances.below(4) == 0 {
            self.sign(at);
        }
        let chances = &mut self.chances;
        match chances.below(20) {
            0..=4 => self.send(at),
            5..=7 => drop(self.nodes[at].changes.run()),
            8 | 9 => drop(self.nodes[at].background.run_waiting(|jobs| chances.below(jobs))),
            10..=12 => {
                let luck = chances.below(24);
                self.nodes[at].serve(&mut self.model, luck, &mut self.unclear);
            }
            13 | 14 => drop(self.nodes[at].reply()),
            15 | 16 => {
                let most = 1 + chances.below(3);
                self.nodes[at].read(&self.model, most);
            }
            17 => self.nodes[at].connect(&self.model),
            18 => match chances.below(12) {
                0 => self.crash(at, notes),
                1 | 2 => self.nodes[at].disconnect(),
                3 => {
                    let zone = &mut self.model.zones[chances.below(ZONES.len())];
                    zone.kept_from = zone.changes.len().saturating_sub(chances.below(4));
                }
                _ => {}
            },
            _ => {
                // Runs some of the waiting work.
                let node = &mut self.nodes[at];
                while node.changes.run() || node.reply() {
                    if self.chances.below(8) == 0 {
                        break;
                    }
                }
            }
        }
        self.nodes[at].look(&self.model);
    }

    /// Sends a change to a node.
    fn send(&mut self, node: usize) {
        let zone = self.chances.below(ZONES.len());
        let is_added =
            |sent: &&Sent| sent.adds && sent.zone == zone && *lock(&sent.answer) == Answer::Accepted;
        let added: Vec<u32> = self.sent.iter().filter(is_added).map(|sent| sent.host).collect();
        let is_removed = |host: &u32| self.sent.iter().any(|sent| !sent.adds && sent.host == *host);
        let old = added.get(self.chances.below(added.len())).copied().filter(|host| !is_removed(host));
        let (host, adds) = match old.filter(|_| self.chances.below(3) == 0) {
            Some(host) => (host, false),
            None => {
                self.next_host += 1;
                (self.next_host, true)
            }
        };
        let (owner, ttl, rtype) = (host_name(ZONES[zone], host), Ttl::from_secs(60), Type::TXT);
        let answer = Arc::new(Mutex::new(Answer::None));
        let of = Arc::clone(&answer);
        let answered = move |is_ok| {
            let mut answer = lock(&of);
            if *answer == Answer::None {
                *answer = if is_ok { Answer::Accepted } else { Answer::Refused };
            }
        };
        let changes = &self.nodes[node].changes;
        if host % 2 == 0 {
            let kind = match adds {
                true => RrsetEditKind::Replace { ttl, rdatas: vec![b"\x01x".to_vec()] },
                false => RrsetEditKind::Delete,
            };
            let by = ChangeAuthor::Program { token: "test".into(), address: Ipv4Addr::LOCALHOST.into() };
            let edit = ZoneEdit { edits: vec![RrsetEdit { owner, rtype, kind }], at_serial: None, by };
            changes.edit(&apex(zone), edit, answered);
        } else {
            let update = match adds {
                true => Update::Add { owner, rtype, ttl, rdata: b"\x01x".to_vec() },
                false => Update::DeleteName(owner),
            };
            let of = name(ZONES[zone]).as_name().to_lower();
            changes.update(UpdateRequest::of(of.as_lower(), Vec::new(), vec![update]), answered);
        }
        self.sent.push(Sent { zone, node, host, adds, answer });
    }

    /// Does something about keys and signatures: the clock goes on, a node is or is not the one that signs,
    /// or looks at the zone, or an operator asks for something.
    fn sign(&mut self, at: usize) {
        let of = apex(SIGNED);
        let what = self.chances.below(12);
        if what >= 8 {
            // Operators mostly act while nothing else happens.
            while self.chances.below(8) > 0 && self.work(at) {}
        }
        let node = &self.nodes[at];
        match what {
            0..=2 => {
                self.ahead += Duration::from_secs(1 << self.chances.below(17));
                set_ahead(self.ahead);
            }
            3 | 4 => {
                node.database.set_signs(self.chances.below(2) == 0);
                node.changes.maintain(&of);
            }
            5 | 6 => node.changes.maintain(&of),
            7 => node.changes.command(&of, SignCommand::Renew),
            8 => node.changes.command(&of, SignCommand::Roll(RollTarget::Role(KeyPurpose::Csk))),
            _ => self.publish_ds(at),
        }
    }

    /// An operator gives the parent the DS record that a node asks for, which has all changes.
    fn publish_ds(&mut self, at: usize) {
        self.finish();
        let node = &self.nodes[at];
        let Some(status) = node.changes.signing(&apex(SIGNED)) else { return };
        let wanted: Vec<KeyId> = status.keys.iter().filter(|key| key.wants_ds).map(|key| key.id).collect();
        let [id] = wanted[..] else { return };
        self.model.keys[SIGNED].publish_ds(id, now());
        node.changes.command(&apex(SIGNED), SignCommand::DsPublished(id));
        for key in status.keys.iter().filter(|key| key.id != id) {
            node.changes.command(&apex(SIGNED), SignCommand::DsWithdrawn(key.id));
        }
    }

    /// Ends a node at once, and starts it again. Commits in flight may have been made.
    fn crash(&mut self, at: usize, notes: &Path) {
        for sent in self.sent.iter().filter(|sent| sent.node == at) {
            let mut answer = lock(&sent.answer);
            if *answer == Answer::None {
                *answer = Answer::Lost;
            }
        }
        let in_flight = std::mem::take(&mut *lock(&self.nodes[at].asked.0));
        for ask in in_flight {
            if let (Ask::Commit(commit, _), true, 0) =
                (&ask, self.nodes[at].is_connected, self.chances.below(2))
            {
                self.model.commit(commit);
            }
        }
        let loss = [Loss::Everything, Loss::AllBehindAPlace, Loss::AnyPart][self.chances.below(3)];
        let node = self.nodes.remove(at);
        let disk = node.disk.crash(loss);
        disk.plan_nothing();
        // Waiting jobs own their data, and the run owns the jobs. The disk of this run is empty now.
        while node.background.run_waiting(|_| 0) {}
        let signing = node.signing.clone();
        drop(node);
        self.nodes.insert(at, Node::start(&notes.join(at.to_string()), disk, signing));
    }

    /// Runs until nothing is in progress, with all nodes connected.
    fn finish(&mut self) {
        while (0..NODES).fold(false, |worked, at| self.work(at) | worked) {}
    }

    /// Does some of the work of a node, connected. Returns false if there was nothing to do.
    fn work(&mut self, at: usize) -> bool {
        let (node, chances) = (&mut self.nodes[at], &mut self.chances);
        node.connect(&self.model);
        let mut worked = node.serve(&mut self.model, usize::MAX, &mut self.unclear);
        worked |= node.reply() | node.changes.run();
        worked |= node.background.run_waiting(|jobs| chances.below(jobs));
        worked |= node.followed < self.model.feed.len();
        node.read(&self.model, 2);
        node.look(&self.model);
        worked
    }

    fn check_end(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            for (zone, keys) in self.model.keys.iter().enumerate() {
                let at_hand = node.database.keys(ZoneId(zone as i64 + 1));
                assert_eq!(at_hand.as_ref(), Some(&keys.set), "node {at}: other keys of zone {zone}");
            }
            for (zone, of) in ZONES.iter().enumerate() {
                let newest = self.model.newest(zone);
                let served = node.zones.served(&apex(zone)).expect("a version");
                assert!(diff(newest, &served).is_empty(), "node {at}: {of} is not that of the database");
                let stored = node.database.load(&apex(zone), &key()).expect("a stored version");
                assert!(diff(newest, &stored).is_empty(), "node {at}: the disk has another {of}");
            }
        }
        for sent in &self.sent {
            let there = hosts(self.model.newest(sent.zone)).contains(&sent.host);
            let ever = self.model.zones[sent.zone].versions.iter().any(|one| hosts(one).contains(&sent.host));
            let is_unclear = self.unclear.contains(&(sent.zone, sent.host));
            let removed = self.sent.iter().any(|later| !later.adds && later.host == sent.host);
            match (*lock(&sent.answer), sent.adds) {
                (Answer::None, _) => panic!("host {}: no answer", sent.host),
                (Answer::Accepted, true) => assert!(there || removed, "host {} is lost", sent.host),
                (Answer::Accepted, false) => assert!(!there, "host {} is there again", sent.host),
                (Answer::Refused, true) => {
                    assert!(!ever || is_unclear, "host {} was refused, and was there", sent.host);
                }
                (Answer::Refused, false) => {
                    assert!(there || is_unclear, "the removal of {} was refused, and made", sent.host);
                }
                (Answer::Lost, _) => {}
            }
        }
    }
}

/// Runs the nodes for a while. The first zone is signed if `signing` says how.
fn life(seed: u64, signing: Option<Arc<ZoneSigning>>) -> Life {
    let notes = tempfile::tempdir().expect("a folder");
    let is_signed = signing.is_some();
    let mut world = World::new(seed, notes.path(), signing);
    let steps = 100 + world.chances.below(300) + if is_signed { 300 } else { 0 };
    (0..steps).for_each(|_| world.step(notes.path()));
    world.finish();
    if is_signed {
        // One node looks at the zone until there is nothing to do.
        world.nodes.iter().for_each(|node| node.database.set_signs(false));
        world.nodes[0].database.set_signs(true);
        for _ in 0..4 {
            world.nodes[0].changes.maintain(&apex(SIGNED));
            world.finish();
        }
        assert!(world.model.newest(SIGNED).is_signed());
    }
    world.check_end();
    let count = |answer| world.sent.iter().filter(|sent| *lock(&sent.answer) == answer).count();
    let rolled = world.model.keys[SIGNED].set.keys.len();
    Life { accepted: count(Answer::Accepted), refused: count(Answer::Refused), keys: rolled }
}

/// What came of a life: how many changes were made and refused, and how many keys the signed zone has.
struct Life {
    accepted: usize,
    refused: usize,
    keys: usize,
}

#[test]
fn nodes_of_one_database_lose_no_acknowledged_change_and_end_with_one_version() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in seeds(100) {
        let lived = std::panic::catch_unwind(AssertUnwindSafe(|| life(seed, None)));
        let counts = lived.unwrap_or_else(|_| panic!("seed {seed}"));
        accepted += counts.accepted;
        refused += counts.refused;
    }
    assert!(accepted > 0 && refused > 0, "{accepted} accepted, {refused} refused");
}

#[test]
fn nodes_that_sign_a_zone_publish_no_version_that_validators_reject() {
    let (mut accepted, mut most_keys) = (0, 0);
    for seed in seeds(12) {
        let lived = std::panic::catch_unwind(AssertUnwindSafe(|| life(seed, Some(signing()))));
        let lived = lived.unwrap_or_else(|_| panic!("seed {seed}"));
        accepted += lived.accepted;
        most_keys = most_keys.max(lived.keys);
    }
    assert!(accepted > 0 && most_keys > 1, "{accepted} accepted, {most_keys} keys at most");
}

/// Keys and records that change together come one after the other: in between, the version is not that
/// which the keys are about, and the zone is looked at after both.
#[test]
fn a_node_looks_at_a_zone_whose_keys_and_records_came_together() {
    let notes = tempfile::tempdir().expect("a folder");
    let mut world = World::new(1, notes.path(), Some(signing()));
    world.nodes[0].database.set_signs(true);
    world.nodes[0].changes.maintain(&apex(SIGNED));
    while world.work(0) | world.nodes[0].changes.look() {}
    let states = |node: &Node| {
        let status = node.changes.signing(&apex(SIGNED)).expect("a look");
        status.keys.iter().map(|key| (key.id, key.state.clone())).collect::<Vec<_>>()
    };
    while world.work(1) | world.nodes[1].changes.look() {}
    assert_eq!(states(&world.nodes[0]), states(&world.nodes[1]));
    // The signatures reach all caches, and CDS records come with the new states.
    set_ahead(Duration::from_secs(5000));
    world.nodes[0].changes.maintain(&apex(SIGNED));
    let before = world.model.newest(SIGNED).serial();
    while world.work(0) | world.nodes[0].changes.look() {}
    assert_ne!(world.model.newest(SIGNED).serial(), before);
    let World { nodes, model, .. } = &mut world;
    nodes[1].read_together(model);
    while world.work(1) | world.nodes[1].changes.look() {}
    assert_eq!(states(&world.nodes[0]), states(&world.nodes[1]));
}

/// A node that has just started takes the version in service as its base. The zone is removed before the base
/// is there: the update is in no database, and must not be acknowledged.
#[test]
fn an_update_that_meets_the_removal_of_its_zone_is_not_kept_by_the_node_alone() {
    for database_is_first in [false, true] {
        let notes = tempfile::tempdir().expect("a folder");
        let mut world = World::new(1, notes.path(), None);
        world.finish();
        world.crash(0, notes.path());
        let node = &mut world.nodes[0];
        node.zones.run();
        assert!(node.zones.served(&apex(0)).is_some(), "the stored version");
        let answer = Arc::new(Mutex::new(None));
        let (of, host) = (Arc::clone(&answer), host_name(ZONES[0], 1));
        let add = Update::Add { owner: host, rtype: Type::TXT, ttl: Ttl::ZERO, rdata: b"\x01x".to_vec() };
        let of_zone = name(ZONES[0]).as_name().to_lower();
        let request = UpdateRequest::of(of_zone.as_lower(), Vec::new(), vec![add]);
        node.changes.update(request, move |is_ok| *lock(&of) = Some(is_ok));
        while node.changes.run() {}
        node.zones.run();
        if database_is_first {
            node.database.remove(&apex(0));
        } else {
            write(&node.zones.table.states().zones).remove(&apex(0));
        }
        while node.changes.run() | node.background.run_waiting(|_| 0) {}
        node.zones.run();
        assert_eq!(*lock(&answer), Some(false), "database first: {database_is_first}");
    }
}
