//! Measures a store on the local disk: `store FOLDER RECORDS` writes and loads a zone of RECORDS records,
//! similar to that of a top-level domain, and counts changes per second, acknowledged one by one and 64 at a
//! time.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use journal::{RealDisk, StoreFolder};
use testkit::random::soa;
use testkit::tld::Tld;
use wire::hash::HashKey;
use wire::{NameBuf, Serial, Ttl, Type};
use zone::ZoneBuilder;
use zone::store::ChangeSet;

const DAY: Ttl = Ttl::from_secs(86_400);

/// A change that adds a host and increments the serial.
fn change(serial: u32, apex: NameBuf) -> Result<ChangeSet, Box<dyn Error>> {
    let mut change = ChangeSet { before: Serial(serial), after: Serial(serial + 1), ..ChangeSet::default() };
    change.removed.push(apex.as_name(), Type::SOA, DAY, &soa(apex.as_name(), serial));
    change.added.push(apex.as_name(), Type::SOA, DAY, &soa(apex.as_name(), serial + 1));
    let owner: NameBuf = format!("new-{serial}.{apex}").parse()?;
    change.added.push(owner.as_name(), Type::A, DAY, &serial.to_be_bytes());
    Ok(change)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(root), Some(records)) = (arguments.next(), arguments.next()) else {
        return Err("usage: store FOLDER RECORDS".into());
    };
    let (apex, key): (NameBuf, _) = ("com.".parse()?, HashKey::random());
    let mut builder = ZoneBuilder::new(apex.as_name(), &key);
    for record in Tld::new(apex, records.parse()?) {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata)?;
    }
    let zone = builder.finish()?;
    let folder = StoreFolder::open(Arc::new(RealDisk), Path::new(&root))?;
    let (mut store, _) = folder.zone(apex.as_name())?;
    let start = Instant::now();
    store.replace(&zone)?;
    println!("{zone:?} written in {:?}: {:?}", start.elapsed(), store.size());
    let mut serial = zone.serial().0;
    for (group, groups) in [(1, 1000), (64, 500)] {
        let start = Instant::now();
        for _ in 0..groups {
            for _ in 0..group {
                store.append(&change(serial, apex)?)?;
                serial += 1;
            }
            store.sync()?;
        }
        let rate = f64::from(group * groups) / start.elapsed().as_secs_f64();
        println!("{rate:.0} changes a second, {group} to a sync");
    }
    drop(store);
    let start = Instant::now();
    let (store, stored) = folder.zone(apex.as_name())?;
    println!("opened in {:?}", start.elapsed());
    let stored = stored.ok_or("nothing is stored")?;
    let start = Instant::now();
    let mut base = ZoneBuilder::new(apex.as_name(), &key);
    stored.read_base(&mut base)?;
    base.finish()?;
    println!("base loaded in {:?}", start.elapsed());
    let start = Instant::now();
    let loaded = stored.load(&key)?;
    println!("{loaded:?} loaded in {:?}, with {} changes", start.elapsed(), stored.changes().count());
    Ok(store.remove()?)
}
