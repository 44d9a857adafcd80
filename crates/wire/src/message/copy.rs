//! Short copies without the call that the standard library makes for slices of any length.

/// Copies `from` to `to`, which is as long. Short copies are most of an answer, and are done in place: two moves
/// that may overlap.
#[inline]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        8..=15 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        33..=64 => ends::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes, which overlap where there are fewer than `2 * N`: of 11 bytes with `N` 8
/// those are 0 to 7 and 3 to 10.
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
}
