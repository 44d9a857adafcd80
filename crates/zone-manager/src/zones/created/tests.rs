//! Zones that are created, edited and removed while the server runs, restarts and crashes.

use std::collections::HashSet;
use std::fs;
use std::sync::Mutex;

use query_path::{Engine, EngineConfig, Sources, Zones};
use serving::frontend::{Served, serving};
use tempfile::TempDir;
use testkit::disk::{Loss, SimulatedDisk, Trouble};
use threads::background::Background;
use threads::sync::lock;
use wire::hash::HashKey;
use zone::Zone;
use zone::catalog::Catalog;
use zone_plan::WantedZones;

use super::*;
use crate::changes::{
    ChangeAuthor, ChangeOrigin, Changes, ChangesFault, EditEnd, EditFault, RrsetEdit, RrsetEditKind, ZoneEdit,
};
use crate::secondaries::Secondaries;
use crate::transfers::Histories;
use crate::zones::added;
use crate::zones::documents::ZoneDocumentStore;
use crate::zones::manager::{
    ReloadFault, Reloaded, ZoneManager, ZoneManagerHandle, ZoneManagerParts, ZoneTable,
};
use crate::zones::resolve::resolve;

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn apex(text: &str) -> ZoneName {
    name(text).as_name().into()
}

fn record(owner: &str, rtype: Type, rdata: &[u8]) -> CreatedRecord {
    CreatedRecord { owner: name(owner), rtype, ttl: Ttl::from_secs(300), rdata: rdata.to_vec() }
}

/// A zone with one host.
fn creation(zone: &str, template: Option<&str>, address: u8) -> ZoneCreation {
    let records = vec![
        record(zone, Type::NS, b"\x02ns\x07example\0"),
        record(&format!("www.{zone}"), Type::A, &[192, 0, 2, address]),
    ];
    let source = CreationSource::Records(records);
    ZoneCreation { apex: apex(zone), template: template.map(str::to_owned), dnssec_policy: None, source }
}

fn edit(owner: &str, kind: RrsetEditKind) -> ZoneEdit {
    let by = ChangeAuthor::Program { token: "test".into(), address: std::net::Ipv4Addr::LOCALHOST.into() };
    ZoneEdit { edits: vec![RrsetEdit { owner: name(owner), rtype: Type::A, kind }], at_serial: None, by }
}

fn address(owner: &str, address: u8) -> ZoneEdit {
    edit(owner, RrsetEditKind::Replace { ttl: Ttl::from_secs(300), rdatas: vec![vec![192, 0, 2, address]] })
}

/// A running server's zones.
struct Server {
    manager: ZoneManagerHandle,
    table: Arc<ZoneTable>,
    changes: Arc<Changes>,
    histories: Histories,
    documents: Arc<Documents>,
    _engine: Arc<Engine<Served>>,
    thread: std::thread::JoinHandle<()>,
}

/// The zones with a document.
#[derive(Default)]
struct Documents(Mutex<HashSet<ZoneName>>);

impl Documents {
    fn add(&self, zone: &str) {
        lock(&self.0).insert(apex(zone));
    }

    fn has(&self, zone: &str) -> bool {
        lock(&self.0).contains(&apex(zone))
    }
}

impl ZoneDocumentStore for Documents {
    fn forget(&self, apex: &ZoneName) -> io::Result<()> {
        lock(&self.0).remove(apex);
        Ok(())
    }
}

/// Reads the configuration of a folder, and the zones that were added.
fn read(folder: &Path) -> (config::Settings, WantedZones) {
    let of_settings =
        |settings: &config::Settings| settings.server.storage.folder().map(|state| state.join(added::FILE));
    let accepted = config::read_service(&folder.join("nomen.toml"), of_settings, None);
    let config = accepted.unwrap_or_else(|rejected| panic!("{rejected}")).config;
    let wanted = resolve(&config).expect("zones");
    (config.settings, wanted)
}

