//! [`Marks`]: how far each zone was acknowledged, in a file beside the stores.
//!
//! A store alone cannot show that its end is missing: a file cut between two changes, an older copy and a
//! missing file look like a zone with fewer changes. So each acknowledgment is also recorded here.
//! docs/JOURNAL.md describes the bytes.
//!
//! A mark is written once the changes that it covers are synced, and is itself synced later by
//! [`Marks::sync`]: after a crash of the system it may be an older mark, but never one of changes that are
//! not on the disk. Of its two copies the older one is overwritten.
//!
//! Before a zone gets a file that declares a mark, the zone's slot is on the disk: see [`Marks::reserve`]. So
//! a crash never leaves such a file without a slot; if there is none, the slot was lost.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::{LowerName, LowerNameBuf, Name, Serial};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::disk::{Disk, DiskFile};
use crate::fault::{StoreFault, failed};
use crate::frame::{read_all, write_all};

const MAGIC: [u8; 8] = *b"nomenmrk";
const VERSION: u32 = 1;
/// Bytes of a slot, which has the marks of one zone: the unit that a disk writes as a whole.
const SLOT: usize = 512;
/// Slots read at once.
const READ_TOGETHER: usize = 256;
/// Offset of the zone's name, after its length.
const APEX_AT: usize = 17;
/// Offset of the checksum of all bytes before it.
const SUM_AT: usize = 280;
/// Offsets of the two copies of the mark, and the length of one.
const COPIES_AT: [usize; 2] = [320, 384];
const COPY: usize = 40;

/// How far a zone was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The nonce of the store's file.
    pub(crate) nonce: u64,
    /// Synced bytes of that file.
    pub(crate) end: u64,
    /// The version at `end`.
    pub(crate) serial: Serial,
}

/// The content of a zone's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// There is no slot.
    Nothing,
    /// A slot without a mark: the zone's first file was being written, and nothing had been acknowledged.
    Reserved,
    /// Both copies of the mark are torn.
    Torn,
    /// How far the zone was acknowledged.
    Mark(Mark),
}

impl Noted {
    /// The mark, if it is readable.
    pub(crate) fn mark(self) -> Option<Mark> {
        match self {
            Noted::Mark(mark) => Some(mark),
            Noted::Nothing | Noted::Reserved | Noted::Torn => None,
        }
    }
}

/// A zone's slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    /// How often the mark was written; the copy with the higher count is the newer.
    turn: u64,
    noted: Noted,
}

/// The marks of all zones of a folder.
pub(crate) struct Marks {
    path: PathBuf,
    table: Mutex<Table>,
}

struct Table {
    file: Arc<dyn DiskFile>,
    zones: HashMap<Box<[u8]>, Slot>,
    /// Numbers of the unused slots of the file.
    free: Vec<u64>,
    /// Number of slots in the file.
    slots: u64,
    /// Some writes are not synced.
    dirty: bool,
    /// Number of slots that could not be read.
    damaged: u64,
    /// Why the last mark could not be written.
    fault: Option<StoreFault>,
}

impl Mark {
    fn to_bytes(self, turn: u64, number: u64) -> [u8; COPY] {
        let mut bytes = [0; COPY];
        bytes[..8].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.serial.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&turn.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..32], number);
        bytes[32..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses a copy and its turn; `None` if its checksum is wrong.
    fn of_bytes(bytes: &[u8], number: u64) -> Option<(u64, Mark)> {
        let field = |at: usize| bytes.get(at..)?.first_chunk().map(|field| u64::from_le_bytes(*field));
        let serial = u32::from_le_bytes(*bytes.get(16..)?.first_chunk()?);
        let is_whole = field(32)? == xxh3_64_with_seed(bytes.get(..32)?, number);
        let (nonce, end) = (field(0)?, field(8)?);
        is_whole.then_some((field(24)?, Mark { nonce, end, serial: Serial(serial) }))
    }
}

/// What a slot of the file holds.
enum SlotContents {
    Nothing,
    Zone(Box<[u8]>, Slot),
    Damaged,
}

