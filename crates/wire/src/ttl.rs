//! The time for which a record may be cached (RFC 1035 §3.2.1, RFC 2181 §8).

use std::fmt;
use std::time::Duration;

/// A time to live in seconds, 0 to 2147483647.
///
/// RFC 2181 §8: a value with the most significant bit set counts as 0, whatever its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ttl(u32);

impl Ttl {
    /// Not to be cached.
    pub const ZERO: Ttl = Ttl(0);
    /// The longest TTL: 68 years.
    pub const MAX: Ttl = Ttl((1 << 31) - 1);

    /// A TTL of this many seconds; 0 if they exceed [`MAX`](Self::MAX).
    #[inline]
    pub const fn from_secs(seconds: u32) -> Ttl {
        if seconds <= Self::MAX.0 { Ttl(seconds) } else { Ttl::ZERO }
    }

    /// The TTL in seconds.
    #[inline]
    pub const fn as_secs(self) -> u32 {
        self.0
    }

    /// The TTL as a duration.
    #[inline]
    pub const fn as_duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }

    /// Parses a TTL in wire form, with the rule of [`from_secs`](Self::from_secs).
    #[inline]
    pub const fn from_be_bytes(bytes: [u8; 4]) -> Ttl {
        Ttl::from_secs(u32::from_be_bytes(bytes))
    }

    /// The TTL in wire form.
    #[inline]
    pub const fn to_be_bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for Ttl {
    /// Seconds in decimal, as in a zone file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_the_top_bit_set_are_zero() {
        assert_eq!(Ttl::from_secs(0x7fff_ffff), Ttl::MAX);
        for seconds in [0x8000_0000, 0x8000_0001, u32::MAX] {
            assert_eq!(Ttl::from_secs(seconds), Ttl::ZERO);
            assert_eq!(Ttl::from_be_bytes(seconds.to_be_bytes()), Ttl::ZERO);
        }
        assert_eq!(Ttl::from_be_bytes(Ttl::from_secs(3600).to_be_bytes()).to_string(), "3600");
    }
}
