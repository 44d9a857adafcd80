//! One link whose connection has a stream for each query: HTTPS over TCP, or QUIC over UDP. Its session has
//! the encryption and the streams; here bytes and datagrams are moved between it and the socket.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use transport::{StreamedEvent, StreamedSession, Transport};

use super::link::{DatagramLink, LinkProgress, MOST_UNSENT, READS_PER_LINK, connecting};
use super::port::Ports;
use super::stock::Stock;

/// A connection with a stream for each query.
pub(super) struct StreamedLink {
    session: Box<dyn StreamedSession>,
    socket: StreamedSocket,
    /// Bytes of the session that are not sent; of datagrams the one that is being sent.
    unsent: Vec<u8>,
}

/// The socket of such a link.
enum StreamedSocket {
    Stream {
        stream: TcpStream,
        /// The system has established it.
        connected: bool,
    },
    Datagrams(DatagramLink),
}

impl StreamedLink {
    /// Opens a connection to `to`, from the address `from` if set.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(
        session: Box<dyn StreamedSession>,
        transport: Transport,
        to: SocketAddr,
        from: Option<IpAddr>,
        ports: &mut Ports,
        now: Instant,
    ) -> io::Result<StreamedLink> {
        let socket = match transport.socket() {
            Transport::Udp => {
                let socket = Stock::default().take(to)?;
                StreamedSocket::Datagrams(DatagramLink::open(socket, to, from, ports)?)
            }
            _ => StreamedSocket::Stream { stream: connecting(to, from)?, connected: false },
        };
        let mut link = StreamedLink { session, socket, unsent: Vec::new() };
        link.flush(now)?;
        Ok(link)
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        match &self.socket {
            StreamedSocket::Stream { stream, .. } => stream.local_addr().ok(),
            StreamedSocket::Datagrams(socket) => socket.local(),
        }
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.socket {
            StreamedSocket::Stream { stream, .. } => {
                stream.register(registry, token, Interest::READABLE | Interest::WRITABLE)
            }
            StreamedSocket::Datagrams(socket) => socket.register(registry, token),
        }
    }

    /// Sends a query, or queues it until the connection can send it.
    ///
    /// # Errors
    /// The system's; also if more bytes are queued than a working connection would leave.
    pub(super) fn send(&mut self, query: &[u8], now: Instant) -> io::Result<()> {
        self.session.send(query, now);
        self.flush(now)
    }

    /// Cancels a query.
    ///
    /// # Errors
    /// As those of [`send`](Self::send).
    pub(super) fn cancel(&mut self, id: u16, now: Instant) -> io::Result<()> {
        self.session.cancel(id, now);
        self.flush(now)
    }

    /// Goes on after a wanted key was fetched, or was not.
    ///
    /// # Errors
    /// As those of [`send`](Self::send).
    pub(super) fn resume(&mut self, now: Instant) -> io::Result<()> {
        self.session.resume(now);
        self.flush(now)
    }

    /// Returns when [`timeout`](Self::timeout) is to be called.
    pub(super) fn deadline(&mut self) -> Option<Instant> {
        self.session.deadline()
    }

    /// Handles the deadline.
    ///
    /// # Errors
    /// As those of [`send`](Self::send).
    pub(super) fn timeout(&mut self, now: Instant) -> io::Result<()> {
        self.session.timeout(now);
        self.flush(now)
    }

    /// Removes and returns the next event.
    pub(super) fn event(&mut self) -> Option<StreamedEvent> {
        self.session.event()
    }

    /// Writes and reads as much as possible, up to a limit.
    ///
    /// # Errors
    /// The reason why the link has ended. [Events](Self::event) before that wait to be taken.
    pub(super) fn ready(&mut self, buffer: &mut [u8], now: Instant) -> io::Result<LinkProgress> {
        if !self.is_connected()? {
            return Ok(LinkProgress::Waits);
        }
        self.flush(now)?;
        for _ in 0..READS_PER_LINK {
            let read = match &mut self.socket {
                StreamedSocket::Stream { stream, .. } => match stream.read(buffer) {
                    Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                    read => read,
                },
                StreamedSocket::Datagrams(socket) => socket.receive(buffer),
            };
            match read {
                Ok(len) => {
                    self.session.receive(&buffer[..len], now);
                    // An alert about what was received may find the socket closed; the event has the reason.
                    self.flush(now)?;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(LinkProgress::Waits),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(LinkProgress::More)
    }

    /// Whether the system has established the connection.
    fn is_connected(&mut self) -> io::Result<bool> {
        let StreamedSocket::Stream { stream, connected: connected @ false } = &mut self.socket else {
            return Ok(true);
        };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => *connected = true,
            Err(e) if e.kind() == io::ErrorKind::NotConnected => {}
            Err(e) => return Err(e),
        }
        Ok(*connected)
    }

    /// Sends the output of the session.
    fn flush(&mut self, now: Instant) -> io::Result<()> {
        let StreamedLink { session, socket, unsent } = self;
        match socket {
            StreamedSocket::Datagrams(socket) => loop {
                unsent.clear();
                if !session.output(unsent, now) {
                    return Ok(());
                }
                socket.send(unsent)?;
            },
            StreamedSocket::Stream { stream, connected } => {
                while session.output(unsent, now) {}
                while *connected && !unsent.is_empty() {
                    match stream.write(unsent) {
                        Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Ok(n) => drop(unsent.drain(..n)),
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(e),
                    }
                }
                match unsent.len() > MOST_UNSENT {
                    true => Err(io::ErrorKind::TimedOut.into()),
                    false => Ok(()),
                }
            }
        }
    }
}

impl Drop for StreamedLink {
    /// Ends the connection in order, so that the server does not keep it until its own timeout.
    fn drop(&mut self) {
        let now = Instant::now();
        self.session.close(now);
        // If the socket takes no more, the server sees the connection end, or no further packets.
        let _ = self.flush(now);
    }
}
