//! TXT: text, one or more strings (RFC 1035 §3.3.14).
//!
//! | bytes | field |
//! |---|---|
//! | n | TXT-DATA: strings, each with a length byte |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::TXT, &[Field::new("TXT-DATA", Kind::Strings)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::testing::{both, hex, parse, parse_at, reads};
    use crate::rdata::validate;

    #[test]
    fn examples_read_and_write() {
        both(Type::TXT, r#""v=spf1 -all""#, &hex("0b763d73706631202d616c6c"));
        both(Type::TXT, r#""a" "" "b\"\\""#, &hex("0161000362225c"));
    }

    #[test]
    fn a_stray_quotation_mark_was_taken_for_a_letter() {
        assert_eq!(parse_at(Type::TXT, r#"x key="value""#), Err((1, TextFaultKind::StrayQuote)));
        reads(Type::TXT, r#"key=\"value\""#, b"\x0bkey=\"value\"");
    }

    #[test]
    fn strings_end_at_255_bytes() {
        let longest = "a".repeat(255);
        assert!(parse(Type::TXT, &longest).is_ok());
        assert_eq!(parse_at(Type::TXT, &format!("x {longest}a")), Err((1, TextFaultKind::StringTooLong)));
        assert_eq!(parse(Type::TXT, r"\256"), Err(TextFaultKind::BadEscape));
        assert_eq!(parse(Type::TXT, ""), Err(TextFaultKind::Missing));
        reads(Type::TXT, r"un\032quoted \; ", b"\x09un quoted\x01;");
        assert!(validate(Type::TXT, b"").is_err() && validate(Type::TXT, b"\x02a").is_err());
    }
}
