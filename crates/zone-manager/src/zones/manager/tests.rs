//! Tests of the zone manager on folders of their own.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use query_path::access::{AccessAction, AccessRule};
use query_path::{EngineConfig, Sources, ViewRule, Zones};
use tempfile::TempDir;
use wire::hash::HashKey;
use wire::{NameBuf, ViewName};
use zone::catalog::Catalog;
use zone_plan::{DifferenceRule, Origin, TextRules, ZoneSpec, ZoneText};

use super::*;
use crate::managed::state::Load;
use crate::zones::loaders::{ReadZone, ZoneReader};
use serving::frontend;

/// A folder of zones, each file named after its zone, and the zone manager.
struct Rig {
    folder: TempDir,
    engine: Arc<Engine<Served>>,
    manager: ZoneManagerHandle,
    table: Arc<ZoneTable>,
    /// Limits of the next reload.
    bounds: Arc<Mutex<ReloadBounds>>,
}

fn apex(name: &str) -> ZoneName {
    name.parse::<NameBuf>().expect("a name").as_name().into()
}

fn wanted(folder: &Path) -> WantedZones {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_name().expect("a name").to_str().expect("text").to_owned();
    let spec = |path: PathBuf| ZoneSpec {
        apex: apex(&name(&path)),
        text: ZoneText::File(path.into()),
        origin: Origin::Folder,
        differences: DifferenceRule::default(),
        rules: TextRules::default(),
        signed: false,
    };
    WantedZones { specs: files.map(spec).collect(), ..WantedZones::default() }
}

impl Rig {
    fn new(zones: &[(&str, &str)]) -> (Rig, Summary) {
        let (rig, summary, thread) = Rig::idle(zones);
        std::thread::spawn(move || thread.work());
        (rig, summary)
    }

    /// Returns a rig whose manager thread is not started yet.
    fn idle(zones: &[(&str, &str)]) -> (Rig, Summary, ZoneManager) {
        let folder = tempfile::tempdir().expect("a folder");
        let key = HashKey::new([1, 2, 3]);
        let zones_of = frontend::serving(Zones::new(Arc::new(Catalog::new(&key))));
        let engine = Arc::new(Engine::new(zones_of, Sources::default(), EngineConfig::default()));
        let path = folder.path().to_owned();
        let bounds = Arc::new(Mutex::new(ReloadBounds::default()));
        let of_next = Arc::clone(&bounds);
        let prepare = Box::new(move |accept: &AcceptZones<'_>| {
            let wanted = WantedZones { bounds: *lock(&of_next), ..wanted(&path) };
            accept(&wanted).map(|()| wanted)
        });
        let ((manager, inbox), table) = (ZoneManagerHandle::new(), Arc::<ZoneTable>::default());
        let parts = ZoneManagerParts {
            engine: Arc::clone(&engine),
            table: Arc::clone(&table),
            prepare,
            images: None,
            secondaries: None,
            transfers: None,
            changes: None,
            differences: None,
            local_root: None,
            policy_zones: None,
            produced: Arc::default(),
            documents: None,
            state: None,
            background: Arc::default(),
        };
        let mut thread = ZoneManager::start(&manager, inbox, parts).expect("a thread");
        let rig = Rig { folder, engine, manager, table, bounds };
        zones.iter().for_each(|(name, serial)| rig.write(name, serial));
        let summary = thread.load_first(wanted(rig.folder.path()));
        (rig, summary, thread)
    }

    fn write(&self, name: &str, serial: &str) {
        let text =
            format!("$TTL 60\n@ SOA ns1 admin {serial} 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n");
        fs::write(self.folder.path().join("fresh"), text).expect("written");
        fs::rename(self.folder.path().join("fresh"), self.folder.path().join(name)).expect("moved");
    }

    /// Waits until the publishing thread has handled the messages sent to it so far.
    fn wait_for_publisher(&self) {
        let (reply, replied) = sync_channel(1);
        self.manager.publishing().0.send(Publishing::Flush(reply)).expect("the thread runs");
        assert_eq!(replied.recv(), Ok(None), "no step failed");
    }

    fn reload(&self) -> Summary {
        let result = self.manager.reload(Removal::HoldBack).blocking_recv().expect("an answer");
        Summary { milliseconds: 0, ..result.expect("a configuration").summary }
    }

    /// Returns the names and serial numbers of the zones in service; 0 if a zone is not loaded.
    fn served(&self) -> Vec<(String, u32)> {
        let catalog = self.engine.catalog();
        let serial = |e: &zone::ZoneEntry| e.zone().map_or(0, |zone| zone.serial().0);
        let mut all: Vec<_> = catalog.iter().map(|e| (e.name().to_string(), serial(e))).collect();
        all.sort();
        all
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.manager.stop();
    }
}

