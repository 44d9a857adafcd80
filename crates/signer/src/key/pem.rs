//! Private keys in PEM (RFC 7468): `-----BEGIN PRIVATE KEY-----` and PKCS#8 in base64, as in Knot's key store
//! and from OpenSSL.

use std::fmt;

use wire::rdata::view::SigAlgorithm;
use wire::text::Base64;
use zeroize::Zeroizing;

use super::pair::{BadKey, PrivateKey};

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// Why a text is no private key in PEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PemFault {
    /// There is no line `-----BEGIN PRIVATE KEY-----`.
    NoBegin,
    /// The key is encrypted, or in a form other than PKCS#8; with the line.
    OtherForm(usize),
    /// The line is not base64.
    BadLine(usize),
    /// There is no line `-----END PRIVATE KEY-----`.
    NoEnd,
    /// The document holds no key that nomen signs with.
    Key(BadKey),
}

impl fmt::Display for PemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBegin => write!(f, "there is no line `{BEGIN}`"),
            Self::OtherForm(_) => f.write_str(
                "only PKCS#8 without encryption is read (`openssl pkcs8 -topk8 -nocrypt` converts to it)",
            ),
            Self::BadLine(_) => f.write_str("not base64"),
            Self::NoEnd => write!(f, "there is no line `{END}`"),
            Self::Key(bad) => bad.fmt(f),
        }
    }
}
impl std::error::Error for PemFault {}

impl PemFault {
    /// Returns the line of the fault, counted from 1, if it is in one.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::OtherForm(line) | Self::BadLine(line) => Some(*line),
            Self::NoBegin | Self::NoEnd | Self::Key(_) => None,
        }
    }
}

/// Whether the text looks like PEM.
pub fn is_pem(text: &str) -> bool {
    text.lines().any(|line| line.trim().starts_with("-----BEGIN "))
}

/// Parses the first private key of a PEM text. An RSA key gets the algorithm `rsa`.
///
/// # Errors
/// The first fault.
pub fn parse(text: &str, rsa: SigAlgorithm) -> Result<PrivateKey, PemFault> {
    let mut lines = text.lines().zip(1..).map(|(text, line)| (text.trim(), line));
    let is_private =
        |(text, _): &(&str, usize)| text.starts_with("-----BEGIN ") && text.contains("PRIVATE KEY");
    match lines.find(is_private) {
        Some((BEGIN, _)) => {}
        Some((_, line)) => return Err(PemFault::OtherForm(line)),
        None => return Err(PemFault::NoBegin),
    }
    // The memory is erased, so it must not be moved by growing.
    let mut document = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut decoder = Base64::default();
    for (text, line) in lines {
        if text == END {
            decoder.finish().map_err(|_| PemFault::BadLine(line))?;
            return PrivateKey::from_pkcs8(&document, rsa).map_err(PemFault::Key);
        }
        decoder.feed(text.as_bytes(), &mut document).map_err(|_| PemFault::BadLine(line))?;
    }
    Err(PemFault::NoEnd)
}
