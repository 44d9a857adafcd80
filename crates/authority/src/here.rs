//! The name that is being answered, and where it stands.

use wire::hash::HashedName;
use wire::message::Offset;
use wire::{Name, NameHash};
use zone::store::Zone;

use crate::search::DenialSearch;

/// The name at hand: the one asked for, or where a chain has led.
pub(crate) struct Here<'h, 'z> {
    pub(crate) zone: &'z Zone,
    /// In the letter case it came in.
    pub(crate) name: Name<'h>,
    pub(crate) hashed: &'h HashedName,
    /// Labels below the zone's apex.
    pub(crate) below: usize,
    /// Where it stands in the message.
    pub(crate) at: Offset,
    /// The owners of the DNAMEs that led here.
    pub(crate) dnames: &'h [NameHash],
    /// What was found out about the name before, if it is the one asked for.
    pub(crate) begun: Option<&'h DenialSearch>,
}

impl Here<'_, '_> {
    /// Where the ancestor `skip` labels up stands in the message, if that is known without a search.
    #[inline]
    pub(crate) fn ancestor_at(&self, skip: usize) -> Option<Offset> {
        if self.at == Offset::QNAME { Offset::QNAME.plus(self.hashed.offset(skip)) } else { None }
    }
}
