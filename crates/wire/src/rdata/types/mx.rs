//! MX: a mail exchange (RFC 1035 §3.3.9).
//!
//! A null MX is `0 .` (RFC 7505 §3).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | PREFERENCE: the lower one is tried first |
//! | n | EXCHANGE: the host |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::MX,
    &[Field::new("PREFERENCE", Kind::U16), Field::new("EXCHANGE", Kind::Name(NameRule::Compress))],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse};
    use crate::rdata::{EmbeddedName, canonical, embedded_names};

    #[test]
    fn examples_read_and_write() {
        both(Type::MX, r#"10 mail.example.net."#, &hex("000a046d61696c076578616d706c65036e657400"));
        both(Type::MX, r#"0 ."#, &hex("000000"));
    }

    #[test]
    fn names_are_completed_and_found() {
        let rdata = parse(Type::MX, "10 mail").expect("an MX");
        assert_eq!(rdata, b"\0\x0a\x04mail\x07example\x03com\0");
        let names: Vec<_> = embedded_names(Type::MX, &rdata).collect();
        assert_eq!(names, [EmbeddedName { start: 2, len: 18, rule: NameRule::Compress }]);
        assert_eq!(embedded_names(Type::MX, &rdata[..19]).count(), 0);
        let mut upper = parse(Type::MX, "16705 MAIL").expect("an MX");
        canonical(Type::MX, &mut upper);
        assert_eq!(upper, b"AA\x04mail\x07example\x03com\0");
    }
}
