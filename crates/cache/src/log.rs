//! A ring of lines, written at the head and freed at the tail, that is read without a lock.
//!
//! # Positions
//!
//! An entry is a run of lines that does not cross the end of the ring: where it would, the rest of the ring
//! stays unused. Its [`Position`] is the lap in which it was written and its first line, as one number that
//! only grows; so no two entries have the same position, and a comparison with the tail shows whether the
//! entry is still there.
//!
//! # Why a reader without a lock never accepts wrong bytes
//!
//! The writer, which holds the mutex of the shard, does
//!
//! ```text
//! W1  tail.store(past freed lines)       Relaxed
//! W2  fence                              Release
//! W3  words of the freed lines           Relaxed
//! W4  slot.store(position)               Release
//! ```
//!
//! and a reader
//!
//! ```text
//! R1  slot.load() == position            Acquire
//! R2  words at the position              Relaxed
//! R3  fence                              Acquire
//! R4  tail.load(); the entry is valid if position >= tail
//! ```
//!
//! *The bytes are not older than the entry.* R1 reads from W4, or from a later exchange of the slot (readers
//! count uses there), which belongs to the same release sequence. Either way W4 synchronises with R1, so W3
//! happens before R2, and by coherence R2 reads the words of W3 or later ones.
//!
//! *They are not newer, or the reader notices.* Let a word of R2 be from the W3 of a later entry in these
//! lines. That writer had moved the tail past our entry before: W1, earlier in its own program order or, if
//! another thread did it, earlier by way of the mutex. Its fence W2 is between W1 and W3, since every
//! [`Log::write`] begins with it. R2 reads a value stored after the release fence W2, and the acquire fence
//! R3 follows R2; so W2 synchronises with R3, W1 happens before R4, and R4 reads a tail beyond the position.
//! The reader then discards what it has read.
//!
//! Until R4 a reader may see any mixture of words. It must not trust a length that it has read, nor loop by
//! one; it checks once after head and name of the entry, and once more after the rest.
//!
//! Lap numbers wrap around after many years of writing. Positions are compared as serial numbers (RFC 1982),
//! so only a reader that sleeps between R1 and R4 for half of all laps would be deceived.
//!
//! The test `orders` runs writer and readers in every order that the memory model allows.

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::lines::{Lines, Start, WORDS};

/// Bits of a position.
pub(crate) const POSITION_BITS: u32 = 46;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;

/// Start of an entry in a log: the lap in the upper bits, the line in the lower ones, as many as the log's
/// length needs. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position(pub(crate) u64);

/// A ring of lines in a block. The block is passed to each function.
pub(crate) struct Log {
    /// The first line of the ring.
    start: Start,
    /// Number of lines.
    capacity: usize,
    /// Number of bits of a position that hold the line, and their mask.
    line_bits: u32,
    line_mask: u64,
    /// The position of the oldest entry, for readers.
    tail: AtomicU64,
}

/// Head and tail of a log, protected by the mutex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    head: Position,
    tail: Position,
    /// The line at which the lap before the head's lap ended.
    lap_end: usize,
}

impl Log {
    /// Creates an empty log of `capacity` lines (fewer than 2^32) from `start` on. Its first position is in
    /// `lap`, which must not be 0.
    pub(crate) fn new(start: Start, capacity: usize, lap: u64) -> (Self, Ends) {
        // The head can be behind the last line, so that number must fit, too.
        let line_bits = usize::BITS - capacity.leading_zeros();
        let first = Position((lap << line_bits) & POSITION_MASK);
        let line_mask = (1 << line_bits) - 1;
        let log = Log { start, capacity, line_bits, line_mask, tail: AtomicU64::new(first.0) };
        (log, Ends { head: first, tail: first, lap_end: capacity })
    }

    /// Returns a lap that is three laps before the wrap-around, for tests.
    #[cfg(test)]
    pub(crate) fn last_laps(capacity: usize) -> u64 {
        (POSITION_MASK >> (usize::BITS - capacity.leading_zeros())) - 3
    }

    #[inline]
    fn line(&self, at: Position) -> usize {
        (at.0 & self.line_mask) as usize
    }

    fn lap(&self, at: Position) -> u64 {
        at.0 >> self.line_bits
    }

    fn position(&self, lap: u64, line: usize) -> Position {
        Position(lap << self.line_bits | line as u64)
    }

    /// Returns the lap after that of `at`; skips 0, so that no position is 0.
    fn next_lap(&self, at: Position) -> u64 {
        let lap = (self.lap(at) + 1) & (POSITION_MASK >> self.line_bits);
        lap.max(1)
    }

