//! Which source a query goes to: the zone that holds the name, the server's own CHAOS names, or whatever
//! is asked when no zone does.

use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::{Class, Rcode, Type};
use zone::catalog::{Catalog, ZoneEntry};

use crate::request::Question;

/// Where a query goes.
pub(crate) enum Route<'c> {
    /// A zone served here.
    Zone {
        /// Its place in the catalog.
        entry: &'c ZoneEntry,
        /// Labels of the name below its apex.
        below: usize,
    },
    /// The server's own names.
    Chaos,
    /// No zone here: the fallback source, if there is one.
    Elsewhere,
    /// Nowhere.
    Reject(Rcode, Option<ErrorInfo>),
}

/// Finds the way of one question.
#[inline]
pub(crate) fn route<'c>(catalog: &'c Catalog, question: &Question, qname: &HashedName) -> Route<'c> {
    if question.qclass == Class::CH {
        return Route::Chaos;
    }
    if matches!(question.qtype, Type::AXFR | Type::IXFR) {
        // Transfers leave the line here; nobody is allowed one yet.
        return Route::Reject(Rcode::REFUSED, Some(ErrorInfo::PROHIBITED));
    }
    match authority::zone_for(catalog, qname, question.qtype) {
        Some((entry, below)) => Route::Zone { entry, below },
        None => Route::Elsewhere,
    }
}
