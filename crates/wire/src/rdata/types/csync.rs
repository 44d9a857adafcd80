//! CSYNC: what the parent is to copy from the child (RFC 7477 §2.1).
//!
//! | bytes | field |
//! |---|---|
//! | 4 | SOA serial: from which version on |
//! | 2 | flags: 1 immediate, 2 soaminimum |
//! | n | type bit map: the types to copy |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::CSYNC,
    &[
        Field::new("SOA serial", Kind::U32),
        Field::new("flags", Kind::U16),
        Field::new("type bit map", Kind::TypeBitmap),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::CSYNC, r#"66 3 A NS AAAA"#, &hex("000000420003000460000008"));
    }
}
