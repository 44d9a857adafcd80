//! No acknowledged change is lost, whenever the power fails, whichever unsynced writes survive, and whichever
//! call fails.
//!
//! The short runs are part of every test run; `conformance/crash-points` runs the first test for long. All of
//! them for long:
//! `JOURNAL_CRASHES=200000 cargo test --release -p journal --test it crashes` (and `JOURNAL_SEED=N` for other
//! seeds).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use journal::{Replacement, StoreContents, StoreFault, StoreFolder, WRITTEN_TOGETHER, ZoneStore};
use testkit::disk::{Loss, SimulatedDisk, Trouble};
use testkit::key;
use wire::UnixTime;

use super::*;

const ROOT: &str = "/zones";
const MARKS: &str = "/marks";

/// A version, identified by its content; serials recur with other contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    serial: u32,
    content: u32,
}

impl Version {
    fn zone(self) -> Zone {
        version(self.serial, self.content)
    }
}

/// Random numbers (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// A store and its expected content.
struct Run {
    chance: Chance,
    disk: SimulatedDisk,
    /// `None` while the process is down or could not open the store.
    store: Option<(StoreFolder, ZoneStore)>,
    replacement: Option<(Replacement, Version, bool)>,
    acknowledged: Option<Version>,
    /// Versions appended after the acknowledged one, in order.
    pending: Vec<Version>,
    /// Other versions that may be found after a crash.
    doubtful: Vec<Version>,
    /// Times at which versions were confirmed.
    confirmed: BTreeMap<Version, Vec<UnixTime>>,
    content: u32,
    faults: u32,
    /// Whether the folder has a marks file.
    marks: bool,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut chance = Chance(seed);
        let disk = SimulatedDisk::new(chance.below(u64::MAX));
        if chance.below(2) == 0 {
            disk.write_short();
        }
        Run {
            chance,
            disk,
            store: None,
            replacement: None,
            acknowledged: None,
            pending: Vec::new(),
            doubtful: Vec::new(),
            confirmed: BTreeMap::new(),
            content: 0,
            faults: 0,
            marks: seed.is_multiple_of(2),
        }
    }

    fn folder(&self) -> Result<StoreFolder, StoreFault> {
        let disk = Arc::new(self.disk.clone());
        match self.marks {
            true => StoreFolder::open_marked(disk, Path::new(ROOT), Path::new(MARKS)),
            false => StoreFolder::open(disk, Path::new(ROOT)),
        }
    }

    fn newest(&self) -> Option<Version> {
        self.pending.last().copied().or(self.acknowledged)
    }

    fn next(&mut self) -> Version {
        self.content += 1;
        let serial = self.newest().map_or(1, |version| version.serial + 1);
        Version { serial, content: self.content }
    }

    /// Opens the store and checks its content.
    fn open(&mut self) -> Result<(), StoreFault> {
        let folder = self.folder()?;
        // Changes are written one by one, several together, or all together.
        self.disk.write_together([0, 500, WRITTEN_TOGETHER][self.chance.below(3) as usize]);
        let (store, stored) = folder.zone(apex().as_name())?;
        let found = match &stored {
            Some(stored) => Some(self.check(stored, &store)?),
            None => None,
        };
        if found.is_none() {
            assert_eq!(self.acknowledged, None, "what was acknowledged is gone");
        }
        assert_eq!(store.acknowledged(), found.map(|version| serial(version.serial)));
        self.acknowledged = found;
        self.pending.clear();
        self.doubtful.clear();
        self.store = Some((folder, store));
        Ok(())
    }

    /// The version that was found.
    fn check(&self, stored: &StoreContents, store: &ZoneStore) -> Result<Version, StoreFault> {
        let zone = stored.load(&key())?;
        let may_be = self.acknowledged.iter().chain(&self.pending).chain(&self.doubtful);
        let found = may_be.copied().find(|version| is_same(&version.zone(), &zone));
        let found = found.unwrap_or_else(|| {
            panic!("{zone:?} is none of {:?} {:?} {:?}", self.acknowledged, self.pending, self.doubtful)
        });
        assert!(stored.history_fault().is_none());
        if let Some(at) = stored.confirmed() {
            assert!(self.confirmed.get(&found).is_some_and(|times| times.contains(&at)), "{found:?} at {at}");
        }
        let base = stored.changes().next().transpose()?.map_or(stored.serial(), |change| change.before);
        if let Some(changes) = store.history(base)? {
            let mut version = base;
            for change in changes {
                version = change?.after;
            }
            assert_eq!(version, zone.serial());
        }
        Ok(found)
    }

    /// Counts a fault. Damage may only be reported while the disk is off.
    fn faulted(&mut self, fault: &StoreFault) {
        self.faults += 1;
        assert!(!matches!(fault, StoreFault::Damaged { .. }) || self.disk.is_off(), "{fault}");
    }

    /// After a disk fault all unacknowledged changes may be lost, but only all of them.
    fn lost(&mut self, fault: &StoreFault) {
        let Some((_, store)) = &self.store else { return };
        let unsure = store.is_broken() || self.disk.is_off();
        let is_lost = matches!(fault, StoreFault::Io { .. } | StoreFault::Refused)
            && store.serial() == store.acknowledged();
        if is_lost || unsure {
            let lost = std::mem::take(&mut self.pending);
            self.doubtful.extend(lost.into_iter().filter(|_| unsure));
        }
    }

    fn append(&mut self) {
        let version = self.next();
        let Some(newest) = self.newest() else { return };
        let change = between(&newest.zone(), &version.zone());
        let Some((_, store)) = &mut self.store else { return };
        match store.append(&change) {
            Ok(()) => self.pending.push(version),
            Err(fault) => {
                if store.is_broken() || self.disk.is_off() {
                    self.doubtful.push(version);
                }
                self.lost(&fault);
                self.faulted(&fault);
            }
        }
    }

    fn sync(&mut self) {
        let newest = self.newest();
        let Some((_, store)) = &mut self.store else { return };
        match store.sync() {
            Ok(synced) => {
                assert_eq!(newest.map(|version| serial(version.serial)), Some(synced));
                (self.acknowledged, self.pending) = (newest, Vec::new());
            }
            Err(fault) => {
                let lost = std::mem::take(&mut self.pending);
                if store.is_broken() || self.disk.is_off() {
                    self.doubtful.extend(lost);
                }
                assert!(newest.is_none() || !matches!(fault, StoreFault::NoBase));
                self.faulted(&fault);
            }
        }
    }

    fn confirm(&mut self) {
        let at = UnixTime::from_secs(self.chance.below(1 << 40));
        let Some((_, store)) = &mut self.store else { return };
        let result = store.confirmed(at);
        if let Some(version) = self.acknowledged {
            // A fault may occur after everything was written.
            self.confirmed.entry(version).or_default().push(at);
        }
        if let Err(fault) = result {
            self.faulted(&fault);
        }
    }

    /// Begins and writes a compaction or a replacement.
    fn begin(&mut self) {
        let compacts = self.chance.below(3) > 0;
        let next = self.next();
        let Some((_, store)) = &mut self.store else { return };
        store.keep_history(self.chance.below(3000));
        let (begun, version) = match (compacts, self.pending.last().copied().or(self.acknowledged)) {
            (true, Some(newest)) => (store.begin_compaction(), newest),
            _ => (store.begin_replacement(), next),
        };
        let is_compaction = version != next;
        let written = begun.and_then(|mut begun| begun.write(&version.zone()).map(|()| begun));
        match written {
            Ok(begun) => self.replacement = Some((begun, version, is_compaction)),
            Err(StoreFault::AlreadyReplacing) => {}
            Err(fault) => {
                self.lost(&fault);
                self.faulted(&fault);
            }
        }
    }

    fn finish(&mut self) {
        let Some((replacement, version, is_compaction)) = self.replacement.take() else { return };
        let newest = self.newest();
        let Some((_, store)) = &mut self.store else { return };
        match store.finish(replacement) {
            Ok(()) => {
                self.acknowledged = if is_compaction { newest } else { Some(version) };
                self.pending.clear();
                self.doubtful.clear();
                assert!(!store.is_broken());
            }
            Err(StoreFault::Overtaken) => {}
            Err(fault) => {
                if store.is_broken() || self.disk.is_off() {
                    self.doubtful.push(version);
                }
                self.lost(&fault);
                self.faulted(&fault);
            }
        }
    }

    /// Performs a random operation.
    fn act(&mut self) {
        let Some((_, store)) = &self.store else {
            if let Err(fault) = self.open() {
                self.faulted(&fault);
            }
            return;
        };
        if !self.disk.is_off() {
            let is = |version: Option<Version>| version.map(|version| serial(version.serial));
            assert_eq!(store.acknowledged(), is(self.acknowledged));
            assert_eq!(store.serial(), is(self.newest()));
        }
        let has_none = self.acknowledged.is_none() || store.is_broken();
        match self.chance.below(if has_none { 2 } else { 16 }) {
            0 => self.begin(),
            1 => self.finish(),
            2..=4 => self.sync(),
            5 => self.confirm(),
            6 if self.chance.below(3) == 0 => self.end_process(),
            _ => self.append(),
        }
    }

    /// The process ends while its unsynced writes are still on their way to the disk.
    fn end_process(&mut self) {
        self.crash(Loss::Nothing);
    }

    fn crash(&mut self, loss: Loss) {
        self.replacement = None;
        self.store = None;
        self.disk = self.disk.crash(loss);
        self.doubtful.append(&mut self.pending);
    }
}

