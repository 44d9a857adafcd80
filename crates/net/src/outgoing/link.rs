//! What links of all kinds are made of: a connected datagram socket, a connection that is being established,
//! and the limits of one link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use mio::event::Source;
use mio::net::{TcpStream, UdpSocket};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::port::Ports;

/// Unsent bytes above which a connection counts as stuck: a core sends far less before it receives a reply.
pub(super) const MOST_UNSENT: usize = 1 << 20;

/// Reads of one link before other links are read.
pub(super) const READS_PER_LINK: usize = 16;

/// The state of a link after reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkProgress {
    /// The system reports when there is more to do.
    Waits,
    /// There may be more to read at once.
    More,
}

/// A connected datagram socket on a random port.
pub(super) struct DatagramLink(UdpSocket);

impl DatagramLink {
    /// Opens a link to `to` on a socket of the [`Stock`], from the address `from` if set.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(
        socket: Socket,
        to: SocketAddr,
        from: Option<IpAddr>,
        ports: &mut Ports,
    ) -> io::Result<DatagramLink> {
        let any = match to {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        ports.bind(&socket, from.unwrap_or(any))?;
        // A connected socket receives only datagrams from `to`, and the kernel reports that a destination is
        // unreachable.
        socket.connect(&to.into())?;
        Ok(DatagramLink(UdpSocket::from_std(socket.into())))
    }

    /// Returns its local address and port; `None` if the system does not report them.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.0.register(registry, token, Interest::READABLE)
    }

    /// Returns the descriptor that is readable when there is a message.
    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.0.deregister(registry)
    }

    /// Sends a message. If the send buffer is full, the message is lost, as it might be on the network.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.0.send(message) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent.map(|_| ()),
        }
    }

    /// Receives a message, if there is one. Returns its length.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer)
    }
}

/// Returns a connection that is being established to `to`, from the address `from` if set.
///
/// # Errors
/// The system's.
pub(super) fn connecting(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    match socket.connect(&to.into()) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) && e.kind() != io::ErrorKind::WouldBlock => {
            Err(e)
        }
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}
