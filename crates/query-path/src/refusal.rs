//! Refusals: the response code and extended error of replies without an ordinary answer.

use wire::Rcode;
use wire::edns::ErrorInfo;

/// Response code and extended error of a reply without an ordinary answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The response code.
    pub rcode: Rcode,
    /// The extended error that goes with it (RFC 8914).
    pub info: Option<ErrorInfo>,
}

impl Refusal {
    /// The sections cannot be parsed as the header's counts require.
    pub const MALFORMED: Refusal = Refusal::plain(Rcode::FORMERR);
    /// OPT has a version above 0 (RFC 6891 §6.1.3).
    pub const EDNS_VERSION: Refusal = Refusal::plain(Rcode::BADVERS);
    /// No source implements this opcode.
    pub const OPCODE: Refusal = Refusal::plain(Rcode::NOTIMP);
    /// The server is not authoritative for the zone that is to be transferred or changed (RFC 5936 §2.2.1,
    /// RFC 2136 §3.1.1).
    pub const NOT_AUTH: Refusal = Refusal::because(Rcode::NOTAUTH, ErrorInfo::NOT_AUTHORITATIVE);
    /// The signature of the request is valid, but whether the request was executed before is no longer known:
    /// the reply's TSIG record has BADTIME.
    pub const STALE_SIGNATURE: Refusal = Refusal::because(Rcode::NOTAUTH, ErrorInfo::SIGNATURE_EXPIRED);
    /// The server has no data of this class.
    pub const CLASS: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::NOT_SUPPORTED);
    /// No zone here holds the name, and no other server is asked.
    pub const NOT_AUTHORITATIVE: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::NOT_AUTHORITATIVE);
    /// The client is not allowed to do this.
    pub const PROHIBITED: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::PROHIBITED);
    /// The server is authoritative for the zone, but has no data: it was never loaded, or has expired. RFC
    /// 8914 §4.25: "The authoritative server cannot answer with data for a zone it is otherwise configured to
    /// support."
    pub const NOT_LOADED: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::INVALID_DATA);
    /// The zone has so many NSEC3 iterations that its denials are limited, and the limit is reached.
    pub const TOO_MANY_ITERATIONS: Refusal =
        Refusal::because(Rcode::SERVFAIL, ErrorInfo::UNSUPPORTED_NSEC3_ITERATIONS);
    /// Answers of the zone are signed while answering, and the limit of signatures a second is reached.
    pub const TOO_MANY_SIGNATURES: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);
    /// Answers of the zone are signed while answering, and its keys are not there.
    pub const NO_SIGNATURE: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::NOT_READY);
    /// The type is one that no name has, and no query may be for (RFC 9824 §3.5).
    pub const META_TYPE: Refusal = Refusal::because(Rcode::FORMERR, ErrorInfo::INVALID_QUERY_TYPE);
    /// The responder was dropped without an answer.
    pub const ABANDONED: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);

    /// Returns a refusal without an extended error.
    pub const fn plain(rcode: Rcode) -> Refusal {
        Refusal { rcode, info: None }
    }

    /// Returns a refusal with an extended error.
    pub const fn because(rcode: Rcode, info: ErrorInfo) -> Refusal {
        Refusal { rcode, info: Some(info) }
    }
}

/// The result of answering at once: sections with an optional extended error, or a refusal.
pub type Answered = Result<Option<ErrorInfo>, Refusal>;
