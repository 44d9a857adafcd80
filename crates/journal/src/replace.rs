//! [`Replacement`]: a new file for a zone, written beside the one in use.
//!
//! Steps: the new file is written under another name and synced; it is renamed to the name of the store; the
//! folder is synced. If a crash comes before the rename, the old file is the store. After the rename either
//! file may be the store, and both hold all that was acknowledged. What is left of the other file is removed
//! when the store is opened.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::{Arc, Weak};

use wire::{Serial, Type};
use zone::Zone;

use crate::disk::DiskFile;
use crate::fault::{StoreFault, damaged, failed};
use crate::frame::{FrameContent, FrameKind, FrameReader, HEAD, Step, seal, write_all};
use crate::header::{Confirmed, HEADER, Header};
use crate::names::Paths;
use crate::records::put_record;
use crate::shared::Shared;
use crate::store::{Acknowledged, Contents, ZoneStore};

/// Target size of a base frame, in bytes; a frame may exceed it by one record.
const BASE_FRAME: usize = 60 << 10;

/// A new file for a zone, not yet in use. Another thread may [`write`](Self::write) it while the store takes
/// changes. [`ZoneStore::finish`] puts it into use; dropping it before leaves the store unchanged.
pub struct Replacement {
    shared: Arc<Shared>,
    paths: Paths,
    apex: Box<[u8]>,
    /// The store holds a weak reference to this to see whether a replacement is under way.
    _token: Arc<()>,
    /// The store's `turns` when this replacement began.
    turns: u64,
    /// The store's position when this replacement began.
    began: Option<Acknowledged>,
    /// The history to keep, if the new base is the store's current version.
    keeps: Option<KeptHistory>,
    written: Option<Written>,
    /// Whether there is a file to remove.
    has_file: bool,
}

/// Changes to copy from the file in use.
struct KeptHistory {
    reader: FrameReader,
    steps: Vec<Step>,
    /// Offset at which the last one ends.
    end: u64,
}

/// A file that is complete except for its header.
struct Written {
    out: FrameWriter,
    header: Header,
}

/// Writes frames in sequence and batches the writes: most frames are changes of some hundred bytes, and the
/// history may hold many of them.
struct FrameWriter {
    file: Arc<dyn DiskFile>,
    nonce: u64,
    /// Offset of the next frame.
    at: u64,
    /// The last bytes before `at`, not yet in the file, and how many of them trigger a write.
    unwritten: Vec<u8>,
    most_unwritten: usize,
    steps: Vec<Step>,
}

impl FrameWriter {
    /// Appends a frame; `frame` starts with room for its head.
    fn put(&mut self, path: &Path, frame: &mut [u8], content: FrameContent) -> Result<(), StoreFault> {
        // `acknowledged` is 0: a new file is completely on the disk before it is used.
        seal(frame, content, 0, self.nonce, self.at).ok_or(StoreFault::TooLarge)?;
        self.unwritten.extend_from_slice(frame);
        if content.kind == FrameKind::Change {
            self.steps.push(Step { before: content.before, at: self.at });
        }
        self.at += frame.len() as u64;
        if self.unwritten.len() < self.most_unwritten { Ok(()) } else { self.flush(path) }
    }

    /// Writes the bytes that are not in the file yet.
    fn flush(&mut self, path: &Path) -> Result<(), StoreFault> {
        let at = self.at - self.unwritten.len() as u64;
        write_all(&*self.file, path, &self.unwritten, at)?;
        self.unwritten.clear();
        Ok(())
    }

    /// Discards all frames.
    fn clear(&mut self) {
        (self.at, self.unwritten, self.steps) = (HEADER, Vec::new(), Vec::new());
    }

