//! RESINFO: what a resolver can do (RFC 9606 §5).
//!
//! Same form as TXT: `key` or `key=value` strings.
//!
//! | bytes | field |
//! |---|---|
//! | n | TXT-DATA: strings, each with a length byte |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::RESINFO, &[Field::new("TXT-DATA", Kind::Strings)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::RESINFO, r#""qnamemin" "b""#, &hex("08716e616d656d696e0162"));
    }
}
