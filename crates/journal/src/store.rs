//! [`ZoneStore`]: appends and acknowledges the changes of a zone.

use std::path::Path;
use std::sync::{Arc, Weak};

use wire::{Name, Serial, UnixTime};
use zone::Zone;
use zone::store::ChangeSet;

use crate::disk::{Disk, DiskFile};
use crate::fault::{StoreFault, failed};
use crate::frame::{FrameContent, FrameKind, FrameReader, HEAD, Step, seal, write_all};
use crate::header::{CONFIRMED_AT, Confirmed, Header};
use crate::history::History;
use crate::marks::Mark;
use crate::records::put_change;
use crate::shared::OpenZone;
use crate::stored::StoreContents;

/// Bytes of history that a compaction keeps, by default.
pub const DEFAULT_HISTORY: u64 = 16 << 20;
/// Zeros preallocated after the changes: at most one `ROOM_SHARE`th of the changes since the base, and at
/// most [`MOST_ROOM`] bytes.
const ROOM_SHARE: u64 = 4;
const MOST_ROOM: u64 = 1 << 20;
/// Bytes of changes below which a new base is not worth writing, however small the zone is.
const LEAST_WORTH: u64 = 64 << 10;

/// The store of one zone. It holds a base and the changes since.
///
/// [`append`](Self::append) adds a change; [`sync`](Self::sync) acknowledges all appended changes. An
/// acknowledged change is never lost, whether the process crashes or the power fails. After a crash, the
/// unacknowledged changes are present up to some change, in order.
///
/// The file grows with each change until a compaction: see
/// [`is_worth_compacting`](Self::is_worth_compacting).
pub struct ZoneStore {
    pub(crate) open: OpenZone,
    pub(crate) contents: Option<Contents>,
    /// The disk failed, and the content of the file is unknown.
    pub(crate) broken: bool,
    /// How often the store lost changes or was replaced, rather than appended to.
    pub(crate) turns: u64,
    pub(crate) replacing: Weak<()>,
    pub(crate) most_history: u64,
}

/// The content of a store's file.
pub(crate) struct Contents {
    pub(crate) header: Header,
    /// All changes, history first.
    pub(crate) steps: Vec<Step>,
    /// Offset of the next change, and the version after the last one.
    pub(crate) end: u64,
    pub(crate) serial: Serial,
    /// `steps`, `end` and `serial` as far as acknowledged.
    pub(crate) acknowledged: Acknowledged,
    /// Length of the file: zeros preallocated for further changes follow the last change.
    pub(crate) room: u64,
    /// The last bytes before `end`, not yet in the file.
    pub(crate) unwritten: Vec<u8>,
    /// There may be torn bytes after `end`, which have to be cut off before the next write.
    pub(crate) has_tail: bool,
    /// The file, open from the first written change until it is acknowledged, or while the file's name is
    /// uncertain.
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

/// Bytes of a zone on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Changes before the base, kept for IXFR.
    pub history: u64,
    /// The base.
    pub base: u64,
    /// Changes since the base.
    pub changes: u64,
}

