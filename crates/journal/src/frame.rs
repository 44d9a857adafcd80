//! Frames: pieces of a store, each with its length and checksums. docs/JOURNAL.md describes their bytes.
//!
//! A checksum is seeded with the frame's offset and the nonce of the file, so that bytes that were at another
//! place, or that were put into a record, are not valid frames. The head has a checksum of its own, so that
//! the length can be trusted before the rest of the frame is read.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use wire::Serial;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::disk::DiskFile;
use crate::fault::{StoreFault, damaged, failed};

/// Bytes of the head of a frame.
pub(crate) const HEAD: usize = 40;
/// Bytes read at once.
const WINDOW: usize = 128 << 10;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Some of the records of the base.
    Base,
    /// A change.
    Change,
}

impl FrameKind {
    const fn marker(self) -> [u8; 4] {
        match self {
            FrameKind::Base => *b"base",
            FrameKind::Change => *b"diff",
        }
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: FrameKind,
    /// Bytes that follow the head.
    pub(crate) len: u32,
    /// Bytes of the file that had been acknowledged when the frame was written.
    pub(crate) acknowledged: u64,
    pub(crate) before: Serial,
    pub(crate) after: Serial,
    /// Checksum of the bytes that follow the head.
    sum: u64,
}

fn seed(nonce: u64, at: u64) -> u64 {
    nonce.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What a frame holds, as its head says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameContent {
    pub(crate) kind: FrameKind,
    /// Serial number before the change; of a base, that of its version.
    pub(crate) before: Serial,
    /// Serial number after the change; of a base, that of its version.
    pub(crate) after: Serial,
}

/// Fills in the head of a frame at offset `at`. `frame` is room for the head, then the frame's bytes. Returns
/// `None` if these are 4 GiB or more.
pub(crate) fn seal(
    frame: &mut [u8],
    content: FrameContent,
    acknowledged: u64,
    nonce: u64,
    at: u64,
) -> Option<()> {
    let FrameContent { kind, before, after } = content;
    let (head, bytes) = frame.split_first_chunk_mut::<HEAD>()?;
    head[..4].copy_from_slice(&kind.marker());
    head[4..8].copy_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
    head[8..16].copy_from_slice(&acknowledged.to_le_bytes());
    head[16..20].copy_from_slice(&before.0.to_le_bytes());
    head[20..24].copy_from_slice(&after.0.to_le_bytes());
    head[24..32].copy_from_slice(&xxh3_64_with_seed(bytes, seed(nonce, at)).to_le_bytes());
    let sum = xxh3_64_with_seed(&head[..32], seed(nonce, at));
    head[32..].copy_from_slice(&sum.to_le_bytes());
    Some(())
}

impl Head {
    /// Parses a head at offset `at`; `None` if it is not valid.
    fn open(bytes: &[u8], nonce: u64, at: u64) -> Option<Head> {
        let (kind, rest) = bytes.split_first_chunk::<4>()?;
        let kind = [FrameKind::Base, FrameKind::Change].into_iter().find(|known| known.marker() == *kind)?;
        let (len, rest) = rest.split_first_chunk()?;
        let (acknowledged, rest) = rest.split_first_chunk()?;
        let (before, rest) = rest.split_first_chunk()?;
        let (after, rest) = rest.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        let (own, _) = rest.split_first_chunk()?;
        (u64::from_le_bytes(*own) == xxh3_64_with_seed(bytes.get(..32)?, seed(nonce, at))).then_some(Head {
            kind,
            len: u32::from_le_bytes(*len),
            acknowledged: u64::from_le_bytes(*acknowledged),
            before: Serial(u32::from_le_bytes(*before)),
            after: Serial(u32::from_le_bytes(*after)),
            sum: u64::from_le_bytes(*sum),
        })
    }
}

/// Reads the frames of a file. Buffers [`WINDOW`] bytes of it.
pub(crate) struct FrameReader {
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    nonce: u64,
    window: Vec<u8>,
    /// Offset of the window in the file.
    window_at: u64,
}

impl FrameReader {
    pub(crate) fn new(file: &Arc<dyn DiskFile>, path: &Arc<Path>, nonce: u64) -> Self {
        let (file, path) = (Arc::clone(file), Arc::clone(path));
        FrameReader { file, path, nonce, window: Vec::new(), window_at: 0 }
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `len` bytes of the file from `at` on, or fewer if `end` comes first. `len` is at most
    /// [`WINDOW`].
    fn bytes(&mut self, at: u64, len: usize, end: u64) -> Result<&[u8], StoreFault> {
        let len = len.min(usize::try_from(end.saturating_sub(at)).unwrap_or(WINDOW));
        let within = |window: &[u8], from: u64| {
            let start = usize::try_from(at.checked_sub(from)?).ok()?;
            (start + len <= window.len()).then_some(start)
        };
        if let Some(start) = within(&self.window, self.window_at) {
            return Ok(&self.window[start..start + len]);
        }
        let whole = WINDOW.min(usize::try_from(end.saturating_sub(at)).unwrap_or(WINDOW));
        self.window.resize(whole, 0);
        self.window_at = at;
        if let Err(fault) = read_all(&*self.file, &self.path, &mut self.window, at) {
            self.window.clear();
            return Err(fault);
        }
        Ok(&self.window[..len])
    }

    /// The head of the frame at `at`, if the frame ends by `end`. Does not check the frame's bytes.
    pub(crate) fn head(&mut self, at: u64, end: u64) -> Result<Option<Head>, StoreFault> {
        let nonce = self.nonce;
        let head = Head::open(self.bytes(at, HEAD, end)?, nonce, at);
        Ok(head.filter(|head| next(at, head).is_some_and(|next| next <= end)))
    }

    /// The head of the frame at `at`, if the whole frame is intact. Does not hold the frame in memory.
    pub(crate) fn checked_head(&mut self, at: u64, end: u64) -> Result<Option<Head>, StoreFault> {
        let Some(head) = self.head(at, end)? else { return Ok(None) };
        let mut sum = Xxh3::with_seed(seed(self.nonce, at));
        let (mut from, mut left) = (at + HEAD as u64, head.len as usize);
        while left > 0 {
            let piece = self.bytes(from, left.min(WINDOW), end)?;
            let len = piece.len();
            sum.update(piece);
            (from, left) = (from + len as u64, left - len);
        }
        Ok((sum.digest() == head.sum).then_some(head))
    }

    /// Reads the frame at `at` with its head into `frame`, if it is intact.
    pub(crate) fn frame(
        &mut self,
        at: u64,
        end: u64,
        frame: &mut Vec<u8>,
    ) -> Result<Option<Head>, StoreFault> {
        let Some(head) = self.head(at, end)? else { return Ok(None) };
        let len = HEAD + head.len as usize;
        frame.clear();
        if len <= WINDOW {
            frame.extend_from_slice(self.bytes(at, len, end)?);
        } else {
            frame.resize(len, 0);
            read_all(&*self.file, &self.path, frame, at)?;
        }
        Ok((xxh3_64_with_seed(&frame[HEAD..], seed(self.nonce, at)) == head.sum).then_some(head))
    }

    /// Writes bytes of the file again, unchanged.
    pub(crate) fn write_again(&mut self, range: Range<u64>) -> Result<(), StoreFault> {
        let (file, path) = (Arc::clone(&self.file), Arc::clone(&self.path));
        let mut at = range.start;
        while at < range.end {
            let piece = self.bytes(at, WINDOW, range.end)?;
            write_all(&*file, &path, piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Whether a range of the file holds only zeros.
    pub(crate) fn is_zeros(&mut self, range: Range<u64>) -> Result<bool, StoreFault> {
        let mut at = range.start;
        while at < range.end {
            let piece = self.bytes(at, WINDOW, range.end)?;
            if piece.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at += piece.len() as u64;
        }
        Ok(true)
    }

    /// Whether a frame after `at` states that the bytes at `at` had been acknowledged.
    fn is_acknowledged(&mut self, at: u64, end: u64) -> Result<bool, StoreFault> {
        let nonce = self.nonce;
        let mut from = at + 1;
        while from + HEAD as u64 <= end {
            let bytes = self.bytes(from, WINDOW, end)?;
            let starts = bytes.len() - (HEAD - 1);
            let found = (0..starts).any(|start| {
                let head = Head::open(&bytes[start..], nonce, from + start as u64);
                head.is_some_and(|head| head.acknowledged > at)
            });
            if found {
                return Ok(true);
            }
            from += starts as u64;
        }
        Ok(false)
    }

    /// Walks consecutive changes from `range.start` on, and stops before the first that does not follow or is
    /// incomplete.
    pub(crate) fn walk_whole(&mut self, range: Range<u64>, from: Serial) -> Result<Walk, StoreFault> {
        let mut walk = Walk { steps: Vec::new(), end: range.start, serial: from, acknowledged: 0 };
        while let Some(head) = self.checked_head(walk.end, range.end)? {
            if head.kind != FrameKind::Change || head.before != walk.serial {
                break;
            }
            walk.take(head, range.end);
        }
        Ok(walk)
    }

    /// Walks consecutive changes from `range.start` on; reports damage within what was acknowledged.
    pub(crate) fn walk(&mut self, range: Range<u64>, sealed: u64, from: Serial) -> Result<Walk, StoreFault> {
        let mut walk = Walk { steps: Vec::new(), end: range.start, serial: from, acknowledged: 0 };
        while walk.end < range.end {
            let at = walk.end;
            match self.checked_head(at, range.end)? {
                Some(head) if head.kind != FrameKind::Change || head.before != walk.serial => {
                    return Err(damaged(&self.path, at, "a change does not follow the one in front"));
                }
                Some(head) => walk.take(head, range.end),
                None if at < sealed || self.is_acknowledged(at, range.end)? => {
                    return Err(damaged(&self.path, at, "a change that had been stored is not whole"));
                }
                None => break,
            }
        }
        Ok(walk)
    }
}

/// Offset of the end of the frame whose head is at `at`.
pub(crate) fn next(at: u64, head: &Head) -> Option<u64> {
    at.checked_add(HEAD as u64 + u64::from(head.len))
}

/// Version and place of a change in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The version before the change.
    pub(crate) before: Serial,
    /// Offset of its frame.
    pub(crate) at: u64,
}

/// Consecutive changes.
pub(crate) struct Walk {
    pub(crate) steps: Vec<Step>,
    /// Offset at which the last one ends.
    pub(crate) end: u64,
    /// The version after the last one.
    pub(crate) serial: Serial,
    /// Bytes of the file that had been acknowledged when the last one was written.
    pub(crate) acknowledged: u64,
}

impl Walk {
    /// Appends the next change.
    fn take(&mut self, head: Head, end: u64) {
        self.steps.push(Step { before: head.before, at: self.end });
        (self.serial, self.acknowledged) = (head.after, head.acknowledged);
        self.end = next(self.end, &head).unwrap_or(end);
    }
}

/// Fills `bytes` from offset `at` on. Reports a file that ends too early as cut short.
pub(crate) fn read_all(
    file: &dyn DiskFile,
    path: &Path,
    bytes: &mut [u8],
    at: u64,
) -> Result<(), StoreFault> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64) {
            Ok(0) => return Err(damaged(path, at + done as u64, "the file has been cut short")),
            Ok(read) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("read", path)(error)),
        }
    }
    Ok(())
}

/// Writes all of `bytes` from offset `at` on.
pub(crate) fn write_all(
    file: &dyn DiskFile,
    path: &Path,
    mut bytes: &[u8],
    mut at: u64,
) -> Result<(), StoreFault> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(failed("write", path)(std::io::ErrorKind::WriteZero.into())),
            Ok(written) => (bytes, at) = (bytes.get(written..).unwrap_or_default(), at + written as u64),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("write", path)(error)),
        }
    }
    Ok(())
}
