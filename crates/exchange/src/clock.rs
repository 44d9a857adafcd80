//! The only reader of the clock for the query path; all other code gets the time as a parameter.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The system's clock, or a fixed time for a test.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The system's monotonic clock.
    #[default]
    System,
    /// Always returns this time.
    At(Instant),
}

impl Clock {
    /// Returns the present time.
    #[inline]
    pub fn now(self) -> Instant {
        match self {
            Clock::System => Instant::now(),
            Clock::At(now) => now,
        }
    }
}

/// Returns the Unix time in seconds. TSIG and signatures, which are compared with other hosts' clocks, need
/// it. Few messages do, so it is not read with the clock of a batch.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
