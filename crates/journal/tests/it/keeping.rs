//! Stores return what was put into them.

use std::io::ErrorKind;
use std::path::Path;

use journal::{RealDisk, StoreContents, StoreFault, StoreFolder, ZoneStore};
use proptest::prelude::*;
use testkit::choices::Choices;
use testkit::disk::{Loss, SimulatedDisk, Trouble};
use testkit::{key, name};
use wire::UnixTime;
use zone::store::ChangeSet;

use super::*;

const ROOT: &str = "/zones";

fn folder(disk: &SimulatedDisk) -> StoreFolder {
    open(disk.clone(), Path::new(ROOT))
}

/// The path of the only store.
fn path(disk: &SimulatedDisk) -> std::path::PathBuf {
    let is_store = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "zone");
    disk.files().into_iter().find(is_store).expect("a store")
}

#[test]
fn a_zone_and_its_changes_come_back_from_a_real_disk() {
    let place = tempfile::tempdir().expect("a folder");
    let root = place.path().join("zones");
    let versions: Vec<Zone> = (1..=5).map(|n| version(n, n * 7)).collect();
    {
        let folder = open(RealDisk, &root);
        let (mut store, stored) = folder.zone(apex().as_name()).expect("a store");
        assert!(stored.is_none());
        assert_eq!((store.serial(), store.acknowledged()), (None, None));
        assert!(matches!(store.append(&between(&versions[0], &versions[1])), Err(StoreFault::NoBase)));
        store.replace(&versions[0]).expect("stored");
        for pair in versions.windows(2) {
            store.append(&between(&pair[0], &pair[1])).expect("appended");
            assert_eq!(store.acknowledged(), Some(serial(1)));
        }
        assert_eq!(store.sync().expect("synced"), serial(5));
        store.confirmed(UnixTime::from_secs(1_700_000_000)).expect("noted");
        assert!(matches!(folder.zone(apex().as_name()), Err(StoreFault::AlreadyOpen(_))));
        assert!(matches!(
            StoreFolder::open(Arc::new(RealDisk), &root),
            Err(StoreFault::Locked(path)) if path == root
        ));
    }
    let folder = open(RealDisk, &root);
    let (mut store, stored) = folder.zone(name("EXAMPLE.").as_name()).expect("a store");
    let stored = stored.expect("a zone");
    assert_eq!((stored.serial(), base_serial(&stored)), (serial(5), serial(1)));
    assert_eq!((stored.confirmed(), stored.torn_tail()), (Some(UnixTime::from_secs(1_700_000_000)), None));
    assert_eq!(serials(stored.changes()), steps(1, 5));
    assert!(is_same(&stored.load(&key()).expect("a zone"), &versions[4]));
    assert_eq!(serials(store.history(serial(3)).expect("read").expect("known")), steps(3, 5));
    store.compact(&versions[4]).expect("compacted");
    assert_eq!(serials(store.history(serial(2)).expect("read").expect("known")), steps(2, 5));
    let zones = folder.zones().expect("a list");
    assert_eq!(zones.len(), 1);
    assert!(zones.iter().all(|zone| zone.as_ref().is_ok_and(|zone| zone.as_name() == apex().as_name())));
    store.remove().expect("removed");
    assert!(folder.zones().expect("a list").is_empty());
    assert!(folder.zone(apex().as_name()).expect("a store").1.is_none());
}

