//! NSEC3PARAM: which NSEC3 chain the zone answers with (RFC 5155 §4).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | hash algorithm: 1 for SHA-1 |
//! | 1 | flags: 0 |
//! | 2 | iterations: additional rounds |
//! | 1+n | salt: the salt, in text `-` if there is none |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::NSEC3PARAM,
    &[
        Field::new("hash algorithm", Kind::U8),
        Field::new("flags", Kind::U8),
        Field::new("iterations", Kind::U16),
        Field::new("salt", Kind::SizedHex),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::NSEC3PARAM, r#"1 0 12 AABBCCDD"#, &hex("0100000c04aabbccdd"));
        both(Type::NSEC3PARAM, r#"1 0 0 -"#, &hex("0100000000"));
    }
}
