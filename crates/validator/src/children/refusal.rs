//! Why a request of a child is not accepted.

use std::fmt;

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RefusalReason {
    /// A name server of the child has not answered, or its addresses are not known.
    NoAnswer,
    /// A name server of the child does not have the zone.
    Lame,
    /// The name servers of the child have different records.
    ServersDisagree,
    /// The CDS and CDNSKEY records are about different keys.
    Mismatch,
    /// A record does not have a form that its specification allows.
    Malformed,
    /// The request for deletion has other records beside it.
    MixedDelete,
    /// No CDS record has a digest type that DS records may have here.
    UnknownDigest,
    /// An RRset has no signature.
    Unsigned,
    /// No signature is by a key that the DS set has.
    WrongSigner,
    /// The signature has expired, is not valid yet, or does not verify.
    BadSignature,
    /// The signature is older than that of a request that was accepted before.
    Replayed,
    /// With the DS set the child would be bogus, or might be.
    Breaks,
    /// The records of the signaling names differ from those of the child, or are not secure (RFC 9615).
    Signal,
    /// More records are asked for than a delegation may have here.
    TooMany,
    /// The CSYNC record leaves the decision to an operator: it does not have the flag `immediate`.
    NotImmediate,
    /// The serial number of the child is below that of the CSYNC record (flag `soaminimum`).
    BelowMinimum,
    /// The CSYNC record has types or flags that are not supported here.
    UnsupportedCsync,
    /// The serial number of the child is below that of the CSYNC record that was accepted last.
    OlderSerial,
    /// The zone changed at a server during the check.
    SerialChanged,
    /// The NS RRset is empty.
    NoNameServers,
    /// A name server in the child zone would have no address in the delegation.
    Glue,
    /// A server of the new delegation does not have the zone with these NS records.
    NewServers,
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [RefusalReason; 22] = [
        Self::NoAnswer,
        Self::Lame,
        Self::ServersDisagree,
        Self::Mismatch,
        Self::Malformed,
        Self::MixedDelete,
        Self::UnknownDigest,
        Self::Unsigned,
        Self::WrongSigner,
        Self::BadSignature,
        Self::Replayed,
        Self::Breaks,
        Self::Signal,
        Self::TooMany,
        Self::NotImmediate,
        Self::BelowMinimum,
        Self::UnsupportedCsync,
        Self::OlderSerial,
        Self::SerialChanged,
        Self::NoNameServers,
        Self::Glue,
        Self::NewServers,
    ];

    /// The word for it in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoAnswer => "no-answer",
            Self::Lame => "lame",
            Self::ServersDisagree => "servers-disagree",
            Self::Mismatch => "cds-cdnskey-differ",
            Self::Malformed => "malformed",
            Self::MixedDelete => "delete-with-others",
            Self::UnknownDigest => "unknown-digest",
            Self::Unsigned => "unsigned",
            Self::WrongSigner => "wrong-signer",
            Self::BadSignature => "bad-signature",
            Self::Replayed => "older-signature",
            Self::Breaks => "would-break",
            Self::Signal => "signal",
            Self::TooMany => "too-many",
            Self::NotImmediate => "not-immediate",
            Self::BelowMinimum => "below-soaminimum",
            Self::UnsupportedCsync => "unsupported-csync",
            Self::OlderSerial => "older-serial",
            Self::SerialChanged => "serial-changed",
            Self::NoNameServers => "no-name-servers",
            Self::Glue => "glue",
            Self::NewServers => "new-servers",
        }
    }
}

/// A refusal, with text for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildRefusal {
    /// Its kind.
    pub reason: RefusalReason,
    /// What is wrong, and at which server.
    pub text: String,
}

impl ChildRefusal {
    pub(super) fn new(reason: RefusalReason, text: impl Into<String>) -> ChildRefusal {
        ChildRefusal { reason, text: text.into() }
    }
}

impl fmt::Display for ChildRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl std::error::Error for ChildRefusal {}
