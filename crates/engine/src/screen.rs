//! Whether a query may be asked at all: faults, opcodes, classes and meta types that end here.

use wire::edns::ErrorInfo;
use wire::{Class, Opcode, Rcode, Type};

use crate::request::{Fault, Request};

/// What becomes of a query before any data is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screened {
    /// Go on.
    Pass,
    /// No reply at all.
    Drop,
    /// This response code, with an extended error where it helps.
    Reject(Rcode, Option<ErrorInfo>),
}

/// Screens one query.
#[inline]
pub(crate) fn screen(request: &Request) -> Screened {
    match request.fault {
        None => {}
        Some(Fault::Silent) => return Screened::Drop,
        Some(Fault::Format) => return Screened::Reject(Rcode::FORMERR, None),
        Some(Fault::Version) => return Screened::Reject(Rcode::BADVERS, None),
    }
    let (Opcode::QUERY, Some(question)) = (request.header.opcode(), request.question) else {
        return Screened::Reject(Rcode::NOTIMP, None);
    };
    match question.qtype {
        // OPT, TSIG and TKEY are no data that could be asked for (RFC 6895 §3.1).
        Type::OPT | Type::TSIG | Type(0) => Screened::Reject(Rcode::FORMERR, None),
        Type::TKEY | Type::MAILA | Type::MAILB => {
            Screened::Reject(Rcode::NOTIMP, Some(ErrorInfo::NOT_SUPPORTED))
        }
        _ if matches!(question.qclass, Class::IN | Class::CH | Class::ANY) => Screened::Pass,
        _ => Screened::Reject(Rcode::REFUSED, Some(ErrorInfo::NOT_SUPPORTED)),
    }
}
