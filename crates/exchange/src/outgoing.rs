//! Messages that this server sends on its own account: to upstream servers, primaries, secondaries.
//!
//! A [`Core`] decides about them, a state machine without sockets and without a clock: it receives what
//! happened and when, and decides what is to be done. `net` drives it with real sockets on threads of its
//! own, so that threads which answer never wait for it; tests drive it with scripted ones on virtual time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::Transport;

/// The number of one datagram exchange or one connection, which the core chooses. It is free again after the
/// event that ends it, or after [`Action::Close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u64);

/// A map by [`Link`], or by another number that this program counts up itself.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// The hasher of a [`NumberMap`]: one multiplication. It is for numbers that cannot be chosen from outside,
/// since chosen ones could be made to collide.
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
        // 2^64 divided by the golden ratio: numbers in a row get far apart. The map takes the upper bits as
        // well as the lower ones, and the lower ones of an odd multiple are as different as those of the
        // number.
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// What a core wants done.
#[derive(Debug)]
pub enum Action {
    /// Open a link to `to`, from the address `from` if it has one. A datagram link has a fresh UDP socket on
    /// a random port, connected to `to`; a stream link is a connection.
    Open {
        /// Its number, which is not in use.
        link: Link,
        /// How messages travel on it.
        transport: Transport,
        /// The other end.
        to: SocketAddr,
        /// Our address; `None` leaves the choice to the routing table.
        from: Option<IpAddr>,
    },
    /// Send a message, without framing, on a link. What is sent before a connection is open waits for that.
    Send {
        /// The link.
        link: Link,
        /// The message.
        message: Vec<u8>,
    },
    /// Forget a link: no event of it follows.
    Close {
        /// The link.
        link: Link,
    },
}

/// What happened.
#[derive(Debug)]
pub enum Event<'e> {
    /// A connection is open. Datagram links are from the start.
    Opened {
        /// The link.
        link: Link,
    },
    /// A message came in, without framing. Only its sender's address has been checked.
    Message {
        /// The link it came on.
        link: Link,
        /// The message, of any length.
        message: &'e [u8],
    },
    /// The link is over: refused, unreachable, reset; or, with [`io::ErrorKind::UnexpectedEof`], closed by
    /// the other end in order.
    Ended {
        /// The link.
        link: Link,
        /// Why.
        error: io::ErrorKind,
    },
}

/// Decides what is sent and what the replies lead to. See the module.
pub trait Core: Send + 'static {
    /// What other threads ask it for.
    type Request: Send + 'static;

    /// Who a request comes from, as a number. Where requests wait, those of one origin do not hold up
    /// another's, and keep their order among themselves.
    fn origin(_request: &Self::Request) -> u64 {
        0
    }

    /// Takes a request.
    fn request(&mut self, request: Self::Request, now: Instant, actions: &mut Vec<Action>);

    /// Takes news of a link.
    fn event(&mut self, event: Event<'_>, now: Instant, actions: &mut Vec<Action>);

    /// Whether [`bound`](Self::bound) is to be called for each link that is opened. To find out an address is
    /// a system call.
    fn wants_bound(&self) -> bool {
        false
    }

    /// Takes the address and port from which a link that was opened sends: before any message that comes on
    /// it.
    fn bound(&mut self, _link: Link, _local: SocketAddr) {}

    /// When [`timeout`](Self::timeout) is to be called, if nothing happens before.
    fn deadline(&self) -> Option<Instant>;

    /// The deadline has come.
    fn timeout(&mut self, now: Instant, actions: &mut Vec<Action>);
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    /// A map takes the place from the lower bits and a mark of seven bits from the upper ones.
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
