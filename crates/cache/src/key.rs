//! What an answer is kept under.

use wire::hash::HashedName;
use wire::{Class, Type};

use crate::flags::Flags;

/// What an answer is kept under and asked for by. Answers that differ in any of it never stand in for each
/// other.
#[derive(Clone, Copy)]
pub struct Key<'n> {
    /// QNAME, hashed under the cache's [`HashKey`](wire::hash::HashKey).
    pub name: &'n HashedName,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// Whose answer: the number of a view or a forward zone.
    pub view: u32,
    /// DO: DNSSEC records were asked for (RFC 3225).
    pub dnssec_ok: bool,
    /// CD: the answer may be one that does not validate (RFC 4035 §3.2.2).
    pub checking_disabled: bool,
}

/// The type under which an NXDOMAIN is kept: it holds for the name whatever the type (RFC 2308 §5), and 0 is
/// no type.
pub(crate) const EVERY_TYPE: Type = Type(0);

/// All of a key but the name: the hash takes the name's place until the name itself is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Hash of the name and the view: where entries of a name lie, whatever their type.
    pub(crate) hash: u64,
    pub(crate) qtype: Type,
    pub(crate) qclass: Class,
    pub(crate) view: u32,
    /// Of the flags those that tell entries apart: [`Flags::KEY`].
    pub(crate) flags: Flags,
}

/// What an entry can be about, seen from the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The type asked for.
    Type,
    /// Every type of the name: NXDOMAIN.
    Name,
    /// A failure to find out about the type asked for.
    Failure,
}

impl Key<'_> {
    /// The subject of the entry for this question.
    #[inline]
    pub(crate) fn subject(&self, reach: Reach) -> Subject {
        self.subject_of_suffix(0, reach)
    }

    /// The same, for the name without its `skip` leftmost labels.
    #[inline]
    pub(crate) fn subject_of_suffix(&self, skip: usize, reach: Reach) -> Subject {
        let failure = reach == Reach::Failure;
        Subject {
            hash: place(self.name.hash(skip).bits(), self.view),
            qtype: if reach == Reach::Name { EVERY_TYPE } else { self.qtype },
            qclass: self.qclass,
            view: self.view,
            flags: Flags::key(self.dnssec_ok, self.checking_disabled, failure),
        }
    }
}

impl Subject {
    /// All of the subject in one hash.
    #[inline]
    pub(crate) fn full_hash(&self) -> u64 {
        let rest = (self.qtype.0 as u64) << 32 | (self.qclass.0 as u64) << 8 | self.flags.0 as u64;
        mix(self.hash ^ rest.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// The hash of a name in a view.
#[inline]
fn place(name: u64, view: u32) -> u64 {
    mix(name ^ (view as u64).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// Spreads every bit over all of them: multiplied, and one half of the product over the other. What comes in
/// has gone through the keyed hash, so a client cannot choose what comes out.
#[inline]
fn mix(word: u64) -> u64 {
    let product = (word as u128).wrapping_mul(0xa076_1d64_78bd_642f);
    (product >> 64) as u64 ^ product as u64
}