#[test]
fn a_compaction_takes_along_what_is_appended_meanwhile() {
    let disk = SimulatedDisk::new(1);
    let folder = folder(&disk);
    let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
    let versions: Vec<Zone> = (1..=6).map(|n| version(n, n * 5)).collect();
    store.replace(&versions[0]).expect("stored");
    for pair in versions[..4].windows(2) {
        store.append(&between(&pair[0], &pair[1])).expect("appended");
    }
    let mut replacement = store.begin_compaction().expect("begun");
    assert!(matches!(store.begin_compaction(), Err(StoreFault::AlreadyReplacing)));
    let wrong = replacement.write(&versions[2]);
    assert!(matches!(wrong, Err(StoreFault::OtherVersion { stored: Serial(4), found: Serial(3) })));
    replacement.write(&versions[3]).expect("written");
    store.append(&between(&versions[3], &versions[4])).expect("appended");
    store.sync().expect("synced");
    store.append(&between(&versions[4], &versions[5])).expect("appended");
    store.finish(replacement).expect("finished");
    assert_eq!(store.acknowledged(), Some(serial(6)), "a compaction acknowledges");
    assert_eq!(serials(store.history(serial(1)).expect("read").expect("known")), steps(1, 6));
    drop((store, folder));
    let folder = self::folder(&disk.crash(Loss::Everything));
    let (store, stored) = folder.zone(apex().as_name()).expect("a store");
    let stored = stored.expect("a zone");
    assert_eq!((base_serial(&stored), stored.serial()), (serial(4), serial(6)));
    assert!(is_same(&stored.load(&key()).expect("a zone"), &versions[5]));
    assert_eq!(serials(store.history(serial(1)).expect("read").expect("known")), steps(1, 6));
    assert_eq!(serials(store.history(serial(4)).expect("read").expect("known")), steps(4, 6));
    assert_eq!(serials(store.history(serial(6)).expect("read").expect("known")), []);
    assert!(store.history(serial(7)).expect("read").is_none());
    for (most, from) in [(0, 6), (1, 5), (2, 4), (5, 1), (100, 1)] {
        let last = store.last_changes(most).expect("read").expect("a zone");
        assert_eq!(serials(last), steps(from, 6), "{most}");
    }
}

#[test]
fn changes_are_kept_of_a_zone_whose_records_are_elsewhere() {
    let disk = SimulatedDisk::new(1);
    let folder = folder(&disk);
    let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
    store.keep_history(70_000);
    store.replace_without_zone(serial(1)).expect("stored");
    assert!(!store.has_zone());
    assert!(matches!(
        store.append(&between(&version(2, 1), &version(3, 2))),
        Err(StoreFault::OtherVersion { stored: Serial(1), found: Serial(2) })
    ));
    let mut most = 0;
    for n in 1..1000 {
        store.append(&between(&version(n, n), &version(n + 1, n + 1))).expect("appended");
        store.sync().expect("synced");
        if store.is_worth_compacting() {
            store.compact_without_zone().expect("compacted");
        }
        let size = store.size();
        assert_eq!((size.base, store.has_zone()), (0, false));
        most = most.max(size.history + size.changes);
    }
    assert!((70_000..141_000).contains(&most), "{most}");
    drop((store, folder));
    let folder = self::folder(&disk.crash(Loss::Everything));
    let (store, stored) = folder.zone(apex().as_name()).expect("a store");
    let stored = stored.expect("a version");
    assert_eq!((stored.serial(), store.has_zone()), (serial(1000), false));
    assert!(matches!(stored.load(&key()), Err(StoreFault::NoZone(..))));
    assert_eq!(serials(store.history(serial(900)).expect("read").expect("known")), steps(900, 1000));
    assert!(store.history(serial(1)).expect("read").is_none(), "more than is to be kept");
}

#[test]
fn a_small_zone_that_changes_all_the_time_is_written_anew_once_in_a_quarter_of_its_history() {
    let folder = folder(&SimulatedDisk::new(1));
    let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
    store.keep_history(400_000);
    store.replace(&version(1, 1)).expect("stored");
    let (mut times, mut bytes) = (0, 0);
    for n in 1..2000 {
        let before = store.size().changes;
        store.append(&between(&version(n, n), &version(n + 1, n + 1))).expect("appended");
        bytes += store.size().changes - before;
        store.sync().expect("synced");
        if store.is_worth_compacting() {
            store.compact(&version(n + 1, n + 1)).expect("compacted");
            times += 1;
        }
        let size = store.size();
        assert!(size.history <= 400_000 && size.changes <= 101_000, "{size:?}");
    }
    assert_eq!(times, bytes / 100_000, "times that it was written, for {bytes} bytes of changes");
}

