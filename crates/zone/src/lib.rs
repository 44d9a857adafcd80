//! Zones: zone files, snapshots, the catalog of zones in service. Parses no queries and decides no answers.
//!
//! | module | holds |
//! |---|---|
//! | [`scan`] | zone files: text to records, with the places of faults |
//! | [`store`] | the snapshot: [`Zone`], and how it is built |
//! | [`load`] | from a zone file to a snapshot |
//! | [`image`] | snapshots in files, ready to be served |
//! | [`check`] | faults of a zone as a whole |
//! | [`zonemd`] | digests of whole zones (RFC 8976) |
//! | [`regular`] | opens regular files only |
//! | [`prefetch`] | prefetching, and for a test a record of prefetches and reads |
//! | [`catalog`] | the set of zones, and the closest zone to a name: [`Catalog`] |
//!
//! This crate finds names and their records. It writes no messages.

pub mod catalog;
pub mod check;
pub mod image;
pub mod load;
pub mod prefetch;
pub mod regular;
pub mod scan;
mod stamp;
pub mod store;
pub mod zonemd;

pub use catalog::{Catalog, Change, WrongKey, ZoneEntry};
pub use load::{LoadConfig, LoadError, Loaded, load_file};
pub use stamp::{SourceFile, Stamp};
pub use store::{Node, NodeFlags, RrSet, Zone, ZoneBuilder};
