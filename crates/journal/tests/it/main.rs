//! What stores keep, on real disks and on disks that lose writes and fail.

mod crashes;
mod keeping;

use std::path::Path;
use std::sync::Arc;

use journal::{Disk, StoreContents, StoreFolder};
use testkit::{ModelRecord, build, key, name};
use wire::{NameBuf, Serial, Ttl, Type};
use zone::Zone;
use zone::store::{ChangeSet, diff};

const HOUR: Ttl = Ttl::from_secs(3600);

fn apex() -> NameBuf {
    name("example.")
}

/// Version `serial` of a zone; `content` makes it differ from all others.
fn version(serial: u32, content: u32) -> Zone {
    let apex = apex();
    let mut records = vec![
        ModelRecord {
            owner: apex,
            rtype: Type::SOA,
            ttl: HOUR,
            rdata: testkit::random::soa(apex.as_name(), serial),
        },
        ModelRecord {
            owner: apex,
            rtype: Type::NS,
            ttl: HOUR,
            rdata: name("ns.").as_name().as_wire().to_vec(),
        },
    ];
    // Some hosts stay from version to version, and changes have several lengths.
    for host in content.saturating_sub(content % 3)..=content {
        let owner = name(&format!("Host{host}.example."));
        let rdata = [&[(host % 40) as u8][..], &vec![b'x'; (host % 40) as usize]].concat();
        records.push(ModelRecord { owner, rtype: Type::TXT, ttl: HOUR, rdata });
    }
    build(apex.as_name(), &key(), &records)
}

/// The change from one version to another.
fn between(old: &Zone, new: &Zone) -> ChangeSet {
    diff(old, new)
}

fn open(disk: impl Disk + 'static, folder: &Path) -> StoreFolder {
    StoreFolder::open(Arc::new(disk), folder).expect("a folder")
}

/// Whether two zones have the same records.
fn is_same(a: &Zone, b: &Zone) -> bool {
    a.serial() == b.serial() && diff(a, b).is_empty() && a.record_count() == b.record_count()
}

/// The version at which the changes of a store begin.
fn base_serial(stored: &StoreContents) -> Serial {
    stored.changes().next().map_or(stored.serial(), |change| change.expect("a change").before)
}

fn serials(changes: impl Iterator<Item = Result<ChangeSet, journal::StoreFault>>) -> Vec<(u32, u32)> {
    changes.map(|change| change.expect("a change")).map(|c| (c.before.0, c.after.0)).collect()
}

/// The serials of the changes from `from` to `to`.
fn steps(from: u32, to: u32) -> Vec<(u32, u32)> {
    (from..to).map(|serial| (serial, serial + 1)).collect()
}

const fn serial(number: u32) -> Serial {
    Serial(number)
}
