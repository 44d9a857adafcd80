//! The unsent part of a connection: framed messages in one buffer, so that one write sends as many as fit.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Capacity above which an emptied buffer is not kept.
const KEEP: usize = 256 * 1024;

/// Framed messages waiting to be written.
#[derive(Default)]
pub(crate) struct Output {
    buffer: Vec<u8>,
    sent: usize,
}

impl Output {
    /// Bytes not yet taken by the system.
    pub(crate) fn unsent(&self) -> usize {
        self.buffer.len() - self.sent
    }

    /// Adds a message behind its two bytes of length. The caller has checked that it is not too long.
    pub(crate) fn push(&mut self, message: &[u8]) {
        debug_assert!(message.len() <= usize::from(u16::MAX));
        self.buffer.extend_from_slice(&(message.len() as u16).to_be_bytes());
        self.buffer.extend_from_slice(message);
    }

    /// Uses `spare` as buffer if there is none: a connection with nothing to send then costs no memory, and one
    /// that sends does not allocate.
    pub(crate) fn borrow_from(&mut self, spare: &mut Vec<u8>) {
        if self.buffer.capacity() == 0 {
            std::mem::swap(&mut self.buffer, spare);
        }
    }

    /// Returns the emptied buffer.
    pub(crate) fn return_to(&mut self, spare: &mut Vec<u8>) {
        if self.buffer.is_empty() && self.buffer.capacity() > 0 {
            let buffer = std::mem::take(&mut self.buffer);
            if spare.capacity() == 0 && buffer.capacity() <= KEEP {
                *spare = buffer;
            }
        }
    }

    /// Writes what the system takes now. `Ready` holds how many bytes it took, 0 if there was nothing to write;
    /// `Pending` means that it takes none now.
    pub(crate) fn poll_write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.unsent() == 0 {
            return Poll::Ready(Ok(0));
        }
        let n = match Pin::new(stream).poll_write(cx, &self.buffer[self.sent..]) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(n)) => n,
            other => return other,
        };
        self.sent += n;
        if self.unsent() == 0 {
            self.buffer.clear();
            self.sent = 0;
        } else if self.sent >= self.buffer.len() / 2 {
            // Keeps the buffer from growing behind a client that never lets it run empty.
            self.buffer.drain(..self.sent);
            self.sent = 0;
        }
        Poll::Ready(Ok(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_framed() {
        let mut output = Output::default();
        output.push(b"abc");
        output.push(&[7; 300]);
        assert_eq!(output.buffer[..5], [0, 3, b'a', b'b', b'c']);
        assert_eq!(output.buffer[5..8], [1, 44, 7]);
        assert_eq!(output.unsent(), 5 + 302);
    }

    #[test]
    fn empty_buffers_go_back() {
        let (mut output, mut spare) = (Output::default(), Vec::with_capacity(64));
        output.borrow_from(&mut spare);
        assert_eq!(spare.capacity(), 0);
        output.push(b"x");
        output.return_to(&mut spare);
        assert_eq!(spare.capacity(), 0, "a buffer with unsent bytes stays");
        output.buffer.clear();
        output.return_to(&mut spare);
        assert_eq!((spare.capacity(), output.buffer.capacity()), (64, 0));
    }
}
