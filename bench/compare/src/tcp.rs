//! A blocking TCP connection to a server: messages with two bytes of length before each (RFC 1035 §4.2.2).

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to a server.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Connects. A read waits `silence` at most, and takes up to `buffer` bytes from the kernel.
    pub(crate) fn open(server: SocketAddr, silence: Duration, buffer: usize) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&server, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        Ok(Connection(BufReader::with_capacity(buffer, stream)))
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(&framed(message))
    }

    /// Reads the next message into `message`.
    pub(crate) fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        let mut length = [0; 2];
        self.0.read_exact(&mut length)?;
        message.resize(usize::from(u16::from_be_bytes(length)), 0);
        self.0.read_exact(message)
    }
}

/// Returns a message with its length before it.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}
