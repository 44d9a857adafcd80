//! Ends of connections.

use quinn::{ConnectionError, TransportErrorCode, VarInt};

use crate::tcp::Close;

/// The end of a connection: why, and what the client gets as code and reason.
pub(super) type End = (Close, VarInt, &'static str);

/// Returns why a connection has ended that this side did not close.
pub(super) fn lost(error: &ConnectionError) -> Close {
    match error {
        ConnectionError::ApplicationClosed(_) => Close::Peer,
        ConnectionError::ConnectionClosed(close) if close.error_code == TransportErrorCode::NO_ERROR => {
            Close::Peer
        }
        ConnectionError::TimedOut => Close::Idle,
        ConnectionError::TransportError(_) => Close::Protocol,
        _ => Close::Error,
    }
}
