//! RRSIG: the signature of an RRset (RFC 4034 §3).
//!
//! The signer's name is never compressed when sent and is in lower case in canonical form (RFC 6840 §5.1).
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
    Type::RRSIG,
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
    use crate::rdata::TextFaultKind;
    use crate::rdata::canonical;
    use crate::rdata::testing::{both, hex, parse, parse_at, write};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::RRSIG,
            r#"A 5 3 86400 20030322173103 20030220173103 2642 example.com. oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTrPYGv07h108dUKGMeDPKijVCHX3DDKdfb+v6oB9wfuh3DTJXUAfI/M0zmO/zz8bW0Rznl8O3tGNazPwQKkRN20XPXV6nwwfoXmJQbsLNrLfkGJ5D6fwFm8nN+6pBzeDQfsS3Ap3o="#,
            &hex(
                "00010503000151803e7c9dd73e5510d70a52076578616d706c6503636f6d00a090755ba58d1affa576f4375831b4310920e481218d18a9f164eb3d81afd3b875d3c75428631e0cf2a28d50875f70c329d7dbfafea807dc1fba1dc34c95d401f23f334ce63bfcf3f1b5b44739e5f0eded18d6b33f040a911376d173d757a9f0c1fa1798941bb0b36b2df9062790fa7f0166f2737eea907378341fb12dc0a77a",
            ),
        );
    }

    #[test]
    fn algorithm_and_times_have_two_spellings() {
        let one = parse(Type::RRSIG, "TYPE1 RSASHA1 3 86400 1048354263 1045762263 2642 @ MxFc by9k");
        let other =
            parse(Type::RRSIG, "a 5 3 86400 20030322173103 20030220173103 2642 example.com. MxFcby9k");
        assert!(one.is_ok());
        assert_eq!(one, other);
        assert_eq!(
            parse_at(Type::RRSIG, "A 5 3 86400 20030322173103 20030220173103 2642 @"),
            Err((8, TextFaultKind::Missing))
        );
        assert_eq!(parse_at(Type::RRSIG, "A NOPE 3"), Err((1, TextFaultKind::BadMnemonic)));
    }

    #[test]
    fn signer_is_lower_case_in_canonical_form() {
        let mut rdata = parse(Type::RRSIG, "A 5 3 1 2 1 9 EXAMPLE.COM. MxFcby9k").expect("an RRSIG");
        canonical(Type::RRSIG, &mut rdata);
        assert_eq!(
            write(Type::RRSIG, &rdata),
            "A 5 3 1 19700101000002 19700101000001 9 example.com. MxFcby9k"
        );
    }
}
