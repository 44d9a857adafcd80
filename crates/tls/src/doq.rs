//! DNS over QUIC to other servers (RFC 9250), without sockets: each query has a bidirectional stream of its
//! own. There is no early data (0-RTT), and no migration of connections to other addresses.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, IdleTimeout, NoneTokenStore, ReadError, StreamEvent, StreamId, TransportConfig,
    TransportErrorCode, VarInt,
};
use rustls::Error;
use rustls::pki_types::ServerName;
use transport::{Encryption, EncryptionFault, StreamedEvent, StreamedSession, Transport};

use crate::client::{ClientSettings, ServerIdentity, Verifier, client_config, fault};
use crate::quic::{DOQ, NotingVerifier};

/// Error codes of RFC 9250 §8.4.
const NO_ERROR: VarInt = VarInt::from_u32(0);
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);
const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(4);
/// Bytes of a message, at least and at most, and of the length before it.
const HEADER_BYTES: usize = 12;
const MESSAGE_BYTES: usize = 65_535;
const LENGTH_BYTES: usize = 2;
/// Bytes of a stream and of a connection that may arrive before they are read, which is at once.
const STREAM_WINDOW: u32 = (LENGTH_BYTES + MESSAGE_BYTES) as u32;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of queries that the server has not acknowledged.
const SEND_WINDOW: u64 = 256 * 1024;
/// Time without a packet after which a connection ends, unless the server wants it sooner. The resolver
/// closes idle connections mostly earlier.
const MAX_SILENCE: Duration = Duration::from_secs(30);

thread_local! {
    /// The verdict on the last certificate that was verified on this thread.
    static VERDICT: Cell<Option<Result<(), EncryptionFault>>> = const { Cell::new(None) };
}

/// Returns the encryption of connections to a server over QUIC.
///
/// # Errors
/// The authorities are of no use to the verifier.
pub fn over_quic(identity: &ServerIdentity, settings: &ClientSettings) -> Result<Encryption, Error> {
    let (verifier, name) = Verifier::new(identity)?;
    let note = |verdict: Result<(), &Error>| VERDICT.set(Some(verdict.map_err(fault)));
    let verifier = NotingVerifier::new(verifier, note);
    let described = identity.described() + &settings.described();
    // QUIC has TLS 1.3 alone.
    let settings = ClientSettings { newest_only: true, ..settings.clone() };
    let crypto = client_config(Arc::new(verifier), &settings, DOQ)?;
    let crypto = QuicClientConfig::try_from(crypto).map_err(|error| Error::General(error.to_string()))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport_config()));
    // Tokens of earlier connections: knotd of Knot DNS 3.5 takes one for that of a Retry, and the handshake
    // fails. They would save a round trip where a server asks for one.
    config.token_store(Arc::new(NoneTokenStore));
    let endpoint = Arc::new(EndpointConfig::default());
    let begin = move |to: SocketAddr, now: Instant| {
        // Without a name, the address keeps the tickets of servers apart; it is not sent.
        let name = name.clone().unwrap_or_else(|| ServerName::IpAddress(to.ip().into()));
        let mut endpoint = Endpoint::new(Arc::clone(&endpoint), None, false, None);
        let connected = endpoint.connect(now, config.clone(), to, &name.to_str());
        let (handle, connection) = connected.map_err(|_| EncryptionFault::Quic)?;
        Ok(Box::new(QuicSession::new(endpoint, handle, connection, to)) as Box<dyn StreamedSession>)
    };
    Ok(Encryption::streamed(Transport::Quic, described, identity.to_string(), begin))
}

fn transport_config() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        // The server opens no streams.
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        .max_idle_timeout(IdleTimeout::try_from(MAX_SILENCE).ok())
        // Packets of 1,200 bytes pass everywhere, and queries are shorter.
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .datagram_receive_buffer_size(None)
        .datagram_send_buffer_size(0);
    transport
}

/// A query in flight.
struct QuicExchange {
    /// The ID of the query.
    id: u16,
    stream: StreamId,
    /// The query after its length, as far as it is not written.
    unsent: Vec<u8>,
    received: Vec<u8>,
}

