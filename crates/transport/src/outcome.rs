//! The outcome of a query.

use std::fmt;

use crate::MessageStream;

/// The outcome that a handler sets for one query.
#[derive(Default)]
pub enum Outcome {
    /// No reply. Counted.
    #[default]
    Drop,
    /// The reply is this many bytes at the start of the query's buffer. Zero, or more than the buffer holds,
    /// is treated as [`Outcome::Drop`].
    Reply(usize),
    /// The handler has stored the query's return address, and answers through
    /// [`Handler::late`](crate::Handler::late).
    Pending,
    /// Many messages answer this query. Streams only: for a datagram the query is dropped and counted.
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
