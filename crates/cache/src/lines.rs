//! Memory in lines of 64 bytes that threads share: what index and logs of a shard are made of.

use crate::atomic::{AtomicU64, Ordering, zeroed};

/// Words of eight bytes in a line.
pub(crate) const WORDS: usize = 8;

/// Bytes in a line, which is a cache line of the processors we know.
pub(crate) const LINE: usize = 8 * WORDS;

/// The smallest page that a system gives.
const PAGE: usize = 4096;

/// Bytes in a huge page of most processors.
const HUGE: usize = 2 << 20;

/// A block of lines. Where it fills a huge page it begins at one and requests huge pages: entries and slots
/// are read at random, and with small pages each of these reads would miss the translation buffer as well.
pub(crate) struct Lines {
    words: Box<[AtomicU64]>,
    first: Start,
    lines: usize,
}

/// The word that a part of a block begins at: the first one of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start(usize);

impl Start {
    /// So many lines behind this one.
    pub(crate) fn after(self, lines: usize) -> Start {
        Start(self.0 + lines * WORDS)
    }
}

impl Lines {
    /// So many lines of zero.
    pub(crate) fn new(lines: usize) -> Self {
        let bytes = lines * LINE;
        let (align, huge) = (if bytes < HUGE { LINE } else { HUGE }, in_huge_pages(bytes));
        // An allocation begins where it likes; with so much more there is a place in it that is aligned. What
        // lies before that place and behind the lines is never written, and takes no memory.
        let room = bytes.max(huge) + align;
        let words = zeroed(room / size_of::<u64>());
        let start = words.as_ptr().align_offset(align).min(align / size_of::<u64>());
        if let Some(huge) = words.get(start..start + huge / size_of::<u64>()) {
            prefetch::huge_pages(huge);
        }
        Lines { words, first: Start(start), lines }
    }

    /// Where the first line begins.
    pub(crate) fn first(&self) -> Start {
        self.first
    }

    /// Bytes that a block of so many lines takes when all of them are written.
    pub(crate) const fn bytes_for(lines: usize) -> usize {
        (lines + 1) * LINE
    }

    /// Bytes that this one takes when all of it is written.
    pub(crate) fn bytes(&self) -> usize {
        Self::bytes_for(self.lines)
    }

    /// The words from line `line` of a part on, at least to the end of the last line; none if there is no
    /// such line.
    #[inline]
    pub(crate) fn from(&self, part: Start, line: usize) -> &[AtomicU64] {
        self.words.get(part.0 + line * WORDS..).unwrap_or_default()
    }

    /// Has the system give all the memory now, and not page by page when something is written there. Nothing
    /// changes for threads that read and write meanwhile: where a word is 0 it is written once more, in the
    /// release sequence of what was stored before.
    pub(crate) fn touch(&self) {
        let words = self.from(self.first, 0).iter().take(self.lines * WORDS);
        for word in words.step_by(PAGE / size_of::<AtomicU64>()) {
            // Of an operation that can be seen to change nothing the compiler would leave the load, and that
            // needs no memory.
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

/// Of so many bytes, those that huge pages are requested for: whole ones, of which the last may reach past
/// the end by an eighth of the bytes.
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
