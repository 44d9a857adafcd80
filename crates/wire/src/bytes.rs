//! Short pieces of memory copied and compared without the call that the standard library makes for slices of
//! any length.

/// Copies `from` to `to`, which is as long. Short copies are most of an answer, and are done in place: two
/// moves that may overlap.
#[inline]
pub fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        8..=15 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        33..=64 => ends::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes, which overlap where there are fewer than `2 * N`: of 11 bytes
/// with `N` 8 those are 0 to 7 and 3 to 10.
#[inline]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        if let Some(to) = to.first_chunk_mut() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = *last;
        }
    }
}

/// Whether both are the same bytes, without the call that the standard library makes for slices of any
/// length: whole words of eight bytes, and then the last eight, which overlap the word before. Of 13 bytes
/// those are 0 to 7 and 5 to 12. From four to seven bytes, words are of four.
#[inline]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(a_last), Some(b_last)) => {
            let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
            a_last == b_last && words.into_iter().all(|(a, b)| a == b)
        }
        _ => same_few(a, b),
    }
}

/// The same for fewer than eight bytes, of which both have as many.
#[inline]
fn same_few(a: &[u8], b: &[u8]) -> bool {
    match (a.last_chunk::<4>(), b.last_chunk::<4>()) {
        (Some(a_last), Some(b_last)) => a_last == b_last && a.first_chunk::<4>() == b.first_chunk::<4>(),
        _ => a.iter().zip(b).all(|(a, b)| a == b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_are_copied() {
        for len in 0..200 {
            let from: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            let mut to = vec![0; len];
            copy(&mut to, &from);
            assert_eq!(to, from);
        }
    }

    #[test]
    fn every_byte_counts_at_every_length() {
        for len in 0..40 {
            let a: Vec<u8> = (0..len).collect();
            assert!(same(&a, &a.clone()));
            assert!(!same(&a, &[a.as_slice(), b"x"].concat()));
            for i in 0..a.len() {
                let mut b = a.clone();
                b[i] ^= 0x80;
                assert!(!same(&a, &b), "{len} bytes, {i} differs");
            }
        }
    }
}
