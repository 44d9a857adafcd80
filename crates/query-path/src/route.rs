//! The route of a query that the gate admits: to data in memory, to a source beyond it, or to the server's
//! identity.

use wire::{Class, Opcode};

use crate::gate::{self, Stopped};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::signature::Signature;
use crate::source::{Operation, Sources};

/// The route of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// To data in memory: the index of its location in the batch.
    Memory(u8),
    /// To the source for this operation.
    Source(Operation),
    /// To the source of updates, which may forward an UPDATE whose TSIG is not valid here.
    Unverified(Refusal),
    /// To the server's identity (class CHAOS).
    Chaos,
    /// Refused or dropped by the gate.
    Stopped(Stopped),
}

impl Route {
    /// Returns the route as far as the query alone decides it: a query that memory may answer has the route
    /// to the source that is asked if memory does not.
    #[inline]
    pub(crate) fn of(request: &Request, signed: Option<&Signature>, sources: &Sources) -> Self {
        // No step of the gate refuses an ordinary query.
        match request.is_plain() {
            true => Route::Source(Operation::Query),
            false => Self::through_gate(request, signed, sources),
        }
    }

    /// Returns the route after all steps of the gate.
    #[inline(never)]
    fn through_gate(request: &Request, signed: Option<&Signature>, sources: &Sources) -> Self {
        match gate::admit(request, signed, sources) {
            Ok((Operation::Query, question)) if question.qclass == Class::CH => Route::Chaos,
            Ok((operation, _)) => Route::Source(operation),
            Err(stopped) => Route::stopped(stopped, request, signed, sources),
        }
    }

    /// Returns the route of a query that the gate refuses: an UPDATE that is refused only for its TSIG may be
    /// for another server.
    #[cold]
    fn stopped(stopped: Stopped, request: &Request, signed: Option<&Signature>, sources: &Sources) -> Self {
        match (request.question, stopped) {
            (Some(_), Stopped::Refused(refusal))
                if request.header.opcode() == Opcode::UPDATE
                    && signed.and_then(Signature::refusal) == Some(refusal)
                    && request.fault.is_none()
                    && sources.update.is_some() =>
            {
                Route::Unverified(refusal)
            }
            _ => Route::Stopped(stopped),
        }
    }

    /// Returns whether the reply is signed. The reply to a query with an invalid TSIG is signed only where
    /// that is the reason of the refusal.
    #[cold]
    pub(crate) fn is_signed_for(&self, signature: &Signature) -> bool {
        match (signature.refusal(), self) {
            (None, _) | (Some(_), Route::Unverified(..)) => true,
            (Some(bad), Route::Stopped(Stopped::Refused(refusal))) => bad == *refusal,
            (Some(_), _) => false,
        }
    }

    /// Whether the message is a query that no step of the gate has stopped.
    #[cold]
    pub(crate) fn is_query(&self) -> bool {
        matches!(self, Route::Source(Operation::Query | Operation::Transfer) | Route::Chaos)
    }

    /// Whether memory may answer the query.
    #[inline]
    pub(crate) fn is_for_memory(&self) -> bool {
        matches!(self, Route::Source(Operation::Query))
    }
}

#[cfg(test)]
mod tests {
    use transfer::tsig::TsigKeys;
    use wire::message::Header;
    use wire::{Rcode, Type};

    use super::*;

    /// TSIG with a MAC of four bytes.
    const TSIG: &[u8] =
        b"\x01k\0\0\xfa\0\xff\0\0\0\0\0\x15\0\0\0\x65\0\0\0\x01\x2c\0\x04abcd\x12\x34\0\0\0\0";

    /// The route of such a query for `a.`, without sources beyond memory.
    fn route(opcode: Opcode, qtype: Type, qclass: Class, additional: &[u8]) -> Route {
        let mut header = Header::query(7);
        header.set_counts([1, 0, 0, u16::from(!additional.is_empty())]);
        let question = [b"\x01a\0".as_slice(), &qtype.0.to_be_bytes(), &qclass.0.to_be_bytes()].concat();
        let mut packet = [header.as_bytes().as_slice(), &question, additional].concat();
        packet[2] |= opcode.0 << 3;
        let request = Request::read(&packet);
        let signed = request.tsig_at.map(|at| Signature::of(&packet, at, &TsigKeys::default()));
        Route::of(&request, signed.as_ref(), &Sources::default())
    }

    fn refusal(route: Route) -> Option<Refusal> {
        match route {
            Route::Stopped(Stopped::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }

    #[test]
    fn questions_of_class_in_and_of_any_class_are_for_memory_first() {
        for qclass in [Class::IN, Class::ANY] {
            let route = route(Opcode::QUERY, Type::A, qclass, b"");
            assert!(route.is_for_memory(), "{route:?}");
        }
    }

    #[test]
    fn the_servers_own_names_are_not_for_memory() {
        let route = route(Opcode::QUERY, Type::TXT, Class::CH, b"");
        assert!(matches!(route, Route::Chaos) && !route.is_for_memory(), "{route:?}");
    }

    #[test]
    fn the_first_step_of_the_gate_that_objects_decides() {
        let to = |opcode, qtype, qclass, additional: &[u8]| refusal(route(opcode, qtype, qclass, additional));
        let (query, notify) = (Opcode::QUERY, Opcode::NOTIFY);
        // Form before operation, operation before signature, signature before class, class before access.
        assert_eq!(to(notify, Type::SOA, Class::HS, b"\0"), Some(Refusal::MALFORMED));
        assert_eq!(to(notify, Type::SOA, Class::HS, TSIG), Some(Refusal::OPCODE));
        assert_eq!(to(query, Type::AXFR, Class::HS, TSIG), Some(Refusal::plain(Rcode::NOTAUTH)));
        assert_eq!(to(query, Type::AXFR, Class::HS, b""), Some(Refusal::CLASS));
        assert_eq!(to(query, Type::AXFR, Class::IN, b""), Some(Refusal::PROHIBITED));
    }
}