/// One connection's session.
struct QuicSession {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    to: SocketAddr,
    /// Whether the server's certificate was accepted; `None` if it has shown none, as in a resumed session.
    verdict: Option<Result<(), EncryptionFault>>,
    established: bool,
    /// Queries that wait for the handshake, or for the server to allow another stream.
    queued: VecDeque<(u16, Vec<u8>)>,
    exchanges: Vec<QuicExchange>,
    events: VecDeque<StreamedEvent>,
    ended: bool,
}

impl QuicSession {
    fn new(endpoint: Endpoint, handle: ConnectionHandle, connection: Connection, to: SocketAddr) -> Self {
        QuicSession {
            endpoint,
            handle,
            connection,
            to,
            verdict: None,
            established: false,
            queued: VecDeque::new(),
            exchanges: Vec::new(),
            events: VecDeque::new(),
            ended: false,
        }
    }

    /// Ends the session with an event, unless it has ended.
    fn end(&mut self, event: StreamedEvent) {
        if !std::mem::replace(&mut self.ended, true) {
            self.events.push_back(event);
        }
    }

    /// Handles what the connection reports, and sends queued queries.
    fn drive(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.established = true;
                    let resumed = self.verdict.is_none();
                    self.events.push_back(StreamedEvent::Established { resumed });
                }
                Event::ConnectionLost { reason } => {
                    let event = self.lost(&reason);
                    self.end(event);
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                Event::Stream(StreamEvent::Writable { id }) => self.write(id),
                Event::Stream(StreamEvent::Stopped { id, .. }) => self.fail(id, EncryptionFault::QuicReset),
                // The handshake's data, and further streams, for which all queued queries are tried below.
                _ => {}
            }
        }
        self.send_queued();
    }

    /// Opens streams for queued queries, as many as the server allows.
    fn send_queued(&mut self) {
        while self.established
            && !self.ended
            && !self.queued.is_empty()
            && let Some(stream) = self.connection.streams().open(Dir::Bi)
            && let Some((id, unsent)) = self.queued.pop_front()
        {
            self.exchanges.push(QuicExchange { id, stream, unsent, received: Vec::new() });
            self.write(stream);
        }
    }

    /// Writes the rest of a query, as much as the server allows, and ends the stream's sending half.
    fn write(&mut self, stream: StreamId) {
        let Some(exchange) = self.exchanges.iter_mut().find(|exchange| exchange.stream == stream) else {
            return;
        };
        let mut sending = self.connection.send_stream(stream);
        while !exchange.unsent.is_empty() {
            match sending.write(&exchange.unsent) {
                Ok(len) => drop(exchange.unsent.drain(..len)),
                // The stream is writable later, or its end is reported.
                Err(_) => return,
            }
        }
        // The end of a stream that was stopped is reported.
        let _ = sending.finish();
    }

    /// Reads what has arrived on a stream.
    fn read(&mut self, stream: StreamId) {
        let Some(index) = self.exchanges.iter().position(|exchange| exchange.stream == stream) else {
            return;
        };
        let exchange = &mut self.exchanges[index];
        let mut receiving = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return };
        let outcome = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) if exchange.received.len() + chunk.bytes.len() <= STREAM_WINDOW as usize => {
                    exchange.received.extend_from_slice(&chunk.bytes);
                }
                Ok(Some(_)) => break Some(Err(EncryptionFault::QuicMessage)),
                Ok(None) => break Some(message(exchange.id, &exchange.received)),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(_)) => break Some(Err(EncryptionFault::QuicReset)),
            }
        };
        // The output has what the server is to know about this.
        let _ = chunks.finalize();
        match outcome {
            None => {}
            Some(Ok(message)) => {
                self.exchanges.swap_remove(index);
                self.events.push_back(StreamedEvent::Response(message));
            }
            Some(Err(fault)) => self.fail(stream, fault),
        }
    }

    /// Ends the exchange of a stream.
    fn fail(&mut self, stream: StreamId, fault: EncryptionFault) {
        if let Some(exchange) = self.take(stream) {
            self.events.push_back(StreamedEvent::Failed { id: exchange.id, fault: Some(fault) });
        }
    }

    /// Removes the exchange of a stream, and cancels the stream.
    fn take(&mut self, stream: StreamId) -> Option<QuicExchange> {
        let index = self.exchanges.iter().position(|exchange| exchange.stream == stream)?;
        // Each half may have ended already.
        let _ = self.connection.send_stream(stream).reset(REQUEST_CANCELLED);
        let _ = self.connection.recv_stream(stream).stop(REQUEST_CANCELLED);
        Some(self.exchanges.swap_remove(index))
    }

    /// Returns the event for the end of the connection.
    fn lost(&self, reason: &ConnectionError) -> StreamedEvent {
        let is_crypto = |code: TransportErrorCode| (0x100..0x200).contains(&u64::from(code));
        match reason {
            ConnectionError::TransportError(error) => match self.verdict {
                Some(Err(fault)) => StreamedEvent::Insecure(fault),
                _ if is_crypto(error.code) => StreamedEvent::Insecure(EncryptionFault::Protocol),
                _ => StreamedEvent::Insecure(EncryptionFault::Quic),
            },
            ConnectionError::ConnectionClosed(close) if is_crypto(close.error_code) => {
                StreamedEvent::Insecure(EncryptionFault::Alert)
            }
            ConnectionError::ConnectionClosed(close)
                if self.established && close.error_code == TransportErrorCode::NO_ERROR =>
            {
                StreamedEvent::Ended(io::ErrorKind::UnexpectedEof)
            }
            ConnectionError::ApplicationClosed(close)
                if self.established && [NO_ERROR, EXCESSIVE_LOAD].contains(&close.error_code) =>
            {
                StreamedEvent::Ended(io::ErrorKind::UnexpectedEof)
            }
            ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => {
                StreamedEvent::Insecure(EncryptionFault::QuicClosed)
            }
            ConnectionError::VersionMismatch => StreamedEvent::Insecure(EncryptionFault::QuicVersion),
            ConnectionError::Reset => StreamedEvent::Ended(io::ErrorKind::ConnectionReset),
            ConnectionError::TimedOut => StreamedEvent::Ended(io::ErrorKind::TimedOut),
            ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => {
                StreamedEvent::Ended(io::ErrorKind::ConnectionAborted)
            }
        }
    }
}

