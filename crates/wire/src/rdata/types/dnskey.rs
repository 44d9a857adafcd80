//! DNSKEY: a key of the zone (RFC 4034 §2).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | flags: what the key is for |
//! | 1 | protocol: 3 for DNSSEC |
//! | 1 | algorithm: of the key |
//! | n | public key: the key |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rdata::mnemonic::ALGORITHMS;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::DNSKEY,
    &[
        Field::new("flags", Kind::U16),
        Field::new("protocol", Kind::U8),
        Field::new("algorithm", Kind::Mnemonic8(ALGORITHMS)),
        Field::new("public key", Kind::Base64(1)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::testing::{both, hex, parse, parse_at};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::DNSKEY,
            r#"256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3Cbl+BBZH4b/0PY1kxkmvHjcZc8nokfzj31GajIQKY+5CptLr3buXA10hWqTkF7H6RfoRqXQeogmMHfpftf6zMv1LyBUgia7za6ZEzOJBOztyvhjL742iU/TpPSEDhm2SNKLijfUppn1UaNvv4w=="#,
            &hex(
                "010003050103d22a6ca77f35b893206fd35e4c506d8378843709b97e041647e1bff43d8d64c649af1e371973c9e891fce3df519a8c840a63ee42a6d2ebddbb97035d215aa4e417b1fa45fa11a9741ea2098c1dfa5fb5feb332fd4bc8152089aef36ba644cce2413b3b72be18cbef8da253f4e93d2103866d9234a2e28df529a67d5468dbefe3",
            ),
        );
    }

    #[test]
    fn keys_may_be_spread_over_tokens() {
        assert_eq!(parse(Type::DNSKEY, "257 3 ED25519 AQ ID BA= ="), Ok(vec![1, 1, 3, 15, 1, 2, 3, 4]));
        assert_eq!(parse_at(Type::DNSKEY, "257 3 15 AQIDBA"), Err((3, TextFaultKind::BadBase64)));
        assert_eq!(parse_at(Type::DNSKEY, "257 3 15"), Err((3, TextFaultKind::Missing)));
    }
}