#[test]
fn a_compaction_copies_many_changes_with_few_calls() {
    let disk = SimulatedDisk::new(1);
    let folder = folder(&disk);
    let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
    store.replace(&version(1, 1)).expect("stored");
    for n in 1..500 {
        store.append(&between(&version(n, n), &version(n + 1, n + 1))).expect("appended");
    }
    store.sync().expect("synced");
    let mut calls = |together| {
        let before = disk.calls();
        disk.write_together(together);
        store.compact(&version(500, 500)).expect("compacted");
        assert_eq!(serials(store.history(serial(1)).expect("read").expect("known")), steps(1, 500));
        disk.calls() - before
    };
    let (each, many) = (calls(0), calls(journal::WRITTEN_TOGETHER));
    assert!(each > 500 && many < 50, "{each} calls where each is written by itself, else {many}");
}

#[test]
fn a_compaction_keeps_as_much_history_as_it_may() {
    let folder = folder(&SimulatedDisk::new(1));
    let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
    store.replace(&version(1, 1)).expect("stored");
    for n in 1..40 {
        store.append(&between(&version(n, n), &version(n + 1, n + 1))).expect("appended");
    }
    store.keep_history(2000);
    for _ in 0..2 {
        store.compact(&version(40, 40)).expect("compacted");
        let size = store.size();
        assert!((1500..=2000).contains(&size.history) && size.changes == 0, "{size:?}");
        assert!(store.history(serial(1)).expect("read").is_none());
        let known = (1..=40).find(|n| store.history(serial(*n)).expect("read").is_some()).expect("some");
        assert_eq!(serials(store.history(serial(known)).expect("read").expect("known")), steps(known, 40));
    }
    store.keep_history(0);
    store.compact(&version(40, 40)).expect("compacted");
    assert_eq!(store.size().history, 0);
}

#[test]
fn changes_that_lead_nowhere_are_refused() {
    let folder = folder(&SimulatedDisk::new(1));
    let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
    store.replace(&version(5, 5)).expect("stored");
    let good = between(&version(5, 5), &version(6, 6));
    let other = ChangeSet { before: serial(4), ..good.clone() };
    let refused = store.append(&other);
    assert!(matches!(refused, Err(StoreFault::OtherVersion { stored: Serial(5), found: Serial(4) })));
    let back = between(&version(5, 5), &version(4, 4));
    assert!(matches!(store.append(&back), Err(StoreFault::NotLater)));
    let bare = ChangeSet { before: serial(5), after: serial(6), ..ChangeSet::default() };
    assert!(matches!(store.append(&bare), Err(StoreFault::NoSequence)));
    store.append(&good).expect("appended");
}

#[test]
fn a_replacement_that_was_overtaken_is_refused() {
    let folder = folder(&SimulatedDisk::new(1));
    let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
    store.replace(&version(5, 5)).expect("stored");
    let mut replacement = store.begin_replacement().expect("begun");
    replacement.write(&version(9, 9)).expect("written");
    store.append(&between(&version(5, 5), &version(6, 6))).expect("appended");
    assert!(matches!(store.finish(replacement), Err(StoreFault::Overtaken)));
    assert_eq!(store.sync().expect("synced"), serial(6));
    let replacement = store.begin_replacement().expect("begun");
    assert!(matches!(store.finish(replacement), Err(StoreFault::NotWritten)));
    store.replace(&version(2, 2)).expect("any version can be stored anew");
    assert_eq!(store.serial(), Some(serial(2)));
}

/// Offset at which the last change of a store ends.
fn end(store: &ZoneStore) -> usize {
    let size = store.size();
    512 + (size.history + size.base + size.changes) as usize
}