impl Server {
    fn start(folder: &TempDir) -> Server {
        let (path, state) = (folder.path().to_owned(), folder.path().join("state"));
        let (settings, wanted) = read(&path);
        let zones = serving(Zones::new(Arc::new(Catalog::new(&HashKey::new([1, 2, 3])))));
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
        changes.allow(&wanted.updates);
        let publishing = manager.publishing();
        let secondaries =
            Secondaries::start(&engine, &settings, None, &background, publishing, Arc::default());
        let secondaries = secondaries.expect("secondaries");
        let histories = Histories {
            changes: Some(Arc::clone(&changes)),
            differences: None,
            secondaries: Arc::clone(&secondaries),
            produced: Arc::default(),
        };
        let of_changes = Arc::clone(&changes);
        let documents = Arc::<Documents>::default();
        let parts = ZoneManagerParts {
            engine: Arc::clone(&engine),
            table: Arc::clone(&table),
            prepare: Box::new(move |accept| {
                let (_, wanted) = read(&path);
                of_changes.allow(&wanted.updates);
                accept(&wanted).map(|()| wanted)
            }),
            images: None,
            secondaries: Some(secondaries),
            transfers: None,
            changes: Some(Arc::clone(&changes)),
            differences: None,
            local_root: None,
            policy_zones: None,
            produced: Arc::default(),
            state: Some(state),
            documents: Some(Arc::clone(&documents) as Arc<dyn ZoneDocumentStore>),
            background,
        };
        let mut thread = ZoneManager::start(&manager, inbox, parts).expect("a thread");
        thread.load_first(wanted);
        let thread = std::thread::spawn(move || thread.work());
        Server { manager, table, changes, histories, documents, _engine: engine, thread }
    }

    fn create(&self, zone: ZoneCreation) -> Reloaded {
        self.manager.create_zone(zone).blocking_recv().expect("a reply")
    }

    fn remove(&self, zone: &str) -> Reloaded {
        self.manager.remove_zone(apex(zone)).blocking_recv().expect("a reply")
    }

    fn edit(&self, zone: &str, edit: ZoneEdit) -> EditEnd {
        self.changes.edit(&apex(zone), edit).blocking_recv().expect("a reply")
    }

    fn zone(&self, zone: &str) -> Option<Arc<Zone>> {
        self.table.get(&apex(zone))?.zone.clone()
    }

    /// The last byte of the address of a name.
    fn address(&self, zone: &str, owner: &str) -> Option<u8> {
        let zone = self.zone(zone)?;
        let set = zone.find_name(name(owner).as_name())?.rrset(Type::A)?;
        let mut rdata = Vec::new();
        set.rdatas().next()?.copy_to(&mut rdata);
        rdata.last().copied()
    }

    /// Ends, without notice to anything on disk but what a stop writes.
    fn stop(self) {
        self.changes.stop();
        self.manager.stop();
        self.thread.join().expect("it ends");
    }
}

const TEMPLATES: &str = "[server]\nstate-dir = \"state\"\n[template.plain]\nfile = \"{zone}\"\n\
    [template.signed]\nfile = \"{zone}\"\ndnssec-policy = \"default\"\n";

fn folder(more: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("nomen.toml"), format!("{TEMPLATES}{more}")).expect("written");
    folder
}

/// The files below a folder, with their paths from there.
fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let word = path.file_name().expect("a name").to_string_lossy().into_owned();
        match path.is_dir() {
            true => all.extend(files(&path).into_iter().map(|file| format!("{word}/{file}"))),
            false => all.push(word),
        }
    }
    all.sort();
    all
}

/// What is stored of any zone.
fn stored(folder: &TempDir) -> Vec<String> {
    let state = folder.path().join("state");
    let of_zones =
        |file: &String| ["created/", "changes/", "keys/"].iter().any(|part| file.starts_with(part));
    files(&state).into_iter().filter(|file| of_zones(file) && !file.ends_with("/lock")).collect()
}