/// The number of crashes from `JOURNAL_CRASHES`, or else `short`.
fn crashes(short: u64) -> u64 {
    std::env::var("JOURNAL_CRASHES").ok().and_then(|count| count.parse().ok()).unwrap_or(short)
}

fn first_seed() -> u64 {
    std::env::var("JOURNAL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

#[test]
fn nothing_acknowledged_is_lost_wherever_the_power_goes() {
    const PER_RUN: u64 = 50;
    let (mut torn, mut found) = (0, 0);
    for number in 0..crashes(4_000).div_ceil(PER_RUN) {
        let mut run = Run::new(first_seed().wrapping_mul(1 << 32) + number);
        for _ in 0..PER_RUN {
            let at = 1 + run.chance.below(60);
            run.disk.plan(at, Trouble::PowerGoes);
            while !run.disk.is_off() {
                run.act();
            }
            let losses = [Loss::Everything, Loss::AllBehindAPlace, Loss::AnyPart, Loss::AnyPart];
            let loss = losses[run.chance.below(4) as usize];
            run.crash(loss);
            run.open().unwrap_or_else(|fault| panic!("run {number}: {fault}"));
            found += u32::from(run.acknowledged.is_some());
            torn += u32::from(run.content > 20);
        }
    }
    eprintln!("{} power failures, a version after {found}", crashes(4_000).div_ceil(PER_RUN) * PER_RUN);
    assert!(found > 1000 && torn > 1000, "the runs came to something");
}

#[test]
fn whichever_call_fails_nothing_false_is_acknowledged() {
    const CALLS: u64 = 2_000;
    // A long run tries all of them.
    let step = if crashes(0) == 0 { 40 } else { 1 };
    let mut faults = 0;
    for at in (1..=CALLS).step_by(step) {
        for trouble in [
            Trouble::Fails(ErrorKind::StorageFull),
            Trouble::Fails(ErrorKind::Other),
            Trouble::AllFail(ErrorKind::Other),
        ] {
            let mut run = Run::new(first_seed().wrapping_mul(1 << 32) + at);
            run.disk.plan(at, trouble);
            // The calls before this one are few, since they are the same in all runs of a seed.
            while run.disk.calls() < at + 60 {
                run.act();
                if matches!(trouble, Trouble::AllFail(_)) && run.faults > 8 {
                    break;
                }
            }
            faults += run.faults;
            run.disk.plan_nothing();
            if !matches!(trouble, Trouble::AllFail(_)) {
                heals(&mut run);
            }
            run.crash(Loss::AnyPart);
            run.open().unwrap_or_else(|fault| panic!("call {at}, {trouble:?}: {fault}"));
        }
    }
    assert!(faults > 100, "{faults} faults");
}

/// A store that refuses changes accepts them again once the zone is replaced.
fn heals(run: &mut Run) {
    for _ in 0..2 {
        if run.store.is_none() {
            run.open().expect("no call fails any more");
        }
        run.replacement = None;
        let Some((_, store)) = &mut run.store else { return };
        if store.is_broken() || run.acknowledged.is_none() {
            run.begin();
            run.finish();
        }
        run.append();
        run.sync();
    }
    assert!(run.acknowledged.is_some() && run.pending.is_empty());
}

/// The same failure of a sync, step by step.
#[test]
fn changes_that_a_sync_failed_for_do_not_come_back() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        disk.write_together(0);
        let folder = open(disk.clone(), Path::new(ROOT));
        let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
        store.replace(&version(1, 1)).expect("stored");
        store.append(&between(&version(1, 1), &version(2, 2))).expect("appended");
        disk.plan(1, Trouble::Fails(ErrorKind::Other));
        let failed = store.sync();
        assert!(matches!(failed, Err(StoreFault::Io { action: "sync", .. })), "{failed:?}");
        assert_eq!(store.serial(), Some(serial(1)));
        let again = store.append(&between(&version(2, 2), &version(3, 3)));
        assert!(matches!(again, Err(StoreFault::OtherVersion { .. })), "{again:?}");
        if seed % 2 == 0 {
            store.append(&between(&version(1, 1), &version(2, 9))).expect("appended");
            store.sync().expect("synced");
        }
        let disk = disk.crash(Loss::AnyPart);
        let (_, stored) = open(disk, Path::new(ROOT)).zone(apex().as_name()).expect("a store");
        let zone = stored.expect("a zone").load(&key()).expect("a zone");
        let expected = if seed % 2 == 0 { version(2, 9) } else { version(1, 1) };
        assert!(is_same(&zone, &expected), "{zone:?}");
    }
}