#[test]
fn zones_come_change_and_go() {
    let (rig, first) = Rig::new(&[("a", "1"), ("b", "1"), ("c", "bad")]);
    assert_eq!((first.zones, first.loaded, first.failed), (3, 2, 1));
    let served = |a: u32, b: u32| vec![("a.".to_owned(), a), ("b.".to_owned(), b)];
    assert_eq!(rig.served(), [served(1, 1), vec![("c.".to_owned(), 0)]].concat());
    fs::remove_file(rig.folder.path().join("c")).expect("removed");
    rig.write("b", "2");
    let summary = Summary { zones: 2, loaded: 1, unchanged: 1, removed: 1, ..Summary::default() };
    assert_eq!(rig.reload(), summary);
    assert_eq!(rig.served(), served(1, 2));
    // A bad version leaves the one before in service.
    rig.write("b", "bad");
    assert_eq!(rig.reload().failed, 1);
    assert_eq!(rig.served(), served(1, 2));
    assert_eq!(rig.table.get(&apex("b")).expect("kept").word(), "old");
    assert!(
        rig.table
            .last_reload()
            .is_some_and(|last| last.result.is_ok_and(|report| report.summary.failed == 1))
    );
}

#[test]
fn a_zone_that_moves_to_a_view_is_served_until_the_view_has_it() {
    let (rig, _, mut thread) = Rig::idle(&[("a", "1"), ("b", "1")]);
    let view: ViewName = "inside".parse().expect("the name of a view");
    let inside = ZoneName::in_view(apex("a").as_lower(), Some(&view));
    let clients = AccessRule { action: AccessAction::Allow, from: Vec::new(), local: None, transports: None };
    let with_view = || {
        let mut next = wanted(rig.folder.path());
        let spec = next.specs.iter_mut().find(|spec| spec.apex == apex("a")).expect("a zone");
        spec.apex = inside.clone();
        next.views = vec![ViewRule { name: view.clone(), clients: clients.clone(), keys: Vec::new() }];
        next
    };
    let outside = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect::<Vec<_>>();
    let is_in_view = || rig.engine.zone_entry(&inside).is_some_and(|entry| entry.zone().is_some());
    thread.look_at_all(with_view(), Purpose::All(Removal::HoldBack), Vec::new());
    // The manager has not handled the end of the load.
    rig.wait_for_publisher();
    assert_eq!((rig.served(), rig.engine.views().is_none()), (outside(&["a.", "b."]), true));
    while thread.round.is_some() && thread.handle_messages() {}
    assert_eq!((rig.served(), is_in_view()), (outside(&["b."]), true));
    let catalog = rig.engine.catalog_of(Some("inside")).expect("a view");
    assert_eq!(catalog.len(), 2);
    // The view follows the zones outside.
    rig.write("c", "1");
    thread.look_at_all(with_view(), Purpose::All(Removal::HoldBack), Vec::new());
    while thread.round.is_some() && thread.handle_messages() {}
    let catalog = rig.engine.catalog_of(Some("inside")).expect("a view");
    assert_eq!((catalog.len(), rig.engine.catalog().len()), (3, 2));
    // Back to the zones outside.
    thread.look_at_all(wanted(rig.folder.path()), Purpose::All(Removal::HoldBack), Vec::new());
    rig.wait_for_publisher();
    assert_eq!((rig.served(), is_in_view()), (outside(&["b.", "c."]), true));
    while thread.round.is_some() && thread.handle_messages() {}
    assert_eq!((rig.served(), rig.engine.views().is_none()), (outside(&["a.", "b.", "c."]), true));
}

