//! The names in a message, label by label, as targets for the compression of later names.
//!
//! A lookup starts at the right end of a name: each step leads from a name in the message to the one with one
//! more label in front, if the message has it. A slot holds 15 bits of a hash of both, the offset of the
//! label, and the number of pointers that a reader follows from there; candidates are compared with the
//! message itself. So a name costs one step for each label that it does not share with a name whose position
//! is already known, and nothing is allocated.
//!
//! `wire`'s compression handles messages of any kind. This one is for messages full of names of one zone,
//! whose suffixes are known in advance.

use wire::bytes::same;
use wire::message::{HEADER_LEN, MAX_POINTERS, Offset, POINTER, POINTER_LEN};

/// Number of slots: twice the labels of a message, so that few collide, and no more, so that the table stays
/// in the L1 cache.
const SLOTS: usize = 2048;
/// Slots probed per step. Only names chosen to collide need more.
const PROBES: usize = 8;
const OFFSET_BITS: u32 = 14;
const DEPTH_BITS: u32 = 3;
/// Most pointers in a name that another name may end in: the other name has one more, and an owner may be
/// only a pointer to that.
pub(super) const MAX_TARGET_POINTERS: u8 = MAX_POINTERS as u8 - 2;

const _: () = assert!(Offset::REACH == 1 << OFFSET_BITS && MAX_POINTERS <= 1 << DEPTH_BITS);

/// A name in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Offset of its first label; 0 for the root.
    pub(super) at: u16,
    /// Pointers that a reader of the name follows.
    pub(super) depth: u8,
}

impl Standing {
    /// The root, which has no position: it is written as a zero byte.
    pub(super) const ROOT: Standing = Standing { at: 0, depth: 0 };

    pub(super) fn is_root(self) -> bool {
        self.at == 0
    }

    /// A compression pointer to the name.
    #[inline]
    pub(super) fn pointer(self) -> [u8; POINTER_LEN] {
        ((POINTER as u16) << 8 | self.at).to_be_bytes()
    }

    /// Whether a compression pointer can reach the name.
    #[inline]
    pub(super) fn is_within_reach(self) -> bool {
        (self.at as usize) < Offset::REACH
    }
}

/// The labels of a message.
pub(super) struct StandingNames {
    slots: Box<[u32; SLOTS]>,
}

impl StandingNames {
    pub(super) fn new() -> Self {
        StandingNames { slots: Box::new([0; SLOTS]) }
    }

    /// Removes all names.
    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
    }

    /// The hash of `label`, which includes its length, in front of the name at `parent`.
    #[inline]
    pub(super) fn hash(parent: Standing, label: &[u8]) -> u32 {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut h = (parent.at as u64 + 1).wrapping_mul(K);
        let (words, rest) = label.as_chunks::<8>();
        for word in words {
            h = (h ^ u64::from_le_bytes(*word)).wrapping_mul(K);
            h ^= h >> 32;
        }
        let tail = match label.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last),
            None => rest.iter().fold(0, |word, &byte| word << 8 | byte as u64),
        };
        h = (h ^ tail).wrapping_mul(K);
        (h >> 32) as u32
    }

    /// The name of `label` in front of the one at `parent`, if `message` has it.
    #[inline]
    pub(super) fn find(&self, message: &[u8], parent: Standing, label: &[u8], hash: u32) -> Option<Standing> {
        let tag = hash & TAG_MASK;
        for probe in 0..PROBES {
            let slot = self.slots[(hash as usize + probe) % SLOTS];
            if slot == 0 {
                return None;
            }
            if slot & TAG_MASK == tag {
                let at = (slot & OFFSET_MASK) as u16;
                if stands_at(message, at as usize, label, parent) {
                    return Some(Standing { at, depth: (slot >> OFFSET_BITS) as u8 & DEPTH_MASK });
                }
            }
        }
        None
    }

    /// Stores a name under its [`hash`](Self::hash).
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, name: Standing) {
        debug_assert!((name.at as usize) >= HEADER_LEN && name.is_within_reach());
        let new = hash & TAG_MASK | (name.depth as u32) << OFFSET_BITS | name.at as u32;
        for probe in 0..PROBES {
            let slot = &mut self.slots[(hash as usize + probe) % SLOTS];
            if *slot == 0 {
                *slot = new;
                return;
            }
        }
    }
}

const OFFSET_MASK: u32 = (1 << OFFSET_BITS) - 1;
const DEPTH_MASK: u8 = (1 << DEPTH_BITS) - 1;
/// The upper bits of a slot and of a hash; the lower bits of a hash select the slot.
const TAG_MASK: u32 = !((1 << (OFFSET_BITS + DEPTH_BITS)) - 1);

/// Whether `message` has `label` at `at`, followed by the name at `parent`, directly or by a pointer.
#[inline]
fn stands_at(message: &[u8], at: usize, label: &[u8], parent: Standing) -> bool {
    let end = at + label.len();
    let (Some(there), Some(&[high, low])) =
        (message.get(at..end), message.get(end..end + 2).and_then(<[u8]>::first_chunk))
    else {
        return false;
    };
    same(there, label)
        && match parent.is_root() {
            true => high == 0,
            false => end == parent.at as usize || [high, low] == parent.pointer(),
        }
}
