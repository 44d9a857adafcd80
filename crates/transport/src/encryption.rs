//! Encryption of connections to other servers, without I/O: what the decider of a link, its driver and the
//! cryptography pass to each other. `tls` has the cryptography; neither a core nor `net` depends on it.
//!
//! There are two kinds of connections. The messages of an [`EncryptedSession`] (TLS) follow each other, each
//! after its length. A [`StreamedSession`] (HTTPS, QUIC) has a stream of its own for each query and its
//! response, so that it is about messages and not about bytes. One of Oblivious DoH (RFC 9230) leads to a
//! proxy; the key that its queries are encrypted to may come from a [`TargetKeyServer`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::Transport;

/// Begins the session of one connection to this address.
type Begin = dyn Fn(SocketAddr) -> Result<Box<dyn EncryptedSession>, EncryptionFault> + Send + Sync;
/// The same for a connection with streams, which begins now.
type BeginStreamed =
    dyn Fn(SocketAddr, Instant) -> Result<Box<dyn StreamedSession>, EncryptionFault> + Send + Sync;

/// Begins the sessions of one kind.
enum Sessions {
    Bytes(Box<Begin>),
    Streams(Transport, Box<BeginStreamed>),
}

/// The session of one connection.
pub enum ConnectionSession {
    /// Over TLS.
    Bytes(Box<dyn EncryptedSession>),
    /// Over HTTPS or QUIC.
    Streams(Box<dyn StreamedSession>),
}

/// How connections to a server are encrypted, and how the server is authenticated. Clones share one state,
/// such as tickets for resumption.
///
/// Two are equal if they encrypt and authenticate in the same way, which their [identity](Self::identity)
/// describes completely.
#[derive(Clone)]
pub struct Encryption(Arc<Inner>);

struct Inner {
    identity: String,
    shown: String,
    sessions: Sessions,
    /// For Oblivious DoH; otherwise `None`.
    oblivious: Option<KeySource>,
}

/// Where the key of a target of Oblivious DoH comes from.
enum KeySource {
    /// It is configured.
    Configured,
    /// It is fetched from this server.
    Fetched(TargetKeyServer),
}

/// The server that the key of a target of Oblivious DoH is fetched from: the target itself.
#[derive(Clone, Debug)]
pub struct TargetKeyServer {
    /// Its address and port.
    pub address: SocketAddr,
    /// The encryption of connections to it. Their sessions fetch the key once, without a query: it is stored
    /// when they report a [response](StreamedEvent::Response), which is empty. Every other event but
    /// [`Established`](StreamedEvent::Established) means that it is not fetched.
    pub encryption: Encryption,
}

impl Encryption {
    /// Returns the encryption over TLS whose sessions `begin` makes. `identity` describes all that decides
    /// which servers a session accepts, and `shown` the same for operators, in a few words.
    pub fn new(
        identity: String,
        shown: String,
        begin: impl Fn(SocketAddr) -> Result<Box<dyn EncryptedSession>, EncryptionFault> + Send + Sync + 'static,
    ) -> Self {
        let sessions = Sessions::Bytes(Box::new(begin));
        Encryption(Arc::new(Inner { identity, shown, sessions, oblivious: None }))
    }

    /// Returns the encryption over `transport`, HTTPS or QUIC, whose sessions `begin` makes.
    pub fn streamed(
        transport: Transport,
        identity: String,
        shown: String,
        begin: impl Fn(SocketAddr, Instant) -> Result<Box<dyn StreamedSession>, EncryptionFault>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let sessions = Sessions::Streams(transport, Box::new(begin));
        Encryption(Arc::new(Inner { identity, shown, sessions, oblivious: None }))
    }

    /// Returns the encryption of Oblivious DoH (RFC 9230), over HTTPS to a proxy. If the key of the target is
    /// not configured, it is fetched from `keys`, whenever a session reports
    /// [`KeyWanted`](StreamedEvent::KeyWanted).
    pub fn oblivious(
        identity: String,
        shown: String,
        keys: Option<TargetKeyServer>,
        begin: impl Fn(SocketAddr, Instant) -> Result<Box<dyn StreamedSession>, EncryptionFault>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let sessions = Sessions::Streams(Transport::Https, Box::new(begin));
        let oblivious = Some(keys.map_or(KeySource::Configured, KeySource::Fetched));
        Encryption(Arc::new(Inner { identity, shown, sessions, oblivious }))
    }

    /// Whether queries are encrypted to a target behind a proxy (Oblivious DoH).
    pub fn is_oblivious(&self) -> bool {
        self.0.oblivious.is_some()
    }

