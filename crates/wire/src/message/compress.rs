//! Name compression for a message being built (RFC 1035 §4.1.4).
//!
//! An open-addressed set of (16-bit hash, 16-bit offset): four bytes a slot and no names stored; the
//! message itself is what candidates are compared with. The table is kept by whoever builds messages and
//! reused from one to the next.
//!
//! A name is only compressed where letter case agrees: a reader sees each name as it was written.

use super::layout::{MAX_POINTERS, Offset, POINTER, POINTER_LEN};
use crate::name::{MAX_LABELS, Name};

#[derive(Clone, Copy)]
struct Slot {
    hash: u16,
    /// Message offset; 0 for a free slot (the header is never pointed at), [`GONE`] for a removed one.
    offset: u16,
}

const FREE: Slot = Slot { hash: 0, offset: 0 };
const GONE: u16 = u16::MAX;

/// The set of names a message already holds.
pub struct Compressor {
    slots: Box<[Slot]>,
    used: usize,
}

impl Compressor {
    /// For answers: 64 slots are more names than nearly all of them hold.
    pub fn small() -> Self {
        Self::with_slots(64)
    }

    /// For transfers, whose messages are full.
    pub fn large() -> Self {
        Self::with_slots(8192)
    }

    fn with_slots(n: usize) -> Self {
        Compressor { slots: vec![FREE; n].into(), used: 0 }
    }

    /// Forgets all names.
    #[inline]
    pub fn clear(&mut self) {
        if self.used > 0 {
            self.slots.fill(FREE);
            self.used = 0;
        }
    }

    /// Forgets the names at or after `len`, which are no longer part of the message.
    pub(super) fn truncate(&mut self, len: usize) {
        if self.used > 0 {
            for slot in self.slots.iter_mut().filter(|s| s.offset as usize >= len) {
                slot.offset = GONE;
            }
        }
    }

    /// Finds the longest suffix of `name` in `message` that a compressed name may point at: how many labels lie in front
    /// of it, and the pointer to it.
    ///
    /// Where the longest is too deep already, one that follows no pointers is taken, so that the names that come after
    /// this one have somewhere to point: names that grow label by label would else all be written from the seventh on.
    pub(super) fn find(&self, message: &[u8], name: Name<'_>) -> Option<(usize, [u8; POINTER_LEN])> {
        if self.used == 0 {
            return None;
        }
        let mut hashes = [0u16; MAX_LABELS];
        let labels = suffix_hashes(name, &mut hashes);
        let (mut suffix, mut deepest) = (name, DEEPEST);
        for (skipped, &hash) in hashes[..labels].iter().enumerate() {
            if let Some(pointer) = self.probe(message, suffix, hash, &mut deepest).and_then(Offset::pointer) {
                return Some((skipped, pointer));
            }
            suffix = suffix.parent()?;
        }
        None
    }

    /// Where `suffix` stands and follows at most `deepest` pointers, which becomes 0 if it only stands deeper.
    fn probe(&self, message: &[u8], suffix: Name<'_>, hash: u16, deepest: &mut usize) -> Option<Offset> {
        let mask = self.slots.len() - 1;
        let (mut at, mut too_deep) = (hash as usize & mask, false);
        loop {
            let slot = self.slots[at];
            if slot.offset == 0 {
                break;
            }
            if slot.hash == hash && slot.offset != GONE {
                match depth_at(message, slot.offset as usize, suffix) {
                    Some(depth) if depth <= *deepest => return Offset::new(slot.offset as usize),
                    depth => too_deep |= depth.is_some(),
                }
            }
            at = (at + 1) & mask;
        }
        if too_deep {
            *deepest = 0;
        }
        None
    }

    /// Remembers the first `labels` suffixes of `name`, written at `at`.
    pub(super) fn insert(&mut self, name: Name<'_>, labels: usize, at: Offset) {
        let mut hashes = [0u16; MAX_LABELS];
        let count = suffix_hashes(name, &mut hashes).min(labels);
        let mask = self.slots.len() - 1;
        let mut offset = at.index();
        for (&hash, label) in hashes[..count].iter().zip(name.labels()) {
            // Full at three quarters: names that come later are found no more, which is only longer.
            if offset >= Offset::REACH || self.used * 4 >= self.slots.len() * 3 {
                return;
            }
            let mut at = hash as usize & mask;
            while self.slots[at].offset != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = Slot { hash, offset: offset as u16 };
            self.used += 1;
            offset += label.len() + 1;
        }
    }
}

/// Writes the hash of each suffix, longest first, and returns their number; letter case does not count.
fn suffix_hashes(name: Name<'_>, to: &mut [u16; MAX_LABELS]) -> usize {
    let mut count = 0;
    for label in name.labels() {
        let mut hash = 0x1505u32 ^ label.len() as u32;
        for byte in label {
            hash = hash.wrapping_mul(33) ^ byte.to_ascii_lowercase() as u32;
        }
        to[count] = (hash ^ hash >> 15) as u16;
        count += 1;
    }
    // Fold from the right, so that equal suffixes hash alike whatever stands in front of them.
    for i in (0..count.saturating_sub(1)).rev() {
        to[i] = to[i].wrapping_add(to[i + 1].rotate_left(5)).wrapping_mul(0x9e35);
    }
    count
}

/// The most pointers in a suffix that a name may point at: that name has one more, and an owner may be nothing but a
/// pointer to it.
const DEEPEST: usize = MAX_POINTERS - 2;

/// How many pointers a reader of `offset` of `message`, which we wrote ourselves, follows to find `name` there; `None` if
/// it is not what he finds.
fn depth_at(message: &[u8], mut offset: usize, name: Name<'_>) -> Option<usize> {
    let (mut rest, mut depth) = (name.as_wire(), 0);
    loop {
        let &len = message.get(offset)?;
        if len >= POINTER {
            let target = Offset::of_pointer([len, *message.get(offset + 1)?]).index();
            if target >= offset {
                return None;
            }
            (offset, depth) = (target, depth + 1);
            continue;
        }
        let size = len as usize + 1;
        if message.get(offset..offset + size)? != rest.get(..size)? {
            return None;
        }
        if len == 0 {
            return Some(depth);
        }
        offset += size;
        rest = &rest[size..];
    }
}
