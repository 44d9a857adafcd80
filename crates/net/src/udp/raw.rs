//! A heap slice that the kernel's message headers may point into for as long as it lives.

use std::ptr::NonNull;

/// Types of which all-zero bytes are a valid value and which need no drop.
///
/// # Safety
/// Both must hold.
pub(crate) unsafe trait Zeroable: Copy {}

// SAFETY: an integer.
unsafe impl Zeroable for u8 {}
// SAFETY: arrays of bytes.
unsafe impl Zeroable for super::control::SocketName {}
// SAFETY: arrays of bytes.
unsafe impl Zeroable for super::control::ControlBytes {}
// SAFETY: a nullable raw pointer and an integer.
unsafe impl Zeroable for libc::iovec {}
// SAFETY: nullable raw pointers and integers.
unsafe impl Zeroable for libc::mmsghdr {}

/// A zeroed, fixed-length heap slice accessed only through the raw pointer from its allocation. Unlike with a
/// `Box<[T]>`, borrowing it as a slice between system calls leaves earlier pointers valid.
pub(crate) struct RawSlice<T: Zeroable> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its memory like a `Box<[T]>`, and the pointers inside headers point into slices owned by
// the same back end, which moves to another thread as a whole.
unsafe impl<T: Zeroable> Send for RawSlice<T> {}

impl<T: Zeroable> RawSlice<T> {
    /// Returns `len` zeroed elements, at least one. The system zeroes pages as they are touched.
    pub(crate) fn zeroed(len: usize) -> Self {
        // SAFETY: all-zero bytes are a valid value of `T`, as `Zeroable` requires.
        let zero: T = unsafe { std::mem::zeroed() };
        let boxed = vec![zero; len.max(1)].into_boxed_slice();
        let len = boxed.len();
        RawSlice { start: NonNull::from(Box::leak(boxed)).cast(), len }
    }

    /// Returns a pointer to element `i` and the ones after it, for the kernel. It is used only while no slice
    /// borrowed from `self` lives, which the back end's `&mut self` around each system call ensures.
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
        // SAFETY: `start` points to `len` initialised elements; the borrow of `self` keeps them alive and,
        // with the rule on `ptr`, unwritten.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    #[inline]
    pub(crate) fn slice_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `slice`, and the exclusive borrow excludes other slices.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> Drop for RawSlice<T> {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        // SAFETY: this pointer and length came out of a `Box` in `zeroed`, and only this function puts them
        // back into one.
        drop(unsafe { Box::from_raw(slice) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_slices_see_the_same_elements() {
        let mut slice = RawSlice::<u8>::zeroed(3);
        let second = slice.ptr(1);
        assert_eq!(slice.slice(), [0, 0, 0]);
        slice.slice_mut()[2] = 7;
        // SAFETY: within the allocation, and no slice is borrowed now.
        unsafe { *second = 5 };
        assert_eq!(slice.slice(), [0, 5, 7]);
        assert_eq!(RawSlice::<u8>::zeroed(0).slice(), [0]);
    }

    #[test]
    #[should_panic(expected = "i < self.len")]
    fn pointers_stay_inside() {
        RawSlice::<u8>::zeroed(3).ptr(3);
    }
}