#[test]
fn a_created_zone_is_edited_stays_after_a_restart_and_leaves_nothing_when_it_is_removed() {
    let folder = folder("");
    let server = Server::start(&folder);
    server.create(creation("a.test.", Some("plain"), 1)).expect("created");
    assert_eq!(server.address("a.test.", "www.a.test."), Some(1));
    let again = server.create(creation("a.test.", None, 9)).expect_err("it is there");
    assert!(matches!(again, ReloadFault::Served(_)), "{again}");
    assert_eq!(server.address("a.test.", "www.a.test."), Some(1), "the first records stay");
    let first = server.zone("a.test.").expect("a zone").serial();
    let change = server.edit("a.test.", address("www.a.test.", 2)).expect("edited").expect("changed");
    let (removed, added) = (change.removed.len(), change.added.len());
    assert_eq!((change.before, change.after.0, removed, added), (first, first.0 + 1, 2, 2));
    server.edit("a.test.", address("ftp.a.test.", 3)).expect("edited").expect("changed");
    assert!(server.edit("a.test.", address("ftp.a.test.", 3)).expect("edited").is_none());
    server.stop();
    // The file has the first version, the journal what changed since.
    let server = Server::start(&folder);
    assert_eq!(server.address("a.test.", "www.a.test."), Some(2));
    assert_eq!(server.address("a.test.", "ftp.a.test."), Some(3));
    server.edit("a.test.", edit("ftp.a.test.", RrsetEditKind::Delete)).expect("edited").expect("changed");
    assert!(!stored(&folder).is_empty());
    server.remove("a.test.").expect("removed");
    assert_eq!(stored(&folder), [""; 0]);
    assert!(server.zone("a.test.").is_none());
    assert!(matches!(server.edit("a.test.", address("x.a.test.", 1)), Err(EditFault::NoSuchZone)));
    // One of the same name begins anew.
    server.create(creation("a.test.", Some("plain"), 5)).expect("created");
    assert_eq!(server.address("a.test.", "www.a.test."), Some(5));
    assert_eq!(server.address("a.test.", "ftp.a.test."), None);
    assert_eq!(server.zone("a.test.").expect("a zone").serial(), first);
    assert_eq!(server.histories.versions(&apex("a.test."), 10), []);
    server.stop();
    // The state folder can be moved.
    let moved = self::folder("");
    fs::rename(folder.path().join("state"), moved.path().join("state")).expect("moved");
    let server = Server::start(&moved);
    assert_eq!(server.address("a.test.", "www.a.test."), Some(5));
    server.remove("a.test.").expect("removed");
    assert_eq!(stored(&moved), [""; 0]);
    server.stop();
}

#[test]
fn the_document_of_a_zone_goes_with_it() {
    let folder = folder("");
    let server = Server::start(&folder);
    let has = |zone| server.documents.has(zone);
    // One that an earlier zone of this name has left.
    ["a.test.", "other.test."].into_iter().for_each(|zone| server.documents.add(zone));
    server.create(creation("a.test.", Some("plain"), 1)).expect("created");
    assert!(!has("a.test.") && has("other.test."));
    server.documents.add("a.test.");
    server.create(creation("a.test.", None, 9)).expect_err("it is there");
    assert!(has("a.test."), "a refused creation leaves that of the zone");
    server.remove("a.test.").expect("removed");
    assert!(!has("a.test.") && has("other.test."));
    let text = format!("[[zone]]\nname = \"a.test\"\nfile = {:?}\n", folder.path().join("a.zone"));
    fs::write(folder.path().join("a.zone"), "@ 60 SOA ns.x. h.x. 1 1 1 1 1\n@ 60 NS ns.x.\n")
        .expect("written");
    server.documents.add("a.test.");
    server.manager.add_zone(text).blocking_recv().expect("a reply").expect("added");
    assert!(!has("a.test."), "one that is added begins without a document");
    server.documents.add("a.test.");
    server.remove("a.test.").expect("removed");
    assert!(!has("a.test."));
    server.stop();
}

#[test]
fn what_cannot_be_created_leaves_nothing() {
    let folder = folder("");
    let server = Server::start(&folder);
    let with = |more: CreatedRecord| {
        let mut zone = creation("b.test.", None, 1);
        let CreationSource::Records(records) = &mut zone.source else { unreachable!("records") };
        records.push(more);
        zone
    };
    let alone =
        |records| ZoneCreation { source: CreationSource::Records(records), ..creation("b.test.", None, 1) };
    let long = format!("{0}.{0}.{0}.{1}.", "x".repeat(63), "x".repeat(60));
    for (zone, words) in [
        (creation("b.test.", Some("none"), 1), "there is no [template.none]"),
        (with(record("c.test.", Type::A, &[192, 0, 2, 1])), "c.test. A: not in the zone b.test."),
        (with(record("b.test.", Type::NSEC, &[0])), "the signer of a zone makes such records"),
        (with(record("b.test.", Type::SOA, &[0])), "the SOA record is malformed"),
        (with(record("www.b.test.", Type::CNAME, &[0])), "CNAME and other data"),
        (with(record("x.b.test.", Type::A, &[1])), "b.test.zone:"),
        (alone(Vec::new()), "no NS record"),
        (ZoneCreation { apex: apex(&long), ..alone(vec![record(&long, Type::NS, &[0])]) }, "too long"),
        (
            ZoneCreation {
                source: CreationSource::Primaries(vec!["nowhere".into()]),
                ..creation("b.test.", None, 1)
            },
            "`nowhere`",
        ),
    ] {
        let fault = server.create(zone).expect_err(words).to_string();
        assert!(fault.contains(words), "{words}: {fault}");
        assert_eq!(stored(&folder), [""; 0], "{words}");
        assert!(server.zone("b.test.").is_none());
    }
    assert!(!folder.path().join("state").join(added::FILE).exists());
    server.create(creation("b.test.", None, 1)).expect("created");
    let secondary = ZoneCreation {
        source: CreationSource::Primaries(vec!["192.0.2.1".into()]),
        ..creation("s.test.", None, 1)
    };
    server.create(secondary).expect("created");
    assert!(matches!(server.edit("s.test.", address("s.test.", 1)), Err(EditFault::Secondary)));
    server.stop();
    let server = Server::start(&folder);
    assert!(server.zone("b.test.").is_some() && server.table.get(&apex("s.test.")).is_some());
    server.stop();
}