    /// Returns the server that the key of the target is fetched from; `None` without one.
    pub fn key_server(&self) -> Option<&TargetKeyServer> {
        match &self.0.oblivious {
            Some(KeySource::Fetched(server)) => Some(server),
            Some(KeySource::Configured) | None => None,
        }
    }

    /// Returns the transport of its connections: TLS, HTTPS or QUIC.
    pub fn transport(&self) -> Transport {
        match self.0.sessions {
            Sessions::Bytes(_) => Transport::Tls,
            Sessions::Streams(transport, _) => transport,
        }
    }

    /// Whether each query has a stream of its own.
    pub fn is_streamed(&self) -> bool {
        matches!(self.0.sessions, Sessions::Streams(..))
    }

    /// Returns the description that equality is about.
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Begins the session of one connection over TLS to `to`. The handshake starts with its [output].
    ///
    /// # Errors
    /// The settings cannot be used for this address, or the connections have streams.
    ///
    /// [output]: EncryptedSession::output
    pub fn begin(&self, to: SocketAddr) -> Result<Box<dyn EncryptedSession>, EncryptionFault> {
        match &self.0.sessions {
            Sessions::Bytes(begin) => begin(to),
            Sessions::Streams(..) => Err(EncryptionFault::Protocol),
        }
    }

    /// Begins the session of one connection to `to`, of whichever kind.
    ///
    /// # Errors
    /// The settings cannot be used for this address.
    pub fn session(&self, to: SocketAddr, now: Instant) -> Result<ConnectionSession, EncryptionFault> {
        match &self.0.sessions {
            Sessions::Bytes(begin) => begin(to).map(ConnectionSession::Bytes),
            Sessions::Streams(_, begin) => begin(to, now).map(ConnectionSession::Streams),
        }
    }
}

impl PartialEq for Encryption {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.transport() == other.transport() && self.0.identity == other.0.identity)
    }
}
impl Eq for Encryption {}

impl Hash for Encryption {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.identity.hash(state);
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encryption").field(&self.0.identity).finish()
    }
}

/// How the server is authenticated: `dns.example.net`, or `opportunistic`.
impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.shown)
    }
}

/// The encryption of one connection. Its user moves bytes between it and a socket.
pub trait EncryptedSession: Send {
    /// Processes bytes received from the socket, and appends what they decrypt to.
    ///
    /// # Errors
    /// The session has ended. What was decrypted before has been appended; [`output`](Self::output) may have
    /// an alert for the server.
    fn receive(&mut self, received: &[u8], plain: &mut Vec<u8>) -> Result<SessionState, EncryptionFault>;

    /// Encrypts bytes. Before the handshake is complete they wait for its end.
    fn send(&mut self, plain: &[u8]);

    /// Appends the bytes that the socket has to send now.
    fn output(&mut self, bytes: &mut Vec<u8>);

    /// Ends the session in order: the output then has the alert for the server.
    fn close(&mut self);
}

/// The encryption and the streams of one connection. Each query has a stream, and its message ID is 0 there
/// (RFC 8484 §4.1, RFC 9250 §4.2.1); the IDs that its user sees tell the queries in flight apart.
///
/// Its user moves bytes, or datagrams, between it and a socket. After each other call it takes all
/// [events](Self::event) and sends all [output](Self::output).
pub trait StreamedSession: Send {
    /// Sends a query, or queues it until the connection is open and the server allows one more stream.
    fn send(&mut self, query: &[u8], now: Instant);

    /// Cancels the query with this ID, if it is in flight: its response is not wanted any more.
    fn cancel(&mut self, id: u16, now: Instant);

    /// Processes bytes of the connection, or one datagram.
    fn receive(&mut self, received: &[u8], now: Instant);

    /// Removes and returns the next event.
    fn event(&mut self) -> Option<StreamedEvent>;

    /// Appends bytes to send, of datagrams one. Returns whether there were any.
    fn output(&mut self, bytes: &mut Vec<u8>, now: Instant) -> bool;

    /// Returns when [`timeout`](Self::timeout) is to be called.
    fn deadline(&mut self) -> Option<Instant>;

    /// Handles the deadline.
    fn timeout(&mut self, now: Instant);

    /// Goes on after a [wanted key](StreamedEvent::KeyWanted) was fetched, or was not.
    fn resume(&mut self, _now: Instant) {}

    /// Ends the connection in order: the output then has the message for the server.
    fn close(&mut self, now: Instant);
}

