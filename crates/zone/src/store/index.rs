//! The hash index: buckets of one cache line, each with twelve tags of one byte and twelve addresses.
//!
//! The upper half of a hash selects the bucket, its lowest byte is the tag; a tag of 0 or 1 becomes 2. A full
//! bucket spills into the next one and is marked, so that a search without a match stops at the first bucket
//! that never spilt. The index does not read names: callers compare.
//!
//! ```text
//!  0  tags, one byte each, 0 if the slot is not in use
//! 12  u8   number of slots in use
//! 13  u8   whether an entry that belongs here went to a later bucket
//! 14  u16  zero
//! 16  addresses, u32 each
//! ```
//!
//! Numbers are little-endian, so that an image holds the buckets unchanged.

use bytes::Bytes;
use wire::NameHash;

use super::arena::NodeAddress;
use super::memory::{self, Region};

use crate::prefetch::{self, Part};

/// Slots per bucket.
const SLOTS: usize = 12;
/// Bytes per bucket.
pub(crate) const BUCKET: usize = 64;
/// Offset of the number of slots in use in a bucket.
const LEN: usize = 12;
/// Offset of the mark of spilling in a bucket.
const SPILT: usize = 13;

/// One bucket.
type Bucket = [u8; BUCKET];

/// 1 in every byte of a number.
const ONES: u128 = u128::MAX / 0xff;
/// 0x80 in the bytes of the twelve slots.
const HIGHS: u128 = (ONES << 7) & ((1 << (8 * SLOTS)) - 1);

/// Returns the tag of a hash. Unused slots hold 0; no tag is 1, which [`matches()`] could confuse with 0.
#[inline]
fn tag(hash: NameHash) -> u8 {
    (hash.bits() as u8).max(2)
}

/// Returns the slots that have `tag`: byte `i` has its highest bit set for slot `i`. The lowest such slot
/// does have it; others may be set by mistake, which costs the caller a comparison of names. Those are in
/// use: their tag differs in the lowest bit only.
///
/// All tags are compared at once. Subtracting 1 from a byte sets its highest bit if the byte is 0, which
/// means that it equals the tag, or if it was set before, which `!differ` masks out. What remains is a byte
/// of 1 above a byte of 0, because the 0 borrows from it. For the tag 2a in a bucket with the tags 07 2a 2b
/// 10, slot 0 on the left:
///
/// ```text
/// differ          2d 00 01 3a    each tag ^ 2a: 00 where they are equal
/// differ - ONES   2c ff ff 38    00 - 1 borrows from the next byte, so 01 - 1 - 1 is ff
/// !differ         d2 ff fe c5
/// and, & 80       00 80 80 00    slot 1, and by mistake slot 2
/// ```
#[inline]
fn matches(bucket: &Bucket, tag: u8) -> u128 {
    let mut tags = [0; 16];
    tags.copy_from_slice(&bucket[..16]);
    let differ = u128::from_le_bytes(tags) ^ (ONES * tag as u128);
    differ.wrapping_sub(ONES) & !differ & HIGHS
}

/// Returns the lowest slot of `matches`, which is not 0: bit 15 is the highest of byte 1, so slot 1.
#[inline]
fn lowest(matches: u128) -> u32 {
    matches.trailing_zeros() / 8
}

/// Returns the address in a slot.
#[inline]
fn address(bucket: &Bucket, slot: u32) -> NodeAddress {
    // The sixteen bytes before the addresses are as long as four addresses. 4 + slot is below 16 anyway: the
    // mask avoids the bounds check.
    NodeAddress::of(bucket.as_chunks::<4>().0[(4 + slot as usize) & 15])
}

fn set_address(bucket: &mut Bucket, slot: usize, at: NodeAddress) {
    bucket.as_chunks_mut::<4>().0[(4 + slot) & 15] = at.stored();
}

/// Returns the slot with `tag` for whose address `same` returns true.
#[inline]
fn slot_of(bucket: &Bucket, tag: u8, same: &mut impl FnMut(NodeAddress) -> bool) -> Option<u32> {
    let mut matches = matches(bucket, tag);
    while matches != 0 {
        let slot = lowest(matches);
        if same(address(bucket, slot)) {
            return Some(slot);
        }
        matches &= matches - 1;
    }
    None
}

/// Adds an entry; returns `false` if the bucket is full.
#[inline]
fn put(bucket: &mut Bucket, tag: u8, at: NodeAddress) -> bool {
    let len = bucket[LEN] as usize;
    if len >= SLOTS {
        return false;
    }
    bucket[len] = tag;
    set_address(bucket, len, at);
    bucket[LEN] += 1;
    true
}

