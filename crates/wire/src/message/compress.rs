//! Name compression for a message being built (RFC 1035 §4.1.4).
//!
//! The table is an open-addressed set of (16-bit hash, 16-bit offset): four bytes per slot, without names;
//! candidates are compared with the message itself. The caller reuses the table for further messages.
//!
//! A name is only compressed against one in the same letter case, so that readers see each name as it was
//! written.
//!
//! Clients may choose names whose suffixes all have the same hash. So a lookup probes a limited number of
//! slots per suffix and compares a limited number of candidates per name; beyond that the name is written
//! out, which only makes the message longer.

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

/// Most slots probed for a suffix, starting at that of its hash. Even in a table at its fill limit hardly any
/// suffix is further away.
const MAX_PROBES: usize = 64;
/// Most candidates with an equal hash compared for all suffixes of one name. Usually the only candidate is
/// the match.
const MAX_COMPARED: u32 = 16;

/// The set of names that a message contains.
pub struct Compressor {
    slots: Box<[Slot]>,
    used: usize,
}

impl Compressor {
    /// A table for responses: 64 slots are enough for nearly all of them.
    pub fn small() -> Self {
        Self::with_slots(64)
    }

    /// A table for transfers, whose messages are full.
    pub fn large() -> Self {
        Self::with_slots(8192)
    }

    fn with_slots(n: usize) -> Self {
        Compressor { slots: vec![FREE; n].into(), used: 0 }
    }

    /// Removes all names.
    #[inline]
    pub fn clear(&mut self) {
        if self.used > 0 {
            self.slots.fill(FREE);
            self.used = 0;
        }
    }

    /// Removes the names at or after `len`, which are no longer part of the message.
    pub(super) fn truncate(&mut self, len: usize) {
        if self.used > 0 {
            for slot in self.slots.iter_mut().filter(|s| s.offset as usize >= len) {
                slot.offset = GONE;
            }
        }
    }

    /// Finds the longest suffix of a name in `message` to which a compressed name may point: returns the
    /// number of labels before it, and the pointer to it.
    ///
    /// If the longest suffix already needs too many pointers, takes one that needs none, so that later names
    /// have a target: names that grow label by label would otherwise all be written out from the seventh on.
    pub(super) fn find(&self, message: &[u8], suffixes: &Suffixes<'_>) -> Option<(usize, [u8; POINTER_LEN])> {
        if self.used == 0 {
            return None;
        }
        let mut left = Left { deepest: MAX_TARGET_POINTERS, compared: MAX_COMPARED };
        (0..suffixes.count).find_map(|labels| {
            let (suffix, hash) = (suffixes.wire(labels), suffixes.hashes[labels]);
            let found = self.probe(message, suffix, hash, &mut left).and_then(Offset::pointer);
            found.map(|pointer| (labels, pointer))
        })
    }

    /// Offset of `suffix` in the message, if it needs at most `deepest` pointers. Sets `deepest` to 0 if it
    /// only occurs with more.
    fn probe(&self, message: &[u8], suffix: &[u8], hash: u16, left: &mut Left) -> Option<Offset> {
        let mask = self.slots.len() - 1;
        let (first, mut too_deep) = (hash as usize, false);
        for at in first..first + MAX_PROBES {
            let slot = self.slots[at & mask];
            if slot.offset == 0 {
                break;
            }
            if slot.hash == hash && slot.offset != GONE {
                left.compared = left.compared.checked_sub(1)?;
                match depth_at(message, slot.offset as usize, suffix) {
                    Some(depth) if depth <= left.deepest => return Offset::new(slot.offset as usize),
                    depth => too_deep |= depth.is_some(),
                }
            }
        }
        if too_deep {
            left.deepest = 0;
        }
        None
    }

    /// Stores the first `labels` suffixes of a name written at `at`.
    pub(super) fn insert(&mut self, suffixes: &Suffixes<'_>, labels: usize, at: Offset) {
        let mask = self.slots.len() - 1;
        let known = suffixes.hashes[..suffixes.count.min(labels)].iter().zip(&suffixes.starts);
        for (&hash, &start) in known {
            let offset = at.index() + usize::from(start);
            // The table is full at three quarters: later names are not found, which only makes messages
            // longer.
            if offset >= Offset::REACH || self.used * 4 >= self.slots.len() * 3 {
                return;
            }
            let first = hash as usize;
            let slot = (first..first + MAX_PROBES).find(|at| self.slots[at & mask].offset == 0);
            if let Some(at) = slot {
                self.slots[at & mask] = Slot { hash, offset: offset as u16 };
                self.used += 1;
            }
        }
    }
}

/// The remaining work for finding one name.
struct Left {
    /// Most pointers that the match may need.
    deepest: usize,
    /// Remaining comparisons for its suffixes.
    compared: u32,
}

/// The suffixes of a name except the root, longest first: offset in the name, and hash.
pub(super) struct Suffixes<'a> {
    name: &'a [u8],
    starts: [u8; MAX_LABELS],
    hashes: [u16; MAX_LABELS],
    count: usize,
}

