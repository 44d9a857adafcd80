//! Choices made from bytes: each takes the next byte, and where there is none left, it is the plainest. So
//! random bytes make random things, a fuzzer learns what its bytes do, and fewer bytes make something
//! simpler.

/// Choices, read from bytes.
pub struct Choices<'c>(&'c [u8]);

impl<'c> Choices<'c> {
    /// Choices that these bytes make.
    pub fn new(bytes: &'c [u8]) -> Self {
        Choices(bytes)
    }

    /// The choices that the next `len` bytes make, or all there are; those behind them are left.
    pub fn split_off(&mut self, len: usize) -> Choices<'c> {
        let (front, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Choices(front)
    }

    /// Whether there are no bytes left.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 behind the last one.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number of 16 bits.
    pub(crate) fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// A number below `end`, which is at most 65,536; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 | 1 => 0,
            2..=256 => self.byte() as usize % end,
            _ => self.number() as usize % end,
        }
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, times: u8) -> bool {
        self.byte() % times == times - 1
    }

    /// One of these, of which there is at least one.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
