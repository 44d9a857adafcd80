//! Random numbers that cannot be guessed from outside.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Where the resolver gets IDs, letter case, cookies and its choice of servers from. Off the tests it must
/// be cryptographically secure (RFC 5452 §9.2).
pub trait Random: Send + 'static {
    /// 32 random bits.
    fn next_u32(&mut self) -> u32;

    /// A number below `n`, each nearly as likely as the others; 0 if `n` is 0.
    fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// Random bytes.
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(4) {
            let word = self.next_u32().to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        bytes
    }
}

/// ChaCha20 as a generator of random numbers.
pub struct ChaCha(ChaCha20Rng);

impl ChaCha {
    /// A generator seeded with 32 bytes of the system's.
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
