//! A master file as a window of bytes that moves over it, with the index of what stands in the window.
//!
//! Files are read, not mapped: a mapped file that is cut short while it is read kills the process. The
//! window holds at least the entry being read and grows for a long one, up to the limit on an entry's
//! text, so memory stays bounded whatever the file holds.

use super::index::Indexer;
use super::simd::{BLOCK, Level};
use std::io::{self, Read};

/// Bytes read and indexed at a time. Window and index together stay in the second-level cache.
const STEP: usize = 256 * 1024;
/// Room after the data: the final line feed, and the blanks that fill the last block.
const SLACK: usize = 2 * BLOCK;
/// What some editors put in front of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Where the next entry starts: always the start of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryStart {
    /// The number of its first place in the index.
    pub(super) next: usize,
    /// Its first byte in the window.
    pub(super) start: usize,
    /// Its line, from 1.
    pub(super) line: u32,
}

/// What a window shows at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'w> {
    /// The bytes; the last ones may not be indexed yet.
    pub(super) bytes: &'w [u8],
    /// Offsets into `bytes`, as [`super::index`] describes.
    pub(super) index: &'w [u32],
    /// No more will come: the file has ended, or an entry has grown to the limit.
    pub(super) last: bool,
}

/// What [`Window::advance`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// There is more to see.
    More,
    /// The file ended, and everything in it has been seen.
    End,
    /// The entry at the cursor is longer than the limit. The view shows its front, with `last` set.
    TooLong,
}

/// The window over one file.
pub(super) struct Window<R> {
    from: R,
    buffer: Vec<u8>,
    /// How much of `buffer` holds data.
    filled: usize,
    /// How much of `filled` has been indexed.
    indexed: usize,
    index: Vec<u32>,
    indexer: Indexer,
    limit: usize,
    at_end: bool,
    too_long: bool,
    /// [`Window::skip_line`] has changed the view, so there is something to see before anything is read.
    pending: bool,
    /// Nothing has been read yet.
    at_front: bool,
    /// Bytes read so far.
    pub(super) read: u64,
    /// Where the next entry starts.
    pub(super) cursor: EntryStart,
}

impl<R: Read> Window<R> {
    /// A window over `from`, at whose front nothing has been read yet.
    ///
    /// `limit` is the longest text of one entry in bytes; `size_hint` the file's size, if known.
    pub(super) fn new(from: R, level: Level, limit: usize, size_hint: Option<u64>) -> Self {
        // A little more than the file has, so that the first read also sees its end.
        let size =
            size_hint.and_then(|n| usize::try_from(n).ok()).map_or(STEP, |n| n.saturating_add(1).min(STEP));
        Window {
            from,
            buffer: vec![0; size.max(BLOCK) + SLACK],
            filled: 0,
            indexed: 0,
            index: Vec::with_capacity(size / 4),
            indexer: Indexer::new(level),
            limit: limit.clamp(BLOCK, 1 << 30),
            at_end: false,
            too_long: false,
            pending: false,
            at_front: true,
            read: 0,
            cursor: EntryStart { line: 1, ..EntryStart::default() },
        }
    }

