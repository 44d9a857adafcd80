//! The arena: node blobs in chunks of at most 16 MiB, addressed in units of eight bytes by a `u32`.
//!
//! Append-only while a zone is built, read-only afterwards. Blobs hold offsets and addresses, never pointers,
//! so the chunks are written to an image and read from it unchanged. [`super::blob`] defines the bytes of a
//! blob.

use std::sync::Arc;

use bytes::Bytes;

use super::blob;
use super::memory::{self, Region};
use super::version::Overlay;
use crate::prefetch::{self, Part};

/// Blobs start at multiples of this many bytes.
pub(crate) const UNIT: usize = 8;
/// Bits of an address inside one chunk: 2^21 units are 16 MiB.
pub(crate) const CHUNK_BITS: u32 = 21;
/// Bytes in a full chunk; also the largest size of a node.
pub(crate) const CHUNK: usize = UNIT << CHUNK_BITS;
/// Most chunks of an arena. The addresses of the last of 2^11 chunks are used for the slots of an overlay,
/// and for [`NodeAddress::NOWHERE`].
pub(crate) const MAX_CHUNKS: usize = (1 << (32 - CHUNK_BITS)) - 1;

/// The address of a node in its snapshot, unique there. The default is the address of the first node.
///
/// Stored as a little-endian `u32`, the number of the chunk above `CHUNK_BITS` bits for the unit within it:
/// unit 5 of chunk 3, which is byte 40 there, has the address 0x0060_0005.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NodeAddress(pub(super) u32);

impl NodeAddress {
    /// The stored form where there is no node.
    pub(crate) const NOWHERE: [u8; 4] = [0xff; 4];

    /// Returns the address of a slot of an overlay: those follow the addresses of all chunks.
    #[inline]
    pub(crate) fn of_slot(slot: u32) -> Self {
        NodeAddress::new(MAX_CHUNKS, slot as usize)
    }

    /// Returns the slot, if the address is that of one.
    #[inline]
    pub(crate) fn slot(self) -> Option<u32> {
        (self.chunk() == MAX_CHUNKS).then_some(self.unit() as u32)
    }

    #[inline]
    fn new(chunk: usize, unit: usize) -> Self {
        NodeAddress(((chunk << CHUNK_BITS) | unit) as u32)
    }

    /// Returns the address stored as `stored`, which must be one.
    #[inline]
    pub(crate) fn of(stored: [u8; 4]) -> Self {
        NodeAddress(u32::from_le_bytes(stored))
    }

    /// Returns the address stored as `stored`, if it is one.
    #[inline]
    pub(crate) fn somewhere(stored: [u8; 4]) -> Option<Self> {
        (stored != Self::NOWHERE).then(|| Self::of(stored))
    }

    /// Returns the stored form of the address.
    #[inline]
    pub(crate) fn stored(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    /// Returns the number of the node's chunk.
    #[inline]
    pub(crate) fn chunk(self) -> usize {
        (self.0 >> CHUNK_BITS) as usize
    }

    /// Returns the start of the node in its chunk, in units.
    #[inline]
    pub(crate) fn unit(self) -> usize {
        (self.0 & ((1 << CHUNK_BITS) - 1)) as usize
    }

    /// Returns the start of the node in its chunk, in bytes.
    #[inline]
    pub(crate) fn start(self) -> usize {
        self.unit() * UNIT
    }
}

/// The arena cannot take the blob: it is larger than a chunk, or all addresses are used (32 GiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArenaFull;

/// Node blobs; see the module. `M` is [`Region`] while they are written, then [`Bytes`]. Clones share the
/// blobs.
#[derive(Clone)]
pub(crate) struct Arena<M = Bytes> {
    /// Separate from the others: most zones have only one, which is then found without reading `more`.
    first: M,
    more: Vec<M>,
    /// The blobs of nodes that differ from the base.
    overlay: Option<Arc<Overlay>>,
}

impl<M: AsRef<[u8]>> Arena<M> {
    /// Returns the chunks, at least one; only the last may be less than full, and only a sole one empty.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &M> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Returns the number of chunks.
    pub(crate) fn chunk_count(&self) -> usize {
        1 + self.more.len()
    }

    #[inline]
    fn chunk(&self, index: usize) -> &[u8] {
        match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.more[index].as_ref(),
        }
    }

