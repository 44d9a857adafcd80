//! [`Marks`]: how far each zone was acknowledged, in a file beside the stores.
//!
//! A store alone cannot show that its end is missing: a file that was cut between two changes, an older copy of it, and a file
//! that is gone look like zones that changed less. So each acknowledgment is noted here, too. docs/JOURNAL.md has the bytes.
//!
//! A mark is written once the changes that it covers are synced, and synced later, by [`Marks::sync`]: after a crash of the system it may
//! be an older one, and never one of changes that are not on the disk. Of its two copies the older is overwritten.

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
/// Bytes of a slot, which has the marks of one zone: what a disk writes as a whole.
const SLOT: usize = 512;
/// Slots that are read together.
const READ_TOGETHER: usize = 256;
/// Where the name of the zone is, after its length.
const APEX_AT: usize = 17;
/// Where the checksum of all in front of it is.
const SUM_AT: usize = 280;
/// Where the two copies of the mark are, and the bytes of one.
const COPIES_AT: [usize; 2] = [320, 384];
const COPY: usize = 40;

/// How far a zone was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The nonce of the store's file.
    pub(crate) nonce: u64,
    /// Bytes of that file that were synced.
    pub(crate) end: u64,
    /// The version that they make.
    pub(crate) serial: Serial,
}

/// Where the mark of a zone is.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    /// How often the mark was written; the copy with the higher number is the newer.
    turn: u64,
    /// `None` if both copies are torn.
    mark: Option<Mark>,
}

/// The marks of all zones of a folder.
pub(crate) struct Marks {
    path: PathBuf,
    table: Mutex<Table>,
}

struct Table {
    file: Arc<dyn DiskFile>,
    zones: HashMap<Box<[u8]>, Slot>,
    /// Slots of the file without a zone.
    free: Vec<u64>,
    /// Slots of the file.
    slots: u64,
    /// Some of what was written is not synced.
    dirty: bool,
    /// Slots that could not be read.
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

    /// Reads a copy and its turn; `None` if it is not whole.
    fn of_bytes(bytes: &[u8], number: u64) -> Option<(u64, Mark)> {
        let field = |at: usize| bytes.get(at..)?.first_chunk().map(|field| u64::from_le_bytes(*field));
        let serial = u32::from_le_bytes(*bytes.get(16..)?.first_chunk()?);
        let is_whole = field(32)? == xxh3_64_with_seed(bytes.get(..32)?, number);
        let (nonce, end) = (field(0)?, field(8)?);
        is_whole.then_some((field(24)?, Mark { nonce, end, serial: Serial(serial) }))
    }
}

/// What a slot of the file holds.
enum Found {
    Nothing,
    Zone(Box<[u8]>, Slot),
    Damaged,
}

impl Found {
    fn of(bytes: &[u8; SLOT], number: u64) -> Found {
        if bytes.iter().all(|&byte| byte == 0) {
            return Found::Nothing;
        }
        let sum = bytes[SUM_AT..].first_chunk().map_or(0, |sum| u64::from_le_bytes(*sum));
        let version = bytes[8..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field));
        let is_whole =
            bytes[..8] == MAGIC && version == VERSION && sum == xxh3_64_with_seed(&bytes[..SUM_AT], number);
        match Name::parse(&bytes[APEX_AT..APEX_AT + 255]) {
            Ok(apex) if is_whole => {
                let copies = COPIES_AT.map(|at| Mark::of_bytes(&bytes[at..at + COPY], number));
                let newest = copies.into_iter().flatten().max_by_key(|(turn, _)| *turn);
                let (turn, mark) = (newest.map_or(0, |(turn, _)| turn), newest.map(|(_, mark)| mark));
                Found::Zone(apex.to_lower().as_lower().as_wire().into(), Slot { number, turn, mark })
            }
            _ => Found::Damaged,
        }
    }
}

/// A slot of a zone with this mark, which is its first.
fn slot_bytes(apex: &[u8], number: u64, mark: Mark) -> [u8; SLOT] {
    let mut bytes = [0; SLOT];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[APEX_AT - 1] = apex.len() as u8;
    bytes[APEX_AT..APEX_AT + apex.len()].copy_from_slice(apex);
    let sum = xxh3_64_with_seed(&bytes[..SUM_AT], number);
    bytes[SUM_AT..SUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
    let at = copy_of(1);
    bytes[at..at + COPY].copy_from_slice(&mark.to_bytes(1, number));
    bytes
}

/// Where the copy with this turn is in its slot.
fn copy_of(turn: u64) -> usize {
    COPIES_AT[(turn % 2) as usize]
}

impl Marks {
    /// Reads the file, which is made if it is not there.
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

    /// Whether a zone has a mark, and which; inside `None` if it is torn.
    pub(crate) fn get(&self, apex: LowerName<'_>) -> Option<Option<Mark>> {
        self.table().zones.get(apex.as_wire()).map(|slot| slot.mark)
    }

    /// The zones that have marks.
    pub(crate) fn zones(&self) -> Vec<LowerNameBuf> {
        let table = self.table();
        let names = table.zones.keys().filter_map(|apex| Name::from_wire(apex).ok());
        names.map(|apex| apex.to_lower()).collect()
    }

    /// Slots that could not be read when the file was opened.
    pub(crate) fn damaged(&self) -> u64 {
        self.table().damaged
    }

    /// Notes how far a zone is acknowledged. A mark that cannot be written stays as it was, which is no less true:
    /// [`fault`](Self::fault) returns why.
    pub(crate) fn set(&self, apex: LowerName<'_>, mark: Mark) {
        let mut table = self.table();
        if table.zones.get(apex.as_wire()).is_some_and(|slot| slot.mark == Some(mark)) {
            return;
        }
        if let Err(fault) = table.set(&self.path, apex.as_wire(), mark) {
            table.fault = Some(fault);
        }
    }

    /// Forgets a zone.
    ///
    /// # Errors
    /// [`StoreFault::Io`]; then the mark may still be there.
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

    /// Why a mark could not be written since the last call, if one could not.
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
                match Found::of(slot, number) {
                    Found::Nothing => self.free.push(number),
                    Found::Zone(apex, slot) => {
                        self.zones.insert(apex, slot);
                    }
                    Found::Damaged => {
                        self.damaged += 1;
                        self.free.push(number);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the mark of a zone over the older copy, or into a slot of its own.
    fn set(&mut self, path: &Path, apex: &[u8], mark: Mark) -> Result<(), StoreFault> {
        if let Some(slot) = self.zones.get_mut(apex) {
            let turn = slot.turn + 1;
            let at = slot.number * SLOT as u64 + copy_of(turn) as u64;
            self.dirty = true;
            write_all(&*self.file, path, &mark.to_bytes(turn, slot.number), at)?;
            (slot.turn, slot.mark) = (turn, Some(mark));
            return Ok(());
        }
        let number = self.free.last().copied().unwrap_or(self.slots);
        self.dirty = true;
        write_all(&*self.file, path, &slot_bytes(apex, number, mark), number * SLOT as u64)?;
        if self.free.pop().is_none() {
            self.slots += 1;
        }
        self.zones.insert(apex.into(), Slot { number, turn: 1, mark: Some(mark) });
        Ok(())
    }
}

impl std::fmt::Debug for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Marks({}, {} zones)", self.path.display(), self.table().zones.len())
    }
}
