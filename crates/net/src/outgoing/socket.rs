//! One link: a connected datagram socket, a connection with its unsent bytes and the parts of a message read
//! so far, or one of `streamed`. A connection may be encrypted: then its session stands between the messages
//! and the socket.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use transport::{
    ConnectionSession, EncryptedSession, Encryption, EncryptionFault, MAX_MESSAGE, SessionState, Transport,
};

use super::link::{DatagramLink, LinkProgress, MOST_UNSENT, READS_PER_LINK, connecting};
use super::port::Ports;
use super::stock::Stock;
use super::streamed::StreamedLink;
use crate::framing::{Framed, frame};

/// Whether a link could not be opened because the process or the system has no file descriptor left.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Receives each message. Returns whether the link is still open.
pub(super) type Take<'t> = dyn FnMut(&[u8]) -> bool + 't;

/// The socket of a link.
pub(super) enum LinkSocket {
    Datagrams(DatagramLink),
    Stream(Upstream),
    Streamed(StreamedLink),
}

/// A step in the opening of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpeningStep {
    /// Nothing new: it is open already, or the system reports when there is more to do.
    Waits,
    /// There may be more to read at once.
    More,
    /// It is open now, in the clear.
    Opened,
    /// It is open now, and encrypted.
    Secured {
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
}

/// A connection to another server.
pub(super) struct Upstream {
    stream: TcpStream,
    /// The system has established it.
    connected: bool,
    /// Messages can be exchanged.
    open: bool,
    /// `None` in the clear.
    session: Option<Box<dyn EncryptedSession>>,
    unsent: Vec<u8>,
    /// The bytes of an incomplete message.
    partial: Vec<u8>,
}

impl LinkSocket {
    /// Opens a link. A connection is still being established when this returns.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(
        transport: Transport,
        to: SocketAddr,
        from: Option<IpAddr>,
        encryption: Option<&Encryption>,
        ports: &mut Ports,
        now: Instant,
    ) -> io::Result<LinkSocket> {
        // Before a packet is sent.
        let session = encryption.map(|encryption| encryption.session(to, now)).transpose();
        let session = match session.map_err(insecure)? {
            Some(ConnectionSession::Streams(session)) => {
                let link = StreamedLink::open(session, transport, to, from, ports, now);
                return link.map(LinkSocket::Streamed);
            }
            Some(ConnectionSession::Bytes(session)) => Some(session),
            None => None,
        };
        if !transport.is_stream() {
            let socket = Stock::default().take(to)?;
            return DatagramLink::open(socket, to, from, ports).map(LinkSocket::Datagrams);
        }
        Ok(LinkSocket::Stream(Upstream {
            stream: connecting(to, from)?,
            connected: false,
            open: false,
            session,
            unsent: Vec::new(),
            partial: Vec::new(),
        }))
    }

    /// Returns its local address and port, which a connection has as soon as it is being established; `None`
    /// if the system does not report them.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        match self {
            LinkSocket::Datagrams(socket) => socket.local(),
            LinkSocket::Stream(upstream) => upstream.stream.local_addr().ok(),
            LinkSocket::Streamed(link) => link.local(),
        }
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            LinkSocket::Datagrams(socket) => socket.register(registry, token),
            LinkSocket::Stream(upstream) => {
                upstream.stream.register(registry, token, Interest::READABLE | Interest::WRITABLE)
            }
            LinkSocket::Streamed(link) => link.register(registry, token),
        }
    }

    /// Sends a message, or queues it until the connection can send it.
    ///
    /// # Errors
    /// The system's; also if more bytes are queued than a working connection would leave.
    pub(super) fn send(&mut self, message: &[u8], now: Instant) -> io::Result<()> {
        match self {
            LinkSocket::Datagrams(socket) => socket.send(message),
            LinkSocket::Streamed(link) => link.send(message, now),
            LinkSocket::Stream(upstream) => {
                let len = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
                upstream.add(&len.to_be_bytes(), message);
                if upstream.unsent.len() > MOST_UNSENT {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                upstream.flush()
            }
        }
    }

    /// Goes on with the opening of a connection; `buffer` is for the bytes of a handshake.
    ///
    /// # Errors
    /// The reason why it could not be opened.
    pub(super) fn proceed(&mut self, buffer: &mut [u8]) -> io::Result<OpeningStep> {
        match self {
            // An event of a streamed link shows that it is open.
            LinkSocket::Datagrams(_) | LinkSocket::Streamed(_) => Ok(OpeningStep::Waits),
            LinkSocket::Stream(upstream) if upstream.open => Ok(OpeningStep::Waits),
            LinkSocket::Stream(upstream) => upstream.proceed(buffer),
        }
    }

    /// Writes and reads as much as possible, up to a limit. Closing the socket is enough to deregister it.
    ///
    /// # Errors
    /// The reason why the link has ended. Messages read before have been passed on.
    pub(super) fn ready(&mut self, buffer: &mut [u8], take: &mut Take<'_>) -> io::Result<LinkProgress> {
        for _ in 0..READS_PER_LINK {
            let read = match self {
                LinkSocket::Datagrams(socket) => socket.receive(buffer).map(|n| take(&buffer[..n])),
                LinkSocket::Stream(upstream) => upstream.exchange(buffer, take).map(|()| true),
                // Its driver reads it.
                LinkSocket::Streamed(_) => Ok(false),
            };
            match read {
                Ok(true) => {}
                // Nearly every exchange: one query, one reply.
                Ok(false) => return Ok(LinkProgress::Waits),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(LinkProgress::Waits),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(LinkProgress::More)
    }
}

/// Returns the error of a link that cannot be encrypted, with its fault inside.
fn insecure(fault: EncryptionFault) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault)
}

