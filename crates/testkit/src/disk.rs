//! [`SimulatedDisk`]: a disk in memory that loses unsynced data and fails on request.
//!
//! After a power failure, whatever was not synced may or may not be on the disk: every write, truncation and
//! name change independently, in any order, and a write may be torn at any byte. A failed sync loses part of
//! the data that it was for, and a later sync does not recover it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal::{Disk, DiskFile, WRITTEN_TOGETHER};

/// A change of a file's contents.
#[derive(Clone, Debug)]
enum Edit {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Edit::Write(at, written) => {
                if bytes.len() < at + written.len() {
                    bytes.resize(at + written.len(), 0);
                }
                bytes[*at..at + written.len()].copy_from_slice(written);
            }
            Edit::SetLen(len) => bytes.resize(*len, 0),
        }
    }
}

/// A file: its contents as the system shows them, as the disk has them, and the edits that are not synced.
#[derive(Clone, Debug, Default)]
struct Inode {
    shown: Vec<u8>,
    synced: Vec<u8>,
    pending: Vec<Edit>,
}

/// What each name refers to; `None` is a deleted name.
type Entries = BTreeMap<PathBuf, Option<Entry>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(usize),
    Folder,
}

/// A fault injected into a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The call fails with this kind of error; a write may have written a part, a sync may have synced a
    /// part.
    Fails(ErrorKind),
    /// This call and all later ones fail with this kind of error.
    AllFail(ErrorKind),
    /// The power fails during the call: it may have taken effect in part, and all later calls fail.
    PowerGoes,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    shown: Entries,
    synced: Entries,
    /// Unsynced changes of names, each with the names that change together.
    pending: Vec<Vec<(PathBuf, Option<Entry>)>>,
    /// The files that are locked.
    locked: BTreeSet<PathBuf>,
    calls: u64,
    trouble: Option<(u64, Trouble)>,
    is_off: bool,
    short_writes: bool,
    /// Number of bytes that stores write together, if not the default.
    together: Option<usize>,
    random: u64,
}

/// A disk in memory. A clone is the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

/// What happens to unsynced data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of it is lost.
    Everything,
    /// It is kept up to some byte, and lost after that.
    AllBehindAPlace,
    /// Any part is lost; the rest was written in any order.
    AnyPart,
    /// Nothing is lost: only the process ended, and the data is still unsynced.
    Nothing,
}

