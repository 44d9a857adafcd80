//! Sockets for future links, opened several at a time: in a row each takes the kernel less time, and no
//! client waits for it. Each is used for one link.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Number of sockets that are opened together.
pub(super) const SOCKETS_PER_REFILL: usize = 8;

/// Datagram sockets without a port and without a peer. A link binds its socket to a random port when it takes
/// it: before, there is no port that could be found by probing, and nothing can be sent to the socket.
#[derive(Default)]
pub(super) struct Stock {
    v4: Vec<Socket>,
    v6: Vec<Socket>,
    /// Whether links have taken sockets of either family since the last refill.
    wanted: (bool, bool),
}

impl Stock {
    /// Returns a socket for a link to `to`; opens one if the stock is empty.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn take(&mut self, to: SocketAddr) -> io::Result<Socket> {
        let (sockets, wanted) = match to {
            SocketAddr::V4(_) => (&mut self.v4, &mut self.wanted.0),
            SocketAddr::V6(_) => (&mut self.v6, &mut self.wanted.1),
        };
        *wanted = true;
        sockets.pop().map_or_else(|| open(Domain::for_address(to)), Ok)
    }

    /// Refills the stock of each family that links have taken from.
    pub(super) fn fill(&mut self) {
        let (v4, v6) = std::mem::take(&mut self.wanted);
        for (wanted, sockets, domain) in [(v4, &mut self.v4, Domain::IPV4), (v6, &mut self.v6, Domain::IPV6)]
        {
            if wanted {
                // If the system refuses a descriptor, the next link gets the error.
                let missing = SOCKETS_PER_REFILL.saturating_sub(sockets.len());
                sockets.extend((0..missing).map_while(|_| open(domain).ok()));
            }
        }
    }

    /// Closes all sockets.
    pub(super) fn clear(&mut self) {
        self.v4.clear();
        self.v6.clear();
    }
}

/// Opens a nonblocking socket.
fn open(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn sockets_are_opened_for_the_kinds_in_use_and_each_is_taken_once() {
        let mut stock = Stock::default();
        stock.fill();
        assert_eq!((stock.v4.len(), stock.v6.len()), (0, 0), "nothing was asked yet");
        let to = SocketAddr::from(([127, 0, 0, 1], 53));
        let first = stock.take(to).expect("a descriptor");
        stock.fill();
        assert_eq!((stock.v4.len(), stock.v6.len()), (SOCKETS_PER_REFILL, 0));
        let mut taken = vec![first.as_raw_fd()];
        let sockets: Vec<Socket> =
            (0..SOCKETS_PER_REFILL + 2).map(|_| stock.take(to).expect("a descriptor")).collect();
        taken.extend(sockets.iter().map(AsRawFd::as_raw_fd));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!((taken.len(), stock.v4.len()), (SOCKETS_PER_REFILL + 3, 0));
        stock.fill();
        stock.fill();
        assert_eq!(stock.v4.len(), SOCKETS_PER_REFILL);
        stock.clear();
        assert_eq!(stock.v4.len(), 0);
    }

    #[test]
    fn nothing_can_be_sent_to_a_socket_that_no_link_has() {
        let mut stock = Stock::default();
        drop(stock.take(SocketAddr::from(([127, 0, 0, 1], 53))));
        stock.fill();
        for socket in &stock.v4 {
            let address = socket.local_addr().expect("it is open").as_socket().expect("an address");
            assert_eq!(address.port(), 0);
        }
    }
}