    /// Returns the words from `at` on: those of the entry and all behind it.
    #[inline]
    pub(crate) fn words<'l>(&self, lines: &'l Lines, at: Position) -> &'l [AtomicU64] {
        lines.from(self.start, self.line(at))
    }

    /// Prefetches the first two lines at `at`; the second may belong to another entry.
    #[inline]
    pub(crate) fn prefetch(&self, lines: &Lines, at: Position) {
        let line = self.line(at);
        lines.prefetch(self.start, line);
        lines.prefetch(self.start, line + 1);
    }

    /// Whether all words read so far at `at` are those of its entry: steps R3 and R4.
    #[inline]
    pub(crate) fn holds(&self, at: Position) -> bool {
        fence(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        at.0.wrapping_sub(tail) & POSITION_MASK < 1 << (POSITION_BITS - 1)
    }

    /// Returns where an entry of `lines` lines can be written; `None` if another must be freed first.
    pub(crate) fn fits(&self, ends: &Ends, lines: usize) -> Option<Position> {
        let (head, tail) = (self.line(ends.head), self.line(ends.tail));
        if self.lap(ends.head) != self.lap(ends.tail) {
            return (head + lines <= tail).then_some(ends.head);
        }
        if head + lines <= self.capacity {
            return Some(ends.head);
        }
        (lines <= tail).then(|| self.position(self.next_lap(ends.head), 0))
    }

    /// Takes `lines` lines at `at`, which [`fits`](Self::fits) has returned.
    pub(crate) fn take(&self, ends: &mut Ends, at: Position, lines: usize) {
        if self.lap(at) != self.lap(ends.head) {
            ends.lap_end = self.line(ends.head);
            if ends.tail == ends.head {
                // The log was empty: the lap that ends has no entries left.
                self.move_tail(ends, at);
            }
        }
        ends.head = Position(at.0 + lines as u64);
    }

    /// Returns the oldest entry; `None` if the log is empty.
    pub(crate) fn oldest(&self, ends: &Ends) -> Option<Position> {
        (ends.head != ends.tail).then_some(ends.tail)
    }

    /// Frees the oldest entry, which has `lines` lines: step W1.
    pub(crate) fn free(&self, ends: &mut Ends, lines: usize) {
        let next = Position(ends.tail.0 + lines as u64);
        let lap_is_over = self.lap(ends.head) != self.lap(next) && self.line(next) >= ends.lap_end;
        self.move_tail(ends, if lap_is_over { self.position(self.next_lap(next), 0) } else { next });
    }

    fn move_tail(&self, ends: &mut Ends, to: Position) {
        ends.tail = to;
        self.tail.store(to.0, Ordering::Relaxed);
    }

    /// Starts a new lap in an empty log, which is then one free run.
    pub(crate) fn restart(&self, ends: &mut Ends) {
        let start = self.position(self.next_lap(ends.head), 0);
        ends.head = start;
        self.move_tail(ends, start);
    }

    /// Writes the words of an entry: steps W2 and W3. The caller then stores the slot, W4.
    pub(crate) fn write(&self, lines: &Lines, at: Position, words: impl Iterator<Item = u64>) {
        fence(Ordering::Release);
        for (to, word) in self.words(lines, at).iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// Copies an entry of `size` lines from a log of the same block. If that is this log, the entry has just
    /// been freed, and so `at` is not behind it in memory, and each word is read before it is overwritten.
    pub(crate) fn write_from(&self, lines: &Lines, at: Position, from: &Log, source: Position, size: usize) {
        let words = from.words(lines, source).iter().map(|word| word.load(Ordering::Relaxed));
        self.write(lines, at, words.take(size * WORDS));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A log of `capacity` lines, with one more line of its block before and behind it.
    fn log(capacity: usize, lap: u64) -> (Lines, Log, Ends) {
        let block = Lines::new(capacity + 2);
        let (log, ends) = Log::new(block.first().after(1), capacity, lap);
        (block, log, ends)
    }

    /// Writes an entry whose words are all `mark`, and frees others as needed.
    fn push(
        block: &Lines,
        log: &Log,
        ends: &mut Ends,
        held: &mut VecDeque<(Position, usize, u64)>,
        lines: usize,
        mark: u64,
    ) {
        let at = loop {
            if let Some(at) = log.fits(ends, lines) {
                break at;
            }
            match held.pop_front() {
                Some((oldest, size, _)) => {
                    assert_eq!(log.oldest(ends), Some(oldest));
                    log.free(ends, size);
                    assert!(!log.holds(oldest));
                }
                None => {
                    assert_eq!(log.oldest(ends), None);
                    log.restart(ends);
                }
            }
        };
        log.take(ends, at, lines);
        log.write(block, at, std::iter::repeat_n(mark, lines * WORDS));
        held.push_back((at, lines, mark));
    }

    fn check(block: &Lines, log: &Log, held: &VecDeque<(Position, usize, u64)>) {
        for &(at, lines, mark) in held {
            assert!(log.holds(at) && at.0 != 0);
            assert!(log.line(at) + lines <= log.capacity, "an entry runs past the end of the ring");
            let words = log.words(block, at).iter().take(lines * WORDS);
            assert!(words.into_iter().all(|word| word.load(Ordering::Relaxed) == mark));
        }
        for line in [0, log.capacity + 1] {
            let words = block.from(block.first(), line).iter().take(WORDS);
            assert!(
                words.into_iter().all(|word| word.load(Ordering::Relaxed) == 0),
                "line {line} is another's"
            );
        }
    }

    proptest! {
        #[test]
        fn entries_stay_whole_until_they_are_freed(
            sizes in prop::collection::vec(1usize..=10, 1..300),
            wraps: bool,
        ) {
            let lap = if wraps { Log::last_laps(23) } else { 1 };
            let (block, log, mut ends) = log(23, lap);
            let mut held = VecDeque::new();
            for (mark, lines) in sizes.into_iter().enumerate() {
                push(&block, &log, &mut ends, &mut held, lines, mark as u64);
                check(&block, &log, &held);
            }
        }

        /// The basis of [`Log::write_from`]: an entry that has just been freed always fits.
        #[test]
        fn the_oldest_entry_can_be_appended_again(sizes in prop::collection::vec((1usize..=10, any::<bool>()), 1..300)) {
            let (block, log, mut ends) = log(23, 1);
            let mut held = VecDeque::new();
            for (mark, (lines, again)) in sizes.into_iter().enumerate() {
                push(&block, &log, &mut ends, &mut held, lines, mark as u64);
                if again && let Some((oldest, size, old)) = held.pop_front() {
                    log.free(&mut ends, size);
                    let at = log.fits(&ends, size).expect("what was freed is enough");
                    log.take(&mut ends, at, size);
                    log.write_from(&block, at, &log, oldest, size);
                    held.push_back((at, size, old));
                }
                check(&block, &log, &held);
            }
        }
    }
}
