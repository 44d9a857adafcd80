//! The keys of cached answers.

use wire::hash::HashedName;
use wire::{Class, Type};

use crate::flags::Flags;

/// The key of an answer, which is only used for queries with an equal key.
#[derive(Clone, Copy)]
pub struct Key<'n> {
    /// QNAME, hashed under the cache's [`HashKey`](wire::hash::HashKey).
    pub name: &'n HashedName,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// The number of the view or rule that the answer belongs to.
    pub view: u32,
    /// DO: the query requested DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    /// CD: the answer may be unvalidated (RFC 4035 §3.2.2).
    pub checking_disabled: bool,
}

/// The type of the key of an NXDOMAIN: it holds for all types of the name (RFC 2308 §5), and 0 is not a type.
pub(crate) const EVERY_TYPE: Type = Type(0);

/// A key without the name, of which it has a hash. The name itself is compared separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Hash of name and view: selects the slots of the entries of a name, whatever their type.
    pub(crate) hash: u64,
    pub(crate) qtype: Type,
    pub(crate) qclass: Class,
    pub(crate) view: u32,
    /// The flags that belong to the key: [`Flags::KEY`].
    pub(crate) flags: Flags,
}

/// What an entry may cover, relative to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The queried type.
    Type,
    /// All types of the name: NXDOMAIN.
    Name,
    /// A failure to resolve the queried type.
    Failure,
}

impl Key<'_> {
    /// Returns the subject of the entry for this query.
    #[inline]
    pub(crate) fn subject(&self, reach: Reach) -> Subject {
        self.subject_of_suffix(0, reach)
    }

    /// Returns the subject for the name without its `skip` leftmost labels.
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
    /// Returns a hash over the whole subject.
    #[inline]
    pub(crate) fn full_hash(&self) -> u64 {
        let rest = (self.qtype.0 as u64) << 32 | (self.qclass.0 as u64) << 8 | self.flags.0 as u64;
        mix(self.hash ^ rest.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Returns the hash of a name in a view.
#[inline]
fn place(name: u64, view: u32) -> u64 {
    mix(name ^ (view as u64).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// Mixes all bits of a word: multiplies and folds the halves of the product. The input comes from the keyed
/// hash, so that clients cannot choose the result.
#[inline]
fn mix(word: u64) -> u64 {
    let product = (word as u128).wrapping_mul(0xa076_1d64_78bd_642f);
    (product >> 64) as u64 ^ product as u64
}
