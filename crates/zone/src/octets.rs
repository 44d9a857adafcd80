//! Comparing names as octets, without the call that the standard library makes for slices of any length.

/// Whether both are the same octets.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        // All whole words, then the last eight octets, which may overlap them.
        (Some(a_last), Some(b_last)) => {
            let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
            a_last == b_last && words.into_iter().all(|(a, b)| a == b)
        }
        _ => a.iter().zip(b).all(|(a, b)| a == b),
    }
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn every_octet_counts_at_every_length() {
        for len in 0..40 {
            let a: Vec<u8> = (0..len).collect();
            assert!(same(&a, &a.clone()));
            assert!(!same(&a, &[a.as_slice(), b"x"].concat()));
            for i in 0..a.len() {
                let mut b = a.clone();
                b[i] ^= 0x80;
                assert!(!same(&a, &b), "{len} octets, {i} differs");
            }
        }
    }
}