impl State {
    fn number(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z % (end.max(1) as u64)) as usize
    }

    /// Counts a call, and returns the fault injected into it.
    fn call(&mut self) -> Option<Trouble> {
        self.calls += 1;
        if self.is_off {
            return Some(Trouble::PowerGoes);
        }
        let (at, trouble) = self.trouble?;
        let hits = match trouble {
            Trouble::AllFail(_) => self.calls >= at,
            _ => self.calls == at,
        };
        self.is_off |= hits && trouble == Trouble::PowerGoes;
        hits.then_some(trouble)
    }

    /// Returns part of an edit: a write is torn at any byte.
    fn torn(&mut self, edit: &Edit) -> Edit {
        match edit {
            Edit::Write(at, bytes) => {
                let cut = self.number(bytes.len() + 1);
                match self.number(2) {
                    0 => Edit::Write(*at, bytes[..cut].to_vec()),
                    _ => Edit::Write(at + cut, bytes[cut..].to_vec()),
                }
            }
            Edit::SetLen(len) => Edit::SetLen(*len),
        }
    }

    /// Returns some of the edits, in random order, some of them torn.
    fn some(&mut self, edits: &[Edit]) -> Vec<Edit> {
        let mut some = Vec::new();
        for edit in edits {
            match self.number(3) {
                0 => {}
                1 => some.push(edit.clone()),
                _ => {
                    let torn = self.torn(edit);
                    some.push(torn);
                }
            }
        }
        if self.number(2) == 0 {
            for at in (1..some.len()).rev() {
                let other = self.number(at + 1);
                some.swap(at, other);
            }
        }
        some
    }

    /// Changes names.
    fn rename(&mut self, changes: Vec<(PathBuf, Option<Entry>)>) {
        self.shown.extend(changes.iter().cloned());
        self.pending.push(changes);
    }

    fn inode(&self, path: &Path) -> io::Result<usize> {
        match self.shown.get(path) {
            Some(Some(Entry::File(inode))) => Ok(*inode),
            Some(Some(Entry::Folder)) => Err(ErrorKind::IsADirectory.into()),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    fn is_folder(&self, path: &Path) -> bool {
        matches!(self.shown.get(path), Some(Some(Entry::Folder))) || path.parent().is_none()
    }

    /// Drops unsynced data as `loss` says.
    fn lose(&mut self, loss: Loss) {
        let pending = std::mem::take(&mut self.pending);
        let whole = self.number(pending.len() + 1);
        for (number, changes) in pending.into_iter().enumerate() {
            let stays = match loss {
                Loss::Everything | Loss::Nothing => false,
                Loss::AllBehindAPlace => number < whole,
                Loss::AnyPart => self.number(2) == 0,
            };
            if stays {
                self.synced.extend(changes);
            }
        }
        self.shown = self.synced.clone();
        for number in 0..self.inodes.len() {
            let mut inode = std::mem::take(&mut self.inodes[number]);
            let edits = match loss {
                Loss::Everything | Loss::Nothing => Vec::new(),
                Loss::AnyPart => self.some(&inode.pending),
                Loss::AllBehindAPlace => {
                    let whole = self.number(inode.pending.len() + 1);
                    let mut edits = inode.pending[..whole].to_vec();
                    if let Some(Edit::Write(at, bytes)) = inode.pending.get(whole) {
                        edits.push(Edit::Write(*at, bytes[..self.number(bytes.len() + 1)].to_vec()));
                    }
                    edits
                }
            };
            edits.iter().for_each(|edit| edit.apply(&mut inode.synced));
            inode.pending.clear();
            inode.shown = inode.synced.clone();
            self.inodes[number] = inode;
        }
    }
}

impl SimulatedDisk {
    /// Creates an empty disk with random choices from `seed`. Its only folder is `/`.
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk(Arc::new(Mutex::new(State { random: seed, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of calls so far, including those for locks and lengths.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Injects a fault into the `at`-th call from now on; the next call is number 1.
    pub fn plan(&self, at: u64, trouble: Trouble) {
        let mut state = self.state();
        state.trouble = Some((state.calls + at, trouble));
    }

    /// Cancels the planned fault.
    pub fn plan_nothing(&self) {
        self.state().trouble = None;
    }

    /// Whether a planned power failure has happened.
    pub fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Sets how many bytes of changes stores keep in memory before they write them.
    pub fn write_together(&self, bytes: usize) {
        self.state().together = Some(bytes);
    }

    /// Makes some writes short.
    pub fn write_short(&self) {
        self.state().short_writes = true;
    }

    /// Ends the process that uses the disk. Unless `loss` is `Nothing`, the power goes off and on again, and
    /// unsynced data fares as `loss` says. Files opened before then fail. A planned fault stays planned if
    /// only the process ends.
    pub fn crash(&self, loss: Loss) -> SimulatedDisk {
        let mut state = std::mem::take(&mut *self.state());
        state.locked.clear();
        if loss != Loss::Nothing {
            state.lose(loss);
            (state.trouble, state.is_off) = (None, false);
        }
        SimulatedDisk(Arc::new(Mutex::new(state)))
    }

    /// Returns the contents of a file, as the system shows them.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.inodes[state.inode(path).ok()?].shown.clone())
    }

    /// Creates a synced file, with its parent folders.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let inode = state.inodes.len();
        let bytes = bytes.to_vec();
        state.inodes.push(Inode { shown: bytes.clone(), synced: bytes, pending: Vec::new() });
        let folders = path.ancestors().skip(1).map(|folder| (folder.to_owned(), Some(Entry::Folder)));
        let entries: Vec<_> = folders.chain([(path.to_owned(), Some(Entry::File(inode)))]).collect();
        state.shown.extend(entries.iter().cloned());
        state.synced.extend(entries);
    }

    /// Returns the paths of all files, as the system shows them.
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.state();
        let is_file = |entry: &Option<Entry>| matches!(entry, Some(Entry::File(_)));
        state.shown.iter().filter(|(_, entry)| is_file(entry)).map(|(path, _)| path.clone()).collect()
    }

    /// Runs a call that takes effect as a whole or not at all.
    fn simply<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        match state.call() {
            None => act(&mut state),
            Some(Trouble::Fails(kind) | Trouble::AllFail(kind)) => Err(kind.into()),
            Some(Trouble::PowerGoes) => {
                // The call may have taken effect.
                if state.trouble.take().is_some() && state.number(2) == 0 {
                    let _ = act(&mut state);
                }
                Err(io::Error::other("the power is off"))
            }
        }
    }
}

impl Disk for SimulatedDisk {
    fn written_together(&self) -> usize {
        self.state().together.unwrap_or(WRITTEN_TOGETHER)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.simply(|state| state.inode(path))?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), inode }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.simply(|state| {
            if !path.parent().is_some_and(|parent| state.is_folder(parent)) {
                return Err(ErrorKind::NotFound.into());
            }
            if let Ok(inode) = state.inode(path) {
                state.inodes[inode].shown.clear();
                state.inodes[inode].pending.push(Edit::SetLen(0));
                return Ok(inode);
            }
            let inode = state.inodes.len();
            state.inodes.push(Inode::default());
            state.rename(vec![(path.to_owned(), Some(Entry::File(inode)))]);
            Ok(inode)
        })?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.simply(|state| {
            let inode = state.inode(from)?;
            state.rename(vec![(from.to_owned(), None), (to.to_owned(), Some(Entry::File(inode)))]);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.simply(|state| {
            state.inode(path)?;
            state.rename(vec![(path.to_owned(), None)]);
            Ok(())
        })
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.simply(|state| {
            if !state.is_folder(path) {
                state.rename(vec![(path.to_owned(), Some(Entry::Folder))]);
            }
            Ok(())
        })
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.simply(|state| {
            if !state.is_folder(path) {
                return Err(ErrorKind::NotFound.into());
            }
            let here = |changes: &[(PathBuf, Option<Entry>)]| {
                changes.iter().any(|(name, _)| name.parent() == Some(path))
            };
            let (done, left) = std::mem::take(&mut state.pending).into_iter().partition(|c: &Vec<_>| here(c));
            state.pending = left;
            let done: Vec<Vec<_>> = done;
            state.synced.extend(done.into_iter().flatten());
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.simply(|state| {
            let there =
                state.shown.iter().filter(|(name, entry)| entry.is_some() && name.parent() == Some(path));
            Ok(there.filter_map(|(name, _)| Some(name.file_name()?.to_owned())).collect())
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.simply(|state| match state.locked.insert(path.to_owned()) {
            true => Ok(()),
            false => Err(ErrorKind::WouldBlock.into()),
        })?;
        Ok(Box::new(SimulatedLock(self.clone(), path.to_owned())))
    }
}

struct SimulatedLock(SimulatedDisk, PathBuf);

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.0.state().locked.remove(&self.1);
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    inode: usize,
}

impl SimulatedFile {
    /// Runs a call that may take effect in part; `part` applies a random part of it.
    fn partly<T>(
        &self,
        act: impl FnOnce(&mut State, &mut Inode) -> io::Result<T>,
        part: impl FnOnce(&mut State, &mut Inode),
    ) -> io::Result<T> {
        let mut state = self.disk.state();
        let was_off = state.is_off;
        let trouble = state.call();
        if was_off || self.inode >= state.inodes.len() {
            return Err(io::Error::other("the power is off"));
        }
        let mut inode = std::mem::take(&mut state.inodes[self.inode]);
        let result = match trouble {
            None => act(&mut state, &mut inode),
            Some(trouble) => {
                part(&mut state, &mut inode);
                Err(match trouble {
                    Trouble::Fails(kind) | Trouble::AllFail(kind) => kind.into(),
                    Trouble::PowerGoes => io::Error::other("the power is off"),
                })
            }
        };
        state.inodes[self.inode] = inode;
        result
    }
}

impl Inode {
    fn edit(&mut self, edit: Edit) {
        edit.apply(&mut self.shown);
        self.pending.push(edit);
    }
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = |_: &mut State, inode: &mut Inode| {
            let from = inode.shown.get(offset as usize..).unwrap_or_default();
            let len = from.len().min(bytes.len());
            bytes[..len].copy_from_slice(&from[..len]);
            Ok(len)
        };
        self.partly(read, |_, _| {})
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let at = offset as usize;
        let write = |state: &mut State, inode: &mut Inode| {
            let short = state.short_writes && state.number(3) == 0;
            let len = if short { 1 + state.number(bytes.len()) } else { bytes.len() };
            inode.edit(Edit::Write(at, bytes[..len.min(bytes.len())].to_vec()));
            Ok(len.min(bytes.len()))
        };
        let part = |state: &mut State, inode: &mut Inode| {
            let len = state.number(bytes.len() + 1);
            inode.edit(Edit::Write(at, bytes[..len].to_vec()));
        };
        self.partly(write, part)
    }

    fn len(&self) -> io::Result<u64> {
        self.partly(|_, inode| Ok(inode.shown.len() as u64), |_, _| {})
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let cut = |_: &mut State, inode: &mut Inode| {
            inode.edit(Edit::SetLen(len as usize));
            Ok(())
        };
        self.partly(cut, |_, _| {})
    }

    fn sync_data(&self) -> io::Result<()> {
        let sync = |_: &mut State, inode: &mut Inode| {
            let pending = std::mem::take(&mut inode.pending);
            pending.iter().for_each(|edit| edit.apply(&mut inode.synced));
            Ok(())
        };
        // Data that a failed sync did not write is no longer pending, but still shown.
        let part = |state: &mut State, inode: &mut Inode| {
            let pending = std::mem::take(&mut inode.pending);
            state.some(&pending).iter().for_each(|edit| edit.apply(&mut inode.synced));
        };
        self.partly(sync, part)
    }
}
