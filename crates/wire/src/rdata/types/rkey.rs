//! RKEY: a key to encrypt NAPTR data with (draft-reid-dnsext-rkey).
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
    Type::RKEY,
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
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::RKEY, r#"0 1 5 AQID"#, &hex("00000105010203"));
    }
}