impl Upstream {
    fn proceed(&mut self, buffer: &mut [u8]) -> io::Result<OpeningStep> {
        if !self.connected {
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            match self.stream.peer_addr() {
                Ok(_) => self.connected = true,
                Err(e) if e.kind() == io::ErrorKind::NotConnected => return Ok(OpeningStep::Waits),
                Err(e) => return Err(e),
            }
        }
        if self.session.is_none() {
            self.open = true;
            return Ok(OpeningStep::Opened);
        }
        self.shake_hands(buffer)
    }

    /// Exchanges the messages of the handshake.
    fn shake_hands(&mut self, buffer: &mut [u8]) -> io::Result<OpeningStep> {
        self.flush()?;
        for _ in 0..READS_PER_LINK {
            let n = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(OpeningStep::Waits),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            // Its fault is the reason, also if the socket takes no alert.
            let state = self.decrypt(&buffer[..n])?;
            self.flush()?;
            match state {
                SessionState::Handshake => {}
                SessionState::Established { resumed } => {
                    self.open = true;
                    return Ok(OpeningStep::Secured { resumed });
                }
                SessionState::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(OpeningStep::More)
    }

    /// Adds a message, after its length prefix, to what is sent.
    fn add(&mut self, prefix: &[u8], message: &[u8]) {
        match &mut self.session {
            None => {
                self.unsent.extend_from_slice(prefix);
                self.unsent.extend_from_slice(message);
            }
            // One record: the length of a message alone would be one more for an observer to count.
            Some(session) => session.send(&[prefix, message].concat()),
        }
    }

    /// Passes received bytes through the session.
    fn decrypt(&mut self, received: &[u8]) -> io::Result<SessionState> {
        match &mut self.session {
            None => {
                self.partial.extend_from_slice(received);
                Ok(SessionState::Established { resumed: false })
            }
            Some(session) => session.receive(received, &mut self.partial).map_err(insecure),
        }
    }

    /// Writes the unsent bytes, reads once, and passes on the complete messages.
    fn exchange(&mut self, buffer: &mut [u8], take: &mut Take<'_>) -> io::Result<()> {
        if !self.open {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.flush()?;
        // The end of a handshake may bring the first message with it.
        self.cut(take)?;
        match self.stream.read(buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                let state = self.decrypt(&buffer[..n]);
                self.cut(take)?;
                match state? {
                    SessionState::Closed => Err(io::ErrorKind::UnexpectedEof.into()),
                    SessionState::Handshake | SessionState::Established { .. } => Ok(()),
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(session) = &mut self.session {
            session.output(&mut self.unsent);
        }
        while self.connected && !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Passes on the complete messages.
    fn cut(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        let mut at = 0;
        let end = loop {
            match frame(&self.partial[at..]) {
                Framed::Whole(len) => {
                    // If the core closes the connection now, this is its last read.
                    let _ = take(&self.partial[at + 2..at + 2 + len]);
                    at += 2 + len;
                }
                Framed::Partial => break Ok(()),
                Framed::Bad => break Err(io::ErrorKind::InvalidData.into()),
            }
        };
        self.partial.drain(..at);
        end
    }
}

impl Drop for Upstream {
    /// Ends the session in order, so that the server does not take the end for an attack (RFC 8446 §6.1), or
    /// sends the alert with the reason.
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            session.close();
            // If the socket takes no more, the server sees the connection end.
            let _ = self.flush();
        }
    }
}

/// Bytes of the buffer that links read into.
pub(super) const BUFFER: usize = MAX_MESSAGE + 2;
