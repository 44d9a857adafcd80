//! Where answers come from. Authority is built in; a [`Source`] is anything else that can be asked.

use wire::message::Builder;
use wire::{Name, Type};

use crate::pending::Ticket;
use crate::request::Request;

/// What is asked of a source.
pub struct Asked<'a> {
    /// The query as it was read.
    pub request: &'a Request,
    /// QNAME as the client wrote it.
    pub qname: Name<'a>,
    /// QTYPE.
    pub qtype: Type,
}

/// How a source answered.
pub enum Sourced {
    /// The sections are written and the flags set.
    Ready,
    /// The source has taken a [`Ticket`] and resumes it later. Nothing is sent now.
    Pending,
    /// Many messages follow: only streams can carry them.
    Stream(Box<dyn MessageStream>),
}

/// What a [`MessageStream`] has next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole message of this many octets stands in the buffer.
    Message(usize),
    /// The last message has been given.
    End,
    /// The source failed; the client must not take what it has got for all there is.
    Abort,
}

/// Messages in answer to one query, made as the transport can take them.
pub trait MessageStream: Send {
    /// Writes the next whole message to `out`, which holds 65,535 octets.
    fn next(&mut self, out: &mut [u8]) -> Next;
}

/// Something that answers questions no zone here answers. Shared by all workers.
pub trait Source: Send + Sync {
    /// Answers into `b`, or takes a ticket by calling `ticket` and answers later.
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, ticket: &mut dyn FnMut() -> Ticket) -> Sourced;
}
