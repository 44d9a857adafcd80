//! The name that is being answered, and its place in zone and message.

use wire::hash::HashedName;
use wire::message::Offset;
use wire::{Name, NameHash};
use zone::store::Zone;

use crate::search::DenialSearch;

/// The name that is being answered: QNAME, or the current target of a chain.
pub(crate) struct Here<'h, 'z> {
    pub(crate) zone: &'z Zone,
    /// In its original letter case.
    pub(crate) name: Name<'h>,
    pub(crate) hashed: &'h HashedName,
    /// Labels below the zone's apex.
    pub(crate) below: usize,
    /// The offset of the name in the message.
    pub(crate) at: Offset,
    /// Hashes of the owners of the DNAMEs in the chain so far.
    pub(crate) dnames: &'h [NameHash],
    /// The search that the passes have begun, if the name is QNAME.
    pub(crate) begun: Option<&'h DenialSearch>,
}

impl Here<'_, '_> {
    /// Returns the offset of the ancestor `skip` labels up in the message, if it is known without a search.
    #[inline]
    pub(crate) fn ancestor_at(&self, skip: usize) -> Option<Offset> {
        if self.at == Offset::QNAME { Offset::QNAME.plus(self.hashed.offset(skip)) } else { None }
    }
}
