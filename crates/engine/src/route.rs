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
    let Some((entry, below)) = catalog.find(qname) else { return Route::Elsewhere };
    if question.qtype == Type::DS && below == 0 && qname.label_count() > 0 {
        // DS lives on the parent's side of the cut (RFC 4035 §3.1.4.1).
        if let Some((entry, below)) = catalog.find_skipping(qname, 1) {
            return Route::Zone { entry, below };
        }
    }
    Route::Zone { entry, below }
}
