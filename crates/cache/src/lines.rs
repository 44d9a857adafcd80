//! Memory in lines of 64 bytes that threads share, for the index and the logs of a shard.

use crate::atomic::{AtomicU64, Ordering, zeroed};

/// Words of eight bytes in a line.
pub(crate) const WORDS: usize = 8;

/// Bytes in a line: a cache line of common processors.
pub(crate) const LINE: usize = 8 * WORDS;

/// Size of the smallest page of a system, in bytes.
const PAGE: usize = 4096;

/// Size of a huge page of most processors, in bytes.
const HUGE: usize = 2 << 20;

/// A block of lines. If it fills a huge page, it is aligned to one and requests huge pages: entries and slots
/// are read at random, and with small pages each of these reads would miss the TLB as well.
pub(crate) struct Lines {
    words: Box<[AtomicU64]>,
    first: Start,
    lines: usize,
}

/// The first word of a part of a block, at the start of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start(usize);

impl Start {
    /// Returns the start `lines` lines behind this one.
    pub(crate) fn after(self, lines: usize) -> Start {
        Start(self.0 + lines * WORDS)
    }
}

impl Lines {
    /// Allocates zeroed lines.
    pub(crate) fn new(lines: usize) -> Self {
        let bytes = lines * LINE;
        let (align, huge) = (if bytes < HUGE { LINE } else { HUGE }, in_huge_pages(bytes));
        // The allocation may be unaligned; the additional bytes make room for an aligned start. The bytes
        // before that and behind the lines are never written, and take no memory.
        let room = bytes.max(huge) + align;
        let words = zeroed(room / size_of::<u64>());
        let start = words.as_ptr().align_offset(align).min(align / size_of::<u64>());
        if let Some(huge) = words.get(start..start + huge / size_of::<u64>()) {
            prefetch::huge_pages(huge);
        }
        Lines { words, first: Start(start), lines }
    }

    /// Returns the start of the first line.
    pub(crate) fn first(&self) -> Start {
        self.first
    }

    /// Returns the bytes that a block of `lines` lines takes when all of them are written.
    pub(crate) const fn bytes_for(lines: usize) -> usize {
        (lines + 1) * LINE
    }

    /// Returns the bytes that this block takes when all of it is written.
    pub(crate) fn bytes(&self) -> usize {
        Self::bytes_for(self.lines)
    }

    /// Returns the words from line `line` of a part on, at least to the end of the last line; none if there
    /// is no such line.
    #[inline]
    pub(crate) fn from(&self, part: Start, line: usize) -> &[AtomicU64] {
        self.words.get(part.0 + line * WORDS..).unwrap_or_default()
    }

    /// Makes the system map all the memory now, and not page by page on the first writes. Does not affect
    /// threads that read and write meanwhile: a word that is 0 is written once more, in the release sequence
    /// of earlier stores.
    pub(crate) fn touch(&self) {
        let words = self.from(self.first, 0).iter().take(self.lines * WORDS);
        for word in words.step_by(PAGE / size_of::<AtomicU64>()) {
            // The compiler would reduce an operation that visibly changes nothing to its load, which maps no
            // memory.
            let _ = word.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Prefetches the cache line of line `line` of a part.
    #[inline]
    pub(crate) fn prefetch(&self, part: Start, line: usize) {
        if let Some(word) = self.words.get(part.0 + line * WORDS) {
            prefetch::fetch(std::ptr::from_ref(word).cast());
        }
    }
}

/// Returns how many of the bytes get huge pages: whole pages, of which the last may extend past the end by an
/// eighth of the bytes.
const fn in_huge_pages(bytes: usize) -> usize {
    let (down, up) = (bytes / HUGE * HUGE, bytes.next_multiple_of(HUGE));
    if down > 0 && up - bytes <= bytes / 8 { up } else { down }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_at_a_huge_page_if_it_fills_one() {
        for (lines, align) in [(1, LINE), (1000, LINE), (HUGE / LINE, HUGE), (7 * HUGE / LINE + 1, HUGE)] {
            let block = Lines::new(lines);
            let words = block.from(block.first(), 0);
            assert_eq!((words.as_ptr() as usize % align, block.bytes()), (0, (lines + 1) * LINE));
            assert!(words.len() >= lines * WORDS, "{lines} lines are there");
            let second = block.from(block.first().after(lines - 1), 0);
            assert_eq!(second.as_ptr(), block.from(block.first(), lines - 1).as_ptr());
        }
    }

    #[test]
    fn huge_pages_are_requested_for_little_more_than_there_is() {
        let pages = |bytes| in_huge_pages(bytes) / HUGE;
        assert_eq!((pages(HUGE - LINE), pages(HUGE), pages(HUGE + LINE)), (0, 1, 1));
        assert_eq!((pages(2 * HUGE - LINE), pages(16 * HUGE - HUGE / 4), pages(3 * HUGE + LINE)), (2, 16, 3));
    }
}
