//! NSEC3: the next hashed name and the types at this one (RFC 5155 §3).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | hash algorithm: 1 for SHA-1 |
//! | 1 | flags: 1 for opt-out |
//! | 2 | iterations: additional rounds |
//! | 1+n | salt: the salt, in text `-` if there is none |
//! | 1+n | next hashed owner name: the next hash |
//! | n | type bit maps: windows of the types present |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::NSEC3,
    &[
        Field::new("hash algorithm", Kind::U8),
        Field::new("flags", Kind::U8),
        Field::new("iterations", Kind::U16),
        Field::new("salt", Kind::SizedHex),
        Field::new("next hashed owner name", Kind::SizedBase32),
        Field::new("type bit maps", Kind::TypeBitmap),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::NSEC3,
            r#"1 1 12 AABBCCDD 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG"#,
            &hex("0101000c04aabbccdd1417f3df17b2b2adaef615257de4d2020b80ac6c7c0006400000000002"),
        );
    }
}
