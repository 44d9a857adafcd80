//! [`SharedCount`]: a counter that all threads share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that any thread increments.
#[derive(Debug, Default)]
pub struct SharedCount(AtomicU64);

impl SharedCount {
    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    pub(crate) fn add_many(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }
}
