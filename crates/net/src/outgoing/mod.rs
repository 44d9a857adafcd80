//! Links to other servers: drives a [`Core`](exchange::Core) with sockets, on a thread of its own and on those of workers.
//!
//! `driver` is the loop, `socket` one link, `port` where datagrams leave from; `desk` is where other threads act for the driver,
//! and `duty` what datagram workers do there. The core decides everything: when to ask again, whom to believe, when to give
//! up. Here only sockets are opened, filled, emptied and closed.

mod desk;
mod driver;
mod duty;
mod port;
mod socket;

pub use driver::{Outgoing, OutgoingConfig, OutgoingTotals};
pub(crate) use duty::Duty;