#[test]
fn a_store_whose_disk_only_fails_refuses_until_it_is_replaced() {
    let disk = SimulatedDisk::new(1);
    disk.write_together(0);
    let folder = open(disk.clone(), Path::new(ROOT));
    let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
    store.replace(&version(1, 1)).expect("stored");
    let change = between(&version(1, 1), &version(2, 2));
    store.append(&change).expect("appended");
    disk.plan(1, Trouble::AllFail(ErrorKind::Other));
    assert!(matches!(store.sync(), Err(StoreFault::Io { .. })));
    assert!(store.is_broken());
    disk.plan_nothing();
    assert!(matches!(store.append(&change), Err(StoreFault::Refused)));
    assert!(matches!(store.sync(), Err(StoreFault::Refused)));
    store.compact(&version(1, 1)).expect("compacted");
    store.append(&change).expect("appended");
    assert_eq!(store.sync().expect("synced"), serial(2));
}

/// Regression: bytes that a failing disk had written reappeared after a crash.
#[test]
fn a_change_that_was_refused_does_not_come_back() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let folder = open(disk.clone(), Path::new(ROOT));
        let (mut store, _) = folder.zone(apex().as_name()).expect("a store");
        store.replace(&version(1, 1)).expect("stored");
        // Opening the file is the first call, writing the second.
        disk.plan(2, Trouble::Fails(ErrorKind::StorageFull));
        let change = between(&version(1, 1), &version(2, 2));
        let refused = if seed % 2 == 0 {
            disk.write_together(0);
            store.append(&change)
        } else {
            store.append(&change).expect("it is written later");
            store.sync().map(|_| ())
        };
        assert!(matches!(refused, Err(StoreFault::Io { action: "write", .. })), "{refused:?}");
        assert!(!store.is_broken());
        let disk = disk.crash(Loss::AnyPart);
        let (_, stored) = open(disk, Path::new(ROOT)).zone(apex().as_name()).expect("a store");
        assert_eq!(stored.expect("a zone").serial(), serial(1));
    }
}

