//! Random changes of inputs.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Bytes that often stand at a limit.
const LIMITS: [u8; 10] = [0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xfe, 0xff];

/// Makes inputs from others.
pub(crate) struct Mutator {
    random: ChaCha8Rng,
    /// The most bytes of an input.
    longest: usize,
}

impl Mutator {
    /// Returns one that always makes the same inputs of the same seed.
    pub(crate) fn new(seed: u64, longest: usize) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), longest }
    }

    /// Returns a number below `end`; 0 if that is 0.
    fn below(&mut self, end: usize) -> usize {
        let number = (u64::from(self.random.next_u32()) * end as u64) >> 32;
        usize::try_from(number).expect("it is below `end`")
    }

    fn byte(&mut self) -> u8 {
        self.random.next_u32().to_le_bytes()[0]
    }

    /// Writes an input that is made from those of the corpus into `input`.
    pub(crate) fn next(&mut self, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
        input.clear();
        let first = self.below(corpus.len() + 1);
        match corpus.get(first) {
            Some(seed) => input.extend_from_slice(seed),
            // Now and then one without any likeness; without a corpus, all of them, and of any length.
            None => {
                let most = if corpus.is_empty() { self.longest } else { 256 };
                input.resize(self.below(most), 0);
                self.random.fill_bytes(input);
                if corpus.is_empty() {
                    return;
                }
            }
        }
        let few = if self.below(4) == 0 { 16 } else { 4 };
        for _ in 0..=self.below(few) {
            self.change(corpus, input);
        }
        input.truncate(self.longest);
    }

    /// Makes one change.
    fn change(&mut self, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
        let at = self.below(input.len());
        let most = 1 << self.below(6);
        let len = 1 + self.below(most);
        let end = (at + len).min(input.len());
        match self.below(10) {
            0 if !input.is_empty() => input[at] ^= 1 << self.below(8),
            1 if !input.is_empty() => input[at] = self.byte(),
            2 if !input.is_empty() => input[at] = LIMITS[self.below(LIMITS.len())],
            3 if !input.is_empty() => {
                let step = 1 + self.below(4) as u8;
                input[at] = if self.below(2) == 0 {
                    input[at].wrapping_add(step)
                } else {
                    input[at].wrapping_sub(step)
                };
            }
            // A number of two bytes: a length, a type, a pointer.
            4 if input.len() >= at + 2 => {
                let bits = 1 + self.below(16);
                let number = self.below(1 << bits) as u16;
                input[at..at + 2].copy_from_slice(&number.to_be_bytes());
            }
            5 => drop(input.drain(at..end)),
            6 => {
                let copy = input[at..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, copy);
            }
            7 => {
                let new: Vec<u8> = (0..len).map(|_| self.byte()).collect();
                input.splice(at..at, new);
            }
            8 => input.truncate(at),
            // A part of another input, in place of a part or between two.
            _ => {
                let Some(other) = corpus.get(self.below(corpus.len())) else { return };
                let from = self.below(other.len());
                let part = &other[from..(from + len).min(other.len())];
                let until = if self.below(2) == 0 { at } else { end };
                input.splice(at..until, part.iter().copied());
            }
        }
    }
}
