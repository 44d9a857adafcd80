//! DNS over QUIC (RFC 9250) and HTTP/3. Limits, timeouts and late answers are those of [`crate::tcp`].
//!
//! | file | holds |
//! |---|---|
//! | `worker` | an endpoint, and the admission of connections |
//! | `connection` | one connection, from its handshake to its end |
//! | `drive` | its streams, of either protocol |
//! | `answers` | what streams of both protocols do with queries and answers |
//! | `client`, `end` | the state of a connection, and its end |
//! | `stream`, `query` | streams of DNS over QUIC, and the rules about what they carry |
//! | `requests`, `request` | a connection of HTTP/3, and one of its requests |
//! | `settings`, `socket` | bounds of the protocol, and sockets |

mod answers;
mod client;
mod connection;
mod drive;
mod end;
mod query;
mod request;
mod requests;
mod settings;
mod socket;
mod stream;
mod worker;

pub(crate) use settings::QuicShared;
pub(crate) use socket::{open, take_over};
pub(crate) use worker::spawn;
