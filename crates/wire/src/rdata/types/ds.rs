//! DS: the digest of a key of the child zone (RFC 4034 §5).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | key tag: of the key |
//! | 1 | algorithm: of the key |
//! | 1 | digest type: how the digest was made |
//! | n | digest: the digest of owner and key |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rdata::mnemonic::ALGORITHMS;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::DS,
    &[
        Field::new("key tag", Kind::U16),
        Field::new("algorithm", Kind::Mnemonic8(ALGORITHMS)),
        Field::new("digest type", Kind::U8),
        Field::new("digest", Kind::Hex(1)),
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
            Type::DS,
            r#"60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118"#,
            &hex("ec4505012bb183af5f22588179a53b0a98631fad1a292118"),
        );
    }

    #[test]
    fn digests_may_be_spread_over_tokens() {
        let whole = parse(Type::DS, "60485 RSASHA1 1 2BB183AF5F22588179A53B0A98631FAD1A292118");
        assert_eq!(parse(Type::DS, "60485 5 1 2BB183AF5F22588179A53B0A 98631FAD1A2 92118"), whole);
        assert_eq!(parse_at(Type::DS, "60485 5 1"), Err((3, TextFaultKind::Missing)));
        assert_eq!(parse_at(Type::DS, "60485 5 1 2BB"), Err((3, TextFaultKind::BadHex)));
        assert_eq!(parse_at(Type::DS, "60485 5 1 2B xx"), Err((4, TextFaultKind::BadHex)));
        assert_eq!(
            parse_at(Type::DS, "60485 5 256 2B"),
            Err((2, TextFaultKind::OutOfRange { min: 0, max: 255 }))
        );
    }
}
