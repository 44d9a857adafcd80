//! A: an IPv4 address (RFC 1035 §3.4.1).
//!
//! | bytes | field |
//! |---|---|
//! | 4 | ADDRESS: the address |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::A, &[Field::new("ADDRESS", Kind::Ipv4)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::testing::{both, hex, parse};

    #[test]
    fn examples_read_and_write() {
        both(Type::A, r#"192.0.2.1"#, &hex("c0000201"));
    }

    #[test]
    fn addresses_are_read_strictly() {
        for bad in ["01.2.3.4", "1.2.3", "1.2.3.256", "::1", "0x7f.1.1.1"] {
            assert_eq!(parse(Type::A, bad), Err(TextFaultKind::BadIpv4), "{bad}");
        }
    }
}
