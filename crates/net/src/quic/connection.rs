//! One connection, from its handshake to its end: it takes streams as far as the limits allow, and ends when
//! its client, a timeout, an event or an error of a stream ends it.

use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use quinn::crypto::rustls::HandshakeData;
use quinn::{Connecting, Connection, ConnectionError, VarInt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};
use transport::{HandlerFactory, Transport};

use super::client::QuicClient;
use super::end::{End, lost};
use super::query::ProtocolFault;
use super::requests;
use super::settings::{DoqCode, H3, Unvalidated};
use super::stream::{self, StreamFault};
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
    let (close, code, reason) = match is_http3(&connection) {
        true => {
            quic.client.transport = Transport::H3;
            requests::drive(&connection, &Rc::new(quic), &mut events).await
        }
        false => drive(&connection, &Rc::new(quic), &mut events).await,
    };
    connection.close(code, reason.as_bytes());
    close
}

/// Whether client and server have agreed on HTTP/3.
fn is_http3(connection: &Connection) -> bool {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    data.is_some_and(|data| data.protocol.as_deref() == Some(H3))
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

/// The end of a connection whose listener stops.
const STOPPED: End = (Close::Stopped, NO_ERROR, "the server stops");
/// The code of a connection that is not needed any more.
const NO_ERROR: VarInt = DoqCode::NoError.value();

/// Takes streams until the connection ends.
async fn drive<F: HandlerFactory>(
    connection: &Connection,
    quic: &Rc<QuicClient<F>>,
    events: &mut UnboundedReceiver<ConnectionEvent>,
) -> End {
    // Dropped with the connection, which ends the streams.
    let mut streams: JoinSet<Result<(), StreamFault>> = JoinSet::new();
    let mut ending: Option<Instant> = None;
    loop {
        let at = ending.unwrap_or_else(|| quic.deadline().0);
        // Streams that are always ready must not keep the connection from its end.
        if ending.is_some_and(|at| at <= Instant::now()) {
            return STOPPED;
        }
        let is_over = ending.is_some() && quic.is_quiet();
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(ConnectionEvent::Late(_)) => {}
                Some(ConnectionEvent::Evict) => {
                    return (Close::Evicted, DoqCode::ExcessiveLoad.value(), "too many connections");
                }
                Some(ConnectionEvent::Drain) | None => {
                    ending.get_or_insert(Instant::now() + quic.config.drain);
                }
            },
            Some(served) = streams.join_next() => if let Ok(Err(fault)) = served {
                return end_of(fault);
            },
            stream = connection.accept_bi(), if quic.has_room() => match stream {
                Ok((to_client, from_client)) => {
                    // It counts from now on, not from its first poll.
                    quic.begin();
                    let quic = Rc::clone(quic);
                    streams.spawn_local(async move { stream::serve(&quic, to_client, from_client).await });
                }
                Err(error) => return (lost(&error), NO_ERROR, ""),
            },
            _ = connection.accept_uni() => match connection.close_reason() {
                None => return end_of(StreamFault::Protocol(ProtocolFault::Unidirectional)),
                Some(error) => return (lost(&error), NO_ERROR, ""),
            },
            () = std::future::ready(()), if is_over => {
                return STOPPED;
            },
            () = quic.changed() => {}
            () = sleep_until(at.into()) => match (ending, quic.deadline()) {
                (Some(_), _) => return STOPPED,
                (None, (at, close)) if at <= Instant::now() => return (close, NO_ERROR, "idle"),
                (None, _) => {}
            },
        }
    }
}

/// Returns the end of a connection by one of its streams.
fn end_of(fault: StreamFault) -> End {
    match fault {
        StreamFault::Protocol(fault) => (Close::Protocol, DoqCode::Protocol.value(), fault.reason()),
        StreamFault::Timeout => (
            Close::Message,
            DoqCode::Protocol.value(),
            "a query or the end of its stream did not come in time",
        ),
        StreamFault::Write => (Close::Write, DoqCode::ExcessiveLoad.value(), "answers are not read"),
    }
}
