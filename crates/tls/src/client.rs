//! TLS to other DNS servers (RFC 7858): how a server is authenticated (RFC 8310), and the sessions of its
//! connections, without sockets.
//!
//! A server is authenticated by its name, by its key, or by both; or it is not authenticated at all, which
//! protects only from observers (RFC 8310 §5). A session that is resumed was authenticated when it began.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::digest::SHA256_OUTPUT_LEN;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind,
    OtherError, RootCertStore, SignatureScheme,
};
use transport::{EncryptedSession, Encryption, EncryptionFault, SessionState};
use wire::text::write_base64;

use crate::certificate::ServerCertificate;
use crate::pin::sha256;
pub use crate::pin::{KeyPin, PinFault};
use crate::provider;

/// The name of DNS over TLS in the handshake, by which one port can serve several protocols (RFC 7301).
const ALPN: &[u8] = b"dot";

/// The name of a server, as in its certificate: of a host, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    name: ServerName<'static>,
    shown: String,
}

/// A text is not the name of a host, and not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHostName;

impl FromStr for HostName {
    type Err = NoHostName;

    /// Reads a name; a final dot is left out (RFC 6066 §3).
    fn from_str(text: &str) -> Result<Self, NoHostName> {
        let lower = text.to_ascii_lowercase();
        let bare = lower.strip_suffix('.').unwrap_or(&lower);
        let name = ServerName::try_from(bare).map_err(|_| NoHostName)?.to_owned();
        Ok(HostName { name, shown: bare.to_owned() })
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The CA certificates of a file or of the system, which authenticate servers by their names.
#[derive(Clone, Debug)]
pub struct Authorities {
    roots: Arc<RootCertStore>,
    digest: [u8; SHA256_OUTPUT_LEN],
}

impl PartialEq for Authorities {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}
impl Eq for Authorities {}

impl Authorities {
    /// Returns these certificates.
    pub fn new(roots: RootCertStore) -> Self {
        let mut all: Vec<Vec<u8>> = roots.roots.iter().map(|root| format!("{root:?}").into_bytes()).collect();
        // A folder has no order.
        all.sort_unstable();
        Authorities { digest: sha256(&all.concat()), roots: Arc::new(roots) }
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.roots)
    }
}

/// How a server is authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerIdentity {
    /// By all that is set, of which there is something.
    Authenticated {
        /// By its name: a CA has issued a certificate for it (RFC 8310 §8.1).
        name: Option<(HostName, Authorities)>,
        /// By its key, which is one of these; empty: any (RFC 7858 §4.2). It is the key of the server's own
        /// certificate: a chain without a name is not verified, so its other keys prove nothing.
        pins: Vec<KeyPin>,
    },
    /// Not at all: any server that answers can read the queries (RFC 8310 §5).
    Opportunistic,
}

/// Settings of connections to a server besides its identity.
#[derive(Clone, Debug, Default)]
pub struct ClientSettings {
    /// TLS 1.3 alone, as zone transfers need it (RFC 9103 §7.1). Otherwise also TLS 1.2.
    pub newest_only: bool,
    /// The certificate for servers that ask for one (mutual TLS).
    pub certificate: Option<Arc<ServerCertificate>>,
    /// The connections go to many servers, as those to authoritative servers do: more sessions are kept for
    /// resumption.
    pub many_servers: bool,
}

impl ClientSettings {
    /// Returns all that decides what a server sees of this client, to tell encryptions apart.
    pub(crate) fn described(&self) -> String {
        let mut text = String::new();
        if self.newest_only {
            text.push_str(" with TLS 1.3");
        }
        if let Some(certificate) = &self.certificate {
            text.push_str(" as ");
            let own = certificate.chain().first().map(|own| sha256(own)).unwrap_or_default();
            let _ = write_base64(&own, &mut text);
        }
        if self.many_servers {
            text.push_str(" to many servers");
        }
        text
    }
}

/// Returns the encryption of connections to a server.
///
/// # Errors
/// The authorities are of no use to the verifier.
pub fn encryption(identity: &ServerIdentity, settings: &ClientSettings) -> Result<Encryption, Error> {
    let (verifier, name) = Verifier::new(identity)?;
    let config = Arc::new(client_config(Arc::new(verifier), settings, ALPN)?);
    let begin = move |to: SocketAddr| {
        let connection = connection(&config, name.as_ref(), to)?;
        Ok(Box::new(ClientSession { connection }) as Box<dyn EncryptedSession>)
    };
    let described = identity.described() + &settings.described();
    Ok(Encryption::new(described, identity.to_string(), begin))
}

/// Returns the settings of connections with this application protocol, which share their tickets.
pub(crate) fn client_config(
    verifier: Arc<dyn ServerCertVerifier>,
    settings: &ClientSettings,
    alpn: &[u8],
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = match settings.newest_only {
        true => builder.with_protocol_versions(&[&rustls::version::TLS13])?,
        false => builder.with_safe_default_protocol_versions()?,
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match &settings.certificate {
        Some(own) => {
            let resolver = SingleCertAndKey::from(Arc::clone(&own.certified));
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = rustls::client::Resumption::in_memory_sessions(match settings.many_servers {
        true => MANY_SESSIONS,
        false => SESSIONS,
    });
    Ok(config)
}

/// Returns the TLS connection to a server of this name, at this address.
pub(crate) fn connection(
    config: &Arc<ClientConfig>,
    name: Option<&ServerName<'static>>,
    to: SocketAddr,
) -> Result<ClientConnection, EncryptionFault> {
    // Without a name, the address keeps the tickets of servers apart; it is not sent.
    let name = name.cloned().unwrap_or_else(|| ServerName::IpAddress(to.ip().into()));
    let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(|e| fault(&e))?;
    // The core bounds what waits for the handshake.
    connection.set_buffer_limit(None);
    Ok(connection)
}

impl ServerIdentity {
    /// Returns all that decides which servers are accepted.
    pub(crate) fn described(&self) -> String {
        let mut text = self.to_string();
        if let ServerIdentity::Authenticated { name: Some((_, authorities)), .. } = self {
            text.push_str(" by ");
            let _ = write_base64(&authorities.digest, &mut text);
        }
        text
    }
}

/// As in the configuration: `dns.example.net`, `sha256/` and a pin, or `opportunistic`.
impl fmt::Display for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerIdentity::Opportunistic => f.write_str("opportunistic"),
            ServerIdentity::Authenticated { name, pins } => {
                let mut separator = "";
                if let Some((name, _)) = name {
                    name.fmt(f)?;
                    separator = ",";
                }
                for pin in pins {
                    write!(f, "{separator}sha256/{pin}")?;
                    separator = ",";
                }
                Ok(())
            }
        }
    }
}

