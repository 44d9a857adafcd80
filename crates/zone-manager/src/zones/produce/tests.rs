//! Tests of produced catalog zones, over changes and restarts.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use proptest::prelude::*;
use tempfile::TempDir;
use wire::{NameBuf, Type};

use journal::Disk;
use testkit::disk::{SimulatedDisk, Trouble};
use zone_plan::{Listing, ProducedPlan};

use super::*;
use crate::stores::tests::GatedDisk;

fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

fn apex(text: &str) -> ZoneName {
    text.parse::<NameBuf>().expect("a name").as_name().into()
}

/// Returns the entry of a zone: "cat", "cat group", or "cat group coo"; "-" is no group.
fn listing(text: &str) -> Arc<Listing> {
    let words: Vec<&str> = text.split(' ').collect();
    Arc::new(Listing {
        catalog: apex(words[0]),
        group: words.get(1).filter(|group| **group != "-").map(|group| group.as_bytes().into()),
        new_owner: words.get(2).map(|coo| apex(coo)),
    })
}

fn plans(catalogs: &[&str]) -> Vec<ProducedPlan> {
    catalogs.iter().map(|catalog| ProducedPlan { apex: apex(catalog), max_removed: 0.2 }).collect()
}

/// A producer, and the events of its background work.
struct Rig {
    producer: Producer,
    events: Receiver<ProducerEvent>,
}

