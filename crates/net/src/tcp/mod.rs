//! TCP service (RFC 7766): listening and accepting in `worker`, one connection's life in `connection`, limits over
//! all of them in `limits`, answers that come later in `ticket`.

mod connection;
mod limits;
mod output;
mod ticket;
mod worker;

pub use limits::TcpLimits;
pub(crate) use ticket::{Ticket, Tickets};
pub(crate) use worker::{open, spawn};