    /// What can be seen of the file.
    pub(super) fn view(&self) -> View<'_> {
        View { bytes: &self.buffer[..self.filled], index: &self.index, last: self.at_end || self.too_long }
    }

    /// Goes on at `cursor`, which came from the view.
    pub(super) fn go_to(&mut self, cursor: EntryStart) {
        self.too_long = false;
        self.cursor = cursor;
    }

    /// Moves the window so that the entry at the cursor is its first, and reads on.
    ///
    /// To be called when the index ended before the entry did. Errors are those of reading.
    pub(super) fn advance(&mut self) -> io::Result<Advance> {
        if std::mem::take(&mut self.pending) {
            return Ok(Advance::More);
        }
        if self.at_end {
            return Ok(Advance::End);
        }
        self.drop_before(self.cursor.start, self.cursor.next);
        if self.filled >= self.limit {
            self.too_long = true;
            return Ok(Advance::TooLong);
        }
        let room = self.buffer.len() - SLACK;
        if self.filled + STEP.min(room) / 2 > room {
            let more = room.saturating_mul(2).min(self.limit + STEP).max(room);
            self.buffer.resize(more + SLACK, 0);
        }
        self.fill()?;
        self.index_read();
        Ok(Advance::More)
    }

    /// Skips the entry at the cursor, which is longer than the limit: goes to the line after the one that
    /// byte `from` of the view stands in. Looks for nothing but the line feed. False if as many more bytes as
    /// an entry may have bring none: nothing is there to go on with then.
    pub(super) fn skip_line(&mut self, from: usize) -> io::Result<bool> {
        self.too_long = false;
        let most = self.read.saturating_add(self.limit as u64);
        let passed =
            memchr::memchr_iter(b'\n', &self.buffer[self.cursor.start..from.min(self.filled)]).count();
        self.cursor.line = self.cursor.line.saturating_add(passed as u32);
        let mut from = from.min(self.filled);
        loop {
            if let Some(n) = memchr::memchr(b'\n', &self.buffer[from..self.filled]) {
                self.cursor.line = self.cursor.line.saturating_add(1);
                from += n + 1;
                break;
            }
            from = self.filled;
            if self.at_end {
                break;
            }
            if self.read > most {
                return Ok(false);
            }
            self.drop_before(from, self.index.len());
            from = 0;
            self.fill()?;
        }
        self.indexer.restart();
        self.index.clear();
        (self.cursor.start, self.cursor.next, self.indexed) = (from, 0, from);
        self.index_read();
        self.pending = true;
        Ok(true)
    }

    /// Indexes what has been read: whole blocks, at the end of the file everything.
    fn index_read(&mut self) {
        let from = self.indexed;
        self.indexed += self.indexer.run(&self.buffer[from..self.filled], from as u32, &mut self.index);
        if self.at_end {
            self.finish();
        }
    }

    /// Drops the first `bytes` bytes and `entries` index entries.
    fn drop_before(&mut self, bytes: usize, entries: usize) {
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        self.indexed = self.indexed.saturating_sub(bytes);
        let left = self.index.len() - entries;
        for i in 0..left {
            self.index[i] = self.index[i + entries] - bytes as u32;
        }
        self.index.truncate(left);
        (self.cursor.start, self.cursor.next) = (0, 0);
    }

    /// Reads until the buffer is full or the file ends.
    fn fill(&mut self) -> io::Result<()> {
        let room = self.buffer.len() - SLACK;
        while self.filled < room && !self.at_end {
            match self.from.read(&mut self.buffer[self.filled..room]) {
                Ok(0) => self.at_end = true,
                Ok(n) => {
                    self.filled += n;
                    self.read += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if std::mem::take(&mut self.at_front) && self.buffer.starts_with(BYTE_ORDER_MARK) {
            // Line feeds instead, so that columns are counted after the mark; the index starts there too.
            self.buffer[..BYTE_ORDER_MARK.len()].fill(b'\n');
            (self.cursor.start, self.indexed) = (BYTE_ORDER_MARK.len(), BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// Indexes what is left at the end of the file, with a line feed if the last line lacks one.
    fn finish(&mut self) {
        if self.filled > 0 && self.buffer[self.filled - 1] != b'\n' {
            self.buffer[self.filled] = b'\n';
            self.filled += 1;
        }
        let rest = self.filled - self.indexed;
        let padded = rest.next_multiple_of(BLOCK);
        self.buffer[self.filled..self.indexed + padded].fill(b' ');
        let (from, to) = (self.indexed, self.indexed + padded);
        self.indexer.run(&self.buffer[from..to], from as u32, &mut self.index);
        self.indexed = self.filled;
    }
}
