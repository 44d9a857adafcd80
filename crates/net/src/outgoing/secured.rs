//! Connections with TLS for threads that may block: the session of [`Encryption`] over a socket.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use transport::{EncryptedSession, Encryption, EncryptionFault, SessionState};

/// Bytes of one read of the socket: a TLS record at most.
const READ_BYTES: usize = 16 * 1024;

/// A connection to another server, in the clear or encrypted, for a thread that may block.
pub enum PeerStream {
    /// In the clear.
    Plain(TcpStream),
    /// With TLS.
    Encrypted(Box<EncryptedStream>),
}

/// A connection with TLS. Its reads end with the error of the socket, or with an [`EncryptionFault`].
pub struct EncryptedStream {
    stream: TcpStream,
    session: Box<dyn EncryptedSession>,
    /// Decrypted bytes; those before `read` have been read.
    plain: Vec<u8>,
    read: usize,
    buffer: Box<[u8]>,
    ended: bool,
}

impl PeerStream {
    /// Begins TLS on a connection if there is an encryption, and waits for the end of the handshake. Each
    /// read of the socket afterwards has the timeouts that the caller sets on [`socket`](Self::socket).
    ///
    /// # Errors
    /// The handshake failed, or took longer than `timeout`.
    pub fn begin(
        stream: TcpStream,
        encryption: Option<&Encryption>,
        timeout: Duration,
    ) -> Result<Self, EncryptionFault> {
        match encryption {
            None => Ok(PeerStream::Plain(stream)),
            Some(encryption) => {
                let encrypted = EncryptedStream::begin(stream, encryption, timeout)?;
                Ok(PeerStream::Encrypted(Box::new(encrypted)))
            }
        }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            PeerStream::Plain(stream) => stream,
            PeerStream::Encrypted(stream) => &stream.stream,
        }
    }
}

impl Read for PeerStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            PeerStream::Plain(stream) => stream.read(into),
            PeerStream::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for PeerStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            PeerStream::Plain(stream) => stream.write(bytes),
            PeerStream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            PeerStream::Plain(stream) => stream.flush(),
            PeerStream::Encrypted(stream) => stream.flush(),
        }
    }
}

impl EncryptedStream {
    fn begin(stream: TcpStream, encryption: &Encryption, timeout: Duration) -> Result<Self, EncryptionFault> {
        let broken = |error: io::Error| encryption_fault(&error).unwrap_or(EncryptionFault::HandshakeClosed);
        let to = stream.peer_addr().map_err(broken)?;
        let session = encryption.begin(to)?;
        let buffer = vec![0; READ_BYTES].into();
        let mut secured =
            EncryptedStream { stream, session, plain: Vec::new(), read: 0, buffer, ended: false };
        secured.shake_hands(timeout)?;
        Ok(secured)
    }

    fn shake_hands(&mut self, timeout: Duration) -> Result<(), EncryptionFault> {
        let until = Instant::now() + timeout;
        let fault = |error: io::Error| match error.kind() {
            // The timeout of the socket.
            io::ErrorKind::WouldBlock => EncryptionFault::HandshakeTimeout,
            kind => encryption_fault(&error)
                .or(EncryptionFault::before_open(kind))
                .unwrap_or(EncryptionFault::HandshakeClosed),
        };
        self.send_output().map_err(fault)?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(EncryptionFault::HandshakeTimeout);
            }
            self.stream.set_read_timeout(Some(left)).map_err(fault)?;
            self.stream.set_write_timeout(Some(left)).map_err(fault)?;
            match self.receive() {
                Ok(SessionState::Handshake) if !self.ended => {}
                Ok(SessionState::Established { .. }) => return Ok(()),
                Ok(SessionState::Handshake | SessionState::Closed) => {
                    return Err(EncryptionFault::HandshakeClosed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fault(error)),
            }
        }
    }

    fn send_output(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.session.output(&mut bytes);
        self.stream.write_all(&bytes)
    }

    /// Receives once, and decrypts.
    fn receive(&mut self) -> io::Result<SessionState> {
        let n = self.stream.read(&mut self.buffer)?;
        self.ended |= n == 0;
        let state = self.session.receive(self.buffer.get(..n).unwrap_or_default(), &mut self.plain);
        // After a fault this is an alert, which the server may not take any more.
        let sent = self.send_output();
        match state {
            Err(fault) => Err(io::Error::new(io::ErrorKind::InvalidData, fault)),
            Ok(SessionState::Closed) => {
                self.ended = true;
                Ok(SessionState::Closed)
            }
            Ok(state) => sent.map(|()| state),
        }
    }
}

/// Returns the fault of the encryption that ended a connection, if it is one.
pub fn encryption_fault(error: &io::Error) -> Option<EncryptionFault> {
    error.get_ref()?.downcast_ref().copied()
}

impl Read for EncryptedStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.read == self.plain.len() && !self.ended {
            self.plain.clear();
            self.read = 0;
            self.receive()?;
        }
        let rest = self.plain.get(self.read..).unwrap_or_default();
        let n = rest.len().min(into.len());
        into[..n].copy_from_slice(&rest[..n]);
        self.read += n;
        Ok(n)
    }
}

impl Write for EncryptedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.send(bytes);
        self.send_output()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_output()
    }
}

impl Drop for EncryptedStream {
    fn drop(&mut self) {
        self.session.close();
        // The server may have closed the connection already.
        let _ = self.send_output();
    }
}
