//! Simulation of zones over their whole life: updates, edits, zone files, transfers, produced catalog zones,
//! folding, compaction, publishing and the stores run on one thread, in an order that a seed decides, over a
//! disk that fails and loses power.
//!
//! Invariants, for any order and any time of the power loss:
//!
//! - after the crash, each update answered with NOERROR and each edit that was made is still there, and so
//!   is each version that was in service;
//! - after the crash, a zone holds the result of updates that were sent, and nothing else;
//! - each stored zone can be read, without an operator;
//! - versions go into service in the order of their serial numbers, and the changes read for IXFR form a
//!   chain without gaps;
//! - a member of the catalog zone keeps its label as long as it is listed;
//! - without a disk fault all requests are accepted, and in the end the version in service, the stored one
//!   and the one that the requests make are the same.
//!
//! `SIMULATION_SEEDS=FROM..TO` runs other seeds than the few of an ordinary test; long tests
//! (`NOMEN_LONG_TESTS`) run 100,000. `SIMULATION_LOG=1` prints the server's log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use journal::{Disk, History, StoreFault};
use testkit::disk::{Loss, SimulatedDisk, Trouble};
use transfer::catalog_zone::CatalogZone;
use update::{Update, UpdateRequest};
use wire::hash::HashKey;
use wire::{NameBuf, Serial, Ttl, Type, ZoneName};
use zone::store::diff;
use zone::{Zone, ZoneBuilder};
use zone_plan::{DifferenceRule, Origin, PeerRules, TextRules, ZoneSpec, ZoneText};

use crate::changes::simulated::SimulatedChanges;
use crate::changes::{ChangeAuthor, RrsetEdit, RrsetEditKind, TakeEnd, ZoneEdit};
use crate::managed::state::{FileEdit, Looked, Reading};
use crate::secondaries::simulated::SimulatedSecondaries;
use crate::stores::differences::Differences;
use crate::zones::manager::simulated::SimulatedZones;
use crate::zones::produce::Produced;
use crate::zones::produce::simulated::SimulatedProducer;
use crate::zones::resolve::resolve;
use threads::background::{Background, JobKind};
use threads::sync::lock;

/// The zone that updates change, the secondary zone, and the zone that changes by its file.
const UPDATED: &str = "updated.";
const SECONDARY: &str = "secondary.";
const FILED: &str = "filed.";
/// The catalog zone that the server produces, and the number of zones that it may list.
const CATALOG: &str = "catalog.";
const MEMBERS: usize = 12;
/// Seeds of an ordinary test.
const USUAL_SEEDS: u64 = 300;

/// Random numbers of a seed (SplitMix64).
pub(crate) struct Chances(u64);

impl Chances {
    pub(crate) fn new(seed: u64) -> Self {
        Chances(seed)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z % end.max(1) as u64) as usize
    }
}

pub(crate) fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

pub(crate) fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

pub(crate) fn apex(text: &str) -> ZoneName {
    name(text).as_name().into()
}

/// Returns the data of a host's TXT record: so many bytes and a few more.
fn text(bytes: usize) -> Vec<u8> {
    let strings = (0..=bytes / 200).flat_map(|_| std::iter::once(200).chain([b'x'; 200]));
    strings.collect()
}