/// The index; see the module. `M` is [`Region`] while it is filled, then [`Bytes`]. Clones share the buckets.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Index<M = Bytes> {
    /// The only bucket, if there is just one: most zones are small, and their bucket is then in the zone
    /// struct itself.
    sole: Bucket,
    /// All buckets, if there are more.
    bytes: Option<M>,
}

impl<M: AsRef<[u8]>> Index<M> {
    #[inline]
    fn buckets(&self) -> &[Bucket] {
        prefetch::read(Part::Zone, std::slice::from_ref(&self.bytes));
        match &self.bytes {
            None => std::slice::from_ref(&self.sole),
            Some(bytes) => bytes.as_ref().as_chunks().0,
        }
    }

    /// Returns the bucket where the search for a hash begins: the hash's upper half as a fraction of 2^32,
    /// times the number of buckets. 0x8000_0000 is a half, so it selects bucket 5 of 10.
    #[inline]
    fn home(hash: NameHash, buckets: usize) -> usize {
        // Buckets are fewer than 2^32.
        ((hash.bits() >> 32).wrapping_mul(buckets as u64) >> 32) as usize
    }

    /// Prefetches the first bucket that [`find`](Self::find) will read.
    #[inline]
    pub(crate) fn prefetch(&self, hash: NameHash) {
        let buckets = self.buckets();
        prefetch::value(&buckets[Self::home(hash, buckets.len())]);
    }

    /// Returns the first entry with a matching tag: most likely the one that [`find`](Self::find) returns.
    #[inline]
    pub(crate) fn candidate(&self, hash: NameHash) -> Option<NodeAddress> {
        let buckets = self.buckets();
        let bucket = &buckets[Self::home(hash, buckets.len())];
        prefetch::read(Part::Index, bucket);
        let matches = matches(bucket, tag(hash));
        (matches != 0).then(|| address(bucket, lowest(matches)))
    }

    /// Returns the entry for which `same` returns true, among those whose hash may be `hash`.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: NameHash,
        mut same: impl FnMut(NodeAddress) -> bool,
    ) -> Option<NodeAddress> {
        let (bucket, slot) = self.position(hash, &mut same)?;
        Some(address(&self.buckets()[bucket], slot))
    }

    #[inline]
    fn position(&self, hash: NameHash, same: &mut impl FnMut(NodeAddress) -> bool) -> Option<(usize, u32)> {
        let buckets = self.buckets();
        let home = Self::home(hash, buckets.len());
        let mut at = home;
        loop {
            let bucket = buckets.get(at)?;
            prefetch::read(Part::Index, bucket);
            if let Some(slot) = slot_of(bucket, tag(hash), same) {
                return Some((at, slot));
            }
            if bucket[SPILT] == 0 {
                return None;
            }
            at = if at + 1 == buckets.len() { 0 } else { at + 1 };
            if at == home {
                return None;
            }
        }
    }

    /// Returns how many entries fit before the index gets slow.
    pub(crate) fn room(&self) -> usize {
        self.buckets().len() * 11
    }

    /// Returns the bytes of memory taken beside the struct itself.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| memory::taken(bytes.as_ref().len()))
    }
}

impl Index<Region> {
    /// Returns an empty index for about `entries` entries, three quarters full when it has all of them.
    pub(crate) fn for_entries(entries: usize) -> Self {
        Self::in_room(entries, IndexRoom::NONE)
    }

    /// Returns an empty index in this memory, if there is some and it fits.
    pub(crate) fn in_room(entries: usize, room: IndexRoom) -> Self {
        let buckets = buckets_for(entries);
        let memory = || room.into_memory(buckets * BUCKET);
        let bytes = (buckets > 1).then(|| memory().unwrap_or_else(|| Region::zeroed(buckets * BUCKET)));
        Index { sole: [0; BUCKET], bytes }
    }

    #[inline]
    fn buckets_mut(&mut self) -> &mut [Bucket] {
        match &mut self.bytes {
            None => std::slice::from_mut(&mut self.sole),
            Some(bytes) => bytes.as_mut().as_chunks_mut().0,
        }
    }

    /// Adds an entry, which must not be in the index. The caller ensures that there is [`room`](Self::room).
    pub(crate) fn insert(&mut self, hash: NameHash, at: NodeAddress) {
        let buckets = self.buckets_mut();
        let mut bucket = Self::home(hash, buckets.len());
        while !put(&mut buckets[bucket], tag(hash), at) {
            buckets[bucket][SPILT] = 1;
            bucket = if bucket + 1 == buckets.len() { 0 } else { bucket + 1 };
        }
    }