#[test]
fn damage_is_found_and_has_a_place() {
    let disk = SimulatedDisk::new(1);
    let mut ends = Vec::new();
    {
        let (mut store, _) = folder(&disk).zone(apex().as_name()).expect("a store");
        store.replace(&version(1, 1)).expect("stored");
        for n in 1..6 {
            if n == 3 {
                store.compact(&version(3, 3)).expect("compacted");
            }
            ends.push(end(&store));
            store.append(&between(&version(n, n), &version(n + 1, n + 1))).expect("appended");
            store.sync().expect("synced");
        }
        ends.push(end(&store));
    }
    let path = path(&disk);
    let whole = disk.bytes(&path).expect("a file");
    let (base_end, last, end) = (ends[2], ends[4], ends[5]);
    assert!(end < whole.len() && whole[end..].iter().all(|&byte| byte == 0), "room for more");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let disk = SimulatedDisk::new(1);
        disk.put(&path, &bytes);
        let found = folder(&disk).zone(apex().as_name());
        match (at, found) {
            (0..12, Err(StoreFault::OtherFormat(_))) => {}
            (12..480 | 504..512, Err(StoreFault::Damaged { offset: 0, .. })) => {}
            (480..504, Ok((_, Some(stored)))) => assert_eq!(stored.confirmed(), None),
            (512.., Ok((_, Some(stored)))) if at < base_end => {
                // The end of the history is unknown here; the base is read on demand.
                let loaded = stored.load(&key());
                let is_history = stored.history_fault().is_some();
                assert_eq!(loaded.is_ok(), is_history, "at {at}");
            }
            (512.., Err(StoreFault::Damaged { offset, .. })) if at < last => {
                assert!(ends.contains(&(offset as usize)) && offset as usize <= at, "at {at}: {offset}");
            }
            // The last change may have been torn.
            (_, Ok((_, Some(stored)))) if at >= last => {
                let (newest, torn) = if at < end { (5, last) } else { (6, end) };
                assert_eq!(stored.serial(), serial(newest));
                assert_eq!(stored.torn_tail().map(|torn| torn.offset), Some(torn as u64));
            }
            (_, found) => panic!("at {at}: {found:?}"),
        }
    }
}

#[test]
fn a_file_that_is_cut_short_or_of_another_zone_is_refused() {
    let disk = SimulatedDisk::new(1);
    {
        let (mut store, _) = folder(&disk).zone(apex().as_name()).expect("a store");
        store.replace(&version(1, 1)).expect("stored");
    }
    let path = path(&disk);
    let whole = disk.bytes(&path).expect("a file");
    disk.put(&path, &whole[..whole.len() - 1]);
    let found = folder(&disk).zone(apex().as_name());
    assert!(matches!(found, Err(StoreFault::Damaged { .. })), "{found:?}");
    drop(found);
    let aside = folder(&disk).set_aside(apex().as_name()).expect("set aside");
    assert_eq!(disk.bytes(&aside).expect("a file"), whole[..whole.len() - 1]);
    assert!(folder(&disk).zone(apex().as_name()).expect("a store").1.is_none());
    let disk = SimulatedDisk::new(1);
    let other = name("test.");
    {
        let soa = testkit::random::soa(other.as_name(), 1);
        let soa = ModelRecord { owner: other, rtype: Type::SOA, ttl: HOUR, rdata: soa };
        let zone = build(other.as_name(), &key(), &[soa]);
        let (mut store, _) = folder(&disk).zone(other.as_name()).expect("a store");
        assert!(matches!(store.replace(&version(1, 1)), Err(StoreFault::NotTheZone)));
        store.replace(&zone).expect("stored");
    }
    disk.put(&self::path(&disk), &whole);
    let found = folder(&disk).zone(other.as_name());
    assert!(matches!(found, Err(StoreFault::OtherZone(_, zone)) if *zone == apex()));
}

