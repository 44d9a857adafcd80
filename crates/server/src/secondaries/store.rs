//! What was taken from primaries, on disk: written by a thread of its own, beside serving, and read at the start, so that
//! zones are there without a transfer. The files are `journal`'s.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use journal::{History, RealDisk, StoreFault, ZoneFolder, ZoneStore};
use tracing::{debug, info, warn};
use wire::hash::HashKey;
use wire::{Name, Serial};
use zone::Zone;
use zone::store::ChangeSet;

use super::counts::SecondaryCounts;
use crate::repeated::log_repeated;
use crate::sync::lock;
use crate::zones::Apex;
use crate::zones::keeper::KeptVersion;

/// The folder of the files in the state folder.
pub const FOLDER: &str = "secondaries";
/// Most stores that stay open from one thing to keep to the next. There may be very many zones, and to open one anew costs
/// little.
const MOST_OPEN: usize = 1024;
/// After which reading or writing a zone is worth a line.
const LONG: Duration = Duration::from_secs(1);
/// Longest wait for the disk at the end.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What is to be kept of a zone.
#[derive(Debug)]
pub(super) enum Keep {
    /// This version; what changed since the one before, if that is known.
    Version(Arc<Zone>, Option<Vec<Arc<ChangeSet>>>),
    /// That a primary has confirmed the version that is kept.
    Confirmed,
    /// Nothing more: it is taken from primaries no longer.
    Nothing,
    /// All that was to be kept so far, before this is answered.
    Flush(SyncSender<()>),
    /// Nothing new; what changed since a version is to be read.
    Read(Serial, SyncSender<Option<History>>),
}

/// The files, and the thread that writes them.
pub struct SecondaryStore {
    folder: ZoneFolder,
    orders: Sender<(Apex, Keep, u64)>,
    going: Arc<Going>,
}

/// Zones of which nothing is to be kept any more, each with how often that is still to be done.
type Going = Mutex<HashMap<Apex, usize>>;

impl SecondaryStore {
    /// Opens the files in a state folder.
    ///
    /// # Errors
    /// Why nothing can be kept there.
    pub fn open(state: &Path) -> Result<(Arc<SecondaryStore>, SecondaryWriter), StoreFault> {
        let folder = ZoneFolder::open(Arc::new(RealDisk), &state.join(FOLDER))?;
        let (orders, taken) = channel();
        let going = Arc::<Going>::default();
        let writer = SecondaryWriter { folder: folder.clone(), orders: taken, going: Arc::clone(&going) };
        Ok((Arc::new(SecondaryStore { folder, orders, going }), writer))
    }

    /// Has something kept, as of a time in seconds since 1970.
    pub(super) fn keep(&self, apex: Apex, keep: Keep, at: u64) {
        if matches!(keep, Keep::Nothing) {
            *lock(&self.going).entry(apex.clone()).or_default() += 1;
        }
        // The writer ends with the process.
        let _ = self.orders.send((apex, keep, at));
    }

    /// What changed in a zone since a version; `None` if that is not known. Waits for the disk.
    pub(super) fn history(&self, apex: &Apex, from: Serial) -> Option<History> {
        let (reply, replied) = sync_channel(1);
        self.keep(apex.clone(), Keep::Read(from, reply), 0);
        replied.recv_timeout(LAST_WORDS).ok().flatten()
    }

    /// Waits until all that was to be kept is, but not for ever.
    pub(super) fn flush(&self) {
        let (done, ended) = sync_channel(1);
        self.keep(Apex::default(), Keep::Flush(done), 0);
        // A disk that takes longer than this has had its chance.
        let _ = ended.recv_timeout(LAST_WORDS);
    }

