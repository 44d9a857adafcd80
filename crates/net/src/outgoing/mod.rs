//! Links to other servers: drives a [`Core`](transport::Core) with sockets, on a thread of its own and on the
//! threads of workers.
//!
//! `driver` is the loop, `socket` one link, `streamed` one with a stream for each query, `link` what both
//! are made of, `port` selects random source ports, `stock` holds sockets opened ahead; `shared_driver` is
//! the state that all threads share which drive the core, `outbound` what datagram workers do there, `links`
//! the links of each worker, `client_queues` the order of clients, and `predictor` whether reading a link
//! before waiting for it is worthwhile; `sync` names the primitives that threads synchronize with. The core
//! decides everything: when to retry, which reply to accept, when to give up. Here sockets are only opened,
//! written, read and closed.
//!
//! # Which thread acts
//!
//! A core has one lock and one thread. The thread that holds the lock drives the core: it passes requests and
//! messages to it, and takes its actions. Where the core is quick about everything
//! ([`OutgoingConfig::by_workers`]), datagram workers do most of it, so that in the common case one thread
//! receives a query, sends the upstream query, waits, receives the response and sends the answer. A worker
//! drives one core; its requests to another go to the thread of that core.
//!
//! - The lock is for decisions, not for system calls. A worker's turn has three parts: it reads its links,
//!   passes the messages to the core with the lock held, and then opens, writes and closes sockets as the
//!   core has decided. No other thread touches its sockets; actions of other threads for them (the thread
//!   gives up on a link, another worker has the answer already) go into its mailbox.
//! - A worker acts on its own requests. Requests that a handler brings while it answers a batch wait in a
//!   queue that only workers take from, and the worker's thread marks that there is one. The worker takes its
//!   turn when the answers of the batch are sent, and it does not wait before it has seen, with the lock
//!   held, that the queue is empty. No thread is woken for a request, so no wake-up can be lost.
//! - A link belongs to the thread that opened it. Each worker has a set of links (epoll), and waits for it
//!   beside its socket and its alarm. Connections belong to the core's thread, also those that a worker
//!   opens; all operations on them need the lock. A worker that ends passes its links and its requests to the
//!   core's thread; the system then reports again which links are ready.
//! - A worker does not wait for a reply that has arrived. While replies arrive soon (`predictor`), a worker
//!   that takes another turn at once does not put a new link into its set: the next turn reads it, and only a
//!   link without a reply by then is waited for. A worker waits for four links or fewer by their own
//!   descriptors, beside that of the set, and puts more into the set before it waits.
//! - Sockets are opened and closed in groups (`stock`), after the answers are sent: in a row each takes the
//!   kernel less time. A socket opened ahead has no port. Each link takes a socket of its own and binds it to
//!   a random port.
//! - Turns are short: a worker reads one message each from at most eight links, and from those opened in the
//!   last turn; it takes requests until these and the replies are four, but at least one. Each turn asks the
//!   set which links are readable, and reads them in that order, so floods on some do not delay others for
//!   long. Then the worker reads its socket, and answers from memory before the next turn: cached answers
//!   wait for one turn at most. While memory has answered no query for a while, turns are longer. A turn
//!   sends its messages at its end, so that the receiver is woken once for all of them.
//! - Clients take turns, too (`client_queues`): requests wait in queues by the client's network, and the core
//!   takes one of each queue in turn. Since replies come first, a flood waits there, and a client with a
//!   single query overtakes it.
//! - No thread that answers waits for the lock. Workers try it; a worker that finds it taken tries again
//!   after its next batch, or after 0.1 ms. Only a worker that ends waits for it.
//! - The core's thread keeps the deadlines. It sleeps until the core's next one; while requests come, it
//!   wakes every 25 ms, which is sooner than any deadline that a request can bring, so requests need not wake
//!   it. A turn that leaves an earlier deadline than the end of its sleep wakes it.
//! - One core has all lookups, so clients of different workers join the same lookup. The worker that reads
//!   the reply wakes the workers of the other clients; it needs no wake-up itself, and its alarm writes no
//!   event meanwhile.
//!
//! Other threads (TCP workers, validation, prefetching by the core itself) queue requests for the core's
//! thread, and act on them while it sleeps if they are few. `docs/PERFORMANCE.md` has how much of the CPU
//! time is spent with the lock held. The test `orders` compiles `shared_driver` and `outbound` against locks
//! and atomics that try every order.

mod client_queues;
mod driver;
mod link;
mod links;
mod outbound;
mod port;
mod predictor;
mod secured;
mod shared_driver;
mod socket;
mod stock;
mod streamed;
mod sync;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

pub use driver::{Outgoing, OutgoingConfig};
pub(crate) use outbound::WorkerOutbound;
pub use secured::{EncryptedStream, PeerStream, encryption_fault};
pub use shared_driver::OutgoingCounts;

/// Opens a connection for a thread that may block, from the address `from` if set, with the timeout
/// `patience`.
///
/// # Errors
/// The system's; also if this host does not have the address `from`.
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

    /// Returns the number of short turns from here on.
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
