//! Prefetches parts of zones, and records it for the test that detects lost prefetches.

#[cfg(feature = "record-prefetch")]
pub mod record;

/// Bytes in a cache line of the supported processors.
const LINE: usize = 64;

/// Prefetches the cache line of `bytes[at]`. Does nothing if `at` is beyond the end.
#[inline]
pub(crate) fn line(bytes: &[u8], at: usize) {
    if at < bytes.len() {
        start(bytes.as_ptr().wrapping_add(at));
    }
}

/// Distance of prefetching ahead of a walk through memory, in bytes: some nodes.
const PREFETCH_DISTANCE: usize = 768;

/// Prefetches what a walk through `bytes` in steps of a node will soon reach. The processor's own prefetching
/// ends at each page.
#[inline]
pub(crate) fn ahead(bytes: &[u8]) {
    line(bytes, PREFETCH_DISTANCE);
    line(bytes, PREFETCH_DISTANCE + LINE);
}

/// Prefetches the cache line of the start of `value`.
#[inline]
pub(crate) fn value<T>(value: &T) {
    start(std::ptr::from_ref(value).cast());
}

/// Prefetches the first `lines` cache lines of `value`.
#[inline]
pub(crate) fn lines<T>(value: &T, lines: usize) {
    let first: *const u8 = std::ptr::from_ref(value).cast();
    (0..lines).for_each(|line| start(first.wrapping_add(line * LINE)));
}

/// Prefetches the cache lines of `slice`.
#[inline]
pub(crate) fn slice<T>(slice: &[T]) {
    let (first, len): (*const u8, _) = (slice.as_ptr().cast(), size_of_val(slice));
    (0..len).step_by(LINE).for_each(|at| start(first.wrapping_add(at)));
    if let Some(last) = len.checked_sub(1) {
        start(first.wrapping_add(last));
    }
}

#[inline]
fn start(address: *const u8) {
    #[cfg(feature = "record-prefetch")]
    record::prefetched(address);
    ::prefetch::fetch(address);
}

/// The kinds of data whose reads may have to wait for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A place in the catalog's hash table.
    Catalog,
    /// The zone struct itself, which leads to all its data.
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

/// Records that `slice` is read now. Compiled to nothing, except for the test of prefetching.
#[inline]
pub(crate) fn read<T>(part: Part, slice: &[T]) {
    #[cfg(feature = "record-prefetch")]
    record::read(part, slice);
    let _ = (part, slice);
}
