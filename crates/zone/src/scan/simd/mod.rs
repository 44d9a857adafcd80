//! Classifies the bytes of a zone file: bitmaps for 64 bytes at a time.
//!
//! All `unsafe` code of the scanner is in the vector versions in [`x86`]. The plain version returns the same.
//! It is used on processors without a supported vector unit, and the tests compare the others with it.
//! [`super::index`] interprets the bitmaps together (quotes, comments, escapes).

#[cfg(target_arch = "x86_64")]
mod x86;

/// Bytes per block, one bit each in a [`Masks`].
pub(super) const BLOCK: usize = 64;
/// Blocks classified at a time: the masks of one batch stay in the nearest cache.
pub(super) const BATCH: usize = 64;

/// The bytes with a meaning in one block; bit 0 is its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks {
    /// Space, tab, carriage return.
    pub(super) blank: u64,
    /// Line feed.
    pub(super) newline: u64,
    /// `"` `;` `(` `)` `\` and NUL.
    pub(super) special: u64,
}

/// Bits of [`CLASS`].
pub(super) const BLANK: u8 = 1;
/// See [`BLANK`].
pub(super) const NEWLINE: u8 = 2;
/// See [`BLANK`].
pub(super) const SPECIAL: u8 = 4;

/// The class of every byte value; 0 is an ordinary byte.
pub(super) const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    class[b' ' as usize] = BLANK;
    class[b'\t' as usize] = BLANK;
    class[b'\r' as usize] = BLANK;
    class[b'\n' as usize] = NEWLINE;
    class[b'"' as usize] = SPECIAL;
    class[b';' as usize] = SPECIAL;
    class[b'(' as usize] = SPECIAL;
    class[b')' as usize] = SPECIAL;
    class[b'\\' as usize] = SPECIAL;
    class[0] = SPECIAL;
    class
};

/// The instruction set for classification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// No vector instructions.
    Plain,
    /// SSE2, which every x86-64 has.
    #[cfg(target_arch = "x86_64")]
    Sse2,
    /// AVX2, found at run time.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Level {
    /// Returns the fastest level of this machine.
    pub(super) fn detect() -> Self {
        Self::available().last().copied().unwrap_or(Level::Plain)
    }

    /// Returns all levels of this machine, slowest first.
    pub(super) fn available() -> &'static [Level] {
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx2() {
                return &[Level::Plain, Level::Sse2, Level::Avx2];
            }
            &[Level::Plain, Level::Sse2]
        }
        #[cfg(not(target_arch = "x86_64"))]
        &[Level::Plain]
    }

    /// Classifies `bytes` block by block into `masks`, up to the shorter of both; skips a last part of less
    /// than a block.
    pub(super) fn classify(self, bytes: &[u8], masks: &mut [Masks; BATCH]) {
        let (blocks, _) = bytes.as_chunks::<BLOCK>();
        match self {
            Level::Plain => classify_plain(blocks, masks),
            #[cfg(target_arch = "x86_64")]
            Level::Sse2 => x86::classify_sse2(blocks, masks),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::classify_avx2(blocks, masks),
        }
    }
}

fn classify_plain(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
    for (block, masks) in blocks.iter().zip(masks) {
        let mut found = Masks::default();
        for (i, &byte) in block.iter().enumerate() {
            let class = u64::from(CLASS[byte as usize]);
            found.blank |= (class & 1) << i;
            found.newline |= (class >> 1 & 1) << i;
            found.special |= (class >> 2 & 1) << i;
        }
        *masks = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn masks(level: Level, bytes: &[u8]) -> Vec<Masks> {
        let mut masks = [Masks { blank: 7, newline: 7, special: 7 }; BATCH];
        level.classify(bytes, &mut masks);
        masks.to_vec()
    }

    #[test]
    fn every_byte_value_in_every_place() {
        for value in 0..=255u8 {
            for at in 0..BLOCK {
                let mut block = [b'a'; BLOCK];
                block[at] = value;
                let bit = |class: u8| u64::from(CLASS[value as usize] & class != 0) << at;
                let want = Masks { blank: bit(BLANK), newline: bit(NEWLINE), special: bit(SPECIAL) };
                for &level in Level::available() {
                    assert_eq!(masks(level, &block)[0], want, "{value:#x} at {at} by {level:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn vector_and_plain_agree(bytes in proptest::collection::vec(any::<u8>(), 0..1000)) {
            let plain = masks(Level::Plain, &bytes);
            for &level in Level::available() {
                prop_assert_eq!(&plain, &masks(level, &bytes));
            }
        }
    }
}
