//! The atomics that the logs are made of. A module of its own, so that the test `orders` can put others in their place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// So many words of zero.
///
/// A zeroed allocation is only an address range until a page of it is written, and turning it into atomics, which have the
/// same form, writes nothing once it is optimised: a large cache takes memory as it fills.
pub(crate) fn zeroed(words: usize) -> Box<[AtomicU64]> {
    vec![0u64; words].into_iter().map(AtomicU64::new).collect()
}