/// Stores versions 1 to `last`, acknowledges them, and returns the disk.
fn acknowledged(last: u32) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    change(&disk, 1, last);
    disk
}

fn marked(disk: &SimulatedDisk) -> StoreFolder {
    let (root, marks) = (Path::new("/zones"), Path::new("/marks"));
    StoreFolder::open_marked(Arc::new(disk.clone()), root, marks).expect("a folder")
}

fn change(disk: &SimulatedDisk, from: u32, to: u32) {
    let (mut store, stored) = marked(disk).zone(apex().as_name()).expect("a store");
    if stored.is_none() {
        store.replace(&version(1, 1)).expect("stored");
    }
    for n in from..to {
        store.append(&between(&version(n, n), &version(n + 1, n + 1))).expect("appended");
        store.sync().expect("synced");
    }
}

#[test]
fn a_store_that_is_gone_or_of_an_earlier_time_is_not_taken_for_the_zone() {
    let disk = acknowledged(3);
    let path = path(&disk);
    let earlier = disk.bytes(&path).expect("a file");
    change(&disk, 3, 5);
    let found = |disk: &SimulatedDisk| marked(disk).zone(apex().as_name()).map(|(_, stored)| stored);
    disk.put(&path, &earlier);
    let older = found(&disk);
    assert!(
        matches!(&older, Err(StoreFault::Damaged { .. })),
        "the file has more zeros than changes: {older:?}"
    );
    disk.put(&path, &earlier[..earlier.len().min(end_of(&earlier))]);
    let older = found(&disk);
    assert!(
        matches!(older, Err(StoreFault::Older { found: Serial(3), acknowledged: Serial(5), .. })),
        "{older:?}"
    );
    disk.remove(&path).expect("removed");
    let gone = found(&disk);
    assert!(matches!(gone, Err(StoreFault::Missing { acknowledged: Some(Serial(5)), .. })), "{gone:?}");
    assert!(marked(&disk).held().expect("a list").0.contains(&apex().as_name().to_lower()));
    // Without a marks file the store is accepted as it is.
    disk.put(&path, &earlier);
    assert_eq!(folder(&disk).zone(apex().as_name()).expect("a store").1.expect("a zone").serial(), serial(3));
    // A copy of another file of the zone: an older one is refused, the successor of the marked one is not.
    let other = acknowledged(9);
    disk.put(&path, &other.bytes(&self::path(&other)).expect("a file"));
    assert_eq!(found(&disk).expect("a zone").expect("a zone").serial(), serial(9));
    disk.put(&path, &earlier);
    assert!(matches!(found(&disk), Err(StoreFault::Older { .. })));
}

