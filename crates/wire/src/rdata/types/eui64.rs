//! EUI64: a 64-bit hardware address (RFC 7043 §4).
//!
//! | bytes | field |
//! |---|---|
//! | 8 | Address: the address |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::EUI64, &[Field::new("Address", Kind::Grouped { bytes: 8, group: 1, separator: b'-' })]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::EUI64, r#"00-00-5E-EF-10-00-00-2A"#, &hex("00005eef1000002a"));
    }
}
