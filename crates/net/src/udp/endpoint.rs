//! A worker's datagram socket, and the counting of outcomes and send errors.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use socket2::{MsgHdr, SockAddr, SockRef};
use transport::Outcome;

use super::control::ControlBytes;
use super::datagrams::QueueFill;
use super::socket::leave;
use crate::stats::WorkerStats;
use crate::sys::{MemoryInfo, get_option};

/// One worker's socket.
pub(crate) struct Endpoint {
    socket: UdpSocket,
    local: SocketAddr,
    max_reply: usize,
}

impl Endpoint {
    pub(crate) fn new(socket: UdpSocket, local: SocketAddr, max_reply: usize) -> Self {
        Endpoint { socket, local, max_reply }
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Returns the address that the socket is bound to.
    #[inline]
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether datagrams to any local address arrive here.
    #[inline]
    pub(crate) fn wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    #[inline]
    pub(crate) fn max_reply(&self) -> usize {
        self.max_reply
    }

    /// Returns how much of the receive buffer is in use.
    pub(crate) fn queue(&self) -> Option<QueueFill> {
        let [used, room, ..] =
            get_option::<MemoryInfo>(&self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO).ok()?;
        Some(QueueFill { used: used as usize, room: room as usize })
    }

    /// Makes sure that no further datagram reaches the socket.
    #[cold]
    pub(crate) fn leave(&self) {
        // If it fails, which is not expected, the drain time still ends an endless flow of queries.
        let _ = leave(&self.socket);
    }

    /// Sends one message outside of a batch, from the address `local`, without waiting.
    ///
    /// # Errors
    /// The kernel's, such as `WouldBlock` if the send buffer is full.
    pub(crate) fn send_one(&self, message: &[u8], peer: SocketAddr, local: SocketAddr) -> io::Result<()> {
        let socket = SockRef::from(&self.socket);
        let name = SockAddr::from(peer);
        let buffers = [io::IoSlice::new(message)];
        let (control, used) = ControlBytes::source(local);
        let mut header = MsgHdr::new().with_addr(&name).with_buffers(&buffers);
        if self.wildcard() && !local.ip().is_unspecified() {
            header = header.with_control(&control.0[..used]);
        }
        socket.sendmsg(&header, libc::MSG_DONTWAIT).map(|_| ())
    }
}

impl AsRawFd for Endpoint {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Counts the outcomes of one batch, so that the counters are written once.
#[derive(Default)]
pub(crate) struct Tally {
    dropped: u64,
    pending: u64,
    refused_streams: u64,
    bad: u64,
}

impl Tally {
    /// Returns the length of the reply, if the outcome is a reply that fits.
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

    /// Adds to the counters. Returns the number of pending queries.
    pub(crate) fn record(self, stats: &WorkerStats) -> u64 {
        for (counter, n) in [
            (&stats.dropped, self.dropped),
            (&stats.pending, self.pending),
            (&stats.streams_refused, self.refused_streams),
            (&stats.bad_replies, self.bad),
        ] {
            if n > 0 {
                counter.add(n);
            }
        }
        self.pending
    }
}

/// Counts a reply the kernel refused.
#[cold]
pub(crate) fn count_send_error(stats: &WorkerStats, error: &io::Error) {
    let counter = match error.raw_os_error() {
        Some(libc::EAGAIN) => &stats.send_full,
        Some(libc::EMSGSIZE) => &stats.send_too_big,
        Some(libc::EPERM | libc::EACCES) => &stats.send_denied,
        Some(
            libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EADDRNOTAVAIL
            | libc::ECONNREFUSED,
        ) => &stats.send_unreachable,
        _ => &stats.send_other,
    };
    counter.add(1);
}