/// Offset of the zeros at the end of a file.
fn end_of(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn a_store_without_a_mark_is_taken_as_it_is_and_marked() {
    let disk = SimulatedDisk::new(1);
    {
        let (mut store, _) = folder(&disk).zone(apex().as_name()).expect("a store");
        store.replace(&version(1, 1)).expect("stored");
    }
    let found = marked(&disk).zone(apex().as_name()).expect("a store").1.expect("a zone");
    assert_eq!(found.serial(), serial(1), "it never had one");
    drop(found);
    // A file that does not declare a mark may lose it.
    disk.remove(Path::new("/marks")).expect("removed");
    assert!(marked(&disk).zone(apex().as_name()).is_ok());
    disk.remove(&path(&disk)).expect("removed");
    assert!(matches!(marked(&disk).zone(apex().as_name()), Err(StoreFault::Missing { .. })));
}

/// Whether a store is refused because its mark is lost.
fn is_mark_lost(found: Result<(ZoneStore, Option<StoreContents>), StoreFault>) -> bool {
    matches!(found, Err(StoreFault::MarkLost { found: Serial(3), .. }))
}

#[test]
fn a_store_whose_mark_is_gone_was_taken_as_it_is() {
    let disk = acknowledged(3);
    disk.remove(Path::new("/marks")).expect("removed");
    for _ in 0..2 {
        let folder = marked(&disk);
        assert!(is_mark_lost(folder.zone(apex().as_name())), "a look does not make it good");
        assert_eq!(folder.acknowledged(apex().as_name()), None);
    }
    // The content can be accepted, and has a mark then.
    let folder = marked(&disk);
    let rest = folder.salvage(apex().as_name()).expect("it is whole").load(&key()).expect("a zone");
    assert!(folder.start_over(&rest).expect("stored").is_some());
    drop(folder);
    let folder = marked(&disk);
    let found = folder.zone(apex().as_name()).expect("a store").1.expect("a zone");
    assert_eq!((found.serial(), folder.acknowledged(apex().as_name())), (serial(3), Some(serial(3))));
}

#[test]
fn damage_of_the_mark_of_a_store_is_noticed_and_counted() {
    let disk = acknowledged(3);
    let whole = disk.bytes(Path::new("/marks")).expect("a file");
    assert_eq!(whole.len(), 512);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        disk.put(Path::new("/marks"), &bytes);
        let folder = marked(&disk);
        let is_name = at < 288;
        assert_eq!(folder.damaged_marks(), u64::from(is_name), "at {at}");
        match folder.zone(apex().as_name()) {
            // The mark itself has two copies.
            Ok((_, Some(found))) => assert_eq!((found.serial(), is_name), (serial(3), false), "at {at}"),
            found => assert!(is_name && is_mark_lost(found), "at {at}"),
        }
    }
}

#[test]
fn a_crash_that_tears_both_copies_of_a_mark_costs_no_zone() {
    let disk = acknowledged(3);
    let mut bytes = disk.bytes(Path::new("/marks")).expect("a file");
    for at in [320, 384] {
        bytes[at] ^= 1;
    }
    disk.put(Path::new("/marks"), &bytes);
    let found = marked(&disk).zone(apex().as_name()).expect("a store").1.expect("a zone");
    assert!(found.is_mark_torn() && found.serial() == serial(3));
    // Something was acknowledged, at an unknown position.
    disk.put(Path::new("/marks"), &bytes);
    disk.remove(&path(&disk)).expect("removed");
    let gone = marked(&disk).zone(apex().as_name());
    assert!(matches!(gone, Err(StoreFault::Missing { acknowledged: None, .. })));
}

#[test]
fn a_damaged_store_is_read_up_to_its_damage_on_purpose_and_kept_aside() {
    let disk = SimulatedDisk::new(1);
    for round in 0..2 {
        change(&disk, 1, 6);
        let path = path(&disk);
        let mut contents = disk.bytes(&path).expect("a file");
        let at = end_of(&contents) - 30;
        contents[at] ^= 1;
        contents.truncate(if round == 0 { contents.len() } else { at });
        disk.put(&path, &contents);
        let folder = marked(&disk);
        assert!(folder.zone(apex().as_name()).is_err());
        let rest = folder.salvage(apex().as_name()).expect("the front is whole");
        assert_eq!((rest.serial(), folder.acknowledged(apex().as_name())), (serial(5), Some(serial(6))));
        let zone = rest.load(&key()).expect("a zone");
        assert!(is_same(&zone, &version(5, 5)));
        let aside = folder.start_over(&version(7, 5)).expect("stored").expect("set aside");
        let ending = [".damaged", ".damaged-3"][round];
        assert!(aside.to_string_lossy().ends_with(ending), "{}", aside.display());
        assert_eq!(disk.bytes(&aside).expect("a file"), contents);
        let stored = folder.zone(apex().as_name()).expect("a store").1.expect("a zone");
        assert!(is_same(&stored.load(&key()).expect("a zone"), &version(7, 5)));
        drop(stored);
        folder.forget(apex().as_name()).expect("forgotten").expect("set aside");
        assert!(folder.zone(apex().as_name()).expect("a store").1.is_none(), "it begins anew");
    }
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let root = tempfile::tempdir().expect("a folder");
    let (stores, marks) = (root.path().join("zones"), root.path().join("marks"));
    let open = || StoreFolder::open_marked(Arc::new(RealDisk), &stores, &marks).expect("a folder");
    open().zone(apex().as_name()).expect("a store").0.replace(&version(1, 1)).expect("stored");
    let path = open().path(apex().as_name());
    for place in ["empty", "folder", "fifo"] {
        let _ = std::fs::remove_file(&path);
        match place {
            "empty" => drop(std::fs::write(&path, "")),
            "folder" => drop(std::fs::create_dir(&path)),
            _ => {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.is_ok_and(|status| status.success()));
            }
        }
        let folder = open();
        assert!(folder.zone(apex().as_name()).is_err(), "{place}");
        assert!(folder.salvage(apex().as_name()).is_err(), "{place}");
        assert!(folder.held().expect("a list").0.contains(&apex().as_name().to_lower()), "{place}");
        let aside = folder.start_over(&version(2, 2)).expect("stored").expect("set aside");
        assert!(aside.exists(), "{place}");
        assert_eq!(folder.zone(apex().as_name()).expect("a store").1.expect("a zone").serial(), serial(2));
    }
}

