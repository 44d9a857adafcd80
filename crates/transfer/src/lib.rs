//! Zones between servers: what is sent and what is taken, without sockets, threads or a clock.
//!
//! What lives here: signed messages, whole zones and their differences as messages, and when a secondary asks
//! for them. What does not: sockets (`net`), who is allowed to ask (`engine`), where zones are kept
//! (`zone-manager`). Time is passed in, in seconds since 1970.
//!
//! | module | holds |
//! |---|---|
//! | [`catalog_zone`] | zones that list other zones (RFC 9432) |
//! | [`incoming`] | zones and differences out of messages that others send |
//! | `opt` | OPT in responses of primaries: EXPIRE (RFC 7314) |
//! | [`outgoing`] | zones and differences as streams of messages (RFC 5936, RFC 1995) |
//! | [`secondary`] | when secondaries ask and primaries announce (RFC 1034 §4.3.5, RFC 1996) |
//! | [`tsig`] | transaction signatures (RFC 8945): keys, verifying requests and responses, signing both |
#![forbid(unsafe_code)]

pub mod catalog_zone;
pub mod incoming;
mod opt;
pub mod outgoing;
pub mod secondary;
pub mod tsig;
