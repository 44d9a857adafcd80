//! Links to other servers: drives a [`Core`](exchange::Core) with sockets, on a thread of its own and on
//! those of workers.
//!
//! `driver` is the loop, `socket` one link, `port` where datagrams leave from, `stock` sockets opened before
//! they are needed; `desk` is where other threads act for the driver, `outbound` what datagram workers do
//! there, `links` what each of them opens, `client_queues` which client is served first, and `predictor`
//! whether replies are worth looking for; `sync` is what threads see of each other. The core decides
//! everything: when to ask again, which reply to believe, when to give up. Here only sockets are opened,
//! filled, emptied and closed.
//!
//! # Which thread acts
//!
//! A core has one lock and one thread. The thread that holds the lock acts: it has the core take requests and
//! messages, and receives what the core decides. Where the core is quick about everything
//! ([`OutgoingConfig::by_workers`]), datagram workers do most of it, so that in the common case one thread
//! receives a query, sends it on, waits, receives the reply and sends the answer. A worker does so for one
//! core; what it brings to another is for the thread of that core.
//!
//! - The lock is for decisions, not for the system. A worker's turn has three parts: it reads what its links
//!   have, passes that to the core with the lock held, and then opens, fills and closes sockets as the core
//!   has decided. No other thread touches its sockets; what others want done with them (the thread gives up
//!   on a link, another worker has the answer already) they leave in its mailbox.
//! - A worker's requests are its own. What a handler brings while a batch is answered waits in a queue that
//!   only workers take from, and the worker's thread remembers that there is something. It takes its turn
//!   when the answers of the batch are out, and it does not wait before it has seen, with the lock held, that
//!   nothing is left. No thread is woken for a request, so no wake-up can be lost.
//! - A link belongs to the thread that opened it. Each worker has a set of links (epoll), and waits for it
//!   beside its socket and its alarm. Connections belong to the core's thread, also those that a worker
//!   opens; what is done with them is done with the lock held. A worker that ends hands over its links and
//!   what was brought; the system then reports again what is ready.
//! - A reply that is there is not waited for. While replies come soon (`predictor`), a link of a worker that
//!   will take another turn at once is not put into its set: the next turn looks for the reply, and only what
//!   has none by then is waited for. A worker waits for four links or fewer by their own descriptors, beside
//!   that of the set, and has the others in the set before it waits.
//! - Sockets are opened and closed in bunches (`stock`), after the answers are out: in a row each takes the
//!   kernel less time. A socket opened ahead has no port. Each link takes a socket of its own and binds it to
//!   a random port.
//! - Turns are short: a worker reads one message each from eight links at the most, and from those opened in
//!   the last turn; it acts on so many requests that these and the replies are four, one at the least. Which
//!   links have something is asked in each turn, and they are read in that order, so floods on some keep no
//!   other waiting for long. Then the worker looks at its socket, and answers what memory has before the next
//!   turn: cached answers wait for one turn at the most. While memory has answered no query for a while,
//!   turns are longer. What a turn sends leaves at its end, so that the receiver is woken for all of it.
//! - Clients take turns, too (`client_queues`): requests wait in queues by the client's network, and queue by
//!   queue one is acted on. Since replies come first, it is there that a flood waits, and a client with one
//!   question passes it by.
//! - No thread that answers waits for the lock. Workers try it; one that finds it taken looks again after its
//!   next batch, or after 0.1 ms. Only a worker that ends waits for it.
//! - The thread keeps the time. It sleeps until the core's next deadline; while requests come, it wakes every
//!   25 ms, which is sooner than any deadline that a request can bring, so requests need not wake it. A turn
//!   that leaves an earlier deadline than it sleeps to wakes it.
//! - All lookups are one core's, so clients of different workers join the same lookup. The worker that takes
//!   the reply wakes the others' workers; its own needs no waking, and its alarm writes no event meanwhile.
//!
//! Other threads (TCP workers, validation, prefetching by the core itself) leave requests for the thread, and
//! act on them while it sleeps if they are few. `docs/PERFORMANCE.md` has how much of the CPU is spent with
//! the lock held. The test `orders` compiles `desk` and `outbound` against locks and atomics that try every
//! order.

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