impl Contents {
    pub(crate) fn of_stored(stored: &StoreContents) -> Contents {
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

    /// Reverts to the acknowledged state.
    pub(crate) fn go_back(&mut self) {
        self.steps.truncate(self.acknowledged.steps);
        (self.end, self.serial) = (self.acknowledged.end, self.acknowledged.serial);
        (self.file, self.unwritten) = (None, Vec::new());
    }

    /// Returns the file, opening it if necessary.
    pub(crate) fn file(&self, disk: &dyn Disk, path: &Path) -> Result<Arc<dyn DiskFile>, StoreFault> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => Ok(disk.open(path).map_err(failed("open", path))?.into()),
        }
    }

    /// Extends the next write with zeros if the file has to grow: overwriting existing bytes takes the disk a
    /// fraction of the time that a change of the file's length takes.
    fn make_room(&mut self) {
        if self.end <= self.room {
            return;
        }
        let more = (self.end - self.header.base_end) / ROOM_SHARE;
        let more = more.min(MOST_ROOM);
        self.unwritten.resize(self.unwritten.len() + more as usize, 0);
        self.room = self.end + more;
    }

    /// The mark of the acknowledged state.
    pub(crate) fn mark(&self) -> Mark {
        let Acknowledged { end, serial, .. } = self.acknowledged;
        Mark { nonce: self.header.nonce, end, serial }
    }

    fn acknowledged_steps(&self) -> &[Step] {
        self.steps.get(..self.acknowledged.steps).unwrap_or_default()
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

    /// The newest version, acknowledged or not; `None` if nothing is stored.
    pub fn serial(&self) -> Option<Serial> {
        self.contents.as_ref().map(|contents| contents.serial)
    }

    /// The newest acknowledged version; `None` if nothing is stored.
    pub fn acknowledged(&self) -> Option<Serial> {
        self.contents.as_ref().map(|contents| contents.acknowledged.serial)
    }

    /// Whether the store refuses changes after a disk failure, until the zone is replaced or compacted.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Sets the bytes of history that a compaction keeps; the default is [`DEFAULT_HISTORY`].
    pub fn keep_history(&mut self, bytes: u64) {
        self.most_history = bytes;
    }

    /// Appends a change. It is not acknowledged until [`sync`](Self::sync) has returned, which usually also
    /// writes it, together with others.
    ///
    /// # Errors
    /// The change is not stored. After [`StoreFault::NoBase`], [`StoreFault::OtherVersion`],
    /// [`StoreFault::NotLater`], [`StoreFault::NoSequence`] and [`StoreFault::TooLarge`], earlier appended
    /// changes are kept; after [`StoreFault::Io`] and [`StoreFault::Refused`], all unacknowledged changes are
    /// lost.
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
        let len = frame.len() as u64;
        let content = FrameContent { kind: FrameKind::Change, before: change.before, after: change.after };
        if seal(frame, content, acknowledged, nonce, at).is_none() {
            unwritten.truncate(start);
            return Err(StoreFault::TooLarge);
        }
        contents.steps.push(Step { before: change.before, at });
        contents.end += len;
        contents.serial = change.after;
        let most_unwritten = self.open.shared.disk.written_together();
        if contents.unwritten.len() > most_unwritten { self.write() } else { Ok(()) }
    }

    /// Writes the appended changes that are not in the file yet.
    ///
    /// # Errors
    /// [`StoreFault::Io`]: all unacknowledged changes are lost.
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

    /// Reverts to the acknowledged state. Rejected changes must not reappear after a crash; if that cannot be
    /// ensured, the store is broken.
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

    /// Acknowledges all appended changes: returns the newest version once it is on the disk. One call can
    /// acknowledge many changes.
    ///
    /// # Errors
    /// [`StoreFault::Io`]: all unacknowledged changes are lost, and the store is at the version that
    /// [`acknowledged`](Self::acknowledged) returns. Further changes can be appended to that version, unless
    /// the store now [is broken](Self::is_broken). [`StoreFault::Refused`] if it was broken before, and
    /// [`StoreFault::NoBase`].
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
                // A later success would not mean that these bytes are on the disk, so they are discarded.
                self.lose();
                return Err(fault);
            }
        }
        contents.file = None;
        // Frees the memory of a large change.
        contents.unwritten = Vec::new();
        let (steps, end, serial) = (contents.steps.len(), contents.end, contents.serial);
        contents.acknowledged = Acknowledged { steps, end, serial };
        let mark = contents.mark();
        self.open.shared.mark(self.open.apex(), mark);
        Ok(serial)
    }

    /// Records that a primary has confirmed the newest acknowledged version.
    /// Not synced: after a crash the previous time, or none, may be recorded.
    ///
    /// # Errors
    /// [`StoreFault::NoBase`] and [`StoreFault::Io`]; neither affects the stored zone.
    pub fn confirmed(&mut self, at: UnixTime) -> Result<(), StoreFault> {
        let path = self.open.paths().store;
        let contents = self.contents.as_mut().ok_or(StoreFault::NoBase)?;
        let confirmed = Confirmed { at, serial: contents.acknowledged.serial };
        let file = contents.file(&*self.open.shared.disk, &path)?;
        write_all(&*file, &path, &confirmed.to_bytes(contents.header.nonce), CONFIRMED_AT as u64)?;
        contents.confirmed = Some(confirmed);
        Ok(())
    }

    /// The changes from version `from` to the newest acknowledged one, in order; `None` if the store's
    /// history does not include `from`.
    ///
    /// # Errors
    /// [`StoreFault::Io`] if the file cannot be opened.
    pub fn history(&self, from: Serial) -> Result<Option<History>, StoreFault> {
        let Some(contents) = &self.contents else { return Ok(None) };
        let Acknowledged { end, serial, .. } = contents.acknowledged;
        let start = match contents.acknowledged_steps().iter().rfind(|step| step.before == from) {
            Some(step) => step.at,
            None if from == serial => end,
            None => return Ok(None),
        };
        self.history_of(contents, start, from).map(Some)
    }

    /// The newest acknowledged changes, at most `most`, in order; `None` if nothing is stored.
    ///
    /// # Errors
    /// As for [`history`](Self::history).
    pub fn last_changes(&self, most: usize) -> Result<Option<History>, StoreFault> {
        let Some(contents) = &self.contents else { return Ok(None) };
        let Acknowledged { end, serial, .. } = contents.acknowledged;
        let steps = contents.acknowledged_steps();
        let first = steps.get(steps.len().saturating_sub(most));
        let (start, from) = first.map_or((end, serial), |step| (step.at, step.before));
        self.history_of(contents, start, from).map(Some)
    }

    /// The acknowledged changes from an offset on, where version `from` is.
    fn history_of(&self, contents: &Contents, start: u64, from: Serial) -> Result<History, StoreFault> {
        let (header, end, path) = (contents.header, contents.acknowledged.end, self.open.paths().store);
        let file = contents.file(&*self.open.shared.disk, &path)?;
        let reader = FrameReader::new(&file, &path.into(), header.nonce);
        Ok(History::new(reader, start..end, header.base_range(), from))
    }

    /// Bytes of the store on the disk, without the 512 bytes of its header and the preallocated zeros, which
    /// are at most a quarter of the changes and at most 1 MiB.
    pub fn size(&self) -> StoreSize {
        let Some(Contents { header, end, .. }) = &self.contents else { return StoreSize::default() };
        StoreSize {
            history: header.base_at - crate::header::HEADER,
            base: header.base_end - header.base_at,
            changes: end.saturating_sub(header.base_end),
        }
    }

    /// Whether a new base is worth writing: the changes exceed both the base and a quarter of the history
    /// limit, so that a small zone that changes constantly is not rewritten again and again. If the store is
    /// then compacted, the file holds at most the history, plus twice the base (or the base and a quarter of
    /// the history limit, if that is more), plus the changes made during the compaction. A store without a
    /// zone holds at most twice the history limit.
    pub fn is_worth_compacting(&self) -> bool {
        let size = self.size();
        let worth = if self.has_zone() { size.base.max(self.most_history / 4) } else { self.most_history };
        size.changes > worth.max(LEAST_WORTH)
    }

    /// Whether the records of a zone are stored, and not only its changes.
    pub fn has_zone(&self) -> bool {
        self.contents.as_ref().is_some_and(|contents| contents.header.records > 0)
    }

    /// Replaces what is stored with a zone and all its records, without history. The zone is acknowledged
    /// when this returns. Equals [`begin_replacement`](Self::begin_replacement),
    /// [`Replacement::write`](crate::Replacement::write) and [`finish`](Self::finish).
    ///
    /// # Errors
    /// As for these.
    pub fn replace(&mut self, zone: &Zone) -> Result<(), StoreFault> {
        let mut replacement = self.begin_replacement()?;
        replacement.write(zone)?;
        self.finish(replacement)
    }

    /// Makes `zone`, which is the newest version in the store, the base, and keeps some of the history.
    /// Acknowledges all appended changes. Equals [`begin_compaction`](Self::begin_compaction),
    /// [`Replacement::write`](crate::Replacement::write) and [`finish`](Self::finish).
    ///
    /// # Errors
    /// As for these.
    pub fn compact(&mut self, zone: &Zone) -> Result<(), StoreFault> {
        let mut replacement = self.begin_compaction()?;
        replacement.write(zone)?;
        self.finish(replacement)
    }

    /// Replaces what is stored with the zone's version alone. Changes from that version on can then be
    /// [appended](Self::append) and are its [history](Self::history), for a zone whose records are stored
    /// elsewhere.
    ///
    /// # Errors
    /// As for [`replace`](Self::replace).
    pub fn replace_without_zone(&mut self, version: Serial) -> Result<(), StoreFault> {
        let mut replacement = self.begin_replacement()?;
        replacement.write_without_zone(version)?;
        self.finish(replacement)
    }

    /// Keeps some of the history of a store without a zone and removes older changes. Acknowledges all
    /// appended changes.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact).
    pub fn compact_without_zone(&mut self) -> Result<(), StoreFault> {
        let version = self.serial().ok_or(StoreFault::NoBase)?;
        let mut replacement = self.begin_compaction()?;
        replacement.write_without_zone(version)?;
        self.finish(replacement)
    }

    /// Removes the stored zone and its mark.
    ///
    /// # Errors
    /// [`StoreFault::Io`]: the zone may then reappear.
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