    /// Returns up to `count` consecutive ranges of buckets, to be filled separately.
    pub(crate) fn parts(&mut self, count: usize) -> Vec<IndexPart<'_>> {
        let buckets = self.buckets_mut();
        let all = buckets.len();
        let each = buckets_each(all, count);
        let parts = buckets.chunks_mut(each).enumerate();
        parts.map(|(i, buckets)| IndexPart { buckets, first: i * each, all }).collect()
    }

    /// Returns the number of the [`parts`](Self::parts) that a hash belongs to.
    #[inline]
    pub(crate) fn part_of(&self, hash: NameHash, count: usize) -> usize {
        let all = self.buckets().len();
        Self::home(hash, all) / buckets_each(all, count)
    }

    /// Replaces the address of the entry for which `same` returns true by `new`.
    pub(crate) fn replace(
        &mut self,
        hash: NameHash,
        new: NodeAddress,
        mut same: impl FnMut(NodeAddress) -> bool,
    ) {
        if let Some((bucket, slot)) = self.position(hash, &mut same) {
            set_address(&mut self.buckets_mut()[bucket], slot as usize, new);
        }
    }

    /// Makes the index immutable.
    pub(crate) fn freeze(self) -> Index {
        Index { sole: self.sole, bytes: self.bytes.map(Region::freeze) }
    }
}

/// Returns the bytes of memory of an index for about `entries` entries.
pub(crate) fn memory_for(entries: usize) -> usize {
    memory::taken(buckets_for(entries) * BUCKET)
}

/// Returns the number of buckets of an index for about `entries` entries.
fn buckets_for(entries: usize) -> usize {
    (entries / 9 + 1).min(u32::MAX as usize)
}

/// Memory for an index whose entries are still being counted. The system zeroes a page when it is first
/// touched, at half a gigabyte per second on some machines; touched as the count grows, the pages are ready
/// when the index is filled, and a zone is in service that much sooner after its last record.
///
/// A large mapping is used only as far as needed, so it exists only for indexes that are not much smaller.
/// Still larger indexes go without: zones of that size are near the limits of memory while they are built.
pub(crate) struct IndexRoom {
    memory: Option<Region>,
    /// Number of bytes touched.
    ready: usize,
}

/// Bytes of the smallest index that has [`IndexRoom`], and of the largest.
const ROOMY: std::ops::RangeInclusive<usize> = 8 << 20..=64 << 20;
/// The smallest page size.
const PAGE: usize = 4096;

impl IndexRoom {
    /// No memory yet.
    pub(crate) const NONE: IndexRoom = IndexRoom { memory: None, ready: 0 };

    /// Returns the number of bytes touched.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Prepares for `entries` entries, never fewer than before.
    pub(crate) fn expect(&mut self, entries: usize) {
        let needed = buckets_for(entries) * BUCKET;
        if !ROOMY.contains(&needed) {
            *self = IndexRoom::NONE;
            return;
        }
        let memory = self.memory.get_or_insert_with(|| Region::zeroed(*ROOMY.end()));
        let fresh = memory.as_mut().get_mut(self.ready..needed).unwrap_or_default();
        fresh.chunks_mut(PAGE).for_each(|page| page[0] = 0);
        self.ready = self.ready.max(needed);
    }

    /// Returns `len` zero bytes, if there are as many.
    fn into_memory(self, len: usize) -> Option<Region> {
        self.memory.filter(|_| ROOMY.contains(&len)).map(|memory| memory.shortened(len))
    }
}

/// Returns the number of buckets in each of `count` parts of an index, except for the last one.
#[inline]
fn buckets_each(all: usize, count: usize) -> usize {
    all.div_ceil(count.max(1))
}

/// A range of an index' buckets, while it is filled.
pub(crate) struct IndexPart<'i> {
    buckets: &'i mut [Bucket],
    /// Index of the range's first bucket.
    first: usize,
    /// Number of buckets of the whole index.
    all: usize,
}

/// The result of adding an entry to a part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// It was added.
    New,
    /// An equal entry exists at this address, so it was not added.
    Again(NodeAddress),
    /// It was not added: it belongs after the range, which is full from its bucket on.
    Beyond,
}

impl IndexPart<'_> {
    #[inline]
    fn home(&self, hash: NameHash) -> usize {
        Index::<Region>::home(hash, self.all) - self.first
    }

    /// Prefetches the first bucket that [`add`](Self::add) will read.
    #[inline]
    pub(crate) fn prefetch(&self, hash: NameHash) {
        if let Some(bucket) = self.buckets.get(self.home(hash)) {
            prefetch::value(bucket);
        }
    }

    /// Adds an entry whose hash belongs to this part, if there is none for which `same` returns true.
    #[inline]
    pub(crate) fn add(
        &mut self,
        hash: NameHash,
        at: NodeAddress,
        mut same: impl FnMut(NodeAddress) -> bool,
    ) -> Added {
        let home = self.home(hash);
        for bucket in self.buckets.iter_mut().skip(home) {
            if let Some(slot) = slot_of(bucket, tag(hash), &mut same) {
                return Added::Again(address(bucket, slot));
            }
            // After a bucket that never spilt there is no match.
            if bucket[SPILT] == 0 && put(bucket, tag(hash), at) {
                return Added::New;
            }
            bucket[SPILT] = 1;
        }
        Added::Beyond
    }
}

