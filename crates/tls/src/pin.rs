//! Pins of keys: digests by which a server or client is recognised without a CA.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{self, SHA256_OUTPUT_LEN};
use rustls::Error;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use wire::text::{Base64, write_base64};

/// The SHA-256 digest of a certificate's SubjectPublicKeyInfo (RFC 7858 §4.2, RFC 7469 §2.4). As text it is
/// in base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyPin([u8; SHA256_OUTPUT_LEN]);

/// What is wrong with the text of a [`KeyPin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinFault {
    /// It is not base64.
    NoBase64,
    /// It has another length, in bytes.
    Length(usize),
}

impl fmt::Display for PinFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBase64 => f.write_str("it is not base64"),
            Self::Length(bytes) => {
                write!(
                    f,
                    "it has {bytes} bytes, and a SHA-256 digest has {SHA256_OUTPUT_LEN} (44 characters of base64)"
                )
            }
        }
    }
}
impl std::error::Error for PinFault {}

impl KeyPin {
    /// Returns the pin of the key in a certificate.
    ///
    /// # Errors
    /// The certificate cannot be parsed.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        Ok(KeyPin(sha256(&parsed.subject_public_key_info())))
    }
}

impl FromStr for KeyPin {
    type Err = PinFault;

    fn from_str(text: &str) -> Result<Self, PinFault> {
        let (mut decoder, mut bytes) = (Base64::default(), Vec::new());
        decoder.feed(text.as_bytes(), &mut bytes).map_err(|_| PinFault::NoBase64)?;
        decoder.finish().map_err(|_| PinFault::NoBase64)?;
        Ok(KeyPin(bytes.as_slice().try_into().map_err(|_| PinFault::Length(bytes.len()))?))
    }
}

impl fmt::Display for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base64(&self.0, f)
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut out = [0; SHA256_OUTPUT_LEN];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}