impl Deref for Rig {
    type Target = Producer;
    fn deref(&self) -> &Producer {
        &self.producer
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut Producer {
        &mut self.producer
    }
}

/// Returns a producer without zones.
fn open(state: Option<&Path>) -> Rig {
    let (sender, events) = channel();
    let send: OnProducerEvent = Arc::new(move |event| drop(sender.send(event)));
    let producer = Producer::open(state.map(Path::to_owned), Arc::default(), Arc::default(), send);
    Rig { producer, events }
}

/// Starts a producer of `cat` and `other` in a state folder, with these zones.
fn start(state: &Path, zones: &[(&str, &str)]) -> Rig {
    let mut producer = open(Some(state));
    configure(&mut producer, zones);
    producer
}

/// Ends a producer; another can then use its state folder.
fn stop(producer: Rig) {
    let stores = producer.stores.stores.get().cloned();
    drop(producer);
    stores.into_iter().for_each(ZoneStores::wait_until_unused);
}

fn configure(producer: &mut Producer, zones: &[(&str, &str)]) {
    let listings = zones.iter().map(|(zone, at)| (apex(zone), listing(at))).collect();
    producer.configure(plans(&["cat", "other"]), listings, &key());
}

/// Handles events until all versions are stored. Returns the last version or fault of each catalog zone.
fn wait(rig: &mut Rig, before: Vec<(ZoneName, Produced)>) -> BTreeMap<ZoneName, Produced> {
    let mut made: BTreeMap<ZoneName, Produced> = before.into_iter().collect();
    while !rig.has_stored(rig.last_order()) {
        let event = rig.events.recv().expect("an event");
        made.extend(rig.producer.ended(event));
    }
    made
}

/// Produces; returns the new versions by name of their catalog zone once they are stored.
fn produce(rig: &mut Rig, removal: Removal) -> HashMap<String, Arc<Zone>> {
    let made = rig.producer.produce(removal);
    let made = wait(rig, made).into_iter();
    made.map(|(apex, made)| (apex.to_string(), made.expect("a version"))).collect()
}

/// Returns the newest version of a catalog zone.
fn version(producer: &Producer, catalog: &str) -> Arc<Zone> {
    Arc::clone(&producer.catalogs[&apex(catalog)].made.as_ref().expect("it is made").0)
}

fn members(producer: &Producer, catalog: &str) -> BTreeMap<ZoneName, Member> {
    CatalogZone::read(&version(producer, catalog)).expect("a catalog zone").members
}

fn label(producer: &Producer, catalog: &str, zone: &str) -> Box<[u8]> {
    members(producer, catalog)[&apex(zone)].id.clone()
}

fn is_later(serial: Serial, than: Serial) -> bool {
    than.compare(serial) == Some(std::cmp::Ordering::Less)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_member_that_stays_keeps_its_label_and_one_that_comes_back_gets_another() {
    let state = folder();
    let mut producer = start(state.path(), &[("a.test", "cat"), ("b.test", "cat gold")]);
    assert_eq!(produce(&mut producer, Removal::HoldBack).len(), 2);
    let (a, b) = (label(&producer, "cat", "a.test"), label(&producer, "cat", "b.test"));
    assert_eq!(members(&producer, "cat")[&apex("b.test")].groups, [Box::from(&b"gold"[..])]);
    producer.list(&apex("a.test"), None);
    assert_eq!(produce(&mut producer, Removal::HoldBack).len(), 1);
    producer.list(&apex("a.test"), Some(listing("cat")));
    producer.list(&apex("b.test"), Some(listing("cat silver")));
    produce(&mut producer, Removal::HoldBack);
    let again = label(&producer, "cat", "a.test");
    assert_ne!(again, a);
    assert_eq!(label(&producer, "cat", "b.test"), b);
    // The same after a restart; without changes there is no new version.
    let before = version(&producer, "cat").serial();
    stop(producer);
    let mut producer = start(state.path(), &[("a.test", "cat"), ("b.test", "cat silver")]);
    let reported = produce(&mut producer, Removal::HoldBack);
    assert_eq!(reported["cat."].serial(), before);
    assert_eq!((label(&producer, "cat", "a.test"), label(&producer, "cat", "b.test")), (again, b.clone()));
    // Another zone of the same name gets another label.
    producer.renew(&apex("b.test"));
    assert!(is_later(produce(&mut producer, Removal::HoldBack)["cat."].serial(), before));
    assert_ne!(label(&producer, "cat", "b.test"), b);
}

#[test]
fn a_member_takes_its_label_along_to_the_catalog_zone_it_moves_to() {
    let state = folder();
    let mut producer = start(state.path(), &[("a.test", "cat gold")]);
    produce(&mut producer, Removal::HoldBack);
    let id = label(&producer, "cat", "a.test");
    configure(&mut producer, &[("a.test", "cat gold other")]);
    produce(&mut producer, Removal::HoldBack);
    assert_eq!(members(&producer, "cat")[&apex("a.test")].new_owner, Some(apex("other")));
    assert_eq!(label(&producer, "other", "a.test"), id);
    configure(&mut producer, &[("a.test", "other gold")]);
    produce(&mut producer, Removal::HoldBack);
    assert!(members(&producer, "cat").is_empty());
    assert_eq!(label(&producer, "other", "a.test"), id);
}

#[test]
fn members_that_would_go_in_great_number_stay_listed_until_they_are_forced_out() {
    let state = folder();
    let names: Vec<String> = (0..20).map(|i| format!("m{i}.test")).collect();
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "cat")).collect();
    let mut producer = start(state.path(), &all);
    produce(&mut producer, Removal::HoldBack);
    // The same after a restart: a folder of zones may not have been mounted.
    stop(producer);
    let mut producer = start(state.path(), &all[..5]);
    producer.list(&apex("new.test"), Some(listing("cat")));
    produce(&mut producer, Removal::HoldBack);
    let held =
        |producer: &Producer| producer.status().next().map(|status| (status.members, status.held_back));
    assert_eq!(held(&producer), Some((21, 15)));
    producer.list(&apex("m7.test"), Some(listing("cat")));
    produce(&mut producer, Removal::HoldBack);
    assert_eq!(held(&producer), Some((21, 15)), "it was listed all the time");
    produce(&mut producer, Removal::Force);
    assert_eq!(held(&producer), Some((7, 0)));
}

