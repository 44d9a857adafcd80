//! Answers of many messages.

/// The next item of a [`MessageStream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole message of this many bytes is at the start of the buffer.
    Message(usize),
    /// The stream has ended; the message before was the last one.
    End,
    /// The source failed. The transport closes the connection, so that the client cannot take the messages so
    /// far for the whole answer.
    Abort,
}

/// An answer of many messages, such as a zone transfer (RFC 5936). The transport pulls messages as the client
/// reads them, so that a slow client holds back only its own stream.
pub trait MessageStream: Send {
    /// Writes the next message to `out`, which holds 65,535 bytes. Must not block.
    fn next(&mut self, out: &mut [u8]) -> Next;
}
