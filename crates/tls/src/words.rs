//! Errors of TLS in words for operators. Those of rustls have names of its types in their texts.

use std::fmt::Debug;
use std::io;

use rustls::{CertificateError, Error, OtherError};
use transport::EncryptionFault;

use crate::client::fault;

/// Returns the text of an I/O error for operators, also if it is one of TLS.
pub fn failure_text(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(error) => text(error),
        None => wording::reason(error),
    }
}

/// Returns the text of an error of a connection to a server.
fn text(error: &Error) -> String {
    let known = fault(error);
    let short = known.text();
    let short = short.strip_prefix("TLS: ").unwrap_or(short);
    let more = match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(other))) => words(other),
        Error::InvalidCertificate(error) => words(error),
        Error::AlertReceived(alert) => words(alert),
        Error::InvalidMessage(error) => words(error),
        Error::PeerIncompatible(error) => words(error),
        Error::PeerMisbehaved(error) => words(error),
        Error::General(text) => text.clone(),
        error => words(error),
    };
    match known {
        EncryptionFault::BadCertificate
        | EncryptionFault::Alert
        | EncryptionFault::NotTls
        | EncryptionFault::Protocol => format!("{short} ({more})"),
        _ => short.to_owned(),
    }
}

/// Returns the name of a variant as words: `unsupported cert version` of `UnsupportedCertVersion`.
fn words(variant: &impl Debug) -> String {
    let text = format!("{variant:?}");
    let name = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let mut words = String::new();
    for c in name.strip_suffix("Context").unwrap_or(name).chars() {
        if c.is_ascii_uppercase() && words.ends_with(|before: char| !before.is_ascii_uppercase()) {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{AlertDescription, PeerIncompatible};

    use super::*;

    #[test]
    fn no_text_has_names_of_types() {
        let webpki = |error: webpki::Error| {
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
        };
        for (error, expected) in [
            (
                webpki(webpki::Error::CaUsedAsEndEntity),
                "the server's certificate is one of a CA, not of a server",
            ),
            (
                webpki(webpki::Error::UnsupportedCertVersion),
                "the server's certificate cannot be accepted (unsupported cert version)",
            ),
            (
                Error::InvalidCertificate(CertificateError::BadEncoding),
                "the server's certificate cannot be accepted (bad encoding)",
            ),
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "the server's certificate is from an unknown issuer",
            ),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                "the server sent an alert (handshake failure)",
            ),
            (
                Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
                "no common protocol with the server (no cipher suites in common)",
            ),
            (Error::DecryptError, "no common protocol with the server (decrypt error)"),
        ] {
            assert_eq!(failure_text(&io::Error::new(io::ErrorKind::InvalidData, error)), expected);
        }
        assert_eq!(failure_text(&io::ErrorKind::NotFound.into()), "there is no such file");
    }
}
