//! What tests share: zone builders, reference models, random names and zones. Never part of the server.
//!
//! | module | holds |
//! |---|---|
//! | [`answers`] | what a question is answered with, by the plainest reading of the RFCs |
//! | [`model`] | zones and catalogs as plain maps, every question answered by looking at everything |
//! | [`random`] | proptest strategies for names, records and zones |
//! | [`tld`] | a large zone of delegations, for measurements |
#![forbid(unsafe_code)]

pub mod answers;
pub mod model;
pub mod random;
pub mod tld;

use wire::hash::HashKey;
use zone::store::{Zone, ZoneBuilder};

pub use model::Record;

/// Builds a zone of `records`, in their order.
///
/// # Panics
/// If the records do not make a zone: tests call this.
pub fn build(apex: wire::Name<'_>, key: &HashKey, records: &[Record]) -> Zone {
    let mut builder = ZoneBuilder::new(apex, key);
    for record in records {
        let added = builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata);
        added.unwrap_or_else(|error| panic!("{record:?}: {error}"));
    }
    builder.finish().unwrap_or_else(|error| panic!("{apex}: {error}"))
}