/// Opens the store of a disk with a marks file; returns its content.
fn marked(disk: &SimulatedDisk) -> Result<Option<StoreContents>, StoreFault> {
    let folder = StoreFolder::open_marked(Arc::new(disk.clone()), Path::new(ROOT), Path::new(MARKS))?;
    folder.zone(apex().as_name()).map(|(_, stored)| stored)
}

/// The file of the zone.
fn store_of(disk: &SimulatedDisk) -> std::path::PathBuf {
    disk.files().into_iter().find(|path| path.extension().is_some_and(|e| e == "zone")).expect("a file")
}

/// Regression: a cut between two changes was taken for the torn end of a crash.
#[test]
fn what_is_missing_of_acknowledged_changes_is_noticed_after_any_run() {
    let mut cuts = 0;
    for seed in 0..20 {
        let mut run = Run::new(seed * 2);
        for _ in 0..80 {
            run.act();
        }
        // Synced marks survive a power failure; all marks survive the end of the process.
        if seed % 2 == 0
            && let Some((folder, _)) = &run.store
        {
            folder.sync_marks().expect("synced");
            run.crash(Loss::AnyPart);
        } else {
            run.end_process();
        }
        let acknowledged = run.acknowledged;
        let mut reopened = Run { acknowledged, disk: run.disk.crash(Loss::Nothing), ..run };
        reopened.open().unwrap_or_else(|fault| panic!("run {seed}: {fault}"));
        let Some(acknowledged) = reopened.acknowledged else { continue };
        reopened.end_process();
        let path = store_of(&reopened.disk);
        let whole = reopened.disk.bytes(&path).expect("a file");
        for len in (0..whole.len()).rev().step_by(13).chain([0]) {
            let disk = reopened.disk.crash(Loss::Nothing);
            reopened.disk = disk.clone();
            disk.put(&path, &whole[..len]);
            match marked(&disk) {
                Ok(stored) => {
                    let stored = stored.expect("a zone");
                    assert_eq!(stored.serial(), serial(acknowledged.serial), "run {seed}, {len} bytes");
                }
                Err(StoreFault::Damaged { .. } | StoreFault::Older { .. }) => cuts += 1,
                Err(fault) => panic!("run {seed}, {len} bytes: {fault}"),
            }
        }
    }
    assert!(cuts > 500, "{cuts} cuts were noticed");
}

