//! The result of validation: the four states of RFC 4035 §4.3, each with its reason.

use std::fmt;

use dnssec::verify::SigFault;
use wire::edns::ErrorInfo;

use crate::budget::ValidationLimit;

/// The security state of data (RFC 4035 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Security {
    /// A chain of signatures leads from a trust anchor to it.
    Secure,
    /// It is proven that no such chain exists.
    Insecure(InsecureReason),
    /// Such a chain should exist, but is broken.
    Bogus(BogusReason),
    /// There is no trust anchor above it, or it cannot be signed.
    Indeterminate,
}

/// Why data is insecure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InsecureReason {
    /// Its zone, or a zone above it, has no DS (RFC 4035 §5.2).
    Unsigned,
    /// An NSEC3 with opt-out covers the name, which may be that of an unsigned zone (RFC 5155 §9.2).
    OptOut,
    /// No DS has a supported algorithm (RFC 4035 §5.2).
    UnsupportedAlgorithm,
    /// No DS has a supported digest type (RFC 6840 §5.2).
    UnsupportedDigest,
    /// The zone's NSEC3 have more iterations than the settings allow (RFC 9276 §3.2).
    Iterations,
    /// A negative trust anchor disables validation (RFC 7646).
    NegativeAnchor,
}

impl InsecureReason {
    /// The extended DNS error for it, if any.
    pub fn extended_error(self) -> Option<ErrorInfo> {
        match self {
            Self::UnsupportedAlgorithm => Some(ErrorInfo::UNSUPPORTED_DNSKEY_ALGORITHM),
            Self::UnsupportedDigest => Some(ErrorInfo::UNSUPPORTED_DS_DIGEST),
            Self::Iterations => Some(ErrorInfo::UNSUPPORTED_NSEC3_ITERATIONS),
            Self::Unsigned | Self::OptOut | Self::NegativeAnchor => None,
        }
    }
}

impl fmt::Display for InsecureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsigned => "the zone, or one above it, is not signed",
            Self::OptOut => "NSEC3 with opt-out covers the name",
            Self::UnsupportedAlgorithm => "no DS of the zone has a supported algorithm",
            Self::UnsupportedDigest => "no DS of the zone has a supported digest type",
            Self::Iterations => "the zone's NSEC3 have too many iterations",
            Self::NegativeAnchor => "a negative trust anchor is set",
        })
    }
}

/// Why data is bogus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BogusReason {
    /// The RRset has no signature.
    Unsigned,
    /// No signature over the RRset is valid; this is the fault of the one that came closest.
    Signature(SigFault),
    /// No DNSKEY of the zone matches a DS of its parent, or a trust anchor.
    NoDnskey,
    /// Keys match, but lack the Zone Key flag or are revoked.
    NoZoneKey,
    /// There is no proof of nonexistence.
    DenialMissing,
    /// The proof of nonexistence is invalid.
    DenialWrong,
    /// The RRset was expanded from a wildcard, which its type does not allow: DNAME, DS, SOA.
    Wildcard,
    /// The CNAME does not follow from the DNAME (RFC 6672 §3.1).
    Synthesis,
    /// The response code contradicts the signed records.
    Rcode,
    /// The chain of CNAME and DNAME is too long, or loops.
    Chain,
    /// DS or DNSKEY records could not be fetched or parsed.
    Unreachable,
    /// Validation would exceed this limit.
    Limit(ValidationLimit),
}

