//! Counters that workers write and other threads read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer: adding to it takes no locked instruction.
#[derive(Default, Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the thread that owns the counter may call it: a concurrent addition could get lost.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Replaces the value. Only the thread that owns the counter may call it.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Returns the present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
