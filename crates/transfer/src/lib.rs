//! Zone transfers between servers: outgoing and incoming, without sockets, threads or a clock.
//!
//! This crate has signed messages, whole zones and their differences as messages, and the timing of a
//! secondary's queries. It does not have sockets (`net`), access control (`query-path`) or zone storage
//! (`zone-manager`). Callers pass in the time.
//!
//! | module | holds |
//! |---|---|
//! | [`catalog_zone`] | zones that list other zones (RFC 9432) |
//! | [`incoming`] | zones and differences from received messages |
//! | `opt` | OPT in responses of primaries: EXPIRE (RFC 7314) |
//! | [`outgoing`] | zones and differences as streams of messages (RFC 5936, RFC 1995) |
//! | [`secondary`] | timing of secondaries' queries and primaries' NOTIFY (RFC 1034 §4.3.5, RFC 1996) |
//! | [`tsig`] | transaction signatures (RFC 8945): keys, verifying and signing requests and responses |
#![forbid(unsafe_code)]

pub mod catalog_zone;
pub mod incoming;
mod opt;
pub mod outgoing;
pub mod secondary;
pub mod tsig;
