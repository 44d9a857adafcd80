//! TLS to other DNS servers inside QUIC (RFC 9001, RFC 9250): settings that authenticate a server as
//! [`client`](crate::client) does.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use transport::EncryptionFault;

use crate::client::{ServerIdentity, Verifier, fault};
use crate::provider;

/// The application protocol of DNS over QUIC (RFC 9250 §4.1.1).
pub(crate) const DOQ: &[u8] = b"doq";

/// Settings of TLS for one connection over QUIC.
pub struct QuicTls {
    /// The settings.
    pub config: Arc<ClientConfig>,
    /// The server's name or address, for the handshake.
    pub server_name: String,
    refusal: Arc<OnceLock<EncryptionFault>>,
}

impl QuicTls {
    /// Returns the settings for a connection to this server.
    ///
    /// # Errors
    /// The authorities are of no use to the verifier.
    pub fn new(identity: &ServerIdentity, server: SocketAddr) -> Result<Self, Error> {
        let (verifier, name) = Verifier::new(identity)?;
        let refusal = Arc::<OnceLock<EncryptionFault>>::default();
        let noted = Arc::clone(&refusal);
        let verifier = NotingVerifier::new(verifier, move |verdict: Result<(), &Error>| {
            if let Err(error) = verdict {
                let _ = noted.set(fault(error));
            }
        });
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config =
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
        config.alpn_protocols = vec![DOQ.to_vec()];
        let name = name.unwrap_or_else(|| ServerName::IpAddress(server.ip().into()));
        Ok(QuicTls { config: Arc::new(config), server_name: name.to_str().into_owned(), refusal })
    }

    /// Returns why the server's certificate was not accepted, if it was not.
    pub fn refusal(&self) -> Option<EncryptionFault> {
        self.refusal.get().copied()
    }
}

/// Notes whether a certificate is accepted, and why not: QUIC has only the text of the error.
pub(crate) struct NotingVerifier {
    verifier: Verifier,
    note: Box<Note>,
}

/// Takes the verdict on a certificate.
type Note = dyn Fn(Result<(), &Error>) + Send + Sync;

impl NotingVerifier {
    pub(crate) fn new(verifier: Verifier, note: impl Fn(Result<(), &Error>) + Send + Sync + 'static) -> Self {
        NotingVerifier { verifier, note: Box::new(note) }
    }
}

impl fmt::Debug for NotingVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NotingVerifier")
    }
}

impl ServerCertVerifier for NotingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        (self.note)(verified.as_ref().map(|_| ()));
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
