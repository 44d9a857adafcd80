//! DNSSEC: computations on names, records and keys (RFC 4034, 4035 and 5155).
//!
//! Without sockets, clock or cache: callers pass in records, keys and the time. Other crates decide which
//! proof an answer needs (`authority`) and validate responses (`validator`).
//!
//! | module | holds |
//! |---|---|
//! | [`algorithm`] | signature algorithms: which are supported, and verification with a key |
//! | [`key`] | key tags, DS digests |
//! | [`nsec`] | NSEC records for one answer: type bitmaps, names before and after a name |
//! | [`nsec3`] | the NSEC3 hash |
//! | [`verify`] | signatures over RRsets |
//!
//! A module uses only those above it.
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod key;
pub mod nsec;
pub mod nsec3;
pub mod verify;
