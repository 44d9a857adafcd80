//! The clock of a cache.

/// A point in time, in seconds of a monotonic clock that starts with the program.
///
/// Callers pass the time in; no crate below the server reads a clock. Entries from a file may be older than
/// the program, so times before its start can be expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(u32);

impl Now {
    /// The start of the program. Earlier times are limited to 194 days before it.
    const START: u32 = 1 << 24;

    /// The time `seconds` after the start of the program.
    pub const fn since_start(seconds: u32) -> Now {
        Now(Self::START.saturating_add(seconds))
    }

    /// The time `seconds` later.
    #[inline]
    pub const fn plus(self, seconds: u32) -> Now {
        Now(self.0.saturating_add(seconds))
    }

    /// The time `seconds` earlier, at most 194 days before the start of the program.
    pub const fn minus(self, seconds: u32) -> Now {
        Now(self.0.saturating_sub(seconds))
    }

    /// Seconds since `earlier`; 0 if that is later.
    #[inline]
    pub const fn since(self, earlier: Now) -> u32 {
        self.0.saturating_sub(earlier.0)
    }

    /// The representation in an entry.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// The time of a representation in an entry.
    #[inline]
    pub(crate) const fn of_bits(bits: u32) -> Now {
        Now(bits)
    }
}