#[test]
fn one_zone_is_read_without_looking_at_the_others() {
    let (rig, _) = Rig::new(&[("a", "1"), ("b", "1")]);
    rig.write("a", "2");
    rig.write("b", "2");
    let ask = |name: &str| rig.manager.reload_zone(apex(name), false).blocking_recv().expect("an answer");
    assert_eq!(ask("b").map(|report| (report.summary.zones, report.summary.loaded)), Ok((1, 1)));
    assert_eq!(rig.served(), [("a.".to_owned(), 1), ("b.".to_owned(), 2)]);
    assert_eq!(ask("elsewhere"), Err(ReloadFault::NoSuchZone));
    rig.write("a", "bad");
    assert!(matches!(ask("a"), Err(ReloadFault::Zone(fault)) if fault.text.contains("bad")));
}

/// Returns a zone under another hash key: no lookup would find it.
fn foreign() -> Arc<Zone> {
    let (name, key) = ("foreign.".parse::<NameBuf>().expect("a name"), HashKey::new([4, 5, 6]));
    let mut builder = zone::ZoneBuilder::new(name.as_name(), &key);
    builder.add(name.as_name(), wire::Type::SOA, wire::Ttl::from_secs(60), &[0; 22]).expect("a record");
    Arc::new(builder.finish().expect("a zone"))
}

#[test]
fn whoever_asked_heard_success_though_nothing_was_published() {
    let (rig, _, thread) = Rig::idle(&[("a", "1")]);
    rig.write("a", "2");
    let zone = foreign();
    thread.executor.step(&zone.apex().into(), Change::Serve(Arc::clone(&zone)), false);
    let answer = rig.manager.reload(Removal::HoldBack);
    std::thread::spawn(move || thread.work());
    let result = answer.blocking_recv().expect("an answer");
    assert!(matches!(result, Err(ReloadFault::Unpublished(_))), "{result:?}");
    let last = rig.table.last_reload().expect("a reload");
    assert!(matches!(last.result, Err(ReloadFault::Unpublished(_))));
}

#[test]
fn a_zone_of_another_key_kept_every_other_zone_from_being_published() {
    let (rig, _, mut thread) = Rig::idle(&[("a", "1"), ("b", "1")]);
    thread.loaders = Loaders::new(HashKey::new([4, 5, 6]), KeptElsewhere::default(), Arc::default());
    std::thread::spawn(move || thread.work());
    rig.write("a", "2");
    fs::remove_file(rig.folder.path().join("b")).expect("removed");
    let summary = rig.reload();
    assert_eq!((summary.failed, summary.removed), (1, 1));
    assert_eq!(rig.served(), [("a.".to_owned(), 1)]);
    let state = rig.table.get(&apex("a")).expect("kept");
    assert!(state.fault.as_ref().is_some_and(|fault| fault.message.contains("another hash key")));
}

#[test]
fn everybody_who_asks_is_answered() {
    let (rig, _) = Rig::new(&[("a", "1")]);
    let all: Vec<_> = (0..50)
        .map(|i| {
            if i % 2 == 0 {
                rig.manager.reload(Removal::HoldBack)
            } else {
                rig.manager.reload_zone(apex("a"), false)
            }
        })
        .collect();
    for answer in all {
        assert!(answer.blocking_recv().expect("an answer").is_ok());
    }
    rig.manager.stop();
    while rig.manager.reload(Removal::HoldBack).blocking_recv().is_ok() {}
}

/// Reads zones as usual, but those whose names begin with `stuck` only once the other end of `gate` is
/// dropped.
struct Gated {
    reader: ZoneReader,
    gate: Mutex<Receiver<()>>,
}

