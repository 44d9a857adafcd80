//! The hash index: buckets of one cache line, twelve one-octet tags and twelve addresses each.
//!
//! The upper half of a hash chooses the bucket, its lowest octet is the tag. A full bucket spills into the
//! next one and remembers that it did, so that a search that finds nothing stops at the first bucket that
//! never spilt. Knows nothing of names: callers compare.

/// Slots per bucket.
const SLOTS: usize = 12;

/// One cache line of the index.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [u8; SLOTS],
    len: u8,
    spilt: bool,
    refs: [u32; SLOTS],
}

const EMPTY: Bucket = Bucket { tags: [0; SLOTS], len: 0, spilt: false, refs: [0; SLOTS] };

impl Bucket {
    /// Bit `i` is set if slot `i` is in use and carries `tag`.
    #[inline]
    fn matches(&self, tag: u8) -> u32 {
        let mut mask = 0;
        for (i, &t) in self.tags.iter().enumerate() {
            mask |= u32::from(t == tag) << i;
        }
        mask & ((1 << self.len) - 1)
    }

    /// Puts an entry in; `false` if the bucket is full.
    #[inline]
    fn put(&mut self, tag: u8, at: u32) -> bool {
        let len = self.len as usize;
        if len >= SLOTS {
            return false;
        }
        (self.tags[len], self.refs[len]) = (tag, at);
        self.len += 1;
        true
    }
}

/// The index; see the module.
pub(crate) struct Index {
    buckets: Box<[Bucket]>,
}

impl Index {
    /// An empty index for about `entries` entries, three quarters full when they are all in.
    pub(crate) fn for_entries(entries: usize) -> Self {
        let buckets = (entries / 9 + 1).min(u32::MAX as usize);
        Index { buckets: vec![EMPTY; buckets].into_boxed_slice() }
    }

    /// How many entries fit before the index gets slow.
    pub(crate) fn room(&self) -> usize {
        self.buckets.len() * 11
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    /// Reads the bucket's line, to bring it into the cache. The value means nothing, but should be used.
    #[inline]
    pub(crate) fn touch(&self, hash: u64) -> u32 {
        self.buckets[self.home(hash)].len as u32
    }

    /// The first entry whose tag fits: most often the right one.
    #[inline]
    pub(crate) fn candidate(&self, hash: u64) -> Option<u32> {
        let bucket = &self.buckets[self.home(hash)];
        let mask = bucket.matches(hash as u8);
        (mask != 0).then(|| bucket.refs[mask.trailing_zeros() as usize])
    }

    /// The entry for which `same` holds, among those whose hash may be `hash`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut same: impl FnMut(u32) -> bool) -> Option<u32> {
        let (bucket, slot) = self.position(hash, &mut same)?;
        Some(self.buckets[bucket].refs[slot])
    }

    #[inline]
    fn position(&self, hash: u64, same: &mut impl FnMut(u32) -> bool) -> Option<(usize, usize)> {
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let mut mask = bucket.matches(hash as u8);
            while mask != 0 {
                let slot = mask.trailing_zeros() as usize;
                if same(bucket.refs[slot]) {
                    return Some((at, slot));
                }
                mask &= mask - 1;
            }
            if !bucket.spilt {
                return None;
            }
            at = if at + 1 == self.buckets.len() { 0 } else { at + 1 };
        }
        None
    }

    /// Adds an entry, which must not be in already. The caller sees to it that there is [`room`](Self::room).
    pub(crate) fn insert(&mut self, hash: u64, at: u32) {
        let mut bucket = self.home(hash);
        while !self.buckets[bucket].put(hash as u8, at) {
            self.buckets[bucket].spilt = true;
            bucket = if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 };
        }
    }

    /// Puts `new` in the place of the entry for which `same` holds.
    pub(crate) fn replace(&mut self, hash: u64, new: u32, mut same: impl FnMut(u32) -> bool) {
        if let Some((bucket, slot)) = self.position(hash, &mut same) {
            self.buckets[bucket].refs[slot] = new;
        }
    }

    /// Octets allocated.
    pub(crate) fn memory(&self) -> usize {
        size_of_val::<[Bucket]>(&self.buckets)
    }
}
