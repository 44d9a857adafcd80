//! The seeded random generator: the same seed makes the same zones and queries on any machine. Not for
//! secrets.

/// SplitMix64: small, fast, and good enough for test cases.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Creates a generator whose sequence depends only on `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x6e6f_6d65_6e00_0000)
    }

    /// Returns the next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..bound`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }

    /// Returns true with a probability of `percent` %.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `items`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        assert!(!items.is_empty(), "pick from nothing");
        &items[self.below(items.len())]
    }

    /// Returns a random byte.
    pub(crate) fn byte(&mut self) -> u8 {
        (self.next() >> 24) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn a_seed_decides_the_sequence() {
        let mut a = Rng::new(7);
        let mut b = Rng::new(7);
        let mut c = Rng::new(8);
        let (x, y, z): (Vec<_>, Vec<_>, Vec<_>) = (
            (0..50).map(|_| a.next()).collect(),
            (0..50).map(|_| b.next()).collect(),
            (0..50).map(|_| c.next()).collect(),
        );
        assert_eq!(x, y);
        assert_ne!(x, z);
    }
}
