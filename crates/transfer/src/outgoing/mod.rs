//! Outgoing transfers: whole zones (AXFR, RFC 5936) and differences between versions (IXFR, RFC 1995), as
//! streams of messages.
//!
//! A zone of millions of records takes thousands of messages, so each record must be cheap: it is copied from
//! the compiled RRset of the snapshot, and its names are looked up in the message label by label, starting at
//! the zone's name.
//!
//! | file | holds |
//! |---|---|
//! | `frame.rs` | the parts beside the records: [`TransferFrame`]; the request: [`IxfrRequest`] |
//! | `names.rs` | the names that a message contains |
//! | `message.rs` | writes one message |
//! | `stream.rs` | the sequence of messages |
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
