//! Asking for memory ahead of its use, so that the misses of a batch overlap. A plain read would do the same, but
//! holds up everything behind it until it is there; a hint does not.

/// Asks for the cache line that holds `bytes[at]`. Nothing happens beyond the end.
#[inline]
pub(crate) fn line(bytes: &[u8], at: usize) {
    if at < bytes.len() {
        hint(bytes.as_ptr().wrapping_add(at));
    }
}

/// Asks for the cache line that holds the start of `value`.
#[inline]
pub(crate) fn value<T>(value: &T) {
    hint(std::ptr::from_ref(value).cast());
}

/// Asks for the cache lines that `slice` lies in.
#[inline]
pub(crate) fn slice<T>(slice: &[T]) {
    let (start, len): (*const u8, _) = (slice.as_ptr().cast(), size_of_val(slice));
    (0..len).step_by(64).for_each(|at| hint(start.wrapping_add(at)));
    if let Some(last) = len.checked_sub(1) {
        hint(start.wrapping_add(last));
    }
}

/// Asks for the first `lines` cache lines of `value`.
#[inline]
pub(crate) fn lines<T>(value: &T, lines: usize) {
    let start: *const u8 = std::ptr::from_ref(value).cast();
    (0..lines).for_each(|line| hint(start.wrapping_add(line * 64)));
}

#[inline]
#[cfg(target_arch = "x86_64")]
fn hint(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint: it reads nothing the program can see and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[inline]
#[cfg(target_arch = "aarch64")]
fn hint(address: *const u8) {
    // SAFETY: PRFM is a hint: it reads nothing the program can see and faults at no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
    };
}

#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn hint(address: *const u8) {
    let _ = address;
}