impl ReadZone for Gated {
    fn look(&self, load: &Load, threads: usize, progress: &AtomicU64) -> Looked {
        if load.spec.apex.as_wire()[1..].starts_with(b"stuck") && load.serving.is_some() {
            // `recv` returns an error when the gate is dropped.
            let _ = lock(&self.gate).recv();
        }
        self.reader.look(load, threads, progress)
    }
}

/// Returns a rig with more zones than loader threads whose second load does not end before the other end of
/// the channel is dropped.
fn stuck_rig() -> (Rig, usize, Sender<()>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) + 2;
    let names: Vec<String> =
        (0..threads).map(|i| format!("stuck{i}")).chain(["a".into(), "b".into()]).collect();
    let zones: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let (rig, _, mut thread) = Rig::idle(&zones);
    let (hold, gate) = channel();
    let reader = ZoneReader::of_text(HashKey::new([1, 2, 3]));
    thread.loaders = Loaders::with(Arc::new(Gated { reader, gate: Mutex::new(gate) }));
    std::thread::spawn(move || thread.work());
    zones.iter().for_each(|(name, _)| rig.write(name, "2"));
    (rig, threads, hold)
}

#[test]
fn a_zone_whose_load_did_not_end_held_up_all_others() {
    let (rig, stuck, hold) = stuck_rig();
    let mut all = rig.manager.reload(Removal::HoldBack);
    let one = rig.manager.reload_zone(apex("a"), false).blocking_recv().expect("an answer");
    assert_eq!(one.map(|report| report.summary.zones), Ok(1));
    assert!(rig.served().contains(&("a.".to_owned(), 2)));
    assert!(all.try_recv().is_err(), "the others are still read");
    drop(hold);
    let report = all.blocking_recv().expect("an answer").expect("a configuration");
    assert_eq!((report.summary.zones, report.summary.failed), (stuck + 2, 0));
    assert!(rig.served().iter().all(|(_, serial)| *serial == 2), "{:?}", rig.served());
}

#[test]
fn no_reload_ended_after_a_load_that_did_not() {
    let (rig, stuck, hold) = stuck_rig();
    lock(&rig.bounds).load_stall = Duration::ZERO;
    let reload = || rig.manager.reload(Removal::HoldBack).blocking_recv().expect("an answer");
    let first = reload().expect("a configuration");
    assert!(first.summary.failed >= stuck, "{:?}", first.summary);
    assert!(
        first.faults.iter().any(|fault| fault.fault.contains("load-stall-timeout")),
        "{:?}",
        first.faults
    );
    // The next reload does not wait for these zones either, and reports them, too.
    assert!(reload().expect("a configuration").summary.failed >= stuck);
    let state = || rig.table.get(&apex("stuck0")).expect("kept");
    assert_eq!(state().word(), "old");
    let one = rig.manager.reload_zone(apex("stuck0"), false).blocking_recv().expect("an answer");
    assert!(matches!(one, Err(ReloadFault::Zone(_))), "{one:?}");
    lock(&rig.bounds).load_stall = Duration::MAX;
    drop(hold);
    while state().word() != "ok" {
        reload().expect("a configuration");
    }
    assert_eq!(state().zone.as_ref().map(|zone| zone.serial().0), Some(2));
}

#[test]
fn a_reload_with_an_empty_configuration_removed_every_zone() {
    let names: Vec<String> = (0..20).map(|i| format!("z{i:02}")).collect();
    let zones: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let (rig, _) = Rig::new(&zones);
    let remove = |names: &[String]| {
        names.iter().for_each(|name| fs::remove_file(rig.folder.path().join(name)).expect("removed"));
    };
    let reload = |removal| rig.manager.reload(removal).blocking_recv().expect("an answer");
    let held = |gone| Err(ReloadFault::HeldBack(LostZones { gone, of: 20 }));
    remove(&names[..11]);
    assert_eq!(reload(Removal::HoldBack), held(11), "more than half of them");
    remove(&names[11..]);
    assert_eq!(reload(Removal::HoldBack), held(20), "all of them");
    assert_eq!(rig.served().len(), 20);
    assert!(rig.table.last_reload().is_some_and(|last| last.result.is_err()));
    lock(&rig.bounds).max_removed = 1.0;
    assert_eq!(reload(Removal::HoldBack), held(20), "none would be left");
    zones[..2].iter().for_each(|(name, serial)| rig.write(name, serial));
    assert_eq!(reload(Removal::HoldBack).map(|report| report.summary.removed), Ok(18));
    remove(&names[..1]);
    assert_eq!(reload(Removal::HoldBack).map(|report| report.summary.removed), Ok(1), "one is left");
    remove(&names[1..2]);
    assert!(reload(Removal::HoldBack).is_err());
    assert_eq!(reload(Removal::Force).map(|report| report.summary.removed), Ok(1));
    assert_eq!(rig.served(), []);
}

