//! CAA: the certification authorities allowed to issue certificates (RFC 8659 §4.1).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | Flags: 128 for critical |
//! | 1+n | Tag: letters and digits |
//! | n | Value: up to the end |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::CAA,
    &[Field::new("Flags", Kind::U8), Field::new("Tag", Kind::Tag), Field::new("Value", Kind::LongString(0))],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::testing::{both, hex, parse_at, reads};
    use crate::rdata::validate;

    #[test]
    fn examples_read_and_write() {
        both(
            Type::CAA,
            r#"0 issue "ca1.example.net; account=230123""#,
            &hex("000569737375656361312e6578616d706c652e6e65743b206163636f756e743d323330313233"),
        );
        both(Type::CAA, r#"128 tbs """#, &hex("8003746273"));
    }

    #[test]
    fn tags_are_letters_and_digits() {
        assert!(matches!(parse_at(Type::CAA, "0 is-sue x"), Err((1, TextFaultKind::BadForm(_)))));
        assert_eq!(parse_at(Type::CAA, "0 \"issue\" x"), Err((1, TextFaultKind::Quoted)));
        assert!(validate(Type::CAA, b"\0\0x").is_err() && validate(Type::CAA, b"\0\x01-x").is_err());
        reads(Type::CAA, "0 iodef mailto:a@example.com", b"\0\x05iodefmailto:a@example.com");
    }
}
