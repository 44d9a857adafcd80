//! The atomics that the logs are made of. A module of its own, so that the test `orders` can put others in
//! their place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// So many words of zero. They are only an address range until a page of it is written: a large cache takes
/// memory as it fills.
pub(crate) fn zeroed(words: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(words)
}
