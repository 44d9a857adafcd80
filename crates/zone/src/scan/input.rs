//! A window of bytes that moves over a zone file, with the index of its content.
//!
//! Files are read, not mapped: truncating a mapped file while it is read kills the process. The window holds
//! at least the entry being read and grows for a long one, up to the limit on an entry's text, so memory is
//! bounded for any file.

use super::index::Indexer;
use super::simd::{BLOCK, Level};
use std::io::{self, Read};

/// Bytes read and indexed at a time. Window and index together stay in the second-level cache.
const READ_BYTES: usize = 256 * 1024;
/// Bytes after the data: the final line feed, and the blanks that fill the last block.
const SLACK: usize = 2 * BLOCK;
/// The mark that some editors put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The start of the next entry: always the start of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryStart {
    /// Index of its first offset in the index.
    pub(super) next: usize,
    /// Its first byte in the window.
    pub(super) start: usize,
    /// Its line, from 1.
    pub(super) line: u32,
}

/// The part of a file in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'w> {
    /// The bytes; the last ones may not be indexed yet.
    pub(super) bytes: &'w [u8],
    /// Offsets into `bytes`, as [`super::index`] describes.
    pub(super) index: &'w [u32],
    /// No more bytes follow: the file has ended, or an entry has reached the limit.
    pub(super) last: bool,
}

/// The result of [`Window::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// The view has more bytes.
    More,
    /// The file ended, and all of it has been seen.
    End,
    /// The entry at the cursor is longer than the limit. The view shows its front, with `last` set.
    TooLong,
}

/// The window over one file.
pub(super) struct Window<R> {
    from: R,
    buffer: Vec<u8>,
    /// Number of bytes of data in `buffer`.
    filled: usize,
    /// Number of these bytes that are indexed.
    indexed: usize,
    index: Vec<u32>,
    indexer: Indexer,
    limit: usize,
    at_end: bool,
    too_long: bool,
    /// [`Window::skip_line`] has changed the view, so it has new bytes without reading.
    pending: bool,
    /// Nothing has been read yet.
    at_front: bool,
    /// Bytes read so far.
    pub(super) read: u64,
    /// The start of the next entry.
    pub(super) cursor: EntryStart,
}

impl<R: Read> Window<R> {
    /// Returns a window over `from`, from which nothing has been read yet.
    ///
    /// `limit` is the longest text of one entry in bytes; `size_hint` the file's size, if known.
    pub(super) fn new(from: R, level: Level, limit: usize, size_hint: Option<u64>) -> Self {
        // A little more than the file's size, so that the first read also reaches its end.
        let size = size_hint
            .and_then(|n| usize::try_from(n).ok())
            .map_or(READ_BYTES, |n| n.saturating_add(1).min(READ_BYTES));
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

    /// Returns the part of the file in the window.
    pub(super) fn view(&self) -> View<'_> {
        View { bytes: &self.buffer[..self.filled], index: &self.index, last: self.at_end || self.too_long }
    }

    /// Continues at `cursor`, which came from the view.
    pub(super) fn go_to(&mut self, cursor: EntryStart) {
        self.too_long = false;
        self.cursor = cursor;
    }

    /// Moves the window so that the entry at the cursor is its first, and continues reading.
    ///
    /// Call it when the index ended before the entry did. Errors are those of reading.
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
        if self.filled + READ_BYTES.min(room) / 2 > room {
            let more = room.saturating_mul(2).min(self.limit + READ_BYTES).max(room);
            self.buffer.resize(more + SLACK, 0);
        }
        self.fill()?;
        self.index_read();
        Ok(Advance::More)
    }

    /// Skips the entry at the cursor, which is longer than the limit: moves the cursor to the line after the
    /// one with byte `from` of the view. Only looks for line feeds. Returns false if there is none within the
    /// limit of an entry: then the scan cannot continue.
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

    /// Indexes the bytes read: whole blocks; at the end of the file all of them.
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
            // Replaces the mark by line feeds, so that columns are counted after it; the index starts there
            // too.
            self.buffer[..BYTE_ORDER_MARK.len()].fill(b'\n');
            (self.cursor.start, self.indexed) = (BYTE_ORDER_MARK.len(), BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// Indexes the rest at the end of the file, with a line feed if the last line lacks one.
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
