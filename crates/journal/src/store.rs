//! [`ZoneStore`]: keeps what changes in a zone.

use std::path::Path;
use std::sync::{Arc, Weak};

use wire::{Name, Serial};
use zone::Zone;
use zone::store::ChangeSet;

use crate::disk::{Disk, DiskFile};
use crate::fault::{StoreFault, failed};
use crate::frame::{FrameKind, FrameReader, HEAD, Step, seal, write_all};
use crate::header::{CONFIRMED_AT, Confirmed, Header};
use crate::history::History;
use crate::marks::Mark;
use crate::records::put_change;
use crate::shared::OpenZone;
use crate::stored::Stored;

/// Bytes of history that a compaction keeps, by default.
pub const DEFAULT_HISTORY: u64 = 16 << 20;
/// The zeros behind the changes: at most this part of those since the base, and so many bytes.
const ROOM_SHARE: u64 = 4;
const MOST_ROOM: u64 = 1 << 20;
/// Up to so many bytes of changes a new base does not pay, however small the zone is.
const LEAST_WORTH: u64 = 64 << 10;

/// The store of one zone. It holds a base and the changes since.
///
/// [`append`](Self::append) writes a change, [`sync`](Self::sync) acknowledges all that were written: of what
/// it has acknowledged nothing is lost, whatever happens to the process or the power. What was appended and
/// not acknowledged may be there after a crash, or not: in order, and up to some change.
///
/// A change takes its bytes in the file, which grows until a compaction: see
/// [`is_worth_compacting`](Self::is_worth_compacting).
pub struct ZoneStore {
    pub(crate) open: OpenZone,
    pub(crate) contents: Option<Contents>,
    /// The disk failed, so that its content is unknown.
    pub(crate) broken: bool,
    /// How often the store went another way than on.
    pub(crate) turns: u64,
    pub(crate) replacing: Weak<()>,
    pub(crate) most_history: u64,
}

/// What a file holds.
pub(crate) struct Contents {
    pub(crate) header: Header,
    /// All changes, those of the history first.
    pub(crate) steps: Vec<Step>,
    /// Where the next one goes, and the version that the last one makes.
    pub(crate) end: u64,
    pub(crate) serial: Serial,
    /// The last three, as far as acknowledged.
    pub(crate) acknowledged: Acknowledged,
    /// How long the file is: what is behind the changes is zeros, for the next ones.
    pub(crate) room: u64,
    /// The last bytes in front of `end`, which are not in the file yet.
    pub(crate) unwritten: Vec<u8>,
    /// There may be bytes behind those that were written, to be cut off first.
    pub(crate) has_tail: bool,
    /// The file, open from the first change that is written until it is acknowledged, or while it has no
    /// other name.
    pub(crate) file: Option<Arc<dyn DiskFile>>,
    pub(crate) confirmed: Option<Confirmed>,
}

/// How far a file is acknowledged.
#[derive(Clone, Copy)]
pub(crate) struct Acknowledged {
    pub(crate) steps: usize,
    pub(crate) end: u64,
    pub(crate) serial: Serial,
}

/// Bytes that a zone takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Changes in front of the base, kept for IXFR.
    pub history: u64,
    /// The base.
    pub base: u64,
    /// Changes since the base.
    pub changes: u64,
}

impl Contents {
    pub(crate) fn of_stored(stored: &Stored) -> Contents {
        let (end, serial, room) = (stored.end, stored.serial, stored.room);
        Contents {
            header: stored.header,
            steps: stored.steps.clone(),
            end,
            serial,
            acknowledged: Acknowledged { steps: stored.steps.len(), end, serial },
            room,
            unwritten: Vec::new(),
            has_tail: stored.torn.is_some(),
            file: None,
            confirmed: stored.confirmed,
        }
    }

    /// Goes back to what was acknowledged.
    pub(crate) fn go_back(&mut self) {
        self.steps.truncate(self.acknowledged.steps);
        (self.end, self.serial) = (self.acknowledged.end, self.acknowledged.serial);
        (self.file, self.unwritten) = (None, Vec::new());
    }