    /// What was kept of a zone by an earlier run. Whether it has expired is not looked at.
    pub fn load(&self, apex: &Apex, key: &HashKey) -> Option<KeptVersion> {
        if lock(&self.going).contains_key(apex) {
            return None;
        }
        let (begun, name) = (Instant::now(), Name::from_wire(apex).ok()?);
        let loaded = self.folder.zone(name).and_then(|(store, stored)| {
            let Some(stored) = stored else { return Ok(None) };
            if let Some(torn) = stored.torn_tail() {
                info!(
                    "zone {name}: {} bytes that a crash left in {} are left out",
                    torn.bytes,
                    stored.path().display()
                );
            }
            let zone = Arc::new(stored.load(key)?);
            drop(store);
            // A crash may have cost the time of the confirmation; the version came when the file was written last.
            let written = || stored.path().metadata().and_then(|about| about.modified()).ok();
            let written = || Some(written()?.duration_since(UNIX_EPOCH).ok()?.as_secs());
            let confirmed = stored.confirmed().or_else(written).unwrap_or(0);
            Ok(Some(KeptVersion { zone, confirmed, expired: false }))
        });
        if begun.elapsed() > LONG {
            info!("zone {name}: read from the state folder in {} ms", begun.elapsed().as_millis());
        }
        match loaded {
            Ok(kept) => kept,
            Err(fault) => {
                let aside = match self.folder.set_aside(name) {
                    Ok(path) => format!("it is now {}", path.display()),
                    Err(fault) => fault.to_string(),
                };
                warn!("zone {name}: what was kept of it cannot be used: {fault}; {aside}");
                None
            }
        }
    }
}

/// Writes the files.
pub struct SecondaryWriter {
    folder: ZoneFolder,
    orders: Receiver<(Apex, Keep, u64)>,
    going: Arc<Going>,
}

impl SecondaryWriter {
    /// Writes until nobody has anything to be kept any more: a thread's work.
    pub(super) fn work(self, counts: &SecondaryCounts) {
        let mut stores: HashMap<Apex, ZoneStore> = HashMap::new();
        while let Ok((apex, keep, at)) = self.orders.recv() {
            if let Keep::Flush(done) = keep {
                // Whoever waited may have gone.
                let _ = done.try_send(());
                continue;
            }
            let name = Name::from_wire(&apex).unwrap_or(Name::ROOT);
            let (begun, is_version) = (Instant::now(), matches!(keep, Keep::Version(..)));
            let goes = matches!(keep, Keep::Nothing);
            let kept = match stores.remove(&apex).map_or_else(|| self.open(name), Ok) {
                Ok(store) => kept(store, keep, at),
                Err(fault) => Err(fault),
            };
            match kept {
                Ok(store) => {
                    if stores.len() >= MOST_OPEN {
                        stores.clear();
                    }
                    stores.extend(store.map(|store| (apex.clone(), store)));
                    if is_version {
                        counts.stored.fetch_add(1, Relaxed);
                        debug!("zone {name}: kept in {} ms", begun.elapsed().as_millis());
                    }
                }
                Err(fault) => {
                    counts.unstored.fetch_add(1, Relaxed);
                    let about = ("secondary not kept", &*name.to_string());
                    log_repeated!(warn, WARN, about, "zone {name}: it is not kept on disk: {fault}");
                }
            }
            if goes {
                self.gone(&apex);
            }
        }
    }

    /// Nothing is kept of a zone any more.
    fn gone(&self, apex: &Apex) {
        let mut going = lock(&self.going);
        match going.get_mut(apex) {
            Some(more) if *more > 1 => *more -= 1,
            _ => drop(going.remove(apex)),
        }
    }

    /// A store whose file cannot be used is begun anew: what is to be kept is there as a whole.
    fn open(&self, name: Name<'_>) -> Result<ZoneStore, StoreFault> {
        let opened = self.folder.zone(name).or_else(|_| {
            self.folder.set_aside(name)?;
            self.folder.zone(name)
        });
        opened.map(|(store, _)| store)
    }
}