/// An event of a [`StreamedSession`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamedEvent {
    /// The server is authenticated, and queries are sent.
    Established {
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// A response, with the ID of its query.
    Response(Vec<u8>),
    /// The query with this ID gets no response.
    Failed {
        /// The ID.
        id: u16,
        /// The reason; `None` if the server has not processed the query, which can be sent again on another
        /// connection.
        fault: Option<EncryptionFault>,
    },
    /// Queries wait for the target's key, or it soon ends: it is to be fetched from the
    /// [server](Encryption::key_server) that has it, if no other connection is doing so. Then
    /// [`resume`](StreamedSession::resume) is called.
    KeyWanted,
    /// The server takes no further queries on this connection. Those in flight are answered.
    Draining,
    /// The connection has ended, by an error of the network, or by the server in order.
    Ended(io::ErrorKind),
    /// The connection has ended: there is none with this server.
    Insecure(EncryptionFault),
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// The handshake is not complete: nothing has been authenticated, and no message can be sent.
    Handshake,
    /// The server is authenticated, and messages can be exchanged.
    Established {
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// The server has ended the session in order.
    Closed,
}

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident { $label:literal, $text:literal })*) => {
        /// Why there is no encrypted connection to a server, or no response on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EncryptionFault { $($(#[doc = $doc])* $name,)* }

        impl EncryptionFault {
            /// Every fault, in the order of [`index`](Self::index).
            pub const ALL: &[EncryptionFault] = &[$(EncryptionFault::$name,)*];

            /// Returns the fault's label in metrics.
            pub const fn label(self) -> &'static str {
                match self { $(EncryptionFault::$name => $label,)* }
            }

            /// Returns the fault in words that name the protocol, for operators and for clients.
            pub const fn text(self) -> &'static str {
                match self { $(EncryptionFault::$name => $text,)* }
            }
        }
    };
}

faults! {
    /// The certificate has expired.
    CertificateExpired { "certificate-expired", "TLS: the server's certificate has expired" }
    /// The certificate is not valid yet.
    CertificateNotYetValid { "certificate-not-yet-valid", "TLS: the server's certificate is not valid yet" }
    /// The certificate is for other names.
    WrongName { "wrong-name", "TLS: the server's certificate does not match its name" }
    /// No known authority has issued the certificate.
    UnknownIssuer { "unknown-issuer", "TLS: the server's certificate is from an unknown issuer" }
    /// The certificate is one of a CA, which servers must not have as their own (RFC 5280 §4.2.1.9).
    CaCertificate { "ca-certificate", "TLS: the server's certificate is one of a CA, not of a server" }
    /// The certificate has another key than those that are pinned.
    WrongPin { "wrong-pin", "TLS: the server's key matches no pin" }
    /// Another fault of the certificate, or of the signature with its key.
    BadCertificate { "bad-certificate", "TLS: the server's certificate cannot be accepted" }
    /// The server has refused the handshake or ended the session with an alert.
    Alert { "alert", "TLS: the server sent an alert" }
    /// The server has sent bytes that are not TLS.
    NotTls { "not-tls", "TLS: the server does not speak TLS" }
    /// The server has violated the protocol, or has no version and cipher in common with us.
    Protocol { "protocol", "TLS: no common protocol with the server" }
    /// The handshake has taken too long.
    HandshakeTimeout { "handshake-timeout", "TLS: handshake timeout" }
    /// The server has closed or reset the connection during the handshake.
    HandshakeClosed { "handshake-closed", "TLS: the server closed the connection during the handshake" }
    /// No server listens at the port.
    ConnectionRefused { "connection-refused", "TLS: connection refused" }
    /// There is no route to the server.
    Unreachable { "unreachable", "TLS: the server is unreachable" }
    /// The server has chosen another application protocol than HTTP/2, or none.
    NoHttp2 { "no-http2", "HTTPS: the server does not speak HTTP/2" }
    /// The server has violated HTTP/2.
    Http2 { "http2", "HTTPS: the server violated HTTP/2" }
    /// The status was 3xx. Redirections are not followed.
    HttpRedirect { "http-redirect", "HTTPS: the server redirects to another URL (status 3xx)" }
    /// The status was 401, 403 or 407.
    HttpForbidden { "http-forbidden", "HTTPS: the server does not serve this client (status 401 or 403)" }
    /// The status was 404 or 410.
    HttpNotFound { "http-not-found", "HTTPS: the server has no DNS at this path (status 404)" }
    /// The status was 429.
    HttpTooMany { "http-too-many", "HTTPS: too many requests for the server (status 429)" }
    /// The status was another 4xx.
    HttpRefused { "http-refused", "HTTPS: the server refused the request (status 4xx)" }
    /// The status was 5xx.
    HttpServer { "http-server", "HTTPS: the server failed (status 5xx)" }
    /// The status was another one than 200.
    HttpStatus { "http-status", "HTTPS: the status of the response is not 200" }
    /// The response has another type than application/dns-message.
    HttpType { "http-type", "HTTPS: the response is not a DNS message (content type)" }
    /// The response is too short or too long for a DNS message.
    HttpLength { "http-length", "HTTPS: the response has not the length of a DNS message" }
    /// The server has reset the stream of the query over HTTPS.
    HttpReset { "http-reset", "HTTPS: the server reset the stream of the query" }
    /// The server has violated QUIC, or the rules of DNS over QUIC.
    Quic { "quic", "QUIC: the server violated the protocol" }
    /// The server has closed the connection with an error.
    QuicClosed { "quic-closed", "QUIC: the server closed the connection with an error" }
    /// The server speaks another version of QUIC only.
    QuicVersion { "quic-version", "QUIC: no common version with the server" }
    /// The server has reset the stream of the query over QUIC.
    QuicReset { "quic-reset", "QUIC: the server reset the stream of the query" }
    /// The stream over QUIC has no complete DNS message, or more than one.
    QuicMessage { "quic-message", "QUIC: the response is not one DNS message" }
    /// The target cannot be reached, or not authenticated, to fetch its key.
    ObliviousTarget { "odoh-target", "ODoH: no secure connection to the target for its key" }
    /// The key of the target did not arrive in time.
    ObliviousTimeout { "odoh-timeout", "ODoH: timeout while waiting for the target's key" }
    /// The target has another status than 200 for its configurations.
    ObliviousNoConfigs { "odoh-no-configs", "ODoH: the target has no configurations (status is not 200)" }
    /// The configurations of the target are malformed, too long, or of no supported kind.
    ObliviousConfigs { "odoh-configs", "ODoH: the target's configurations cannot be used" }
    /// The target has another key: the status of a response was 401.
    ObliviousKey { "odoh-key", "ODoH: the target does not accept its key (status 401)" }
    /// The response has another type than application/oblivious-dns-message.
    ObliviousType { "odoh-type", "ODoH: the response is not an oblivious message (content type)" }
    /// The response was not encrypted by the target, or changed since.
    ObliviousResponse { "odoh-response", "ODoH: the response cannot be decrypted" }
    /// The query is too long, or the key of the target is none.
    ObliviousQuery { "odoh-query", "ODoH: the query cannot be encrypted" }
}

