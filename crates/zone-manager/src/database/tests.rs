//! Tests of the copies that a node has of zones of a database.

use journal::RealDisk;
use wire::{Name, NameBuf, ViewName};

use super::*;

fn apex(text: &str, view: Option<&str>) -> ZoneName {
    let name: NameBuf = text.parse().expect("a name");
    let view = view.map(|view| view.parse::<ViewName>().expect("a view"));
    ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref())
}

fn known(id: i64, template: Option<&str>) -> KnownZone {
    KnownZone { id: ZoneId(id), template: template.map(str::to_owned) }
}

fn open(folder: &Path) -> Arc<ZoneDatabase> {
    loop {
        match ZoneDatabase::open(Arc::new(RealDisk), folder, &Background::new()) {
            Ok(zones) => return zones,
            // A thread of an earlier run still uses it.
            Err(StoreFault::Locked(_)) => std::thread::yield_now(),
            Err(fault) => panic!("{fault}"),
        }
    }
}

#[test]
fn the_next_run_knows_the_zones_of_the_last_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b, c) = (apex("a.example.", None), apex("b.example.", Some("inside")), apex("c.example.", None));
    {
        let zones = open(folder.path());
        zones.set_all([(a.clone(), known(1, None)), (c.clone(), known(3, None))].into());
        zones.set(&b, known(2, Some("customers")));
        zones.set(&a, known(4, None));
        zones.remove(&c);
    }
    let all = HashMap::from([(a.clone(), known(4, None)), (b.clone(), known(2, Some("customers")))]);
    assert_eq!(open(folder.path()).known(), all);
    // A crash has cut the last line.
    let path = folder.path().join(list::FILE);
    let mut text = std::fs::read(&path).expect("read");
    text.extend(b"{\"zone\":\"a.exa");
    std::fs::write(&path, text).expect("written");
    let zones = open(folder.path());
    assert_eq!(zones.known(), all);
    assert_eq!(zones.id(&a), Some(ZoneId(4)));
    zones.set_all(HashMap::new());
    drop(zones);
    assert_eq!(open(folder.path()).known(), HashMap::new());
}

/// A bit of the list that has changed takes its line out of it, and makes no other zone.
#[test]
fn a_changed_bit_of_the_list_makes_no_zone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (apex("a.example.", None), apex("b.example.", Some("inside")));
    let all = HashMap::from([(a.clone(), known(1, None)), (b.clone(), known(2, Some("customers")))]);
    {
        let zones = open(folder.path());
        zones.set(&a, known(1, None));
        zones.set(&b, known(2, Some("customers")));
    }
    let path = folder.path().join(list::FILE);
    let whole = std::fs::read(&path).expect("read");
    assert_eq!(ZoneList::open(folder.path()).1, all);
    for at in 0..whole.len() {
        let (mut changed, bit) = (whole.clone(), at % 8);
        changed[at] ^= 1 << bit;
        std::fs::write(&path, changed).expect("written");
        let (_, found) = ZoneList::open(folder.path());
        let is_part = found.iter().all(|(apex, zone)| all.get(apex) == Some(zone));
        assert!(is_part && found.len() < all.len(), "bit {bit} of byte {at}: {found:?}");
    }
    for at in 0..whole.len() {
        std::fs::write(&path, &whole[..at]).expect("written");
        let (_, found) = ZoneList::open(folder.path());
        assert!(found.iter().all(|(apex, zone)| all.get(apex) == Some(zone)), "cut at {at}: {found:?}");
    }
    // A file of another kind is not waited for.
    std::fs::remove_file(&path).expect("removed");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).expect("a FIFO");
    let (list, found) = ZoneList::open(folder.path());
    list.add(&a, &known(1, None));
    assert_eq!(found, HashMap::new());
}

#[test]
fn a_stored_version_that_is_damaged_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let (key, of) = (HashKey::new([1, 2, 3]), apex("example.", None));
    let mut builder = zone::ZoneBuilder::new(Name::of_checked(b"\x07example\0"), &key);
    let soa = [&[0, 0][..], &[0, 0, 0, 9], &[0; 16]].concat();
    let ttl = wire::Ttl::from_secs(60);
    builder.add(of.as_name(), wire::Type::SOA, ttl, &soa).expect("a record");
    builder.add(of.as_name(), wire::Type::NS, ttl, &[0]).expect("a record");
    let version = Arc::new(builder.finish().expect("a zone"));
    {
        let zones = open(folder.path());
        zones.keep(&of, Arc::clone(&version), None);
        zones.stop();
    }
    assert_eq!(open(folder.path()).load(&of, &key).map(|zone| zone.serial()), Some(version.serial()));
    let shards = std::fs::read_dir(folder.path().join(FOLDER)).expect("a folder");
    let files =
        shards.flat_map(|shard| std::fs::read_dir(shard.expect("a shard").path()).into_iter().flatten());
    let file = files.map(|file| file.expect("a file").path()).next().expect("the zone's file");
    let mut bytes = std::fs::read(&file).expect("read");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let zones = open(folder.path());
    assert!(zones.load(&of, &key).is_none());
    zones.keep(&of, version, None);
    zones.stop();
    assert!(zones.load(&of, &key).is_some(), "it is stored again");
    zones.forget(&of);
    zones.stop();
    assert!(zones.load(&of, &key).is_none());
}
