//! Zones: master files, snapshots, the catalog of zones served. Reads no query and decides no answer.
//!
//! | module | holds |
//! |---|---|
//! | [`scan`] | master files: text to records, with the places of faults |
//! | [`store`] | the snapshot: [`Zone`] and how it is built |
//! | [`load`] | from a master file to a snapshot |
//! | [`image`] | snapshots in files, ready to be served |
//! | [`check`] | what is wrong with a zone as a whole |
//! | [`zonemd`] | digests of whole zones (RFC 8976) |
//! | [`regular`] | opening regular files, and nothing else |
//! | [`prefetch`] | prefetching, and for a test what was prefetched and what was read |
//! | [`catalog`] | which zones there are, and which is the closest to a name: [`Catalog`] |
//!
//! This crate finds names and their records. It writes no message.

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