/// The number of faults: the length of tables with one entry per fault.
pub const ENCRYPTION_FAULTS: usize = EncryptionFault::ALL.len();

impl EncryptionFault {
    /// Returns the fault of an encrypted connection that ended with this error before it was open; `None` if
    /// the error is none of the network.
    pub const fn before_open(error: io::ErrorKind) -> Option<Self> {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
            NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof,
        };
        Some(match error {
            ConnectionRefused => Self::ConnectionRefused,
            HostUnreachable | NetworkUnreachable => Self::Unreachable,
            TimedOut => Self::HandshakeTimeout,
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof => {
                Self::HandshakeClosed
            }
            _ => return None,
        })
    }

    /// Returns the fault's index in tables of [`ENCRYPTION_FAULTS`] entries.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether another attempt soon would end in the same way: the server has completed its part of the
    /// handshake, and is not the one that is wanted, or it has answered a query with something else than a
    /// DNS message.
    pub const fn is_lasting(self) -> bool {
        use EncryptionFault::{
            Alert, ConnectionRefused, HandshakeClosed, HandshakeTimeout, Http2, HttpReset, NotTls,
            ObliviousTarget, ObliviousTimeout, Protocol, Quic, QuicClosed, QuicReset, Unreachable,
        };
        !matches!(
            self,
            Alert
                | ConnectionRefused
                | HandshakeClosed
                | HandshakeTimeout
                | Http2
                | HttpReset
                | NotTls
                | ObliviousTarget
                | ObliviousTimeout
                | Protocol
                | Quic
                | QuicClosed
                | QuicReset
                | Unreachable
        )
    }
}

impl fmt::Display for EncryptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
impl std::error::Error for EncryptionFault {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_fault_has_an_index_and_a_label_of_its_own_and_its_text_names_the_protocol() {
        let labels: HashSet<_> = EncryptionFault::ALL.iter().map(|fault| fault.label()).collect();
        assert_eq!(labels.len(), ENCRYPTION_FAULTS);
        for (index, fault) in EncryptionFault::ALL.iter().enumerate() {
            assert_eq!(fault.index(), index);
            let protocol = fault.text().split_once(": ").map(|(protocol, _)| protocol);
            assert!(matches!(protocol, Some("TLS" | "HTTPS" | "QUIC" | "ODoH")), "{fault:?}");
        }
    }

    #[test]
    fn two_are_equal_if_they_authenticate_in_the_same_way() {
        let of = |identity: &str| {
            Encryption::new(identity.into(), identity.into(), |_| Err(EncryptionFault::Protocol))
        };
        assert_eq!(of("dns.example"), of("dns.example"));
        assert_ne!(of("dns.example"), of("dns.example.net"));
    }
}