#[test]
fn a_created_zone_may_be_signed_and_edited_at_once_and_its_keys_go_with_it() {
    let folder = folder("");
    let server = Server::start(&folder);
    server.create(creation("s.test.", Some("signed"), 1)).expect("created");
    // Whether it is signed yet or not.
    server.edit("s.test.", address("www.s.test.", 2)).expect("edited").expect("changed");
    let zone = server.zone("s.test.").expect("a zone");
    assert!(zone.is_signed());
    assert_eq!(server.address("s.test.", "www.s.test."), Some(2));
    let keys = |folder: &TempDir| stored(folder).iter().filter(|file| file.starts_with("keys/")).count();
    assert!(keys(&folder) > 0);
    server.remove("s.test.").expect("removed");
    assert_eq!(stored(&folder), [""; 0]);
    server.create(creation("s.test.", None, 7)).expect("created");
    assert_eq!(server.address("s.test.", "www.s.test."), Some(7));
    assert!(!server.zone("s.test.").expect("a zone").is_signed());
    server.stop();
}

#[test]
fn what_a_crash_leaves_of_creation_and_removal_is_removed_at_the_next_start() {
    let folder = folder("[[zone]]\nname = \"kept.test\"\nfile = \"kept\"\nallow-update = [\"any\"]\n");
    fs::write(folder.path().join("kept"), "$TTL 60\n@ SOA ns a 1 2 3 4 5\n@ NS ns.example.\n")
        .expect("written");
    let server = Server::start(&folder);
    for zone in ["created.test.", "removed.test.", "stays.test."] {
        server.create(creation(zone, Some("signed"), 1)).expect("created");
        server.edit(zone, address(&format!("www.{zone}"), 2)).expect("edited");
    }
    server.stop();
    // As if the list of added zones had not been written after the first was created, had been written while
    // the second was removed, and had not been written yet when the removal of the third began.
    let state = folder.path().join("state");
    let list = fs::read_to_string(state.join(added::FILE)).expect("the list");
    let blocks: Vec<&str> =
        list.split("[[zone]]").filter(|block| !block.contains("name") || block.contains("stays")).collect();
    fs::write(state.join(added::FILE), blocks.join("[[zone]]")).expect("written");
    for zone in ["removed.test", "stays.test", "kept.test"] {
        fs::write(state.join(format!("created/{zone}.removed")), "").expect("written");
    }
    fs::write(state.join("created/notes.txt"), "").expect("written");
    let server = Server::start(&folder);
    assert!(server.zone("created.test.").is_none() && server.zone("removed.test.").is_none());
    assert_eq!(server.address("stays.test.", "www.stays.test."), Some(2));
    assert!(server.zone("kept.test.").is_some());
    let left = stored(&folder);
    let of = |zone: &str| left.iter().filter(|file| file.contains(zone)).count();
    assert_eq!(of("removed.test"), 0, "{left:?}");
    // Its keys may be those of an earlier zone of this name.
    assert_eq!(
        left.iter().filter(|file| file.contains("created.test") && !file.starts_with("keys/")).count(),
        0,
        "{left:?}"
    );
    assert!(of("stays.test") >= 3 && !left.contains(&"created/stays.test.removed".to_owned()), "{left:?}");
    assert!(left.contains(&"created/notes.txt".to_owned()));
    server.create(creation("removed.test.", None, 4)).expect("created");
    assert_eq!(server.address("removed.test.", "www.removed.test."), Some(4));
    server.stop();
}