/// Returns the message of a stream that has ended, with the ID of its query.
fn message(id: u16, received: &[u8]) -> Result<Vec<u8>, EncryptionFault> {
    match received.split_first_chunk::<LENGTH_BYTES>() {
        Some((length, message))
            if usize::from(u16::from_be_bytes(*length)) == message.len()
                && message.len() >= HEADER_BYTES
                && message.starts_with(&[0, 0]) =>
        {
            let mut message = message.to_vec();
            message[..2].copy_from_slice(&id.to_be_bytes());
            Ok(message)
        }
        _ => Err(EncryptionFault::QuicMessage),
    }
}

impl StreamedSession for QuicSession {
    fn send(&mut self, query: &[u8], _: Instant) {
        let Some((&id, rest)) = query.split_first_chunk::<2>() else { return };
        let Ok(length) = u16::try_from(query.len()) else { return };
        let unsent = [&length.to_be_bytes(), &[0, 0], rest].concat();
        self.queued.push_back((u16::from_be_bytes(id), unsent));
        self.drive();
    }

    fn cancel(&mut self, id: u16, _: Instant) {
        self.queued.retain(|(queued, _)| *queued != id);
        let stream = self.exchanges.iter().find(|exchange| exchange.id == id).map(|exchange| exchange.stream);
        if let Some(stream) = stream {
            self.take(stream);
        }
        self.drive();
    }

    fn receive(&mut self, received: &[u8], now: Instant) {
        VERDICT.set(None);
        // The connection has one path: its datagrams come from one address.
        let event = self.endpoint.handle(now, self.to, None, None, BytesMut::from(received), &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        self.verdict = VERDICT.take().or(self.verdict);
        self.drive();
    }

    fn event(&mut self) -> Option<StreamedEvent> {
        self.events.pop_front()
    }

    fn output(&mut self, bytes: &mut Vec<u8>, now: Instant) -> bool {
        self.connection.poll_transmit(now, 1, bytes).is_some()
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    fn timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
        self.drive();
    }

    fn close(&mut self, now: Instant) {
        self.connection.close(now, NO_ERROR, Bytes::new());
    }
}
