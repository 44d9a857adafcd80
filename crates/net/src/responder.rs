//! The owned handle that answers a query later, from any thread.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::batch::Transport;
use crate::handler::MessageStream;
use crate::tcp::Ticket;
use crate::udp::Endpoint;
use crate::xdp::endpoint_for;

/// Longest message TCP framing can carry.
const MAX_TCP: usize = 65_535;

/// Answers one query later, from any thread. Clones answer the same query; only the first answer counts.
/// Dropping the last clone without answering lets the query go unanswered and frees its place.
#[derive(Clone)]
pub struct Responder {
    inner: Inner,
    peer: SocketAddr,
    local: SocketAddr,
}

#[derive(Clone)]
enum Inner {
    Udp(Arc<Endpoint>),
    /// No socket of ours sends from the address asked.
    Nowhere,
    Tcp(Arc<Ticket>),
}

/// Why a later answer was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The connection is gone.
    Closed,
    /// The query was answered before (TCP only).
    Answered,
    /// The message is empty or longer than [`Responder::capacity`].
    Size,
    /// The kernel had no room for the datagram.
    Busy,
    /// The kernel refused the datagram for another reason, counted in the statistics.
    Refused,
    /// This transport carries only one message per query.
    NoStreams,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Closed => "the connection is closed",
            SendError::Answered => "the query was already answered",
            SendError::Size => "the message is empty or too long for this transport",
            SendError::Busy => "the socket's send buffer is full",
            SendError::Refused => "the system refused to send the datagram",
            SendError::NoStreams => "this transport carries one message per query",
        })
    }
}

impl std::error::Error for SendError {}

impl Responder {
    pub(crate) fn udp(endpoint: Arc<Endpoint>, peer: SocketAddr, local: SocketAddr) -> Self {
        Responder { inner: Inner::Udp(endpoint), peer, local }
    }

    /// For a query that came through an AF_XDP front: the answer leaves through the socket of its address.
    pub(crate) fn front(endpoints: &[Arc<Endpoint>], peer: SocketAddr, local: SocketAddr) -> Self {
        let inner = match endpoint_for(endpoints, local) {
            Some(endpoint) => Inner::Udp(Arc::clone(endpoint)),
            None => Inner::Nowhere,
        };
        Responder { inner, peer, local }
    }

    pub(crate) fn tcp(ticket: Ticket, peer: SocketAddr, local: SocketAddr) -> Self {
        Responder { inner: Inner::Tcp(Arc::new(ticket)), peer, local }
    }

    /// Who asked.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address that was asked; the answer leaves from it.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// How the query came.
    pub fn transport(&self) -> Transport {
        match self.inner {
            Inner::Udp(_) | Inner::Nowhere => Transport::Udp,
            Inner::Tcp(_) => Transport::Tcp,
        }
    }

    /// The longest message this can send, in octets.
    pub fn capacity(&self) -> usize {
        match &self.inner {
            Inner::Udp(endpoint) => endpoint.max_reply(),
            Inner::Nowhere => 0,
            Inner::Tcp(_) => MAX_TCP,
        }
    }

    /// Sends the answer: at once on UDP, without waiting; on TCP it is handed to the connection's writer.
    ///
    /// # Errors
    /// See [`SendError`]. Nothing was sent, and on [`SendError::Size`] another attempt may follow.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        if message.is_empty() || message.len() > self.capacity() {
            return Err(SendError::Size);
        }
        match &self.inner {
            Inner::Udp(endpoint) => endpoint.send_later(message, self.peer, self.local),
            Inner::Nowhere => Err(SendError::Closed),
            Inner::Tcp(ticket) => ticket.message(message),
        }
    }

    /// Answers with many messages. TCP only.
    ///
    /// # Errors
    /// [`SendError::NoStreams`] on UDP; otherwise see [`SendError`].
    pub fn stream(&self, stream: Box<dyn MessageStream>) -> Result<(), SendError> {
        match &self.inner {
            Inner::Udp(_) | Inner::Nowhere => Err(SendError::NoStreams),
            Inner::Tcp(ticket) => ticket.stream(stream),
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("transport", &self.transport())
            .field("peer", &self.peer)
            .field("local", &self.local)
            .finish()
    }
}