impl SlotContents {
    fn of(bytes: &[u8; SLOT], number: u64) -> SlotContents {
        if bytes.iter().all(|&byte| byte == 0) {
            return SlotContents::Nothing;
        }
        let sum = bytes[SUM_AT..].first_chunk().map_or(0, |sum| u64::from_le_bytes(*sum));
        let version = bytes[8..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field));
        let is_whole =
            bytes[..8] == MAGIC && version == VERSION && sum == xxh3_64_with_seed(&bytes[..SUM_AT], number);
        match Name::parse(&bytes[APEX_AT..APEX_AT + 255]) {
            Ok(apex) if is_whole => {
                let copies = COPIES_AT.map(|at| Mark::of_bytes(&bytes[at..at + COPY], number));
                let newest = copies.into_iter().flatten().max_by_key(|(turn, _)| *turn);
                let is_free = |at: usize| bytes[at..at + COPY].iter().all(|&byte| byte == 0);
                let (turn, noted) = match newest {
                    Some((turn, mark)) => (turn, Noted::Mark(mark)),
                    None if COPIES_AT.into_iter().all(is_free) => (0, Noted::Reserved),
                    None => (0, Noted::Torn),
                };
                SlotContents::Zone(apex.to_lower().as_lower().as_wire().into(), Slot { number, turn, noted })
            }
            _ => SlotContents::Damaged,
        }
    }
}

/// The bytes of a slot without a mark, or with its first mark.
fn slot_bytes(apex: &[u8], number: u64, mark: Option<Mark>) -> [u8; SLOT] {
    let mut bytes = [0; SLOT];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[APEX_AT - 1] = apex.len() as u8;
    bytes[APEX_AT..APEX_AT + apex.len()].copy_from_slice(apex);
    let sum = xxh3_64_with_seed(&bytes[..SUM_AT], number);
    bytes[SUM_AT..SUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
    if let Some(mark) = mark {
        let at = copy_of(1);
        bytes[at..at + COPY].copy_from_slice(&mark.to_bytes(1, number));
    }
    bytes
}

/// Offset, within a slot, of the copy with this turn.
fn copy_of(turn: u64) -> usize {
    COPIES_AT[(turn % 2) as usize]
}

impl Marks {
    /// Reads the marks file, creating it if it does not exist.
    ///
    /// # Errors
    /// [`StoreFault::Io`].
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Marks, StoreFault> {
        let file = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let file = disk.create(path).map_err(failed("make", path))?;
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                disk.sync_folder(parent).map_err(failed("sync the folder", parent))?;
                file
            }
            opened => opened.map_err(failed("open", path))?,
        };
        let file: Arc<dyn DiskFile> = file.into();
        let slots = file.len().map_err(failed("measure", path))? / SLOT as u64;
        let mut table = Table {
            file: Arc::clone(&file),
            zones: HashMap::new(),
            free: Vec::new(),
            slots,
            dirty: false,
            damaged: 0,
            fault: None,
        };
        table.read(path)?;
        Ok(Marks { path: path.to_owned(), table: Mutex::new(table) })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content of a zone's slot.
    pub(crate) fn get(&self, apex: LowerName<'_>) -> Noted {
        self.table().zones.get(apex.as_wire()).map_or(Noted::Nothing, |slot| slot.noted)
    }

    /// The zones that have marks, including torn ones.
    pub(crate) fn zones(&self) -> Vec<LowerNameBuf> {
        let table = self.table();
        let marked = table.zones.iter().filter(|(_, slot)| slot.noted != Noted::Reserved);
        let names = marked.filter_map(|(apex, _)| Name::from_wire(apex).ok());
        names.map(|apex| apex.to_lower()).collect()
    }

    /// The path of the marks file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ensures that a zone has a slot, and returns whether the slot is on the disk and so survives a crash.
    /// Rewrites an existing slot unchanged, since a failed sync may have lost it. On failure
    /// [`fault`](Self::fault) returns why.
    pub(crate) fn reserve(&self, apex: LowerName<'_>) -> bool {
        let mut table = self.table();
        let reserved = table.reserve(&self.path, apex.as_wire());
        reserved.map_err(|fault| table.fault = Some(fault)).is_ok()
    }

    /// Number of slots that could not be read when the file was opened.
    pub(crate) fn damaged(&self) -> u64 {
        self.table().damaged
    }

    /// Records how far a zone is acknowledged. If the write fails, the old mark stays, which still holds;
    /// [`fault`](Self::fault) returns why.
    pub(crate) fn set(&self, apex: LowerName<'_>, mark: Mark) {
        let mut table = self.table();
        if table.zones.get(apex.as_wire()).is_some_and(|slot| slot.noted == Noted::Mark(mark)) {
            return;
        }
        if let Err(fault) = table.set(&self.path, apex.as_wire(), mark) {
            table.fault = Some(fault);
        }
    }

    /// Removes a zone's slot.
    ///
    /// # Errors
    /// [`StoreFault::Io`]; the mark may then still exist.
    pub(crate) fn clear(&self, apex: LowerName<'_>) -> Result<(), StoreFault> {
        let mut table = self.table();
        let Some(slot) = table.zones.get(apex.as_wire()).copied() else { return Ok(()) };
        write_all(&*table.file, &self.path, &[0; SLOT], slot.number * SLOT as u64)?;
        table.file.sync_data().map_err(failed("sync", &self.path))?;
        table.zones.remove(apex.as_wire());
        table.free.push(slot.number);
        Ok(())
    }

    /// Whether a mark was written since the last [`sync`](Self::sync).
    pub(crate) fn is_dirty(&self) -> bool {
        self.table().dirty
    }

    /// Returns once all marks are on the disk.
    ///
    /// # Errors
    /// [`StoreFault::Io`].
    pub(crate) fn sync(&self) -> Result<(), StoreFault> {
        let file = {
            let mut table = self.table();
            if !std::mem::take(&mut table.dirty) {
                return Ok(());
            }
            Arc::clone(&table.file)
        };
        file.sync_data().map_err(|error| {
            self.table().dirty = true;
            failed("sync", &self.path)(error)
        })
    }

    /// Takes the fault of a mark that could not be written since the last call, if any.
    pub(crate) fn fault(&self) -> Option<StoreFault> {
        self.table().fault.take()
    }
}

