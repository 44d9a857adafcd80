//! Computes the lower-case form of a name, its label offsets and the keyed hash of every suffix in one pass.
//!
//! The hash of a name is folded label by label from the root, so that the hash of `www.example.com` passes
//! through those of `com` and `example.com`: the zone, the closest encloser and the wildcard are found
//! without hashing again. Keys are secret per process, so that clients cannot choose names that collide (hash
//! flooding).

use crate::name::{LowerName, MAX_LABELS, Name, copy_lower};

/// The secret key of all name hashes of one process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u64; 3]);

/// The hash of a name under a [`HashKey`]. Hashes under different keys are unrelated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct NameHash(u64);

impl NameHash {
    /// All 64 bits, for tables that index by some of them.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The hash with these [`bits`](Self::bits), for tables that store them.
    #[inline]
    pub const fn of_bits(bits: u64) -> Self {
        NameHash(bits)
    }
}

impl HashKey {
    /// Creates a key from 24 secret bytes.
    pub fn new(secret: [u64; 3]) -> Self {
        // Odd multipliers keep the folded multiplication from losing low bits.
        HashKey([secret[0] | 1, secret[1] | 1, secret[2]])
    }

    /// Creates a key from the standard library's per-process random state; each call returns another key.
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        HashKey::new([1u64, 2, 3].map(|i| RandomState::new().hash_one(i)))
    }

    /// The hash of the root, from which every fold starts.
    #[inline]
    pub fn root(&self) -> NameHash {
        NameHash(self.0[2])
    }

    /// Folds one more lower-case label in front of the suffix hashed to `suffix`.
    #[inline]
    pub fn child(&self, suffix: NameHash, label: &[u8]) -> NameHash {
        let mut h = suffix.0 ^ (label.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (words, tail) = label.as_chunks();
        for word in words {
            h = fold(u64::from_le_bytes(*word) ^ self.0[0], h ^ self.0[1]);
        }
        NameHash(fold(tail_word(tail) ^ self.0[1], h ^ self.0[0]))
    }

    /// The hash of a whole name.
    pub fn name(&self, lower: LowerName<'_>) -> NameHash {
        let mut hashed = HashedName::new();
        hashed.set(self, lower.as_name());
        hashed.hash(0)
    }
}

/// Up to seven bytes as one word, without a loop: overlapping reads that omit no byte.
///
/// ```text
/// 0 bytes  nothing
/// 1 to 3   the first, the one in the middle, the last:   "a" is a a a,  "ab" is a b b,  "abc" is a b c
/// 4 to 7   the first four and the last four:             "abcde" is abcd bcde
/// ```
///
/// Two tails of equal length never have the same word. Those of different lengths may, such as `a` and `aa`,
/// but the length of the label is hashed, too.
#[inline]
fn tail_word(tail: &[u8]) -> u64 {
    match (tail.first_chunk(), tail.last_chunk()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => match tail {
            [] => 0,
            [first, .., last] => {
                u64::from(*first) | u64::from(tail[tail.len() / 2]) << 8 | u64::from(*last) << 16
            }
            [only] => u64::from(*only) * 0x01_0101,
        },
    }
}

/// Folded multiplication: the xor of both halves of the 128-bit product. Each bit of the result depends on
/// bits of both factors, at the cost of one multiplication.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A name prepared for lookups: in lower case, with label offsets and every suffix's hash.
///
/// Meant to be reused for each question; nothing is cleared between uses.
pub struct HashedName {
    len: u8,
    labels: u8,
    lower: [u8; 256],
    offsets: [u8; MAX_LABELS + 1],
    hashes: [NameHash; MAX_LABELS + 1],
}

impl Default for HashedName {
    fn default() -> Self {
        Self::new()
    }
}

impl HashedName {
    /// Creates the root, without a key: call [`set`](Self::set) before a lookup.
    pub fn new() -> Self {
        let (offsets, hashes) = ([0; MAX_LABELS + 1], [NameHash(0); MAX_LABELS + 1]);
        HashedName { len: 1, labels: 0, lower: [0; 256], offsets, hashes }
    }

    /// Sets the name: lowers it and hashes all its suffixes.
    #[inline]
    pub fn set(&mut self, key: &HashKey, name: Name<'_>) {
        let wire = name.as_wire();
        self.len = wire.len() as u8;
        copy_lower(wire, &mut self.lower);
        // The length of a name fits a `u8`.
        let (mut at, mut n) = (0u8, 0usize);
        while self.lower[usize::from(at)] != 0 && n < MAX_LABELS {
            self.offsets[n] = at;
            n += 1;
            at = at.wrapping_add(self.lower[usize::from(at)]).wrapping_add(1);
        }
        self.offsets[n] = at;
        self.labels = n as u8;
        let mut hash = key.root();
        self.hashes[n] = hash;
        for i in (0..n).rev() {
            let start = self.offsets[i] as usize + 1;
            let end = self.offsets[i + 1] as usize;
            hash = key.child(hash, &self.lower[start..end]);
            self.hashes[i] = hash;
        }
    }

    /// Number of labels, without the root.
    #[inline]
    pub fn label_count(&self) -> usize {
        self.labels as usize
    }

    /// The name, in lower case.
    #[inline]
    pub fn as_lower(&self) -> LowerName<'_> {
        LowerName::of_checked(&self.lower[..self.len as usize])
    }

    /// The lower-case name without its `skip` leftmost labels.
    #[inline]
    pub fn suffix(&self, skip: usize) -> LowerName<'_> {
        LowerName::of_checked(&self.lower[self.offset(skip)..self.len as usize])
    }

    /// Offset in bytes of the suffix without its `skip` leftmost labels.
    #[inline]
    pub fn offset(&self, skip: usize) -> usize {
        self.offsets[skip.min(self.labels as usize)] as usize
    }

    /// The hash of the name without its `skip` leftmost labels.
    #[inline]
    pub fn hash(&self, skip: usize) -> NameHash {
        self.hashes[skip.min(self.labels as usize)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameBuf;
    use proptest::prelude::*;

    fn key() -> HashKey {
        HashKey::new([0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211, 42])
    }

    #[test]
    fn suffix_hashes_are_those_of_the_names() {
        let name: NameBuf = "a.bcdefghij.Example.COM.".parse().expect("name");
        let mut hashed = HashedName::new();
        hashed.set(&key(), name.as_name());
        for skip in 0..=4 {
            let suffix = name.as_name().skip(skip).to_lower();
            assert_eq!(hashed.hash(skip), key().name(suffix.as_lower()));
            assert_eq!(hashed.suffix(skip), suffix.as_lower());
        }
    }

    #[test]
    fn label_boundaries_and_lengths_matter() {
        let k = key();
        let root = k.root();
        assert_ne!(k.child(root, b"ab"), k.child(k.child(root, b"b"), b"a"));
        for n in 1..20 {
            assert_ne!(k.child(root, &vec![0; n]), k.child(root, &vec![0; n + 1]), "zeros {n}");
        }
        assert_ne!(k.child(root, b"aab"), k.child(root, b"abb"));
    }

    proptest! {
        #[test]
        fn short_labels_never_share_a_tail_word_at_one_length(a: [u8; 7], b: [u8; 7], n in 1usize..8) {
            prop_assert_eq!(tail_word(&a[..n]) == tail_word(&b[..n]), a[..n] == b[..n]);
        }
    }
}
