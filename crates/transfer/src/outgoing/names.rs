//! The names that a message holds, label by label: what later names in it point at.
//!
//! A name is found from its right end on: each step leads from a name that stands in the message to the one
//! with one more label in front, if the message has it. A slot holds 15 bits of a hash of both, the offset of
//! the label, and how many pointers a reader follows from there; the message itself is what candidates are
//! compared with. So a name costs one step for each label that it does not share with a name whose place is
//! known already, and nothing is allocated.
//!
//! `wire`'s compression does the same for messages of any kind. This one is for messages full of names of one
//! zone, whose right ends are known to begin with.

use wire::bytes::same;
use wire::message::{HEADER_LEN, MAX_POINTERS, Offset, POINTER, POINTER_LEN};

/// Slots; twice as many as a message has labels, so that few collide, and no more, so that they stay in the
/// nearest cache.
const SLOTS: usize = 2048;
/// Slots that a step looks at. More collide only with names that are chosen for that.
const PROBES: usize = 8;
const OFFSET_BITS: u32 = 14;
const DEPTH_BITS: u32 = 3;
/// The most pointers in a name that another may end in: that one has one more, and an owner may be nothing
/// but a pointer to it.
pub(super) const DEEPEST: u8 = MAX_POINTERS as u8 - 2;

const _: () = assert!(Offset::REACH == 1 << OFFSET_BITS && MAX_POINTERS <= 1 << DEPTH_BITS);

/// A name that stands in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Where its first label does; 0 for the root.
    pub(super) at: u16,
    /// Pointers that a reader of it follows.
    pub(super) depth: u8,
}

impl Standing {
    /// The root, which stands nowhere: it is written as a zero byte.
    pub(super) const ROOT: Standing = Standing { at: 0, depth: 0 };

    pub(super) fn is_root(self) -> bool {
        self.at == 0
    }

    /// The pointer to it.
    #[inline]
    pub(super) fn pointer(self) -> [u8; POINTER_LEN] {
        ((POINTER as u16) << 8 | self.at).to_be_bytes()
    }

    /// Whether a pointer reaches it.
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

    /// Forgets all names.
    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
    }

    /// The hash of `label`, which has its length in front, before the name at `parent`.
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

    /// The name of `label` before the one at `parent`, if `message` has it.
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

    /// Remembers the name whose hash, as [`hash`](Self::hash) made it, is `hash`.
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
/// The upper bits of a slot, and of a hash: the lower ones say where to look.
const TAG_MASK: u32 = !((1 << (OFFSET_BITS + DEPTH_BITS)) - 1);

/// Whether `label` stands at `at` of `message`, and behind it the name that stands at `parent`, by itself or
/// by a pointer.
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
