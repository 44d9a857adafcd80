//! Zones: master files, snapshots, the catalog of zones served; knows no queries.
//!
//! | module | holds |
//! |---|---|
//! | [`store`] | the snapshot: [`Zone`] and how it is built |
//! | [`catalog`] | which zones there are, found by the longest match: [`Catalog`] |

pub mod catalog;
pub mod store;

pub use catalog::{Catalog, Change, ZoneEntry};
pub use store::{Node, NodeFlags, RrSet, Zone, ZoneBuilder};
