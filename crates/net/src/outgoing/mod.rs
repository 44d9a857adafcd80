//! Links to other servers: drives a [`Core`](exchange::Core) with sockets, on a thread of its own and on
//! those of workers.
//!
//! `driver` is the loop, `socket` one link, `port` where datagrams leave from, `stock` sockets opened before
//! they are needed; `desk` is where other threads act for the driver, `outbound` what datagram workers do
//! there, `links` what each of them opens, `client_queues` who is acted for first, and `predictor` whether
//! replies are worth looking for; `sync` is what threads see of each other. The core decides everything: when
//! to ask again, whom to believe, when to give up. Here only sockets are opened, filled, emptied and closed.

mod client_queues;
mod desk;
mod driver;
mod links;
mod outbound;
mod port;
mod predictor;
mod socket;
mod stock;
mod sync;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

pub use driver::{Outgoing, OutgoingConfig, OutgoingTotals};
pub(crate) use outbound::WorkerOutbound;

/// Opens a connection for a thread that may wait, from the address `from` if it has one, and waits for it no
/// longer than `patience`.
///
/// # Errors
/// The system's; also if there is no such address here as `from`.
pub fn connect(to: SocketAddr, from: Option<IpAddr>, patience: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    socket.connect_timeout(&to.into(), patience)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::WorkerOutbound;

    /// How many turns are short from here on.
    fn short(outbound: &mut WorkerOutbound) -> usize {
        let mut turns = 0;
        while !outbound.is_calm() && turns < 1000 {
            outbound.turn();
            turns += 1;
        }
        turns
    }

    #[test]
    fn turns_get_long_while_nobody_is_answered_from_memory_and_short_at_once() {
        let mut outbound = WorkerOutbound::new();
        outbound.begin();
        let first = short(&mut outbound);
        assert!((10..1000).contains(&first) && short(&mut outbound) == 0, "{first}");
        outbound.answered();
        assert_eq!(short(&mut outbound), first);
    }
}