#[test]
fn the_journal_of_an_earlier_zone_of_the_same_name_is_set_aside() {
    let zone = "[[zone]]\nname = \"a.test\"\nfile = \"a\"\napi = true\n";
    let folder = folder(zone);
    fs::write(folder.path().join("a"), "$TTL 60\n@ SOA ns a 50 2 3 4 5\n@ NS ns.example.\n")
        .expect("written");
    let server = Server::start(&folder);
    server.edit("a.test.", address("old.a.test.", 1)).expect("edited").expect("changed");
    server.stop();
    fs::write(folder.path().join("nomen.toml"), TEMPLATES).expect("written");
    let server = Server::start(&folder);
    assert!(server.zone("a.test.").is_none());
    server.create(creation("a.test.", None, 1)).expect("created");
    assert_eq!(server.zone("a.test.").expect("a zone").serial(), Serial(1));
    assert_eq!(server.address("a.test.", "old.a.test."), None);
    assert!(stored(&folder).iter().any(|file| file.ends_with("a.test.damaged")));
    server.stop();
}

#[test]
fn versions_have_their_authors_and_any_two_can_be_compared() {
    let folder = folder("");
    let server = Server::start(&folder);
    let zone = apex("a.test.");
    server.create(creation("a.test.", None, 1)).expect("created");
    for last in 2..6 {
        server.edit("a.test.", address("www.a.test.", last)).expect("edited").expect("changed");
    }
    server.edit("a.test.", address("new.a.test.", 1)).expect("edited").expect("changed");
    let versions = server.histories.versions(&zone, 100);
    let serials: Vec<(u32, u32)> = versions.iter().map(|step| (step.before.0, step.after.0)).collect();
    assert_eq!(serials, [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]);
    for step in &versions {
        let origin = &step.origin.as_ref().expect("an author").origin;
        assert!(matches!(origin, ChangeOrigin::Edit(by) if by.token() == Some("test")), "{origin}");
    }
    assert_eq!((versions[4].removed, versions[4].added), (1, 2));
    assert_eq!(server.histories.versions(&zone, 2), versions[3..]);
    let shown = |from: u32, to: u32| {
        let change = server.histories.between(&zone, Serial(from), Serial(to))?;
        assert_eq!((change.before.0, change.after.0), (from, to));
        let mut lines = Vec::new();
        crate::shown_change::lines(&change, &mut |line| {
            lines.push(line.to_owned());
            true
        });
        lines.retain(|line| !line.contains("SOA"));
        Some(lines)
    };
    let owned = |lines: &[&str]| Some(lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    let new = "new.a.test. 300 IN A 192.0.2.1";
    let www = |last| format!("www.a.test. 300 IN A 192.0.2.{last}");
    assert_eq!(shown(1, 6), owned(&[&format!("+{new}"), &format!("-{}", www(1)), &format!("+{}", www(5))]));
    assert_eq!(shown(6, 1), owned(&[&format!("-{new}"), &format!("-{}", www(5)), &format!("+{}", www(1))]));
    assert_eq!(shown(3, 4), owned(&[&format!("-{}", www(3)), &format!("+{}", www(4))]));
    assert_eq!(shown(6, 6), owned(&[]));
    assert_eq!((shown(0, 6), shown(2, 9)), (None, None));
    server.stop();
    // The changes are on disk, their authors are not.
    let server = Server::start(&folder);
    let later = server.histories.versions(&zone, 100);
    assert!(later.iter().all(|step| step.origin.is_none()));
    assert_eq!(later.iter().map(|step| (step.before.0, step.after.0)).collect::<Vec<_>>(), serials);
    server.stop();
}

#[test]
fn edits_of_zones_that_are_not_open_or_frozen_are_refused() {
    let folder = folder("[[zone]]\nname = \"closed.test\"\nfile = \"a\"\nallow-update = [\"any\"]\n");
    fs::write(folder.path().join("a"), "$TTL 60\n@ SOA ns a 50 2 3 4 5\n@ NS ns.example.\n")
        .expect("written");
    let server = Server::start(&folder);
    let fault = server.edit("closed.test.", address("closed.test.", 1)).expect_err("closed");
    assert!(matches!(fault, EditFault::NotAllowed) && fault.to_string().contains("`api = true`"), "{fault}");
    assert!(matches!(server.edit("none.test.", address("none.test.", 1)), Err(EditFault::NoSuchZone)));
    server.create(creation("a.test.", None, 1)).expect("created");
    server.changes.freeze(&apex("a.test.")).expect("frozen");
    assert!(matches!(server.edit("a.test.", address("a.test.", 1)), Err(EditFault::Frozen)));
    let previewed = server.changes.preview(&apex("a.test."), &address("a.test.", 1));
    assert!(matches!(previewed, Err(EditFault::Frozen)));
    server.changes.thaw(&apex("a.test.")).expect("thawed");
    let wanted = address("x.a.test.", 1);
    assert_eq!(server.changes.preview(&apex("a.test."), &wanted).expect("a preview").added.len(), 1);
    server.edit("a.test.", wanted).expect("edited").expect("changed");
    let rdatas = vec![vec![0; 60_000]; 70];
    let large = edit("x.a.test.", RrsetEditKind::Prune { rdatas });
    let fault = server.edit("a.test.", large).expect_err("4.2 MB");
    assert!(matches!(fault, EditFault::TooLarge(4_194_304)), "{fault}");
    // A frozen zone that is removed is not frozen when it is created again.
    server.changes.freeze(&apex("a.test.")).expect("frozen");
    server.remove("a.test.").expect("removed");
    server.create(creation("a.test.", None, 1)).expect("created");
    server.edit("a.test.", address("a.test.", 1)).expect("edited").expect("changed");
    let counts = server.changes.counts();
    let count = |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&counts.edits_made), count(&counts.edits_refused)), (2, 4));
    server.changes.stop();
    // After the end there is no result.
    assert!(server.changes.edit(&apex("a.test."), address("a.test.", 1)).blocking_recv().is_err());
    server.manager.stop();
}

