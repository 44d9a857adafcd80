//! What every way of moving datagrams can do, and how their buffers are laid out.

use std::io;

use exchange::{Batch, LateReplies};

use crate::alarm::{Wait, Woken};

/// Bytes of a cache line.
const LINE: usize = 64;

/// A way of moving datagrams.
pub(crate) trait Datagrams {
    /// Receives a batch, waiting for its first datagram up to the socket's timeout if `wait`. Returns how
    /// many queries [`Datagrams::batch`] will show, which may be none.
    ///
    /// # Errors
    /// `WouldBlock` if nothing came; otherwise the socket's error.
    fn receive(&mut self, wait: bool) -> io::Result<usize>;

    /// Waits until there may be something to receive or something else happens, up to the socket's timeout.
    fn wait_beside(&mut self, wait: &Wait<'_>) -> Woken;

    /// The queries received.
    fn batch(&mut self) -> Batch<'_>;

    /// Sends the replies decided on. What cannot be sent is counted and forgotten. Returns how many queries
    /// are to be answered later.
    fn send(&mut self) -> u64;

    /// Room for late answers, while no batch is being answered.
    fn late(&mut self) -> LateReplies<'_>;

    /// Sends the late answers written. Returns how many queries that settles.
    fn send_late(&mut self) -> u64;

    /// Makes sure that nothing new arrives here, while what has arrived can still be received.
    fn leave(&mut self);

    /// True if no reply waits to be sent any more.
    fn finished(&mut self) -> bool;
}

/// The distance between buffers of `room` bytes: an odd number of cache lines, so that the starts of a
/// batch's buffers, which are what is touched most, do not all compete for the same cache sets.
pub(crate) fn stride(room: usize) -> usize {
    (room.div_ceil(LINE) | 1) * LINE
}