/// Returns a version of a zone with these hosts, each with so many bytes of text.
pub(crate) fn zone(apex: &str, serial: u32, hosts: impl IntoIterator<Item = u32>, bytes: usize) -> Arc<Zone> {
    let mut builder = ZoneBuilder::new(name(apex).as_name(), &key());
    let numbers = [serial, 1000, 100, 5000, 60].map(u32::to_be_bytes).concat();
    let soa = [&[0, 0][..], &numbers].concat();
    builder.add(name(apex).as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
    builder.add(name(apex).as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("a record");
    for host in hosts {
        let owner = host_name(apex, host);
        builder.add(owner.as_name(), Type::TXT, Ttl::from_secs(60), &text(bytes)).expect("a record");
    }
    Arc::new(builder.finish().expect("a zone"))
}

pub(crate) fn host_name(apex: &str, host: u32) -> NameBuf {
    name(&format!("h{host}.{apex}"))
}

/// The hosts of a version.
pub(crate) fn hosts(zone: &Zone) -> BTreeSet<u32> {
    let host = |owner: String| owner.strip_prefix('h')?.split('.').next()?.parse().ok();
    zone.into_iter().filter_map(|node| host(node.written_owner().to_string())).collect()
}

/// Returns the name of a zone that the catalog zone may list.
fn member_name(member: u32) -> ZoneName {
    apex(&format!("m{member}."))
}

/// Returns the zones that a version of the catalog zone lists, with their labels.
fn members(catalog: &Zone) -> BTreeMap<u32, Box<[u8]>> {
    let read = CatalogZone::read(catalog).expect("a catalog zone");
    let number = |name: &ZoneName| (0..MEMBERS as u32).find(|member| member_name(*member) == *name);
    let listed = read.members.into_iter();
    listed.filter_map(|(name, member)| Some((number(&name)?, member.id))).collect()
}

/// Returns the version of the secondary zone or the zone file with this serial. Versions differ in many
/// hosts.
fn numbered(apex: &str, serial: u32, bytes: usize) -> Arc<Zone> {
    zone(apex, serial, (0..12).map(|i| if i < 6 { i } else { serial * 7 + i }), bytes)
}

/// The client's view of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No response yet.
    None,
    Accepted,
    Refused,
    /// The server crashed before its response.
    Lost,
}

/// A request: adds or removes one host.
struct Sent {
    host: u32,
    adds: bool,
    answer: Arc<Mutex<Answer>>,
}

/// All requests to all runs of the server, and their responses.
struct World {
    chances: Chances,
    /// Bytes of text of each host. If large, stores are compacted after a few changes.
    bytes: usize,
    /// Requests in order. Those without a response before the last crash have an unknown outcome.
    sent: Vec<Sent>,
    next_host: u32,
    /// Hosts of the updated zone's file when it was taken: other hosts may be gone.
    files_taken: Vec<BTreeSet<u32>>,
    /// The highest serial number in service of each zone.
    served: BTreeMap<&'static str, u32>,
    /// Numbers of the newest versions at the primary and in the zone file.
    primary: u32,
    file: u32,
    /// A version of the secondary zone that is certainly on disk.
    kept: u32,
    /// The zones that the catalog zone is to list, and the labels of those that it has listed since.
    listed: BTreeSet<u32>,
    labels: BTreeMap<u32, Box<[u8]>>,
    /// Whether a disk call fails in this run, and whether one has failed in any run.
    disk_fails: bool,
    disk_failed: bool,
}

type HistoryReply = Receiver<Result<Option<History>, StoreFault>>;

/// A run of the server, from its start to its end or the crash.
struct Run {
    disk: SimulatedDisk,
    background: Arc<Background>,
    zones: SimulatedZones,
    changes: SimulatedChanges,
    secondaries: SimulatedSecondaries,
    producer: SimulatedProducer,
    _differences: Arc<Differences>,
    /// Loads of each zone so far.
    loads: BTreeMap<&'static str, u32>,
    takes: Vec<Receiver<Option<TakeEnd>>>,
    histories: Vec<(u32, HistoryReply)>,
}

fn peers() -> PeerRules {
    let text = "[[zone]]\nname = \"secondary\"\nprimaries = [\"192.0.2.1\"]\n";
    let accepted = config::read_text("t.toml", text.to_owned(), Path::new("/"));
    let accepted = accepted.unwrap_or_else(|rejected| panic!("{rejected}"));
    resolve(&accepted.config).expect("zones").peers
}

/// State that the runs of all seeds share.
struct Shared {
    notes: PathBuf,
    peers: PeerRules,
    /// Jobs that have ended, by kind.
    jobs: [AtomicU64; JobKind::ALL.len()],
}

impl Shared {
    /// Fails if a kind of job never ran. Zones here are not signed.
    fn check_coverage(&self) {
        let of_signing = |kind: &JobKind| matches!(kind, JobKind::Sign | JobKind::Renew);
        for (kind, done) in JobKind::ALL.iter().zip(&self.jobs).filter(|(kind, _)| !of_signing(kind)) {
            assert!(done.load(Relaxed) > 0, "no job of kind {}", kind.word());
        }
    }
}

fn reading(zone: Arc<Zone>, step: Option<&Zone>) -> Box<Reading> {
    let step = step.map(|from| Arc::new(diff(from, &zone)));
    Box::new(Reading {
        zone,
        stamps: Arc::new([]),
        at: SystemTime::UNIX_EPOCH,
        took: Duration::ZERO,
        step,
        warnings: Vec::new(),
        warning_count: 0,
        provenance: None,
    })
}

fn spec(zone: &str, text: ZoneText) -> ZoneSpec {
    let differences = match zone {
        FILED => DifferenceRule { from_records: Some(0), bytes: 1000 },
        _ => DifferenceRule::default(),
    };
    let rules = TextRules::default();
    ZoneSpec { apex: apex(zone), text, origin: Origin::Configuration, differences, rules, signed: false }
}

impl World {
    fn new(seed: u64) -> World {
        World {
            chances: Chances::new(seed),
            bytes: if seed.is_multiple_of(8) { 5000 } else { 0 },
            sent: Vec::new(),
            next_host: 0,
            files_taken: Vec::new(),
            served: BTreeMap::new(),
            primary: 1,
            file: 1,
            kept: 0,
            listed: BTreeSet::new(),
            labels: BTreeMap::new(),
            disk_fails: false,
            disk_failed: false,
        }
    }

    /// Starts the server on a disk, and checks the stored zones. Returns an error if the disk fails.
    fn start(&mut self, shared: &Shared, disk: SimulatedDisk) -> Result<Run, (StoreFault, SimulatedDisk)> {
        let (background, on) = (Background::without_threads(), || Arc::new(disk.clone()) as Arc<dyn Disk>);
        let opened = || {
            let differences = Differences::open_on(on(), Path::new("/"), &background)?;
            let zones = SimulatedZones::new(&key(), Arc::clone(&differences), &background);
            let (handle, states) = (zones.handle.clone(), Arc::clone(zones.table.states()));
            let changes = SimulatedChanges::open(on(), &shared.notes, &background, handle, states)?;
            let handle = zones.handle.clone();
            let secondaries = SimulatedSecondaries::open(on(), &shared.peers, &key(), &background, handle)?;
            let members = self.listed.iter().map(|member| member_name(*member));
            let producer = SimulatedProducer::open(on(), &key(), &background, apex(CATALOG), members)?;
            let stored = changes.load(&apex(UPDATED), &key())?;
            let kept = secondaries.load(&apex(SECONDARY), &key());
            if disk.is_off() {
                return Err(StoreFault::NotWritten);
            }
            Ok((differences, zones, changes, (secondaries, producer), stored, kept))
        };
        let (differences, zones, changes, (mut secondaries, mut producer), stored, kept) = match opened() {
            Ok(opened) => opened,
            Err(fault) => return Err((fault, disk)),
        };
        let file = |zone: &str| ZoneText::File(Path::new(zone).into());
        zones.want(spec(UPDATED, file(UPDATED)));
        zones.want(spec(FILED, file(FILED)));
        zones.want(spec(SECONDARY, ZoneText::Primaries));
        zones.want(spec(CATALOG, ZoneText::Produced));
        producer.produce().into_iter().for_each(|made| zones.produced(&apex(CATALOG), made));
        self.check_updated(stored.as_deref());
        let looked = match stored {
            Some(stored) => Looked::Stored(reading(stored, None), FileEdit::Known),
            None => Looked::Loaded(reading(zone(UPDATED, 1, [], 0), None)),
        };
        zones.loaded(&apex(UPDATED), 1, looked);
        zones.loaded(&apex(FILED), 1, Looked::Loaded(reading(numbered(FILED, self.file, self.bytes), None)));
        // A crash may lose versions of the secondary zone: the primary has them.
        self.served.remove(SECONDARY);
        self.check_secondary(kept.as_ref().map(|kept| &*kept.zone));
        secondaries.begin(&apex(SECONDARY), kept.clone());
        zones.loaded(&apex(SECONDARY), 1, Looked::Kept(kept, None));
        let loads = [(UPDATED, 1), (FILED, 1), (SECONDARY, 1)].into();
        let (takes, histories) = (Vec::new(), Vec::new());
        Ok(Run {
            disk,
            background,
            zones,
            changes,
            secondaries,
            producer,
            _differences: differences,
            loads,
            takes,
            histories,
        })
    }

    /// Checks the updated zone at a start.
    fn check_updated(&self, stored: Option<&Zone>) {
        let serial = stored.map_or(1, |zone| zone.serial().0);
        let served = self.served.get(UPDATED).copied().unwrap_or(1);
        assert!(serial >= served, "serial {served} was in service, and {serial} is there");
        let there = stored.map(hosts).unwrap_or_default();
        for host in &there {
            assert!(
                self.sent.iter().any(|sent| sent.adds && sent.host == *host),
                "host {host} was never sent"
            );
        }
        for (at, sent) in self.sent.iter().enumerate().filter(|(_, sent)| sent.adds) {
            let later = || self.sent[at..].iter().filter(|later| !later.adds && later.host == sent.host);
            let of_files = || self.files_taken.iter().any(|file| !file.contains(&sent.host));
            let is_there = there.contains(&sent.host);
            let accepted = *lock(&sent.answer) == Answer::Accepted;
            assert!(
                is_there || !accepted || later().next().is_some() || of_files(),
                "host {} was accepted, and is gone",
                sent.host
            );
            // A file that was read before the removal may be taken after it.
            let comes_back = self.files_taken.iter().any(|file| file.contains(&sent.host));
            let gone = later().any(|later| *lock(&later.answer) == Answer::Accepted) && !comes_back;
            assert!(!(is_there && gone), "host {} was removed, and is there again", sent.host);
        }
    }

    /// Checks the secondary zone at a start.
    fn check_secondary(&self, stored: Option<&Zone>) {
        let serial = stored.map_or(0, |zone| zone.serial().0);
        assert!(serial <= self.primary, "the primary never had serial {serial}");
        let is_there = serial >= self.kept || self.disk_fails;
        assert!(is_there, "serial {} was on disk, and {serial} is there", self.kept);
        if let Some(stored) = stored {
            let differs = diff(stored, &numbered(SECONDARY, serial, self.bytes));
            assert!(differs.is_empty(), "serial {serial} has other records than at the primary");
        }
    }

    /// Records the versions in service.
    fn look(&mut self, run: &Run) {
        for zone in [UPDATED, FILED, SECONDARY] {
            let Some(served) = run.zones.served(&apex(zone)) else { continue };
            let (serial, before) = (served.serial().0, self.served.entry(zone).or_insert(0));
            assert!(serial >= *before, "{zone}: serial {before} went back to {serial}");
            *before = serial;
        }
        self.look_at_catalog(run);
    }

    /// Checks the labels of the members of the catalog zone in service.
    fn look_at_catalog(&mut self, run: &Run) {
        let Some(served) = run.zones.served(&apex(CATALOG)) else { return };
        let serial = served.serial().0;
        let before = self.served.insert(CATALOG, serial);
        assert!(before.is_none_or(|before| serial >= before), "{CATALOG}: {before:?} went back to {serial}");
        if before == Some(serial) {
            return;
        }
        let members = members(&served);
        for (member, label) in &members {
            let known = self.labels.get(member);
            assert!(known.is_none_or(|known| known == label), "member {member} has another label");
        }
        // An older version may hold a zone under the label that it had before it was listed again.
        if !run.producer.is_storing() {
            self.labels.extend(members.into_iter().filter(|(member, _)| self.listed.contains(member)));
        }
    }

    /// Does one random step.
    fn step(&mut self, run: &mut Run) {
        match self.chances.below(27) {
            0..=5 => self.send_update(run),
            6..=9 => drop(run.changes.run()),
            10..=13 => drop(run.background.run_waiting(|jobs| self.chances.below(jobs))),
            14..=16 => run.zones.run(),
            17 => {
                self.primary += 1;
                run.secondaries.retransfer(&apex(SECONDARY));
            }
            18 => {
                let (version, by_changes) =
                    (numbered(SECONDARY, self.primary, self.bytes), self.chances.below(3) > 0);
                run.secondaries.transferred(&version, by_changes);
            }
            19 => drop(run.secondaries.run()),
            20 => self.reload(run),
            21 => match self.chances.below(6) {
                0 => run.secondaries.pass(self.chances.below(6000) as u64),
                1 => self.take_file(run),
                _ => run.changes.sync_marks(),
            },
            22 => {
                let from = 1 + self.chances.below(self.served.get(UPDATED).map_or(1, |last| *last as usize));
                let reply = run.changes.history(&apex(UPDATED), Serial(from as u32));
                run.histories.push((from as u32, reply));
            }
            23 => {
                let member = self.chances.below(MEMBERS) as u32;
                let is_listed = self.listed.insert(member);
                if !is_listed {
                    self.listed.remove(&member);
                    self.labels.remove(&member);
                }
                run.producer.list(&member_name(member), is_listed);
            }
            24 => {
                let made = run.producer.produce();
                run.serve_produced(made);
            }
            25 => drop(run.run_producer()),
            _ => {
                // Runs some of the waiting work.
                while run.changes.run() || run.background.run_waiting(|jobs| self.chances.below(jobs)) {
                    if self.chances.below(8) == 0 {
                        break;
                    }
                }
            }
        }
        self.look(run);
        run.check_histories();
    }

    fn send_update(&mut self, run: &Run) {
        let known: Vec<u32> = self.sent.iter().filter(|sent| sent.adds).map(|sent| sent.host).collect();
        let gone = |host: &u32| self.sent.iter().any(|sent| !sent.adds && sent.host == *host);
        let old = known.get(self.chances.below(known.len())).copied().filter(|host| !gone(host));
        let (host, adds) = match old.filter(|_| self.chances.below(3) == 0) {
            Some(host) => (host, false),
            None => {
                self.next_host += 1;
                (self.next_host, true)
            }
        };
        let owner = host_name(UPDATED, host);
        let (ttl, rtype) = (Ttl::from_secs(60), Type::TXT);
        let answer = Arc::new(Mutex::new(Answer::None));
        let (of, disk) = (Arc::clone(&answer), run.disk.clone());
        let answered = move |is_ok| {
            // Once the power is off, no response is sent.
            if !disk.is_off() {
                *lock(&of) = if is_ok { Answer::Accepted } else { Answer::Refused };
            }
        };
        if host % 3 == 0 {
            let kind = match adds {
                true => RrsetEditKind::Replace { ttl, rdatas: vec![text(self.bytes)] },
                false => RrsetEditKind::Delete,
            };
            let by = ChangeAuthor::Program { token: "test".into(), address: Ipv4Addr::LOCALHOST.into() };
            let edit = ZoneEdit { edits: vec![RrsetEdit { owner, rtype, kind }], at_serial: None, by };
            run.changes.edit(&apex(UPDATED), edit, answered);
        } else {
            let update = match adds {
                true => Update::Add { owner, rtype, ttl, rdata: text(self.bytes) },
                false => Update::DeleteName(owner),
            };
            let zone = name(UPDATED).as_name().to_lower();
            run.changes.update(UpdateRequest::of(zone.as_lower(), Vec::new(), vec![update]), answered);
        }
        self.sent.push(Sent { host, adds, answer });
    }

    /// Takes the updated zone's file, which holds the version in service without one host.
    fn take_file(&mut self, run: &mut Run) {
        let Some(served) = run.zones.served(&apex(UPDATED)) else { return };
        let mut there = hosts(&served);
        let dropped = there.iter().nth(self.chances.below(there.len())).copied();
        there.retain(|host| Some(*host) != dropped);
        let file = zone(UPDATED, served.serial().0, there.iter().copied(), self.bytes);
        self.files_taken.push(there);
        run.changes.take_file(&apex(UPDATED), file);
        run.takes.push(run.changes.taken(&apex(UPDATED)));
    }

    /// Changes and reads the file of the third zone.
    fn reload(&mut self, run: &mut Run) {
        let before = numbered(FILED, self.file, self.bytes);
        self.file += 1;
        let number = run.loads.entry(FILED).or_default();
        *number += 1;
        run.zones.want_again(&apex(FILED));
        let read = reading(numbered(FILED, self.file, self.bytes), Some(&before));
        run.zones.loaded(&apex(FILED), *number, Looked::Loaded(read));
    }

    /// Runs until nothing is in progress.
    fn finish(&mut self, run: &mut Run) {
        loop {
            let worked = run.changes.run()
                | run.background.run_waiting(|jobs| self.chances.below(jobs))
                | run.secondaries.run()
                | run.run_producer();
            run.zones.run();
            self.look(run);
            if !worked {
                break;
            }
        }
        run.check_histories();
    }

    /// Checks the end of a run in which the disk did not fail.
    fn check_end(&mut self, run: &mut Run) {
        assert_eq!(run.changes.waiting(), 0, "requests without an answer");
        let unanswered = self.sent.iter().filter(|sent| *lock(&sent.answer) == Answer::None).count();
        assert_eq!((unanswered, run.takes.len(), run.histories.len()), (0, 0, 0), "orders without an end");
        if !self.disk_failed {
            let refused = self.sent.iter().filter(|sent| *lock(&sent.answer) == Answer::Refused).count();
            assert_eq!((refused, run.changes.failed()), (0, 0), "a disk that works takes everything");
            let made = run.producer.produce();
            run.serve_produced(made);
            self.finish(run);
            if run.disk.is_off() {
                return;
            }
            let served = run.zones.served(&apex(CATALOG)).expect("a catalog zone");
            assert!(members(&served).keys().eq(&self.listed), "the catalog zone lists other zones");
        }
    }
}

impl Run {
    fn serve_produced(&self, made: Vec<Produced>) {
        made.into_iter().for_each(|made| self.zones.produced(&apex(CATALOG), made));
    }

    /// Handles an event of the producer. Returns false if there was none.
    fn run_producer(&mut self) -> bool {
        let made = self.producer.run();
        let is_any = made.is_some();
        self.serve_produced(made.unwrap_or_default());
        is_any
    }

    /// Checks the changes read for IXFR.
    fn check_histories(&mut self) {
        self.histories.retain(|(from, reply)| match reply.try_recv() {
            Ok(Ok(Some(history))) => {
                let mut serial = *from;
                for change in history {
                    let Ok(change) = change else { break };
                    assert_eq!(change.before.0, serial, "a gap in the history");
                    serial = change.after.0;
                }
                false
            }
            Ok(_) => false,
            Err(std::sync::mpsc::TryRecvError::Empty) => true,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => false,
        });
        self.takes.retain(|take| matches!(take.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)));
    }
}

