//! The time at which the thread decides. Simulations run it ahead of the system's clock.

use transport::unix_now;
use wire::UnixTime;

/// Returns the time.
pub(super) fn now() -> UnixTime {
    #[cfg(test)]
    let ahead = simulated::AHEAD.get();
    #[cfg(not(test))]
    let ahead = std::time::Duration::ZERO;
    unix_now().saturating_add(ahead)
}

#[cfg(test)]
pub(crate) mod simulated {
    //! The time of the simulation that runs on this thread.

    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        /// By how much it is ahead.
        pub(super) static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// Sets by how much it is ahead of the system's clock.
    pub(crate) fn set_ahead(ahead: Duration) {
        AHEAD.set(ahead);
    }

    /// Returns the time of the simulation.
    pub(crate) fn now() -> wire::UnixTime {
        super::now()
    }
}
