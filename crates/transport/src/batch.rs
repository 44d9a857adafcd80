//! A batch of queries and the buffers for their replies. A transport fills it, a handler answers it; no I/O
//! here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Client, ClientCertificate, Clock, Outcome, ReplyRoute, ReturnAddress, Transport};

/// The position of one query in the input, and its client.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Offset of the message in the input.
    pub start: usize,
    /// Length of the message, at least [`crate::MIN_MESSAGE`].
    pub len: usize,
    /// The client's address, the address it sent to, and the transport.
    pub client: Client,
    /// Index of the datagram in the transport's own arrays; unused by streams.
    pub raw: usize,
}

/// One query as received.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The message: at least [`crate::MIN_MESSAGE`] bytes, not otherwise checked.
    pub packet: &'a [u8],
    /// The client's address and transport.
    pub client: Client,
}

/// The queries of a batch. Cheap to copy, so that parsed forms which borrow from the packets can live while
/// replies are written (see [`Batch::split`]). All queries were received by one transport, those of a stream
/// on one connection.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    /// The bytes that the envelopes refer to.
    pub input: &'a [u8],
    /// One for each query.
    pub envelopes: &'a [Envelope],
    /// The transport of the whole batch.
    pub transport: Transport,
    /// The connection of the whole batch; see [`ReturnAddress::connection`].
    pub connection: u64,
    /// The way of the reply to each query; empty unless a proxy passed on one of them.
    pub routes: &'a [ReplyRoute],
}

impl<'a> Queries<'a> {
    /// Returns the number of queries in the batch; at least one.
    #[inline]
    pub fn len(&self) -> usize {
        self.envelopes.len()
    }

    /// Whether the batch holds no query. Handlers get no empty batch.
    pub fn is_empty(&self) -> bool {
        self.envelopes.is_empty()
    }

    /// Returns query `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    #[inline]
    pub fn get(&self, i: usize) -> Query<'a> {
        Query { packet: self.packet(i), client: *self.client(i) }
    }

    /// Returns the message of query `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    #[inline]
    pub fn packet(&self, i: usize) -> &'a [u8] {
        let envelope = &self.envelopes[i];
        &self.input[envelope.start..envelope.start + envelope.len]
    }

    /// Returns the client of query `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    #[inline]
    pub fn client(&self, i: usize) -> &'a Client {
        &self.envelopes[i].client
    }

    /// Returns the return address of query `i`, for a late answer.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    pub fn return_address(&self, i: usize) -> ReturnAddress {
        let route = self.routes.get(i).copied();
        ReturnAddress { client: *self.client(i), connection: self.connection, route }
    }
}

/// The reply buffers and outcomes of a batch.
pub struct Replies<'a> {
    /// The bytes that the buffers are parts of.
    pub output: &'a mut [u8],
    /// One for each query; `None` until the handler sets it.
    pub outcomes: &'a mut [Option<Outcome>],
    /// Distance between the starts of two buffers, in bytes.
    pub stride: usize,
    /// Usable bytes of each buffer: the size limit of a reply on this transport.
    pub room: usize,
}

impl Replies<'_> {
    /// Returns the reply buffer of query `i`. It is not cleared between batches.
    ///
    /// # Panics
    /// If `i` is not below the number of queries.
    #[inline]
    pub fn buffer(&mut self, i: usize) -> &mut [u8] {
        let start = i * self.stride;
        &mut self.output[start..start + self.room]
    }

    /// Sets the outcome of query `i`. A query without an outcome is dropped.
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
    clock: Clock,
    received: Option<Instant>,
    may_put_off: bool,
    certificate: Option<&'a Arc<ClientCertificate>>,
    client_name: Option<&'a Arc<str>>,
}

impl<'a> Batch<'a> {
    /// Returns a batch that has just been received.
    pub fn new(queries: Queries<'a>, replies: Replies<'a>, clock: Clock) -> Self {
        let (certificate, client_name) = (None, None);
        Batch { queries, replies, clock, received: None, may_put_off: false, certificate, client_name }
    }

    /// Sets the certificate of the client: all queries came on its connection.
    pub fn set_certificate(&mut self, certificate: Option<&'a Arc<ClientCertificate>>) {
        self.certificate = certificate;
    }

    /// Returns the certificate of the client; `None` if it has shown none.
    #[inline]
    pub fn certificate(&self) -> Option<&'a Arc<ClientCertificate>> {
        self.certificate
    }

    /// Sets the name that the client of all queries has written for itself, in lower case, over an encrypted
    /// transport or HTTP. No client proves its name.
    pub fn set_client_name(&mut self, name: Option<&'a Arc<str>>) {
        self.client_name = name;
    }

    /// Returns the name that the client has written for itself.
    #[inline]
    pub fn client_name(&self) -> Option<&'a Arc<str>> {
        self.client_name
    }

    /// Allows the handler to defer queries that take long: see [`Handler::resume`](crate::Handler::resume).
    pub fn let_put_off(&mut self) {
        self.may_put_off = true;
    }

    /// Whether the handler may defer queries that take long.
    #[inline]
    pub fn may_put_off(&self) -> bool {
        self.may_put_off
    }

    /// Returns the number of queries in the batch; at least one.
    #[inline]
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether the batch holds no query. Handlers get no empty batch.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// The queries.
    #[inline]
    pub fn queries(&self) -> Queries<'a> {
        self.queries
    }

    /// Returns query `i` and the buffer for its reply.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::len`].
    #[inline]
    pub fn parts(&mut self, i: usize) -> (Query<'a>, &mut [u8]) {
        (self.queries.get(i), self.replies.buffer(i))
    }

    /// Sets the outcome of query `i`. A query without an outcome is dropped.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::len`].
    #[inline]
    pub fn set(&mut self, i: usize, outcome: Outcome) {
        self.replies.set(i, outcome);
    }

    /// Returns the queries and the replies separately, so that borrowed parses of all queries can live while
    /// replies are written.
    #[inline]
    pub fn split(&mut self) -> (Queries<'a>, &mut Replies<'a>) {
        (self.queries, &mut self.replies)
    }

    /// Returns when the batch was received: reads the clock on the first call, and returns the same time from
    /// then on.
    #[inline]
    pub fn received(&mut self) -> Instant {
        let clock = self.clock;
        *self.received.get_or_insert_with(|| clock.now())
    }

    /// Returns the time since the batch was received.
    #[inline]
    pub fn elapsed(&mut self) -> Duration {
        let received = self.received();
        self.clock.now().saturating_duration_since(received)
    }

    /// Returns the total length of all queries in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.queries.envelopes.iter().map(|envelope| envelope.len as u64).sum()
    }

    /// Returns query `i` alone as a batch, if it has no outcome yet. After the handler has panicked on one
    /// query of a batch, the transport answers the other queries this way.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::len`].
    pub fn undecided(&mut self, i: usize) -> Option<Batch<'_>> {
        if self.replies.outcomes[i].is_some() {
            return None;
        }
        let Replies { stride, room, .. } = self.replies;
        let Queries { envelopes, routes, .. } = self.queries;
        let routes = routes.get(i..=i).unwrap_or_default();
        let queries = Queries { envelopes: &envelopes[i..=i], routes, ..self.queries };
        let replies = Replies {
            output: &mut self.replies.output[i * stride..],
            outcomes: &mut self.replies.outcomes[i..=i],
            stride,
            room,
        };
        let (clock, received) = (self.clock, self.received);
        let (certificate, client_name) = (self.certificate, self.client_name);
        Some(Batch { queries, replies, clock, received, may_put_off: false, certificate, client_name })
    }
}
