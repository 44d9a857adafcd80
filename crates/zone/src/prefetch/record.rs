//! What was prefetched and what was read by this thread, in order. Compiled in for the test that the one goes
//! before the other.

use std::cell::RefCell;

use super::{LINE, Part};

/// Something that was done with a cache line, which is known by its address divided by its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It was prefetched.
    Prefetch(usize),
    /// It was read.
    Read(Part, usize),
}

thread_local! {
    static ALL: RefCell<Vec<Access>> = const { RefCell::new(Vec::new()) };
}

/// What was done since the last call.
pub fn take() -> Vec<Access> {
    ALL.take()
}

pub(super) fn prefetched(address: *const u8) {
    ALL.with_borrow_mut(|all| all.push(Access::Prefetch(address.addr() / LINE)));
}

pub(super) fn read<T>(part: Part, slice: &[T]) {
    let start = slice.as_ptr().addr();
    let lines = start / LINE..(start + size_of_val(slice)).div_ceil(LINE);
    ALL.with_borrow_mut(|all| all.extend(lines.map(|line| Access::Read(part, line))));
}
