//! Tests of stores: no zone waits for another, histories can be read, and failures are reported as what they
//! are.

use std::ffi::OsString;
use std::io;
use std::sync::mpsc::{Receiver, channel};

use journal::{DEFAULT_HISTORY, DiskFile, RealDisk};
use tempfile::TempDir;
use wire::hash::HashKey;
use wire::{NameBuf, Ttl, Type, UnixTime};
use zone::ZoneBuilder;
use zone::store::diff;

use super::*;

/// A disk that delays opening and creating files with a given path part.
pub(crate) struct GatedDisk {
    closed: Mutex<Option<&'static str>>,
    opened: Condvar,
    failing: Mutex<bool>,
    waiting: Mutex<usize>,
}

impl GatedDisk {
    pub(crate) fn new() -> Arc<GatedDisk> {
        Arc::new(GatedDisk {
            closed: Mutex::default(),
            opened: Condvar::new(),
            failing: Mutex::default(),
            waiting: Mutex::default(),
        })
    }

    /// Delays files whose path has this part, and releases all others.
    pub(crate) fn close(&self, part: Option<&'static str>) {
        *lock(&self.closed) = part;
        self.opened.notify_all();
    }

    /// Whether a file waits.
    pub(crate) fn has_waiting(&self) -> bool {
        *lock(&self.waiting) > 0
    }

