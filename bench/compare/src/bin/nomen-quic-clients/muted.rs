//! A socket that receives Retry packets alone: its clients return the token that a server asks for, and no
//! handshake goes on.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// The first four bits of a Retry packet (RFC 9000 §17.2.5): a long header, the fixed bit, the type.
const RETRY: u8 = 0b1111;

#[derive(Debug)]
pub(crate) struct MutedSocket(pub(crate) Arc<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for MutedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.0).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = ready!(self.0.poll_recv(cx, bufs, meta))?;
        for (buf, meta) in bufs.iter_mut().zip(meta).take(received) {
            meta.len = keep_retries(&mut buf[..meta.len], meta.stride);
        }
        Poll::Ready(Ok(received))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.0.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.0.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

/// Moves the Retry packets among datagrams of `stride` bytes to the front. Returns how many bytes they are.
fn keep_retries(datagrams: &mut [u8], stride: usize) -> usize {
    let (mut kept, mut at) = (0, 0);
    while at < datagrams.len() {
        let end = datagrams.len().min(at + stride.max(1));
        if datagrams[at] >> 4 == RETRY {
            datagrams.copy_within(at..end, kept);
            kept += end - at;
        }
        at = end;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_alone_are_kept() {
        let mut datagrams = [0xc0, 1, 2, 0xf0, 3, 4, 0x40, 5, 6, 0xff, 7];
        assert_eq!(keep_retries(&mut datagrams, 3), 5);
        assert_eq!(datagrams[..5], [0xf0, 3, 4, 0xff, 7]);
        assert_eq!(keep_retries(&mut [], 0), 0);
        assert_eq!(keep_retries(&mut [0xf0], 0), 1);
    }
}
