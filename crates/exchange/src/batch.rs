//! A batch of queries and the buffers for their replies. A transport fills it, a handler answers it; no I/O
//! here.

use std::time::{Duration, Instant};

use crate::{Client, Clock, Outcome, ReturnAddress, Transport};

/// Where one query lies in the input, and who talks to whom.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Offset of the message in the input.
    pub start: usize,
    /// Length of the message, at least [`crate::MIN_MESSAGE`].
    pub len: usize,
    /// Who sent it, where to, and how.
    pub client: Client,
    /// Index of the datagram in the transport's own arrays; unused by streams.
    pub raw: usize,
}

/// One query as it came off the wire.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The message: at least [`crate::MIN_MESSAGE`] bytes, not otherwise checked.
    pub packet: &'a [u8],
    /// Who asks.
    pub client: Client,
}

/// The queries of a batch: cheap to copy, so that parsed forms which borrow from the packets can live while
/// replies are written (see [`Batch::split`]). All came by one transport, those of streams on one connection.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    /// What the envelopes are parts of.
    pub input: &'a [u8],
    /// One for each query.
    pub envelopes: &'a [Envelope],
    /// How the whole batch came.
    pub transport: Transport,
    /// The connection it came on; see [`ReturnAddress::connection`].
    pub connection: u64,
}

impl<'a> Queries<'a> {
    /// How many queries the batch holds; at least one.
    #[inline]
    pub fn len(&self) -> usize {
        self.envelopes.len()
    }

    /// Whether the batch holds no query, which a handler never sees.
    pub fn is_empty(&self) -> bool {
        self.envelopes.is_empty()
    }

    /// Query `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    #[inline]
    pub fn get(&self, i: usize) -> Query<'a> {
        Query { packet: self.packet(i), client: *self.client(i) }
    }

    /// The message of query `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    #[inline]
    pub fn packet(&self, i: usize) -> &'a [u8] {
        let envelope = &self.envelopes[i];
        &self.input[envelope.start..envelope.start + envelope.len]
    }

    /// Who asks query `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    #[inline]
    pub fn client(&self, i: usize) -> &'a Client {
        &self.envelopes[i].client
    }

    /// The way back to the client of query `i`, for an answer that comes later.
    ///
    /// # Panics
    /// If `i` is not below [`Queries::len`].
    pub fn return_address(&self, i: usize) -> ReturnAddress {
        ReturnAddress { client: *self.client(i), connection: self.connection }
    }
}

/// The reply buffers and outcomes of a batch.
pub struct Replies<'a> {
    /// What the buffers are parts of.
    pub output: &'a mut [u8],
    /// One for each query; `None` until it is decided.
    pub outcomes: &'a mut [Option<Outcome>],
    /// Distance between the starts of two buffers.
    pub stride: usize,
    /// Usable bytes of each buffer: the largest reply this transport can carry here.
    pub room: usize,
}

impl Replies<'_> {
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
    clock: Clock,
    received: Option<Instant>,
    may_put_off: bool,
}

impl<'a> Batch<'a> {
    /// A batch that has just been received.
    pub fn new(queries: Queries<'a>, replies: Replies<'a>, clock: Clock) -> Self {
        Batch { queries, replies, clock, received: None, may_put_off: false }
    }

    /// Lets the handler put off what takes it long: see [`Handler::resume`](crate::Handler::resume).
    pub fn let_put_off(&mut self) {
        self.may_put_off = true;
    }

    /// Whether the handler may put off what takes it long.
    #[inline]
    pub fn may_put_off(&self) -> bool {
        self.may_put_off
    }

    /// How many queries the batch holds; at least one.
    #[inline]
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether the batch holds no query, which a handler never sees.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// The queries.
    #[inline]
    pub fn queries(&self) -> Queries<'a> {
        self.queries
    }

    /// Query `i` and the buffer for its reply.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::len`].
    #[inline]
    pub fn parts(&mut self, i: usize) -> (Query<'a>, &mut [u8]) {
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

    /// The queries and the replies apart, so that borrowed parses of all queries can live while replies are
    /// written.
    #[inline]
    pub fn split(&mut self) -> (Queries<'a>, &mut Replies<'a>) {
        (self.queries, &mut self.replies)
    }

    /// When the batch was received: read from the clock on the first call, the same from then on.
    #[inline]
    pub fn received(&mut self) -> Instant {
        let clock = self.clock;
        *self.received.get_or_insert_with(|| clock.now())
    }

    /// Time since it was received.
    #[inline]
    pub fn elapsed(&mut self) -> Duration {
        let received = self.received();
        self.clock.now().saturating_duration_since(received)
    }

    /// Bytes of all queries.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.queries.envelopes.iter().map(|envelope| envelope.len as u64).sum()
    }

    /// Query `i` alone as a batch, if it was not decided yet: how the rest of a batch is served after the
    /// handler panicked on one of its queries.
    ///
    /// # Panics
    /// If `i` is not below [`Batch::len`].
    pub fn undecided(&mut self, i: usize) -> Option<Batch<'_>> {
        if self.replies.outcomes[i].is_some() {
            return None;
        }
        let Replies { stride, room, .. } = self.replies;
        let queries = Queries { envelopes: &self.queries.envelopes[i..=i], ..self.queries };
        let replies = Replies {
            output: &mut self.replies.output[i * stride..],
            outcomes: &mut self.replies.outcomes[i..=i],
            stride,
            room,
        };
        Some(Batch { queries, replies, clock: self.clock, received: self.received, may_put_off: false })
    }
}
