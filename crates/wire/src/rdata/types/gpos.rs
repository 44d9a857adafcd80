//! GPOS: a geographical position (RFC 1712 §3), superseded by LOC.
//!
//! | bytes | field |
//! |---|---|
//! | 1+n | LONGITUDE: degrees as a decimal number |
//! | 1+n | LATITUDE: degrees as a decimal number |
//! | 1+n | ALTITUDE: metres as a decimal number |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::GPOS,
    &[
        Field::new("LONGITUDE", Kind::String),
        Field::new("LATITUDE", Kind::String),
        Field::new("ALTITUDE", Kind::String),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::GPOS,
            r#""-32.6882" "116.8652" "10.0""#,
            &hex("082d33322e36383832083131362e383635320431302e30"),
        );
    }
}
