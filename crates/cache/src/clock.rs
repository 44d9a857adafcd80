//! The clock of a cache.

/// A moment, in seconds of a clock that never goes back and begins when the program does.
///
/// No crate below the server reads the time: callers pass it in. What came from a file may have been stored
/// before the program began, so there is room in front of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(u32);

impl Now {
    /// When the program began. Longer before it, 194 days, nothing is kept.
    const START: u32 = 1 << 24;

    /// So many seconds after the program began.
    pub const fn since_start(seconds: u32) -> Now {
        Now(Self::START.saturating_add(seconds))
    }

    /// So many seconds later.
    #[inline]
    pub const fn plus(self, seconds: u32) -> Now {
        Now(self.0.saturating_add(seconds))
    }

    /// So many seconds before, but no longer than 194 days before the program began.
    pub const fn minus(self, seconds: u32) -> Now {
        Now(self.0.saturating_sub(seconds))
    }

    /// Seconds from `earlier` to now; 0 if that is later.
    #[inline]
    pub const fn since(self, earlier: Now) -> u32 {
        self.0.saturating_sub(earlier.0)
    }

    /// As it stands in an entry.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Read from an entry.
    #[inline]
    pub(crate) const fn of_bits(bits: u32) -> Now {
        Now(bits)
    }
}
