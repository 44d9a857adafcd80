//! The thread that keeps zones, on folders of its own.

use std::fs;
use std::path::PathBuf;

use engine::{Config, Sources, Zones};
use tempfile::TempDir;
use wire::NameBuf;
use wire::hash::HashKey;
use zone::catalog::Catalog;

use super::*;
use crate::frontend;
use crate::zones::differences::DifferenceRule;
use crate::zones::{Origin, TextRules, ZoneSpec};

/// A folder of zones, each file named after its zone, and the thread that keeps them.
struct Rig {
    folder: TempDir,
    engine: Arc<Engine<Served>>,
    keeping: ZoneKeeping,
    kept: Arc<Kept>,
}

fn apex(name: &str) -> Apex {
    name.parse::<NameBuf>().expect("a name").as_name().as_wire().into()
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
    };
    WantedZones { specs: files.map(spec).collect(), ..WantedZones::default() }
}

impl Rig {
    fn new(zones: &[(&str, &str)]) -> (Rig, Summary) {
        let (rig, summary, thread) = Rig::idle(zones);
        std::thread::spawn(move || thread.work());
        (rig, summary)
    }

    /// One whose thread is not started yet.
    fn idle(zones: &[(&str, &str)]) -> (Rig, Summary, Keeping) {
        let folder = tempfile::tempdir().expect("a folder");
        let key = HashKey::new([1, 2, 3]);
        let zones_of = frontend::serving(Zones::new(Arc::new(Catalog::new(&key))));
        let engine = Arc::new(Engine::new(zones_of, Sources::default(), Config::default()));
        let path = folder.path().to_owned();
        let prepare = Box::new(move || Ok(wanted(&path)));
        let (mut thread, keeping, kept) = Keeping::new(Arc::clone(&engine), None, prepare);
        let rig = Rig { folder, engine, keeping, kept };
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

    fn reload(&self) -> Summary {
        let result = self.keeping.reload(Removal::HoldBack).blocking_recv().expect("an answer");
        Summary { milliseconds: 0, ..result.expect("a configuration").summary }
    }

    /// The serial numbers of the zones that are served, with their names; 0 if a zone is not loaded.
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
        self.keeping.stop();
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
    assert_eq!(rig.kept.get(&apex("b")).expect("kept").word(), "old");
    assert!(
        rig.kept.last_reload().is_some_and(|last| last.result.is_ok_and(|report| report.summary.failed == 1))
    );
}

#[test]
fn one_zone_is_read_without_looking_at_the_others() {
    let (rig, _) = Rig::new(&[("a", "1"), ("b", "1")]);
    rig.write("a", "2");
    rig.write("b", "2");
    let ask = |name: &str| rig.keeping.reload_zone(apex(name), false).blocking_recv().expect("an answer");
    assert_eq!(ask("b").map(|report| (report.summary.zones, report.summary.loaded)), Ok((1, 1)));
    assert_eq!(rig.served(), [("a.".to_owned(), 1), ("b.".to_owned(), 2)]);
    assert_eq!(ask("elsewhere"), Err(ReloadFault::NoSuchZone));
    rig.write("a", "bad");
    assert!(matches!(ask("a"), Err(ReloadFault::Zone(fault)) if fault.text.contains("bad")));
}

/// A zone that nobody would find.
fn foreign() -> Arc<Zone> {
    let (name, key) = ("foreign.".parse::<NameBuf>().expect("a name"), HashKey::new([4, 5, 6]));
    let mut builder = zone::ZoneBuilder::new(name.as_name(), &key);
    builder.add(name.as_name(), wire::Type::SOA, wire::Ttl::from_secs(60), &[0; 22]).expect("a record");
    Arc::new(builder.finish().expect("a zone"))
}

#[test]
fn whoever_asked_heard_success_though_nothing_was_published() {
    let (rig, _, mut thread) = Rig::idle(&[("a", "1")]);
    rig.write("a", "2");
    thread.publisher.add(zone::catalog::Change::Serve(foreign()), Instant::now());
    let answer = rig.keeping.reload(Removal::HoldBack);
    std::thread::spawn(move || thread.work());
    let result = answer.blocking_recv().expect("an answer");
    assert!(matches!(result, Err(ReloadFault::Unpublished(_))), "{result:?}");
    let last = rig.kept.last_reload().expect("a reload");
    assert!(matches!(last.result, Err(ReloadFault::Unpublished(_))));
}

#[test]
fn a_zone_of_another_key_kept_every_other_zone_from_being_published() {
    let (rig, _, mut thread) = Rig::idle(&[("a", "1"), ("b", "1")]);
    thread.loaders = Loaders::new(HashKey::new([4, 5, 6]), None);
    std::thread::spawn(move || thread.work());
    rig.write("a", "2");
    fs::remove_file(rig.folder.path().join("b")).expect("removed");
    let summary = rig.reload();
    assert_eq!((summary.failed, summary.removed), (1, 1));
    assert_eq!(rig.served(), [("a.".to_owned(), 1)]);
    let state = rig.kept.get(&apex("a")).expect("kept");
    assert!(state.fault.as_ref().is_some_and(|fault| fault.message.contains("another hash key")));
}

#[test]
fn everybody_who_asks_is_answered() {
    let (rig, _) = Rig::new(&[("a", "1")]);
    let all: Vec<_> = (0..50)
        .map(|i| {
            if i % 2 == 0 {
                rig.keeping.reload(Removal::HoldBack)
            } else {
                rig.keeping.reload_zone(apex("a"), false)
            }
        })
        .collect();
    for answer in all {
        assert!(answer.blocking_recv().expect("an answer").is_ok());
    }
    rig.keeping.stop();
    while rig.keeping.reload(Removal::HoldBack).blocking_recv().is_ok() {}
}