/// At whatever call the power fails, the file is whole or not there.
#[test]
fn a_file_is_written_and_removed_as_a_whole() {
    let (zone, text) = (apex("a.test."), "x".repeat(5000));
    let state = Path::new("/state");
    for seed in 0..4 {
        for at in 1..40 {
            let new = SimulatedDisk::new(seed);
            new.put(&state.join("something"), b"");
            let files = |disk: &SimulatedDisk| CreatedFiles::of(Arc::new(disk.clone()), state);
            new.plan(at, Trouble::PowerGoes);
            let written = files(&new).write(&zone, &text);
            let loss = if seed % 2 == 0 { Loss::AnyPart } else { Loss::Everything };
            let after = new.crash(loss);
            let there = after.bytes(&files(&after).path(&zone));
            assert!(
                there.as_ref().is_none_or(|bytes| bytes == text.as_bytes()),
                "call {at}: a part is there"
            );
            assert!(there.is_some() || written.is_err(), "call {at}: what was written is gone");
            // What is left is found, and can be removed or written over.
            let expected = there.map(|_| Leftover { apex: zone.clone(), was_removed: false });
            let found = files(&after).leftovers(|_| false).expect("a folder");
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
            files(&after).write(&zone, &text).expect("written");
            after.plan(at, Trouble::PowerGoes);
            let removed = files(&after).begin_removal(&zone).and_then(|()| files(&after).remove(&zone));
            let after = after.crash(loss);
            let there = after.bytes(&files(&after).path(&zone));
            assert!(
                there.as_ref().is_none_or(|bytes| bytes == text.as_bytes()),
                "call {at}: a part is there"
            );
            assert!(there.is_none() || removed.is_err(), "call {at}: what was removed is there");
            // Nothing is removed before the note is on the disk.
            let found = files(&after).leftovers(|_| false).expect("a folder");
            assert!(found.len() <= 1);
            files(&after).remove(&zone).expect("removed");
            assert!(files(&after).leftovers(|_| false).expect("a folder").is_empty());
        }
    }
}

#[test]
fn zones_of_views_and_odd_names_have_files_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = CreatedFiles::of(Arc::new(journal::RealDisk), folder.path());
    let inside: ViewName = "inside".parse().expect("a view");
    let in_view = |text: &str| ZoneName::in_view(name(text).as_name().to_lower().as_lower(), Some(&inside));
    let all = [apex("."), apex("a.test."), in_view("a.test."), apex(r"a\047b\.c.test."), in_view(".")];
    for (number, zone) in all.iter().enumerate() {
        files.write(zone, &number.to_string()).expect("written");
    }
    for (number, zone) in all.iter().enumerate() {
        assert_eq!(fs::read_to_string(files.path(zone)).expect("read"), number.to_string());
        assert!(files.has(zone, &files.path(zone)) && !files.has(zone, Path::new("a")));
    }
    let mut found: Vec<ZoneName> =
        files.leftovers(|zone| *zone == all[1]).expect("read").into_iter().map(|left| left.apex).collect();
    found.sort();
    let mut expected: Vec<ZoneName> = all.iter().filter(|zone| **zone != all[1]).cloned().collect();
    expected.sort();
    assert_eq!(found, expected);
}
