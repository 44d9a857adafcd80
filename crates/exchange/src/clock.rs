//! The one place that reads the clock for the query path: the time is passed to everything else.

use std::time::Instant;

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
