//! DNS over QUIC (RFC 9250): `worker` has an endpoint and admits connections, `connection` is one of them
//! and `client` its state, `stream` one query and its answer, `query` the rules about what a stream carries,
//! `settings` has the bounds of the protocol. Limits, timeouts and late answers are those of [`crate::tcp`].

mod client;
mod connection;
mod query;
mod settings;
mod socket;
mod stream;
mod worker;

pub(crate) use settings::QuicShared;
pub(crate) use socket::{open, take_over};
pub(crate) use worker::spawn;
