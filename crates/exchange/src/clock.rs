//! The one place that reads the clock for the query path: the time is passed to everything else.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The system's clock, or one that stands still for a test.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The system's monotonic clock.
    #[default]
    System,
    /// It is always this time.
    At(Instant),
}

impl Clock {
    /// The time now.
    #[inline]
    pub fn now(self) -> Instant {
        match self {
            Clock::System => Instant::now(),
            Clock::At(now) => now,
        }
    }
}

/// Seconds since 1970, for what is compared with other machines' clocks: signatures. Few messages need it, so
/// it is not read with the clock of a batch.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
