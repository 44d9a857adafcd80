//! What one step of a CNAME or DNAME chain leads to.

use wire::message::{Full, Offset};
use wire::{NameBuf, NameHash};

/// The continuation of a chain.
pub(crate) struct Chase {
    pub(crate) target: NameBuf,
    /// The offset of the target in the message.
    pub(crate) at: Offset,
    /// The hash of the owner of the DNAME that led here, if one did: the record is in the message already.
    /// Two zones never both answer below one name, so the hash identifies it.
    pub(crate) dname: Option<NameHash>,
}

/// The continuation of a chain, if it has one.
pub(crate) type Step = Result<Option<Chase>, Full>;