#[test]
fn what_cannot_be_read_is_a_fault_and_no_empty_list() {
    let state = folder();
    let mut producer = start(state.path(), &[("a.test", "cat")]);
    produce(&mut producer, Removal::HoldBack);
    stop(producer);
    let shards = fs::read_dir(state.path().join(FOLDER)).expect("a folder");
    let files = shards.flat_map(|shard| fs::read_dir(shard.expect("a shard").path()).into_iter().flatten());
    for file in files.map(|file| file.expect("a file").path()) {
        let mut bytes = fs::read(&file).expect("read");
        // The header has 512 bytes; the records follow.
        bytes[530] ^= 1;
        fs::write(&file, bytes).expect("written");
    }
    let mut producer = start(state.path(), &[("a.test", "cat")]);
    for _ in 0..2 {
        let made = producer.produce(Removal::HoldBack);
        assert!(made.iter().all(|(_, made)| matches!(made, Err(ProduceFault::Store(_)))), "{made:?}");
        assert_eq!(made.len(), 2);
        // Each configuration retries, and reports the fault.
        configure(&mut producer, &[("a.test", "cat")]);
    }
    let mut homeless = open(None);
    configure(&mut homeless, &[("a.test", "cat")]);
    let made = homeless.produce(Removal::HoldBack);
    assert!(matches!(made[..], [(_, Err(ProduceFault::NoState)), (_, Err(ProduceFault::NoState))]));
}

#[test]
fn the_difference_from_any_version_leads_to_the_newest() {
    let state = folder();
    let mut producer = start(state.path(), &[("a.test", "cat"), ("b.test", "cat")]);
    produce(&mut producer, Removal::HoldBack);
    let (stores, first) = (Arc::clone(&producer.stores), version(&producer, "cat"));
    for i in 0..5 {
        producer.list(&apex("c.test"), (i % 2 == 0).then(|| listing("cat gold")));
        produce(&mut producer, Removal::HoldBack);
    }
    let history = stores.history(&apex("cat"), first.serial()).expect("it is known");
    let led = history.fold(first, |zone, change| {
        let change = change.expect("a change");
        assert!(change.is_difference_sequence());
        Arc::new(zone.apply(&change).expect("the next version"))
    });
    let newest = version(&producer, "cat");
    assert_eq!((led.serial(), led.record_count()), (newest.serial(), newest.record_count()));
    assert!(stores.has(&apex("cat")) && !stores.has(&apex("a.test")));
    assert!(stores.history(&apex("cat"), Serial(1)).is_none());
    // A catalog zone that is no longer produced has no history either.
    producer.configure(plans(&["other"]), HashMap::new(), &key());
    assert!(!stores.has(&apex("cat")));
}

#[test]
fn its_records_are_those_of_a_catalog_zone() {
    let state = folder();
    let mut producer = start(state.path(), &[("a.test", "cat")]);
    let zone = produce(&mut producer, Removal::HoldBack).remove("cat.").expect("it is made");
    let ns = zone.apex_node().rrset(Type::NS).expect("name servers");
    assert_eq!(ns.rdatas().next().and_then(|record| record.name()).expect("a name").to_string(), "invalid.");
    assert_eq!(zone.record_count(), 4, "SOA, NS, version and a member");
}