/// The disk's fault in a run.
#[derive(Clone, Copy)]
enum Plan {
    Nothing,
    /// The power fails at this disk call.
    PowerGoes(u64),
    /// This disk call fails.
    Fails(u64),
}

/// Runs the server for so many steps; then the process ends, or the power fails. Returns the disk, and the
/// number of its calls.
fn run(
    world: &mut World,
    shared: &Shared,
    disk: SimulatedDisk,
    plan: Plan,
    steps: usize,
) -> (SimulatedDisk, u64) {
    let before = disk.calls();
    world.disk_fails = matches!(plan, Plan::Fails(_));
    world.disk_failed |= world.disk_fails;
    match plan {
        Plan::Nothing => {}
        Plan::PowerGoes(at) => disk.plan(at, Trouble::PowerGoes),
        Plan::Fails(at) => disk.plan(at, Trouble::Fails(ErrorKind::Other)),
    }
    let mut run = match world.start(shared, disk) {
        Ok(run) => run,
        // The disk fault prevents the start.
        Err((fault, disk)) => {
            assert!(!matches!(plan, Plan::Nothing), "the server does not start: {fault}");
            let loss = if disk.is_off() { Loss::AnyPart } else { Loss::Nothing };
            let calls = disk.calls() - before;
            let disk = disk.crash(loss);
            disk.plan_nothing();
            return (disk, calls);
        }
    };
    for _ in 0..steps {
        if run.disk.is_off() {
            break;
        }
        world.step(&mut run);
    }
    if !run.disk.is_off() && world.chances.below(3) > 0 {
        world.finish(&mut run);
    }
    if run.disk.is_off() {
        let loss = [Loss::Everything, Loss::AllBehindAPlace, Loss::AnyPart][world.chances.below(3)];
        return end(shared, world, run, before, loss);
    }
    if world.chances.below(2) == 0 {
        // The operator stops the server.
        let stopped = run.changes.stop();
        world.finish(&mut run);
        assert!(run.disk.is_off() || stopped.try_recv().is_ok(), "the thread has not ended");
        if !run.disk.is_off() {
            world.check_end(&mut run);
            if !world.disk_failed {
                world.kept = run.zones.served(&apex(SECONDARY)).map_or(world.kept, |zone| zone.serial().0);
            }
        }
    }
    let loss = if run.disk.is_off() { Loss::AnyPart } else { Loss::Nothing };
    end(shared, world, run, before, loss)
}

