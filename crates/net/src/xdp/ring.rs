//! Memory shared with the kernel: mappings, and the rings that pass descriptors to the kernel and back.
//! `socket` defines the meaning of descriptors.

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A memory mapping, unmapped when dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is memory owned by this value; access goes through methods that document who may use it.
unsafe impl Send for Mapping {}

/// Bytes of a huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

impl Mapping {
    /// Returns at least `len` bytes of zeroed memory, in huge pages if the system has some free.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        let huge = len.next_multiple_of(HUGE_PAGE_BYTES);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        if let Ok(mapping) = Mapping::new(huge, flags | libc::MAP_HUGETLB, -1, 0) {
            return Ok(mapping);
        }
        let mapping = Mapping::new(huge, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        // SAFETY: the range is that mapping. The mapping works without the advice, too.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), huge, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    /// Maps a part of an AF_XDP socket.
    fn of_socket(len: usize, socket: RawFd, offset: libc::off_t) -> io::Result<Self> {
        Mapping::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, socket, offset)
    }

    fn new(len: usize, flags: i32, descriptor: RawFd, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the system chooses touches no memory in use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, descriptor, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Mapping { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the start of the mapping.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made with this length, and everything that points into it is dropped with or before it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Entries of a ring: plain numbers, of which any bytes are a valid value.
///
/// # Safety
/// Any bytes must be a valid value of the type.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: a number.
unsafe impl Entry for u64 {}
// SAFETY: three numbers without padding.
unsafe impl Entry for libc::xdp_desc {}

/// The layout of a ring in its mapping, and the parameters of the mapping.
pub(super) struct RingPlan {
    pub(super) socket: RawFd,
    pub(super) offset: libc::off_t,
    pub(super) parts: libc::xdp_ring_offset,
    /// Number of entries, a power of two.
    pub(super) entries: u32,
}

/// A ring from either side: two counters that only grow, flags, and entries.
struct Ring<T: Entry> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    _mapping: Mapping,
}

// SAFETY: the pointers point into the mapping it owns.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn map(place: &RingPlan) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let entries = place.entries as usize;
        let at = |offset: u64| usize::try_from(offset).map_err(|_| invalid());
        let parts = &place.parts;
        let len = entries.checked_mul(size_of::<T>()).and_then(|n| at(parts.desc).ok()?.checked_add(n));
        let len = len.ok_or_else(invalid)?;
        let inside = [parts.producer, parts.consumer, parts.flags].map(at);
        for offset in inside {
            let offset = offset?;
            if offset + size_of::<AtomicU32>() > len || offset % align_of::<AtomicU32>() != 0 {
                return Err(invalid());
            }
        }
        if !place.entries.is_power_of_two() || at(parts.desc)? % align_of::<T>() != 0 {
            return Err(invalid());
        }
        let mapping = Mapping::of_socket(len, place.socket, place.offset)?;
        let start = mapping.start();
        let counter = |offset: u64| -> NonNull<AtomicU32> {
            // SAFETY: checked above to lie within the mapping.
            unsafe { start.add(offset as usize) }.cast()
        };
        Ok(Ring {
            producer: counter(parts.producer),
            consumer: counter(parts.consumer),
            flags: counter(parts.flags),
            // SAFETY: the entries, as many as there are, lie within the mapping.
            entries: unsafe { start.add(parts.desc as usize) }.cast(),
            mask: place.entries - 1,
            _mapping: mapping,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: lies aligned within the mapping, which lives as long as `self`, and is only accessed
        // atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.flags.as_ref() }
    }

    fn entry(&self, number: u32) -> *mut T {
        // SAFETY: the mask keeps the index below the number of entries.
        unsafe { self.entries.add((number & self.mask) as usize) }.as_ptr()
    }
}

/// A ring that this process fills and the kernel empties.
pub(super) struct Producer<T: Entry> {
    ring: Ring<T>,
    /// Entries written so far, published or not.
    written: u32,
    /// The kernel's counter when it was last read.
    taken: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn map(place: &RingPlan) -> io::Result<Self> {
        let ring = Ring::map(place)?;
        let (written, taken) =
            (ring.producer().load(Ordering::Relaxed), ring.consumer().load(Ordering::Acquire));
        Ok(Producer { ring, written, taken })
    }

    /// Writes an entry that the kernel gets after [`Producer::publish`]. Returns false if the ring is full.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.written.wrapping_sub(self.taken) > self.ring.mask {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
            if self.written.wrapping_sub(self.taken) > self.ring.mask {
                return false;
            }
        }
        // SAFETY: the entry lies within the ring; it is not published, and the kernel has taken its former
        // value, so it is ours.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Whether the kernel needs a wake-up for new entries.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Whether the kernel has not taken all entries yet.
    #[inline]
    pub(super) fn waiting(&self) -> bool {
        self.ring.consumer().load(Ordering::Acquire) != self.written
    }
}

/// A ring that the kernel fills and this process empties.
pub(super) struct Consumer<T: Entry> {
    ring: Ring<T>,
    /// Entries taken so far, released or not.
    taken: u32,
    /// The kernel's counter when it was last read.
    written: u32,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn map(place: &RingPlan) -> io::Result<Self> {
        let ring = Ring::map(place)?;
        let (taken, written) =
            (ring.consumer().load(Ordering::Relaxed), ring.producer().load(Ordering::Acquire));
        Ok(Consumer { ring, taken, written })
    }

    /// Whether there is no entry to take.
    #[inline]
    pub(super) fn is_empty(&mut self) -> bool {
        if self.taken == self.written {
            self.written = self.ring.producer().load(Ordering::Acquire);
        }
        self.taken == self.written
    }

    /// Returns the next entry, if the kernel has written one.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the entry lies within the ring and was published by the kernel, which does not write it
        // until it is released.
        let entry = unsafe { self.ring.entry(self.taken).read() };
        self.taken = self.taken.wrapping_add(1);
        Some(entry)
    }

    /// Returns the entries taken to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.taken, Ordering::Release);
    }
}
