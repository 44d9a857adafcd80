//! A small seeded generator and pronounceable names made from it, so that zones and queries are the same on
//! every machine. Not for anything that must be unpredictable.

/// SplitMix64: one multiply-xor chain per number, full period, any seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator whose sequence depends only on the seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound` (which must not be 0); the bias is under 2⁻³² for the bounds used here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns true with a probability of `percent` %.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the items.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Returns `length` lower-case letters.
    pub(crate) fn letters(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }
}

/// The finaliser of SplitMix64: mixes the bits of any number.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Number of indexes with different labels.
pub(crate) const LABELS: u64 = 100_000_000;

/// Returns the label with this index: 8 to 14 letters, different for every index below `LABELS`, in no
/// particular order.
///
/// The first four syllables encode a permutation of the index, so labels never collide and no table is
/// needed; up to three more come from the hash of seed and index.
pub(crate) fn label(seed: u64, index: u64) -> String {
    // 61 803 399 is coprime with 10⁸, so the multiplication permutes.
    let mut spelled = (index % LABELS).wrapping_mul(61_803_399).wrapping_add(seed % LABELS) % LABELS;
    let mut extra = mix(seed ^ index.wrapping_mul(0x9e37_79b9));
    let mut text = String::with_capacity(14);
    for _ in 0..4 {
        push_syllable(&mut text, spelled % 100);
        spelled /= 100;
    }
    for _ in 0..extra % 4 {
        extra >>= 8;
        push_syllable(&mut text, extra % 100);
    }
    text
}

fn push_syllable(text: &mut String, value: u64) {
    const CONSONANTS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";
    const VOWELS: &[u8; 5] = b"aeiou";
    text.push(char::from(CONSONANTS[(value / 5 % 20) as usize]));
    text.push(char::from(VOWELS[(value % 5) as usize]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn labels_are_distinct_and_stable() {
        let labels: HashSet<String> = (0..50_000).map(|i| label(1, i)).collect();
        assert_eq!(labels.len(), 50_000);
        assert_eq!(label(1, 7), label(1, 7));
        assert_ne!(label(1, 7), label(2, 7));
        assert!(labels.iter().all(|l| (8..=14).contains(&l.len())));
    }

    #[test]
    fn percent_is_roughly_right() {
        let mut random = Random::new(5);
        let hits = (0..10_000).filter(|_| random.percent(85)).count();
        assert!((8_300..8_700).contains(&hits), "{hits}");
    }
}