    /// Copies changes from another file. If not all of them can be read, returns why.
    ///
    /// # Errors
    /// [`StoreFault`] if writing fails.
    fn copy(&mut self, path: &Path, from: &mut KeptHistory) -> Result<Option<StoreFault>, StoreFault> {
        let mut frame = Vec::new();
        for step in &from.steps {
            let head = match from.reader.frame(step.at, from.end, &mut frame) {
                Ok(head) => head,
                Err(fault) => return Ok(Some(fault)),
            };
            let Some(head) = head.filter(|head| head.before == step.before) else {
                let what = "a change that had been stored is not whole";
                return Ok(Some(damaged(from.reader.path(), step.at, what)));
            };
            let content = FrameContent { kind: FrameKind::Change, before: head.before, after: head.after };
            self.put(path, &mut frame, content)?;
        }
        Ok(None)
    }

    /// Writes all records of a zone and returns their number.
    fn base(&mut self, path: &Path, zone: &Zone) -> Result<u64, StoreFault> {
        let serial = zone.serial();
        let content = FrameContent { kind: FrameKind::Base, before: serial, after: serial };
        let (mut frame, mut rdata, mut count) = (vec![0; HEAD], Vec::new(), 0);
        for node in zone {
            let owner = node.written_owner();
            let mut is_known = false;
            for set in node.rrsets() {
                let own = set.rdatas().map(|rdata| (set.rtype(), rdata));
                for (rtype, data) in own.chain(set.sig_rdatas().map(|rdata| (Type::RRSIG, rdata))) {
                    rdata.clear();
                    data.copy_to(&mut rdata);
                    put_record(&mut frame, owner.as_name(), is_known, rtype, data.ttl(), &rdata);
                    (is_known, count) = (true, count + 1);
                    if frame.len() >= BASE_FRAME {
                        self.put(path, &mut frame, content)?;
                        frame.truncate(HEAD);
                        is_known = false;
                    }
                }
            }
        }
        if frame.len() > HEAD {
            self.put(path, &mut frame, content)?;
        }
        Ok(count)
    }
}

impl Replacement {
    /// Writes the zone with all its records, and returns once they are on the disk. For a compaction the zone
    /// must be the version that the store had when the compaction began. Blocks on the disk; uses some
    /// hundred KiB of memory.
    ///
    /// # Errors
    /// [`StoreFault::NotTheZone`], [`StoreFault::OtherVersion`], [`StoreFault::Io`]; the store is unchanged
    /// then.
    pub fn write(&mut self, zone: &Zone) -> Result<(), StoreFault> {
        if zone.apex().as_wire() != &*self.apex {
            return Err(StoreFault::NotTheZone);
        }
        self.write_as(zone.serial(), Some(zone))
    }

    /// Writes a base without records, so that only the changes from `version` on are stored. For a zone whose
    /// records are stored elsewhere.
    ///
    /// # Errors
    /// [`StoreFault::OtherVersion`], [`StoreFault::Io`]; the store is unchanged then.
    pub fn write_without_zone(&mut self, version: Serial) -> Result<(), StoreFault> {
        self.write_as(version, None)
    }

    fn write_as(&mut self, base: Serial, zone: Option<&Zone>) -> Result<(), StoreFault> {
        if let (Some(_), Some(Acknowledged { serial: stored, .. })) = (&self.keeps, self.began)
            && stored != base
        {
            return Err(StoreFault::OtherVersion { stored, found: base });
        }
        let (disk, path) = (&self.shared.disk, &self.paths.unfinished);
        let shard = &self.paths.shard;
        disk.make_folder(shard).map_err(failed("make the folder", shard))?;
        self.has_file = true;
        let file: Arc<dyn DiskFile> = disk.create(path).map_err(failed("make", path))?.into();
        let nonce = RandomState::new().hash_one(path);
        let most_unwritten = disk.written_together();
        let mut out =
            FrameWriter { file, nonce, at: HEADER, unwritten: Vec::new(), most_unwritten, steps: Vec::new() };
        if let Some(kept) = &mut self.keeps
            && out.copy(path, kept)?.is_some()
        {
            // A history with a gap is useless; the zone itself does not depend on it.
            out.clear();
        }
        let base_at = out.at;
        let records = zone.map_or(Ok(0), |zone| out.base(path, zone))?;
        out.flush(path)?;
        out.file.sync_data().map_err(failed("sync", path))?;
        let first = out.steps.first().map_or(base, |step| step.before);
        let (previous, marked) = (0, false);
        let header =
            Header { nonce, base_at, base_end: out.at, records, sealed: 0, first, base, previous, marked };
        self.written = Some(Written { out, header });
        Ok(())
    }