impl BogusReason {
    /// The extended DNS error for it (RFC 8914 §4).
    pub fn extended_error(self) -> ErrorInfo {
        match self {
            Self::Unsigned => ErrorInfo::RRSIGS_MISSING,
            Self::Signature(SigFault::Expired) => ErrorInfo::SIGNATURE_EXPIRED,
            Self::Signature(SigFault::NotYetValid) => ErrorInfo::SIGNATURE_NOT_YET_VALID,
            Self::Signature(SigFault::ExpiredBeforeValid) => ErrorInfo::SIGNATURE_EXPIRED_BEFORE_VALID,
            Self::NoDnskey => ErrorInfo::DNSKEY_MISSING,
            Self::NoZoneKey => ErrorInfo::NO_ZONE_KEY,
            Self::DenialMissing => ErrorInfo::NSEC_MISSING,
            Self::Unreachable => ErrorInfo::NO_REACHABLE_AUTHORITY,
            Self::Signature(_)
            | Self::DenialWrong
            | Self::Wildcard
            | Self::Synthesis
            | Self::Rcode
            | Self::Chain
            | Self::Limit(_) => ErrorInfo::DNSSEC_BOGUS,
        }
    }

    /// Returns the more specific of two reasons: with several signatures or proofs, the reason of the one
    /// that came closest.
    pub(crate) fn or_closer(self, other: BogusReason) -> BogusReason {
        if other.closeness() > self.closeness() { other } else { self }
    }

    fn closeness(self) -> u8 {
        match self {
            Self::Limit(_) => 9,
            Self::Signature(SigFault::BadSignature) => 8,
            Self::Signature(SigFault::Expired | SigFault::NotYetValid | SigFault::ExpiredBeforeValid) => 7,
            Self::DenialWrong => 6,
            Self::Signature(SigFault::UnsupportedAlgorithm) => 5,
            Self::Signature(SigFault::NoKey) => 4,
            Self::Signature(_) => 3,
            Self::DenialMissing => 1,
            Self::Unsigned => 0,
            _ => 2,
        }
    }
}

impl From<ValidationLimit> for BogusReason {
    fn from(limit: ValidationLimit) -> Self {
        BogusReason::Limit(limit)
    }
}

impl fmt::Display for BogusReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsigned => "no signature where there should be one",
            Self::Signature(fault) => return write!(f, "no good signature: {fault}"),
            Self::NoDnskey => "no DNSKEY of the zone fits its DS or trust anchor",
            Self::NoZoneKey => "no DNSKEY that fits has the Zone Key flag, or all are revoked",
            Self::DenialMissing => "nothing proves that what is absent is absent",
            Self::DenialWrong => "NSEC or NSEC3 do not prove that what is absent is absent",
            Self::Wildcard => "a record that no wildcard can have was made of one",
            Self::Synthesis => "the CNAME does not follow from the DNAME",
            Self::Rcode => "the response code denies what is signed",
            Self::Chain => "the chain of CNAME and DNAME is too long",
            Self::Unreachable => "DS or DNSKEY could not be had",
            Self::Limit(limit) => return write!(f, "too much work: {limit}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_extended_errors_of_rfc_8914() {
        let code = |reason: BogusReason| reason.extended_error().0;
        assert_eq!(code(BogusReason::Signature(SigFault::BadSignature)), 6);
        assert_eq!(code(BogusReason::Signature(SigFault::Expired)), 7);
        assert_eq!(code(BogusReason::Signature(SigFault::NotYetValid)), 8);
        assert_eq!(code(BogusReason::NoDnskey), 9);
        assert_eq!(code(BogusReason::Unsigned), 10);
        assert_eq!(code(BogusReason::NoZoneKey), 11);
        assert_eq!(code(BogusReason::DenialMissing), 12);
        assert_eq!(code(BogusReason::Unreachable), 22);
        assert_eq!(code(BogusReason::Signature(SigFault::ExpiredBeforeValid)), 25);
        assert_eq!(InsecureReason::Iterations.extended_error(), Some(ErrorInfo(27)));
        assert_eq!(InsecureReason::Unsigned.extended_error(), None);
    }

    #[test]
    fn the_signature_that_came_closest_is_reported() {
        let reasons = [SigFault::NoKey, SigFault::BadSignature, SigFault::Expired, SigFault::WrongSigner];
        let all = reasons.into_iter().map(BogusReason::Signature);
        let closest = all.fold(BogusReason::Unsigned, BogusReason::or_closer);
        assert_eq!(closest, BogusReason::Signature(SigFault::BadSignature));
    }
}
