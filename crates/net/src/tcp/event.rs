//! Events that other parts of a worker send to one of its connections.

use transport::MessageStream;

/// An event for a connection.
pub(crate) enum ConnectionEvent {
    /// One of its pending queries is settled.
    Late(Late),
    /// Close, to make room for another connection.
    Evict,
    /// The listener stops.
    Drain,
}

/// How a pending query is settled.
pub(crate) enum Late {
    /// With this message.
    Message(Vec<u8>),
    /// With a stream of messages.
    Stream(Box<dyn MessageStream>),
    /// Without an answer.
    Nothing,
}

impl Late {
    /// Returns the length of the message in bytes, 0 if there is none; `None` for a stream.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Late::Message(message) => Some(message.len()),
            Late::Stream(_) => None,
            Late::Nothing => Some(0),
        }
    }
}
