//! One connection, from its handshake to its end. The protocol that client and server agree on serves its
//! streams.

use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use quinn::crypto::rustls::HandshakeData;
use quinn::{Connecting, Connection, ConnectionError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout_at;
use transport::{HandlerFactory, Transport};

use super::client::QuicClient;
use super::drive::drive;
use super::requests;
use super::settings::{H3, Unvalidated};
use super::stream::DoqStreams;
use crate::stats::WorkerStats;
use crate::tcp::{Close, ConnectionEvent};

/// The first of the error codes that are alerts of TLS (RFC 9001 §4.8), and the alerts of a client that has
/// no version, cipher suite or application protocol in common with the server.
const CRYPTO_ERRORS: u64 = 0x100;
const HANDSHAKE_FAILURE: u64 = CRYPTO_ERRORS + 40;
const PROTOCOL_VERSION: u64 = CRYPTO_ERRORS + 70;
const NO_APPLICATION_PROTOCOL: u64 = CRYPTO_ERRORS + 120;

/// Serves one connection until it ends. `unvalidated`: the place of its handshake, if the address of the
/// client may be forged.
pub(super) async fn serve<F: HandlerFactory>(
    connecting: Connecting,
    unvalidated: Option<Unvalidated>,
    mut quic: QuicClient<F>,
    mut events: UnboundedReceiver<ConnectionEvent>,
) -> Close {
    let first = Instant::now() + quic.times().first_message;
    let connected = {
        let mut connecting = pin!(timeout_at(first.into(), connecting));
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(ConnectionEvent::Late(_)) => {}
                    Some(ConnectionEvent::Evict) => return Close::Evicted,
                    // No query can follow the handshake.
                    Some(ConnectionEvent::Drain) | None => return Close::Stopped,
                },
                connected = &mut connecting => break connected,
            }
        }
    };
    drop(unvalidated);
    let connection = match connected {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            failed_handshake(&quic.stats, &error).add(1);
            return Close::Error;
        }
        Err(_) => return Close::First,
    };
    quic.stats.tls_handshakes.add(1);
    let (is_http3, server_name) = agreed(&connection);
    quic.name = quic.config.client_names.of_server_name(server_name.as_deref());
    let (close, code, reason) = match is_http3 {
        true => {
            quic.client.transport = Transport::H3;
            requests::serve(&connection, &Rc::new(quic), &mut events).await
        }
        false => drive(&connection, &Rc::new(quic), &mut events, DoqStreams).await,
    };
    connection.close(code, reason.as_bytes());
    close
}

/// Returns whether client and server have agreed on HTTP/3, and the server name that the client has sent.
fn agreed(connection: &Connection) -> (bool, Option<String>) {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    data.map_or((false, None), |data| (data.protocol.as_deref() == Some(H3), data.server_name))
}

/// Returns the counter of a handshake that ended with this error.
fn failed_handshake<'s>(stats: &'s WorkerStats, error: &ConnectionError) -> &'s transport::Counter {
    match error {
        ConnectionError::TransportError(error) => match u64::from(error.code) {
            HANDSHAKE_FAILURE | PROTOCOL_VERSION | NO_APPLICATION_PROTOCOL => &stats.tls_incompatible,
            _ => &stats.tls_malformed,
        },
        ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) >= CRYPTO_ERRORS => {
            &stats.tls_refused
        }
        _ => &stats.tls_broken,
    }
}
