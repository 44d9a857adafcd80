//! When a CA suggests to renew a certificate (RFC 9773): the identifier of a certificate, and the answer.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use instant_acme::{CertificateIdentifier, RenewalInfo};

/// Shortest and longest time between two questions (RFC 9773 §4.3.2).
const SHORTEST_INTERVAL: Duration = Duration::from_secs(60);
const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Most characters of the URL of an explanation.
const MAX_EXPLANATION: usize = 200;

/// Tags of DER (ITU-T X.690 §8.1.2).
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const KEY_IDENTIFIER: u8 = 0x80;
/// id-ce-authorityKeyIdentifier (RFC 5280 §4.2.1.1).
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

/// What a CA suggests about the renewal of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewalSuggestion {
    /// The window in which the certificate is to be renewed.
    pub start: SystemTime,
    /// Its end.
    pub end: SystemTime,
    /// URL of a page that explains the window.
    pub explanation: Option<String>,
    /// When to ask again.
    pub ask_after: Duration,
}

impl RenewalSuggestion {
    pub(crate) fn of(info: RenewalInfo, ask_after: Duration) -> Self {
        let explanation = info.explanation_url.map(|url| {
            // The CA chooses it.
            url.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_EXPLANATION).collect()
        });
        RenewalSuggestion {
            start: info.suggested_window.start.into(),
            end: info.suggested_window.end.into(),
            explanation,
            ask_after: ask_after.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL),
        }
    }
}

/// Returns the identifier of a certificate (RFC 9773 §4.1); `None` if the certificate does not name the key
/// that signed it.
pub(crate) fn identifier(certificate: &[u8]) -> Option<CertificateIdentifier<'static>> {
    let (whole, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(whole, SEQUENCE)?;
    if let Some((_, after)) = element(rest, VERSION) {
        rest = after;
    }
    let (serial, mut rest) = element(rest, INTEGER)?;
    let extensions = loop {
        let (tag, contents, after) = any_element(rest)?;
        if tag == EXTENSIONS {
            break contents;
        }
        rest = after;
    };
    let (mut extensions, _) = element(extensions, SEQUENCE)?;
    while !extensions.is_empty() {
        let (extension, after) = element(extensions, SEQUENCE)?;
        extensions = after;
        let (kind, value) = element(extension, OBJECT_IDENTIFIER)?;
        if kind == AUTHORITY_KEY_IDENTIFIER {
            let (value, _) = element(value, OCTET_STRING)?;
            let (value, _) = element(value, SEQUENCE)?;
            let (key, _) = element(value, KEY_IDENTIFIER)?;
            return Some(CertificateIdentifier {
                authority_key_identifier: Cow::Owned(BASE64URL_NOPAD.encode(key)),
                serial: Cow::Owned(BASE64URL_NOPAD.encode(serial)),
            });
        }
    }
    None
}

/// Returns the contents of the first element, which has this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, contents, rest) = any_element(der)?;
    (found == tag).then_some((contents, rest))
}

/// Returns the tag and the contents of the first element, and what follows it.
fn any_element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x0f))?;
            (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(len)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyIdMethod, KeyPair, SerialNumber};

    use super::*;

    /// The example of RFC 9773 §4.1.
    const KEY: [u8; 20] = [
        0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0, 0xae, 0x2c, 0xde,
        0x01, 0xc8, 0xd4,
    ];

    fn issued(use_authority_key_identifier_extension: bool, serial: &[u8]) -> Vec<u8> {
        let mut of_ca = CertificateParams::default();
        of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_ca.key_identifier_method = KeyIdMethod::PreSpecified(KEY.to_vec());
        let issuer = Issuer::new(of_ca, KeyPair::generate().expect("a key"));
        let mut params = CertificateParams::new(vec!["dns.example".to_owned()]).expect("a name");
        params.serial_number = Some(SerialNumber::from(serial.to_vec()));
        params.use_authority_key_identifier_extension = use_authority_key_identifier_extension;
        let key = KeyPair::generate().expect("a key");
        params.signed_by(&key, &issuer).expect("signed").der().to_vec()
    }

    #[test]
    fn the_identifier_is_that_of_the_standard() {
        let certificate = issued(true, &[0x87, 0x65, 0x43, 0x21]);
        let identifier = identifier(&certificate).expect("an identifier");
        assert_eq!(identifier.to_string(), "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE");
    }

    #[test]
    fn a_certificate_without_the_key_of_its_issuer_or_that_is_cut_has_none() {
        assert_eq!(identifier(&issued(false, &[1])), None);
        let certificate = issued(true, &[1]);
        for len in 0..certificate.len() {
            assert_eq!(identifier(&certificate[..len]), None, "{len}");
        }
    }

    #[test]
    fn the_answer_is_bounded() {
        let text = r#"{"suggestedWindow": {"start": "2026-01-02T03:04:05Z", "end": "2026-01-03T03:04:05.5Z"},
            "explanationURL": "https://ca.example/\nari"}"#;
        let of = |seconds| {
            let info: RenewalInfo = serde_json::from_str(text).expect("JSON");
            RenewalSuggestion::of(info, Duration::from_secs(seconds))
        };
        let suggestion = of(21_600);
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
        assert_eq!(suggestion.start, start);
        assert_eq!(suggestion.end, start + Duration::from_millis(86_400_500));
        assert_eq!(suggestion.explanation.as_deref(), Some("https://ca.example/ ari"));
        let after = [0, 21_600, 1_000_000].map(|seconds| of(seconds).ask_after.as_secs());
        assert_eq!(after, [60, 21_600, 86_400]);
    }
}
