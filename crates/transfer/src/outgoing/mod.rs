//! Transfers to other servers: whole zones (AXFR, RFC 5936) and differences between versions (IXFR,
//! RFC 1995), as streams of messages.
//!
//! A zone of millions of records leaves in thousands of messages, so a record costs little: it is copied from
//! the compiled RRset of the snapshot, and its names are looked for in the message from the zone's name on,
//! label by label.
//!
//! | file | holds |
//! |---|---|
//! | `frame.rs` | what stands around the records: [`TransferFrame`]; what is asked for: [`IxfrRequest`] |
//! | `names.rs` | the names that a message holds |
//! | `message.rs` | one message while it is written |
//! | `stream.rs` | message after message |
//! | `axfr.rs` | [`axfr()`], [`soa_only`] |
//! | `ixfr.rs` | [`ixfr()`], [`ixfr_datagram`] |

mod axfr;
mod frame;
mod ixfr;
mod message;
mod names;
mod stream;
#[cfg(test)]
pub(crate) mod tests;

pub use axfr::{axfr, soa_only};
pub use frame::{DEFAULT_LIMIT, IxfrRequest, TransferClock, TransferFrame};
pub use ixfr::{IxfrAnswer, ixfr, ixfr_answer, ixfr_datagram};
