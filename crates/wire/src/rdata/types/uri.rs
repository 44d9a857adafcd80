//! URI: a mapping to a URI (RFC 7553 §4).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | Priority: the lowest is used first |
//! | 2 | Weight: share among those of one priority |
//! | n | Target: the URI, up to the end |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::URI,
    &[
        Field::new("Priority", Kind::U16),
        Field::new("Weight", Kind::U16),
        Field::new("Target", Kind::LongString(1)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse};
    use crate::rdata::validate;

    #[test]
    fn examples_read_and_write() {
        both(
            Type::URI,
            r#"10 1 "ftp://ftp1.example.com/public""#,
            &hex("000a00016674703a2f2f667470312e6578616d706c652e636f6d2f7075626c6963"),
        );
    }

    #[test]
    fn target_is_never_empty() {
        assert!(parse(Type::URI, "10 1 \"\"").is_err());
        assert!(validate(Type::URI, &[0, 10, 0, 1]).is_err());
    }
}