/// An event of the zones.
#[derive(Debug, Clone)]
enum Happening {
    List(u8, Option<(bool, u8, bool)>),
    Renew(u8),
    Configure,
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    let at = proptest::option::weighted(0.7, (any::<bool>(), 0..3_u8, any::<bool>()));
    prop_oneof![
        8 => (0..6_u8, at).prop_map(|(zone, at)| Happening::List(zone, at)),
        1 => (0..6_u8).prop_map(Happening::Renew),
        1 => Just(Happening::Configure),
        1 => Just(Happening::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// For any events, each catalog zone lists the zones that it should, members keep their labels, and a
    /// version with other members has a later serial number.
    #[test]
    fn a_catalog_zone_lists_what_it_should(all in prop::collection::vec(happening(), 1..25)) {
        let state = folder();
        let mut wanted: BTreeMap<u8, String> = BTreeMap::new();
        let name = |zone: u8| format!("z{zone}.test");
        let mut producer = start(state.path(), &[]);
        produce(&mut producer, Removal::HoldBack);
        for happening in all {
            let before = ["cat", "other"].map(|catalog| (version(&producer, catalog).serial(), members(&producer, catalog)));
            let mut renewed = None;
            let listings = |wanted: &BTreeMap<u8, String>| -> HashMap<ZoneName, Arc<Listing>> {
                wanted.iter().map(|(zone, at)| (apex(&name(*zone)), listing(at))).collect()
            };
            match happening {
                Happening::List(zone, at) => {
                    let at = at.map(|(other, group, moves)| {
                        let (here, there) = if other { ("other", "cat") } else { ("cat", "other") };
                        let group = ["-", "gold", "silver"][usize::from(group)];
                        format!("{here} {group}{}", if moves { format!(" {there}") } else { String::new() })
                    });
                    producer.list(&apex(&name(zone)), at.as_deref().map(listing));
                    match at {
                        Some(at) => wanted.insert(zone, at),
                        None => wanted.remove(&zone),
                    };
                }
                Happening::Renew(zone) => {
                    producer.renew(&apex(&name(zone)));
                    renewed = Some(apex(&name(zone)));
                }
                Happening::Configure => producer.configure(plans(&["cat", "other"]), listings(&wanted), &key()),
                Happening::Restart => {
                    stop(producer);
                    producer = open(Some(state.path()));
                    producer.configure(plans(&["cat", "other"]), listings(&wanted), &key());
                }
            }
            produce(&mut producer, Removal::HoldBack);
            for (catalog, (serial, old)) in ["cat", "other"].into_iter().zip(before) {
                let new = members(&producer, catalog);
                let expected = wanted.iter().filter_map(|(zone, at)| {
                    let at = listing(at);
                    let moves_here = at.new_owner.as_ref() == Some(&apex(catalog));
                    let is_here = at.catalog == apex(catalog);
                    let new_owner = at.new_owner.clone().filter(|_| is_here);
                    (is_here || moves_here).then(|| (apex(&name(*zone)), (at.group.clone(), new_owner)))
                });
                let listed = new.iter().map(|(zone, member)| {
                    (zone.clone(), (member.groups.first().cloned(), member.new_owner.clone()))
                });
                prop_assert_eq!(listed.collect::<BTreeMap<_, _>>(), expected.collect::<BTreeMap<_, _>>());
                for (zone, member) in &new {
                    if let Some(before) = old.get(zone) {
                        prop_assert_eq!(before.id == member.id, renewed.as_ref() != Some(zone));
                    }
                }
                let after = version(&producer, catalog).serial();
                prop_assert_eq!(is_later(after, serial), new != old);
                prop_assert!(new != old || after == serial);
            }
        }
    }
}

/// Starts a producer of `cat` and `other` whose disk the test can close.
fn gated(state: &Path) -> (Rig, Arc<GatedDisk>) {
    let (mut rig, disk) = (open(Some(state)), GatedDisk::new());
    let gated: Arc<dyn Disk> = Arc::clone(&disk) as Arc<dyn Disk>;
    let opened = ZoneStores::open(gated, state, FOLDER, Arc::default()).expect("stores");
    drop(rig.stores.stores.set(opened));
    configure(&mut rig, &[("a.test", "cat")]);
    produce(&mut rig, Removal::HoldBack);
    (rig, disk)
}

#[test]
fn network_workers_waited_for_the_disk_that_a_catalog_zone_was_written_to() {
    let state = folder();
    let (mut rig, disk) = gated(state.path());
    disk.close(Some("cat.zone"));
    rig.list(&apex("b.test"), Some(listing("cat")));
    let made = rig.producer.produce(Removal::HoldBack);
    while !disk.has_waiting() {
        std::thread::yield_now();
    }
    let stores = Arc::clone(&rig.stores);
    let has = |name| stores.has(&apex(name));
    assert!(has("cat") && has("other") && !has("a.test"));
    let from_other = stores.history(&apex("other"), Serial(0));
    assert!(from_other.is_none(), "another zone's history does not wait either");
    assert!(disk.has_waiting());
    disk.close(None);
    assert_eq!(wait(&mut rig, made).len(), 1);
}

#[test]
fn the_zone_manager_waited_for_the_disk_that_a_catalog_zone_was_written_to() {
    let state = folder();
    let (mut rig, disk) = gated(state.path());
    disk.close(Some("cat.zone"));
    rig.list(&apex("b.test"), Some(listing("cat")));
    assert!(rig.producer.produce(Removal::HoldBack).is_empty(), "not stored yet");
    let first = rig.last_order();
    rig.list(&apex("c.test"), Some(listing("cat")));
    assert!(rig.producer.produce(Removal::HoldBack).is_empty(), "not stored yet");
    assert!(!rig.has_stored(first) && members(&rig, "cat").len() == 3);
    disk.close(None);
    let served = wait(&mut rig, Vec::new()).remove(&apex("cat")).expect("a version").expect("it is stored");
    assert_eq!(CatalogZone::read(&served).expect("a catalog zone").members.len(), 3);
    assert!(rig.has_stored(first));
}

#[test]
fn a_version_that_could_not_be_stored_is_stored_by_the_next_production() {
    let (state, disk) = (folder(), SimulatedDisk::new(1));
    let mut rig = open(Some(state.path()));
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    drop(
        rig.stores
            .stores
            .set(ZoneStores::open(on, Path::new("/"), "catalogs", Arc::default()).expect("stores")),
    );
    configure(&mut rig, &[("a.test", "cat")]);
    produce(&mut rig, Removal::HoldBack);
    disk.plan(1, Trouble::AllFail(std::io::ErrorKind::Other));
    rig.list(&apex("b.test"), Some(listing("cat")));
    let made = rig.producer.produce(Removal::HoldBack);
    let failed = wait(&mut rig, made).remove(&apex("cat")).expect("a fault");
    assert!(matches!(failed, Err(ProduceFault::Store(_))), "{failed:?}");
    assert!(rig.status().any(|status| status.fault.is_some()));
    disk.plan_nothing();
    let served = produce(&mut rig, Removal::HoldBack).remove("cat.").expect("a version");
    assert_eq!(served.serial(), version(&rig, "cat").serial());
    assert!(rig.status().all(|status| status.fault.is_none()));
    let stores = rig.stores.stores.get().expect("stores");
    let (stored, _) = read(stores, &apex("cat"), &key()).expect("stored");
    assert_eq!((stored.serial(), stored.record_count()), (served.serial(), served.record_count()));
}

#[test]
fn a_start_waited_for_a_write_that_had_panicked() {
    let state = folder();
    let mut rig = start(state.path(), &[]);
    produce(&mut rig, Removal::HoldBack);
    rig.list(&apex("a.test"), Some(listing("cat")));
    assert!(rig.producer.produce(Removal::HoldBack).is_empty());
    // A panic drops the receiver of the end without a call.
    let about = Some((apex("cat"), rig.last_order()));
    drop(StoreReport { events: Arc::clone(&rig.work.events), about });
    let is_lost = |event: &ProducerEvent| matches!(event, ProducerEvent::Stored(_, _, Err(_)));
    // The drop above sent this event; those of the disk may precede it.
    let lost = std::iter::from_fn(|| rig.events.try_recv().ok()).find(is_lost).expect("a fault");
    assert!(matches!(rig.producer.ended(lost), Some((_, Err(ProduceFault::Store(_))))));
    assert!(rig.has_stored(rig.last_order()), "nothing waits for it any more");
}
