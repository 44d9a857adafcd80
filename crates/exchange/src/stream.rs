//! Answers of many messages.

/// What a [`MessageStream`] has next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole message of this many bytes stands at the start of the buffer.
    Message(usize),
    /// The last message was written before.
    End,
    /// The source failed. The connection is closed, so that the client cannot take what it has got for all
    /// there is.
    Abort,
}

/// An answer of many messages, such as a zone transfer (RFC 5936). The transport pulls messages as the client
/// takes them, so that a slow client holds back only its own stream.
pub trait MessageStream: Send {
    /// Writes the next message to `out`, which holds 65,535 bytes. Must not block.
    fn next(&mut self, out: &mut [u8]) -> Next;
}
