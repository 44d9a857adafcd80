//! A heap slice whose elements may be pointed to by the kernel's message headers for as long as it lives.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Types for which all-zero octets are a value and which need no drop.
///
/// # Safety
/// Both must hold.
pub(crate) unsafe trait Zeroable: Copy {}

// SAFETY: an integer.
unsafe impl Zeroable for u8 {}
// SAFETY: arrays of octets.
unsafe impl Zeroable for super::control::Name {}
// SAFETY: arrays of octets.
unsafe impl Zeroable for super::control::Control {}
// SAFETY: a nullable raw pointer and an integer.
unsafe impl Zeroable for libc::iovec {}
// SAFETY: nullable raw pointers and integers.
unsafe impl Zeroable for libc::mmsghdr {}

/// A zeroed, fixed-length heap slice reached only through the raw pointer it was allocated with. Unlike with a
/// `Box<[T]>`, borrowing it as a slice between system calls leaves pointers taken before valid.
pub(crate) struct RawSlice<T: Zeroable> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its memory like a `Box<[T]>`, and the pointers inside headers point into slices owned by the same
// back end, which moves to another thread as a whole.
unsafe impl<T: Zeroable> Send for RawSlice<T> {}

impl<T: Zeroable> RawSlice<T> {
    /// `len` zeroed elements. Pages are not touched before they are used.
    pub(crate) fn zeroed(len: usize) -> Self {
        let len = len.max(1);
        let Ok(layout) = Layout::array::<T>(len) else { panic!("buffer larger than the address space") };
        // SAFETY: the layout has a size above zero, since neither `T` nor `len` is zero-sized.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast::<T>()) else { handle_alloc_error(layout) };
        RawSlice { start, len }
    }

    /// A pointer to element `i` and those after it, for the kernel. It is used only while no slice borrowed from
    /// `self` lives, which the back end's `&mut self` around each system call ensures.
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline]
    pub(crate) fn ptr(&self, i: usize) -> *mut T {
        assert!(i < self.len);
        // SAFETY: `i` is within the allocation.
        unsafe { self.start.as_ptr().add(i) }
    }

    #[inline]
    pub(crate) fn slice(&self) -> &[T] {
        // SAFETY: `start` points to `len` initialised elements; the borrow of `self` keeps them alive and, with
        // the rule on `ptr`, unwritten.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    #[inline]
    pub(crate) fn slice_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `slice`, and the exclusive borrow keeps other slices away.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> Drop for RawSlice<T> {
    fn drop(&mut self) {
        if let Ok(layout) = Layout::array::<T>(self.len) {
            // SAFETY: allocated in `zeroed` with this very layout.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) }
        }
    }
}
