//! Certificates of clients (mutual TLS): whether they are asked for one, and what is known of it. A client
//! without one is served like any other; access rules decide what a certificate permits.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use transport::ClientCertificate;
use webpki::EndEntityCert;

use crate::client::Authorities;
use crate::provider;

/// Whether clients are asked for certificates, and the CAs that issue them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Whether clients are asked for one.
    pub wanted: bool,
    /// The CA certificates that verify the names in them; `None`: no name is verified, only keys are known.
    pub authorities: Option<Authorities>,
}

/// Asks clients for certificates, and identifies clients by them.
pub(crate) struct ClientIdentifier {
    settings: ArcSwap<ClientCertificates>,
    /// Verifies names; `None` without CAs.
    verifier: ArcSwapOption<VerifierBox>,
    algorithms: WebPkiSupportedAlgorithms,
}

struct VerifierBox(Arc<dyn ClientCertVerifier>);

impl ClientIdentifier {
    pub(crate) fn new() -> Self {
        ClientIdentifier {
            settings: ArcSwap::default(),
            verifier: ArcSwapOption::empty(),
            algorithms: provider().signature_verification_algorithms,
        }
    }

    /// Uses these settings from now on, also for sessions that are resumed.
    ///
    /// # Errors
    /// The CA certificates are of no use to the verifier; the settings before stay.
    pub(crate) fn set(&self, settings: ClientCertificates) -> Result<(), Error> {
        let verifier = match &settings.authorities {
            None => None,
            Some(authorities) => {
                let builder = WebPkiClientVerifier::builder_with_provider(authorities.roots(), provider());
                let built = builder.build().map_err(|why| Error::General(why.to_string()))?;
                Some(Arc::new(VerifierBox(built)))
            }
        };
        self.verifier.store(verifier);
        self.settings.store(Arc::new(settings));
        Ok(())
    }

    /// Returns what is known of a client that showed this chain; `None` if it is not asked for one now.
    pub(crate) fn identify(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> {
        if !self.settings.load().wanted {
            return None;
        }
        let (own, issuers) = chain.split_first()?;
        let parsed = ParsedCertificate::try_from(own).ok()?;
        let mut pin = [0; 32];
        pin.copy_from_slice(digest(&SHA256, &parsed.subject_public_key_info()).as_ref());
        let (names, fault) = match self.verifier.load_full() {
            // Keys alone are of interest.
            None => (Box::default(), None),
            Some(verifier) => match names(&verifier, own, issuers) {
                Ok(names) => (names, None),
                Err(fault) => (Box::default(), Some(fault)),
            },
        };
        Some(Arc::new(ClientCertificate { names, pin, fault }))
    }
}

/// Returns the verified names of a certificate, or why there are none.
fn names(
    verifier: &VerifierBox,
    own: &CertificateDer<'_>,
    issuers: &[CertificateDer<'_>],
) -> Result<Box<[Box<str>]>, Box<str>> {
    if let Err(error) = verifier.0.verify_client_cert(own, issuers, UnixTime::now()) {
        return Err(text(&error).into());
    }
    let parsed = EndEntityCert::try_from(own).map_err(|_| "the certificate is malformed")?;
    let names: Box<[Box<str>]> =
        parsed.valid_dns_names().map(|name| name.to_ascii_lowercase().into()).collect();
    if names.is_empty() { Err("the certificate has no DNS name".into()) } else { Ok(names) }
}

/// Returns the fault of a client's certificate.
fn text(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the certificate has expired"
        }
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the certificate is not valid yet",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the certificate is from an unknown issuer"
        }
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "the certificate is not for clients",
        _ => "the certificate cannot be accepted",
    }
}

impl fmt::Debug for ClientIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientIdentifier")
    }
}

/// Of the handshake: any certificate is accepted from a client that proves that it has the key. Names are
/// verified afterwards, also in sessions that are resumed.
impl ClientCertVerifier for ClientIdentifier {
    fn offer_client_auth(&self) -> bool {
        self.settings.load().wanted
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        ParsedCertificate::try_from(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

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
