//! Settings of TLS and QUIC, and endpoints. The clients accept every certificate, do not verify the signature
//! of the handshake and resume no session, so that they take less CPU than the server.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, EndpointConfig, Runtime, TokioRuntime, TransportConfig, VarInt};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

use crate::muted::MutedSocket;

/// The server name of all handshakes.
pub(crate) const SERVER_NAME: &str = "dns.test";
/// Interval of packets that keep a connection. Servers forget silent ones after 30 seconds.
const KEPT_BY: Duration = Duration::from_secs(20);

/// Accepts every certificate.
#[derive(Debug)]
struct AcceptAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the settings of a client with this application protocol. `windows`: bytes that the server may send
/// on a stream, and on the connection, before they are read.
///
/// # Errors
/// The settings cannot be used.
pub(crate) fn client(protocol: &[u8], windows: Option<(u32, u32)>) -> io::Result<ClientConfig> {
    // The same key exchange with all servers.
    let provider =
        CryptoProvider { kx_groups: vec![aws_lc_rs::kx_group::X25519], ..aws_lc_rs::default_provider() };
    let provider = Arc::new(provider);
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder =
        builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(io::Error::other)?.dangerous();
    let mut tls =
        builder.with_custom_certificate_verifier(Arc::new(AcceptAll(provider))).with_no_client_auth();
    tls.alpn_protocols = vec![protocol.to_vec()];
    tls.resumption = Resumption::disabled();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).map_err(io::Error::other)?));
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(KEPT_BY)).mtu_discovery_config(None);
    if let Some((stream, connection)) = windows {
        transport.stream_receive_window(VarInt::from_u32(stream));
        transport.receive_window(VarInt::from_u32(connection));
    }
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Returns an endpoint with a socket of this address. `is_muted`: no handshake of it goes on.
///
/// # Errors
/// There is no socket.
pub(crate) fn endpoint(from: SocketAddr, is_muted: bool) -> io::Result<Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    let mut socket = runtime.wrap_udp_socket(UdpSocket::bind(from)?)?;
    if is_muted {
        socket = Arc::new(MutedSocket(socket));
    }
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, runtime)
}
