//! The floor of a cache miss: a forwarder that opens a socket with a random port for each query, forwards the
//! query unchanged, and returns the answer. It parses, stores and repeats nothing; its cost is that of the
//! kernel for a resolver that uses a fresh port for each query (RFC 5452 §9.2). Not a DNS server in any other
//! respect.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};

use crate::failure::{Context, Result};
use crate::random::Random;
use crate::sys::{self, BATCH, Batch, Peer};

/// Size of a socket buffer in bytes, each for receiving and sending: as the servers set, so that bursts are
/// not lost here only.
const SOCKET_BUFFER: usize = 4 << 20;
/// Lowest random port; those below belong to other services.
const FIRST_PORT: u64 = 1024;

/// Forwards from `address` until killed. An unanswered query keeps its socket.
pub(crate) fn run(address: SocketAddr, upstream: SocketAddr) -> Result<()> {
    let mut relay = Relay::new(address, upstream).context(|| format!("cannot listen on {address}"))?;
    loop {
        relay.turn()?;
    }
}

struct Relay {
    poll: Poll,
    events: Events,
    socket: UdpSocket,
    upstream: SocketAddr,
    /// Whether the socket may have more queries.
    more: bool,
    queries: Batch,
    replies: Batch,
    /// The sockets of forwarded queries, with the client of each, by descriptor.
    asked: HashMap<usize, (UdpSocket, Peer)>,
    /// Sockets whose answer has arrived.
    done: Vec<UdpSocket>,
    random: Random,
}

impl Relay {
    fn new(address: SocketAddr, upstream: SocketAddr) -> io::Result<Relay> {
        let mut socket = UdpSocket::bind(address)?;
        sys::widen_buffers(&socket, SOCKET_BUFFER);
        let poll = Poll::new()?;
        let token = Token(socket.as_raw_fd() as usize);
        poll.registry().register(&mut socket, token, Interest::READABLE)?;
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Ok(Relay {
            poll,
            events: Events::with_capacity(BATCH),
            socket,
            upstream,
            more: false,
            queries: Batch::new(),
            replies: Batch::new(),
            asked: HashMap::new(),
            done: Vec::new(),
            random: Random::new(seed),
        })
    }

    /// Waits for events, returns answers, and then forwards a batch of queries.
    fn turn(&mut self) -> io::Result<()> {
        self.poll.poll(&mut self.events, self.more.then_some(Duration::ZERO))?;
        let mut answered = 0;
        for event in &self.events {
            let Some((socket, peer)) = self.asked.remove(&event.token().0) else {
                self.more = true;
                continue;
            };
            let (bytes, length) = self.replies.slot(answered);
            if let Ok(received) = socket.recv(bytes) {
                *length = received;
                self.replies.set_peer(answered, peer);
                answered += 1;
            }
            self.done.push(socket);
        }
        if answered > 0 {
            // A full socket buffer drops replies, as it would a server's.
            let _ = self.replies.send(&self.socket, answered);
        }
        self.done.clear();
        if self.more {
            self.pass_on()?;
        }
        Ok(())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let count = match self.queries.receive(&self.socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.more = false;
                return Ok(());
            }
            received => received?,
        };
        for index in 0..count {
            let socket = self.open()?;
            socket.connect(self.upstream)?;
            let peer = self.queries.peer(index);
            let (bytes, length) = self.queries.slot(index);
            socket.send(&bytes[..*length])?;
            let mut socket = UdpSocket::from_std(socket);
            let token = socket.as_raw_fd() as usize;
            self.poll.registry().register(&mut socket, Token(token), Interest::READABLE)?;
            self.asked.insert(token, (socket, peer));
        }
        Ok(())
    }

    /// Opens a socket with a random port.
    fn open(&mut self) -> io::Result<std::net::UdpSocket> {
        loop {
            let ports = u64::from(u16::MAX) + 1 - FIRST_PORT;
            let port = (FIRST_PORT + self.random.below(ports)) as u16;
            match std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                opened => return opened,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_comes_from_a_port_of_its_own_and_its_answer_goes_to_whoever_asked() {
        let upstream = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        upstream.set_nonblocking(true).unwrap();
        let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut relay = Relay::new(free, upstream.local_addr().unwrap()).unwrap();
        let clients: Vec<_> = (0..3u8)
            .map(|number| {
                let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                client.set_nonblocking(true).unwrap();
                client.connect(free).unwrap();
                client.send(&[number; 20]).unwrap();
                client
            })
            .collect();
        let (mut ports, mut answered, mut buffer) = (Vec::new(), 0, [0; 64]);
        while answered < 3 {
            relay.turn().unwrap();
            while let Ok((length, from)) = upstream.recv_from(&mut buffer) {
                assert_eq!(length, 20);
                ports.push(from.port());
                buffer[1] = 7;
                upstream.send_to(&buffer[..length], from).unwrap();
            }
            for (number, client) in clients.iter().enumerate() {
                if let Ok(length) = client.recv(&mut buffer) {
                    assert_eq!((length, usize::from(buffer[0]), buffer[1]), (20, number, 7));
                    answered += 1;
                }
            }
        }
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 3);
        assert!(relay.asked.is_empty());
    }
}
