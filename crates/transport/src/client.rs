//! Clients and return addresses.

use std::net::SocketAddr;

use crate::Transport;

/// A client's address and transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The source address of the query. In a datagram it can be forged.
    pub peer: SocketAddr,
    /// The destination address of the query. On a socket bound to the wildcard address this is the
    /// destination of the datagram or connection, not the wildcard.
    pub local: SocketAddr,
    /// The transport of the query.
    pub transport: Transport,
}

/// The return address for a late answer: all that a worker needs to send it. Valid for the worker that
/// received the query only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnAddress {
    /// The client's address and transport.
    pub client: Client,
    /// The worker's connection that the query was received on; 0 for datagrams.
    pub connection: u64,
}
