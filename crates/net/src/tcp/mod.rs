//! TCP service (RFC 7766): `worker` listens and accepts; `life` has a connection's decisions, without I/O or
//! a clock; `connection` reads and writes, over any stream, `secured` over TLS; `https` is DNS over HTTPS;
//! `returns` passes late answers to their connections; `limits` has limits and timeouts over all of them;
//! `thread` is the thread of a worker, which QUIC has as well.

mod connection;
mod event;
pub(crate) mod https;
mod life;
mod limits;
mod output;
#[cfg(test)]
mod replay;
mod returns;
mod secured;
mod thread;
mod worker;

pub(crate) use connection::SharedBuffers;
pub(crate) use event::{ConnectionEvent, Late};
pub(crate) use life::Close;
pub(crate) use limits::{Activity, Permit};
pub use limits::{TcpLimits, TcpTimes};
pub(crate) use returns::Events;
pub(crate) use thread::on_thread;
pub(crate) use worker::{count_close, open, refusal_counter, spawn, take_over};
