//! The certificate of a client (mutual TLS), and which certificates an access rule accepts.

use std::fmt;
use std::str::FromStr;

use wire::text::{Base64, write_base64};

/// Bytes of a SHA-256 digest.
const DIGEST_LEN: usize = 32;
/// Begins a pin in text. A name has no slash.
const PIN: &str = "sha256/";
/// Longest name in a certificate, in bytes.
const MAX_NAME: usize = 253;

/// The certificate that a client showed in the handshake of its connection, with proof that it has the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its DNS names in lower case; empty unless it is valid and a CA of this server's clients has issued it.
    pub names: Box<[Box<str>]>,
    /// The SHA-256 digest of its SubjectPublicKeyInfo.
    pub pin: [u8; DIGEST_LEN],
    /// Why it has no names, for logs.
    pub fault: Option<Box<str>>,
}

/// A certificate as an access rule names it, behind `cert:`. As text a DNS name, or `sha256/` and the digest
/// of the key in base64.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CertificateRule {
    /// One of a CA of this server's clients, for this name, in lower case.
    Name(Box<str>),
    /// Any with this key.
    Pin([u8; DIGEST_LEN]),
}

/// What is wrong with the text of a [`CertificateRule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateRuleFault {
    /// It is not a DNS name.
    Name(String),
    /// It is not `sha256/` and 32 bytes in base64.
    Pin(String),
}

impl fmt::Display for CertificateRuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) => write!(f, "`{text}` cannot be a DNS name in a certificate"),
            Self::Pin(text) => {
                write!(f, "`{text}` is not the pin of a key: {PIN} and 44 characters of base64 are")
            }
        }
    }
}
impl std::error::Error for CertificateRuleFault {}

impl CertificateRule {
    /// Whether a client with this certificate matches.
    pub fn fits(&self, certificate: Option<&ClientCertificate>) -> bool {
        certificate.is_some_and(|certificate| match self {
            Self::Name(name) => certificate.names.contains(name),
            Self::Pin(pin) => certificate.pin == *pin,
        })
    }
}

impl FromStr for CertificateRule {
    type Err = CertificateRuleFault;

    fn from_str(text: &str) -> Result<Self, CertificateRuleFault> {
        if let Some(pin) = text.strip_prefix(PIN) {
            let (mut decoder, mut bytes) = (Base64::default(), Vec::new());
            let read = decoder.feed(pin.as_bytes(), &mut bytes).and_then(|()| decoder.finish());
            let pin = read.ok().and_then(|()| bytes.try_into().ok());
            return pin.map(Self::Pin).ok_or_else(|| CertificateRuleFault::Pin(text.to_owned()));
        }
        let lower = text.to_ascii_lowercase();
        let name = lower.strip_suffix('.').unwrap_or(&lower);
        let is_label = |label: &str| {
            let is_of_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            (1..=63).contains(&label.len()) && (label == "*" || label.chars().all(is_of_label))
        };
        match name.len() <= MAX_NAME && name.split('.').all(is_label) {
            true => Ok(Self::Name(name.into())),
            false => Err(CertificateRuleFault::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for CertificateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Pin(pin) => {
                f.write_str(PIN)?;
                write_base64(pin, f)
            }
        }
    }
}

/// The first name, or else the pin and why there is no name.
impl fmt::Display for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.names.first() {
            return f.write_str(name);
        }
        f.write_str(PIN)?;
        write_base64(&self.pin, f)?;
        self.fault.as_ref().map_or(Ok(()), |fault| write!(f, " ({fault})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_a_certificate_by_a_name_or_by_its_key() {
        let pin = "sha256/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let mut key = [0; DIGEST_LEN];
        (0..).zip(&mut key).for_each(|(n, byte)| *byte = n);
        let of = |names: &[&str], pin| ClientCertificate {
            names: names.iter().map(|name| (*name).into()).collect(),
            pin,
            fault: None,
        };
        let fits = |text: &str, certificate: &ClientCertificate| {
            let rule: CertificateRule = text.parse().expect(text);
            assert_eq!(rule.to_string().parse().as_ref(), Ok(&rule));
            assert!(!rule.fits(None), "{text}");
            rule.fits(Some(certificate))
        };
        assert!(fits("NS2.example.", &of(&["ns1.example", "ns2.example"], [0; 32])));
        assert!(!fits("ns3.example", &of(&["ns2.example", "*.example"], [0; 32])));
        assert!(fits(pin, &of(&[], key)) && !fits(pin, &of(&[], [0; 32])));
        for text in ["", "a..b", "a b", "sha256/AAAA", "sha256/?", "a/b"] {
            assert!(text.parse::<CertificateRule>().is_err(), "{text}");
        }
    }
}
