//! Journal files that are damaged or forged.
//!
//! The input edits the file of a real journal; depending on the input, the checksums are then corrected, as
//! an attacker would do who knows the format. Any file is accepted or rejected; a zone that is read has the
//! serial that the store reports, and can be stored and read again.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use journal::StoreFolder;
use testkit::disk::SimulatedDisk;
use testkit::{ModelRecord, build, key, name};
use wire::{Ttl, Type, UnixTime};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zone::Zone;
use zone::store::diff;

const ROOT: &str = "/zones";
const HEADER: usize = 512;
const FRAME: usize = 40;

/// The path and the contents of a store with a base, history and later changes.
static STORE: LazyLock<(std::path::PathBuf, Vec<u8>)> = LazyLock::new(|| {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = folder(&disk).zone(name("example.").as_name()).expect("a store");
    let versions: Vec<Zone> = (1..6).map(version).collect();
    store.replace(&versions[0]).expect("stored");
    for (at, pair) in versions.windows(2).enumerate() {
        store.append(&diff(&pair[0], &pair[1])).expect("appended");
        store.sync().expect("synced");
        if at == 1 {
            store.compact(&pair[1]).expect("compacted");
        }
    }
    store.confirmed(UnixTime::from_secs(1_700_000_000)).expect("noted");
    let is_store = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "zone");
    let path = disk.files().into_iter().find(is_store).expect("a file");
    let bytes = disk.bytes(&path).expect("its bytes");
    (path, bytes)
});

fn folder(disk: &SimulatedDisk) -> StoreFolder {
    StoreFolder::open(Arc::new(disk.clone()), Path::new(ROOT)).expect("a folder")
}

fn version(serial: u32) -> Zone {
    let apex = name("example.");
    let record = |owner: &str, rtype, rdata: Vec<u8>| ModelRecord {
        owner: name(owner),
        rtype,
        ttl: Ttl::from_secs(60),
        rdata,
    };
    let soa = testkit::random::soa(apex.as_name(), serial);
    let mut records = vec![record("example.", Type::SOA, soa)];
    records.extend(
        (serial..serial + 3).map(|host| record(&format!("h{host}.example."), Type::TXT, vec![1, host as u8])),
    );
    build(apex.as_name(), &key(), &records)
}

/// Applies edits of four bytes: two for the offset, one for the operation, one for the new byte.
fn edited(edits: &[u8]) -> Vec<u8> {
    let mut bytes = STORE.1.clone();
    for edit in edits.as_chunks::<4>().0 {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (bytes.len() + 1);
        match (edit[2] % 8, bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at),
            (1, _) => bytes.insert(at, edit[3]),
            (2, Some(_)) => drop(bytes.remove(at)),
            (3, _) => bytes.extend_from_within(at..),
            (_, Some(byte)) => *byte = edit[3],
            _ => {}
        }
    }
    bytes
}

/// Corrects the checksums of the header and of all frames.
fn with_checksums(bytes: &mut [u8]) {
    let Some(header) = bytes.get_mut(..HEADER) else { return };
    let sum = xxh3_64(&header[..480]);
    header[504..].copy_from_slice(&sum.to_le_bytes());
    let nonce = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
    let mut at = HEADER;
    while let Some(frame) = bytes.get_mut(at..).filter(|rest| rest.len() >= FRAME) {
        let (head, rest) = frame.split_at_mut(FRAME);
        let len = u32::from_le_bytes(head[4..8].try_into().expect("four bytes")) as usize;
        let seed = nonce.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let Some(body) = rest.get(..len) else { return };
        head[24..32].copy_from_slice(&xxh3_64_with_seed(body, seed).to_le_bytes());
        let sum = xxh3_64_with_seed(&head[..32], seed);
        head[32..].copy_from_slice(&sum.to_le_bytes());
        at += FRAME + len;
    }
}

pub(crate) fn run(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else { return };
    let mut bytes = if how & 2 == 0 { edited(rest) } else { rest.to_vec() };
    if how & 1 == 0 {
        with_checksums(&mut bytes);
    }
    let disk = SimulatedDisk::new(1);
    disk.put(&STORE.0, &bytes);
    let folder = folder(&disk);
    let Ok((mut store, Some(stored))) = folder.zone(name("example.").as_name()) else { return };
    let base = stored.changes().next().and_then(Result::ok).map_or(stored.serial(), |change| change.before);
    let history = store.history(base);
    if let Ok(Some(changes)) = history {
        changes.take(100).for_each(drop);
    }
    let Ok(zone) = stored.load(&key()) else { return };
    assert_eq!(zone.serial(), stored.serial());
    drop(stored);
    store.replace(&zone).expect("stored");
    drop(store);
    let (_, again) = folder.zone(name("example.").as_name()).expect("a store");
    let again = again.expect("a zone").load(&key()).expect("it was stored just now");
    assert!(diff(&zone, &again).is_empty());
}
