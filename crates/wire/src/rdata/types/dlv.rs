//! DLV: a DS kept elsewhere, obsolete (RFC 4431 §3, RFC 8749).
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
    Type::DLV,
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
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::DLV,
            r#"60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118"#,
            &hex("ec4505012bb183af5f22588179a53b0a98631fad1a292118"),
        );
    }
}