/// Ends a run immediately.
fn end(shared: &Shared, world: &World, run: Run, before: u64, loss: Loss) -> (SimulatedDisk, u64) {
    for (kind, done) in JobKind::ALL.iter().zip(&shared.jobs) {
        done.fetch_add(run.background.counts(*kind).done.load(Relaxed), Relaxed);
    }
    for sent in &world.sent {
        let mut answer = lock(&sent.answer);
        if *answer == Answer::None {
            *answer = Answer::Lost;
        }
    }
    let calls = run.disk.calls() - before;
    let disk = run.disk.crash(loss);
    disk.plan_nothing();
    // Waiting jobs own their data, and the run owns the jobs. The disk of this run is empty now.
    while run.background.run_waiting(|_| 0) {}
    (disk, calls)
}

/// Runs the server several times on one disk.
fn life(shared: &Shared, seed: u64, crash_at: Option<u64>) -> u64 {
    let mut world = World::new(seed);
    let mut disk = SimulatedDisk::new(seed);
    if world.chances.below(2) == 0 {
        disk.write_together(0);
    }
    let mut calls = 0;
    for number in 0..3 {
        let steps = 10 + world.chances.below(50);
        let plan = match (crash_at, number) {
            (Some(at), 0) => Plan::PowerGoes(at),
            (Some(_), _) => Plan::Nothing,
            (None, _) => match world.chances.below(8) {
                0 | 1 => Plan::Nothing,
                2 => Plan::Fails(1 + world.chances.below(200) as u64),
                _ => Plan::PowerGoes(1 + world.chances.below(200) as u64),
            },
        };
        let (next, made) = run(&mut world, shared, disk, plan, steps);
        if number == 0 {
            calls = made;
        }
        disk = next;
    }
    let (_, _) = run(&mut world, shared, disk, Plan::Nothing, 0);
    calls
}

