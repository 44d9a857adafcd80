//! Links to other servers: drives a [`Core`](exchange::Core) with sockets, on a thread of its own.
//!
//! `driver` is the loop, `socket` one link, `port` where datagrams leave from. The core decides everything: when to ask
//! again, whom to believe, when to give up. Here only sockets are opened, filled, emptied and closed.

mod driver;
mod port;
mod socket;

pub use driver::{Outgoing, OutgoingConfig, OutgoingTotals};
