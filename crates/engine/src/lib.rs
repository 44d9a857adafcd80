//! The query path, one line in one direction, the same for every transport.
//!
//! ```text
//!  packet ─▶ request ─▶ screen ─▶ route ─▶ source ─▶ render ─▶ reply
//!            parse,     may it    which    Ready      OPT, TC,
//!            hash       be asked  source   Pending ─▶ resumes at render
//!                                          Stream     messages pulled by the transport
//! ```
//!
//! What lives here: what happens to one query between the socket and the data. What does not: sockets
//! (`net`), what a zone answers (`authority`), configuration files, threads and sockets (`server`).
//! A worker is one thread's [`Worker`]; it meets queries in batches: [`Worker::begin`],
//! [`Worker::prepare`] for each packet, [`Worker::answer`] for each packet.
#![forbid(unsafe_code)]

mod chaos;
pub mod pending;
pub mod pipeline;
mod render;
pub mod request;
mod route;
mod screen;
pub mod source;
pub mod stats;
mod tsig;

pub use pending::{Responder, Ticket};
pub use pipeline::{BATCH, Config, Engine, Packet, Transport, Verdict, Worker};
pub use source::{Asked, MessageStream, Next, Source, Sourced};
pub use stats::Stats;
