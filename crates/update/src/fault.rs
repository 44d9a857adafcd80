//! [`UpdateFault`]: why a request is rejected, and with which response code.

use std::fmt;

use wire::{Malformed, Name, Rcode, Type};
use zone::store::RecordKey;

/// Why a request is rejected. The zone is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateFault {
    /// The kind of fault.
    pub kind: UpdateFaultKind,
    /// Owner and type of the record concerned, if there is one.
    pub record: Option<Box<RecordKey>>,
}

/// Kinds of [`UpdateFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateFaultKind {
    /// The message is malformed: FORMERR.
    Malformed,
    /// The zone section is not one record of type SOA (RFC 2136 §3.1.1): FORMERR.
    ZoneSection,
    /// A prerequisite, or a record to be deleted, has a TTL other than 0 (RFC 2136 §3.2.5, §3.4.1.2):
    /// FORMERR.
    Ttl,
    /// A record has a class that is not allowed in its section (RFC 2136 §3.2.5, §3.4.1.2): FORMERR.
    Class,
    /// A record has RDATA where RFC 2136 requires none (§3.2.5, §3.4.1.2): FORMERR.
    DataNotEmpty,
    /// The RDATA of a record does not have its type's format: FORMERR.
    BadData,
    /// A QTYPE or meta-type is added or deleted (RFC 2136 §3.4.1.2): FORMERR.
    MetaType,
    /// A name is not in the zone (RFC 2136 §3.2.5, §3.4.1.1): NOTZONE.
    OutOfZone,
    /// The request is for a zone of another name or class (RFC 2136 §3.1.2): NOTAUTH.
    OtherZone,
    /// A name is in use, against a prerequisite (RFC 2136 §2.4.5): YXDOMAIN.
    NameInUse,
    /// An RRset exists, against a prerequisite (RFC 2136 §2.4.3): YXRRSET.
    RrsetExists,
    /// A name is not in use, against a prerequisite (RFC 2136 §2.4.4): NXDOMAIN.
    NameNotInUse,
    /// An RRset does not exist, or has other records, against a prerequisite (RFC 2136 §2.4.1, §2.4.2):
    /// NXRRSET.
    NoSuchRrset,
    /// There are more prerequisites and updates than [`UpdateLimits`](crate::UpdateLimits) allow: REFUSED.
    TooManyRecords,
    /// The policy does not permit the change: REFUSED.
    NotPermitted,
    /// The zone is signed elsewhere: REFUSED.
    SignedZone,
    /// Records of this type belong to the zone's signer: REFUSED.
    SignersType,
    /// A DNSKEY record of an algorithm with which the zone is not signed (RFC 4035 §2.2): REFUSED.
    UnusedAlgorithm,
    /// The RRset would exceed the size of a message: REFUSED.
    RrsetTooLarge,
    /// A name would have more records than a zone can hold: REFUSED.
    NameTooLarge,
}

impl UpdateFaultKind {
    /// The response code for the fault (RFC 2136 §2.2).
    pub fn rcode(self) -> Rcode {
        match self {
            Self::Malformed
            | Self::ZoneSection
            | Self::Ttl
            | Self::Class
            | Self::DataNotEmpty
            | Self::BadData
            | Self::MetaType => Rcode::FORMERR,
            Self::OutOfZone => Rcode::NOTZONE,
            Self::OtherZone => Rcode::NOTAUTH,
            Self::NameInUse => Rcode::YXDOMAIN,
            Self::RrsetExists => Rcode::YXRRSET,
            Self::NameNotInUse => Rcode::NXDOMAIN,
            Self::NoSuchRrset => Rcode::NXRRSET,
            Self::TooManyRecords
            | Self::NotPermitted
            | Self::SignedZone
            | Self::SignersType
            | Self::UnusedAlgorithm
            | Self::RrsetTooLarge
            | Self::NameTooLarge => Rcode::REFUSED,
        }
    }

    /// The fault with the record concerned.
    pub(crate) fn of(self, owner: Name<'_>, rtype: Type) -> UpdateFault {
        UpdateFault { kind: self, record: Some(Box::new(RecordKey { owner: owner.to_buf(), rtype })) }
    }
}

impl From<UpdateFaultKind> for UpdateFault {
    fn from(kind: UpdateFaultKind) -> Self {
        UpdateFault { kind, record: None }
    }
}

impl From<Malformed> for UpdateFault {
    fn from(_: Malformed) -> Self {
        UpdateFaultKind::Malformed.into()
    }
}

impl UpdateFault {
    /// The response code for the fault.
    pub fn rcode(&self) -> Rcode {
        self.kind.rcode()
    }
}

impl fmt::Display for UpdateFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the message cannot be read",
            Self::ZoneSection => "the zone section is not one record of type SOA",
            Self::Ttl => "the TTL is not 0",
            Self::Class => "the class is not allowed here",
            Self::DataNotEmpty => "there may be no data here",
            Self::BadData => "the data does not have the form of its type",
            Self::MetaType => "records of this type cannot be in a zone",
            Self::OutOfZone => "not in the zone",
            Self::OtherZone => "the request is for another zone",
            Self::NameInUse => "the name is in use",
            Self::RrsetExists => "the RRset is there",
            Self::NameNotInUse => "the name is not in use",
            Self::NoSuchRrset => "the RRset is not there, or has other records",
            Self::TooManyRecords => "too many prerequisites and updates in one request",
            Self::NotPermitted => "the policy does not permit it",
            Self::SignedZone => "the zone is signed elsewhere",
            Self::SignersType => "records of this type are made by the zone's signer",
            Self::UnusedAlgorithm => "the zone is not signed with the algorithm of this key",
            Self::RrsetTooLarge => "the RRset would not fit into a message",
            Self::NameTooLarge => "there would be too many records at the name",
        })
    }
}

impl fmt::Display for UpdateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(record) = &self.record {
            write!(f, "{record}: ")?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for UpdateFault {}