impl Shared {
    fn new(notes: &Path) -> Shared {
        if std::env::var_os("SIMULATION_LOG").is_some() {
            let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).without_time();
            // The other test may have set the subscriber.
            let _ = log.with_writer(std::io::stderr).try_init();
        }
        Shared { notes: notes.to_owned(), peers: peers(), jobs: Default::default() }
    }
}

/// The seeds to run, so many usually.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let is_long = std::env::var_os("NOMEN_LONG_TESTS").is_some_and(|long| !long.is_empty());
    let usual = 0..if is_long { 100_000 } else { usual };
    let Ok(text) = std::env::var("SIMULATION_SEEDS") else { return usual };
    let numbers = text.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
    let Some((Ok(from), Ok(to))) = numbers else { panic!("SIMULATION_SEEDS: FROM..TO is wanted") };
    from..to
}

#[test]
fn a_server_that_crashes_anywhere_loses_nothing_that_it_has_acknowledged() {
    let notes = tempfile::tempdir().expect("a folder");
    let shared = Shared::new(notes.path());
    for seed in seeds(USUAL_SEEDS) {
        let lived = std::panic::catch_unwind(AssertUnwindSafe(|| life(&shared, seed, None)));
        assert!(lived.is_ok(), "seed {seed}");
    }
    shared.check_coverage();
}