impl Index {
    /// Returns an index of verified buckets.
    pub(super) fn of(bytes: Bytes) -> Self {
        match Bucket::try_from(&bytes[..]) {
            Ok(sole) => Index { sole, bytes: None },
            Err(_) => Index { sole: [0; BUCKET], bytes: Some(bytes) },
        }
    }

    /// Returns the buckets, which may be shared.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone().unwrap_or_else(|| Bytes::copy_from_slice(&self.sole))
    }
}

/// Whether `buckets` can be searched, and `is_node` returns true for every address in them.
pub(super) fn is_sound(buckets: &[u8], is_node: impl Fn(NodeAddress) -> bool) -> bool {
    buckets.as_chunks::<BUCKET>().0.iter().all(|bucket| {
        let len = bucket[LEN] as usize;
        len <= SLOTS
            && (bucket[SPILT] == 0 || bucket[SPILT] == 1 && len == SLOTS)
            && bucket[len..SLOTS].iter().chain(&bucket[LEN + 2..16]).all(|&byte| byte == 0)
            && bucket[16 + 4 * len..].iter().all(|&byte| byte == 0)
            && (0..len as u32).all(|slot| is_node(address(bucket, slot)))
    })
}

#[cfg(test)]
mod tests {
    use wire::hash::HashKey;

    use super::*;

    /// Returns how many entries fill an index of this many bytes.
    fn entries_of(bytes: usize) -> usize {
        bytes / BUCKET * 9 - 1
    }

    #[test]
    fn room_is_there_for_indexes_that_are_neither_small_nor_very_large() {
        for (bytes, roomy) in
            [(8 << 20, true), ((8 << 20) - BUCKET, false), (64 << 20, true), (65 << 20, false)]
        {
            let mut room = IndexRoom::NONE;
            (1..=4).for_each(|quarter| room.expect(entries_of(bytes) * quarter / 4));
            assert_eq!((room.memory.is_some(), room.ready), (roomy, if roomy { bytes } else { 0 }));
            let index = Index::in_room(entries_of(bytes), room);
            assert_eq!(index.buckets().len(), bytes / BUCKET);
            assert!(index.buckets().iter().flatten().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn an_index_beyond_what_was_expected_has_room_all_the_same() {
        let mut room = IndexRoom::NONE;
        room.expect(entries_of(10 << 20));
        assert_eq!(Index::in_room(entries_of(12 << 20), room).buckets().len(), (12 << 20) / BUCKET);
        let mut room = IndexRoom::NONE;
        room.expect(entries_of(60 << 20));
        assert_eq!(Index::in_room(entries_of(70 << 20), room).buckets().len(), (70 << 20) / BUCKET);
    }

    /// Parts are filled separately; entries that spill out of one are added to the whole, and everything is
    /// found in it once.
    #[test]
    fn parts_filled_apart_make_one_index() {
        let key = HashKey::new([11, 22, 33]);
        let hash = |i: u32| {
            let name: wire::NameBuf = format!("{i}.").parse().expect("a name");
            key.name(name.as_name().to_lower().as_lower())
        };
        for count in 1..=9 {
            // So full that buckets spill in every part.
            let mut index = Index::for_entries(9 * 20);
            let names = 12 * 21 - 1;
            let place = |i| (hash(i), NodeAddress(i));
            let belongs: Vec<usize> = (0..names).map(|i| index.part_of(hash(i), count)).collect();
            let mut beyond = Vec::new();
            for (number, mut part) in index.parts(count).into_iter().enumerate() {
                for (hash, at) in (0..names).filter(|&i| belongs[i as usize] == number).map(place) {
                    match part.add(hash, at, |other| other == at) {
                        Added::Beyond => beyond.push((hash, at)),
                        added => assert_eq!(added, Added::New),
                    }
                    assert_ne!(part.add(hash, at, |other| other == at), Added::New);
                }
            }
            assert!(!beyond.is_empty(), "nothing spilt out of {count} parts");
            beyond.iter().for_each(|&(hash, at)| index.insert(hash, at));
            for (hash, at) in (0..names).map(place) {
                let mut found = 0;
                index.find(hash, |other| {
                    found += (other == at) as u32;
                    false
                });
                assert_eq!(found, 1, "{at:?} of {count} parts");
            }
            assert!(is_sound(index.freeze().bytes().as_ref(), |at| at.0 < names));
        }
    }
}