impl<'a> Suffixes<'a> {
    pub(super) fn of(name: Name<'a>) -> Self {
        let name = name.as_wire();
        let (mut starts, mut hashes) = ([0; MAX_LABELS], [0; MAX_LABELS]);
        let (mut count, mut at) = (0, 0);
        while name[at] != 0 {
            starts[count] = at as u8;
            count += 1;
            at += usize::from(name[at]) + 1;
        }
        // From the right, so that equal suffixes have equal hashes whatever precedes them.
        let mut hash = SEED;
        for i in (0..count).rev() {
            let end = at;
            at = usize::from(starts[i]);
            for word in (at..end).step_by(8) {
                hash = (hash ^ bytes(name, word, end - word)).wrapping_mul(SEED);
                hash ^= hash >> 29;
            }
            hashes[i] = (hash >> 32) as u16;
        }
        Suffixes { name, starts, hashes, count }
    }

    /// The suffix after this many labels.
    fn wire(&self, labels: usize) -> &'a [u8] {
        &self.name[usize::from(self.starts[labels])..]
    }

    /// Number of bytes before it.
    pub(super) fn bytes_before(&self, labels: usize) -> usize {
        usize::from(self.starts[labels])
    }
}

/// Odd, without a pattern.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// At most `length` and at most eight bytes of `name` from `at` on, as a number.
#[inline]
fn bytes(name: &[u8], at: usize, length: usize) -> u64 {
    let word = match (name.get(at..at + 8), name.last_chunk::<8>()) {
        (Some(word), _) => word.try_into().map_or(0, u64::from_le_bytes),
        // The end of the name is in the upper bytes of its last eight.
        (None, Some(last)) => u64::from_le_bytes(*last) >> (8 * (at + 8 - name.len())),
        (None, None) => name[at..].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    if length < 8 { word & ((1 << (8 * length)) - 1) } else { word }
}

/// Most pointers in a suffix that a name may point at: the name has one more, and an owner may be only a
/// pointer to the name.
const MAX_TARGET_POINTERS: usize = MAX_POINTERS - 2;

/// The number of pointers that a reader of `offset` in our own `message` follows to find `name` there; `None`
/// if another name is there.
fn depth_at(message: &[u8], mut offset: usize, mut name: &[u8]) -> Option<usize> {
    let mut depth = 0;
    loop {
        let here = message.get(offset..)?;
        let mut labels = 0;
        let end = loop {
            match *here.get(labels)? {
                end @ (0 | POINTER..) => break end,
                len => labels += usize::from(len) + 1,
            }
        };
        // The labels up to the root or the next pointer, compared at once.
        let (first, rest) = name.split_at_checked(labels)?;
        if first != &here[..labels] {
            return None;
        }
        if end == 0 {
            return (rest.len() == 1).then_some(depth);
        }
        let target = Offset::of_pointer([end, *here.get(labels + 1)?]).index();
        if target >= offset {
            return None;
        }
        (name, offset, depth) = (rest, target, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameBuf;

    /// A name with two-byte labels, for which all suffixes are given the same hash.
    fn colliding(labels: usize, number: u16) -> NameBuf {
        let mut name = NameBuf::ROOT;
        for label in 0..labels {
            let [high, low] = (number.wrapping_mul(251).wrapping_add(label as u16)).to_be_bytes();
            name = NameBuf::prepend(&[high, low], name.as_name()).expect("it is short enough");
        }
        name
    }

    fn suffixes<'n>(name: &'n NameBuf, hash: u16) -> Suffixes<'n> {
        Suffixes { hashes: [hash; MAX_LABELS], ..Suffixes::of(name.as_name()) }
    }

    /// CVE-2024-8508, CVE-2026-44390: names whose suffixes have equal hashes do not slow down writing the
    /// next one.
    #[test]
    fn names_that_collide_cost_no_more_than_others() {
        let mut names = Compressor::large();
        let mut message = vec![0; 12];
        let mut written = 0;
        for number in 0..64 {
            let name = colliding(80, number);
            let before = Offset::new(message.len()).expect("it is within reach");
            names.insert(&suffixes(&name, 4711), usize::MAX, before);
            message.extend_from_slice(name.as_name().as_wire());
            written += 80;
        }
        assert!(written > 5000 && names.used == MAX_PROBES, "{} of {written} are kept", names.used);
        // Another name is compared with a few of them, not once for each of its suffixes.
        let other = colliding(80, 1000);
        let mut left = Left { deepest: MAX_TARGET_POINTERS, compared: MAX_COMPARED };
        let other = suffixes(&other, 4711);
        let found = (0..80).find_map(|at| names.probe(&message, other.wire(at), 4711, &mut left));
        assert_eq!((found, left.compared), (None, 0));
        assert_eq!(names.find(&message, &other), None);
        // Names that do not collide are still found.
        let plain: NameBuf = "www.example.".parse().expect("a name");
        let at = Offset::new(message.len()).expect("it is within reach");
        names.insert(&Suffixes::of(plain.as_name()), usize::MAX, at);
        message.extend_from_slice(plain.as_name().as_wire());
        assert_eq!(names.find(&message, &Suffixes::of(plain.as_name())), at.pointer().map(|to| (0, to)));
    }
}
