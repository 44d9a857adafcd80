//! Memory shared with the kernel: mappings, and the rings through which descriptors go to the kernel and come
//! back. What the descriptors mean is the business of `socket`.

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapping, undone when dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is memory owned by this value; access goes through methods that say who may use it.
unsafe impl Send for Mapping {}

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

impl Mapping {
    /// Zeroed memory of at least `len` bytes, in huge pages if the system has some to spare.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        let huge = len.next_multiple_of(HUGE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        if let Ok(mapping) = Mapping::new(huge, flags | libc::MAP_HUGETLB, -1, 0) {
            return Ok(mapping);
        }
        let mapping = Mapping::new(huge, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        // SAFETY: the range is that mapping. Without the advice it works all the same.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), huge, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    /// Part of an AF_XDP socket.
    fn of_socket(len: usize, socket: RawFd, offset: libc::off_t) -> io::Result<Self> {
        Mapping::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, socket, offset)
    }

    fn new(len: usize, flags: i32, descriptor: RawFd, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever there is room touches no memory in use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, descriptor, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Mapping { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where the mapping begins.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made with this length, and whatever points into it is dropped with or before it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// What a ring carries: plain numbers, of which any bytes are a value.
///
/// # Safety
/// That must hold.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: a number.
unsafe impl Entry for u64 {}
// SAFETY: three numbers without padding.
unsafe impl Entry for libc::xdp_desc {}

/// Where the parts of a ring lie in its mapping, and how it is mapped.
pub(super) struct RingPlan {
    pub(super) socket: RawFd,
    pub(super) offset: libc::off_t,
    pub(super) parts: libc::xdp_ring_offset,
    /// Entries, a power of two.
    pub(super) entries: u32,
}

/// A ring as either side sees it: two counters that only grow, flags, and entries.
struct Ring<T: Entry> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    _mapping: Mapping,
}

// SAFETY: the pointers lead into the mapping it owns.
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

/// A ring that we fill and the kernel empties.
pub(super) struct Producer<T: Entry> {
    ring: Ring<T>,
    /// Entries written so far, published or not.
    written: u32,
    /// What the kernel had taken when last looked.
    taken: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn map(place: &RingPlan) -> io::Result<Self> {
        let ring = Ring::map(place)?;
        let (written, taken) =
            (ring.producer().load(Ordering::Relaxed), ring.consumer().load(Ordering::Acquire));
        Ok(Producer { ring, written, taken })
    }

    /// Writes an entry that the kernel sees after [`Producer::publish`]. False if the ring is full.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.written.wrapping_sub(self.taken) > self.ring.mask {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
            if self.written.wrapping_sub(self.taken) > self.ring.mask {
                return false;
            }
        }
        // SAFETY: the entry lies within the ring, and being neither published nor still to be taken it is
        // ours.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// True if the kernel needs a wake-up for new entries.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// True if the kernel has not taken all entries yet.
    #[inline]
    pub(super) fn waiting(&self) -> bool {
        self.ring.consumer().load(Ordering::Acquire) != self.written
    }
}

/// A ring that the kernel fills and we empty.
pub(super) struct Consumer<T: Entry> {
    ring: Ring<T>,
    /// Entries taken so far, released or not.
    taken: u32,
    /// What the kernel had written when last looked.
    written: u32,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn map(place: &RingPlan) -> io::Result<Self> {
        let ring = Ring::map(place)?;
        let (taken, written) =
            (ring.consumer().load(Ordering::Relaxed), ring.producer().load(Ordering::Acquire));
        Ok(Consumer { ring, taken, written })
    }

    /// True if there is nothing to take.
    #[inline]
    pub(super) fn is_empty(&mut self) -> bool {
        if self.taken == self.written {
            self.written = self.ring.producer().load(Ordering::Acquire);
        }
        self.taken == self.written
    }

    /// The next entry, if the kernel has written one.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the entry lies within the ring and was published by the kernel, which leaves it alone until
        // it is released.
        let entry = unsafe { self.ring.entry(self.taken).read() };
        self.taken = self.taken.wrapping_add(1);
        Some(entry)
    }

    /// Returns the places of the entries taken to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.taken, Ordering::Release);
    }
}
