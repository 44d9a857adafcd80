//! Prefetching: the cache starts to fetch memory before it is read, so that the cache misses of a batch overlap. A
//! plain read would fetch it, too, but everything after a read that waits soon waits as well; nothing waits for a
//! prefetch.

#[cfg(feature = "record-prefetch")]
pub mod record;

/// Bytes in a cache line of the processors we know.
const LINE: usize = 64;

/// Prefetches the cache line that holds `bytes[at]`. Does nothing if `at` lies beyond the end.
#[inline]
pub(crate) fn line(bytes: &[u8], at: usize) {
    if at < bytes.len() {
        prefetch(bytes.as_ptr().wrapping_add(at));
    }
}

/// Prefetches the cache line that holds the start of `value`.
#[inline]
pub(crate) fn value<T>(value: &T) {
    prefetch(std::ptr::from_ref(value).cast());
}

/// Prefetches the first `lines` cache lines of `value`.
#[inline]
pub(crate) fn lines<T>(value: &T, lines: usize) {
    let start: *const u8 = std::ptr::from_ref(value).cast();
    (0..lines).for_each(|line| prefetch(start.wrapping_add(line * LINE)));
}

/// Prefetches the cache lines that `slice` lies in.
#[inline]
pub(crate) fn slice<T>(slice: &[T]) {
    let (start, len): (*const u8, _) = (slice.as_ptr().cast(), size_of_val(slice));
    (0..len).step_by(LINE).for_each(|at| prefetch(start.wrapping_add(at)));
    if let Some(last) = len.checked_sub(1) {
        prefetch(start.wrapping_add(last));
    }
}

#[inline]
fn prefetch(address: *const u8) {
    #[cfg(feature = "record-prefetch")]
    record::prefetched(address);
    fetch(address);
}

/// What a read is of, where it may have to wait for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A place of the catalog's hash table.
    Catalog,
    /// The zone itself, which everything of it is found through.
    Zone,
    /// A bucket of the index.
    Index,
    /// The start of a node: flags, owner, directory of RRsets.
    Node,
    /// An RRset with its signatures.
    RrSet,
    /// Keys, or nodes with keys, of a chain of denial.
    Chain,
}

/// Says that `slice` is read now. Compiled to nothing, but for the test that looks at what was prefetched.
#[inline]
pub(crate) fn read<T>(part: Part, slice: &[T]) {
    #[cfg(feature = "record-prefetch")]
    record::read(part, slice);
    let _ = (part, slice);
}

#[inline]
#[cfg(target_arch = "x86_64")]
fn fetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing the program can see and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[inline]
#[cfg(target_arch = "aarch64")]
fn fetch(address: *const u8) {
    // SAFETY: PRFM reads nothing the program can see and faults at no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
    };
}

/// Other processors are left to find their memory by themselves.
#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn fetch(address: *const u8) {
    let _ = address;
}