    /// Writes the changes made since and the header. The file is then complete and on the disk.
    fn seal(
        &mut self,
        since: Option<KeptHistory>,
        confirmed: Option<Confirmed>,
        newest: Option<Serial>,
        previous: u64,
        marked: bool,
    ) -> Result<Contents, StoreFault> {
        let Some(Written { mut out, mut header }) = self.written.take() else {
            return Err(StoreFault::NotWritten);
        };
        let path = &self.paths.unfinished;
        if let Some(mut since) = since
            && let Some(fault) = out.copy(path, &mut since)?
        {
            return Err(fault);
        }
        out.flush(path)?;
        (header.sealed, header.previous, header.marked) = (out.at, previous, marked);
        let serial = newest.unwrap_or(header.base);
        let confirmed = confirmed.filter(|confirmed| confirmed.serial == serial);
        let apex = wire::LowerName::of_checked(&self.apex);
        out.file.set_len(out.at).map_err(failed("cut", path))?;
        write_all(&*out.file, path, &header.to_bytes(apex, confirmed), 0)?;
        out.file.sync_data().map_err(failed("sync", path))?;
        let acknowledged = Acknowledged { steps: out.steps.len(), end: out.at, serial };
        Ok(Contents {
            header,
            steps: out.steps,
            end: out.at,
            serial,
            acknowledged,
            room: out.at,
            unwritten: Vec::new(),
            has_tail: false,
            file: None,
            confirmed,
        })
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.has_file {
            self.shared.remove_unfinished(&self.paths);
        }
    }
}

impl std::fmt::Debug for Replacement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replacement({})", self.paths.unfinished.display())
    }
}

impl ZoneStore {
    /// Begins to replace what is stored with a zone, without history.
    ///
    /// # Errors
    /// [`StoreFault::AlreadyReplacing`] while another replacement exists.
    pub fn begin_replacement(&mut self) -> Result<Replacement, StoreFault> {
        if self.replacing.strong_count() > 0 {
            return Err(StoreFault::AlreadyReplacing);
        }
        let token = Arc::new(());
        self.replacing = Arc::downgrade(&token);
        Ok(Replacement {
            shared: Arc::clone(&self.open.shared),
            paths: self.open.paths(),
            apex: self.open.apex().as_wire().into(),
            _token: token,
            turns: self.turns,
            began: self.contents.as_ref().map(Contents::now),
            keeps: None,
            written: None,
            has_file: false,
        })
    }

    /// Begins to make the newest version, acknowledged or not, the base; keeps some of the history. Meanwhile
    /// changes can be appended and acknowledged; [`finish`](Self::finish) carries them over.
    ///
    /// # Errors
    /// [`StoreFault::NoBase`], [`StoreFault::AlreadyReplacing`], and [`StoreFault::Io`] if the file cannot be
    /// opened, or if appended changes cannot be written; in the latter case they are lost, as for
    /// [`append`](Self::append).
    pub fn begin_compaction(&mut self) -> Result<Replacement, StoreFault> {
        self.write()?;
        let contents = self.contents.as_ref().ok_or(StoreFault::NoBase)?;
        let kept = self.kept(contents.recent(self.most_history).to_vec(), contents)?;
        let mut replacement = self.begin_replacement()?;
        replacement.keeps = Some(kept);
        Ok(replacement)
    }

    fn kept(&self, steps: Vec<Step>, contents: &Contents) -> Result<KeptHistory, StoreFault> {
        let path = self.open.paths().store;
        let file = contents.file(&*self.open.shared.disk, &path)?;
        let reader = FrameReader::new(&file, &path.into(), contents.header.nonce);
        Ok(KeptHistory { reader, steps, end: contents.end })
    }

