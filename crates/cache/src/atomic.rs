//! The atomics of the logs, in a module of their own, so that the test `orders` can replace them.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Returns zeroed words. They are only address space until a page is written: a large cache takes memory as
/// it fills.
pub(crate) fn zeroed(words: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(words)
}
