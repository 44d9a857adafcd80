//! Serial number arithmetic (RFC 1982).

use std::cmp::Ordering;
use std::fmt;

/// A 32-bit serial number: the version of a zone (RFC 1035 §3.3.13), or a time in seconds since 1970 that
/// wraps in 2106 (RFC 4034 §3.1.5).
///
/// There is no greatest serial: 0 follows 4294967295. So serials have no total order, and the type is not
/// `Ord`; [`compare`](Self::compare) compares two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Serial(pub u32);

impl Serial {
    /// The largest number that can be added at once (RFC 1982 §3.1).
    pub const MAX_STEP: u32 = (1 << 31) - 1;

    /// Whether this serial is less than, equal to or greater than `other` (RFC 1982 §3.2); `None` if they are
    /// half the number space apart, for which the RFC leaves it undefined.
    #[inline]
    pub fn compare(self, other: Serial) -> Option<Ordering> {
        match self.0.wrapping_sub(other.0) {
            0 => Some(Ordering::Equal),
            1..=Self::MAX_STEP => Some(Ordering::Greater),
            0x8000_0000 => None,
            _ => Some(Ordering::Less),
        }
    }

    /// The serial plus `step` (RFC 1982 §3.1); `None` if `step` exceeds [`MAX_STEP`](Self::MAX_STEP), for
    /// which the sum would not be greater.
    #[inline]
    pub fn plus(self, step: u32) -> Option<Serial> {
        if step <= Self::MAX_STEP { Some(Serial(self.0.wrapping_add(step))) } else { None }
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counting_goes_on_behind_the_last_number() {
        assert_eq!(Serial(u32::MAX).plus(1), Some(Serial(0)));
        assert_eq!(Serial(0).compare(Serial(u32::MAX)), Some(Ordering::Greater));
        assert_eq!(Serial(7).compare(Serial(7)), Some(Ordering::Equal));
    }

    /// RFC 1982 §5.1, with 32 bits in place of two: the corollaries of §4 that hold for every width.
    #[test]
    fn numbers_half_the_space_apart_have_no_order() {
        let (a, b) = (Serial(1), Serial(1 + (1 << 31)));
        assert_eq!((a.compare(b), b.compare(a)), (None, None));
        assert_eq!(a.plus(Serial::MAX_STEP + 1), None);
    }

    proptest! {
        #[test]
        fn what_is_added_to_comes_before_the_sum(serial: u32, step in 1..=Serial::MAX_STEP) {
            let (serial, sum) = (Serial(serial), Serial(serial).plus(step).expect("a step"));
            prop_assert_eq!(serial.compare(sum), Some(Ordering::Less));
            prop_assert_eq!(sum.compare(serial), Some(Ordering::Greater));
        }
    }
}
