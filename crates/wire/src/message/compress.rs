//! Name compression for a message being built (RFC 1035 §4.1.4).
//!
//! An open-addressed set of (16-bit hash, 16-bit offset): four octets a slot and no names stored; the
//! message itself is what candidates are compared with. The table is kept by whoever builds messages and
//! reused from one to the next.

use super::layout::{Offset, POINTER, POINTER_LEN};
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

    /// Finds the longest suffix of `name` in `message`: how many labels lie in front of it, and the pointer to it.
    pub(super) fn find(&self, message: &[u8], name: Name<'_>) -> Option<(usize, [u8; POINTER_LEN])> {
        if self.used == 0 {
            return None;
        }
        let mut hashes = [0u16; MAX_LABELS];
        let labels = suffix_hashes(name, &mut hashes);
        let mut suffix = name;
        for (skipped, &hash) in hashes[..labels].iter().enumerate() {
            if let Some(pointer) = self.probe(message, suffix, hash).and_then(Offset::pointer) {
                return Some((skipped, pointer));
            }
            suffix = suffix.parent()?;
        }
        None
    }

    fn probe(&self, message: &[u8], suffix: Name<'_>, hash: u16) -> Option<Offset> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.offset == 0 {
                return None;
            }
            if slot.hash == hash && slot.offset != GONE && is_at(message, slot.offset as usize, suffix) {
                return Offset::new(slot.offset as usize);
            }
            at = (at + 1) & mask;
        }
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

/// Writes the hash of each suffix, longest first, and gives their number; letter case does not count.
fn suffix_hashes(name: Name<'_>, to: &mut [u16; MAX_LABELS]) -> usize {
    let mut count = 0;
    for label in name.labels() {
        let mut hash = 0x1505u32 ^ label.len() as u32;
        for octet in label {
            hash = hash.wrapping_mul(33) ^ octet.to_ascii_lowercase() as u32;
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

/// Whether `name` is what a reader finds at `offset` of `message`, which we wrote ourselves.
fn is_at(message: &[u8], mut offset: usize, name: Name<'_>) -> bool {
    let mut rest = name.as_wire();
    loop {
        let Some(&len) = message.get(offset) else { return false };
        if len >= POINTER {
            let Some(&low) = message.get(offset + 1) else { return false };
            let target = Offset::of_pointer([len, low]).index();
            if target >= offset {
                return false;
            }
            offset = target;
            continue;
        }
        let size = len as usize + 1;
        let (Some(here), Some(label)) = (message.get(offset..offset + size), rest.get(..size)) else {
            return false;
        };
        if !here.eq_ignore_ascii_case(label) {
            return false;
        }
        if len == 0 {
            return true;
        }
        offset += size;
        rest = &rest[size..];
    }
}
