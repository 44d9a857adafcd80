//! Batches without a transport, for tools, tests and measurements that call a handler directly.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::{
    Batch, Client, Clock, Envelope, Handler, LateLayout, LateReplies, Outcome, Queries, Replies,
    ReturnAddress, Transport,
};

/// A late answer.
#[derive(Debug)]
pub struct LateAnswer {
    /// Where it is sent.
    pub to: ReturnAddress,
    /// What became of the query.
    pub outcome: Outcome,
    /// The message, if the outcome is a reply.
    pub message: Vec<u8>,
}

/// Queries that are answered together, and their outcomes.
pub struct Packets {
    transport: Transport,
    room: usize,
    input: Vec<u8>,
    envelopes: Vec<Envelope>,
    output: Vec<u8>,
    outcomes: Vec<Option<Outcome>>,
    clock: Clock,
    may_put_off: bool,
    client_name: Option<Arc<str>>,
}

impl Packets {
    /// Returns an empty batch for `transport`, with `room` bytes for each reply.
    pub fn new(transport: Transport, room: usize) -> Self {
        Packets {
            transport,
            room,
            input: Vec::new(),
            envelopes: Vec::new(),
            output: Vec::new(),
            outcomes: Vec::new(),
            clock: Clock::System,
            may_put_off: false,
            client_name: None,
        }
    }

    /// Allows handlers to defer queries.
    #[must_use]
    pub fn let_put_off(mut self) -> Self {
        self.may_put_off = true;
        self
    }

    /// Sets the name that the client has written for itself.
    #[must_use]
    pub fn client_name(mut self, name: Option<Arc<str>>) -> Self {
        self.client_name = name;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Adds a query from a client on loopback.
    pub fn push(&mut self, packet: &[u8]) {
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 53_000));
        self.push_from(client, SocketAddr::from((Ipv4Addr::LOCALHOST, 53)), packet);
    }

    /// Adds a query from `peer` to `local`.
    pub fn push_from(&mut self, peer: SocketAddr, local: SocketAddr, packet: &[u8]) {
        let (start, raw) = (self.input.len(), self.envelopes.len());
        self.input.extend_from_slice(packet);
        let client = Client { peer, local, transport: self.transport };
        self.envelopes.push(Envelope { start, len: packet.len(), client, raw });
        self.output.resize(self.envelopes.len() * self.room, 0);
        self.outcomes.push(None);
    }

    /// Removes all queries.
    pub fn clear(&mut self) {
        self.input.clear();
        self.envelopes.clear();
        self.outcomes.clear();
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.envelopes.len()
    }

    /// Whether there is no query.
    pub fn is_empty(&self) -> bool {
        self.envelopes.is_empty()
    }

    /// Calls `handler` with all queries as one batch.
    pub fn ask<H: Handler>(&mut self, handler: &mut H) {
        if self.is_empty() {
            return;
        }
        self.outcomes.fill_with(|| None);
        let queries = Queries {
            input: &self.input,
            envelopes: &self.envelopes,
            transport: self.transport,
            connection: 0,
            routes: &[],
        };
        let replies = Replies {
            output: &mut self.output,
            outcomes: &mut self.outcomes,
            stride: self.room,
            room: self.room,
        };
        let mut batch = Batch::new(queries, replies, self.clock);
        batch.set_client_name(self.client_name.as_ref());
        if self.may_put_off {
            batch.let_put_off();
        }
        handler.batch(&mut batch);
    }

    /// Returns the client of query `i`.
    ///
    /// # Panics
    /// If there is no query `i`.
    pub fn client(&self, i: usize) -> Client {
        self.envelopes[i].client
    }

    /// Returns the reply to query `i`, if it has one.
    pub fn reply(&self, i: usize) -> Option<&[u8]> {
        match self.outcomes.get(i)? {
            Some(Outcome::Reply(len)) => self.output.get(i * self.room..)?.get(..*len),
            _ => None,
        }
    }

    /// Removes and returns the outcome of query `i`. Read its [`reply`](Self::reply) before.
    pub fn take_outcome(&mut self, i: usize) -> Option<Outcome> {
        self.outcomes.get_mut(i)?.take()
    }

    /// Returns the late answers that `handler` has ready, in their order.
    pub fn late<H: Handler>(&self, handler: &mut H) -> Vec<LateAnswer> {
        self.collect(|replies| handler.late(replies))
    }

    /// Calls `handler` to continue with all deferred queries. Returns their answers, as [`late`](Self::late)
    /// does.
    pub fn resume<H: Handler>(&self, handler: &mut H) -> Vec<LateAnswer> {
        self.collect(|replies| handler.resume(replies, 8))
    }

    /// Collects what `write` writes, until it returns that there is no more.
    fn collect(&self, mut write: impl FnMut(&mut LateReplies<'_>) -> bool) -> Vec<LateAnswer> {
        let mut all = Vec::new();
        let mut output = vec![0; 8 * self.room];
        loop {
            let mut replies = Vec::new();
            let layout = LateLayout { stride: self.room, room: self.room, most: 8 };
            let more = write(&mut LateReplies::new(&mut output, layout, &mut replies, self.clock));
            for (i, (to, outcome)) in replies.into_iter().enumerate() {
                let message = match outcome {
                    Outcome::Reply(len) => output[i * self.room..][..len].to_vec(),
                    _ => Vec::new(),
                };
                all.push(LateAnswer { to, outcome, message });
            }
            if !more {
                return all;
            }
        }
    }
}
