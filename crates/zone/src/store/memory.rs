//! Memory for the data of a zone: written once while the zone is built, then frozen for good.
//!
//! Big pieces are anonymous mappings that request huge pages, since a zone of millions of names is read at
//! random and every TLB miss costs as much as a cache miss. Small pieces, of which a server with a hundred
//! thousand zones has as many, come from the allocator. This module does not interpret the bytes.

use bytes::Bytes;
use memmap2::MmapMut;

/// Pieces of at least this many bytes are mapped: one huge page.
pub(crate) const MIN_MAPPED_BYTES: usize = 2 << 20;
/// Alignment of pieces of fixed size, and of frozen ones of at least a [`PAGE`]: a cache line.
const LINE: usize = 64;
/// Smaller pieces are not aligned, to save memory: there may be very many.
const PAGE: usize = 4096;

/// Memory that is being written.
pub(crate) struct Region {
    room: Backing,
    /// The size that it may need in all; a mapping gets it at once, since only touched pages take memory.
    limit: usize,
}

enum Backing {
    /// From the allocator, in use from `start` on.
    Small { bytes: Vec<u8>, start: usize },
    /// A mapping, in use up to `len`.
    Big { map: MmapMut, len: usize },
}

impl Region {
    /// Returns an empty region, to be [`extend`](Self::extend)ed to about `limit` bytes at most.
    pub(crate) const fn growing(limit: usize) -> Self {
        Region { room: Backing::Small { bytes: Vec::new(), start: 0 }, limit }
    }

    /// Returns `len` zero bytes, the first at the start of a cache line.
    pub(crate) fn zeroed(len: usize) -> Self {
        if len >= MIN_MAPPED_BYTES
            && let Some(map) = map(len)
        {
            return Region { room: Backing::Big { map, len }, limit: len };
        }
        let (mut bytes, mut start) = (vec![0; len], 0);
        if bytes.as_ptr().align_offset(LINE) != 0 {
            bytes = vec![0; len + LINE - 1];
            start = bytes.as_ptr().align_offset(LINE).min(LINE - 1);
            bytes.truncate(start + len);
        }
        Region { room: Backing::Small { bytes, start }, limit: len }
    }

    /// Returns the first `len` bytes, if there are more. A mapping keeps its size, which costs nothing where
    /// it was not touched.
    pub(crate) fn shortened(mut self, len: usize) -> Self {
        match &mut self.room {
            Backing::Small { bytes, start } => bytes.truncate(*start + len),
            Backing::Big { len: used, .. } => *used = len.min(*used),
        }
        self
    }

    /// Appends bytes.
    #[inline]
    pub(crate) fn extend(&mut self, more: &[u8]) {
        let needed = self.len() + more.len();
        if needed >= MIN_MAPPED_BYTES {
            self.make_room(needed);
        }
        match &mut self.room {
            Backing::Small { bytes, .. } => bytes.extend_from_slice(more),
            Backing::Big { map, len } => {
                map[*len..needed].copy_from_slice(more);
                *len = needed;
            }
        }
    }

    /// Makes room for `needed` bytes in a mapping. If the system refuses a mapping, the allocator provides
    /// the memory.
    fn make_room(&mut self, needed: usize) {
        if matches!(&self.room, Backing::Big { map, .. } if map.len() >= needed) {
            return;
        }
        let Some(mut larger) = map(needed.max(self.limit).max(2 * self.len())) else {
            if let Backing::Big { .. } = self.room {
                self.room = Backing::Small { bytes: self.as_ref().to_vec(), start: 0 };
            }
            return;
        };
        let len = self.len();
        larger[..len].copy_from_slice(self.as_ref());
        self.room = Backing::Big { map: larger, len };
    }

    /// Returns the number of bytes written.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.room {
            Backing::Small { bytes, start } => bytes.len() - start,
            Backing::Big { len, .. } => *len,
        }
    }

    /// Makes the bytes immutable. Unwritten memory of the allocator is freed.
    pub(crate) fn freeze(self) -> Bytes {
        match self.room {
            Backing::Small { bytes, start } if start > 0 => Bytes::from(bytes).slice(start..),
            Backing::Small { bytes, .. } if bytes.len() >= PAGE && bytes.as_ptr().align_offset(LINE) != 0 => {
                let mut aligned = Region::zeroed(bytes.len());
                aligned.as_mut().copy_from_slice(&bytes);
                drop(bytes);
                aligned.freeze()
            }
            Backing::Small { mut bytes, .. } => {
                bytes.shrink_to_fit();
                Bytes::from(bytes)
            }
            Backing::Big { map, len } => Bytes::from_owner(Frozen { map, len }),
        }
    }
}

