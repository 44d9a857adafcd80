//! Root key sentinels (RFC 8509): query names by which a client finds out whether a key is a trust anchor of
//! the root here. Such queries are answered like any other, unless the answer is secure and the name's
//! statement is false: then the response is SERVFAIL.

use resolver::QueryKey;
use wire::{Class, Name, Type};

use crate::settings::ValidationConfig;

/// Prefixes of the first label. Five digits follow: the key tag.
const IS_ANCHOR: &[u8] = b"root-key-sentinel-is-ta-";
const IS_NO_ANCHOR: &[u8] = b"root-key-sentinel-not-ta-";

/// Whether a secure answer is withheld: the name's statement about a key is false (RFC 8509 §3.1, §3.2).
pub(crate) fn lies(validation: &ValidationConfig, query_key: &QueryKey) -> bool {
    let is_asked = matches!(query_key.qtype, Type::A | Type::AAAA)
        && query_key.qclass == Class::IN
        && !query_key.checking_disabled
        && validation.sentinel;
    is_asked
        && statement(query_key.name.as_name())
            .is_some_and(|(tag, is_anchor)| validation.anchors.has_tag(Name::ROOT, tag) != is_anchor)
}

/// Returns the name's statement: the key tag, and whether the key is an anchor. Names are in lower case here.
fn statement(name: Name<'_>) -> Option<(u16, bool)> {
    let label = name.labels().next()?;
    let (digits, is_anchor) = match label.strip_prefix(IS_ANCHOR) {
        Some(digits) => (digits, true),
        None => (label.strip_prefix(IS_NO_ANCHOR)?, false),
    };
    let is_number = digits.len() == 5 && digits.iter().all(u8::is_ascii_digit);
    let tag = is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()?;
    Some((tag, is_anchor))
}

#[cfg(test)]
mod tests {
    use wire::NameBuf;

    use super::*;

    #[test]
    fn names_say_what_rfc_8509_has_them_say() {
        for (name, said) in [
            ("root-key-sentinel-is-ta-20326.example", Some((20326, true))),
            ("root-key-sentinel-not-ta-00042.example", Some((42, false))),
            ("root-key-sentinel-not-ta-20326", Some((20326, false))),
            ("root-key-sentinel-is-ta-2032.example", None),
            ("root-key-sentinel-is-ta-020326.example", None),
            ("root-key-sentinel-is-ta-+0326.example", None),
            ("root-key-sentinel-is-ta-99999.example", None),
            ("x.root-key-sentinel-is-ta-20326.example", None),
            (".", None),
        ] {
            let parsed: NameBuf = name.parse().expect(name);
            assert_eq!(statement(parsed.as_name()), said, "{name}");
        }
    }
}
