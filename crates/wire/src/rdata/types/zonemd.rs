//! ZONEMD: a digest of the zone (RFC 8976 §2).
//!
//! | bytes | field |
//! |---|---|
//! | 4 | serial: the version that was digested |
//! | 1 | scheme: 1 SIMPLE |
//! | 1 | hash algorithm: 1 SHA-384, 2 SHA-512 |
//! | n | digest: the digest, twelve bytes at least |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::ZONEMD,
    &[
        Field::new("serial", Kind::U32),
        Field::new("scheme", Kind::U8),
        Field::new("hash algorithm", Kind::U8),
        Field::new("digest", Kind::Hex(12)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::testing::{both, hex, parse};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::ZONEMD,
            r#"2018031500 1 1 FEBE3D4CE2EC2FFA4BA99D46CD69D6D29711E55217057BEE7EB1A7B641A47BA7FED2DD5B97AE499FAFA4F22C6BD647DE"#,
            &hex(
                "7848b78c0101febe3d4ce2ec2ffa4ba99d46cd69d6d29711e55217057bee7eb1a7b641a47ba7fed2dd5b97ae499fafa4f22c6bd647de",
            ),
        );
    }

    #[test]
    fn digest_has_twelve_bytes_at_least() {
        assert_eq!(parse(Type::ZONEMD, "1 1 240 00112233445566778899AA"), Err(TextFaultKind::Missing));
        assert!(parse(Type::ZONEMD, "1 1 240 00112233445566778899AABB").is_ok());
    }
}