/// Keeps something. Returns the store, unless nothing is to be kept any more.
fn kept(mut store: ZoneStore, keep: Keep, at: u64) -> Result<Option<ZoneStore>, StoreFault> {
    match keep {
        Keep::Nothing => return store.remove().map(|()| None),
        Keep::Flush(_) => {}
        Keep::Read(from, reply) => {
            // Whoever waited may have gone.
            let _ = reply.try_send(store.history(from)?);
        }
        Keep::Confirmed => match store.confirmed(at) {
            Ok(()) | Err(StoreFault::NoBase) => {}
            Err(fault) => return Err(fault),
        },
        Keep::Version(zone, changes) => {
            let appended = changes.is_some_and(|changes| {
                let all = changes.iter().try_for_each(|change| store.append(change));
                all.and_then(|()| store.sync()).is_ok_and(|serial| serial == zone.serial())
            });
            if !appended {
                store.replace(&zone)?;
            } else if store.is_worth_compacting() {
                store.compact(&zone)?;
            }
            store.confirmed(at)?;
        }
    }
    Ok(Some(store))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use wire::{NameBuf, Ttl, Type};
    use zone::ZoneBuilder;

    use super::*;

    fn key() -> HashKey {
        HashKey::new([1, 2, 3])
    }

    fn apex() -> Apex {
        b"\x07example\0".as_slice().into()
    }

    fn zone(serial: u32) -> Arc<Zone> {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &key());
        let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
        builder.add(apex.as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("a record");
        Arc::new(builder.finish().expect("a zone"))
    }

    /// Has things kept by one run, and returns what the next one finds: serial and time of confirmation.
    fn next_run(folder: &TempDir, keeps: Vec<(Keep, u64)>) -> Option<(u32, u64)> {
        {
            let (store, writer) = SecondaryStore::open(folder.path()).expect("a folder");
            let thread = std::thread::spawn(move || writer.work(&SecondaryCounts::default()));
            keeps.into_iter().for_each(|(keep, at)| store.keep(apex(), keep, at));
            store.flush();
            drop(store);
            thread.join().expect("it ends");
        }
        let (store, _writer) = SecondaryStore::open(folder.path()).expect("a folder");
        store.load(&apex(), &key()).map(|kept| (kept.zone.serial().0, kept.confirmed))
    }

    fn step(from: u32, to: u32) -> Keep {
        let change = Arc::new(zone::store::diff(&zone(from), &zone(to)));
        Keep::Version(zone(to), Some(vec![change]))
    }

    #[test]
    fn the_next_run_has_what_was_taken_last() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(next_run(&folder, Vec::new()), None);
        // Differences of a zone that is not there are no use: it is kept as a whole.
        assert_eq!(next_run(&folder, vec![(step(4, 5), 100)]), Some((5, 100)));
        assert_eq!(next_run(&folder, vec![(step(5, 6), 200), (Keep::Confirmed, 300)]), Some((6, 300)));
        assert_eq!(next_run(&folder, vec![(Keep::Version(zone(3), None), 400)]), Some((3, 400)));
        assert_eq!(
            next_run(&folder, vec![(step(8, 9), 500)]),
            Some((9, 500)),
            "not the version that was kept"
        );
        assert_eq!(next_run(&folder, vec![(Keep::Nothing, 600)]), None);
    }

    #[test]
    fn a_file_that_is_damaged_costs_a_transfer_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        next_run(&folder, vec![(Keep::Version(zone(5), None), 100)]);
        let shards = std::fs::read_dir(folder.path().join(FOLDER)).expect("a folder");
        let files =
            shards.flat_map(|shard| std::fs::read_dir(shard.expect("a shard").path()).into_iter().flatten());
        let file = files.map(|file| file.expect("a file").path()).next().expect("the zone's file");
        let mut bytes = std::fs::read(&file).expect("read");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&file, bytes).expect("written");
        assert_eq!(next_run(&folder, Vec::new()), None);
        assert_eq!(next_run(&folder, vec![(step(5, 6), 200)]), Some((6, 200)));
    }
}