    /// Puts a replacement into use. All appended changes are acknowledged when this returns, and a store that
    /// [was broken](Self::is_broken) no longer is.
    ///
    /// # Errors
    /// [`StoreFault::NotWritten`]; [`StoreFault::Overtaken`] if the store has since lost changes or gained
    /// changes that the zone does not have; [`StoreFault::Io`]. The store remains as it was, with two
    /// exceptions. Appended changes that cannot be written are lost, as for [`append`](Self::append). If the
    /// new file may have been renamed and it is unknown whether the rename is on the disk, the store [is
    /// broken](Self::is_broken), and unacknowledged changes may or may not be there after a crash.
    pub fn finish(&mut self, mut replacement: Replacement) -> Result<(), StoreFault> {
        self.write()?;
        let is_ours = Weak::ptr_eq(&self.replacing, &Arc::downgrade(&replacement._token));
        let now = self.contents.as_ref().map(Contents::now);
        let end = |place: Option<Acknowledged>| place.map(|place| place.end);
        let is_same = replacement.keeps.is_some() || end(now) == end(replacement.began);
        if !is_ours || self.turns != replacement.turns || !is_same {
            return Err(StoreFault::Overtaken);
        }
        let (mut since, mut confirmed, mut newest) = (None, None, None);
        if let (Some(contents), Some(began), true) =
            (&self.contents, replacement.began, replacement.keeps.is_some())
        {
            let steps = contents.steps.get(began.steps..).unwrap_or_default();
            if !steps.is_empty() {
                since = Some(self.kept(steps.to_vec(), contents)?);
            }
            (confirmed, newest) = (contents.confirmed, Some(contents.serial));
        }
        let previous = match &self.contents {
            Some(contents) => contents.header.nonce,
            None => self.open.shared.noted(self.open.apex()).mark().map_or(0, |mark| mark.nonce),
        };
        let is_marked = self.contents.as_ref().is_some_and(|contents| contents.header.marked);
        let marked = self.open.shared.reserve_mark(self.open.apex(), is_marked);
        let contents = replacement.seal(since, confirmed, newest, previous, marked)?;
        let (disk, paths) = (&self.open.shared.disk, &replacement.paths);
        let old = match &self.contents {
            Some(contents) => Some(contents.file(&**disk, &paths.store)?),
            None => None,
        };
        self.turns += 1;
        let renamed = disk.rename(&paths.unfinished, &paths.store);
        let mut placed = renamed.map_err(failed("rename", &paths.unfinished));
        for folder in [&paths.shard, &self.open.shared.root] {
            placed =
                placed.and_then(|()| disk.sync_folder(folder).map_err(failed("sync the folder", folder)));
        }
        self.broken = placed.is_err();
        match (&placed, &mut self.contents) {
            (Ok(()), now) => {
                self.open.shared.mark(self.open.apex(), contents.mark());
                // A later file refers to this one as its predecessor, so this mark has to be on the disk by
                // then.
                self.open.shared.sync_marks();
                *now = Some(contents);
            }
            (Err(_), Some(now)) => {
                // After a crash either file may be the store. Only the old one is known here, whatever its
                // name.
                now.go_back();
                now.file = old;
            }
            (Err(_), None) => {}
        }
        replacement.has_file = placed.is_err();
        placed
    }
}

impl Contents {
    /// The store's position, including what is not acknowledged.
    fn now(&self) -> Acknowledged {
        Acknowledged { steps: self.steps.len(), end: self.end, serial: self.serial }
    }

    /// The last changes, of at most this many bytes together.
    fn recent(&self, bytes: u64) -> &[Step] {
        let mut left = bytes;
        let mut end = self.end;
        let mut first = self.steps.len();
        for (number, step) in self.steps.iter().enumerate().rev() {
            if end == self.header.base_end {
                end = self.header.base_at;
            }
            let Some(rest) = left.checked_sub(end - step.at) else { break };
            (left, first, end) = (rest, number, step.at);
        }
        &self.steps[first..]
    }
}
