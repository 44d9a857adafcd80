//! Prefetching parts of zones, and a record of it for the test that looks for lost prefetches.

#[cfg(feature = "record-prefetch")]
pub mod record;

/// Bytes in a cache line of the processors we know.
const LINE: usize = 64;

/// Prefetches the cache line that holds `bytes[at]`. Does nothing if `at` lies beyond the end.
#[inline]
pub(crate) fn line(bytes: &[u8], at: usize) {
    if at < bytes.len() {
        start(bytes.as_ptr().wrapping_add(at));
    }
}

/// How far ahead of a walk through memory it is prefetched, in bytes: some nodes.
const AHEAD: usize = 768;

/// Prefetches what a walk through `bytes` in steps of a node will soon reach. What the processor fetches by
/// itself ends at each page.
#[inline]
pub(crate) fn ahead(bytes: &[u8]) {
    line(bytes, AHEAD);
    line(bytes, AHEAD + LINE);
}

/// Prefetches the cache line that holds the start of `value`.
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

/// Prefetches the cache lines that `slice` lies in.
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
