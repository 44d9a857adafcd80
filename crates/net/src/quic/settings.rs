//! The settings of QUIC, with the bounds of one connection that have no key, and the error codes of DNS over
//! QUIC.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, io};

use quinn::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use rustls::server::ProducesTickets;
use transport::Transport;

use crate::config::{ListenerConfig, TcpConfig};
use crate::running::ListenerTls;
use crate::stats::WorkerStats;

/// Most streams of a connection at a time.
const MAX_STREAMS: u32 = 100;
/// Unidirectional streams that a client may open. The first one is an error that ends a connection of DNS
/// over QUIC, and is reported as such, which a limit of 0 would not do.
const MAX_UNIDIRECTIONAL: u32 = 1;
/// The same where HTTP/3 is served, which needs three; others are refused one by one.
const MAX_UNIDIRECTIONAL_H3: u32 = 8;
/// The application protocols of DNS over QUIC (RFC 9250 §4.1.1) and HTTP/3 (RFC 9114 §3.1).
const DOQ: &[u8] = b"doq";
pub(super) const H3: &[u8] = b"h3";
/// Bytes of a stream and of a connection that a client may send before they are read.
const STREAM_WINDOW: u32 = 16 * 1024;
const CONNECTION_WINDOW: u32 = 64 * 1024;
/// Time without a packet after which both sides forget a connection. `tcp-idle-timeout` is about queries and
/// mostly shorter; this is for clients that are gone, and longer than any query takes.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Connections that wait to be admitted, and the bytes of their first packets, of each and of all. They wait
/// while the worker answers one batch.
const MAX_INCOMING: usize = 1024;
const INCOMING_BYTES: u64 = 16 * 1024;
const ALL_INCOMING_BYTES: u64 = 1 << 20;
/// Most pending handshakes of a listener with clients whose addresses may be forged.
const MAX_UNVALIDATED: usize = 32;

/// The error codes of RFC 9250 §8.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum DoqCode {
    /// DOQ_NO_ERROR: the connection or stream is not needed any more.
    NoError = 0,
    /// DOQ_INTERNAL_ERROR: the server cannot complete an answer.
    Internal = 1,
    /// DOQ_PROTOCOL_ERROR: the client broke the rules.
    Protocol = 2,
    /// DOQ_REQUEST_CANCELLED: the client has no use for the answer.
    Cancelled = 3,
    /// DOQ_EXCESSIVE_LOAD: the client takes more than there is room for.
    ExcessiveLoad = 4,
    /// DOQ_UNSPECIFIED_ERROR: a query that gets no answer.
    Unspecified = 5,
}

impl DoqCode {
    pub(super) const fn value(self) -> VarInt {
        VarInt::from_u32(self as u32)
    }
}

/// What the workers of a listener share: the keys of tokens and of stateless resets, by which any of them can
/// answer a client of another, and the number of pending handshakes with unvalidated addresses.
#[derive(Clone)]
pub(crate) struct QuicShared {
    endpoint: EndpointConfig,
    server: ServerConfig,
    unvalidated: Arc<AtomicUsize>,
}

impl QuicShared {
    /// Returns the state of a listener with these settings of TLS.
    ///
    /// # Errors
    /// There are no settings of TLS, or they cannot be used for QUIC.
    pub(crate) fn new(tls: Option<&ListenerTls>) -> io::Result<Self> {
        let tls = tls.ok_or(io::ErrorKind::InvalidInput)?;
        let crypto = QuicServerConfig::try_from(Arc::clone(&tls.quic)).map_err(io::Error::other)?;
        Ok(QuicShared {
            endpoint: EndpointConfig::default(),
            server: ServerConfig::with_crypto(Arc::new(crypto)),
            unvalidated: Arc::default(),
        })
    }

    pub(super) fn endpoint(&self) -> EndpointConfig {
        self.endpoint.clone()
    }

    /// Returns the settings of one worker, which counts resumed sessions in `stats`.
    ///
    /// # Errors
    /// The settings of TLS cannot be used for QUIC.
    pub(super) fn server(
        &self,
        tls: &rustls::ServerConfig,
        (transport, config): (Transport, &ListenerConfig),
        stats: &Arc<WorkerStats>,
    ) -> Result<ServerConfig, NoInitialCipherSuite> {
        let mut tls = tls.clone();
        let protocols: &[&[u8]] = match transport {
            Transport::H3 => &[H3],
            _ if config.with_h3 => &[DOQ, H3],
            _ => &[DOQ],
        };
        tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let tickets = Arc::clone(&tls.ticketer);
        tls.ticketer = Arc::new(CountedTickets { tickets, stats: Arc::clone(stats) });
        let mut server = self.server.clone();
        server.crypto = Arc::new(QuicServerConfig::try_from(tls)?);
        server.transport_config(Arc::new(transport_config(&config.tcp, protocols.contains(&H3))));
        // Access rules go by the address of the client, so that it has to stay the same.
        server.migration(false);
        server.max_incoming(MAX_INCOMING);
        server.incoming_buffer_size(INCOMING_BYTES);
        server.incoming_buffer_size_total(ALL_INCOMING_BYTES);
        Ok(server)
    }

    /// Returns the place of a handshake with a client whose address may be forged; `None` if the client has
    /// to show first that it is not. `per_client`: the limit of connections of one client. Forged addresses
    /// take at most half of it from a client.
    pub(super) fn begin_unvalidated(&self, per_client: usize) -> Option<Unvalidated> {
        let most = MAX_UNVALIDATED.min(per_client / 2);
        let before = self.unvalidated.fetch_add(1, Ordering::Relaxed);
        let place = Unvalidated(Arc::clone(&self.unvalidated));
        (before < most).then_some(place)
    }
}

/// The place of a pending handshake with a client whose address may be forged.
pub(super) struct Unvalidated(Arc<AtomicUsize>);

impl Drop for Unvalidated {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn transport_config(config: &TcpConfig, has_h3: bool) -> TransportConfig {
    let unidirectional = if has_h3 { MAX_UNIDIRECTIONAL_H3 } else { MAX_UNIDIRECTIONAL };
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(unidirectional))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(config.max_unsent as u64)
        .max_idle_timeout(IdleTimeout::try_from(MAX_SILENCE).ok())
        // No QUIC datagrams (RFC 9221).
        .datagram_receive_buffer_size(None)
        .datagram_send_buffer_size(0);
    transport
}

/// Session tickets, of which those that clients come back with are counted.
struct CountedTickets {
    tickets: Arc<dyn ProducesTickets>,
    stats: Arc<WorkerStats>,
}

impl fmt::Debug for CountedTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountedTickets")
    }
}

impl ProducesTickets for CountedTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let plain = self.tickets.decrypt(cipher);
        // rustls tries no further ticket. It runs on the thread that owns the counters.
        self.stats.tls_resumed.add(u64::from(plain.is_some()));
        plain
    }
}