#[test]
fn each_call_of_the_disk_may_be_the_last() {
    let notes = tempfile::tempdir().expect("a folder");
    let shared = Shared::new(notes.path());
    // Each takes hundreds of runs.
    for seed in seeds(USUAL_SEEDS).step_by(100) {
        // The number of calls without a crash.
        let calls = life(&shared, seed, Some(u64::MAX / 2));
        for at in 1..=calls {
            let lived = std::panic::catch_unwind(AssertUnwindSafe(|| life(&shared, seed, Some(at))));
            assert!(lived.is_ok(), "seed {seed}, the power goes at call {at}");
        }
    }
}

/// A run without faults, in which the updated zone has a stored version.
fn running(world: &mut World, shared: &Shared) -> Run {
    let started = world.start(shared, SimulatedDisk::new(1));
    let mut run = started.unwrap_or_else(|(fault, _)| panic!("{fault}"));
    world.send_update(&run);
    world.finish(&mut run);
    run
}

#[test]
fn a_panic_after_a_failed_write_ended_the_thread_for_all_zones() {
    let notes = tempfile::tempdir().expect("a folder");
    let (shared, mut world) = (Shared::new(notes.path()), World::new(1));
    let mut run = running(&mut world, &shared);
    let update = Update::DeleteName(host_name(UPDATED, 1));
    let request = UpdateRequest::of(name(UPDATED).as_name().to_lower().as_lower(), Vec::new(), vec![update]);
    run.changes.update(request, |_| panic!("a bug"));
    run.disk.plan(1, Trouble::AllFail(ErrorKind::Other));
    world.finish(&mut run);
    run.disk.plan_nothing();
    world.send_update(&run);
    world.finish(&mut run);
    assert_eq!(world.sent.last().map(|sent| *lock(&sent.answer)), Some(Answer::Accepted));
}

#[test]
fn requests_that_kept_arriving_kept_the_thread_from_storing_any() {
    let notes = tempfile::tempdir().expect("a folder");
    let (shared, mut world) = (Shared::new(notes.path()), World::new(1));
    let mut run = running(&mut world, &shared);
    let file = run.zones.served(&apex(UPDATED)).expect("a version");
    (0..5000).for_each(|_| run.changes.take_file(&apex(UPDATED), Arc::clone(&file)));
    // Each is two orders.
    assert!(run.changes.run() && run.changes.run(), "one round takes a bounded number of orders");
}
