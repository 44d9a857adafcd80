//! Who asked, and the way back.

use std::net::SocketAddr;

use crate::Transport;

/// Who asked, where, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Where the query came from. In a datagram this can be forged.
    pub peer: SocketAddr,
    /// The address it was sent to. On a socket bound to the wildcard address this is the destination of the
    /// datagram or connection, not the wildcard.
    pub local: SocketAddr,
    /// How it came.
    pub transport: Transport,
}

/// The way back for an answer that comes later: all a worker needs to send it. Means nothing to other
/// workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnAddress {
    /// Who asked.
    pub client: Client,
    /// Which of the worker's connections the query came on; 0 where there are none.
    pub connection: u64,
}