#[test]
fn a_disk_that_fails_to_read_a_store_loses_nothing_of_it() {
    let disk = acknowledged(5);
    let (mut refused, mut is_through) = (0, false);
    for at in 1..200 {
        let folder = marked(&disk);
        let before = disk.calls();
        disk.plan(at, Trouble::Fails(ErrorKind::Other));
        let found = folder.zone(apex().as_name());
        let found = found.and_then(|(_, stored)| stored.expect("a zone").load(&key()));
        is_through = disk.calls() - before < at;
        disk.plan_nothing();
        match found {
            Err(StoreFault::Io { .. }) => refused += 1,
            Err(fault) => panic!("call {at}: {fault}"),
            Ok(zone) => assert!(is_same(&zone, &version(5, 5)), "call {at}"),
        }
        assert_eq!(folder.acknowledged(apex().as_name()), Some(serial(5)), "call {at}");
        if is_through {
            break;
        }
    }
    assert!(is_through && refused > 2, "{refused}");
    let stored = marked(&disk).zone(apex().as_name()).expect("a store").1.expect("a zone");
    assert!(is_same(&stored.load(&key()).expect("a zone"), &version(5, 5)));
}

proptest! {
    /// Random zones with random changes: see `testkit::versions`.
    #[test]
    fn every_zone_comes_back_as_it_was(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let disk = SimulatedDisk::new(1);
        let folder = folder(&disk);
        let mut store: Option<(ZoneStore, Arc<Zone>)> = None;
        testkit::versions::change_step_by_step(&mut Choices::new(&bytes), &mut |version, _| {
            let (store, last) = store.get_or_insert_with(|| {
                let (mut store, _) = folder.zone(version.apex().as_name()).expect("a store");
                store.replace(version).expect("stored");
                (store, version.clone())
            });
            let change = between(last, version);
            match store.append(&change) {
                Ok(()) => {}
                Err(StoreFault::NotLater) => store.replace(version).expect("stored"),
                Err(fault) => panic!("{fault}"),
            }
            *last = version.clone();
        });
        let Some((mut store, last)) = store else { return Ok(()) };
        store.sync().expect("synced");
        let apex = last.apex().to_buf();
        for round in 0..2 {
            drop(store);
            let (again, stored) = folder.zone(apex.as_name()).expect("a store");
            store = again;
            let loaded = stored.expect("a zone").load(&key()).expect("a zone");
            prop_assert!(is_same(&loaded, &last));
            if round == 1 {
                // A base also restores the order of records, which changes need not preserve.
                testkit::versions::assert_same(&loaded, &last.folded().expect("a zone"));
            }
            store.compact(&last).expect("compacted");
        }
    }
}
