//! L32: a 32-bit ILNP locator (RFC 6742 §2.2).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | Preference: the lower one is tried first |
//! | 4 | Locator32: written like an IPv4 address |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::L32, &[Field::new("Preference", Kind::U16), Field::new("Locator32", Kind::Ipv4)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::L32, r#"10 10.1.2.0"#, &hex("000a0a010200"));
    }
}
