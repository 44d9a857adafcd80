//! The classification of [`super`] with SSE2 and AVX2. The scanner has no other `unsafe` code.
//!
//! SSE2 compares 16 bytes with each character that has a meaning; AVX2 looks up the classes of 32 bytes at
//! once. The instructions themselves are safe functions. The proofs are that memory may be read, and that
//! AVX2 is used only where it exists.

use super::{BLOCK, Masks};
use std::arch::x86_64::*;

/// Whether the processor and the system have AVX2.
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// As [`super::classify_plain`], 32 bytes at a time.
///
/// Must be called only where [`has_avx2`] returns true; panics elsewhere.
pub(super) fn classify_avx2(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
    assert!(has_avx2(), "AVX2 chosen without AVX2"); // one read of a cached flag for 4 KiB of text
    // SAFETY: `avx2_blocks` requires only AVX2, which the line above has checked.
    unsafe { avx2_blocks(blocks, masks) }
}

/// A byte is classified by two tables of 16 entries, one for its low nibble and one for its high nibble: the
/// common bits of both entries are its class. One instruction looks up 32 nibbles in a table.
///
/// | bit | characters | high nibble | low nibbles |
/// |---|---|---|---|
/// | 0 | line feed | 0 | a |
/// | 1 | tab, carriage return | 0 | 9 d |
/// | 2 | space | 2 | 0 |
/// | 3 | `"` `(` `)` | 2 | 2 8 9 |
/// | 4 | `;` | 3 | b |
/// | 5 | `\` | 5 | c |
/// | 6 | NUL | 0 | 0 |
///
/// `;` is 0x3b: `low[0xb]` has bit 4, `high[3]` has bit 4, so its class is bit 4, which counts as special.
/// `+` is 0x2b: `low[0xb]` has bit 4, `high[2]` has bits 2 and 3, no common bit, so it is an ordinary byte.
/// `)` is 0x29: `low[9]` has bits 1 and 3, `high[2]` bits 2 and 3, so its class is bit 3.
#[target_feature(enable = "avx2")]
fn avx2_blocks(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
    let low = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0b100_0100, 0, 0b1000, 0, 0, 0, 0, 0, 0b1000, 0b1010, 0b1, 0b1_0000, 0b10_0000, 0b10, 0, 0,
    ));
    let high = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0b100_0011, 0, 0b1100, 0b1_0000, 0, 0b10_0000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ));
    let nibble = _mm256_set1_epi8(0x0f);
    let half = |half: &[u8; 32]| {
        // SAFETY: `half` points to 32 readable bytes, and `loadu` needs no alignment.
        let bytes = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
        // The instruction uses the low nibble of a byte, and returns 0 for a byte of 0x80 and above: no
        // class.
        let by_low = _mm256_shuffle_epi8(low, bytes);
        let by_high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
        let class = _mm256_and_si256(by_low, by_high);
        // One bit for each byte that has any of the classes `of`.
        let bits = |of: i8| {
            let others =
                _mm256_cmpeq_epi8(_mm256_and_si256(class, _mm256_set1_epi8(of)), _mm256_setzero_si256());
            !_mm256_movemask_epi8(others) as u32
        };
        (bits(0b110), bits(0b1), bits(0b111_1000))
    };
    for (block, masks) in blocks.iter().zip(masks) {
        let ([first, second], _) = block.as_chunks::<32>() else { continue };
        let (first, second) = (half(first), half(second));
        let join = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
        *masks = Masks {
            blank: join(first.0, second.0),
            newline: join(first.1, second.1),
            special: join(first.2, second.2),
        };
    }
}

/// As [`super::classify_plain`], 16 bytes at a time.
pub(super) fn classify_sse2(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
    // SAFETY: `sse2_blocks` requires only SSE2, which is part of x86-64.
    unsafe { sse2_blocks(blocks, masks) }
}

#[target_feature(enable = "sse2")]
fn sse2_blocks(blocks: &[[u8; BLOCK]], masks: &mut [Masks]) {
    for (block, masks) in blocks.iter().zip(masks) {
        let mut found = Masks::default();
        for (i, quarter) in block.as_chunks::<16>().0.iter().enumerate() {
            let (blank, newline, special) = sse2_quarter(quarter);
            found.blank |= u64::from(blank) << (16 * i);
            found.newline |= u64::from(newline) << (16 * i);
            found.special |= u64::from(special) << (16 * i);
        }
        *masks = found;
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn sse2_quarter(quarter: &[u8; 16]) -> (u16, u16, u16) {
    // SAFETY: `quarter` points to 16 readable bytes, and `loadu` needs no alignment.
    let bytes = unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) };
    let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
    let any = |a, b| _mm_or_si128(a, b);
    let bits = |found| _mm_movemask_epi8(found) as u16;
    let blank = any(any(is(b' '), is(b'\t')), is(b'\r'));
    let quoting = any(any(is(b'"'), is(b';')), is(b'\\'));
    let special = any(any(quoting, is(0)), any(is(b'('), is(b')')));
    (bits(blank), bits(is(b'\n')), bits(special))
}
