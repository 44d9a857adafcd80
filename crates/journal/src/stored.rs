//! [`StoreContents`]: what a store held when it was opened, and how to build the zone from it.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use wire::hash::HashKey;
use wire::{LowerNameBuf, Serial, UnixTime};
use zone::{Zone, ZoneBuilder};

use crate::disk::DiskFile;
use crate::fault::{StoreFault, damaged, failed};
use crate::frame::{FrameKind, FrameReader, HEAD, Step, next};
use crate::header::{Confirmed, HEADER, Header, StoreHead};
use crate::history::History;
use crate::marks::Mark;
use crate::records::RecordReader;

/// What a store held when it was opened. It can be read at any time, also while the store takes changes.
pub struct StoreContents {
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    apex: LowerNameBuf,
    pub(crate) header: Header,
    pub(crate) confirmed: Option<Confirmed>,
    /// All changes, history first.
    pub(crate) steps: Vec<Step>,
    /// Offset at which the last change ends, or the base if there is none.
    pub(crate) end: u64,
    pub(crate) serial: Serial,
    /// Length of the file if only zeros follow `end`; otherwise `end`.
    pub(crate) room: u64,
    pub(crate) torn: Option<TornTail>,
    history_fault: Option<StoreFault>,
    /// Whether both copies of the mark are torn.
    pub(crate) mark_torn: bool,
}

/// Bytes that a crash left at the end of a file. They were never acknowledged and are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Offset of the first of them.
    pub offset: u64,
    /// Their number.
    pub bytes: u64,
}

impl StoreContents {
    /// Finds the changes in a file with this head. At least the changes that the mark covers must be there.
    pub(crate) fn find(
        file: Arc<dyn DiskFile>,
        path: Arc<Path>,
        StoreHead { header, apex, confirmed, len }: StoreHead,
        mark: Option<Mark>,
    ) -> Result<StoreContents, StoreFault> {
        if header.sealed > len {
            return Err(damaged(&path, len, "the file has been cut short"));
        }
        let own_mark = mark.filter(|mark| mark.nonce == header.nonce);
        let sealed = header.sealed.max(own_mark.map_or(0, |mark| mark.end));
        let mut reader = FrameReader::new(&file, &path, header.nonce);
        let history = reader.walk(HEADER..header.base_at, header.sealed, header.first);
        let (mut steps, history_fault) = match history {
            Ok(walk) if walk.serial == header.base => (walk.steps, None),
            Ok(walk) => (Vec::new(), Some(damaged(&path, walk.end, "the history does not lead to the base"))),
            Err(fault @ StoreFault::Damaged { .. }) => (Vec::new(), Some(fault)),
            Err(fault) => return Err(fault),
        };
        let walk = reader.walk(header.base_end..len, sealed, header.base)?;
        if let Some(Mark { nonce, end, serial }) = mark {
            let is_older = match own_mark {
                Some(_) => walk.end < end,
                // The file that replaced the marked one holds at least as much.
                None if nonce == header.previous => false,
                None => !matches!(serial.compare(walk.serial), Some(Ordering::Less | Ordering::Equal)),
            };
            if is_older {
                return Err(StoreFault::Older {
                    path: path.to_path_buf(),
                    found: walk.serial,
                    acknowledged: serial,
                });
            }
        }
        steps.extend(walk.steps);
        if walk.end > header.sealed {
            // The previous process may have ended before the last changes were on the disk, or after a failed
            // sync, which a later sync does not repair: write them again.
            reader.write_again(walk.acknowledged.max(header.sealed)..walk.end)?;
            file.sync_data().map_err(failed("sync", &path))?;
        }
        let is_torn = !reader.is_zeros(walk.end..len)?;
        let room = if is_torn { walk.end } else { len };
        let torn = is_torn.then_some(TornTail { offset: walk.end, bytes: len - walk.end });
        let confirmed = confirmed.filter(|confirmed| confirmed.serial == walk.serial);
        let (end, serial) = (walk.end, walk.serial);
        let mark_torn = false;
        Ok(StoreContents {
            file,
            path,
            apex,
            header,
            confirmed,
            steps,
            end,
            serial,
            room,
            torn,
            history_fault,
            mark_torn,
        })
    }

