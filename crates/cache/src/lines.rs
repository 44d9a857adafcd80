//! Memory in lines of 64 bytes that threads share: what index and logs are made of.

use crate::atomic::{AtomicU64, Ordering, zeroed};

/// Words of eight bytes in a line.
pub(crate) const WORDS: usize = 8;

/// Bytes in a line, which is a cache line of the processors we know.
pub(crate) const LINE: usize = 8 * WORDS;

/// The smallest page that a system gives.
const PAGE: usize = 4096;

/// Lines, the first of which begins a cache line.
pub(crate) struct Lines {
    words: Box<[AtomicU64]>,
    /// The first word of the first line.
    start: usize,
}

impl Lines {
    /// So many lines of zero.
    pub(crate) fn new(lines: usize) -> Self {
        // An allocation begins where it likes; with one line more there is a place in it that is aligned.
        let words = zeroed((lines + 1) * WORDS);
        let start = words.as_ptr().align_offset(LINE).min(WORDS);
        Lines { words, start }
    }

    /// Bytes that so many lines take.
    pub(crate) const fn bytes_for(lines: usize) -> usize {
        (lines + 1) * LINE
    }

    /// Bytes that these take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// The words from the start of `line` on, at least to the end of the last line; none if there is no such line.
    #[inline]
    pub(crate) fn from(&self, line: usize) -> &[AtomicU64] {
        self.words.get(self.start + line * WORDS..).unwrap_or_default()
    }

    /// Has the system give all the memory now, and not page by page when something is written there. Nothing changes, whoever reads and
    /// writes meanwhile: where a word is 0 it is written once more, in the release sequence of what was stored before.
    pub(crate) fn touch(&self) {
        for word in self.words.iter().step_by(PAGE / size_of::<AtomicU64>()) {
            // Of an operation that can be seen to change nothing the compiler would leave the load, and that needs no memory.
            let _ = word.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Prefetches the cache line of `line`.
    #[inline]
    pub(crate) fn prefetch(&self, line: usize) {
        if let Some(word) = self.words.get(self.start + line * WORDS) {
            prefetch::fetch(std::ptr::from_ref(word).cast());
        }
    }
}