impl Table {
    /// Reads all slots.
    fn read(&mut self, path: &Path) -> Result<(), StoreFault> {
        let mut piece = vec![0; SLOT * READ_TOGETHER];
        for first in (0..self.slots).step_by(READ_TOGETHER) {
            let count = READ_TOGETHER.min(usize::try_from(self.slots - first).unwrap_or(READ_TOGETHER));
            let bytes = &mut piece[..count * SLOT];
            read_all(&*self.file, path, bytes, first * SLOT as u64)?;
            for (number, slot) in (first..).zip(bytes.as_chunks().0) {
                match SlotContents::of(slot, number) {
                    SlotContents::Nothing => self.free.push(number),
                    SlotContents::Zone(apex, slot) => self.found(apex, slot),
                    SlotContents::Damaged => {
                        self.damaged += 1;
                        self.free.push(number);
                    }
                }
            }
        }
        Ok(())
    }

    /// Registers a zone's slot. If a zone has two slots, which only a failing disk can leave, the one written
    /// less often becomes free.
    fn found(&mut self, apex: Box<[u8]>, slot: Slot) {
        let before = self.zones.get(&apex).copied();
        let (kept, other) = match before {
            Some(before) if before.turn >= slot.turn => (before, Some(slot)),
            before => (slot, before),
        };
        self.free.extend(other.map(|other| other.number));
        self.zones.insert(apex, kept);
    }

    /// Writes the mark of a zone over the older copy, or into a new slot.
    fn set(&mut self, path: &Path, apex: &[u8], mark: Mark) -> Result<(), StoreFault> {
        if let Some(slot) = self.zones.get_mut(apex) {
            let turn = slot.turn + 1;
            let at = slot.number * SLOT as u64 + copy_of(turn) as u64;
            self.dirty = true;
            write_all(&*self.file, path, &mark.to_bytes(turn, slot.number), at)?;
            (slot.turn, slot.noted) = (turn, Noted::Mark(mark));
            return Ok(());
        }
        self.dirty = true;
        let number = self.put(path, apex, Some(mark))?;
        self.zones.insert(apex.into(), Slot { number, turn: 1, noted: Noted::Mark(mark) });
        Ok(())
    }

    /// Writes a slot into a free place, and returns its number.
    fn put(&mut self, path: &Path, apex: &[u8], mark: Option<Mark>) -> Result<u64, StoreFault> {
        let number = self.free.last().copied().unwrap_or(self.slots);
        write_all(&*self.file, path, &slot_bytes(apex, number, mark), number * SLOT as u64)?;
        if self.free.pop().is_none() {
            self.slots += 1;
        }
        Ok(number)
    }

    /// Ensures that a zone has a slot on the disk, if necessary one without a mark.
    fn reserve(&mut self, path: &Path, apex: &[u8]) -> Result<(), StoreFault> {
        let is_there = self.zones.get(apex).map(|slot| slot.number);
        let number = match is_there {
            Some(number) => {
                let mut bytes = [0; SLOT];
                read_all(&*self.file, path, &mut bytes, number * SLOT as u64)?;
                write_all(&*self.file, path, &bytes, number * SLOT as u64)?;
                number
            }
            None => self.put(path, apex, None)?,
        };
        if let Err(error) = self.file.sync_data() {
            self.dirty = true;
            // The state of the slot is unknown: the next call writes it again.
            self.free.extend(is_there.is_none().then_some(number));
            return Err(failed("sync", path)(error));
        }
        if is_there.is_none() {
            self.zones.insert(apex.into(), Slot { number, turn: 0, noted: Noted::Reserved });
        }
        Ok(())
    }
}

impl std::fmt::Debug for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Marks({}, {} zones)", self.path.display(), self.table().zones.len())
    }
}
