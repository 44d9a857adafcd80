//! NSEC: the next name of the zone and the types at this one (RFC 4034 §4).
//!
//! The next name keeps its letter case in canonical form (RFC 6840 §5.1).
//!
//! | bytes | field |
//! |---|---|
//! | n | next domain name: the next owner in canonical order |
//! | n | type bit maps: windows of the types present |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::NSEC,
    &[
        Field::new("next domain name", Kind::Name(NameRule::Plain)),
        Field::new("type bit maps", Kind::TypeBitmap),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::canonical;
    use crate::rdata::testing::{both, hex, parse, parse_at};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::NSEC,
            r#"host.example.com. A MX RRSIG NSEC TYPE1234"#,
            &hex(
                "04686f7374076578616d706c6503636f6d000006400100000003041b000000000000000000000000000000000000000000000000000020",
            ),
        );
    }

    #[test]
    fn next_name_keeps_its_case() {
        let mut rdata = parse(Type::NSEC, "HOST.example.com. A").expect("an NSEC");
        let before = rdata.clone();
        canonical(Type::NSEC, &mut rdata);
        assert_eq!(rdata, before);
    }

    #[test]
    fn types_are_mnemonics() {
        assert_eq!(parse_at(Type::NSEC, "a A NOPE"), Err((2, TextFaultKind::BadType)));
        assert_eq!(parse(Type::NSEC, "a MX A MX a"), parse(Type::NSEC, "a A MX"));
    }
}
