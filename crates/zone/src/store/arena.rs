//! The arena: node blobs in chunks of at most 16 MiB, addressed in units of eight octets by a `u32`.
//!
//! Append-only while a zone is built, read-only afterwards. Blobs hold offsets and addresses, never
//! pointers, so that the chunks are written to an image and read from it as they are. What the octets of a
//! blob mean is told in [`super::blob`].

use bytes::Bytes;

use super::blob;
use super::memory::{self, Memory};

/// Blobs start at multiples of this many octets.
pub(crate) const UNIT: usize = 8;
/// Address bits inside one chunk: 2^21 units are 16 MiB.
pub(crate) const CHUNK_BITS: u32 = 21;
/// Octets in a full chunk; also the most a single node may take.
pub(crate) const CHUNK: usize = UNIT << CHUNK_BITS;
/// Most chunks of an arena. The last of the 2^11 stays unused, which keeps [`NOWHERE`] free.
pub(crate) const MAX_CHUNKS: usize = (1 << (32 - CHUNK_BITS)) - 1;
/// The address that means "no node".
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The arena cannot take the blob: larger than a chunk, or all addresses are used (32 GiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArenaFull;

/// Node blobs; see the module. Of [`Memory`] while they are written.
pub(crate) struct Arena<M = Bytes> {
    chunks: Vec<M>,
}

impl<M> Arena<M> {
    /// An arena without blobs.
    pub(crate) const fn new() -> Self {
        Arena { chunks: Vec::new() }
    }
}

impl<M: AsRef<[u8]>> Arena<M> {
    /// The chunks; only the last may be less than full.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &M> {
        self.chunks.iter()
    }

    /// Everything from `at` to the end of its chunk.
    #[inline]
    pub(crate) fn from(&self, at: u32) -> &[u8] {
        let chunk = self.chunks[(at >> CHUNK_BITS) as usize].as_ref();
        &chunk[(at & ((1 << CHUNK_BITS) - 1)) as usize * UNIT..]
    }

    /// The blob at `at`.
    #[inline]
    pub(crate) fn blob(&self, at: u32) -> &[u8] {
        let rest = self.from(at);
        &rest[..blob::size(rest)]
    }

    /// Every blob with its address, dead ones too, in the order they were appended.
    pub(crate) fn walk(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.chunks.iter().enumerate().flat_map(|(i, chunk)| {
            let chunk = chunk.as_ref();
            let mut at = 0;
            std::iter::from_fn(move || {
                let rest = chunk.get(at..).filter(|rest| !rest.is_empty())?;
                let address = ((i << CHUNK_BITS) | (at / UNIT)) as u32;
                at += blob::size(rest);
                Some((address, &rest[..blob::size(rest)]))
            })
        })
    }

    /// The address of the first blob.
    pub(crate) fn first(&self) -> Option<u32> {
        self.chunks.first().filter(|c| !c.as_ref().is_empty()).map(|_| 0)
    }

    /// The address of the blob that follows the one at `at`, in the order of [`walk`](Self::walk).
    pub(crate) fn next(&self, at: u32) -> Option<u32> {
        let units = blob::size(self.from(at)) / UNIT;
        let index = (at >> CHUNK_BITS) as usize;
        let next = (at & ((1 << CHUNK_BITS) - 1)) as usize + units;
        if next * UNIT < self.chunks[index].as_ref().len() {
            return Some(at + units as u32);
        }
        let more = self.chunks.get(index + 1).is_some_and(|c| !c.as_ref().is_empty());
        more.then_some(((index + 1) << CHUNK_BITS) as u32)
    }

    /// Octets in use.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.as_ref().len()).sum()
    }

    /// Octets of memory taken.
    pub(crate) fn memory(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| memory::taken(chunk.as_ref().len()));
        self.chunks.len() * size_of::<M>() + chunks.sum::<usize>()
    }
}

impl Arena<Memory> {
    /// Appends a blob, whose length is a multiple of [`UNIT`], and gives its address.
    pub(crate) fn push(&mut self, blob: &[u8]) -> Result<u32, ArenaFull> {
        if blob.len() > CHUNK {
            return Err(ArenaFull);
        }
        let fits = self.chunks.last().is_some_and(|c| c.len() + blob.len() <= CHUNK);
        if !fits {
            if self.chunks.len() >= MAX_CHUNKS {
                return Err(ArenaFull);
            }
            self.chunks.push(Memory::growing(CHUNK));
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let at = (index << CHUNK_BITS) | (chunk.len() / UNIT);
        chunk.extend(blob);
        Ok(at as u32)
    }

    /// The blob at `at`, to be changed in place.
    pub(crate) fn blob_mut(&mut self, at: u32) -> &mut [u8] {
        let chunk = self.chunks[(at >> CHUNK_BITS) as usize].as_mut();
        let rest = &mut chunk[(at & ((1 << CHUNK_BITS) - 1)) as usize * UNIT..];
        let size = blob::size(rest);
        &mut rest[..size]
    }

    /// A copy of the blobs for which `keep` holds. Each chunk is given back as soon as it is copied.
    pub(crate) fn compacted(self, keep: impl Fn(&[u8]) -> bool) -> Result<Self, ArenaFull> {
        let mut new = Arena::new();
        for chunk in self.chunks {
            let mut rest = chunk.as_ref();
            while !rest.is_empty() {
                let (blob, later) = rest.split_at(blob::size(rest));
                if keep(blob) {
                    new.push(blob)?;
                }
                rest = later;
            }
        }
        Ok(new)
    }

    /// Makes the blobs unchangeable.
    pub(crate) fn freeze(self) -> Arena {
        Arena { chunks: self.chunks.into_iter().map(Memory::freeze).collect() }
    }
}

impl Arena {
    /// An arena of verified chunks.
    pub(super) fn of(chunks: Vec<Bytes>) -> Self {
        Arena { chunks }
    }
}
