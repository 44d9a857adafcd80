//! The bytes of an HTTP connection without TLS. Without ALPN, the first bytes show the version of HTTP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a client of HTTP/2 sends first (RFC 9113 §3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose first bytes have been looked at.
pub(in crate::tcp) struct ClearBytes {
    stream: TcpStream,
    /// The first bytes, how many there are, and how many of them have been read again.
    first: [u8; PREFACE.len()],
    len: usize,
    read: usize,
}

impl ClearBytes {
    /// Reads the first bytes of a connection, up to one that HTTP/2 does not begin with. Returns whether it
    /// is HTTP/2.
    ///
    /// # Errors
    /// That of the system, or `UnexpectedEof` if the client ends the connection without a byte.
    pub(super) async fn begin(mut stream: TcpStream) -> io::Result<(ClearBytes, bool)> {
        let mut first = [0; PREFACE.len()];
        let mut len = 0;
        while len < PREFACE.len() && first[..len] == PREFACE[..len] {
            match stream.read(&mut first[len..]).await? {
                0 if len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 => break,
                n => len += n,
            }
        }
        Ok((ClearBytes { stream, first, len, read: 0 }, first == *PREFACE))
    }
}

impl AsyncRead for ClearBytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let again = &self.first[self.read..self.len];
        if again.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let n = again.len().min(buf.remaining());
        buf.put_slice(&again[..n]);
        self.read += n;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClearBytes {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
