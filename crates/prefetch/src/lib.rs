//! The prefetch instruction: the processor's cache starts to fetch memory before it is read, so that the cache misses of a
//! batch overlap. A plain read would fetch it, too, but everything after a read that waits soon waits as well; nothing
//! waits for a prefetch.
//!
//! What lives here: that one instruction. What is worth prefetching, those who own the data know (`zone`, `cache`).

/// Starts to fetch the cache line that `address` lies in. Any address will do, also one where nothing is.
#[inline]
#[cfg(target_arch = "x86_64")]
pub fn fetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing the program can see and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Starts to fetch the cache line that `address` lies in. Any address will do, also one where nothing is.
#[inline]
#[cfg(target_arch = "aarch64")]
pub fn fetch(address: *const u8) {
    // SAFETY: PRFM reads nothing the program can see and faults at no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
    };
}

/// Does nothing: other processors are left to find their memory by themselves.
#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn fetch(address: *const u8) {
    let _ = address;
}
