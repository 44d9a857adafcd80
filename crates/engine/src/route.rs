//! Which source a query goes to: the zone that holds the name, the server's own CHAOS names, or whatever
//! is asked when no zone does.

use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::{Class, Rcode, Type};
use zone::catalog::{Catalog, Located};

use crate::request::Question;

/// Where a query goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// A zone served here.
    Zone(Located),
    /// The server's own names.
    Chaos,
    /// No zone here: the fallback source, if there is one.
    Elsewhere,
    /// Nowhere.
    Reject(Rcode, Option<ErrorInfo>),
}

/// Finds the way of one question.
#[inline]
pub(crate) fn route(catalog: &Catalog, question: &Question, qname: &HashedName) -> Route {
    if question.qclass == Class::CH {
        return Route::Chaos;
    }
    if matches!(question.qtype, Type::AXFR | Type::IXFR) {
        // Transfers leave the line here; nobody is allowed one yet.
        return Route::Reject(Rcode::REFUSED, Some(ErrorInfo::PROHIBITED));
    }
    authority::zone_for(catalog, qname, question.qtype).map_or(Route::Elsewhere, Route::Zone)
}
