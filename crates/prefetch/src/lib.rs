//! The prefetch instruction: the processor starts to load memory into its cache before it is read, so that
//! the cache misses of a batch overlap. A plain read would load it, too, but instructions after a read that
//! waits soon wait as well; nothing waits for a prefetch.
//!
//! This crate holds that one instruction, and requests for huge and for small pages, which have no effect on
//! the program's results either. The owners of the data (`zone`, `cache`) decide what to prefetch.

use std::ops::Range;

/// Starts to load the cache line of `address`. The address need not be valid.
#[inline]
#[cfg(target_arch = "x86_64")]
pub fn fetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing the program can see and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Starts to load the cache line of `address`. The address need not be valid.
#[inline]
#[cfg(target_arch = "aarch64")]
pub fn fetch(address: *const u8) {
    // SAFETY: PRFM reads nothing the program can see and faults at no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
    };
}

/// Does nothing: other processors have no prefetch instruction here.
#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn fetch(address: *const u8) {
    let _ = address;
}

/// The smallest page size of any system.
const PAGE: usize = 4096;

/// Requests huge pages for the whole pages of `memory` that are not written yet. The content is unchanged.
pub fn huge_pages<T>(memory: &[T]) {
    let start = memory.as_ptr().addr();
    let first = start.next_multiple_of(PAGE);
    let end = (start + size_of_val(memory)) / PAGE * PAGE;
    if first < end {
        advise(first..end, Advice::Huge);
    }
}

/// Requests small pages for the unwritten parts of the memory at these addresses, which begin and end on a
/// page boundary. The content is unchanged. Returns whether the system accepts the request.
pub fn small_pages(addresses: Range<usize>) -> bool {
    advise(addresses, Advice::Small)
}

enum Advice {
    Huge,
    Small,
}

#[cfg(target_os = "linux")]
fn advise(addresses: Range<usize>, advice: Advice) -> bool {
    let advice = match advice {
        Advice::Huge => libc::MADV_HUGEPAGE,
        Advice::Small => libc::MADV_NOHUGEPAGE,
    };
    let start = std::ptr::without_provenance_mut(addresses.start);
    // SAFETY: both kinds of advice leave the content of memory unchanged, wherever the addresses are and
    // whatever uses them. On a system without huge pages the advice is an error without an effect.
    unsafe { libc::madvise(start, addresses.len(), advice) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn advise(_: Range<usize>, _: Advice) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_the_content_as_it_is() {
        let memory: Vec<u64> = (0..1 << 20).collect();
        for from in [0, 1, 511, 512] {
            huge_pages(&memory[from..]);
        }
        huge_pages(&memory[7..7]);
        let start = memory.as_ptr().addr().next_multiple_of(PAGE);
        small_pages(start..start + (4 << 20));
        assert!(memory.iter().zip(0..).all(|(held, word)| *held == word));
    }
}
