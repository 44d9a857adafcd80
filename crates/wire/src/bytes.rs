//! Copying and comparing short byte slices without the library call that handles slices of any length.

/// Copies `from` to `to`, which has the same length. Most copies of a response are short and are done inline,
/// by two moves that may overlap.
#[inline]
pub fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        8..=15 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        33..=64 => ends::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes, which overlap if there are fewer than `2 * N`: of 11 bytes with
/// `N` = 8, bytes 0 to 7 and 3 to 10.
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

/// Whether both slices are equal. Avoids the library call for slices of any length: compares words of eight
/// bytes, then the last eight, which overlap the previous word. Of 13 bytes these are 0 to 7 and 5 to 12. For
/// four to seven bytes, words of four bytes are used.
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

/// [`same`] for two slices of equal length below eight bytes.
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
