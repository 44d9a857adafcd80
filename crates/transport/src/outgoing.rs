//! Messages that this server sends on its own account: to upstream servers, primaries, secondaries.
//!
//! A [`Core`] decides about them, a state machine without sockets and without a clock: it receives events
//! with their time, and returns actions. `net` drives it with real sockets on threads of its own, so that
//! threads which answer clients never wait for it; tests drive it with scripted sockets on virtual time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::Transport;
use crate::encryption::{Encryption, EncryptionFault};

/// The number of one datagram exchange or one connection, which the core chooses. The number is free again
/// after the event that ends the link, or after [`Action::Close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u64);

/// A map by [`Link`], or by another number that this program counts up itself.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// The hasher of a [`NumberMap`]: one multiplication. It is only for numbers that no peer can choose, since
/// chosen ones could be made to collide.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        // 2^64 divided by the golden ratio: consecutive numbers get far apart. The map uses the upper bits as
        // well as the lower ones, and the lower bits of an odd multiple differ as much as those of the
        // number.
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// An action that a core requests.
#[derive(Debug)]
pub enum Action {
    /// Open a link to `to`, from the address `from` if set. A datagram link has a fresh UDP socket on a
    /// random port, connected to `to`; a stream link is a connection.
    Open {
        /// The link's number, which is not in use.
        link: Link,
        /// The link's transport.
        transport: Transport,
        /// The remote address.
        to: SocketAddr,
        /// The local address; `None` leaves the choice to the routing table.
        from: Option<IpAddr>,
        /// The encryption of a connection, whose transport is then [its own](Encryption::transport); `None`
        /// for one in the clear, and for datagrams.
        encryption: Option<Encryption>,
    },
    /// Send a message, without framing, on a link. Messages for a connection that is not open yet are queued.
    Send {
        /// The link.
        link: Link,
        /// The message.
        message: Vec<u8>,
    },
    /// Cancel the query with this ID on a link with a stream for each: its response is not wanted any more.
    Cancel {
        /// The link.
        link: Link,
        /// The ID.
        id: u16,
    },
    /// Let the session of a link go on, after a [wanted key](Event::KeyWanted) was fetched or was not.
    Resume {
        /// The link.
        link: Link,
    },
    /// Close a link: no event of it follows.
    Close {
        /// The link.
        link: Link,
    },
}

/// An event of a link.
#[derive(Debug)]
pub enum Event<'e> {
    /// A connection in the clear is open. Datagram links are open from the start.
    Opened {
        /// The link.
        link: Link,
    },
    /// An encrypted connection is open, and its server authenticated.
    Secured {
        /// The link.
        link: Link,
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// A message was received, without framing. Only its sender's address has been checked.
    Message {
        /// The link it was received on.
        link: Link,
        /// The message, of any length.
        message: &'e [u8],
    },
    /// The query with this ID gets no response on a link with a stream for each; the link stays open.
    Failed {
        /// The link.
        link: Link,
        /// The ID.
        id: u16,
        /// The reason; `None` if the query can be sent again on another link.
        fault: Option<EncryptionFault>,
    },
    /// Queries on a link need the key of a target, which is fetched from its
    /// [server](Encryption::key_server).
    KeyWanted {
        /// The link.
        link: Link,
    },
    /// The server takes no further queries on a link, and answers those in flight.
    Draining {
        /// The link.
        link: Link,
    },
    /// The link has ended: refused, unreachable, reset; or, with [`io::ErrorKind::UnexpectedEof`], closed by
    /// the remote end in order.
    Ended {
        /// The link.
        link: Link,
        /// The reason.
        error: io::ErrorKind,
    },
    /// The link has ended: it cannot be encrypted, or its server could not be authenticated.
    Insecure {
        /// The link.
        link: Link,
        /// The reason.
        fault: EncryptionFault,
    },
}

/// Decides which messages are sent, and handles the replies. See the module.
pub trait Core: Send + 'static {
    /// The requests that other threads send to it.
    type Request: Send + 'static;

    /// Returns the origin of a request, as a number. Queued requests of one origin do not hold up those of
    /// another, and keep their order.
    fn origin(_request: &Self::Request) -> u64 {
        0
    }

    /// Handles a request.
    fn request(&mut self, request: Self::Request, now: Instant, actions: &mut Vec<Action>);

    /// Handles an event of a link.
    fn event(&mut self, event: Event<'_>, now: Instant, actions: &mut Vec<Action>);

    /// Whether the driver calls [`bound`](Self::bound) for each link that it opens. Reading the address takes
    /// a system call.
    fn wants_bound(&self) -> bool {
        false
    }

    /// Receives the local address and port of an opened link, before any message received on it.
    fn bound(&mut self, _link: Link, _local: SocketAddr) {}

    /// Returns when the driver calls [`timeout`](Self::timeout), if nothing happens before.
    fn deadline(&self) -> Option<Instant>;

    /// Handles the deadline.
    fn timeout(&mut self, now: Instant, actions: &mut Vec<Action>);
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    /// A hash map takes the bucket from the lower bits and a tag of seven bits from the upper ones.
    #[test]
    fn numbers_in_a_row_get_places_and_marks_of_their_own() {
        let map = NumberMap::<Link, ()>::default();
        for first in [0, 1 << 20, u64::MAX - 5000] {
            let (mut places, mut marks) = ([0u32; 1024], [0u32; 128]);
            for n in first..first + 4096 {
                let hash = map.hasher().hash_one(Link(n));
                places[(hash % 1024) as usize] += 1;
                marks[(hash >> 57) as usize] += 1;
            }
            assert!(places.iter().all(|&n| n == 4), "{places:?}");
            assert!(marks.iter().all(|&n| (16..64).contains(&n)), "{marks:?}");
        }
    }
}
