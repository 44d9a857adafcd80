//! What other parts of a worker tell one of its connections.

use exchange::MessageStream;

/// News for a connection.
pub(crate) enum ConnectionEvent {
    /// One of its queries is settled.
    Late(Late),
    /// Make room for another connection.
    Evict,
    /// The listener stops.
    Drain,
}

/// How a query that was left pending is settled.
pub(crate) enum Late {
    /// With this message.
    Message(Vec<u8>),
    /// With a stream of messages.
    Stream(Box<dyn MessageStream>),
    /// Without an answer.
    Nothing,
}

impl Late {
    /// Bytes of the message, 0 if there is none; `None` for a stream.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Late::Message(message) => Some(message.len()),
            Late::Stream(_) => None,
            Late::Nothing => Some(0),
        }
    }
}
