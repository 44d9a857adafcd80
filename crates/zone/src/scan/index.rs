//! Turns bytes into the offsets where tokens begin or end: the scanner's first stage.
//!
//! The index has one entry for each byte offset that matters, in ascending order:
//!
//! - the first byte of a word, and the first byte after it. A word is a run of bytes without blanks and
//!   structural characters; an escaped character belongs to its word. The byte after a word is a blank or
//!   `;`, which has no entry of its own, or a structural character, whose entry serves both.
//! - every structural character: line feed, `(`, `)`, the quotes around a string, NUL.
//!
//! Nothing inside a comment or a quoted string has an entry, except NUL in a string. A line feed ends both,
//! and cannot be escaped: a missing quote affects one line, not the rest of the file. [`super::lex`] and
//! [`super::entry`] interpret the offsets as tokens and records.

use super::simd::{BATCH, BLOCK, Level, Masks};

/// The context of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Quote,
    Comment,
}

/// The first stage, with its state between blocks.
#[derive(Debug)]
pub(super) struct Indexer {
    level: Level,
    mode: Mode,
    /// The last byte was a backslash that escapes the next.
    escaped: bool,
    /// The last byte belonged to a word.
    in_word: bool,
}

impl Indexer {
    /// Returns an indexer at the start of a line.
    pub(super) fn new(level: Level) -> Self {
        Indexer { level, mode: Mode::Plain, escaped: false, in_word: false }
    }

    /// Resets the state: the next byte starts a line.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.level);
    }

    /// Appends the entries of `bytes` to `index`, with offsets counted from `base`. Returns the number of
    /// bytes read: whole blocks of 64 only. Offsets must fit into 32 bits.
    pub(super) fn run(&mut self, bytes: &[u8], base: u32, index: &mut Vec<u32>) -> usize {
        let mut masks = [Masks::default(); BATCH];
        let mut base = base;
        for batch in bytes.chunks(BATCH * BLOCK) {
            self.level.classify(batch, &mut masks);
            for (block, masks) in batch.as_chunks::<BLOCK>().0.iter().zip(&masks) {
                let bits = self.block(block, masks);
                let mut left = bits;
                index.extend((0..bits.count_ones()).map(|_| {
                    let at = base + left.trailing_zeros();
                    left &= left.wrapping_sub(1); // clears the lowest bit: 0b10100 becomes 0b10000
                    at
                }));
                base += BLOCK as u32;
            }
        }
        bytes.len() / BLOCK * BLOCK
    }

    /// Returns the entries of one block as a bitmap.
    ///
    /// A word begins or ends where a bit differs from the one before. For `ab c`, first byte on the left:
    ///
    /// ```text
    /// words          1 1 0 1
    /// the one before 0 1 1 0     (words shifted by one byte; the first bit is that of the last block's end)
    /// edges          1 0 1 1     a begins, the blank ends the word, c begins
    /// ```
    #[inline]
    fn block(&mut self, block: &[u8; BLOCK], masks: &Masks) -> u64 {
        let ordinary = !(masks.blank | masks.newline | masks.special);
        let (words, structural) = if masks.special == 0 && self.mode == Mode::Plain && !self.escaped {
            (ordinary, masks.newline)
        } else {
            self.careful(block, masks, ordinary)
        };
        let edges = words ^ (words << 1 | u64::from(self.in_word));
        self.in_word = words >> 63 == 1;
        edges | structural
    }

    /// Handles a block with quotes, comments, parentheses or escapes. Returns the bytes of words, and the
    /// structural ones.
    fn careful(&mut self, block: &[u8; BLOCK], masks: &Masks, ordinary: u64) -> (u64, u64) {
        let mut words = ordinary;
        let mut structural = masks.newline;
        let mut todo = masks.newline | masks.special;
        let mut covered_from = 0; // first byte of the quote or comment we are in
        // A line feed or NUL cannot be escaped.
        let escapable = |i: usize| !matches!(block[i], b'\n' | 0);
        if std::mem::take(&mut self.escaped) && escapable(0) {
            todo &= !1;
            words |= 1;
        }
        while todo != 0 {
            let i = todo.trailing_zeros() as usize;
            let bit = 1u64 << i;
            todo &= !bit;
            match (self.mode, block[i]) {
                (mode, b'\n') => {
                    if mode != Mode::Plain {
                        words &= !span(covered_from, i);
                        self.mode = Mode::Plain;
                    }
                }
                (Mode::Comment, _) => {
                    let ends = todo & masks.newline;
                    // Nothing before the next line feed counts. `ends - 1 & !ends` has all bits below the
                    // lowest of `ends`: 0b10_1000 has 0b111. Without a line feed it has all bits.
                    todo &= !(ends.wrapping_sub(1) & !ends);
                }
                (_, 0) => structural |= bit,
                (_, b'\\') => {
                    words |= bit;
                    if i + 1 == BLOCK {
                        self.escaped = true;
                    } else if escapable(i + 1) {
                        todo &= !(bit << 1);
                        words |= bit << 1;
                    }
                }
                (Mode::Quote, b'"') => {
                    structural |= bit;
                    words &= !span(covered_from, i);
                    self.mode = Mode::Plain;
                }
                (Mode::Quote, _) => {}
                (Mode::Plain, b'"') => {
                    structural |= bit;
                    (self.mode, covered_from) = (Mode::Quote, i);
                }
                (Mode::Plain, b';') => (self.mode, covered_from) = (Mode::Comment, i),
                (Mode::Plain, _) => structural |= bit, // a parenthesis
            }
        }
        if self.mode != Mode::Plain {
            words &= !span(covered_from, BLOCK);
        }
        (words, structural)
    }
}