    /// Finds the changes in a file with this head up to the first incomplete one, regardless of the mark.
    pub(crate) fn salvage(
        file: Arc<dyn DiskFile>,
        path: Arc<Path>,
        StoreHead { header, apex, confirmed, len }: StoreHead,
    ) -> Result<StoreContents, StoreFault> {
        if header.base_end > len {
            return Err(damaged(&path, len, "the file ends within the zone's records"));
        }
        let mut reader = FrameReader::new(&file, &path, header.nonce);
        let walk = reader.walk_whole(header.base_end..len, header.base)?;
        let torn = (walk.end < len).then_some(TornTail { offset: walk.end, bytes: len - walk.end });
        Ok(StoreContents {
            file,
            path,
            apex,
            header,
            confirmed,
            steps: walk.steps,
            end: walk.end,
            serial: walk.serial,
            room: walk.end,
            torn,
            history_fault: None,
            mark_torn: false,
        })
    }

    /// Whether neither copy of the zone's mark can be read, as after a crash of the system. Changes missing
    /// at the end of the file cannot be detected then.
    pub fn is_mark_torn(&self) -> bool {
        self.mark_torn
    }

    /// The mark that matches the content of the file.
    pub(crate) fn mark(&self) -> Mark {
        Mark { nonce: self.header.nonce, end: self.end, serial: self.serial }
    }

    /// The newest version.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// When a primary last confirmed the newest version; `None` if unknown.
    pub fn confirmed(&self) -> Option<UnixTime> {
        self.confirmed.map(|confirmed| confirmed.at)
    }

    /// The torn bytes at the end of the file, if any.
    pub fn torn_tail(&self) -> Option<TornTail> {
        self.torn
    }

    /// What is wrong with the history before the base, if anything. The history is not used then; the zone
    /// is.
    pub fn history_fault(&self) -> Option<&StoreFault> {
        self.history_fault.as_ref()
    }

    /// Adds the records of the base to a builder. Holds a few hundred KiB of them in memory at a time.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] and [`StoreFault::Io`]. The builder then has some of the records and must be
    /// discarded.
    pub fn read_base(&self, builder: &mut ZoneBuilder) -> Result<(), StoreFault> {
        let mut reader = FrameReader::new(&self.file, &self.path, self.header.nonce);
        let (mut at, mut count, mut frame) = (self.header.base_at, 0, Vec::new());
        let bad = |at, what| Err(damaged(&self.path, at, what));
        while at < self.header.base_end {
            let head = reader.frame(at, self.header.base_end, &mut frame)?;
            let Some(head) = head.filter(|head| head.kind == FrameKind::Base) else {
                return bad(at, "records of the base are not whole");
            };
            let mut records = RecordReader::new(&frame[HEAD..]);
            while !records.is_over() {
                let added = records.next().map(|r| builder.add(r.owner, r.rtype, r.ttl, r.rdata));
                if !matches!(added, Ok(Ok(()))) {
                    return bad(at, "a record of the base is malformed");
                }
                count += 1;
            }
            at = next(at, &head).unwrap_or(self.header.base_end);
        }
        match count == self.header.records {
            true => Ok(()),
            false => bad(at, "the base has another number of records than it should have"),
        }
    }

    /// The changes since the base, in order. Holds one of them in memory at a time.
    pub fn changes(&self) -> History {
        let reader = FrameReader::new(&self.file, &self.path, self.header.nonce);
        History::new(reader, self.header.base_end..self.end, self.header.base_range(), self.header.base)
    }

    /// Builds the newest version of the zone from the base and the changes. `key` is the zone's hash key for
    /// lookups by name.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] and [`StoreFault::Io`]; [`StoreFault::NoZone`], [`StoreFault::BadZone`] and
    /// [`StoreFault::BadChange`] for a forged file, not for one that a crash left.
    pub fn load(&self, key: &HashKey) -> Result<Zone, StoreFault> {
        let mut zone = self.load_base(key)?;
        for change in self.changes() {
            zone = zone
                .apply(&change?)
                .map_err(|error| StoreFault::BadChange { path: self.path.to_path_buf(), error })?;
        }
        match zone.is_worth_folding() {
            true => zone.folded().map_err(|error| StoreFault::NoZone(self.path.to_path_buf(), error)),
            false => Ok(zone),
        }
    }

    fn load_base(&self, key: &HashKey) -> Result<Zone, StoreFault> {
        let mut builder = ZoneBuilder::new(self.apex.as_name(), key);
        self.read_base(&mut builder)?;
        let zone = builder.finish().map_err(|error| StoreFault::NoZone(self.path.to_path_buf(), error))?;
        if let Some(note) = builder.first_error() {
            return Err(StoreFault::BadZone(self.path.to_path_buf(), Box::new(note.clone())));
        }
        let same = (zone.record_count(), zone.serial()) == (self.header.records, self.header.base);
        match same {
            true => Ok(zone),
            false => Err(damaged(&self.path, self.header.base_at, "the records make another zone")),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl std::fmt::Debug for StoreContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreContents({}, serial {})", self.path.display(), self.serial)
    }
}
