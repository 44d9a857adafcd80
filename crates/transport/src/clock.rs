//! The only reader of the clock for the query path, and of the wall clock in whole seconds for all crates.

use std::time::{Instant, SystemTime};

use wire::UnixTime;

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

/// Returns the current wall-clock time. TSIG and signatures, which are compared with other hosts' clocks,
/// need it. Few messages do, so it is not read with the clock of a batch.
pub fn unix_now() -> UnixTime {
    SystemTime::now().into()
}
