//! Choices read from bytes: each choice takes the next byte; after the last byte, it is the simplest one.
//! Random bytes thus make random things, a fuzzer sees what its bytes change, and fewer bytes make simpler
//! things.

/// A source of choices, read from bytes.
pub struct Choices<'c>(&'c [u8]);

impl<'c> Choices<'c> {
    /// Makes choices from these bytes.
    pub fn new(bytes: &'c [u8]) -> Self {
        Choices(bytes)
    }

    /// Splits off the choices of the next `len` bytes, or of all that are left; `self` keeps the rest.
    pub fn split_off(&mut self, len: usize) -> Choices<'c> {
        let (front, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Choices(front)
    }

    /// Whether all bytes are used up.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte, or 0 after the last one.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Returns a 16-bit number.
    pub(crate) fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Returns a number below `end`, which is at most 65,536; returns 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 | 1 => 0,
            2..=256 => self.byte() as usize % end,
            _ => self.number() as usize % end,
        }
    }

    /// Returns true with a probability of one in `times`.
    pub(crate) fn one_in(&mut self, times: u8) -> bool {
        self.byte() % times == times - 1
    }

    /// Returns one of `from`, which must not be empty.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