    /// The file.
    pub(crate) fn file(&self, disk: &dyn Disk, path: &Path) -> Result<Arc<dyn DiskFile>, StoreFault> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => Ok(disk.open(path).map_err(failed("open", path))?.into()),
        }
    }

    /// Writes more than the changes where the file has to grow for them: a disk that only has to write bytes
    /// does so in a fraction of the time that it takes for the length as well.
    fn make_room(&mut self) {
        if self.end <= self.room {
            return;
        }
        let more = (self.end - self.header.base_end) / ROOM_SHARE;
        let more = more.min(MOST_ROOM);
        self.unwritten.resize(self.unwritten.len() + more as usize, 0);
        self.room = self.end + more;
    }

    /// How far the file is acknowledged.
    pub(crate) fn mark(&self) -> Mark {
        let Acknowledged { end, serial, .. } = self.acknowledged;
        Mark { nonce: self.header.nonce, end, serial }
    }

    fn has_pending(&self) -> bool {
        self.end != self.acknowledged.end
    }
}

impl ZoneStore {
    pub(crate) fn new(open: OpenZone, contents: Option<Contents>) -> ZoneStore {
        let (broken, turns, replacing) = (false, 0, Weak::new());
        ZoneStore { open, contents, broken, turns, replacing, most_history: DEFAULT_HISTORY }
    }

