//! The arena: node blobs in chunks of at most 16 MiB, addressed in units of eight octets by a `u32`.
//!
//! Append-only while a zone is built, read-only afterwards. Blobs hold offsets and addresses, never
//! pointers, so that the chunks can be written to disk and mapped as they are. What the octets of a blob
//! mean is told in [`super::blob`].

use super::blob;

/// Blobs start at multiples of this many octets.
pub(super) const UNIT: usize = 8;
/// Address bits inside one chunk: 2^21 units are 16 MiB.
const CHUNK_BITS: u32 = 21;
/// Octets in a full chunk; also the most a single node may take.
pub(super) const CHUNK: usize = UNIT << CHUNK_BITS;
/// The address that means "no node".
pub(super) const NOWHERE: u32 = u32::MAX;

/// The arena cannot take the blob: larger than a chunk, or all addresses are used (32 GiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArenaFull;

/// Node blobs; see the module.
#[derive(Default)]
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
}

impl Arena {
    /// Appends a blob, whose length is a multiple of [`UNIT`], and gives its address.
    pub(super) fn push(&mut self, blob: &[u8]) -> Result<u32, ArenaFull> {
        if blob.len() > CHUNK {
            return Err(ArenaFull);
        }
        let fits = self.chunks.last().is_some_and(|c| c.len() + blob.len() <= CHUNK);
        if !fits {
            // The last of the 2^11 chunks stays unused, which keeps NOWHERE free.
            if self.chunks.len() + 1 >= 1 << (32 - CHUNK_BITS) {
                return Err(ArenaFull);
            }
            // The first chunk grows with the zone; after it the zone is known to be a big one.
            let capacity = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let at = (index << CHUNK_BITS) | (chunk.len() / UNIT);
        chunk.extend_from_slice(blob);
        Ok(at as u32)
    }

    /// Everything from `at` to the end of its chunk.
    #[inline]
    pub(super) fn from(&self, at: u32) -> &[u8] {
        let chunk = &self.chunks[(at >> CHUNK_BITS) as usize];
        &chunk[(at & ((1 << CHUNK_BITS) - 1)) as usize * UNIT..]
    }

    /// The blob at `at`.
    #[inline]
    pub(super) fn blob(&self, at: u32) -> &[u8] {
        let rest = self.from(at);
        &rest[..blob::size(rest)]
    }

    /// The same, to be changed in place.
    pub(super) fn blob_mut(&mut self, at: u32) -> &mut [u8] {
        let chunk = &mut self.chunks[(at >> CHUNK_BITS) as usize];
        let rest = &mut chunk[(at & ((1 << CHUNK_BITS) - 1)) as usize * UNIT..];
        let size = blob::size(rest);
        &mut rest[..size]
    }

    /// Every blob with its address, dead ones too, in the order they were appended.
    pub(super) fn walk(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.chunks.iter().enumerate().flat_map(|(i, chunk)| {
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
    pub(super) fn first(&self) -> Option<u32> {
        self.chunks.first().filter(|c| !c.is_empty()).map(|_| 0)
    }

    /// The address of the blob that follows the one at `at`, in the order of [`walk`](Self::walk).
    pub(super) fn next(&self, at: u32) -> Option<u32> {
        let units = blob::size(self.from(at)) / UNIT;
        let index = (at >> CHUNK_BITS) as usize;
        let next = (at & ((1 << CHUNK_BITS) - 1)) as usize + units;
        if next * UNIT < self.chunks[index].len() {
            return Some(at + units as u32);
        }
        let more = self.chunks.get(index + 1).is_some_and(|c| !c.is_empty());
        more.then_some(((index + 1) << CHUNK_BITS) as u32)
    }

    /// Gives back the unused end of the last chunk.
    pub(super) fn shrink(&mut self) {
        if let Some(last) = self.chunks.last_mut() {
            last.shrink_to_fit();
        }
        self.chunks.shrink_to_fit();
    }

    /// A copy of the blobs for which `keep` holds. Each chunk is given back as soon as it is copied.
    pub(super) fn compacted(self, keep: impl Fn(&[u8]) -> bool) -> Result<Arena, ArenaFull> {
        let mut new = Arena::default();
        for chunk in self.chunks {
            let mut rest = &chunk[..];
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

    /// Octets in use.
    pub(super) fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// Octets allocated.
    pub(super) fn memory(&self) -> usize {
        let table = self.chunks.capacity() * size_of::<Vec<u8>>();
        table + self.chunks.iter().map(Vec::capacity).sum::<usize>()
    }
}
