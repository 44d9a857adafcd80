//! The unsent bytes of a connection: framed messages in one buffer, so that one write sends as many as fit.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Capacity above which an empty buffer is freed.
const MAX_KEPT_CAPACITY: usize = 256 * 1024;

/// Bytes before a message: its length.
const FRAME: usize = 2;

/// Framed messages waiting to be written.
#[derive(Default)]
pub(crate) struct Output {
    /// Grows to the longest output so far; the bytes after `end` are free.
    buffer: Vec<u8>,
    /// Bytes that the system has taken.
    sent: usize,
    /// End of the last message.
    end: usize,
}

impl Output {
    /// Returns the number of bytes that the system has not taken yet.
    pub(crate) fn unsent(&self) -> usize {
        self.end - self.sent
    }

    /// Adds a message after its two bytes of length. The caller has checked that it is not too long.
    pub(crate) fn push(&mut self, message: &[u8]) {
        debug_assert!(message.len() <= usize::from(u16::MAX));
        self.write_up_to(message.len(), |room| {
            room.copy_from_slice(message);
            Some(message.len() as u16)
        });
    }

    /// Calls `write` to write a message in place, with room for the longest message. It returns the length of
    /// the message, or `None` without one.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut [u8]) -> Option<u16>) {
        self.write_up_to(usize::from(u16::MAX), write);
    }

    fn write_up_to(&mut self, most: usize, write: impl FnOnce(&mut [u8]) -> Option<u16>) {
        let from = self.end + FRAME;
        // Bytes that were zeroed once need no zeroing again.
        if self.buffer.len() < from + most {
            self.buffer.resize(from + most, 0);
        }
        if let Some(len) = write(&mut self.buffer[from..from + most]) {
            self.buffer[self.end..from].copy_from_slice(&len.to_be_bytes());
            self.end = from + usize::from(len);
        }
    }

    /// Uses `spare` as the buffer if there is none: a connection with nothing to send then costs no memory,
    /// and one that sends does not allocate.
    pub(crate) fn borrow_from(&mut self, spare: &mut Vec<u8>) {
        if self.buffer.capacity() == 0 {
            std::mem::swap(&mut self.buffer, spare);
        }
    }

    /// Moves the empty buffer back to `spare`.
    pub(crate) fn return_to(&mut self, spare: &mut Vec<u8>) {
        if self.end == 0 && self.buffer.capacity() > 0 {
            let buffer = std::mem::take(&mut self.buffer);
            if spare.capacity() == 0 && buffer.capacity() <= MAX_KEPT_CAPACITY {
                *spare = buffer;
            }
        }
    }

    /// Writes as much as the system takes. `Ready` holds the number of bytes taken, 0 if there was nothing to
    /// write; `Pending` means that the system takes none now.
    pub(crate) fn poll_write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.unsent() == 0 {
            return Poll::Ready(Ok(0));
        }
        let n = match Pin::new(stream).poll_write(cx, &self.buffer[self.sent..self.end]) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(n)) => n,
            other => return other,
        };
        self.sent += n;
        if self.unsent() == 0 {
            (self.sent, self.end) = (0, 0);
        } else if self.sent >= self.end / 2 {
            // Keeps the buffer from growing while a client never reads all of it.
            self.buffer.copy_within(self.sent..self.end, 0);
            (self.sent, self.end) = (0, self.unsent());
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
    fn messages_written_in_place_stand_behind_their_length_and_after_what_was_there() {
        let mut output = Output::default();
        output.push(b"abc");
        output.write(|room| {
            assert_eq!(room.len(), usize::from(u16::MAX));
            room[..2].copy_from_slice(b"de");
            Some(2)
        });
        output.write(|room| {
            room.fill(7);
            None
        });
        let room = output.buffer.len();
        output.push(b"f");
        assert_eq!(output.buffer.len(), room, "it would have to be filled again for the next one");
        assert_eq!(output.buffer[..output.end], *b"\0\x03abc\0\x02de\0\x01f");
    }

    /// Takes at most so many bytes of each write.
    struct Taking(usize, Vec<u8>);

    impl AsyncWrite for Taking {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let n = self.0.min(bytes.len());
            self.1.extend_from_slice(&bytes[..n]);
            Poll::Ready(Ok(n))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn what_is_taken_in_parts_while_more_is_written_arrives_whole() {
        let (mut output, mut peer, mut wanted) = (Output::default(), Taking(5, Vec::new()), Vec::new());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for n in 0..100u8 {
            let message = vec![n; usize::from(n % 9)];
            wanted.extend_from_slice(&[0, n % 9]);
            wanted.extend_from_slice(&message);
            match n % 2 {
                0 => output.push(&message),
                _ => output.write(|room| {
                    room[..message.len()].copy_from_slice(&message);
                    Some(message.len() as u16)
                }),
            }
            assert!(output.poll_write(&mut peer, &mut cx).is_ready());
        }
        while output.unsent() > 0 {
            assert!(output.poll_write(&mut peer, &mut cx).is_ready());
        }
        assert_eq!(peer.1, wanted);
    }

    #[test]
    fn empty_buffers_go_back() {
        let (mut output, mut spare) = (Output::default(), Vec::with_capacity(64));
        output.borrow_from(&mut spare);
        assert_eq!(spare.capacity(), 0);
        output.push(b"x");
        output.return_to(&mut spare);
        assert_eq!(spare.capacity(), 0, "a buffer with unsent bytes stays");
        (output.sent, output.end) = (0, 0);
        output.return_to(&mut spare);
        assert_eq!((spare.capacity(), output.buffer.capacity()), (64, 0));
    }
}
