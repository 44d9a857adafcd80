//! Whether a query may be asked at all: faults, opcodes, signatures and classes that end here.

use wire::edns::ErrorInfo;
use wire::{Class, Opcode, Rcode};

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
    if request.tsig_at.is_some() {
        return Screened::Reject(Rcode::NOTAUTH, None);
    }
    match question.qclass {
        Class::IN | Class::CH | Class::ANY => Screened::Pass,
        _ => Screened::Reject(Rcode::REFUSED, Some(ErrorInfo::NOT_SUPPORTED)),
    }
}
