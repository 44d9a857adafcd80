//! KEY: a key of the first DNSSEC, today for SIG(0) (RFC 2535 §3, RFC 3445).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | flags: what the key is for; two of its bits say that there is no key |
//! | 1 | protocol: 3 for DNSSEC |
//! | 1 | algorithm |
//! | n | public key, absent if the flags say so |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rdata::mnemonic::ALGORITHMS;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::KEY,
    &[
        Field::new("flags", Kind::U16),
        Field::new("protocol", Kind::Mnemonic8(PROTOCOLS)),
        Field::new("algorithm", Kind::Mnemonic8(ALGORITHMS)),
        Field::new("public key", Kind::Base64(0)),
    ],
);

/// Protocols (RFC 2535 §3.1.3, §7.1).
const PROTOCOLS: &[(u8, &str)] =
    &[(0, "NONE"), (1, "TLS"), (2, "EMAIL"), (3, "DNSSEC"), (4, "IPSEC"), (255, "ALL")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, reads};

    #[test]
    fn examples_read_and_write() {
        both(Type::KEY, "512 3 1 AQID", &hex("0200 03 01 010203"));
        both(Type::KEY, "49408 3 3", &hex("c100 03 03"));
        reads(Type::KEY, "512 DNSSEC RSAMD5 AQID", &hex("0200 03 01 010203"));
    }
}
