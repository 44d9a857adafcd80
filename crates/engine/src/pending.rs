//! Queries that wait: what is kept of one whose answer comes later, and how it goes on.

use wire::Name;
use wire::message::{Builder, Compressor, HEADER_LEN};

use crate::pipeline::Transport;
use crate::render::{self, ServerEdns};
use crate::request::Request;
use std::sync::Arc;

/// The way back to the client of one query, whatever its transport; made by the front end.
pub trait Responder: Send {
    /// Sends one whole message, without framing.
    fn send(self: Box<Self>, message: &[u8]);
}

/// A query whose source said [`Pending`](crate::Sourced::Pending): all that is needed to answer it later,
/// from any thread. Dropping it leaves the client without an answer.
pub struct Ticket {
    pub(crate) request: Request,
    /// The header and question as they came.
    pub(crate) head: Box<[u8]>,
    pub(crate) transport: Transport,
    pub(crate) limit: usize,
    pub(crate) edns: Arc<ServerEdns>,
    pub(crate) responder: Box<dyn Responder>,
}

impl Ticket {
    /// The name asked for.
    pub fn qname(&self) -> Name<'_> {
        self.request.question.map_or(Name::ROOT, |q| q.name(&self.head))
    }

    /// The query as it was read.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Answers: `fill` writes the sections and sets the flags, then the message is rendered and sent.
    pub fn resume(self, fill: impl FnOnce(&mut Builder<'_>)) {
        let mut buf = vec![0; self.limit.max(HEADER_LEN + 512)];
        let mut names = Compressor::small();
        let mut b = render::start(&self.request, &self.head, &mut buf, self.limit, &mut names, &self.edns);
        fill(&mut b);
        render::add_opt(&mut b, &self.request, self.transport, &self.edns, None);
        let len = b.finish();
        self.responder.send(&buf[..len]);
    }
}