impl AsRef<[u8]> for Region {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.room {
            Backing::Small { bytes, start } => &bytes[*start..],
            Backing::Big { map, len } => &map[..*len],
        }
    }
}

impl AsMut<[u8]> for Region {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.room {
            Backing::Small { bytes, start } => &mut bytes[*start..],
            Backing::Big { map, len } => &mut map[..*len],
        }
    }
}

/// The owner of a frozen mapping.
struct Frozen {
    map: MmapMut,
    len: usize,
}

impl AsRef<[u8]> for Frozen {
    fn as_ref(&self) -> &[u8] {
        &self.map[..self.len]
    }
}

/// Returns the bytes of memory that `len` frozen bytes take: whole huge pages if they are mapped.
pub(crate) fn taken(len: usize) -> usize {
    if len >= MIN_MAPPED_BYTES { len.next_multiple_of(MIN_MAPPED_BYTES) } else { len }
}

/// Returns a mapping of whole huge pages with at least `len` bytes, if the system allows one.
fn map(len: usize) -> Option<MmapMut> {
    let map = MmapMut::map_anon(len.checked_next_multiple_of(MIN_MAPPED_BYTES)?).ok()?;
    // Without huge pages it is ordinary memory.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_as_they_move_from_small_to_big() {
        for limit in [0, MIN_MAPPED_BYTES / 2, 3 * MIN_MAPPED_BYTES, 9 * MIN_MAPPED_BYTES] {
            let mut memory = Region::growing(limit);
            let mut expected = Vec::new();
            for i in 0u32..900 {
                let piece = vec![i as u8; (i as usize * 37) % 9000];
                memory.extend(&piece);
                expected.extend_from_slice(&piece);
            }
            assert!(expected.len() > MIN_MAPPED_BYTES);
            assert!(matches!(memory.room, Backing::Big { .. }));
            memory.as_mut()[5000] ^= 0xff;
            expected[5000] ^= 0xff;
            assert!(memory.as_ref() == expected);
            assert!(memory.freeze() == expected);
        }
    }

    #[test]
    fn pieces_of_fixed_size_begin_at_a_line() {
        for len in [64, 128, 4096, 64 * 1000, MIN_MAPPED_BYTES - 64, MIN_MAPPED_BYTES, MIN_MAPPED_BYTES + 64]
        {
            let memory = Region::zeroed(len);
            assert_eq!(memory.len(), len);
            assert!(memory.as_ref().iter().all(|&byte| byte == 0));
            let frozen = memory.freeze();
            assert_eq!((frozen.len(), frozen.as_ptr().align_offset(LINE)), (len, 0));
        }
    }

    #[test]
    fn frozen_pieces_of_a_page_begin_at_a_line_wherever_the_allocator_puts_them() {
        // Allocations of many sizes, all kept, so that pieces begin at every multiple of 16.
        let _between: Vec<Vec<u8>> = (0..40).map(|i| vec![0; 16 * i]).collect();
        let frozen: Vec<Bytes> = (0..40)
            .map(|i| {
                let mut memory = Region::growing(MIN_MAPPED_BYTES);
                memory.extend(&vec![7; PAGE + 16 * i]);
                memory.freeze()
            })
            .collect();
        for (i, frozen) in frozen.iter().enumerate() {
            assert_eq!((frozen.len(), frozen.as_ptr().align_offset(LINE)), (PAGE + 16 * i, 0));
            assert!(frozen.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn shortened_memory_has_what_came_first() {
        for len in [100, 5 * MIN_MAPPED_BYTES] {
            let mut memory = Region::zeroed(len);
            memory.as_mut()[..4].copy_from_slice(b"abcd");
            assert_eq!(memory.shortened(2 * len).shortened(3).freeze()[..], *b"abc");
        }
    }

    #[test]
    fn small_memory_is_no_larger_than_what_is_in_it() {
        let mut memory = Region::growing(MIN_MAPPED_BYTES);
        memory.extend(&[7; 100]);
        memory.extend(&[8; 100]);
        let frozen = memory.freeze();
        assert_eq!((frozen.len(), frozen[99], frozen[100]), (200, 7, 8));
        assert_eq!(taken(frozen.len()), 200);
    }
}