    /// Returns the overlay, if there is one.
    #[inline]
    pub(crate) fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_deref()
    }

    /// Returns the bytes from `at` to the end of its chunk, or a blob of the overlay.
    #[inline]
    pub(crate) fn from(&self, at: NodeAddress) -> &[u8] {
        match at.chunk().checked_sub(1) {
            None => &self.first.as_ref()[at.start()..],
            Some(index) => match self.more.get(index) {
                Some(chunk) => &chunk.as_ref()[at.start()..],
                None => self.in_overlay(at),
            },
        }
    }

    #[inline(never)]
    fn in_overlay(&self, at: NodeAddress) -> &[u8] {
        self.overlay().map_or(&[], |overlay| overlay.blob(at.unit()))
    }

    /// Returns the blob at `at`.
    #[inline]
    pub(crate) fn blob(&self, at: NodeAddress) -> &[u8] {
        let rest = self.from(at);
        prefetch::read(Part::Node, rest.get(..blob::HEADER).unwrap_or_default());
        &rest[..blob::size(rest)]
    }

    /// Returns every blob with its address, including dead ones, in the order they were appended.
    pub(crate) fn walk(&self) -> impl Iterator<Item = (NodeAddress, &[u8])> {
        (0..self.chunk_count()).flat_map(|i| self.walk_chunk(i))
    }

    /// Returns the blobs of one chunk in the same way.
    pub(crate) fn walk_chunk(&self, index: usize) -> impl Iterator<Item = (NodeAddress, &[u8])> {
        let (chunk, mut at) = (self.chunk(index), 0);
        std::iter::from_fn(move || {
            let rest = chunk.get(at..).filter(|rest| !rest.is_empty())?;
            let address = NodeAddress::new(index, at / UNIT);
            at += blob::size(rest);
            Some((address, &rest[..blob::size(rest)]))
        })
    }

    /// Returns the address of the first blob.
    pub(crate) fn first(&self) -> Option<NodeAddress> {
        (!self.first.as_ref().is_empty()).then_some(NodeAddress::default())
    }

    /// Returns the address of the blob after the one at `at`, in the order of [`walk`](Self::walk).
    pub(crate) fn next(&self, at: NodeAddress) -> Option<NodeAddress> {
        let next = at.unit() + blob::size(self.from(at)) / UNIT;
        if next * UNIT < self.chunk(at.chunk()).len() {
            return Some(NodeAddress::new(at.chunk(), next));
        }
        let more = self.more.get(at.chunk()).is_some_and(|c| !c.as_ref().is_empty());
        more.then_some(NodeAddress::new(at.chunk() + 1, 0))
    }

    /// Returns an address after those of all blobs, as a number.
    pub(crate) fn end(&self) -> usize {
        let last = self.more.last().unwrap_or(&self.first);
        (self.more.len() << CHUNK_BITS) + last.as_ref().len() / UNIT
    }

    /// Returns the number of bytes in use.
    pub(crate) fn len(&self) -> usize {
        self.chunks().map(|chunk| chunk.as_ref().len()).sum()
    }

    /// Returns the bytes of memory taken.
    pub(crate) fn memory(&self) -> usize {
        let chunks = self.chunks().map(|chunk| memory::taken(chunk.as_ref().len()));
        self.more.len() * size_of::<M>() + chunks.sum::<usize>()
    }
}

impl Arena {
    /// An arena without blobs.
    pub(crate) const EMPTY: Arena = Arena { first: Bytes::new(), more: Vec::new(), overlay: None };

    /// Returns the same blobs with another overlay.
    pub(crate) fn under(&self, overlay: Arc<Overlay>) -> Arena {
        Arena { first: self.first.clone(), more: self.more.clone(), overlay: Some(overlay) }
    }
}

impl Arena<Region> {
    /// Returns an empty arena for building.
    pub(crate) const fn building() -> Self {
        Arena { first: Region::growing(CHUNK), more: Vec::new(), overlay: None }
    }

    /// Appends a blob, whose length is a multiple of [`UNIT`]. Returns its address.
    pub(crate) fn push(&mut self, blob: &[u8]) -> Result<NodeAddress, ArenaFull> {
        if blob.len() > CHUNK {
            return Err(ArenaFull);
        }
        let last = self.more.last().unwrap_or(&self.first);
        if last.len() + blob.len() > CHUNK {
            if self.more.len() + 1 >= MAX_CHUNKS {
                return Err(ArenaFull);
            }
            self.more.push(Region::growing(CHUNK));
        }
        let index = self.more.len();
        let chunk = self.chunk_mut(index);
        let at = NodeAddress::new(index, chunk.len() / UNIT);
        chunk.extend(blob);
        Ok(at)
    }

    fn chunk_mut(&mut self, index: usize) -> &mut Region {
        match index.checked_sub(1) {
            None => &mut self.first,
            Some(index) => &mut self.more[index],
        }
    }

    /// Returns the blob at `at` for changes in place.
    pub(crate) fn blob_mut(&mut self, at: NodeAddress) -> &mut [u8] {
        let rest = &mut self.chunk_mut(at.chunk()).as_mut()[at.start()..];
        let size = blob::size(rest);
        &mut rest[..size]
    }

    /// Returns a copy of the blobs for which `keep` returns true. Each chunk is freed as soon as it is
    /// copied.
    pub(crate) fn compacted(self, keep: impl Fn(&[u8]) -> bool) -> Result<Self, ArenaFull> {
        let mut new = Arena::building();
        for chunk in std::iter::once(self.first).chain(self.more) {
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

    /// Makes the blobs immutable.
    pub(crate) fn freeze(self) -> Arena {
        let more = self.more.into_iter().map(Region::freeze).collect();
        Arena { first: self.first.freeze(), more, overlay: None }
    }
}

impl Arena {
    /// Returns an arena of verified chunks.
    pub(super) fn of(chunks: Vec<Bytes>) -> Self {
        let mut chunks = chunks.into_iter();
        Arena { first: chunks.next().unwrap_or_default(), more: chunks.collect(), overlay: None }
    }
}