    /// The name of the zone.
    pub fn apex(&self) -> Name<'_> {
        self.open.apex().as_name()
    }

    /// The newest version, be it acknowledged or not; `None` if nothing is stored.
    pub fn serial(&self) -> Option<Serial> {
        self.contents.as_ref().map(|contents| contents.serial)
    }

    /// The newest version that was acknowledged; `None` if nothing is stored.
    pub fn acknowledged(&self) -> Option<Serial> {
        self.contents.as_ref().map(|contents| contents.acknowledged.serial)
    }

    /// Whether the disk has failed in such a way that nothing is taken until the zone is replaced or
    /// compacted.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Keeps so many bytes of history through a compaction, in place of [`DEFAULT_HISTORY`].
    pub fn keep_history(&mut self, bytes: u64) {
        self.most_history = bytes;
    }

    /// Puts a change behind those that are stored. It is not acknowledged before [`sync`](Self::sync) has
    /// returned, and mostly written by that as well, together with others.
    ///
    /// # Errors
    /// The change is not stored then. What was appended before is as it was after [`StoreFault::NoBase`],
    /// [`StoreFault::OtherVersion`], [`StoreFault::NotLater`], [`StoreFault::NoSequence`] and
    /// [`StoreFault::TooLarge`]; all of it that was not acknowledged is lost after [`StoreFault::Io`] and
    /// [`StoreFault::Refused`].
    pub fn append(&mut self, change: &ChangeSet) -> Result<(), StoreFault> {
        let contents = self.contents.as_mut().ok_or(StoreFault::NoBase)?;
        if self.broken {
            return Err(StoreFault::Refused);
        }
        if change.before != contents.serial {
            return Err(StoreFault::OtherVersion { stored: contents.serial, found: change.before });
        }
        if change.before.compare(change.after) != Some(std::cmp::Ordering::Less) {
            return Err(StoreFault::NotLater);
        }
        if !change.is_difference_sequence() {
            return Err(StoreFault::NoSequence);
        }
        let (at, acknowledged) = (contents.end, contents.acknowledged.end);
        let (nonce, unwritten) = (contents.header.nonce, &mut contents.unwritten);
        let start = unwritten.len();
        unwritten.resize(start + HEAD, 0);
        put_change(unwritten, change);
        let frame = &mut unwritten[start..];
        let (len, serials) = (frame.len() as u64, (change.before, change.after));
        if seal(frame, FrameKind::Change, serials, acknowledged, nonce, at).is_none() {
            unwritten.truncate(start);
            return Err(StoreFault::TooLarge);
        }
        contents.steps.push(Step { before: change.before, at });
        contents.end += len;
        contents.serial = change.after;
        let most_unwritten = self.open.shared.disk.written_together();
        if contents.unwritten.len() > most_unwritten { self.write() } else { Ok(()) }
    }

    /// Writes what was appended and is not in the file yet.
    ///
    /// # Errors
    /// [`StoreFault::Io`]: then all that was not acknowledged is lost.
    pub(crate) fn write(&mut self) -> Result<(), StoreFault> {
        let path = self.open.paths().store;
        let disk = Arc::clone(&self.open.shared.disk);
        let Some(contents) = self.contents.as_mut().filter(|contents| !contents.unwritten.is_empty()) else {
            return Ok(());
        };
        let written = contents.file(&*disk, &path).and_then(|file| {
            contents.file = Some(Arc::clone(&file));
            let at = contents.end - contents.unwritten.len() as u64;
            if contents.has_tail {
                let cut = file.set_len(at).and_then(|()| file.sync_data());
                cut.map_err(failed("cut", &path))?;
                (contents.has_tail, contents.room) = (false, at);
            }
            contents.make_room();
            write_all(&*file, &path, &contents.unwritten, at)
        });
        match written {
            Ok(()) => contents.unwritten.clear(),
            Err(_) => self.lose(),
        }
        written
    }

    /// Goes back to what was acknowledged. What was refused must not be there after a crash; if that cannot
    /// be ensured, the store is broken.
    fn lose(&mut self) {
        let Some(contents) = &mut self.contents else { return };
        let file = contents.file.take();
        contents.go_back();
        if let Some(file) = file {
            self.broken = file.set_len(contents.end).and_then(|()| file.sync_data()).is_err();
            contents.room = contents.end;
        }
        self.turns += 1;
    }

    /// Acknowledges all that was appended: returns once it is on the disk, and the version that is the newest
    /// then. Many changes can share one call.
    ///
    /// # Errors
    /// [`StoreFault::Io`]: all that was not acknowledged is lost, and the store is at the version that
    /// [`acknowledged`](Self::acknowledged) returns. Changes can be appended to that, unless the store [is
    /// broken](Self::is_broken) now. [`StoreFault::Refused`] if it was before, and [`StoreFault::NoBase`].
    pub fn sync(&mut self) -> Result<Serial, StoreFault> {
        if self.contents.is_some() && self.broken {
            return Err(StoreFault::Refused);
        }
        self.write()?;
        let path = self.open.paths().store;
        let contents = self.contents.as_mut().ok_or(StoreFault::NoBase)?;
        if contents.has_pending() {
            let synced = contents.file(&*self.open.shared.disk, &path);
            let synced = synced.and_then(|file| file.sync_data().map_err(failed("sync", &path)));
            if let Err(fault) = synced {
                // A later success would not mean that these bytes are on the disk: they have to go.
                self.lose();
                return Err(fault);
            }
        }
        contents.file = None;
        // Of a large change the memory goes.
        contents.unwritten = Vec::new();
        let (steps, end, serial) = (contents.steps.len(), contents.end, contents.serial);
        contents.acknowledged = Acknowledged { steps, end, serial };
        let mark = contents.mark();
        self.open.shared.mark(self.open.apex(), mark);
        Ok(serial)
    }

    /// Notes that a primary has confirmed the newest acknowledged version, at a time in seconds since 1970.
    /// That is not synced: after a crash it may be the time before, or not known.
    ///
    /// # Errors
    /// [`StoreFault::NoBase`] and [`StoreFault::Io`]; neither harms what is stored.
    pub fn confirmed(&mut self, at: u64) -> Result<(), StoreFault> {
        let path = self.open.paths().store;
        let contents = self.contents.as_mut().ok_or(StoreFault::NoBase)?;
        let confirmed = Confirmed { at, serial: contents.acknowledged.serial };
        let file = contents.file(&*self.open.shared.disk, &path)?;
        write_all(&*file, &path, &confirmed.to_bytes(contents.header.nonce), CONFIRMED_AT as u64)?;
        contents.confirmed = Some(confirmed);
        Ok(())
    }

    /// The changes that lead from the version `from` to the newest acknowledged one, in order; `None` if the
    /// store does not reach back to it.
    ///
    /// # Errors
    /// [`StoreFault::Io`] if the file cannot be opened.
    pub fn history(&self, from: Serial) -> Result<Option<History>, StoreFault> {
        let Some(contents) = &self.contents else { return Ok(None) };
        let Acknowledged { steps, end, serial } = contents.acknowledged;
        let header = contents.header;
        let known = contents.steps.get(..steps).unwrap_or_default();
        let start = match known.iter().rfind(|step| step.before == from) {
            Some(step) => step.at,
            None if from == serial => end,
            None => return Ok(None),
        };
        let path = self.open.paths().store;
        let file = contents.file(&*self.open.shared.disk, &path)?;
        let reader = FrameReader::new(&file, &path.into(), header.nonce);
        Ok(Some(History::new(reader, start..end, header.base_range(), from)))
    }

    /// The bytes that the store takes on the disk, 512 for its header and what it keeps free for more changes
    /// aside: a quarter of the changes at most, and 1 MiB.
    pub fn size(&self) -> StoreSize {
        let Some(Contents { header, end, .. }) = &self.contents else { return StoreSize::default() };
        StoreSize {
            history: header.base_at - crate::header::HEADER,
            base: header.base_end - header.base_at,
            changes: end.saturating_sub(header.base_end),
        }
    }

    /// Whether a new base pays: there are more bytes of changes than of the base, and than a quarter of the
    /// history, so that a small zone that changes all the time is not written again and again. If it is made
    /// then, the file has at most twice the bytes of a base or those of the base and a quarter of the
    /// history, and those of the history, and what comes while it is made. A store without a zone has at most
    /// twice the bytes of the history.
    pub fn is_worth_compacting(&self) -> bool {
        let size = self.size();
        let worth = if self.has_zone() { size.base.max(self.most_history / 4) } else { self.most_history };
        size.changes > worth.max(LEAST_WORTH)
    }

    /// Whether the records of a zone are stored, and not only what changes.
    pub fn has_zone(&self) -> bool {
        self.contents.as_ref().is_some_and(|contents| contents.header.records > 0)
    }

    /// Stores a zone in place of what is stored, with all its records; there is no history then. Acknowledged
    /// when this returns. The same as [`begin_replacement`](Self::begin_replacement),
    /// [`Replacement::write`](crate::Replacement::write) and [`finish`](Self::finish).
    ///
    /// # Errors
    /// As for these.
    pub fn replace(&mut self, zone: &Zone) -> Result<(), StoreFault> {
        let mut replacement = self.begin_replacement()?;
        replacement.write(zone)?;
        self.finish(replacement)
    }

    /// Makes `zone`, which is the newest version in the store, its base, and keeps some of the history.
    /// Acknowledges all that was appended. The same as [`begin_compaction`](Self::begin_compaction),
    /// [`Replacement::write`](crate::Replacement::write) and [`finish`](Self::finish).
    ///
    /// # Errors
    /// As for these.
    pub fn compact(&mut self, zone: &Zone) -> Result<(), StoreFault> {
        let mut replacement = self.begin_compaction()?;
        replacement.write(zone)?;
        self.finish(replacement)
    }

    /// Stores, in place of what is stored, no more than that a zone has this version. What changes from it on
    /// can be [appended](Self::append) then and is [history](Self::history), for a zone whose records are
    /// elsewhere.
    ///
    /// # Errors
    /// As for [`replace`](Self::replace).
    pub fn replace_without_zone(&mut self, version: Serial) -> Result<(), StoreFault> {
        let mut replacement = self.begin_replacement()?;
        replacement.write_without_zone(version)?;
        self.finish(replacement)
    }

    /// Keeps some of the history of a store without a zone, and lets go of what is older. Acknowledges all
    /// that was appended.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact).
    pub fn compact_without_zone(&mut self) -> Result<(), StoreFault> {
        let version = self.serial().ok_or(StoreFault::NoBase)?;
        let mut replacement = self.begin_compaction()?;
        replacement.write_without_zone(version)?;
        self.finish(replacement)
    }

    /// Removes what is stored of the zone.
    ///
    /// # Errors
    /// [`StoreFault::Io`]: then it may come back.
    pub fn remove(self) -> Result<(), StoreFault> {
        let (paths, disk) = (self.open.paths(), &self.open.shared.disk);
        if self.contents.is_some() {
            disk.remove(&paths.store).map_err(failed("remove", &paths.store))?;
            disk.sync_folder(&paths.shard).map_err(failed("sync the folder", &paths.shard))?;
        }
        self.open.shared.marks().map_or(Ok(()), |marks| marks.clear(self.open.apex()))
    }
}

impl std::fmt::Debug for ZoneStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ZoneStore({}, {:?})", self.apex(), self.serial())
    }
}