    fn pass(&self, path: &Path) {
        *lock(&self.waiting) += 1;
        let is_closed =
            |part: &mut Option<&'static str>| part.is_some_and(|part| path.to_string_lossy().contains(part));
        drop(self.opened.wait_while(lock(&self.closed), is_closed));
        *lock(&self.waiting) -= 1;
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.pass(path);
        if *lock(&self.failing) { Err(io::Error::other("refused")) } else { RealDisk.open(path) }
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.pass(path);
        RealDisk.create(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        RealDisk.list(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        RealDisk.lock(path)
    }
}

fn apex(label: &str) -> ZoneName {
    let name: NameBuf = format!("{label}.").parse().expect("a name");
    name.as_name().into()
}

/// A zone with this many TXT records beside its SOA.
fn zone(label: &str, serial: u32, records: u32) -> Arc<Zone> {
    let apex: NameBuf = format!("{label}.").parse().expect("a name");
    let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
    let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
    builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
    for number in 0..records {
        let text = [&[250][..], &[b'a'; 250]].concat();
        let owner: NameBuf = format!("n{number}.{label}.").parse().expect("a name");
        builder.add(owner.as_name(), Type::TXT, Ttl::from_secs(60), &text).expect("a record");
    }
    Arc::new(builder.finish().expect("a zone"))
}

fn open(folder: &TempDir, disk: &Arc<GatedDisk>) -> ZoneStores {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    ZoneStores::open(disk, folder.path(), "stores", Background::new()).expect("a folder")
}

fn order(stores: &ZoneStores, label: &str, order: StoreOrder) -> Receiver<Result<bool, StoreFault>> {
    let (done, ended) = channel();
    stores.order(&apex(label), order, Box::new(move |result| drop(done.send(result))));
    ended
}

fn step(from: &Arc<Zone>, to: &Arc<Zone>) -> StoreOrder {
    StoreOrder::Version(Arc::clone(to), Some(vec![Arc::new(diff(from, to))]), None)
}

/// Runs an order, which must succeed.
fn store(stores: &ZoneStores, label: &str, wanted: StoreOrder) {
    order(stores, label, wanted).recv().expect("it ends").expect("it succeeds");
}

fn steps(stores: &ZoneStores, label: &str, from: u32) -> Option<Vec<u32>> {
    let history = stores.history(&apex(label), Serial(from)).expect("it can be read")?;
    Some(history.map(|step| step.expect("a step").after.0).collect())
}

#[test]
fn a_zone_that_is_written_as_a_whole_holds_up_no_other_zone() {
    let (folder, disk) = (tempfile::tempdir().expect("a folder"), GatedDisk::new());
    let stores = open(&folder, &disk);
    let zones = [1, 2].map(|serial| zone("small", serial, 1));
    store(&stores, "small", StoreOrder::Version(Arc::clone(&zones[0]), None, None));
    disk.close(Some("slow.new"));
    let slow = order(&stores, "slow", StoreOrder::Version(zone("slow", 1, 1), None, None));
    store(&stores, "small", step(&zones[0], &zones[1]));
    assert_eq!(steps(&stores, "small", 1), Some(vec![2]));
    assert!(slow.try_recv().is_err(), "the disk keeps it waiting");
    disk.close(None);
    assert!(slow.recv().expect("ended").expect("stored"));
    assert!(stores.flush());
}

#[test]
fn changes_and_histories_go_on_during_a_compaction() {
    let (folder, disk) = (tempfile::tempdir().expect("a folder"), GatedDisk::new());
    let stores = open(&folder, &disk);
    let mut last = zone("busy", 1, 1);
    store(&stores, "busy", StoreOrder::Version(Arc::clone(&last), None, None));
    disk.close(Some("busy.new"));
    // More changes than the history may have: a compaction begins, and waits to create its file.
    let each = 1000;
    for serial in 2..=2 + (DEFAULT_HISTORY / 4 / (250 * u64::from(each))) as u32 * 2 {
        let next = zone("busy", serial, if serial % 2 == 0 { each } else { 1 });
        store(&stores, "busy", step(&last, &next));
        last = next;
    }
    while !disk.has_waiting() {
        std::thread::yield_now();
    }
    let serial = last.serial().0;
    let next = zone("busy", serial + 1, 2);
    store(&stores, "busy", step(&last, &next));
    assert_eq!(steps(&stores, "busy", serial), Some(vec![serial + 1]));
    // A version that does not follow waits for the compaction; reads meanwhile wait for nothing.
    let other = order(
        &stores,
        "busy",
        StoreOrder::Version(zone("busy", serial + 9, 1), None, Some(UnixTime::from_secs(5))),
    );
    assert_eq!(steps(&stores, "busy", serial), Some(vec![serial + 1]));
    assert!(other.try_recv().is_err());
    disk.close(None);
    assert!(other.recv().expect("ended").expect("stored"));
    assert!(stores.flush());
    drop(stores);
    let stores = open_again(&folder, &disk);
    let (_, stored) =
        stores.folders().of(&apex("busy")).expect("a folder").zone(apex("busy").as_name()).expect("opened");
    let stored = stored.expect("a version");
    assert_eq!((stored.serial(), stored.confirmed()), (Serial(serial + 9), Some(UnixTime::from_secs(5))));
}

/// Opens the folder again once the threads of an earlier run have dropped it.
fn open_again(folder: &TempDir, disk: &Arc<GatedDisk>) -> ZoneStores {
    loop {
        let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
        match ZoneStores::open(disk, folder.path(), "stores", Background::new()) {
            Ok(stores) => return stores,
            Err(StoreFault::Locked(_)) => std::thread::yield_now(),
            Err(fault) => panic!("{fault}"),
        }
    }
}

#[test]
fn a_history_that_cannot_be_read_is_a_failed_read_and_no_failed_write() {
    let (folder, disk) = (tempfile::tempdir().expect("a folder"), GatedDisk::new());
    let stores = open(&folder, &disk);
    store(&stores, "a", StoreOrder::Version(zone("a", 1, 1), None, None));
    *lock(&disk.failing) = true;
    assert!(stores.history(&apex("a"), Serial(1)).is_err());
    *lock(&disk.failing) = false;
    assert_eq!(steps(&stores, "a", 1), Some(Vec::new()));
}

#[test]
fn ten_thousand_zones_leave_a_thousand_stores_open_and_all_are_stored() {
    let (folder, disk) = (tempfile::tempdir().expect("a folder"), GatedDisk::new());
    let stores = open(&folder, &disk);
    let labels: Vec<String> = (0..2 * OPEN_STORES).map(|number| format!("z{number}")).collect();
    let ended: Vec<_> = labels
        .iter()
        .map(|label| {
            order(
                &stores,
                label,
                StoreOrder::Change(Arc::new(diff(&zone(label, 1, 1), &zone(label, 2, 2))), 1000),
            )
        })
        .collect();
    ended.iter().for_each(|ended| assert!(ended.recv().expect("ended").expect("stored")));
    assert!(stores.flush());
    assert!(lock(&stores.0.zones).by_apex.len() <= OPEN_STORES + 1);
    assert!(labels.iter().all(|label| steps(&stores, label, 1) == Some(vec![2])));
    assert!(order(&stores, "z0", StoreOrder::Remove).recv().expect("ended").expect("removed"));
    assert_eq!(steps(&stores, "z0", 1), None);
}
