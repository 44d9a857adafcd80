//! TCP service (RFC 7766): listening and accepting in `worker`; what a connection decides in `life`, without
//! I/O or a clock of its own; its reading and writing in `connection`, over any stream; late answers find
//! their connection in `returns`; limits and times over all of them are in `limits`.

mod connection;
mod event;
mod life;
mod limits;
mod output;
#[cfg(test)]
mod replay;
mod returns;
mod worker;

pub use limits::{TcpLimits, TcpTimes};
pub(crate) use worker::{open, spawn, take_over};
