//! DNS over QUIC (RFC 9250) and HTTP/3: `worker` has an endpoint and admits connections, `connection` is one
//! of them, `client` its state and `end` its end, `stream` one query and its answer, `query` the rules about
//! what a stream carries; `requests` is a connection of HTTP/3 and `request` one of its requests. `settings`
//! has the bounds of the protocol. Limits, timeouts and late answers are those of [`crate::tcp`].

mod client;
mod connection;
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
