//! A batch of queries and the places for their replies. Sockets fill it, a handler answers it; no I/O here.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::handler::MessageStream;
use crate::responder::Responder;
use crate::tcp::Tickets;
use crate::udp::Endpoint;

/// How a query reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams over IPv4 or IPv6.
    Udp,
    /// A TCP connection, two octets of length before each message.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        })
    }
}

/// One query as it came off the wire.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The message: at least [`crate::MIN_MESSAGE`] octets, not otherwise checked.
    pub packet: &'a [u8],
    /// Who sent it. Over UDP this can be forged.
    pub peer: SocketAddr,
    /// The address it was sent to. On a socket bound to the wildcard address this is the destination address
    /// of the datagram or connection, not the wildcard.
    pub local: SocketAddr,
    /// How it came.
    pub transport: Transport,
}

/// What a handler decided about one query.
#[derive(Default)]
pub enum Outcome {
    /// No reply. Counted.
    #[default]
    Drop,
    /// The reply is this many octets at the start of the query's buffer. Zero, or more than the buffer holds, is
    /// treated as [`Outcome::Drop`].
    Reply(usize),
    /// The handler keeps the query's [`Responder`] and answers later.
    Pending,
    /// Many messages answer this query. TCP only: on UDP the stream is dropped and counted.
    Stream(Box<dyn MessageStream>),
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Drop => f.write_str("Drop"),
            Outcome::Reply(n) => write!(f, "Reply({n})"),
            Outcome::Pending => f.write_str("Pending"),
            Outcome::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// Where one query lies in the input and who talks to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Offset of the message in the input.
    pub(crate) start: usize,
    /// Length of the message.
    pub(crate) len: usize,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// Index of the datagram in the back end's own arrays; unused by streams.
    pub(crate) raw: usize,
}

/// What is needed to make a [`Responder`] for a query of this batch.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    Udp(&'a Arc<Endpoint>),
    /// The sockets behind an AF_XDP front.
    Front(&'a [Arc<Endpoint>]),
    Tcp(&'a Tickets),
}

/// The queries of a batch: cheap to copy, so parsed forms that borrow from the packets can live while replies are
/// written (see [`Batch::split`]).
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) slots: &'a [Slot],
    pub(crate) origin: Origin<'a>,
}

impl<'a> Queries<'a> {
    /// How many queries the batch holds; at least one.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if the batch holds no query, which a handler never sees.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How the whole batch came.
    pub fn transport(&self) -> Transport {
        match self.origin {
            Origin::Udp(_) | Origin::Front(_) => Transport::Udp,
            Origin::Tcp(_) => Transport::Tcp,
        }
    }

    /// Query `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    #[inline]
    pub fn get(&self, i: usize) -> Query<'a> {
        let slot = &self.slots[i];
        Query {
            packet: &self.input[slot.start..slot.start + slot.len],
            peer: slot.peer,
            local: slot.local,
            transport: self.transport(),
        }
    }

    /// An owned handle that answers query `i` later, from any thread. Take it only for a query whose outcome will
    /// be [`Outcome::Pending`]; on TCP each one occupies one of the connection's places for queries in flight
    /// until it answers or its last clone is dropped.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    pub fn responder(&self, i: usize) -> Responder {
        let slot = &self.slots[i];
        match self.origin {
            Origin::Udp(endpoint) => Responder::udp(Arc::clone(endpoint), slot.peer, slot.local),
            Origin::Front(endpoints) => Responder::front(endpoints, slot.peer, slot.local),
            Origin::Tcp(tickets) => Responder::tcp(tickets.issue(), slot.peer, slot.local),
        }
    }
}

/// The reply buffers and outcomes of a batch.
pub struct Replies<'a> {
    pub(crate) output: &'a mut [u8],
    pub(crate) outcomes: &'a mut [Option<Outcome>],
    /// Distance between the starts of two buffers.
    pub(crate) stride: usize,
    /// Usable octets of each buffer.
    pub(crate) room: usize,
}

impl Replies<'_> {
    /// Octets each reply buffer holds: the largest reply this transport can carry here.
    pub fn capacity(&self) -> usize {
        self.room
    }

    /// The reply buffer of query `i`. It is not cleared between batches.
    ///
    /// # Panics
    /// If `i` is not below the number of queries.
    #[inline]
    pub fn buffer(&mut self, i: usize) -> &mut [u8] {
        let start = i * self.stride;
        &mut self.output[start..start + self.room]
    }

    /// Decides query `i`. A query that is never decided is dropped.
    ///
    /// # Panics
    /// If `i` is not below the number of queries.
    #[inline]
    pub fn set(&mut self, i: usize, outcome: Outcome) {
        self.outcomes[i] = Some(outcome);
    }
}

/// All queries received together, each with a buffer for its reply.
pub struct Batch<'a> {
    queries: Queries<'a>,
    replies: Replies<'a>,
    now: Cell<Option<Instant>>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(queries: Queries<'a>, replies: Replies<'a>) -> Self {
        Batch { queries, replies, now: Cell::new(None) }
    }

    /// How many queries the batch holds; at least one.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// True if the batch holds no query, which a handler never sees.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// How the whole batch came.
    pub fn transport(&self) -> Transport {
        self.queries.transport()
    }

    /// Query `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::len`].
    #[inline]
    pub fn query(&self, i: usize) -> Query<'_> {
        self.queries.get(i)
    }

    /// Query `i` and the buffer for its reply.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::len`].
    #[inline]
    pub fn parts(&mut self, i: usize) -> (Query<'_>, &mut [u8]) {
        (self.queries.get(i), self.replies.buffer(i))
    }

    /// Decides query `i`. A query that is never decided is dropped.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::len`].
    #[inline]
    pub fn set(&mut self, i: usize, outcome: Outcome) {
        self.replies.set(i, outcome);
    }

    /// See [`Queries::responder`].
    pub fn responder(&self, i: usize) -> Responder {
        self.queries.responder(i)
    }

    /// The queries and the replies apart, so that borrowed parses of all queries can live while replies are
    /// written.
    #[inline]
    pub fn split(&mut self) -> (Queries<'a>, &mut Replies<'a>) {
        (self.queries, &mut self.replies)
    }

    /// The time, read from the clock on the first call and the same for the rest of the batch.
    pub fn now(&self) -> Instant {
        if let Some(now) = self.now.get() {
            return now;
        }
        let now = Instant::now();
        self.now.set(Some(now));
        now
    }

    /// Octets of all queries.
    #[inline]
    pub(crate) fn octets(&self) -> u64 {
        self.queries.slots.iter().map(|slot| slot.len as u64).sum()
    }

    /// Query `i` alone as a batch, if it was not decided yet: how the rest of a batch is served after the handler
    /// panicked on one of its queries.
    pub(crate) fn undecided(&mut self, i: usize) -> Option<Batch<'_>> {
        if self.replies.outcomes[i].is_some() {
            return None;
        }
        let Replies { stride, room, .. } = self.replies;
        let queries = Queries { slots: &self.queries.slots[i..=i], ..self.queries };
        let replies = Replies {
            output: &mut self.replies.output[i * stride..],
            outcomes: &mut self.replies.outcomes[i..=i],
            stride,
            room,
        };
        Some(Batch::new(queries, replies))
    }
}
