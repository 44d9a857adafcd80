//! CERT: a certificate or revocation list (RFC 4398 §2).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | type: what kind of certificate |
//! | 2 | key tag: of the key in it, or 0 |
//! | 1 | algorithm: of the key in it, or 0 |
//! | n | certificate: the certificate, list or URI |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rdata::mnemonic::ALGORITHMS;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::CERT,
    &[
        Field::new("type", Kind::Mnemonic16(TYPES)),
        Field::new("key tag", Kind::U16),
        Field::new("algorithm", Kind::Mnemonic8(ALGORITHMS)),
        Field::new("certificate", Kind::Base64(1)),
    ],
);

/// Certificate types (RFC 4398 §2.1).
const TYPES: &[(u16, &str)] = &[
    (1, "PKIX"),
    (2, "SPKI"),
    (3, "PGP"),
    (4, "IPKIX"),
    (5, "ISPKI"),
    (6, "IPGP"),
    (7, "ACPKIX"),
    (8, "IACPKIX"),
    (253, "URI"),
    (254, "OID"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::CERT, r#"PGP 0 0 AQID"#, &hex("0003000000010203"));
        both(Type::CERT, r#"9 1 5 AQID"#, &hex("0009000105010203"));
        both(Type::CERT, r#"URI 0 0 AQID"#, &hex("00fd000000010203"));
    }
}
