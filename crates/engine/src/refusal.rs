//! The words in which a question is refused.

use wire::Rcode;
use wire::edns::ErrorInfo;

/// Why there is no ordinary answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The response code.
    pub rcode: Rcode,
    /// The extended error that goes with it (RFC 8914).
    pub info: Option<ErrorInfo>,
}

impl Refusal {
    /// The message cannot be read as its header says.
    pub const MALFORMED: Refusal = Refusal::plain(Rcode::FORMERR);
    /// OPT has a version above 0 (RFC 6891 §6.1.3).
    pub const EDNS_VERSION: Refusal = Refusal::plain(Rcode::BADVERS);
    /// The operation of this opcode is not implemented.
    pub const OPCODE: Refusal = Refusal::plain(Rcode::NOTIMP);
    /// The server is not authoritative for the zone that is to be transferred or changed (RFC 5936 §2.2.1,
    /// RFC 2136 §3.1.1).
    pub const NOT_AUTH: Refusal = Refusal::because(Rcode::NOTAUTH, ErrorInfo::NOT_AUTHORITATIVE);
    /// There are no data of this class.
    pub const CLASS: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::NOT_SUPPORTED);
    /// No zone here holds the name, and no other server is asked.
    pub const NOT_AUTHORITATIVE: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::NOT_AUTHORITATIVE);
    /// This client may not do this.
    pub const PROHIBITED: Refusal = Refusal::because(Rcode::REFUSED, ErrorInfo::PROHIBITED);
    /// The zone is ours, but there is nothing to answer from: it was never loaded, or has expired. RFC 8914
    /// §4.25: "The authoritative server cannot answer with data for a zone it is otherwise configured to
    /// support."
    pub const NOT_LOADED: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::INVALID_DATA);
    /// The zone has so many NSEC3 iterations that its denials are limited, and the limit is reached.
    pub const TOO_MANY_ITERATIONS: Refusal =
        Refusal::because(Rcode::SERVFAIL, ErrorInfo::UNSUPPORTED_NSEC3_ITERATIONS);
    /// The holder of the responder has dropped it without an answer.
    pub const ABANDONED: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);

    /// A response code that says enough.
    pub const fn plain(rcode: Rcode) -> Refusal {
        Refusal { rcode, info: None }
    }

    /// A response code, and why.
    pub const fn because(rcode: Rcode, info: ErrorInfo) -> Refusal {
        Refusal { rcode, info: Some(info) }
    }
}

/// What becomes of a question that is answered at once: an extended error may go with the sections, or there
/// are none.
pub type Answered = Result<Option<ErrorInfo>, Refusal>;
