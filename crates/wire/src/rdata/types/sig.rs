//! SIG: a signature of the first DNSSEC, or over a transaction (RFC 2535 §4.1, RFC 2931).
//!
//! Same form as RRSIG.
//!
//! | bytes | field |
//! |---|---|
//! | 2 | type covered: the type of the signed RRset |
//! | 1 | algorithm: the algorithm of the key |
//! | 1 | labels: labels of the owner, `*` and the root not counted |
//! | 4 | original TTL: the TTL of the RRset in its zone |
//! | 4 | expiration: not valid after, seconds since 1970 modulo 2³² |
//! | 4 | inception: not valid before, seconds since 1970 modulo 2³² |
//! | 2 | key tag: the tag of the key |
//! | n | signer's name: the owner of the key |
//! | n | signature: the signature |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rdata::mnemonic::ALGORITHMS;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::SIG,
    &[
        Field::new("type covered", Kind::Type),
        Field::new("algorithm", Kind::Mnemonic8(ALGORITHMS)),
        Field::new("labels", Kind::U8),
        Field::new("original TTL", Kind::U32),
        Field::new("expiration", Kind::Time),
        Field::new("inception", Kind::Time),
        Field::new("key tag", Kind::U16),
        Field::new("signer's name", Kind::Name(NameRule::Lower)),
        Field::new("signature", Kind::Base64(1)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::SIG,
            r#"MX 3 3 3600 19970102030405 19961211100908 2143 foo.nil. MxFcby9k/yvedMfQgKzhH5er0Mu/vILz"#,
            &hex(
                "000f030300000e1032cb25a532ae8844085f03666f6f036e696c0033115c6f2f64ff2bde74c7d080ace11f97abd0cbbfbc82f3",
            ),
        );
    }
}
