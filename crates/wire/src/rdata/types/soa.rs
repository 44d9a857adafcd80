//! SOA: start of a zone of authority (RFC 1035 §3.3.13).
//!
//! The four time spans may be written with units, as in other zone file readers.
//!
//! | bytes | field |
//! |---|---|
//! | n | MNAME: the primary server |
//! | n | RNAME: the mailbox of the responsible person |
//! | 4 | SERIAL: version of the zone |
//! | 4 | REFRESH: seconds between checks for a new version |
//! | 4 | RETRY: seconds until the next check after a failure |
//! | 4 | EXPIRE: seconds after which the data is no longer valid |
//! | 4 | MINIMUM: TTL of negative answers in seconds (RFC 2308 §4) |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::SOA,
    &[
        Field::new("MNAME", Kind::Name(NameRule::Compress)),
        Field::new("RNAME", Kind::Name(NameRule::Compress)),
        Field::new("SERIAL", Kind::U32),
        Field::new("REFRESH", Kind::Duration),
        Field::new("RETRY", Kind::Duration),
        Field::new("EXPIRE", Kind::Duration),
        Field::new("MINIMUM", Kind::Duration),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::testing::{both, hex, parse, parse_at};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::SOA,
            r#"ns1.example.com. hostmaster.example.com. 2024010101 7200 3600 1209600 300"#,
            &hex(
                "036e7331076578616d706c6503636f6d000a686f73746d6173746572076578616d706c6503636f6d0078a3f17500001c2000000e10001275000000012c",
            ),
        );
    }

    #[test]
    fn time_spans_take_units() {
        let plain = parse(Type::SOA, "a b 1 7200 3600 1209600 300");
        assert!(plain.is_ok());
        assert_eq!(parse(Type::SOA, "a b 1 2h 1H 2w 5m"), plain);
        assert_eq!(parse_at(Type::SOA, "a b 1 2h 1y 2w 5m"), Err((4, TextFaultKind::BadDuration)));
        assert_eq!(parse_at(Type::SOA, "a b 1 2h 1h 2w"), Err((6, TextFaultKind::Missing)));
    }
}
