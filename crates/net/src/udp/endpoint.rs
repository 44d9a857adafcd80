//! A datagram socket as its worker and later answers share it, and the bookkeeping of outcomes and send errors.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use socket2::{MsgHdr, SockAddr, SockRef};

use super::control::Control;
use super::socket::leave;
use crate::batch::Outcome;
use crate::responder::SendError;
use crate::stats::WorkerStats;

/// One worker's socket. Answers sent later hold on to it, so it closes when worker and last answer are done.
pub(crate) struct Endpoint {
    socket: UdpSocket,
    local: SocketAddr,
    max_reply: usize,
    stats: Arc<WorkerStats>,
}

impl Endpoint {
    pub(crate) fn new(
        socket: UdpSocket,
        local: SocketAddr,
        max_reply: usize,
        stats: Arc<WorkerStats>,
    ) -> Self {
        Endpoint { socket, local, max_reply, stats }
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The address the socket is bound to.
    #[inline]
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// True if datagrams to any local address arrive here.
    #[inline]
    pub(crate) fn wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    #[inline]
    pub(crate) fn max_reply(&self) -> usize {
        self.max_reply
    }

    /// Makes sure that no further datagram reaches the socket.
    #[cold]
    pub(crate) fn leave(&self) {
        // Should that fail, which nothing suggests it can, the drain time still ends a flow that never stops.
        let _ = leave(&self.socket);
    }

    /// Sends one answer outside any batch, from the address `local`, without waiting.
    pub(crate) fn send_later(
        &self,
        message: &[u8],
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<(), SendError> {
        let socket = SockRef::from(&self.socket);
        let name = SockAddr::from(peer);
        let buffers = [io::IoSlice::new(message)];
        let (control, used) = Control::source(local);
        let mut header = MsgHdr::new().with_addr(&name).with_buffers(&buffers);
        if self.wildcard() && !local.ip().is_unspecified() {
            header = header.with_control(&control.0[..used]);
        }
        match socket.sendmsg(&header, libc::MSG_DONTWAIT) {
            Ok(_) => {
                self.stats.shared.later_replies.add(1);
                self.stats.shared.later_bytes.add(message.len() as u64);
                Ok(())
            }
            Err(e) => {
                self.stats.shared.later_errors.add(1);
                if e.kind() == io::ErrorKind::WouldBlock {
                    Err(SendError::Busy)
                } else {
                    Err(SendError::Refused)
                }
            }
        }
    }
}

impl AsRawFd for Endpoint {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Counts the outcomes of one batch, so that the shared counters are written once.
#[derive(Default)]
pub(crate) struct Tally {
    dropped: u64,
    pending: u64,
    refused_streams: u64,
    bad: u64,
}

impl Tally {
    /// The length of the reply to send, if the outcome is one that can be sent as a datagram.
    #[inline]
    pub(crate) fn settle(&mut self, outcome: Option<Outcome>, room: usize) -> Option<usize> {
        match outcome {
            Some(Outcome::Reply(len)) if len > 0 && len <= room => return Some(len),
            Some(Outcome::Reply(_)) => self.bad += 1,
            Some(Outcome::Pending) => self.pending += 1,
            Some(Outcome::Stream(_)) => self.refused_streams += 1,
            Some(Outcome::Drop) | None => self.dropped += 1,
        }
        None
    }

    pub(crate) fn record(self, stats: &WorkerStats) {
        let own = &stats.own;
        for (counter, n) in [
            (&own.dropped, self.dropped),
            (&own.pending, self.pending),
            (&own.streams_refused, self.refused_streams),
            (&own.bad_replies, self.bad),
        ] {
            if n > 0 {
                counter.add(n);
            }
        }
    }
}

/// Counts a reply the kernel refused.
#[cold]
pub(crate) fn count_send_error(stats: &WorkerStats, error: &io::Error) {
    let own = &stats.own;
    let counter = match error.raw_os_error() {
        Some(libc::EAGAIN) => &own.send_full,
        Some(libc::EMSGSIZE) => &own.send_too_big,
        Some(libc::EPERM | libc::EACCES) => &own.send_denied,
        Some(
            libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EADDRNOTAVAIL
            | libc::ECONNREFUSED,
        ) => &own.send_unreachable,
        _ => &own.send_other,
    };
    counter.add(1);
}
