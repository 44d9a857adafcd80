//! The one place that reads the clock for the query path: everything else is handed the time.

use std::time::Instant;

/// Tells the time, or stands still where a test wants it to.
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
