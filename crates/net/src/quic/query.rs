//! What a stream of DNS over QUIC carries from its client: one message behind two bytes of length (RFC 9250
//! §4.2), and the errors of clients that end their connection (§4.3.3).

use transport::{MAX_MESSAGE, MIN_MESSAGE};

use crate::config::KeepaliveCheck;

/// Most bytes of a stream from a client.
pub(super) const MAX_STREAM: usize = 2 + MAX_MESSAGE;

/// How a client breaks the rules of DNS over QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolFault {
    /// The stream ended before the message was complete.
    Incomplete,
    /// More bytes follow the message.
    Trailing,
    /// The message is shorter than a DNS header.
    Short,
    /// The message ID is not 0.
    MessageId,
    /// The message has the option edns-tcp-keepalive.
    Keepalive,
    /// The client opened a unidirectional stream.
    Unidirectional,
}

impl ProtocolFault {
    /// Returns the reason that the client gets with the error.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Incomplete => "the stream ended before the query was complete",
            Self::Trailing => "more bytes follow the query on its stream",
            Self::Short => "the query is shorter than a DNS header",
            Self::MessageId => "the message ID of the query is not 0",
            Self::Keepalive => "the query has the option edns-tcp-keepalive",
            Self::Unidirectional => "a unidirectional stream was opened",
        }
    }
}

/// Returns the query in `bytes`, which are all that the client sent on a stream.
///
/// # Errors
/// The fault of the client.
pub(super) fn query(bytes: &[u8], keepalive: Option<KeepaliveCheck>) -> Result<&[u8], ProtocolFault> {
    let [high, low, message @ ..] = bytes else { return Err(ProtocolFault::Incomplete) };
    match message.len().cmp(&usize::from(u16::from_be_bytes([*high, *low]))) {
        std::cmp::Ordering::Less => return Err(ProtocolFault::Incomplete),
        std::cmp::Ordering::Greater => return Err(ProtocolFault::Trailing),
        std::cmp::Ordering::Equal => {}
    }
    if message.len() < MIN_MESSAGE {
        return Err(ProtocolFault::Short);
    }
    // RFC 9250 §4.2.1: "When sending queries over a QUIC connection, the DNS Message ID MUST be set to 0."
    if message[..2] != [0, 0] {
        return Err(ProtocolFault::MessageId);
    }
    if keepalive.is_some_and(|has_keepalive| has_keepalive(message)) {
        return Err(ProtocolFault::Keepalive);
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the bytes of a stream with this message.
    fn framed(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u16).to_be_bytes(), message].concat()
    }

    #[test]
    fn a_stream_has_one_query_with_the_id_0() {
        let message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x01\0\x01";
        let whole = framed(message);
        assert_eq!(query(&whole, None), Ok(&message[..]));
        for len in 0..whole.len() {
            assert_eq!(query(&whole[..len], None), Err(ProtocolFault::Incomplete), "{len}");
        }
        assert_eq!(query(&[&whole[..], &[0]].concat(), None), Err(ProtocolFault::Trailing));
        assert_eq!(query(&[&whole[..], &whole].concat(), None), Err(ProtocolFault::Trailing));
        assert_eq!(query(&framed(&message[..11]), None), Err(ProtocolFault::Short));
        assert_eq!(query(&framed(&[]), None), Err(ProtocolFault::Short));
        for id in [[0, 1], [1, 0], [255, 255]] {
            let other = [&id[..], &message[2..]].concat();
            assert_eq!(query(&framed(&other), None), Err(ProtocolFault::MessageId));
        }
    }

    #[test]
    fn the_option_keepalive_is_looked_for_in_the_message() {
        let has_keepalive: KeepaliveCheck = |message| message.ends_with(b"keepalive");
        let (with, without) = (b"\0\0----------keepalive", b"\0\0----------something");
        assert_eq!(query(&framed(with), Some(has_keepalive)), Err(ProtocolFault::Keepalive));
        assert_eq!(query(&framed(without), Some(has_keepalive)), Ok(&without[..]));
    }

    proptest! {
        /// RFC 9250 §4.2: the query is exactly what its length says, and nothing else is on the stream.
        #[test]
        fn what_is_accepted_is_the_whole_stream(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = query(&bytes, None) {
                prop_assert!(message.len() >= MIN_MESSAGE && message[..2] == [0, 0]);
                prop_assert_eq!(framed(message), bytes);
            }
        }

        #[test]
        fn every_query_is_accepted(rest in proptest::collection::vec(any::<u8>(), 10..300)) {
            let message = [&[0, 0][..], &rest].concat();
            let bytes = framed(&message);
            prop_assert_eq!(query(&bytes, None), Ok(&message[..]));
        }
    }
}
