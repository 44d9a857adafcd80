//! Records the prefetches and reads of this thread, in order. Compiled in for the test that each read is
//! prefetched before.

use std::cell::RefCell;

use super::{LINE, Part};

/// An access to a cache line, identified by its address divided by the line size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAccess {
    /// The line was prefetched.
    Prefetch(usize),
    /// The line was read.
    Read(Part, usize),
}

thread_local! {
    static ALL: RefCell<Vec<LineAccess>> = const { RefCell::new(Vec::new()) };
}

/// Returns the accesses since the last call.
pub fn take() -> Vec<LineAccess> {
    ALL.take()
}

pub(super) fn prefetched(address: *const u8) {
    ALL.with_borrow_mut(|all| all.push(LineAccess::Prefetch(address.addr() / LINE)));
}

pub(super) fn read<T>(part: Part, slice: &[T]) {
    let start = slice.as_ptr().addr();
    let lines = start / LINE..(start + size_of_val(slice)).div_ceil(LINE);
    ALL.with_borrow_mut(|all| all.extend(lines.map(|line| LineAccess::Read(part, line))));
}