/// Regression: a crash between renaming the file and writing its mark left a file without its mark.
#[test]
fn a_crash_while_a_zone_gets_its_first_file_never_loses_its_mark() {
    let (mut none, mut stored) = (0, 0);
    for seed in 0..12 {
        for at in 1..60 {
            let losses = [Loss::Everything, Loss::AllBehindAPlace, Loss::AnyPart, Loss::Nothing];
            for loss in losses {
                let disk = SimulatedDisk::new(seed * 100 + at);
                drop(marked(&disk).expect("a folder"));
                let ends = if loss == Loss::Nothing {
                    Trouble::AllFail(ErrorKind::Other)
                } else {
                    Trouble::PowerGoes
                };
                disk.plan(at, ends);
                // Errors are expected here.
                let kept = (|| {
                    let folder =
                        StoreFolder::open_marked(Arc::new(disk.clone()), Path::new(ROOT), Path::new(MARKS))?;
                    let (mut store, _) = folder.zone(apex().as_name())?;
                    store.replace(&version(1, 1))?;
                    store.append(&between(&version(1, 1), &version(2, 2)))?;
                    store.sync()?;
                    folder.sync_marks()
                })();
                let acknowledged = kept.is_ok();
                disk.plan_nothing();
                let disk = disk.crash(loss);
                let found = marked(&disk).unwrap_or_else(|fault| panic!("{seed} {at} {loss:?}: {fault}"));
                match &found {
                    Some(_) => stored += 1,
                    None => none += 1,
                }
                assert!(!acknowledged || found.is_some_and(|found| found.serial() == serial(2)));
            }
        }
    }
    assert!(none > 100 && stored > 100, "{none} {stored}");
}
