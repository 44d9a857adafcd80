//! L64: a 64-bit ILNP locator (RFC 6742 §2.3).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | Preference: the lower one is tried first |
//! | 8 | Locator64, in text four groups of hex with colons between |

use super::nid;
use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::L64,
    &[Field::new("Preference", Kind::U16), Field::new("Locator64", Kind::Special(&nid::Groups))],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::L64, "10 2001:0db8:1140:1000", &hex("000a 20010db811401000"));
    }
}
