//! Unpredictable random numbers.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// The source of IDs, letter case, cookies and the choice of servers. Outside of tests it must be
/// cryptographically secure (RFC 5452 §9.2).
pub trait Random: Send + 'static {
    /// Returns 32 random bits.
    fn next_u32(&mut self) -> u32;

    /// Returns a nearly uniform number below `n`; 0 if `n` is 0.
    fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// Returns random bytes.
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(4) {
            let word = self.next_u32().to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        bytes
    }
}

/// A random number generator based on ChaCha20.
pub struct ChaCha(ChaCha20Rng);

impl ChaCha {
    /// A generator with a seed of 32 bytes from the system.
    pub fn new(seed: [u8; 32]) -> Self {
        ChaCha(ChaCha20Rng::from_seed(seed))
    }
}

impl Random for ChaCha {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_below_their_bound_and_reach_all_of_it() {
        let mut random = ChaCha::new([7; 32]);
        let mut seen = [false; 20];
        for _ in 0..2000 {
            seen[random.below(20) as usize] = true;
        }
        assert!(seen.iter().all(|&seen| seen));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn bytes_of_any_length_are_all_random() {
        let mut random = ChaCha::new([7; 32]);
        let mut or = [0u8; 7];
        for _ in 0..200 {
            let bytes: [u8; 7] = random.bytes();
            or.iter_mut().zip(bytes).for_each(|(or, byte)| *or |= byte);
        }
        assert_eq!(or, [0xff; 7]);
    }
}
