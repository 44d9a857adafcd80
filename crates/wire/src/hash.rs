//! One pass over a name gives its lower-case form, its label offsets and the keyed hash of every suffix.
//!
//! The hash of a name is folded label by label from the root, so that the hash of `www.example.com`
//! passes through those of `com` and `example.com`: the zone, the closest encloser and the wildcard of a
//! question are found without hashing again. Keys are secret per process, so that nobody outside can
//! choose names that collide (hash flooding).

use crate::name::{MAX_LABELS, Name};

/// The secret behind all name hashes of one process.
#[derive(Clone, Copy)]
pub struct HashKey([u64; 3]);

impl HashKey {
    /// A key made of 24 secret octets.
    pub fn new(secret: [u64; 3]) -> Self {
        // Odd multipliers keep the folded multiplication from losing low bits.
        HashKey([secret[0] | 1, secret[1] | 1, secret[2]])
    }

    /// A key from the standard library's per-process random state; no two calls give the same.
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        HashKey::new([1u64, 2, 3].map(|i| RandomState::new().hash_one(i)))
    }

    /// The hash of the root: where every fold begins.
    #[inline]
    pub fn root(&self) -> u64 {
        self.0[2]
    }

    /// Folds one more lower-case label in front of the suffix hashed to `suffix`.
    #[inline]
    pub fn child(&self, suffix: u64, label: &[u8]) -> u64 {
        let mut h = suffix ^ (label.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut words = label.chunks_exact(8);
        for word in &mut words {
            let mut w = [0; 8];
            w.copy_from_slice(word);
            h = fold(u64::from_le_bytes(w) ^ self.0[0], h ^ self.0[1]);
        }
        fold(tail_word(words.remainder()) ^ self.0[1], h ^ self.0[0])
    }

    /// The hash of a whole name that is already lower-case.
    pub fn name(&self, lower: Name<'_>) -> u64 {
        let mut hashed = HashedName::new();
        hashed.set(self, lower);
        hashed.hash(0)
    }
}

/// Up to seven octets as one word, without a byte-wise loop.
#[inline]
fn tail_word(tail: &[u8]) -> u64 {
    match tail.len() {
        0 => 0,
        n @ 1..=3 => tail[0] as u64 | (tail[n / 2] as u64) << 8 | (tail[n - 1] as u64) << 16,
        n => {
            let word =
                |at: usize| u32::from_le_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]) as u64;
            word(0) | word(n - 4) << 32
        }
    }
}

/// Folded multiplication: both halves of the 128-bit product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A name ready to be looked up: lower-case, with label offsets and every suffix's hash.
///
/// Meant to be kept and set again for each question; nothing is cleared between uses.
pub struct HashedName {
    len: u8,
    labels: u8,
    lower: [u8; 256],
    offsets: [u8; MAX_LABELS + 1],
    hashes: [u64; MAX_LABELS + 1],
}

impl Default for HashedName {
    fn default() -> Self {
        Self::new()
    }
}

impl HashedName {
    /// The root, under no key: call [`set`](Self::set) before looking anything up.
    pub fn new() -> Self {
        let (offsets, hashes) = ([0; MAX_LABELS + 1], [0; MAX_LABELS + 1]);
        HashedName { len: 1, labels: 0, lower: [0; 256], offsets, hashes }
    }

    /// Takes `name`, lowers it and hashes all its suffixes.
    #[inline]
    pub fn set(&mut self, key: &HashKey, name: Name<'_>) {
        let wire = name.as_wire();
        self.len = wire.len() as u8;
        lower_into(wire, &mut self.lower);
        let (mut at, mut n) = (0usize, 0usize);
        while self.lower[at] != 0 && n < MAX_LABELS {
            self.offsets[n] = at as u8;
            n += 1;
            at += self.lower[at] as usize + 1;
        }
        self.offsets[n] = at as u8;
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

    /// Number of labels, the root not counted.
    #[inline]
    pub fn label_count(&self) -> usize {
        self.labels as usize
    }

    /// The lower-case name without its `skip` leftmost labels.
    #[inline]
    pub fn suffix(&self, skip: usize) -> &[u8] {
        &self.lower[self.offset(skip)..self.len as usize]
    }

    /// Offset in octets of the suffix without its `skip` leftmost labels.
    #[inline]
    pub fn offset(&self, skip: usize) -> usize {
        self.offsets[skip.min(self.labels as usize)] as usize
    }

    /// The hash of that suffix.
    #[inline]
    pub fn hash(&self, skip: usize) -> u64 {
        self.hashes[skip.min(self.labels as usize)]
    }

    /// The lower-case name.
    pub fn as_name(&self) -> Name<'_> {
        Name::parse(&self.lower[..self.len as usize]).unwrap_or(Name::ROOT)
    }
}

/// Copies `wire` in lower case, eight octets at a time; octets beyond its end in `to` are left undefined.
///
/// Length octets are below 64 and so never in `A`..=`Z`: a whole wire name can be lowered blindly.
#[inline]
fn lower_into(wire: &[u8], to: &mut [u8; 256]) {
    let (words, rest) = wire.as_chunks::<8>();
    for (to, word) in to.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = lower_word(u64::from_le_bytes(*word)).to_le_bytes();
    }
    if rest.is_empty() {
        return;
    }
    let at = wire.len() - rest.len();
    match wire.last_chunk::<8>() {
        // The last word again, overlapping the one before it.
        Some(last) => {
            to[wire.len() - 8..wire.len()]
                .copy_from_slice(&lower_word(u64::from_le_bytes(*last)).to_le_bytes());
        }
        None => to[at..at + rest.len()]
            .iter_mut()
            .zip(rest)
            .for_each(|(to, octet)| *to = octet.to_ascii_lowercase()),
    }
}

/// Lowers eight octets at once.
#[inline]
fn lower_word(w: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low7 = w & (0x7f * ONES);
    let above_z = low7 + (0x7f - b'Z' as u64) * ONES;
    let from_a = low7 + (0x80 - b'A' as u64) * ONES;
    let upper = (above_z ^ from_a) & !w & (0x80 * ONES);
    w | upper >> 2
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
            let mut suffix = name.as_name().skip(skip).to_buf();
            suffix.make_lower();
            assert_eq!(hashed.hash(skip), key().name(suffix.as_name()));
            assert_eq!(hashed.suffix(skip), suffix.as_name().as_wire());
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
        fn words_are_lowered_as_octets_are(w: u64) {
            let mut octets = w.to_le_bytes();
            octets.make_ascii_lowercase();
            prop_assert_eq!(lower_word(w).to_le_bytes(), octets);
        }

        #[test]
        fn short_labels_never_share_a_tail_word_at_one_length(a: [u8; 7], b: [u8; 7], n in 1usize..8) {
            prop_assert_eq!(tail_word(&a[..n]) == tail_word(&b[..n]), a[..n] == b[..n]);
        }
    }
}
