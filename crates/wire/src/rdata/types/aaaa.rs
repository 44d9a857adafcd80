//! AAAA: an IPv6 address (RFC 3596 §2.2).
//!
//! | bytes | field |
//! |---|---|
//! | 16 | ADDRESS: the address |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::AAAA, &[Field::new("ADDRESS", Kind::Ipv6)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::TextFaultKind;
    use crate::rdata::testing::{both, hex, parse, reads};

    #[test]
    fn examples_read_and_write() {
        both(Type::AAAA, r#"2001:db8::1"#, &hex("20010db8000000000000000000000001"));
        both(Type::AAAA, r#"::"#, &hex("00000000000000000000000000000000"));
    }

    #[test]
    fn addresses_are_read_strictly() {
        for bad in ["1.2.3.4", "1::2::3", "12345::", "1:2:3:4:5:6:7", "::1%lo", "[::1]"] {
            assert_eq!(parse(Type::AAAA, bad), Err(TextFaultKind::BadIpv6), "{bad}");
        }
        reads(Type::AAAA, "::FFFF:192.0.2.1", &hex("00000000000000000000 ffff c0000201"));
    }
}