/// Sessions that can be resumed, of one server.
const SESSIONS: usize = 8;
/// Sessions that can be resumed, of up to 256 servers.
const MANY_SESSIONS: usize = 256 * SESSIONS;

/// Accepts the certificates of one server.
#[derive(Debug)]
pub(crate) struct Verifier {
    by_name: Option<Arc<WebPkiServerVerifier>>,
    /// Empty: any key.
    pins: Vec<KeyPin>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The key of a certificate is not pinned.
#[derive(Debug)]
struct OtherKey;

impl fmt::Display for OtherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key matches no pin")
    }
}
impl std::error::Error for OtherKey {}

impl Verifier {
    /// Returns the verifier of an identity, and the name for the handshake.
    pub(crate) fn new(identity: &ServerIdentity) -> Result<(Self, Option<ServerName<'static>>), Error> {
        let algorithms = provider().signature_verification_algorithms;
        let mut verifier = Verifier { by_name: None, pins: Vec::new(), algorithms };
        let ServerIdentity::Authenticated { name, pins } = identity else { return Ok((verifier, None)) };
        verifier.pins.clone_from(pins);
        let Some((name, authorities)) = name else { return Ok((verifier, None)) };
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::clone(&authorities.roots), provider());
        let by_name = builder.build().map_err(|error| Error::Other(OtherError(Arc::new(error))))?;
        verifier.by_name = Some(by_name);
        Ok((verifier, Some(name.name.clone())))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(by_name) = &self.by_name {
            by_name.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        }
        if !self.pins.is_empty() && !self.pins.contains(&KeyPin::of(end_entity)?) {
            let other = OtherError(Arc::new(OtherKey));
            return Err(Error::InvalidCertificate(CertificateError::Other(other)));
        }
        Ok(ServerCertVerified::assertion())
    }

    // The server must prove that it has the key of its certificate: without that, a pin authenticates
    // nothing.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// One connection's session.
struct ClientSession {
    connection: ClientConnection,
}

impl EncryptedSession for ClientSession {
    fn receive(&mut self, received: &[u8], plain: &mut Vec<u8>) -> Result<SessionState, EncryptionFault> {
        decrypt(&mut self.connection, received, plain)
    }

    fn send(&mut self, plain: &[u8]) {
        // Without a limit its buffer takes all.
        let _ = self.connection.writer().write_all(plain);
    }

    fn output(&mut self, bytes: &mut Vec<u8>) {
        take_output(&mut self.connection, bytes);
    }

    fn close(&mut self) {
        self.connection.send_close_notify();
    }
}

/// Passes received bytes through a connection, and appends what they decrypt to.
pub(crate) fn decrypt(
    connection: &mut ClientConnection,
    mut received: &[u8],
    plain: &mut Vec<u8>,
) -> Result<SessionState, EncryptionFault> {
    while !received.is_empty() {
        match connection.read_tls(&mut received) {
            // It takes no more after the server has ended the session.
            Ok(0) => break,
            Ok(_) => {}
            // What is decrypted is read each time, so only a message of the handshake can be too long.
            Err(_) => return Err(EncryptionFault::Protocol),
        }
        let processed = connection.process_new_packets();
        if read_all(&mut connection.reader(), plain) {
            return Ok(SessionState::Closed);
        }
        processed.map_err(|error| fault(&error))?;
    }
    if connection.is_handshaking() {
        return Ok(SessionState::Handshake);
    }
    let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
    Ok(SessionState::Established { resumed })
}

/// Appends the bytes that the socket has to send now.
pub(crate) fn take_output(connection: &mut ClientConnection, bytes: &mut Vec<u8>) {
    while connection.wants_write() {
        // Writing to memory does not fail.
        let Ok(1..) = connection.write_tls(bytes) else { return };
    }
}

/// Appends all that has been decrypted. Returns whether the server has ended the session in order.
fn read_all(reader: &mut impl Read, plain: &mut Vec<u8>) -> bool {
    match reader.read_to_end(plain) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Returns why a session failed.
pub(crate) fn fault(error: &Error) -> EncryptionFault {
    match error {
        Error::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                EncryptionFault::CertificateExpired
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                EncryptionFault::CertificateNotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                EncryptionFault::WrongName
            }
            CertificateError::UnknownIssuer => EncryptionFault::UnknownIssuer,
            CertificateError::Other(OtherError(other)) if other.is::<OtherKey>() => EncryptionFault::WrongPin,
            CertificateError::Other(OtherError(other))
                if other.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity) =>
            {
                EncryptionFault::CaCertificate
            }
            _ => EncryptionFault::BadCertificate,
        },
        Error::AlertReceived(_) => EncryptionFault::Alert,
        Error::InvalidMessage(_) => EncryptionFault::NotTls,
        _ => EncryptionFault::Protocol,
    }
}
