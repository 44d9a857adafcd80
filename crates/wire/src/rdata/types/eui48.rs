//! EUI48: a 48-bit hardware address (RFC 7043 §3).
//!
//! | bytes | field |
//! |---|---|
//! | 6 | Address: the address |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::EUI48, &[Field::new("Address", Kind::Grouped { bytes: 6, group: 1, separator: b'-' })]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::testing::{both, hex, parse};

    #[test]
    fn examples_read_and_write() {
        both(Type::EUI48, r#"00-00-5E-00-53-2A"#, &hex("00005e00532a"));
    }

    #[test]
    fn all_bytes_are_wanted() {
        for bad in ["00-00-5E-00-53", "00-00-5E-00-53-2A-00", "00:00:5E:00:53:2A", "0-0-5E-00-53-2A"] {
            assert_eq!(parse(Type::EUI48, bad), Err(TextFaultKind::BadHex), "{bad}");
        }
    }
}
