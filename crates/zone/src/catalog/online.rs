//! [`AnswerSigner`]: what makes the signatures of a zone that is signed while answering. The implementation
//! has the keys; callers have RRsets.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use wire::{LowerName, Ttl, Type};

/// How a zone that is signed while answering denies names and types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnlineDenial {
    /// One NSEC record at QNAME, with the type NXNAME for a name that does not exist (RFC 9824).
    #[default]
    Compact,
    /// NSEC records that cover one name each (RFC 4470).
    Minimal,
}

impl OnlineDenial {
    /// The word for it in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::Minimal => "minimal",
        }
    }
}

/// An RRset to be signed for an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerSet<'a> {
    /// The owner. For an RRset of a wildcard, the name that it matches.
    pub owner: LowerName<'a>,
    /// The type.
    pub rtype: Type,
    /// The TTL of all records.
    pub ttl: Ttl,
    /// Each distinct RDATA, in canonical form (RFC 4034 §6.2) and ascending (§6.3).
    pub rdatas: &'a [Vec<u8>],
    /// Whether the owner is a name of the zone: there are few of these. Clients choose the other ones.
    pub is_of_zone: bool,
}

/// Why an RRset is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerUnsigned {
    /// The keys are not there yet, or no longer.
    NoKeys,
    /// The limit of signatures a second is reached.
    Limit,
    /// The cryptography library made no signature.
    Failed,
}

/// RDATA of RRSIG records.
pub type AnswerSignatures = Arc<[Vec<u8>]>;

/// Signs RRsets for answers. Shared by all workers.
pub trait AnswerSigner: Send + Sync {
    /// Returns how the zone denies names and types.
    fn denial(&self) -> OnlineDenial;

    /// Returns the signatures of an RRset; `received`: when the query was received.
    ///
    /// # Errors
    /// [`AnswerUnsigned`].
    fn sign(&self, set: &AnswerSet<'_>, received: Instant) -> Result<AnswerSignatures, AnswerUnsigned>;
}

impl fmt::Debug for dyn AnswerSigner {
    /// The denial only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnswerSigner({})", self.denial().word())
    }
}
