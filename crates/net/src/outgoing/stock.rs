//! Sockets for links to come, opened several at a time: the kernel needs less time for each of several in a
//! row, and none of it while a client waits. Each is used for one link.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Sockets that are opened together.
pub(super) const BUNCH: usize = 8;

/// Datagram sockets without a port and without a peer. A link that takes one binds it to a random port then:
/// before, there is no port that could be found by probing, and nothing can be sent to the socket.
#[derive(Default)]
pub(super) struct Stock {
    v4: Vec<Socket>,
    v6: Vec<Socket>,
    /// Whether links have taken some of either kind since they were opened.
    wanted: (bool, bool),
}

impl Stock {
    /// A socket for a link to `to`; a new one, if there is none.
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

    /// Opens what is missing of either kind that links have taken.
    pub(super) fn fill(&mut self) {
        let (v4, v6) = std::mem::take(&mut self.wanted);
        for (wanted, sockets, domain) in [(v4, &mut self.v4, Domain::IPV4), (v6, &mut self.v6, Domain::IPV6)]
        {
            if wanted {
                // Without a descriptor to be had, links find that out.
                let missing = BUNCH.saturating_sub(sockets.len());
                sockets.extend((0..missing).map_while(|_| open(domain).ok()));
            }
        }
    }

    /// Closes all.
    pub(super) fn clear(&mut self) {
        self.v4.clear();
        self.v6.clear();
    }
}

/// A socket that does not wait.
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
        assert_eq!((stock.v4.len(), stock.v6.len()), (BUNCH, 0));
        let mut taken = vec![first.as_raw_fd()];
        let sockets: Vec<Socket> = (0..BUNCH + 2).map(|_| stock.take(to).expect("a descriptor")).collect();
        taken.extend(sockets.iter().map(AsRawFd::as_raw_fd));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!((taken.len(), stock.v4.len()), (BUNCH + 3, 0));
        stock.fill();
        stock.fill();
        assert_eq!(stock.v4.len(), BUNCH);
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
