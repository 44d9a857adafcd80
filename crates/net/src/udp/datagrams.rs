//! The trait of back ends that move datagrams, and the layout of their buffers.

use std::io;
use std::net::IpAddr;

use transport::{Batch, LateReplies};

use crate::alarm::{Wait, Woken};

/// Bytes of a cache line.
const LINE: usize = 64;

/// The queue of datagrams that wait to be received, in bytes of the kernel's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueFill {
    pub(crate) used: usize,
    pub(crate) room: usize,
}

/// A back end that moves datagrams.
pub(crate) trait Datagrams {
    /// Receives a batch; if `wait`, waits for its first datagram up to the socket's timeout. Returns the
    /// number of queries in [`Datagrams::batch`], which may be none.
    ///
    /// # Errors
    /// `WouldBlock` if nothing was received; otherwise the socket's error.
    fn receive(&mut self, wait: bool) -> io::Result<usize>;

    /// Waits for a datagram or an event in `wait`, up to the idle timeout.
    fn wait_beside(&mut self, wait: &Wait<'_>) -> Woken;

    /// Returns the queries received.
    fn batch(&mut self) -> Batch<'_>;

    /// Keeps the queries of the batch whose clients' addresses pass. Returns how many are left. Called only
    /// if [`queue`](Self::queue) returns something.
    fn keep(&mut self, passes: &mut dyn FnMut(IpAddr) -> bool) -> usize;

    /// Returns how much of the room for datagrams that wait is in use, if that is known.
    fn queue(&self) -> Option<QueueFill>;

    /// Sends the replies. A reply that cannot be sent is counted and dropped. Returns the number of pending
    /// queries.
    fn send(&mut self) -> u64;

    /// Returns buffers for late answers. No batch is being answered meanwhile.
    fn late(&mut self) -> LateReplies<'_>;

    /// Sends the late answers written. Returns the number of queries that they settle.
    fn send_late(&mut self) -> u64;

    /// Makes sure that no new datagram arrives here, while those received can still be read.
    fn leave(&mut self);

    /// Whether all replies are sent.
    fn finished(&mut self) -> bool;
}

/// Returns the distance between buffers of `room` bytes: an odd number of cache lines, so that the starts of
/// a batch's buffers, which are accessed most, do not all compete for the same cache sets.
pub(crate) fn stride(room: usize) -> usize {
    (room.div_ceil(LINE) | 1) * LINE
}
