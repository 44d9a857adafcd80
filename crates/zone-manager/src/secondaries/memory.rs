//! Memory of all incoming transfers together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use threads::sync::lock;

/// Memory of incoming transfers. If they exceed the limit, the largest transfer is cancelled.
#[derive(Debug, Default)]
pub struct IncomingMemory {
    most: AtomicU64,
    takers: Mutex<Takers>,
}

#[derive(Debug, Default)]
struct Takers {
    last: u64,
    all: HashMap<u64, Taker>,
}

#[derive(Debug)]
struct Taker {
    bytes: u64,
    given_up: Arc<AtomicBool>,
}

impl Takers {
    /// Returns the largest transfer that is not cancelled, and the bytes of all such transfers.
    fn largest(&self) -> (Option<&Taker>, u64) {
        let going_on = || self.all.values().filter(|taker| !taker.given_up.load(Relaxed));
        (going_on().max_by_key(|taker| taker.bytes), going_on().map(|taker| taker.bytes).sum())
    }
}

/// The transfers together exceed their memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutOfMemory;

impl IncomingMemory {
    /// Sets the limit in bytes.
    pub(super) fn set(&self, most: u64) {
        self.most.store(most, Relaxed);
    }

    /// Bytes in use.
    pub fn taken(&self) -> u64 {
        lock(&self.takers).all.values().map(|taker| taker.bytes).sum()
    }

    /// The limit in bytes.
    pub fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// Registers a transfer.
    pub(super) fn begin(self: &Arc<Self>) -> MemoryShare {
        let mut takers = lock(&self.takers);
        takers.last += 1;
        let (number, given_up) = (takers.last, Arc::new(AtomicBool::new(false)));
        takers.all.insert(number, Taker { bytes: 0, given_up: Arc::clone(&given_up) });
        MemoryShare { memory: Arc::clone(self), number, given_up, bytes: 0 }
    }
}

/// The memory of one transfer; dropping it releases the memory.
#[derive(Debug)]
pub(super) struct MemoryShare {
    memory: Arc<IncomingMemory>,
    number: u64,
    given_up: Arc<AtomicBool>,
    bytes: u64,
}

/// Smallest change in bytes that is worth taking the lock.
const MIN_CHANGE_BYTES: u64 = 64 << 10;

impl MemoryShare {
    /// Records the bytes that the transfer now uses.
    ///
    /// # Errors
    /// The transfer is cancelled: the limit is exceeded, and it is the largest.
    pub(super) fn takes(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        if bytes.abs_diff(self.bytes) >= MIN_CHANGE_BYTES {
            self.bytes = bytes;
            let mut takers = lock(&self.memory.takers);
            if let Some(taker) = takers.all.get_mut(&self.number) {
                taker.bytes = bytes;
            }
            // The memory of cancelled transfers is released at their next check.
            while let (Some(largest), all) = takers.largest()
                && all > self.memory.most()
            {
                largest.given_up.store(true, Relaxed);
            }
        }
        if self.given_up.load(Relaxed) { Err(OutOfMemory) } else { Ok(()) }
    }

    /// Whether the transfer is cancelled.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Relaxed)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        lock(&self.memory.takers).all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transfer_that_takes_most_is_given_up_and_the_others_go_on() {
        let memory = Arc::new(IncomingMemory::default());
        memory.set(1 << 20);
        let (mut small, mut large) = (memory.begin(), memory.begin());
        assert_eq!((small.takes(200 << 10), large.takes(700 << 10)), (Ok(()), Ok(())));
        // The small transfer exceeds the limit: the large one is cancelled.
        assert_eq!(small.takes(400 << 10), Ok(()));
        assert!(large.is_given_up() && large.takes(700 << 10).is_err());
        assert_eq!(memory.taken(), 1100 << 10, "until it is gone");
        drop(large);
        assert_eq!(memory.taken(), 400 << 10);
        // Alone, it is the largest transfer.
        assert_eq!(small.takes(2 << 20), Err(OutOfMemory));
        drop(small);
        assert_eq!(memory.taken(), 0);
    }
}
