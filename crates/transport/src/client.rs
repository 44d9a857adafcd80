//! Clients and return addresses.

use std::net::SocketAddr;

use crate::Transport;

/// A client's address and transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The source address of the query. In a datagram it can be forged. Behind a proxy, the address that the
    /// [header](crate::ProxyHeader) names.
    pub peer: SocketAddr,
    /// The destination address of the query. On a socket bound to the wildcard address this is the
    /// destination of the datagram or connection, not the wildcard. Behind a proxy, the destination that the
    /// header names.
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
    /// The way of the reply, if the query is a datagram that a proxy passed on.
    pub route: Option<ReplyRoute>,
}

impl ReturnAddress {
    /// Returns the way of a reply that is a datagram.
    pub fn reply_route(&self) -> ReplyRoute {
        let Client { peer, local, .. } = self.client;
        self.route.unwrap_or(ReplyRoute { to: peer, from: local })
    }
}

/// The way of a reply to a datagram: the ends of the datagram itself, which are not those of the client
/// behind a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyRoute {
    /// Where the reply is sent.
    pub to: SocketAddr,
    /// The address that it is sent from.
    pub from: SocketAddr,
}
