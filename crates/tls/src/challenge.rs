//! Handshakes of the challenge tls-alpn-01 (RFC 8737): by a certificate that no CA has signed, a server shows
//! a CA that it has the name for which it orders a certificate.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::provider;

/// The application protocol of the challenge.
const CHALLENGE_ALPN: &[u8] = b"acme-tls/1";

/// What a name is shown by: the SHA-256 digest of the key authorization (RFC 8737 §3).
pub type ChallengeDigest = [u8; 32];

/// Returns the settings of handshakes for these names, in lower case. Other names are refused.
///
/// # Errors
/// Why a certificate cannot be made.
pub fn challenge_config(digests: &[(String, ChallengeDigest)]) -> Result<Arc<ServerConfig>, String> {
    let mut certificates = HashMap::new();
    for (name, digest) in digests {
        certificates.insert(name.clone(), Arc::new(certificate(name, digest)?));
    }
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|fault| fault.to_string())?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(OfNames(certificates)));
    config.alpn_protocols = vec![CHALLENGE_ALPN.to_vec()];
    // No session of a challenge is resumed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Makes the certificate of a name, with a new key.
fn certificate(name: &str, digest: &ChallengeDigest) -> Result<CertifiedKey, String> {
    let fault = |why: rcgen::Error| format!("no certificate of the challenge for {name}: {why}");
    let key = KeyPair::generate().map_err(fault)?;
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(fault)?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let made = params.self_signed(&key).map_err(fault)?;
    let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let signing = provider().key_provider.load_private_key(secret).map_err(|why| why.to_string())?;
    // Not `from_der`: it refuses the extension, which is critical and unknown to it.
    Ok(CertifiedKey::new(vec![made.der().clone()], signing))
}

/// The certificates of the names that are being shown.
struct OfNames(HashMap<String, Arc<CertifiedKey>>);

impl fmt::Debug for OfNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfNames")
    }
}

impl ResolvesServerCert for OfNames {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.get(&hello.server_name()?.to_ascii_lowercase()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_one_name_and_the_digest_in_a_critical_extension() {
        let made = certificate("dns.example", &[7; 32]).expect("made");
        // SEQUENCE, id-pe-acmeIdentifier, critical, and an OCTET STRING in an OCTET STRING (RFC 8737 §3).
        let mut extension = vec![0x30, 0x31, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f];
        extension.extend([0x01, 0x01, 0xff, 0x04, 0x22, 0x04, 0x20]);
        extension.extend([7; 32]);
        let certificate = &made.cert[0];
        assert!(certificate.windows(extension.len()).any(|part| part == extension));
        assert_eq!(certificate.windows(11).filter(|part| part == b"dns.example").count(), 1);
        assert!(challenge_config(&[("dns.example".into(), [7; 32])]).is_ok_and(|config| {
            config.alpn_protocols == [CHALLENGE_ALPN] && config.send_tls13_tickets == 0
        }));
    }
}
