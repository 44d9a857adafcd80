//! DHCID: the DHCP client that a name belongs to (RFC 4701 §3).
//!
//! | bytes | field |
//! |---|---|
//! | n | DATA: identifier type, digest type and digest |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::DHCID, &[Field::new("DATA", Kind::Base64(1))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::DHCID,
            r#"AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="#,
            &hex("000201636fc0b8271c82825bb1ac5c41cf5351aa69b4febd94e8f17cdb95000da48c40"),
        );
    }
}
