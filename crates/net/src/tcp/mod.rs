//! TCP service (RFC 7766): `worker` listens and accepts; `life` has a connection's decisions, without I/O or
//! a clock; `connection` reads and writes, over any stream, `secured` over TLS; `https` is DNS over HTTPS;
//! `returns` passes late answers to their connections; `limits` has limits and timeouts over all of them.

mod connection;
mod event;
mod https;
mod life;
mod limits;
mod output;
#[cfg(test)]
mod replay;
mod returns;
mod secured;
mod worker;

pub use limits::{TcpLimits, TcpTimes};
pub(crate) use worker::{open, spawn, take_over};