#[test]
fn a_claim_that_timed_out_kept_the_zone_from_its_file() {
    let (rig, _) = Rig::new(&[("example", "1")]);
    let claim = || {
        let (reply, replied) = sync_channel(1);
        rig.manager.publishing().claim(apex("example"), Box::new(move |claimed| drop(reply.send(claimed))));
        replied
    };
    // The claiming thread ends before or after the claim is made.
    drop(claim());
    // The end of the claim is sent while the claim is handled, so it is in the queue only then.
    rig.wait_for_publisher();
    rig.wait_for_publisher();
    rig.write("example", "2");
    rig.reload();
    assert_eq!(rig.served(), [("example.".to_owned(), 2)]);
    let claimed = claim().recv().expect("a reply").expect("a version");
    rig.write("example", "3");
    rig.reload();
    assert_eq!(rig.served(), [("example.".to_owned(), 2)], "updates change the zone");
    // Another claim ends nothing, and the zone loads from its file again when the first one ends.
    drop(claim().recv().expect("a reply"));
    drop(claimed);
    rig.wait_for_publisher();
    rig.write("example", "4");
    rig.reload();
    assert_eq!(rig.served(), [("example.".to_owned(), 4)]);
}

#[test]
fn a_reload_held_up_the_answers_to_updates() {
    let (hold, gate) = channel::<()>();
    let (rig, _, mut thread) = Rig::idle(&[("example", "1")]);
    let (reading, read) = channel();
    // The configuration is being read until the other end of the gate is dropped.
    thread.prepare = Box::new(move |_: &AcceptZones<'_>| {
        reading.send(()).expect("the test waits for it");
        let _ = gate.recv();
        Err(ReloadFault::Configuration("the reading was broken off".into()))
    });
    std::thread::spawn(move || thread.work());
    let mut reload = rig.manager.reload(Removal::HoldBack);
    read.recv().expect("the configuration is read");
    let (reply, replied) = sync_channel(1);
    rig.manager.publishing().claim(apex("example"), Box::new(move |claimed| drop(reply.send(claimed))));
    let claimed = replied.recv().expect("a reply").expect("a version");
    let (done, published) = channel();
    let done = Box::new(move || done.send(()).expect("the test waits for it"));
    rig.manager.publishing().changed(apex("example"), of_serial(2), done);
    published.recv().expect("it is in service");
    assert_eq!(rig.served(), [("example.".to_owned(), 2)]);
    assert!(reload.try_recv().is_err(), "the configuration is still read");
    drop((hold, claimed));
    assert!(matches!(reload.blocking_recv(), Ok(Err(ReloadFault::Configuration(_)))));
}

/// Returns a version of the zone `example.`.
fn of_serial(serial: u8) -> Arc<Zone> {
    let name = "example.".parse::<NameBuf>().expect("a name");
    let mut builder = zone::ZoneBuilder::new(name.as_name(), &HashKey::new([1, 2, 3]));
    let soa = [&[0, 0, 0, 0, 0, serial][..], &[0; 16]].concat();
    builder.add(name.as_name(), wire::Type::SOA, wire::Ttl::from_secs(60), &soa).expect("a record");
    Arc::new(builder.finish().expect("a zone"))
}