/// Returns the bits `from..to`, `to` at most 64.
fn span(from: usize, to: usize) -> u64 {
    let below = |n: usize| if n >= BLOCK { u64::MAX } else { (1 << n) - 1 };
    below(to) & !below(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same byte by byte: the oracle.
    fn oracle(bytes: &[u8]) -> Vec<u32> {
        let (mut mode, mut escaped, mut in_word, mut index) = (Mode::Plain, false, false, Vec::new());
        for (at, &byte) in bytes.iter().enumerate() {
            let (mut word, mut structural) = (false, false);
            match (mode, byte) {
                (_, b'\n') => (structural, mode, escaped) = (true, Mode::Plain, false),
                (Mode::Comment, _) => {}
                (_, 0) => (structural, escaped) = (true, false),
                (_, _) if escaped => (word, escaped) = (mode == Mode::Plain, false),
                (_, b'\\') => (word, escaped) = (mode == Mode::Plain, true),
                (Mode::Quote, b'"') => (structural, mode) = (true, Mode::Plain),
                (Mode::Quote, _) => {}
                (Mode::Plain, b'"') => (structural, mode) = (true, Mode::Quote),
                (Mode::Plain, b';') => mode = Mode::Comment,
                (Mode::Plain, b'(' | b')') => structural = true,
                (Mode::Plain, b' ' | b'\t' | b'\r') => {}
                (Mode::Plain, _) => word = true,
            }
            if structural || word != in_word {
                index.push(at as u32);
            }
            in_word = word;
        }
        index
    }

    fn index(level: Level, bytes: &[u8], steps: usize) -> Vec<u32> {
        let (mut indexer, mut index, mut at) = (Indexer::new(level), Vec::new(), 0);
        while bytes.len() - at >= BLOCK {
            let end = bytes.len().min(at + steps * BLOCK);
            at += indexer.run(&bytes[at..end], at as u32, &mut index);
        }
        index
    }

    fn check(bytes: &[u8]) {
        let whole = &bytes[..bytes.len() / BLOCK * BLOCK];
        let want = oracle(whole);
        for &level in Level::available() {
            for steps in [1, 3, 1000] {
                assert_eq!(index(level, bytes, steps), want, "{level:?}, {steps} blocks a step");
            }
        }
    }

    #[test]
    fn quotes_comments_and_escapes_cross_block_edges() {
        for pad in 0..130 {
            for text in [
                "\"a;b(\\\"\"c",
                "a\\ b\\;c;d\"e\nf",
                "\\\\\"x\\\\\" y",
                "\"open\nx",
                "x;\\\ny",
                "a\\\nb\0\\\0c",
            ] {
                let text = format!("{}{text}{}", "x ".repeat(pad / 2) + &"y"[..pad % 2], "\n".repeat(130));
                check(text.as_bytes());
            }
        }
    }

    proptest! {
        #[test]
        fn same_as_the_oracle_on_structured_noise(
            picks in proptest::collection::vec(0usize..16, 0..2000),
        ) {
            const BYTES: &[u8; 16] = b"aaaab.\\\\\"\";  \n(\0";
            check(&picks.iter().map(|&i| BYTES[i]).collect::<Vec<_>>());
        }

        #[test]
        fn same_as_the_oracle_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            check(&bytes);
        }
    }
}
